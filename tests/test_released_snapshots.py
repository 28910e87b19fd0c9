"""A snapshot of every schema that was ever released opens, whatever was added since; damaged ones are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack import snapshots
from gpustack.errors import InputError
from gpustack.render.plain import render
from tests.build import report
from tests.faults import command

FOLDER = Path(__file__).parent / "snapshots"
RELEASED = sorted(FOLDER.glob("snapshot-*.json"))


def test_every_schema_up_to_today_s_is_here() -> None:
    """When the schema becomes /2: a snapshot of /1 stays here, and ``snapshots.take`` learns to read it."""
    newest = int(snapshots.SCHEMA.rpartition("/")[2])
    assert [path.stem for path in RELEASED] == [f"snapshot-{number}" for number in range(1, newest + 1)]


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_a_released_snapshot_opens_is_judged_and_is_written_as_one_of_today(path: Path) -> None:
    facts = snapshots.read(path.read_text("utf-8"), path.name)
    assert report(facts).verdict.root_causes == ("driver-too-old-for-cuda-build",)
    again = snapshots.read(render(facts))
    assert again == facts


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
@pytest.mark.parametrize("left", [1, 100, 5000])
def test_a_snapshot_that_was_cut_is_refused_in_one_line(path: Path, left: int, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(path.read_bytes()[:left])
    ran = command.run(("doctor", "--from", str(cut)), {})
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_a_snapshot_of_tomorrow_is_refused_and_says_what_is_wanted() -> None:
    said = {**json.loads(RELEASED[-1].read_text("utf-8")), "schema": "gpustack.snapshot/99"}
    with pytest.raises(InputError, match=r"holds gpustack\.snapshot/99, where gpustack\.snapshot/1 is wanted"):
        snapshots.take(said, "x.json")
