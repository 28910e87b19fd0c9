"""A line of one megabyte takes no reader and no output format more than two seconds, and ``--timeout`` holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import snapshots
from gpustack.cli.options import Shape
from gpustack.diagnose.engine import judge
from gpustack.imports import load, texts
from gpustack.imports.deadline import LATE, OutOfTime, judged, within
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.report import renderer
from gpustack.report.parts import Told
from tests.imports.test_linear import LETTERS, MEGABYTE, MOST_SECONDS, ODD, READS, WORDS, seconds
from tests.patience import in_time
from tests.told import REPO
from tests.wide import sample, wide

if TYPE_CHECKING:
    from gpustack.model.facts import Facts
    from gpustack.model.report import Report

MATRIX = Matrix()
PUMPS = (*LETTERS, *ODD, *WORDS, *(f"{word}{' ' * 2000}" for word in WORDS[::4]))
FORMS = tuple(shape.value for shape in Shape)
QUOTED = (" ", "a", "<", "\\", "\u4e2d", "e\u0301", "\x1b[31m", "`|", "]]>", "%0A", "\u202e", "/a", "\n")


def long(piece: str, before: str = "") -> str:
    """Return a line of one megabyte."""
    return before + (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE]


@wide
@pytest.mark.parametrize("piece", [one for one in sample(PUMPS, 2) if "\n" not in one.strip("\n")], ids=repr)
def test_a_line_of_one_megabyte_takes_the_readers_two_seconds_at_most(piece: str) -> None:
    """In CI half of the pieces; all with ``GPUSTACK_WIDE=1``."""
    text = f"RuntimeError: x\n{long(piece)}\ny\n"
    assert seconds(lambda: take([("a", text)], MATRIX)) < MOST_SECONDS


@wide
@pytest.mark.parametrize("name", ["own reports", "pip inspect"])
def test_what_is_read_before_lines_are_cut_takes_two_seconds_at_most(name: str) -> None:
    """These extract JSON, which is legitimately one long line. In CI an eighth of the texts that contain no JSON."""
    whole = (
        '{"schema": "gpustack.report/1"} ',
        '{"version": "1", "pip_version": "24"}',
        "\ngpustack 1, matrix of 2026-01-01\n",
    )
    slow = {piece: seconds(partial(READS[name], long(piece))) for piece in (*sample(PUMPS, 8), *'{["', *whole)}
    assert {piece: took for piece, took in slow.items() if took > MOST_SECONDS} == {}


def quoting(text: str) -> Report:
    """Return a report that quotes a text twice: in a finding, and as a component's description."""
    report = judge(snapshots.read((REPO / "examples/driver-too-old.json").read_text("utf-8")), MATRIX)
    findings = (replace(report.findings[0], detail=text), *report.findings[1:])
    return replace(report, findings=findings, components=(replace(report.components[0], version=text),))


@wide
@pytest.mark.parametrize("form", FORMS)
def test_a_line_of_one_megabyte_takes_every_form_of_output_two_seconds_at_most(form: str) -> None:
    """In CI a quarter of the pieces, another one for each form; all with ``GPUSTACK_WIDE=1``."""
    render = renderer(form)
    more = () if form in {"json", "text"} else (Told(),)
    pieces = [piece for _, piece in sample(((form, piece) for piece in QUOTED), 4)]
    took = {piece: seconds(partial(render, quoting(long(piece)), *more)) for piece in pieces}
    assert took
    assert {piece: one for piece, one in took.items() if one > 2 * MOST_SECONDS} == {}  # two lines


def test_a_line_of_one_megabyte_of_each_kind_leaves_the_command_in_every_form(tmp_path: Path) -> None:
    given = tmp_path / "log.txt"
    given.write_text("\n".join(long(piece, "RuntimeError: CUDA error: ") for piece in QUOTED[:-1]), "utf-8")
    wanted = [word for form in FORMS for word in ("--format", form, "-o", str(tmp_path / form))]
    argv = [sys.executable, "-m", "gpustack", "doctor", "--from", str(given), "--timeout", "100", *wanted]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=REPO)
    assert done.returncode in {0, 1}, done.stderr
    assert all((tmp_path / form).stat().st_size for form in FORMS)


