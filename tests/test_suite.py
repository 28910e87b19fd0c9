"""What other tests rely on: a fork of the warmed-up command is a real start but for its time, and draws are alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import counting, warm
from tests.wide import sample, wide

REPO = Path(__file__).resolve().parent.parent
NUMBERS = range(1_000_003, 1_000_403)
OLD = "examples/driver-too-old.json"
INVOCATIONS: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("", {}, ""),
    ("--version", {}, ""),
    ("doctr", {}, ""),
    ("help matrix why", {"COLUMNS": "60"}, ""),
    ("doctor --from /nowhere", {}, ""),
    ("doctor --from -", {}, ""),
    ("doctor --from -", {}, "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    ("doctor --from - --format json", {}, "torch 2.7.1+cu128 on driver 470.256.02 \udcff"),
    (f"doctor --from {OLD}", {}, ""),
    (f"doctor --from {OLD} -v", {"COLUMNS": "200"}, ""),
    (f"doctor --from {OLD} -q", {}, ""),
    (f"doctor --from {OLD}", {"FORCE_COLOR": "1"}, ""),
    (f"doctor --from {OLD}", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, ""),
    *((f"doctor --from {OLD} --format {form}", {}, "") for form in ("json", "html", "sarif", "junit", "github")),
    (f"check --from {OLD} --format json", {}, ""),
    (f"check --from {OLD} --exit-style nagios", {}, ""),
    (f"diff {OLD} examples/module-mismatch.json", {}, ""),
    ("explain Xid 79", {}, ""),
    ("explain cudaErrorNoKernelImageForDevice --format json", {}, ""),
    ("matrix show pytorch", {}, ""),
    ("matrix why torch==2.11.0 --driver 550.54.15 --format json", {}, ""),
    ("matrix plan torch>=2.6 --driver 550.54.15", {}, ""),
    ("bench hbm.raed", {}, ""),
    ("trace --size nonsense", {}, ""),
    ("fleet judge /nowhere", {}, ""),
)


def started(arguments: str, more: Mapping[str, str], **options: int | Path) -> subprocess.Popen[str]:
    """Start it with pipes, in the checkout."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": REPO, **options}
    words = [*warm.COMMAND, *arguments.split()]
    return subprocess.Popen(words, env={**os.environ, **more}, encoding="utf-8", errors="surrogateescape", **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(params=[True, False], ids=["forked", "started"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Start by a fork, and for real."""
    monkeypatch.setattr(warm, "active", request.param)
    return bool(request.param)


@wide
@pytest.mark.parametrize(("arguments", "more", "given"), sample(INVOCATIONS, 4))
def test_it_says_the_same(arguments: str, more: Mapping[str, str], given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in four in CI, all with GPUSTACK_WIDE=1."""
    ends = []
    for active in (True, False):
        monkeypatch.setattr(warm, "active", active)
        with started(arguments, more) as running:
            ends.append((*running.communicate(given), running.returncode))
    assert ends[0] == ends[1]


def test_most_of_these_are_forked() -> None:
    forked = [warm.forked([*warm.COMMAND, *words.split()], {**os.environ, **more}) for words, more, _ in INVOCATIONS]
    assert forked.count("command") == len(INVOCATIONS) - 2, "those with FORCE_COLOR and another locale start"
    assert forked.count("") == 2


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
@pytest.mark.usefixtures("way")
def test_signals_reach_it_and_its_end_is_its_own(sent: signal.Signals, code: int) -> None:
    running = started("doctor --from -", {}, start_new_session=True)
    assert os.getpgid(running.pid) == os.getsid(running.pid) == running.pid
    until(lambda: Path(f"/proc/{running.pid}/wchan").read_text() in WAITING)
    os.killpg(running.pid, sent)
    said = "gpustack: interrupted\n" if sent == signal.SIGINT else ""
    assert (running.communicate(), running.returncode) == (("", said), code)


@pytest.mark.usefixtures("way")
def test_it_is_our_child_and_takes_what_we_do(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("my screen is black\n")
    running = started("doctor --from own.txt -o said.txt --fail-on unknown", {}, cwd=tmp_path)
    parent = int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent == os.getpid()
    _, status = os.waitpid(running.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "UNKNOWN" in (tmp_path / "said.txt").read_text()
    running.communicate()


@pytest.mark.usefixtures("way")
def test_a_folder_that_is_not_there_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        started("--version", {}, cwd=tmp_path / "gone")


WAITING = {"pipe_read", "anon_pipe_read"}  # for its input


def until(done: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 30
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done()


def drawn() -> list[int]:
    """Return what is drawn for a test."""
    values: list[int] = []

    @settings(max_examples=300)
    @given(st.integers())
    def test(value: int) -> None:
        values.append(value)

    test()
    return values


def test_what_is_drawn_does_not_depend_on_what_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, Hypothesis would draw the constants of a module of ours once that has been imported."""
    if settings.get_current_profile_name() != "same":
        pytest.skip("what is drawn is to differ: nox -s wide")
    before = drawn()
    (tmp_path / "imported.py").write_text(f"NUMBERS = {list(NUMBERS)}\n")
    spec = spec_from_file_location("imported", tmp_path / "imported.py")
    assert spec
    monkeypatch.setitem(sys.modules, "imported", module_from_spec(spec))
    assert drawn() == before


def test_each_row_that_fails_is_named_and_all_are_tried() -> None:
    tried = []

    @counting.each(("number", "of"), [(one, "nine") for one in range(4)])
    @counting.each("word", ["odd", "even"])
    def holds(word: str, number: int, of: str) -> None:
        tried.append((number, word, of))
        assert word == ("even", "odd")[number % 2], of

    with pytest.raises(AssertionError) as raised:
        holds()
    assert tried == [(number, word, "nine") for number in range(4) for word in ("odd", "even")]
    said = str(raised.value)
    assert said.startswith("4 of 4 rows fail\nrow 0: 0, 'nine'\nrow 1: 1, 'nine'\nrow 2: 2, 'nine'\nrow 3: 3, 'nine'\n")
    assert said.count("1 of 2 rows fail\nrow 0: 'odd'\n") == said.count("1 of 2 rows fail\nrow 1: 'even'\n") == 2
    assert "AssertionError: nine" in said
    assert list(signature(holds).parameters) == []
