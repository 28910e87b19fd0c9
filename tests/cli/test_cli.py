"""The command line as its users meet it: exit codes, one clear line for each error, and a report in any case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tests.patience import in_time
from tests.wide import one_of, wide

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples" / "driver-too-old.json"


def gpustack(
    *arguments: str | Path, environ: dict[str, str] | None = None, given: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, **more} if environ is None else environ
    return warm.run([*map(str, arguments)], cwd=Path.cwd(), environ=own, given=given)


@in_time
def test_this_machine_gets_a_complete_report_and_no_error_for_having_no_gpu() -> None:
    begun = time.monotonic()
    done = gpustack("doctor", "--format", "json")
    seconds = time.monotonic() - begun
    report = json.loads(done.stdout)
    assert report["schema"] == "gpustack.report/1"
    if any(row["id"] == "pci-display" and row["status"] == "present" for row in report["components"]):
        pytest.skip("this machine has a GPU: the case without one is held by tests/hosts")
    assert (done.returncode, report["verdict"]["status"]) == (0, "no-gpu")
    assert [found for found in report["findings"] if found["severity"] == "error"] == []
    assert seconds < 10  # an upper limit; benchmarks measure how fast it is on a quiet machine


def test_the_report_for_people_is_the_same_report() -> None:
    done = gpustack("doctor", "--from", EXAMPLE)
    assert done.returncode == 1
    assert "driver-too-old-for-cuda-build" in done.stdout
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 1), (("--fail-on", "error"), 1), (("--fail-on", "never"), 0), (("--fail-on", "warning"), 1)],
)
def test_fail_on_sets_the_threshold(arguments: tuple[str, ...], code: int) -> None:
    assert gpustack("doctor", "--from", EXAMPLE, "--format", "json", *arguments).returncode == code


def test_text_in_which_nothing_is_recognised_is_a_whole_report_that_knows_nothing(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("my screen is black\n")
    done = gpustack("doctor", "--from", note, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]["status"]) == (0, "unknown")
    assert gpustack("doctor", "--from", note, "--fail-on", "unknown").returncode == 1
    assert gpustack("doctor", "--from", "-", "--format", "json", given="my screen is black").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("doctor", "--format", "yaml"), "'yaml' is not one of"),
        (("doctor", "--no-such-flag"), "No such option"),
        (("docter",), "No such command"),
        (("doctor", "--timeout", "0"), "0"),
        (("doctor", "--python", "/nowhere/python"), "there is no program to run there"),
        (("doctor", "--from", "/nowhere.json"), "/nowhere.json"),
        (("doctor", "--from", "/etc/shadow-of-nothing"), "/etc/shadow-of-nothing"),
        (("doctor", "--from", EXAMPLE, "-o", "/nowhere/report.txt"), "/nowhere/report.txt cannot be written"),
        (("snapshot", "-o", "/proc/version"), "/proc/version cannot be written"),
        (("bench", "-o", ""), "cannot be written: it is a folder"),
        (("doctor", "--from", ""), "--from was given an empty path"),
        (("doctor", "--timeout", "nan"), "nan is not a number"),
        (("bench", "--tolerance", "nan"), "nan is not a number"),
        (("bench", "--format", "json", "-o", "/nowhere/figures.json"), "no writable folder /nowhere"),
        (("stress", "--seconds", "3600", "-o", "/nowhere/figures.txt"), "no writable folder /nowhere"),
    ],
)
def test_wrong_use_is_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = gpustack(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpustack: ")
    assert says in line


@pytest.mark.parametrize("text", ["{", '{"schema": "gpustack.snapshot/999"}', '{"schema": "gpustack.recipe/1"}', ""])
def test_what_looks_like_ours_and_is_not_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    done = gpustack("doctor", "--from", path)
    assert done.returncode == 2
    assert "facts.json" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_snapshot_taken_here_is_judged_there_as_it_is_here(tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    assert gpustack("snapshot", "-o", path).returncode == 0
    assert json.loads(path.read_text())["schema"] == "gpustack.snapshot/1"
    here = json.loads(gpustack("doctor", "--format", "json").stdout)
    there = json.loads(gpustack("doctor", "--from", path, "--format", "json").stdout)
    assert there["verdict"] == here["verdict"]
    assert [found["key"] for found in there["findings"]] == [found["key"] for found in here["findings"]]


def test_the_result_goes_to_a_file_and_nothing_else_is_said(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = gpustack("doctor", "--from", EXAMPLE, "--format", "json", "--output", path)
    assert (done.stdout, done.stderr) == ("", "")
    assert json.loads(path.read_text())["schema"] == "gpustack.report/1"


@pytest.mark.starts
def test_a_closed_pipe_is_not_an_error_and_a_full_disk_is() -> None:
    command = [sys.executable, "-m", "gpustack", "doctor", "--from", str(EXAMPLE), "--fail-on", "never"]
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (closed.returncode, closed.stderr) == (0, "")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "gpustack: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- 2>&- <&-"])
def test_a_report_for_a_file_needs_no_open_output(closed: str, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    command = f"{sys.executable} -m gpustack doctor --from {EXAMPLE} --fail-on never"
    for asked in (f"{command} -o {path} {closed}", f"{command} {closed}"):
        done = subprocess.run(["/bin/sh", "-c", asked], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    assert "too old" in path.read_text()


@pytest.mark.starts
def test_help_for_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpustack", "-h"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("width", ["1", "20", "40", "200", "nonsense"])
def test_any_width_and_a_plain_locale_give_a_report(width: str) -> None:
    done = gpustack("doctor", "--from", EXAMPLE, COLUMNS=width, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.isascii()


@pytest.mark.starts
def test_an_environment_without_anything_gives_a_report() -> None:
    done = gpustack("doctor", "--format", "json", environ={})
    assert done.returncode == 0
    assert json.loads(done.stdout)["components"]


def test_no_command_shows_the_help_and_help_shows_what_works() -> None:
    for arguments in ((), ("--help",), ("-h",)):
        done = gpustack(*arguments)
        assert done.returncode == 0
        assert "doctor" in done.stdout
        assert "trace" in done.stdout


def test_ctrl_c_ends_with_130_and_one_line() -> None:
    program = (
        "import os, signal, threading, sys\n"
        "from gpustack import cli; from gpustack.collect import probing\n"
        "probing.look = lambda **_: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['gpustack', 'doctor']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "gpustack: interrupted\n")


def test_an_error_of_ours_is_one_line_and_exit_code_3_and_the_whole_with_v() -> None:
    program = (
        "import sys\n"
        "from gpustack import cli; from gpustack.collect import probing\n"
        "def look(**_):\n    raise LookupError('a bug')\n"
        "probing.look = look\n"
        "sys.argv = ['gpustack', 'doctor', *sys.argv[1:]]\n"
        "cli.main()\n"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "LookupError: a bug" in done.stderr
    told = subprocess.run([*run, "-v"], capture_output=True, text=True, check=False, timeout=30)
    assert "Traceback" in told.stderr
    assert told.returncode == 3


@wide
def test_every_python_is_examined_on_demand_by_all_three_commands(tmp_path: Path) -> None:
    """By the doctor and one of the others in CI, by all three with ``GPUSTACK_WIDE=1``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }  # none of pyenv
    alike = ("stack", "--format", "json"), ("snapshot", "--no-redact")
    for command in (("doctor", "--format", "json"), *one_of(alike, "every Python")):
        done = gpustack(*command, "--all-envs", environ=environ)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        pythons = [one["python"] for one in json.loads(done.stdout)["environments"]]
        assert f"{tmp_path}/.venv/bin/python" in pythons
        assert len(pythons) == len(set(pythons))
