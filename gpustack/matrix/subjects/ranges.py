"""Versions and ranges of versions: one type for every range that a row, a requirement or a policy writes.

A range is a specifier of PEP 440, asked about whatever a component calls its version; the library ``packaging`` is
loaded when two versions are really compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_NUMBERS = re.compile(r"[0-9]{1,9}(?![0-9])(?:\.[0-9]{1,9}(?![0-9]))*")
_LEADING = re.compile(r"v?(\d{1,9}(?!\d)(?:\.\d{1,9}(?!\d))*)", re.ASCII)
_BOUND = r"(?:[<>]=?|[!=]=)\d{1,9}(?:\.\d{1,9})*"
_PLAIN = re.compile(rf"(?:{_BOUND}(?:,{_BOUND})*)?", re.ASCII)  # what needs no library to be known as a range
_ENDLESS = re.compile(r"\d{1000}")  # Python makes no number of some thousands of digits, and nobody means one


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Some versions of a component, such as ``>=9.8,<9.13``; an empty text is every version."""

    text: str = ""

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Return the range; raises ValueError if the text is no specifier."""
        if not _PLAIN.fullmatch(text):
            specifiers(text)
        return cls(text)

    def holds(self, version: str) -> bool:
        """Return whether the version is in the range; False if it is no version at all."""
        return _holds(self.text, version)

    def __str__(self) -> str:
        return self.text or "any version"


ANY = VersionRange()


def within(version: str, span: str) -> bool:
    """Return whether a version is in the range of a text; what is no version is in no range."""
    return VersionRange.parse(span).holds(version)


@lru_cache(maxsize=4096)
def _holds(text: str, version: str) -> bool:
    found = version_of(version)
    return found is not None and specifiers(text).contains(found, prereleases=True)


@lru_cache(maxsize=4096)
def version_of(text: str) -> Version | None:
    """Return a version to compare: PEP 440 as it is, of anything else (6.17.9-300.fc43) the numbers in front."""
    from packaging.version import Version  # noqa: PLC0415 - a report may need none

    try:
        return Version(text)
    except ValueError:  # no version, or a number that has no end
        leading = _LEADING.match(text.strip())
        return Version(leading.group(1)) if leading else None


@lru_cache(maxsize=1024)
def specifiers(text: str) -> SpecifierSet:
    """Return the bounds of a range; raises ValueError if the text is no specifier."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a report may need none

    return SpecifierSet(text)


@lru_cache(maxsize=1024)
def is_specifier(text: str) -> bool:
    """Return whether a text is a range of versions at all."""
    try:
        specifiers(text)
    except ValueError:
        return False
    return not _ENDLESS.search(text)


@lru_cache(2048)
def numbers(version: str | None) -> tuple[int, ...]:
    """Return the numbers at the start of a version, to compare: 8.6.1.post1+x is (8, 6, 1), and no version has none."""
    match = _NUMBERS.match((version or "").strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@lru_cache(2048)
def minor(version: str | None) -> str:
    """Return major and minor of a version: 2.11.0+cu130 is 2.11, and no version is empty."""
    return ".".join(str(part) for part in numbers(version)[:2])


def is_version(text: str) -> bool:
    """Return whether the text starts like a version."""
    return bool(re.match(r"\d+(\.\d+)+", text.strip()))
