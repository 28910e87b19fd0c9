"""Questions as people type them: ``torch 2.9 driver 550 rtx 5090`` and "vllm for my driver" become subjects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from gpustack.ask.releases import FIND, KNOWN
from gpustack.ask.subjects import COMPONENTS, is_gpu, parse
from gpustack.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix

VERSION = re.compile(r"v?(\d{1,4}(?:\.\d{1,5}){0,3}(?:\+\w{1,20})?)")
MINE = frozenset({"my", "this", "here", "mine"})
FILLING = frozenset(
    {
        *("a", "an", "and", "are", "at", "be", "best", "can", "do", "does", "find", "fits", "for", "from", "gives"),
        *("goes", "gpu", "graphics", "card", "have", "i", "in", "install", "is", "it", "latest", "machine", "me"),
        *("need", "needs", "newest", "of", "on", "or", "please", "release", "run", "runs", "the", "that", "to", "use"),
        *("version", "want", "what", "which", "will", "with", "work", "works", "computer", "server", "nvidia", "amd"),
    }
)
LONGEST_NAME = 4  # words in the name of a GPU, such as rtx 4070 ti super


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was meant: the subjects as they are written, and whether they are asked of this very machine."""

    subjects: tuple[str, ...]
    here: bool = False


def understood(texts: Sequence[str], matrix: Matrix) -> Asked:
    """Return what the words mean; what is written as a subject already stays as it is."""
    parts = list(texts)
    if all(_whole(one, matrix) for one in parts) and not any(map(VERSION.fullmatch, parts)):
        return Asked(subjects=tuple(parts))
    words = [word for one in parts for word in ([one] if _whole(one, matrix) else one.split())]
    plain = [word.strip("?!,;\"'") for word in words]
    found = tuple(_subjects([word for word in plain if word.lower() not in FILLING | MINE], matrix))
    if not any(_like(re.split("[=<>!~ ]", one)[0]) or is_gpu(one, matrix) for one in found):
        return Asked(subjects=tuple(parts))  # none of it is known: it is refused as it was typed
    return Asked(subjects=found, here=any(word.lower() in MINE for word in plain))


def nearest(name: str) -> str | None:
    """Return the name that was perhaps meant; None for one that is known, or like no other."""
    known = _names()
    plain = canonicalize_name(name) if name else ""
    return None if plain in known else next(iter(get_close_matches(plain, sorted(known), 1, 0.7)), None)


def _like(word: str) -> bool:
    """Return whether a word is a name, or near enough to one to be a misspelt one."""
    return canonicalize_name(word) in _names() or nearest(word) is not None


def _names() -> frozenset[str]:
    return frozenset({*COMPONENTS, *FIND, *KNOWN})


def _whole(text: str, matrix: Matrix) -> bool:
    """Return whether a text is one subject: a requirement, or the name of a GPU."""
    try:
        parse(text, matrix)
    except UsageError:
        return False
    return True


def _subjects(words: list[str], matrix: Matrix) -> Iterator[str]:
    at = 0
    while at < len(words):
        word, after = words[at], words[at + 1] if at + 1 < len(words) else ""
        version = VERSION.fullmatch(after)
        longest = min(LONGEST_NAME, len(words) - at)
        card = next((size for size in range(longest, 0, -1) if _card(words[at : at + size], matrix)), 0)
        if canonicalize_name(word) in _names() and version:
            yield f"{word}=={version[1]}"
            at += 2
        elif card:
            yield " ".join(words[at : at + card])
            at += card
        elif version and _like(word):
            yield f"{word}=={version[1]}"
            at += 2
        else:
            if canonicalize_name(word) not in OF_A_MACHINE or not at:
                yield word
            at += 1


OF_A_MACHINE = frozenset({"driver", "cuda", "gpu", "python"})  # without a version, those that the machine has


def _card(words: Sequence[str], matrix: Matrix) -> bool:
    """Return whether words name a GPU; a bare number is a version of what stands before it."""
    return not (len(words) == 1 and VERSION.fullmatch(words[0])) and is_gpu(" ".join(words), matrix)