def test_what_was_cut_is_reported() -> None:
    facts, _ = take([("log.txt", f"a\n{long('a')}")], MATRIX)
    assert [one.what for one in facts.not_seen] == ["log.txt"]
    assert str(texts.LONGEST) in facts.not_seen[0].why
    assert take([("log.txt", "a" * texts.LONGEST)], MATRIX)[0].not_seen == ()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_the_beginning_and_the_end_of_a_long_line_are_read_and_every_other_line(end: str) -> None:
    first, last = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.", "nvcc fatal : x"
    text, cut = texts.short(end.join((first, f"{first} {'a ' * MEGABYTE} {last}", last)))
    assert cut
    kept = [row for row in text.split("\n") if row.strip()]
    assert (kept[0].strip(), kept[-1]) == (first, last)
    assert kept[1].startswith(first)
    assert kept[1].strip().endswith(last)
    assert max(map(len, kept)) <= texts.LONGEST


def doctor(*words: str, given: bytes | None = None) -> tuple[float, dict[str, object]]:
    """Return how long the doctor took, and its report."""
    begun = time.monotonic()
    argv = [sys.executable, "-m", "gpustack", "doctor", "--format", "json", *words]
    done = subprocess.run(argv, input=given, capture_output=True, check=False, cwd=REPO)
    assert done.returncode in {0, 1}, done.stderr
    return time.monotonic() - begun, json.loads(done.stdout)


@in_time
def test_the_timeout_holds_for_a_pipe_that_never_ends(tmp_path: Path) -> None:
    first = tmp_path / "first.txt"
    first.write_text("Python 3.12.1\n")
    ear, mouth = os.pipe()
    argv = [sys.executable, "-m", "gpustack", "doctor", "--from", str(first), "--from", "-", "--timeout", "3"]
    begun = time.monotonic()
    done = subprocess.run(
        [*argv, "--format", "json"], stdin=ear, capture_output=True, check=False, cwd=REPO, timeout=60
    )
    took = time.monotonic() - begun
    os.close(mouth)
    report = json.loads(done.stdout)
    assert {"what": "standard input", "why": LATE} in [
        {k: one[k] for k in ("what", "why")} for one in report["not_seen"]
    ]
    assert [one["version"] for one in report["components"] if one["id"] == "python"] == ["3.12.1"]
    assert took < 3 + START


START = 20.0  # seconds that a busy machine takes to start a Python; without the limit all this takes forever


@in_time
def test_the_timeout_holds_where_a_reader_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpustack.imports import texts  # noqa: PLC0415

    def forever(_origin: str, _text: str, _into: object) -> None:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(texts, "READERS", (*texts.READERS, forever))
    begun = time.monotonic()
    facts, silent = take([("a", "Python 3.12.1\n"), ("b", "Python 3.12.1\n")], MATRIX, begun + 0.5)
    assert time.monotonic() - begun < START
    assert [(one.what, one.why) for one in facts.not_seen] == [("a", LATE), ("b", LATE)]
    assert facts.find("python") is not None
    assert silent == ()


@in_time
def test_the_timeout_ends_an_expression_that_searches() -> None:
    import re  # noqa: PLC0415

    slow = re.compile("(?:a+)+b")
    begun = time.monotonic()
    with pytest.raises(OutOfTime), within(begun + 0.3):
        slow.search("a" * 60)
    assert time.monotonic() - begun < START


def test_facts_that_take_too_long_to_judge_are_reported_as_not_judged() -> None:
    known = snapshots.read((REPO / "examples/driver-too-old.json").read_text("utf-8"))

    def slowly(facts: Facts) -> Report:
        if facts.components:
            time.sleep(60)
        return judge(facts, MATRIX)

    report = judged(slowly, known, time.monotonic() + 0.2)
    assert report.verdict.status.value == "unknown"
    assert any("to judge" in one.why for one in report.not_seen)
    assert judged(lambda facts: judge(facts, MATRIX), known, None).findings


def test_a_timer_of_another_library_goes_on() -> None:
    import signal  # noqa: PLC0415

    with within(time.monotonic() + 50):
        with within(time.monotonic() + 10):
            pass
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50


def test_nothing_is_late_where_there_is_time(tmp_path: Path) -> None:
    given = tmp_path / "a.txt"
    given.write_text("Python 3.12.1\n")
    facts = load([str(given)], sys.stdin.buffer, MATRIX, time.monotonic() + 100)
    assert facts.not_seen == ()
