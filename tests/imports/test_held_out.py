"""New public threads: split by repository, added once, and measured on the half that nobody has worked on."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.build import MATRIX
from tools import cases
from tools.cases import threads
from tools.cases.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

ROW = {
    "id": "t1",
    "source": "someone/something#1",
    "root_cause": "dkms-headers-missing",
    "inputs": {"error": "Your kernel headers for kernel 6.8.0-31-generic cannot be found."},
}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return empty halves in place of the real ones."""
    monkeypatch.setattr(cases, "FOLDER", tmp_path / "cases")
    monkeypatch.setattr(cases, "HELD_OUT", tmp_path / "held_out")
    for name in ("of", "every"):
        made = cache(getattr(cases, name).__wrapped__)
        monkeypatch.setattr(cases, name, made)
        if name == "every":
            monkeypatch.setattr(threads, name, made)
    return tmp_path


def given(folder: Path, *rows: object) -> Path:
    path = folder / "threads.json"
    path.write_text(json.dumps(rows), "utf-8")
    return path


def test_threads_are_split_by_repository_and_taken_in_once(folders: Path) -> None:
    rows = [{**ROW, "id": f"t{number}", "source": f"owner/repo{number % 40}#{number}"} for number in range(80)]
    path = given(folders, *rows)
    taken = threads.take(path)
    assert taken["held out"] + taken["to build with"] == 80
    assert 20 <= taken["held out"] <= 60
    out = {one.repository for one in cases.every(held_out=True)}
    assert not out & {one.repository for one in cases.every()}
    assert threads.take(path) == {"known": 80}


def test_a_repository_that_was_built_with_is_never_held_out(folders: Path) -> None:
    first = next(
        f"owner/repo{n}"
        for n in range(99)
        if threads.held_out(next(threads.read(given(folders, {**ROW, "source": f"owner/repo{n}#1"}))), ())
    )
    case = next(threads.read(given(folders, {**ROW, "source": f"{first}#1"})))
    assert threads.held_out(case, ())
    assert not threads.held_out(case, [first])


def test_threads_that_are_all_to_build_with_leave_out_what_is_held_out(folders: Path) -> None:
    rows = [{**ROW, "id": f"t{number}", "source": f"owner/repo{number}#1"} for number in range(40)]
    threads.take(given(folders, *rows[:20]))
    out = cases.every(held_out=True)
    again = [{**ROW, "id": f"{one.id}-2", "source": f"{one.repository}#2"} for one in out]
    taken = threads.take(given(folders, *rows, *again), split=False)
    assert taken == {"known": 20, "to build with": 20, "refused: their repository is held out": len(out)}
    assert cases.every(held_out=True) == out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"root_cause": "no-such-finding"}, "which no finding has"),
        ({"source": "a page"}, "names no thread"),
        ({"inputs": {}}, "has no texts"),
        ({"inputs": {"error": " "}}, "has no texts"),
    ],
)
def test_a_thread_that_is_not_whole_is_refused(folders: Path, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        list(threads.read(given(folders, {**ROW, **wrong})))


def test_what_is_measured_is_what_the_doctor_says(folders: Path) -> None:
    threads.take(
        given(
            folders,
            ROW,
            {**ROW, "id": "t2", "source": "someone/something#2", "root_cause": "gpu-overheat"},
            {**ROW, "id": "t3", "source": "someone/something#3", "root_cause": "none-app-config"},
            {
                **ROW,
                "id": "t4",
                "source": "someone/something#4",
                "root_cause": "none-app-config",
                "inputs": {"a": "nothing of note happened"},
            },
        )
    )
    every = (*cases.every(), *cases.every(held_out=True))
    figures = threads.measure(every, MATRIX)
    assert (figures.sick, figures.likeliest, figures.healthy) == (2, 1, 2)
    assert figures.alarms == ("t3",)


def test_the_held_out_half_is_of_other_repositories_and_ranked_far_above_the_most_frequent_causes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = cases.every(held_out=True)
    assert not {one.repository for one in held} & {one.repository for one in cases.every()}
    figures = threads.measure(held[::3], MATRIX)  # .ci/run measures all of them
    assert figures.sick + figures.healthy == len(held[::3])
    assert figures.three >= 3 * figures.frequent
    assert figures.mute <= figures.sick / 10
    monkeypatch.setattr(threads, "measure", lambda asked, _: figures if asked == held else None)
    monkeypatch.setattr(sys, "argv", ["cases", "measure"])
    main()
    assert capsys.readouterr().out == f"held out: {figures}\n"
