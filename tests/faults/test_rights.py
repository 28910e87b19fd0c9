"""With few permissions and in poor conditions: still a report, which says what was not checked and why."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.assets import EXAMPLES
from tests.faults import command, machine
from tests.faults.command import DOCTOR, whole
from tests.faults.tree import MEEK
from tests.leaving import leave_out

if TYPE_CHECKING:
    from tests.faults.machine import Shop

RECORDED = f"--from {EXAMPLES / 'driver-too-old.json'}"  # where the output is poor, not the machine
NOBODY = 65534
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def environ(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a healthy machine."""
    return machine.planted(shop, tmp_path_factory.mktemp("machine"), ())


def test_nothing_in_the_environment_is_required() -> None:
    assert whole(command.run(DOCTOR, {}))["components"]


def test_an_unknown_user_without_rights_gets_a_report(environ: dict[str, str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("we are an ordinary user already: all other tests here are of that")
    drop = f"import os,runpy,sys;os.setgroups([]);os.setgid({NOBODY});os.setuid({NOBODY});os.chdir('/');"
    more = {**environ, "PYTHONPATH": str(machine.FAKES.parents[1])}
    if subprocess.run([sys.executable, "-c", f"{drop}import gpustack.cli"], env=more, check=False).returncode:
        pytest.skip("nobody may not read this Python")
    assert any("permission denied" in one["why"] for one in whole(_python(drop, more))["not_seen"])


def test_root_without_its_powers_is_told_what_is_denied(environ: dict[str, str], tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0)
    argv = [sys.executable, "-c", MEEK, sys.executable, "-m", "gpustack", *DOCTOR]
    more = {**environ, "LD_LIBRARY_PATH": f"{environ['LD_LIBRARY_PATH']}:{hidden}"}
    done = subprocess.run(argv, env=more, capture_output=True, text=True, timeout=60, check=False)
    report = whole(command.Ran(code=done.returncode, out=done.stdout, err=done.stderr, seconds=0, mark=""))
    assert {"what": str(hidden), "why": "permission denied", "enable_by": "run gpustack as root"} in report["not_seen"]
    hidden.chmod(0o700)


def _python(before: str, environ: dict[str, str], **more: Any) -> command.Ran:  # noqa: ANN401 - what run takes
    """Run the command in a Python that executes this first."""
    argv = [sys.executable, "-c", f"{before}runpy.run_module('gpustack', run_name='__main__')", *DOCTOR]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False, **more)
    return command.Ran(code=done.returncode, out=done.stdout, err=done.stderr, seconds=0, mark="")


def _limited(limits: dict[int, int]) -> Callable[[], None]:
    def limit() -> None:
        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))

    return limit


@pytest.mark.parametrize(
    ("limits", "beyond"),
    [
        ({resource.RLIMIT_AS: 160 << 20}, "bytearray(200 << 20)"),
        (
            {
                resource.RLIMIT_FSIZE: 0,
                resource.RLIMIT_CORE: 0,
                resource.RLIMIT_STACK: 1 << 20,
                resource.RLIMIT_CPU: 10,
            },
            "open('file', 'wb', 0).write(b'word')",
        ),
    ],
    ids=["memory", "file-size, core, stack and time"],
)
def test_a_limit_in_force_loses_no_answer_that_a_verdict_depends_on(
    environ: dict[str, str], limits: dict[int, int], beyond: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", beyond]
    ends = [
        subprocess.run(argv, cwd=tmp_path, preexec_fn=limit, capture_output=True, check=False).returncode
        for limit in (None, _limited(limits))
    ]
    assert ends == [0, 1], "only the limit stands in its way"
    ran = command.run(DOCTOR, environ, preexec_fn=_limited(limits))
    assert whole(ran)["verdict"]["status"] == "healthy"
    known = ("linux-kernel", "nvidia-driver", "nvml", "libcuda", "gpu", "cudnn")
    assert {name: ran.status(name)[0] for name in known} == dict.fromkeys(known, "present")


def test_a_full_disk_is_one_line(environ: dict[str, str]) -> None:
    if not FULL.exists():
        leave_out("there is no /dev/full here")
    with FULL.open("w") as full:
        argv = [sys.executable, "-m", "gpustack", *DOCTOR, *RECORDED.split()]
        done = subprocess.run(
            argv, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (
        2, "gpustack: standard output cannot be written: No space left on device\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("closed", "more"),
    [("<&-", RECORDED), (">&-", RECORDED), ("2>&-", RECORDED), ("<&- >&- 2>&-", "")],
)
def test_closed_streams_are_not_a_crash(environ: dict[str, str], closed: str, more: str, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    argv = f'exec "$0" -m gpustack doctor --format json -o "$1" {more} {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", argv, sys.executable, str(out)], env=environ, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr
    assert command.Ran(code=0, out=out.read_text(), err="", seconds=0, mark="").report["components"]


def test_a_reader_that_goes_away_is_not_an_error(environ: dict[str, str]) -> None:
    argv = f'"$0" -m gpustack doctor --format json {RECORDED} | head -c 1; exit 0'
    done = subprocess.run(
        ["/bin/sh", "-c", argv, sys.executable], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize("columns", [1, 20])
def test_narrow_screens_and_ascii_are_enough(environ: dict[str, str], columns: int) -> None:
    more = {**environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": str(columns), "TERM": "dumb"}
    ran = command.run(("doctor", *(RECORDED.split() if columns == 1 else ())), more)
    assert ran.code in {0, 1}
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    if columns == 20:
        prose = [line for line in ran.out.splitlines() if not line.startswith("      ")]  # commands are not broken
        assert [line for line in prose if len(line) > columns and " " in line.strip()] == []


def test_a_folder_that_is_gone_does_not_break_it(environ: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    before = f"import os,runpy,sys;os.chdir({str(folder)!r});os.rmdir({str(folder)!r});"
    whole(_python(before, {**environ, "PYTHONPATH": str(machine.FAKES.parents[1])}))


@pytest.mark.parametrize(("opened", "why"), [("<&-", "is empty"), ("0>&1", "cannot be read")])
@pytest.mark.parametrize(
    "argv", ["doctor --from -", "matrix why torch==2.9.0 --from -", f"diff - {EXAMPLES}/driver-too-old.json"]
)
def test_a_standard_input_that_gives_nothing_is_one_line(
    environ: dict[str, str], argv: str, opened: str, why: str
) -> None:
    line = ["/bin/sh", "-c", f'exec "$0" -m gpustack {argv} {opened}', sys.executable]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gpustack: standard input {why}")
    assert done.stderr.count("\n") == 1
