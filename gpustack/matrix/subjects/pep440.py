"""Versions and ranges as PEP 440 has them, by the library ``packaging``: loaded when two are really compared."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

_LEADING = re.compile(r"v?(\d{1,9}(?!\d)(?:\.\d{1,9}(?!\d))*)", re.ASCII)
_ENDLESS = re.compile(r"\d{1000}")  # Python makes no number of some thousands of digits, and nobody means one


@lru_cache(maxsize=4096)
def version_of(text: str) -> Version | None:
    """Give a version to compare: PEP 440 as it stands, of anything else (6.17.9-300.fc43) the numbers in front."""
    try:
        return Version(text)
    except ValueError:  # no version, or a number that has no end
        numbers = _LEADING.match(text.strip())
        return Version(numbers.group(1)) if numbers else None


@lru_cache(maxsize=1024)
def is_specifier(text: str) -> bool:
    """Tell whether a text is a range of versions at all."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return not _ENDLESS.search(text)


@lru_cache(maxsize=1024)
def specifiers(text: str) -> SpecifierSet:
    """Give the bounds of a range; raises ValueError where the text is no specifier."""
    return SpecifierSet(text)
