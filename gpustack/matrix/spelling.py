"""Names as people type them: case, spaces, hyphens, underscores, a plural and a library's suffix do not count."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial

SMALL = frozenset(
    {"a", "an", "and", "are", "can", "do", "does", "explain", "for", "from", "how", "i", "in", "is", "it", "me", "mean"}
    | {"means", "my", "of", "on", "or", "please", "term", "the", "this", "to", "was", "what", "whats", "why", "with"}
)
LONGEST_NAME = 5  # words
SUFFIX = re.compile(r"\.(?:so|ko)(?:\.\d+)*$|[-_](?:cu|cuda)\d+x?$|\(\)$")
SHORTEST_PLURAL = 4


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
    """Return the longest known names in a row of words, and the longer words that belong to none."""
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
    """Return a version as people write it: of "8, 7, 0", and of 8907 (8.9.7); from ``wide`` on a major has four more.

    cuDNN is wide from 10000 on (90100 is 9.1.0), other libraries of CUDA from 100000 on (120205 is 12.2.5).
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


# Converts a message's spelling to a fact: rows name these after a colon, {found:cudnn}.
SPELLED: Mapping[str, Callable[[str], str]] = {
    "cuda": cuda_release,
    "cudnn": partial(unpacked, wide=10_000),
    "library": partial(unpacked, wide=100_000),
    "id": str.lower,
}
