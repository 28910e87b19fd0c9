"""How much is searched: a fixed sample in CI, everything with ``GPUSTACK_WIDE=1``, which ``nox -s wide`` sets.

A test of either kind has the marker ``wide``, and its docstring says what runs where.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar
from zlib import crc32

import pytest

Thing = TypeVar("Thing")
WIDE = bool(os.environ.get("GPUSTACK_WIDE"))
wide = pytest.mark.wide


def sample(things: Iterable[Thing], one_in: int) -> list[Thing]:
    """Return one in this many of the things, chosen by content: other things in the list change nothing."""
    return [one for one in things if WIDE or crc32(repr(one).encode("utf-8", "surrogatepass")) % one_in == 0]


def one_of(things: Sequence[Thing], why: str) -> list[Thing]:
    """Return one of several things that do much the same; a different one for a different reason."""
    return list(things) if WIDE else [min(things, key=lambda one: crc32(f"{why} {one}".encode()))]
