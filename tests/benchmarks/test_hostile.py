"""A short run of what benchmarks/fuzz.py and benchmarks/large.py do at length."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import fuzz, large
from gpustack import snapshots
from gpustack.diagnose.engine import judge
from gpustack.imports import messages
from gpustack.matrix import Matrix


@pytest.mark.usefixtures("any_text")
def test_no_input_breaks_a_parser_or_holds_it_up() -> None:
    every = fuzz.run(1000, seed=20261121)
    assert [one.broken for one in every if one.broken] == []
    assert all(one.inputs for one in every)


def test_the_fuzzing_would_see_a_parser_that_breaks_or_dawdles(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> object:
        raise KeyError("x")

    monkeypatch.setattr(fuzz, "MOST_SECONDS", -1.0)
    broken, slow = fuzz.Target("broken", breaks, 1), fuzz.Target("slow", str, 1)
    broken.feed(1)
    slow.feed(2)
    assert broken.broken[0] == "seed 1: KeyError: 'x'"
    assert slow.broken[0].startswith("seed 2: took ")


def test_a_machine_of_many_gpus_is_judged_the_same_each_time() -> None:
    assert large.same(20) == 1
    report = judge(snapshots.read(json.dumps(large.machine(64))), Matrix())
    assert len(next(one for one in report.components if one.id == "gpu").instances) == 64


def test_a_large_log_and_many_packages_are_judged_in_bounds(tmp_path: Path) -> None:
    dmesg, pip = tmp_path / "dmesg.txt", tmp_path / "pip-list.txt"
    large.log(dmesg, 8)
    pip.write_text(large.listed(1000))
    row = large.timed("small", dmesg, pip)
    assert row["mib"] < large.MOST_MIB


@pytest.mark.timeout(60)
@pytest.mark.parametrize("word", ["link time reference", "matching python", "minimum capability", "torch"])
def test_a_word_or_a_space_without_an_end_holds_no_pattern_up(word: str) -> None:
    for part in ("a-", "9", " ", "0x", "a.b_", "/a"):
        long = part * (20_000 // len(part))
        messages.look("x", f"{long}{word}{long[:600]} {word} {long}", Matrix())
