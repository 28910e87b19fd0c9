"""What ``pip inspect`` prints: of each distribution its name and version, and the Python's own environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.snapshots import first

BEGIN = re.compile(r'\{\s*"version"\s*:\s*"1"\s*,\s*"pip_version"')
PLAIN = re.compile(r"[\w.+!-]{1,80}")


def told(text: str) -> str:
    """Give a text in which each such report is the list that ``pip freeze`` would give; descriptions tell nothing."""
    parts: list[str] = []
    at = 0
    while begun := BEGIN.search(text, at):
        parts.append(text[at : begun.start()])
        try:
            said, at = first(text, begun.start(), "what pip inspect printed")
        except (ValueError, RecursionError):
            return "\n".join(parts)
        parts += _lines(said)
    return "\n".join((*parts, text[at:]))


def _lines(said: Mapping[str, Any]) -> Iterator[str]:
    around = said.get("environment")
    python = around.get("python_full_version") if isinstance(around, dict) else None
    if isinstance(python, str) and PLAIN.fullmatch(python):
        yield f"Python {python}"
    held = said.get("installed")
    for one in held if isinstance(held, list) else ():
        about = one.get("metadata") if isinstance(one, dict) else None
        name, version = (about.get("name"), about.get("version")) if isinstance(about, dict) else (None, None)
        if isinstance(name, str) and isinstance(version, str) and PLAIN.fullmatch(name) and PLAIN.fullmatch(version):
            yield f"{name}=={version}"
