"""Numbers and names of errors in what somebody typed or pasted: which tables they can be of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.matrix.spelling import squash
from gpustack.matrix.subjects.numbers import FAMILIES, numbers

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.numbers import Family, Number

NUMBER = r"(0x[0-9a-f]{1,8}|\d{1,9})(?!\w|\.\d)"
ALONE = re.compile(rf"\W*{NUMBER}\W*", re.IGNORECASE)
XID = re.compile(
    rf"(?<![a-z])(s?xid)(?:s|[ _-]?errors?)?\s{{0,8}}(?:\([^)\n]{{0,40}}\))?[\s:#=_-]{{0,16}}{NUMBER}", re.IGNORECASE
)
ANSWER = re.compile(
    rf"(?:error|err|code|status|result|returned|returns|return|rc|failed with|cuda|nvml|cudnn|cublas|nccl)"
    rf"[\s:=#(_-]{{0,16}}(?:code|error|number|status|\w{{0,30}}\()?[\s:=#(]{{0,16}}{NUMBER}",
    re.IGNORECASE,
)
ASIDE = re.compile(
    rf"[(\[]\s{{0,8}}(?:error|code)?\s{{0,8}}{NUMBER}\s{{0,8}}[)\]]|(?<![\w.]){NUMBER}\s{{1,8}}error\b", re.IGNORECASE
)
SHORTEST_SPELT = 10
USUAL = 3  # a number alone is an Xid, CUDA's or NVML's; of the others only where they know it


def mentioned(text: str, matrix: Matrix) -> tuple[tuple[Number, ...], tuple[str, ...]]:
    """Give the numbers that a text names, each once, and the readings of it that no table knows."""
    held = {family.id: numbers(matrix, family) for family in FAMILIES}
    own = tuple(one for table in held.values() for one in table if squash(text) in _own(one))
    if own:
        return own, ()
    found: list[Number] = list(_named(text, held))
    missing: list[str] = []
    for family, number, meant in _read(text):
        known = [one for one in held[family.id] if one.number == number]
        found += known
        missing += [f"{family.title} {number}"] * (meant and not known)
    found += _spelt(text, held, found)
    once = {(one.family.id, one.number): one for one in found}
    return tuple(once.values()), tuple(dict.fromkeys(missing))


def _own(one: Number) -> tuple[str, str]:
    """Give what we call a number ourselves: cudnn9-1001 and cuDNN 9 status 1001."""
    return squash(f"{one.family.id}{one.number}"), squash(f"{one.family.title}{one.number}")


def _named(text: str, held: dict[str, tuple[Number, ...]]) -> Iterator[Number]:
    """Give the numbers whose names stand in the text, whatever their case and underscores."""
    said = {squash(word) for word in re.findall(r"[A-Za-z][A-Za-z0-9_]{5,}", text)} | {squash(text)}
    for table in held.values():
        yield from (one for one in table if said & {squash(name) for name in (one.name, *one.also)})


def _read(text: str) -> Iterator[tuple[Family, int, bool]]:
    """Give the numbers in a text, each with a family that it can be of, and whether it is surely meant as one."""
    alone = ALONE.fullmatch(text)
    if alone:
        yield from ((family, _int(alone[1]), place < USUAL) for place, family in enumerate(FAMILIES))
        return
    for found in XID.finditer(text):
        yield from ((family, _int(found[2]), True) for family in FAMILIES if family.id == found[1].lower())
    if re.search(r"xid", text, re.IGNORECASE):
        return
    said = [one for one in FAMILIES if re.search(one.said, text, re.IGNORECASE)]
    for pattern in (ANSWER, ASIDE):
        for found in pattern.finditer(text):
            number = _int(next(filter(None, found.groups())))
            yield from ((family, number, bool(said)) for family in _answers(said or FAMILIES))


def _answers(families: Sequence[Family]) -> tuple[Family, ...]:
    """Give the families whose numbers are answers of a library, not lines of the kernel log."""
    return tuple(one for one in families if "xid" not in one.id)


def _spelt(text: str, held: dict[str, tuple[Number, ...]], found: Sequence[Number]) -> Iterator[Number]:
    """Give the number whose meaning the text says in the library's own words, the longest; not where one is named."""
    line = squash(text)
    told = {one.family.id for one in found}
    other = any(re.search(one.said, text, re.IGNORECASE) for one in FAMILIES if not one.spelt)
    for family in FAMILIES:
        spoken = bool(re.search(family.said, text, re.IGNORECASE))
        if family.spelt and family.id not in told and (spoken or not other):
            fits = [one for one in held[family.id] if len(squash(one.meaning)) >= SHORTEST_SPELT]
            fits = [one for one in fits if squash(one.meaning) in line]
            yield from sorted(fits, key=lambda one: -len(one.meaning))[:1]


def _int(text: str) -> int:
    return int(text, 16 if text.lower().startswith("0x") else 10)
