"""A table of a TOML file, asked for values of a kind: what is wrong is one line with the file, the line and the key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from gpustack.errors import InputError

Made = TypeVar("Made")
BARE = re.compile(r"[A-Za-z0-9_-]+")
MOST_SHOWN = 40
MOST = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What is held, where it stands in the file (``at``), and on which lines of which file keys stand."""

    held: Mapping[str, Any]
    path: str
    lines: Mapping[tuple[str | int, ...], int]
    at: tuple[str | int, ...] = ()

    def wrong(self, says: str, *key: str | int) -> InputError:
        """Give the error that says this of a key."""
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
        """Give a text, or None where there is none; an empty one is wrong."""
        value = self.held.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(f"a text is wanted, not {shown(value)}", key)
        return value

    def needed(self, key: str) -> str:
        """Give a text that must be there."""
        value = self.text(key)
        if value is None:
            raise self.wrong(f"{key} is missing")
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Give texts: a list of them, or one."""
        value = self.held.get(key)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(f"a text or a list of texts is wanted, not {shown(value)}", key)
        return tuple(value)

    def number(self, key: str) -> float | None:
        """Give a number above zero."""
        value = self.held.get(key)
        if value is not None and not (_is_number(value) and value > 0):
            raise self.wrong(f"a number above 0 is wanted, not {shown(value)}", key)
        return None if value is None else float(value)

    def whole(self, key: str) -> int | None:
        """Give a whole number, zero or more."""
        value = self.held.get(key)
        if value is not None and not (isinstance(value, int) and _is_number(value) and value >= 0):
            raise self.wrong(f"a whole number, 0 or more, is wanted, not {shown(value)}", key)
        return value

    def day(self, key: str) -> date | None:
        """Give a day, written as a date of TOML or as a text."""
        value = self.held.get(key)
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        elif value is None or (isinstance(value, date) and not isinstance(value, datetime)):
            return value
        raise self.wrong(f"a day such as 2027-01-31 is wanted, not {shown(value)}", key)

    def choice(self, key: str, among: Sequence[str]) -> str | None:
        """Give one of some words."""
        value = self.held.get(key)
        if value is not None and value not in among:
            raise self.wrong(f"{' or '.join(among)} is wanted, not {shown(value)}", key)
        return value

    def table(self, key: str) -> Table | None:
        """Give a table inside this one, or None where there is none."""
        value = self.held.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(f"a table is wanted, not {shown(value)}", key)
        return None if value is None else self.inside(value, key)

    def tables(self, key: str) -> Iterator[Table]:
        """Give the tables of an array of tables."""
        value = self.held.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(f"tables are wanted ([[{key}]]), not {shown(value)}", key)
        yield from (self.inside(one, key, number) for number, one in enumerate(value))

    def each(self, key: str, make: Callable[[Table, str], Made]) -> dict[str, Made]:
        """Give what a function makes of each key of a table inside this one, in the order of the file."""
        inside = self.table(key)
        return {name: make(inside, name) for name in inside.held} if inside else {}

    def inside(self, held: Mapping[str, Any], *key: str | int) -> Table:
        """Give what is held below a key as a table."""
        return Table(held=held, path=self.path, lines=self.lines, at=(*self.at, *key))


def line_of(place: tuple[str | int, ...], lines: Mapping[tuple[str | int, ...], int]) -> int:
    """Give the line of a key, or of what is nearest around it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def named(place: tuple[str | int, ...]) -> str:
    """Give a key as TOML writes it, and a colon."""
    told = ""
    for part in place:
        word = f"[{part}]" if isinstance(part, int) else part if BARE.fullmatch(part) else shown(part)
        told += word if not told or isinstance(part, int) else f".{word}"
    return f"{told}: " if told else ""


def shown(value: object) -> str:
    """Give a value in a few plain letters, harmless wherever it is printed."""
    try:
        plain = json.dumps(value, default=str).replace("\x7f", "\\u007f")
    except ValueError:  # a number of thousands of digits
        plain = "a number beyond all measure"
    return plain if len(plain) <= MOST_SHOWN else f"{plain[: MOST_SHOWN - 3]}..."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST < value < MOST
