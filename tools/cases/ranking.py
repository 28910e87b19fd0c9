"""The index of candidates, built from the recorded cases and the words of findings and messages, and how well it ranks.

The weights are those of a complement naive Bayes over words weighted by rarity (Rennie and others, "Tackling the poor
assumptions of naive Bayes text classifiers", 2003): the evidence for a cause is what the other causes lack.
docs/decisions/0012 says why it was chosen.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack import assets
from gpustack.diagnose import rule
from gpustack.diagnose.candidates import features
from gpustack.diagnose.machine.completing import complete
from gpustack.imports import load_texts
from gpustack.imports.messages import clean
from gpustack.matrix.subjects.candidates import DIGITS, NOTHING_WRONG, SCALE, Index, index, tokens
from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.matrix.subjects.messages import patterns
from gpustack.matrix.subjects.terms import leads_of

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from tools.cases import Case

FILE = assets.MATRIX / "candidates.toml"
LEAST_OFTEN = 2  # machines whose text contains a word
SMOOTHING = 0.3
OF_FINDINGS, OF_MESSAGES = 1.0, 1.0  # the weight of a finding's or a message row's text relative to a machine
MOST_OF_CASE = 32  # words that identify a recorded machine
SHARPNESS = 5.0  # fitted: with more or less, the true cause is more surprising
FOLDS = 10
_SYNTAX = re.compile(r"\(\?P<\w+>|\(\?[:!=<]+|\\[a-zA-Z]|\[[^\]]*\]|\{[^}]*\}")  # of regular expressions, not words
_CHOICE = re.compile(r"\{\w*:([^{}|]+\|[^{}]+)\}")  # of words in a text
SPELT = frozenset("abcdefghijklmnopqrstuvwxyz0123456789 _.+-:=TF")
# Findings that are not faults of a machine: about gpustack itself, or about what works.
NO_CAUSES = frozenset(
    {
        *(
            "gpu-stack-not-examined",
            "former-fault",
            "newer-than-matrix",
            "matrix-old",
            "component-not-seen",
            "another-environment-works",
        ),
        *("persistence-mode-off", "debug-variable-set", "arch-by-ptx-only", "gpu-passed-through"),
    }
)
HEAD = """\
# Likely causes: what speaks for which, from the recorded cases and the words of findings and messages. Made by
# `python -m tools.cases index`, never edited by hand; docs/decisions/0012 says how. To measure the next: record its
# machine as a case, and make the file again.
schema = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Observations on a machine whose cause is known, or the words of a finding or a message, with its ``weight``."""

    cause: str
    seen: frozenset[str]
    source: str = ""
    weight: float = 1.0
    repository: str = ""


def document(case: Case, matrix: Matrix) -> Document:
    """Return the observations on a recorded case."""
    facts = replace(complete(load_texts(case.files, matrix), matrix), words=())
    words = (tokens(clean(text)) for text in case.inputs.values())
    seen = frozenset().union(features(facts), *words)
    cause = NOTHING_WRONG if case.healthy else case.root_cause
    return Document(
        cause=cause, seen=frozenset(filter(SPELT.issuperset, seen)), source=case.source, repository=case.repository
    )


def vocabulary(matrix: Matrix) -> Iterator[Document]:
    """Yield the words of findings and of messages."""
    causes = [one for one in rule.ids() if one not in NO_CAUSES]
    for one in causes:
        yield Document(cause=one, seen=tokens(rule.explain(one) or ""), weight=OF_FINDINGS)
    for row in patterns(matrix):
        if led := [one for one in (row.finding, *row.likely) if one in causes]:
            words = _SYNTAX.sub(" ", _CHOICE.sub(r" \1 ", row.wording))
            seen = tokens(row.says) | tokens(words) | {f"message:{row.kind}"}
            yield from [Document(cause=one, seen=seen, weight=OF_MESSAGES / LEAST_OFTEN) for one in led] * LEAST_OFTEN
    for family in FAMILIES:
        for number in numbers(matrix, family):
            seen = tokens(f"{' '.join((number.name, *number.also))} {number.meaning or ''}")
            for one in leads_of(matrix, family.id, number.number):
                if one in causes:
                    yield from [Document(cause=one, seen=seen, weight=OF_MESSAGES / 2)] * LEAST_OFTEN  # all names count


def built(documents: Sequence[Document]) -> Index:
    """Return the index built from these documents."""
    often = Counter(name for one in documents for name in one.seen)
    tells = {name: log((len(documents) + 1) / (times + 1)) for name, times in often.items() if times >= LEAST_OFTEN}
    causes = tuple(sorted({one.cause for one in documents}))
    held: dict[str, dict[str, float]] = {name: defaultdict(float) for name in sorted(tells)}
    totals = dict.fromkeys(causes, 0.0)
    for one in documents:
        for name, part in _shares(one.seen, tells).items():
            held[name][one.cause] += part * one.weight
            totals[one.cause] += part * one.weight
    whole = sum(totals.values()) + SMOOTHING * len(tells)
    return Index(
        causes=causes,
        bases=tuple(round(log(whole - totals[cause]), 4) for cause in causes),
        sharpness=SHARPNESS,
        features={name: _line(tells[name], parts, causes) for name, parts in held.items()},
        names=frozenset(),
        cases=tuple(_cases(documents, held, causes)),
    )


def _shares(seen: Collection[str], tells: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each known word in a document, normalised to length 1."""
    known = {name: tells[name] for name in seen if name in tells}
    length = sqrt(sum(one**2 for one in known.values())) or 1.0
    return {name: one / length for name, one in known.items()}


