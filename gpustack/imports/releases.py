"""Releases of a part of the stack that a person compares: an older one works, a newer one does not."""

from __future__ import annotations

import re
from itertools import chain, islice, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from gpustack.matrix.subjects.messages import releases

if TYPE_CHECKING:
    from collections.abc import Collection

    from gpustack.matrix import Matrix

OF_STACK = "a part of the stack"
# An arrow or a dash behind a number says what it does: "24.6.1 -> black".
TURN = re.compile(
    r"(?<=[.!?;])\s|,\s|[;\u3002\uff0c]|\s(?:but|while|whereas|and then|/)\s"
    r"|(?<!\d)\s(?:[-=]>|\u2192|[-\u2013\u2014]+)\s|\s(?:[-=]>|\u2192)\s(?=v?\d)"
)
RELEASE = re.compile(
    r"(?:\b(?P<name>[a-z][a-z+-]{0,30})[ -]?|(?<![\w.:=/-]))v?"
    r"(?P<number>[1-9]\d?(?:\.\d{1,4}){1,3}|[3-6]\d\d(?:\.\d{2,3}){0,2}|20[12]\d{5}|[12]\d{4}|[4-9]\d{3})(?:-?rc\d)?"
    r"(?![\w%]|\.\d|[:/]\d"
    r"| ?(?:[GM]i?B|[MG]?Hz|fps|[WCVxkKM]|ms|s|it/s|t/s|tok\w*|%|°|nm|mm|h|hours?|min\w*|days?|times|steps?|p|px|cards?"
    r"|gpus?|nodes?)\b)",
    re.IGNORECASE,
)
# The first number of a date, a build of Windows, a driver of Intel's, of NVIDIA's, AMD's (a year, as in Windows' own
# numbers of drivers) and Linux; how far apart two of them are at most.
DATES, BUILDS, INTELS, DRIVERS, FAR, NEXT = 20_000_000, 10_000, 4000, 300, 150, 2
YEARS, KERNELS, OF_WINDOWS = range(14, 33), range(3, 8), 4  # numbers in those of Windows
BACK = re.compile(r"\bback\b", re.IGNORECASE)
MAKERS = ("nvidia", "amd", "intel", "linux")
MOST_RELEASES, AHEAD = 30, 40


class Release(NamedTuple):
    """A release that a text names, and of what: "" where nothing is named.

    ``works``, ``turned``: its clause, or else the next one, says that it works.
    """

    number: tuple[int, ...]
    works: bool
    turned: bool
    of: str
    clause: str


def older(text: str, matrix: Matrix) -> str:
    """Return the words of a text that say that an older release of a part of the stack works, or "".

    So do words that date a fault from a release: "since driver 465.89 it stops".
    """
    said = {one.name: one.compiled() for one in releases(matrix)}
    held: list[Release] = []
    dated = ""
    clauses = [[*map(str.strip, TURN.split(line)), ""] for line in text.split("\n")]
    for clause, following in chain.from_iterable(map(pairwise, clauses)):
        plain, after = (said["spared"].sub(" fine ", one) for one in (clause, following))
        fails, works = (bool(said[name].search(plain)) for name in ("fails", "works"))
        behind = not (fails or works or RELEASE.search(after) or said["fails"].search(after))
        turned = behind and bool(said["works"].search(after))  # "410.48 again, usual speed"
        returned = said["back"].search(plain) and said["part"].search(plain)
        if returned and ((works and not fails) or (turned and BACK.search(plain))):
            return clause
        for one in islice(RELEASE.finditer(plain), MOST_RELEASES):
            name = one["name"] or ""
            ours = said["part"].search(name) or said["brand"].search(name) or said["part"].match(plain, one.end() + 1)
            number = tuple(map(int, one["number"].split(".")))
            what = OF_STACK if ours else said["small"].sub("", name)
            held.append(Release(number, works and not fails, turned, what, clause))
            if ours and said["dated"].search(plain, max(0, one.start() - AHEAD), one.start("number")):
                dated = dated or clause
    told = {name for name in MAKERS if said[name].search(text)}
    for good, bad in product(held[:MOST_RELEASES], repeat=2):
        if (good.works or good.turned) and not bad.works and good.clause != bad.clause and _later(good, bad, told):
            return good.clause
    return dated


def _later(older: Release, newer: Release, told: Collection[str]) -> bool:
    """Return whether a release is a later one of the same part of the stack, by their names, if any, or their form.

    ``told``: of what the text tells: NVIDIA's, AMD's or Intel's driver, or Linux.
    """
    first, last, names = older.number[0], newer.number[0], {older.of, newer.of}
    named = OF_STACK in names
    if older.number >= newer.number or not names <= {"", OF_STACK}:
        return False
    for least in (DATES, BUILDS):
        if last >= least:
            return first >= least and named
    longest, alike = max(len(older.number), len(newer.number)), len(older.number) == len(newer.number)
    if last >= INTELS:
        return first >= INTELS and (named or "intel" in told)
    if last >= DRIVERS:
        return first >= DRIVERS and last - first <= FAR and (named or "nvidia" in told or longest > 1)
    year = last in YEARS and alike and (longest == OF_WINDOWS or (longest > NEXT and "amd" in told))
    kernel = first in KERNELS and ("linux" in told or (alike and longest > NEXT))
    return last - first <= NEXT and (named or year or kernel)
