"""A table of a TOML file, read by type: an error is one line with the file, the line number and the key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from gpustack.assets import toml
from gpustack.errors import InputError
from gpustack.model import record

Made = TypeVar("Made")
BARE = re.compile(r"[A-Za-z0-9_-]+")
MOST_SHOWN = 40
MOST = 1e12
END = re.compile(r"\]|\}|\"\"\"|'''")  # a statement of several lines ends on a line with one of these
Key = tuple[str | int, ...]


@record
class Table:
    """The values, where they are in the file (``at``), and the lines of its keys in which file."""

    held: Mapping[str, Any]
    path: str
    lines: Mapping[Key, int]
    at: Key = ()

    def wrong(self, says: str, *key: str | int) -> InputError:
        """Return the error that says this of a key."""
        place = (*self.at, *key)
        return InputError(f"{self.path}:{line_of(place, self.lines)}: {named(place)}{says}")

    def only(self, known: Sequence[str]) -> None:
        """Raise InputError for a key that is not known."""
        for key in self.held:
            if key not in known:
                near = get_close_matches(key, known, 1)
                meant = f"did you mean {near[0]}?" if near else f"known here are {', '.join(known)}"
                raise self.wrong(f"there is no such key; {meant}", key)

    def text(self, key: str) -> str | None:
        """Return a text, or None if there is none; an empty one is wrong."""
        value = self.held.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(f"text is expected, not {shown(value)}", key)
        return value

    def needed(self, key: str) -> str:
        """Return a text that must be there."""
        value = self.text(key)
        if value is None:
            raise self.wrong(f"{key} is missing")
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return texts: a list of them, or one."""
        value = self.held.get(key)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(f"text or a list of texts is expected, not {shown(value)}", key)
        return tuple(value)

    def number(self, key: str) -> float | None:
        """Return a number above zero."""
        value = self.held.get(key)
        if value is not None and not (_is_number(value) and value > 0):
            raise self.wrong(f"a number above 0 is expected, not {shown(value)}", key)
        return None if value is None else float(value)

    def whole(self, key: str) -> int | None:
        """Return a whole number, zero or more."""
        value = self.held.get(key)
        if value is not None and not (isinstance(value, int) and _is_number(value) and value >= 0):
            raise self.wrong(f"a whole number, 0 or more, is expected, not {shown(value)}", key)
        return value

    def day(self, key: str) -> date | None:
        """Return a day, written as a date of TOML or as a text."""
        value = self.held.get(key)
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        elif value is None or (isinstance(value, date) and not isinstance(value, datetime)):
            return value
        raise self.wrong(f"a date such as 2027-01-31 is expected, not {shown(value)}", key)

    def choice(self, key: str, among: Sequence[str]) -> str | None:
        """Return one of some words."""
        value = self.held.get(key)
        if value is not None and value not in among:
            raise self.wrong(f"{' or '.join(among)} is expected, not {shown(value)}", key)
        return value

    def table(self, key: str) -> Table | None:
        """Return a table inside this one, or None if there is none."""
        value = self.held.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(f"a table is expected, not {shown(value)}", key)
        return None if value is None else self.inside(value, key)

    def tables(self, key: str) -> Iterator[Table]:
        """Return the tables of an array of tables."""
        value = self.held.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(f"tables are expected ([[{key}]]), not {shown(value)}", key)
        yield from (self.inside(one, key, number) for number, one in enumerate(value))

    def each(self, key: str, make: Callable[[Table, str], Made]) -> dict[str, Made]:
        """Return what a function makes of each key of a table inside this one, in the order of the file."""
        inside = self.table(key)
        return {name: make(inside, name) for name in inside.held} if inside else {}

    def inside(self, held: Mapping[str, Any], *key: str | int) -> Table:
        """Return what is held below a key as a table."""
        return Table(held=held, path=self.path, lines=self.lines, at=(*self.at, *key))


def line_of(place: Key, lines: Mapping[Key, int]) -> int:
    """Return the line of a key, or of what is nearest around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def named(place: Key) -> str:
    """Return a key as TOML writes it, and a colon."""
    told = ""
    for part in place:
        word = f"[{part}]" if isinstance(part, int) else part if BARE.fullmatch(part) else shown(part)
        told += word if not told or isinstance(part, int) else f".{word}"
    return f"{told}: " if told else ""


def shown(value: object) -> str:
    """Return a value in a few plain letters, harmless wherever it is printed."""
    try:
        plain = json.dumps(value, default=str).replace("\x7f", "\\u007f")
    except ValueError:  # a number of thousands of digits
        plain = "a number beyond all measure"
    return plain if len(plain) <= MOST_SHOWN else f"{plain[: MOST_SHOWN - 3]}..."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST


def find_lines(text: str) -> Mapping[Key, int]:
    """Return the line of every key and table of a TOML text; tables of an array have their number in the key."""
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
    """Return each statement with the line on which it begins and what it says; a blank line or a remark is none."""
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
        return toml(statement)
    except (ValueError, RecursionError):
        return None


def _head(said: Mapping[str, Any], counts: dict[Key, int]) -> Key:
    """Return the place of a [table], or of one more of an [[array of tables]]."""
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
    """Return every key of a statement, and those inside its value where that is a table or a list of tables."""
    for name, held in said.items():
        yield (name,)
        if isinstance(held, dict):
            yield from ((name, *key) for key in _keys(held))
        elif isinstance(held, list):
            for number, one in enumerate(held):
                if isinstance(one, dict):
                    yield (name, number)
                    yield from ((name, number, *key) for key in _keys(one))