def _line(tells: float, parts: Mapping[str, float], causes: Sequence[str]) -> str:
    whole = sum(parts.values()) + SMOOTHING
    weights = ((causes.index(cause), log(whole / (whole - part))) for cause, part in parts.items())
    return _digits(tells * SCALE) + "".join(
        f"{_digits(at)}{_digits(weight * SCALE)}" for at, weight in sorted(weights) if round(weight * SCALE)
    )


def _digits(number: float) -> str:
    """Return a number in two digits, capped at the largest they can express."""
    return _spelt(min(round(number), DIGITS**2 - 1)).rjust(2, "0")


def _spelt(number: int) -> str:
    high, low = divmod(number, DIGITS)
    return (_spelt(high) if high else "") + "0123456789abcdefghijklmnopqrstuvwxyz"[low]


def _cases(
    documents: Iterable[Document], held: Mapping[str, Mapping[str, float]], causes: Sequence[str]
) -> Iterator[str]:
    """Yield the threads of faulty machines with their strongest evidence for the cause."""
    places = {name: at for at, name in enumerate(held)}
    for one in documents:
        if one.source and one.cause != NOTHING_WRONG:
            known = one.seen & held.keys()
            own = {name: held[name].get(one.cause, 0.0) / sum(held[name].values()) for name in known}
            first = sorted(own, key=lambda name: (-own[name], name))[:MOST_OF_CASE]
            named = " ".join(sorted(_spelt(places[name]) for name in first))
            yield f"{causes.index(one.cause)}\t{one.source}\t{named}"


def write(made: Index, path: Path = FILE) -> None:
    """Write the index as the table that ships."""
    features = "\n".join(f"{name}\t{line}" for name, line in made.features.items())
    cases = "\n".join(made.cases)
    causes, bases = " ".join(made.causes), " ".join(map(str, made.bases))
    path.write_text(
        f"{HEAD}causes = '{causes}'\nbases = '{bases}'\nsharpness = {made.sharpness}\n"
        f"features = '''\n{features}\n'''\ncases = '''\n{cases}\n'''\n",
        "utf-8",
    )
    index.cache_clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How often the cause of a faulty machine was ranked first, or among the first, and how surprising it was.

    ``surprise`` is the mean of -log of the true cause's weight, including healthy machines.
    """

    machines: int
    first: int
    three: int
    five: int
    surprise: float

    def __str__(self) -> str:
        """The figures on one line."""
        first, three, five = (number / self.machines for number in (self.first, self.three, self.five))
        return f"{self.machines} machines: first {first:.1%}, of three {three:.1%}, of five {five:.1%}"


def validate(documents: Sequence[Document], vocabulary: Sequence[Document]) -> tuple[Score, Score]:
    """Return how well machines are ranked using only other repositories' cases, and how well by frequency alone."""
    ranked, common = [], []
    for fold in range(FOLDS):
        known = [one for one in documents if _fold(one) != fold]
        often = [cause for cause, _ in Counter(one.cause for one in known).most_common()]
        made = built((*known, *vocabulary))
        for one in documents:
            if _fold(one) == fold:
                ranked.append((one.cause, {each.cause: each.weight for each in made.rank(one.seen)}))
                common.append((one.cause, {cause: 1.0 / (at + 2) ** 2 for at, cause in enumerate(often)}))
    return _scored(ranked), _scored(common)


def _scored(ranked: Iterable[tuple[str, Mapping[str, float]]]) -> Score:
    places, surprise = [], 0.0
    for number, (cause, weights) in enumerate(ranked, 1):
        surprise += (-log(max(weights.get(cause, 0.0), 1e-6)) - surprise) / number
        order = sorted((one for one in weights if one != NOTHING_WRONG), key=lambda one: -weights[one])
        if cause != NOTHING_WRONG:
            places.append(order.index(cause) if cause in order else len(order) + 5)
    first, three, five = (sum(place < most for place in places) for most in (1, 3, 5))
    return Score(machines=len(places), first=first, three=three, five=five, surprise=surprise)


def _fold(one: Document) -> int:
    return sha256(one.repository.encode()).digest()[0] % FOLDS
