"""The index of candidates, built from the recorded cases and the words of findings and messages, and how well it ranks.

The weights are the sum of three ways of learning from words weighted by rarity: a ridge regression of the causes,
solved for a weight of each document, of which there are fewer than words, a logistic regression, and a narrow one
(``narrow``). docs/decisions/0012 says why the first was chosen, 0032 and 0041 why the others, and 0033 how weights
are written.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from gpustack import assets
from gpustack.diagnose import rule
from gpustack.diagnose.candidates import features
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.events import MESSAGE
from gpustack.imports import load_texts
from gpustack.imports.messages import clean
from gpustack.matrix.subjects.candidates import (
    DIGITS,
    NOTHING_WRONG,
    OF_STEM,
    SCALE,
    SQUARES,
    WORKS,
    ZERO,
    Index,
    index,
    tokens,
)
from gpustack.matrix.subjects.candidates import NO_CAUSES as OTHERS
from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.matrix.subjects.messages import patterns
from gpustack.matrix.subjects.terms import leads_of
from tools.cases import narrow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpustack.matrix import Matrix
    from tools.cases import Case

    Numbers = NDArray[np.float32]

FILE = assets.MATRIX / "candidates.toml"
WORDINGS = Path(__file__).with_name("wordings")  # how people and programs may put each cause, in our own words
LEAST_OFTEN, ABROAD, PAIRS = 2, 3, 5  # texts that contain a word, one of another alphabet, or a pair of neighbours
RIDGE = 1.0  # how much a weight costs
PENALTY = 0.1  # the same for the logistic regression
TRIES = {"maxiter": 40, "maxcor": 5}  # its steps: more of them rank no better
NARROW = 0.5  # how much the narrow regression counts
LEAST = 0.08  # weights nearer to 0 are left out
RECOGNISED, NEIGHBOURS = 1.5, 0.5  # what a message, and a pair of words, tells relative to a word as rare
# The weight of the text of a finding or of a message row, and of a wording, relative to a machine.
OF_FINDINGS, OF_MESSAGES, OF_WORDINGS = 1.0, 0.5, 0.2
MOST_OF_CASE = 14  # words that identify a recorded machine
RIDGES = 10.0  # by which the ridge regression's scores are multiplied: with more or less it ranks worse
SHARPNESS = 6.5  # by which all are then, so that shares are as likely as they say
FOLDS = 10
EXACT, MOST_STEPS = 1e-3, 200  # what may be left of the equations, and the steps after which they are given up
_SYNTAX = re.compile(r"\(\?P<\w+>|\(\?[:!=<]+|\\[a-zA-Z]|\[[^\]]*\]|\{[^}]*\}")  # of regular expressions, not words
_CHOICE = re.compile(r"\{\w*:([^{}|]+\|[^{}]+)\}")  # of words in a text
# Names of features: of ASCII, Cyrillic, or Japanese, Chinese and Korean characters.
SPELT = re.compile(rf"[a-z0-9 _.+:=TF{OF_STEM}\u0430-\u044f\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3-]+")
# Findings that are not faults of a machine: about gpustack itself, about what works, or that only say what fails.
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
        *("persistence-mode-off", "gpu-passed-through"),
        *("several-cudnn-copies", "stub-on-library-path"),
        *("cuda-init-failed", "nvml-init-failed", "framework-fails-on-gpu"),
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
    cause = (WORKS if case.works else NOTHING_WRONG) if case.healthy else case.root_cause
    return Document(cause=cause, seen=_seen(case.files, matrix), source=case.source, repository=case.repository)


def _seen(files: Mapping[str, bytes], matrix: Matrix) -> frozenset[str]:
    facts = replace(complete(load_texts(files, matrix, ours=True), matrix), words=())
    words = (tokens(clean(text.decode())) for text in files.values())
    return frozenset(filter(SPELT.fullmatch, frozenset().union(features(facts), *words)))


def wordings(matrix: Matrix, folder: Path = WORDINGS) -> Iterator[Document]:
    """Yield how a cause may be put: texts that no machine is known for, divided by blank lines."""
    for path in sorted(folder.glob("*.toml")):
        for cause, texts in tomllib.loads(path.read_text("utf-8")).items():
            for text in texts.strip().split("\n\n"):
                yield Document(cause=cause, seen=_seen({"text": text.encode()}, matrix), weight=OF_WORDINGS)


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
    tells = _tells(documents)
    causes = tuple(sorted({one.cause for one in documents}))
    words = _words(documents, tells)
    held = _weights(words, documents, causes)
    return Index(
        causes=causes,
        sharpness=SHARPNESS,
        features={name: _line(one, weights) for (name, one), weights in zip(tells.items(), held, strict=True)},
        order=tuple(tells),
        names=frozenset(),
        cases=tuple(_cases(documents, words, held, causes)),
    )


def _tells(documents: Sequence[Document]) -> dict[str, float]:
    """Return by its name how informative each word is: the rarer, the more."""
    often = Counter(name for one in documents for name in one.seen)
    known = (name for name in sorted(often) if often[name] >= _least(name))
    return {name: log((len(documents) + 1) / (often[name] + 1)) * _counts(name) for name in known}


def _least(name: str) -> int:
    return PAIRS if _pair(name) else LEAST_OFTEN if name.isascii() else ABROAD


def _pair(name: str) -> bool:
    return " " in name and not name.startswith(f"{MESSAGE}:")


def _counts(name: str) -> float:
    if name.startswith(f"{MESSAGE}:"):
        return RECOGNISED
    return NEIGHBOURS if _pair(name) else 1.0


def _words(documents: Sequence[Document], tells: Mapping[str, float]) -> sparse.csr_array:
    """Return the weight of each known word in each document: a row has length 1."""
    places = {name: at for at, name in enumerate(tells)}
    known = [sorted(one.seen & places.keys()) for one in documents]
    held = np.array([tells[name] for names in known for name in names], np.float32)
    columns = [places[name] for names in known for name in names]
    ends = np.cumsum([0, *map(len, known)])
    found = sparse.csr_array((held, columns, ends), shape=(len(documents), len(tells)))
    lengths = np.sqrt(found.multiply(found).sum(axis=1))
    return sparse.diags_array(1 / np.where(lengths, lengths, 1).astype(np.float32)) @ found


def _weights(words: sparse.csr_array, documents: Sequence[Document], causes: Sequence[str]) -> Numbers:
    """Return how much each word speaks for each cause; a document of a frequent cause counts less."""
    often: Counter[str] = Counter()
    for one in documents:
        often[one.cause] += one.weight  # type: ignore[assignment]
    counts = np.array([one.weight / often[one.cause] ** 0.5 for one in documents], np.float32)
    counts /= counts.mean()
    places = {cause: at for at, cause in enumerate(causes)}
    true = np.array([places[one.cause] for one in documents])
    others = _logistic(words, true, len(causes), counts) + NARROW * narrow.learnt(words, true, len(causes), counts)
    return np.asarray(_ridge(words, documents, causes, counts) + others / RIDGES, np.float32)


def _logistic(words: sparse.csr_array, causes: NDArray[np.int64], many: int, counts: Numbers) -> Numbers:
    """Return the weights with which the causes of the documents are likeliest, less what large weights cost."""
    true = np.arange(len(causes)), causes
    turned, shape = words.T.tocsr(), (words.shape[1], many)

    def cost(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        held = flat.reshape(shape).astype(np.float32)
        likely = narrow.shares(words @ held)
        surprise = -(counts * np.log(np.maximum(likely[true], np.finfo(np.float32).tiny))).sum()
        likely[true] -= 1
        slope = turned @ (likely * counts[:, np.newaxis]) + PENALTY * held
        return float(surprise + PENALTY / 2 * (held**2).sum()), slope.ravel().astype(np.float64)

    found = minimize(cost, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=TRIES)
    return np.asarray(found.x.reshape(shape), np.float32)


def _ridge(words: sparse.csr_array, documents: Sequence[Document], causes: Sequence[str], counts: Numbers) -> Numbers:
    """Return the weights that come nearest to 1 for the cause of each document and to 0 for all others.

    The equations of all causes are solved together by conjugate gradients.
    """
    ridge = (RIDGE / counts)[:, np.newaxis]
    wanted = np.equal.outer([one.cause for one in documents], causes).astype(np.float32)
    speaks = wanted / (1 + ridge)
    left = wanted - (words @ (words.T @ speaks) + ridge * speaks)
    ahead = left / (1 + ridge)
    far = (left * ahead).sum(axis=0)
    for _ in range(MOST_STEPS):
        turned = words @ (words.T @ ahead) + ridge * ahead
        step = far / np.maximum((ahead * turned).sum(axis=0), np.finfo(np.float32).tiny)
        speaks += step * ahead
        left -= step * turned
        if np.all(np.linalg.norm(left, axis=0) <= EXACT * np.maximum(np.linalg.norm(wanted, axis=0), 1)):
            break
        near = left / (1 + ridge)
        before, far = far, (left * near).sum(axis=0)
        ahead = near + far / np.maximum(before, np.finfo(np.float32).tiny) * ahead
    return np.asarray(words.T @ speaks, np.float32)


def _line(tells: float, weights: Numbers) -> str:
    kept = np.flatnonzero(abs(weights) >= LEAST)
    roots = np.copysign(np.sqrt(abs(weights[kept]) * SQUARES), weights[kept])
    digits = np.clip(np.rint(roots) + ZERO, 0, DIGITS - 1)
    return _digits(tells * SCALE) + "".join(
        f"{_digits(at)}{_spelt(int(digit))}" for at, digit in zip(kept.tolist(), digits.tolist(), strict=True)
    )


def _digits(number: float) -> str:
    """Return a number in two digits, capped at the largest they can express."""
    return _spelt(min(round(number), DIGITS**2 - 1)).rjust(2, "0")


def _spelt(number: int) -> str:
    high, low = divmod(number, DIGITS)
    return (_spelt(high) if high else "") + "0123456789abcdefghijklmnopqrstuvwxyz"[low]


def _cases(
    documents: Sequence[Document], words: sparse.csr_array, held: Numbers, causes: Sequence[str]
) -> Iterator[str]:
    """Yield the threads of faulty machines with their strongest evidence for the cause."""
    for number, one in enumerate(documents):
        if one.source and one.cause not in OTHERS:
            places = words.indices[words.indptr[number] : words.indptr[number + 1]]
            values = words.data[words.indptr[number] : words.indptr[number + 1]]
            speak = values * held[places, causes.index(one.cause)]
            order = np.argsort(-speak, kind="stable")[:MOST_OF_CASE]
            first = [int(places[at]) for at in order if speak[at] > 0]
            yield f"{causes.index(one.cause)}\t{one.source}\t{' '.join(sorted(map(_spelt, first)))}"


def write(made: Index, path: Path = FILE) -> None:
    """Write the index as the table that ships."""
    features = "\n".join(f"{name}\t{line}" for name, line in made.features.items())
    cases = "\n".join(made.cases)
    path.write_text(
        f"{HEAD}causes = '{' '.join(made.causes)}'\nsharpness = {made.sharpness}\n"
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


def validate(
    documents: Sequence[Document], vocabulary: Sequence[Document], asked_folds: Iterable[int] = range(FOLDS)
) -> tuple[Score, Score]:
    """Return how well machines are ranked using only other repositories' cases, and how well by frequency alone."""
    every = (*documents, *vocabulary)
    causes = sorted({one.cause for one in every})
    words = _words(every, _tells(every))
    folds = np.array([_fold(one) if one.source else FOLDS for one in every])
    ranked, common = [], []
    for fold in asked_folds:
        known, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        often = [cause for cause, _ in Counter(every[at].cause for at in known if every[at].source).most_common()]
        weights = _weights(words[known], [every[at] for at in known], causes)
        for at, scores in zip(asked, words[asked] @ weights, strict=True):
            parts = np.exp((scores - scores.max()) * SHARPNESS)
            ranked.append((every[at].cause, dict(zip(causes, (parts / parts.sum()).tolist(), strict=True))))
            common.append((every[at].cause, {cause: 1.0 / (rank + 2) ** 2 for rank, cause in enumerate(often)}))
    return _scored(ranked), _scored(common)


def _scored(ranked: Iterable[tuple[str, Mapping[str, float]]]) -> Score:
    places, surprise = [], 0.0
    for number, (cause, weights) in enumerate(ranked, 1):
        surprise += (-log(max(weights.get(cause, 0.0), 1e-6)) - surprise) / number
        order = sorted((one for one in weights if one not in OTHERS), key=lambda one: -weights[one])
        if cause not in OTHERS:
            places.append(order.index(cause) if cause in order else len(order) + 5)
    first, three, five = (sum(place < most for place in places) for most in (1, 3, 5))
    return Score(machines=len(places), first=first, three=three, five=five, surprise=surprise)


def _fold(one: Document) -> int:
    return sha256(one.repository.encode()).digest()[0] % FOLDS
