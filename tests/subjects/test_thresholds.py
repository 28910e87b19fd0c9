"""A limit is broken on its bad side, and every one is found by its name."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import gpus
from gpustack.matrix.subjects.gpus import Side

MATRIX = Matrix()


def test_every_limit_stands_once_with_its_unit() -> None:
    found = gpus.thresholds(MATRIX)
    assert len({one.name for one in found}) == len({one.row.text for one in found}) == len(found)
    assert all(one.unit and one.what for one in found)


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("rows.remapped.uncorrectable", 512, 511),
        ("rows.remapped.pending", 1, 0),
        ("ecc.uncorrected.volatile", 1, 0),
        ("management.latency.slow", 1.1, 1.0),
        ("limits.memlock", 31.9, 32),
        ("shm", 0.0625, 0.5),
    ],
)
def test_a_limit_is_broken_on_its_bad_side_only(name: str, bad: float, good: float) -> None:
    one = gpus.limit(MATRIX, name)
    assert one.broken(bad)
    assert not one.broken(good)


def test_every_side_is_in_use() -> None:
    assert {one.bad for one in gpus.thresholds(MATRIX)} == set(Side)


def test_replays_grow_with_the_generation_and_the_width() -> None:
    assert gpus.replays(MATRIX, 5, 16) == 31
    assert gpus.replays(MATRIX, 1, 1) == 1
    wide = [gpus.replays(MATRIX, generation, 16) for generation in range(1, 7)]
    assert wide == sorted(count for count in wide if count is not None)
    assert gpus.replays(MATRIX, 9, 16) is None


def test_a_name_that_is_no_limit_is_our_mistake() -> None:
    with pytest.raises(KeyError):
        gpus.limit(MATRIX, "nothing")
