"""Recorded machines of ``tests/hosts`` as the snapshots that ``--from`` reads."""

from __future__ import annotations

import json
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[1] / "hosts"


def record(machine: str, folder: Path) -> Path:
    """Write the facts of a recorded machine into a folder and return the file."""
    facts = json.loads((HOSTS / f"{machine}.json").read_text("utf-8"))["facts"]
    path = folder / f"{machine}.json"
    path.write_text(json.dumps(facts), "utf-8")
    return path
