"""Versions and ranges of versions as the rows write them: 2.7.1+cu126 lies in >=2.6,<2.8."""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBERS = re.compile(r"[0-9]{1,9}(?![0-9])(?:\.[0-9]{1,9}(?![0-9]))*")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)")
_COMPARES: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@lru_cache(2048)
def numbers(version: str | None) -> tuple[int, ...]:
    """Give the numbers at the start of a version, to compare: 8.6.1.post1+x is (8, 6, 1), and no version has none."""
    match = _NUMBERS.match((version or "").strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@lru_cache(2048)
def minor(version: str | None) -> str:
    """Give major and minor of a version: 2.11.0+cu130 is 2.11, and no version is empty."""
    return ".".join(str(part) for part in numbers(version)[:2])


def is_version(text: str) -> bool:
    """Tell whether the text starts like a version."""
    return bool(re.match(r"\d+(\.\d+)+", text.strip()))


def within(version: str, span: str) -> bool:
    """Tell whether a version lies in a range; missing numbers count as 0, and an empty range holds every version.

    What is no version lies in no range.
    """
    bounds = [_bound(part) for part in span.split(",") if part.strip()]
    return bool(numbers(version)) and all(_holds(numbers(version), *bound) for bound in bounds)


def _bound(text: str) -> tuple[str, tuple[int, ...]]:
    match = _BOUND.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no bound of versions")
    return match.group(1), numbers(match.group(2))


def _holds(version: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    length = max(len(version), len(bound))
    padded = (one + (0,) * (length - len(one)) for one in (version, bound))
    return _COMPARES[sign](*padded)
