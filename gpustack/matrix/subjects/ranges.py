"""Versions and ranges of versions: one type for every range in a row, a requirement or a policy; and names.

A range is a PEP 440 specifier, applied to whatever a component calls its version; the library ``packaging`` is loaded
only when two versions are actually compared. In names as people type them, case, spaces, hyphens, underscores, a
plural and a library's suffix are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_NUMBERS = re.compile(r"[0-9]{1,9}(?![0-9])(?:\.[0-9]{1,9}(?![0-9]))*")
_LEADING = re.compile(r"v?(\d{1,9}(?!\d)(?:\.\d{1,9}(?!\d))*)", re.ASCII)
_BOUND = r"(?:[<>]=?|[!=]=)\d{1,9}(?:\.\d{1,9})*"
_PLAIN = re.compile(rf"(?:{_BOUND}(?:,{_BOUND})*)?", re.ASCII)  # recognised as a range without the library
_ENDLESS = re.compile(r"\d{1000}")  # Python rejects numbers with thousands of digits, and nobody means one
SMALL = frozenset(
    {"a", "an", "and", "are", "can", "do", "does", "explain", "for", "from", "how", "i", "in", "is", "it", "me", "mean"}
    | {"means", "my", "of", "on", "or", "please", "term", "the", "this", "to", "was", "what", "whats", "why", "with"}
)
LONGEST_NAME = 5  # words
SUFFIX = re.compile(r"\.(?:so|ko)(?:\.\d+)*$|[-_](?:cu|cuda)\d+x?$|\(\)$")
SHORTEST_PLURAL = 4


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Some versions of a component, such as ``>=9.8,<9.13``; an empty text means every version."""

    text: str = ""

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Return the range; raises ValueError if the text is not a specifier."""
        if not _PLAIN.fullmatch(text):
            specifiers(text)
        return cls(text)

    def holds(self, version: str) -> bool:
        """Return whether the version is in the range; False if it is not a version."""
        return _holds(self.text, version)

    def __str__(self) -> str:
        return self.text or "any version"


ANY = VersionRange()


def within(version: str, span: str) -> bool:
    """Return whether a version is in the range of a text; anything that is not a version is in no range."""
    return VersionRange.parse(span).holds(version)


@lru_cache(maxsize=4096)
def _holds(text: str, version: str) -> bool:
    found = version_of(version)
    return found is not None and specifiers(text).contains(found, prereleases=True)


@lru_cache(maxsize=4096)
def version_of(text: str) -> Version | None:
    """Return a comparable version: PEP 440 as it is, for anything else (6.17.9-300.fc43) the leading numbers."""
    from packaging.version import Version  # noqa: PLC0415 - a report may need none

    try:
        return Version(text)
    except ValueError:  # not a version, or a number that is far too long
        leading = _LEADING.match(text.strip())
        return Version(leading.group(1)) if leading else None


@lru_cache(maxsize=1024)
def specifiers(text: str) -> SpecifierSet:
    """Return the bounds of a range; raises ValueError if the text is not a specifier."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a report may need none

    return SpecifierSet(text)


@lru_cache(maxsize=1024)
def is_specifier(text: str) -> bool:
    """Return whether a text is a range of versions."""
    try:
        specifiers(text)
    except ValueError:
        return False
    return not _ENDLESS.search(text)


@lru_cache(2048)
def numbers(version: str | None) -> tuple[int, ...]:
    """Return the numbers at the start of a version, to compare: 8.6.1.post1+x is (8, 6, 1), other texts have none."""
    match = _NUMBERS.match((version or "").strip())
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@lru_cache(2048)
def minor(version: str | None) -> str:
    """Return major and minor of a version: 2.11.0+cu130 is 2.11; empty if it is not a version."""
    return ".".join(str(part) for part in numbers(version)[:2])


@lru_cache(2048)
def is_version(text: str) -> bool:
    """Return whether the text starts like a version."""
    return bool(re.match(r"\d+(\.\d+)+", text.strip()))


def squash(text: str) -> str:
    """Return the letters, digits and pluses of a text in lower case."""
    return re.sub(r"[^a-z0-9+]", "", text.lower())


def spellings(text: str) -> tuple[str, ...]:
    """Return the squashed forms by which the text may be known, its own first."""
    plain = text.strip().strip("\"'`?!,;:.")
    short = SUFFIX.sub("", plain, count=1)
    forms = [squash(plain), squash(short), squash(re.sub(r"^(?:nvidia|lib)[-_]?", "", short, flags=re.IGNORECASE))]
    forms += [form[:-1] for form in forms if form.endswith("s") and len(form) >= SHORTEST_PLURAL]
    return tuple(dict.fromkeys(filter(None, forms)))


def find(text: str, known: Container[str]) -> str | None:
    """Return the known form of a text, or None if it is not known."""
    return next((form for form in spellings(text) if form in known), None)


def cut(words: Sequence[str], known: Container[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the longest known names in a sequence of words, and the longer words that belong to none."""
    names: list[str] = []
    left: list[str] = []
    at = 0
    while at < len(words):
        name, taken = next(_from(words, at, known), ("", 1))
        if name:
            names.append(name)
        elif squash(words[at]) and squash(words[at]) not in SMALL:
            left.append(words[at])
        at += taken
    return tuple(dict.fromkeys(names)), tuple(left)


def _from(words: Sequence[str], at: int, known: Container[str]) -> Iterator[tuple[str, int]]:
    for taken in range(min(LONGEST_NAME, len(words) - at), 0, -1):
        single = taken == 1 and words[at].lower() in SMALL
        name = None if single else find(" ".join(words[at : at + taken]), known)
        if name:
            yield name, taken


def unpacked(text: str, wide: int) -> str:
    """Return a version as people write it, from "8, 7, 0" or 8907 (8.9.7).

    From ``wide`` on, four digits follow the major: for cuDNN from 10000 on (90100 is 9.1.0), for other CUDA libraries
    from 100000 on (120205 is 12.2.5).
    """
    spelled = ".".join(re.findall(r"[0-9]{1,9}", text))
    if "." in spelled or len(spelled) < len("1000"):
        return spelled
    number = int(spelled)
    major = number // (10_000 if number >= wide else 1000)
    return f"{major}.{number % (10_000 if number >= wide else 1000) // 100}.{number % 100}"


def cuda_release(text: str) -> str:
    """Return a CUDA release in its usual form: 12020 is 12.2."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    return f"{number // 1000}.{number % 1000 // 10}" if number >= 1000 else text  # noqa: PLR2004 - 1000 is 1.0


# Conversions from a message's spelling to a fact's value: rows name these after a colon, {found:cudnn}.
SPELLED: Mapping[str, Callable[[str], str]] = {
    "cuda": cuda_release,
    "cudnn": partial(unpacked, wide=10_000),
    "library": partial(unpacked, wide=100_000),
    "id": str.lower,
}
