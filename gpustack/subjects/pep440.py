"""Versions and ranges as PEP 440 has them, by the library ``packaging``: loaded when two are really compared."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_LEADING = re.compile(r"v?(\d+(?:\.\d+)*)", re.ASCII)


@lru_cache(maxsize=4096)
def version_of(text: str) -> Version | None:
    """Give a version to compare: PEP 440 as it stands, of anything else (6.17.9-300.fc43) the numbers in front."""
    try:
        return Version(text)
    except InvalidVersion:
        numbers = _LEADING.match(text.strip())
        return Version(numbers.group(1)) if numbers else None


@lru_cache(maxsize=1024)
def is_specifier(text: str) -> bool:
    """Tell whether a text is a range of versions at all."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


@lru_cache(maxsize=1024)
def specifiers(text: str) -> SpecifierSet:
    """Give the bounds of a range; raises ValueError where the text is no specifier."""
    return SpecifierSet(text)
