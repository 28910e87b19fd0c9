"""On which line of a TOML text each key stands, which ``tomllib`` does not tell."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

END = re.compile(r"\]|\}|\"\"\"|'''")  # a statement of several lines ends on a line with one of these
Key = tuple[str | int, ...]


def find(text: str) -> Mapping[Key, int]:
    """Give the line of every key and table of a text that is TOML; tables of an array have their number in the key."""
    found: dict[Key, int] = {}
    head: Key = ()
    counts: dict[Key, int] = {}
    for number, statement, said in _statements(text):
        if statement.lstrip().startswith("["):
            head = _head(said, counts)
            found.setdefault(head, number)
        else:
            for key in _keys(said):
                found.setdefault((*head, *key), number)
    return found


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Give each statement with the line on which it begins and what it says; a blank line or a remark is none."""
    begun, held = 0, ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not held and not line.partition("#")[0].strip():
            continue
        begun, first = (begun, False) if held else (number, True)
        held = line if first else f"{held}\n{line}"
        said = _parsed(held) if first or END.search(line) else None
        if said is not None:
            yield begun, held, said
            held = ""


def _parsed(statement: str) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads(statement)
    except (ValueError, RecursionError):
        return None


def _head(said: Mapping[str, Any], counts: dict[Key, int]) -> Key:
    """Give the place of a [table], or of one more of an [[array of tables]]."""
    place: Key = ()
    held: Any = said
    while held:
        if isinstance(held, list):
            counts[place] = counts.get(place, -1) + 1
            return (*place, counts[place])
        (name, held), *_ = held.items()
        place = (*place, name)
        if place in counts and not isinstance(held, list):
            place = (*place, counts[place])
    return place


def _keys(said: Mapping[str, Any]) -> Iterator[Key]:
    """Give every key of a statement, and those inside its value where that is a table or a list of tables."""
    for name, held in said.items():
        yield (name,)
        if isinstance(held, dict):
            yield from ((name, *key) for key in _keys(held))
        elif isinstance(held, list):
            for number, one in enumerate(held):
                if isinstance(one, dict):
                    yield (name, number)
                    yield from ((name, number, *key) for key in _keys(one))
