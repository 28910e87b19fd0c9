"""Files of /sys and /proc recorded on real machines, written below a host's root; each tree names its source.

One file of ``tests/hosts/trees`` holds a tree: where it is from, and every file with its text. The link of a PCI device
to its driver is made from its ``uevent``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TREES = Path(__file__).parent / "hosts" / "trees"


def plant(name: str, root: Path) -> Path:
    """Write a recorded tree below root, with its links; return root."""
    for path, text in _read(name)["files"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        driver = re.search(r"^DRIVER=(\S+)$", (device / "uevent").read_text("utf-8"), re.MULTILINE)
        if driver and not (device / "driver").is_symlink():
            (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver[1]}")
    return root


def named(maker: str) -> list[str]:
    """Return the names of the trees of one maker's GPUs."""
    return sorted(path.stem for path in TREES.glob(f"{maker}-*.toml"))


def source(name: str) -> str:
    """Return the recorded source of a tree."""
    return str(_read(name)["source"])


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((TREES / f"{name}.toml").read_text("utf-8"))
