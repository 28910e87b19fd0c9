"""Pairs: the slow nodes are found in three rounds plus one to confirm, in simulation; and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.errors import InputError
from gpustack.fleet import pairs
from gpustack.fleet.pairs import Pair
from tools.fleet.rates import cards, nodes_and_uplinks


@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_nodes_with_slow_nodes_and_uplinks(seed: int) -> None:
    wanted, found, _ = nodes_and_uplinks(seed, 10_000, slow=33, uplinks=5)
    assert len(wanted & found) >= 0.99 * len(wanted)
    assert not found - wanted


@pytest.mark.parametrize("seed", range(3))
def test_hangs_and_congestion_blame_no_other_node(seed: int) -> None:
    wanted, found, _ = nodes_and_uplinks(seed, 4_000, slow=20, uplinks=3, hanging=6, congested=0.02)
    assert len(wanted & found) >= 0.99 * len(wanted)
    assert not found - wanted


def test_slow_cards_are_found_and_hardly_another_is_blamed() -> None:
    wanted, found, every = cards(1, 500)
    assert len(wanted & found) >= 0.98 * len(wanted)
    assert len(found - wanted) <= 0.0005 * every


def test_one_measurement_alone_blames_many() -> None:
    wanted, found, every = cards(1, 500, takes=1)
    assert len(found - wanted) > 0.0005 * every


@pytest.mark.parametrize("count", [4, 7, 33, 100])
def test_everybody_is_paired_once_a_round(count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    for held in pairs.plan(names, 3, seed=2):
        there = [name for pair in held for name in pair]
        assert len(there) == len(set(there)) == count - count % 2


def test_two_nodes_tell_nothing() -> None:
    with pytest.raises(InputError, match="too few"):
        pairs.plan(["a", "b"])


def test_what_nccl_tests_and_our_bench_print_is_read(tmp_path: Path) -> None:
    (tmp_path / "1.a+b.txt").write_text("#  out-of-place\n# Avg bus bandwidth    : 341.27 \n#\n")
    (tmp_path / "1.c+d.json").write_text('{"results": [{"id": "nccl.all_reduce", "value": 338.5}]}')
    (tmp_path / "a+c.txt").write_text("")
    assert pairs.read(tmp_path) == (
        Pair("a", "b", 341.27, "1"),
        Pair("c", "d", 338.5, "1"),
        Pair("a", "c", None, ""),
    )
    lines = tmp_path / "lines.txt"
    lines.write_text("# a comment\na b 341.2 1\nc d hang 1\n")
    assert pairs.read(lines) == (Pair("a", "b", 341.2, "1"), Pair("c", "d", None, "1"))
    rows = tmp_path / "rows.json"
    rows.write_text('[{"a": "a", "b": "b", "value": 12.5}]')
    assert pairs.read(rows) == (Pair("a", "b", 12.5, ""),)


@pytest.mark.parametrize(
    "said", ["a b", "a b fast", "a;rm b 3", "[1]", '[{"a": "x", "b": "-y", "value": 3}]', "", "a b nan", "a b inf"]
)
def test_what_is_not_a_pair_is_refused_in_one_line(said: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_text(said)
    with pytest.raises(InputError):
        pairs.read(path)


def test_pairs_that_all_hang_blame_nobody() -> None:
    with pytest.raises(InputError, match="all of them hung"):
        pairs.decode([Pair("a", "b", None), Pair("c", "d", None)])
