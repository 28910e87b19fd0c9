"""The third way of learning likely causes: through few numbers, with words left out by chance.

Each word has a place among ``WIDTH`` numbers and each cause a direction in them, so words that mean the same come to
lie together; and since each text is seen with half of its words, no cause hangs on a single one. The product of both
is a table of weights like those of the other ways (docs/decisions/0041). It is found by Adam in small steps, from a
fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]

WIDTH = 128  # numbers between words and causes
STARTS = 5  # tables that are learnt, each from another seed: their mean ranks better, and has fewer weights
TEXTS, ROUNDS = 256, 12  # texts of a step, and how often all are seen
WORDS_LEFT_OUT, NUMBERS_LEFT_OUT = 0.5, 0.4
RATE, LAST = 3e-3, 0.02  # of learning, and the share of it that is left at the end
MEAN, SQUARE, TINY = 0.9, 0.999, 1e-8  # Adam's


def shares(scores: Numbers) -> Numbers:
    """Return how likely each cause is by its score; the shares of a row add up to 1."""
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=1, keepdims=True), np.float32)


@dataclass(slots=True)
class _Learnt:
    """A matrix that is learnt, with Adam's running means; only rows that a step touches change."""

    held: Numbers
    mean: Numbers = field(init=False)
    square: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.mean, self.square = np.zeros_like(self.held), np.zeros_like(self.held)

    def move(self, rows: NDArray[np.int64] | slice, slope: Numbers, number: int, rate: float) -> None:
        """Take the step of this number against the slope of these rows."""
        self.mean[rows] = mean = MEAN * self.mean[rows] + (1 - MEAN) * slope
        self.square[rows] = square = SQUARE * self.square[rows] + (1 - SQUARE) * slope**2
        far = np.float32(rate * sqrt(1 - SQUARE**number) / (1 - MEAN**number))
        self.held[rows] -= far * mean / (np.sqrt(square) + np.float32(TINY))


class _Narrow:
    """The places of words among few numbers, and the directions of causes in them."""

    def __init__(self, words: int, causes: int, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        wide = np.float32(sqrt(WIDTH))
        self.places = _Learnt(self.chance.normal(size=(words, WIDTH)).astype(np.float32) / wide)
        self.directions = _Learnt(self.chance.uniform(-1, 1, (WIDTH, causes)).astype(np.float32) / wide)

    def learn(
        self, texts: sparse.csr_array, causes: NDArray[np.int64], counts: Numbers, number: int, rate: float
    ) -> None:
        """Learn from a few texts, of which some words are left out, in the step of this number."""
        rows, columns = np.unique(texts.indices, return_inverse=True)
        held = texts.data * self._left(texts.data.shape, WORDS_LEFT_OUT)
        seen = sparse.csr_array((held, columns, texts.indptr), shape=(len(causes), len(rows)))
        passed = self._left((len(causes), WIDTH), NUMBERS_LEFT_OUT)
        narrow = (seen @ self.places.held[rows]) * passed
        likely = shares(narrow @ self.directions.held)
        likely[np.arange(len(causes)), causes] -= 1
        slope = likely * (counts / len(causes))[:, np.newaxis]
        back = (slope @ self.directions.held.T) * passed
        self.directions.move(slice(None), narrow.T @ slope, number, rate)
        self.places.move(rows, seen.T @ back, number, rate)

    def _left(self, shape: tuple[int, ...], out: float) -> Numbers:
        """Return by chance 0 for so many, and for the others what makes up for them."""
        kept = self.chance.random(shape) >= out
        return np.asarray(kept / (1 - out), np.float32)


def learnt(words: sparse.csr_array, causes: NDArray[np.int64], many: int, counts: Numbers) -> Numbers:
    """Return the weight of each word for each of so many causes.

    ``words`` has a row for each text, ``causes`` its cause, and ``counts`` how much it counts; what is returned has a
    row for each word.
    """
    tables = [_learnt(words, causes, many, counts, seed) for seed in range(STARTS)]
    return np.asarray(sum(tables) / STARTS, np.float32)


def _learnt(words: sparse.csr_array, causes: NDArray[np.int64], many: int, counts: Numbers, seed: int) -> Numbers:
    narrow = _Narrow(words.shape[1], many, seed)
    steps = ROUNDS * ceil(len(causes) / TEXTS)
    number = 0
    for _ in range(ROUNDS):
        order = narrow.chance.permutation(len(causes))
        for at in range(0, len(order), TEXTS):
            texts = np.sort(order[at : at + TEXTS])
            rate = RATE * max(LAST, 1 - number / steps)
            number += 1
            narrow.learn(words[texts], causes[texts], counts[texts], number, rate)
    return np.asarray(narrow.places.held @ narrow.directions.held, np.float32)
