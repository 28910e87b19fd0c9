"""A deleted working folder, hardly any file descriptors, a clock of 2262: a report, or one clear line."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leaving import leave_out
from tests.wide import one_of, wide

REPO = Path(__file__).resolve().parent.parent
SNAPSHOT = str(REPO / "examples" / "driver-too-old.json")
COMMAND = str(Path(sys.executable).with_name("gpustack"))
YEAR = 31_556_952
ENVIRON = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
COMMANDS = {
    "doctor": (0,),
    "doctor --all-envs --timeout 20": (0,),
    f"doctor --from {SNAPSHOT}": (1,),
    f"doctor --from {SNAPSHOT} --format sarif": (1,),
    "stack": (0,),
    "snapshot": (0,),
    "check": (0, 1),
    "bench --quick": (3,),
    "trace --cpu": (0,),
    "matrix show pytorch": (0,),
    "explain Xid 79": (0,),
    "selftest": (0,),
}
# Those that do much the same: probe as the doctor does, read a machine and write it, answer from the tables, measure.
ALIKE = (
    ("doctor --all-envs --timeout 20", "stack", "snapshot", "check"),
    (f"doctor --from {SNAPSHOT}", f"doctor --from {SNAPSHOT} --format sarif"),
    ("matrix show pytorch", "explain Xid 79"),
    ("bench --quick", "trace --cpu", "selftest"),
)
NOWHERE = {  # commands that need a file from a missing folder
    "doctor --from machine.json": 2,
    "doctor --python ./python3": 2,
    "doctor -o report.txt": 2,
    "doctor --format prometheus -o gpu.prom": 2,
    "snapshot -o machine.json": 2,
    "check --init": 2,
    "check --policy gpustack.toml": 2,
}


def commands(why: str, *more: str) -> list[str]:
    """Return the commands that are tried: the doctor and one of each kind, or all with GPUSTACK_WIDE=1."""
    chosen = {"doctor", *more, *(one for kind in ALIKE for one in one_of(kind, why))}
    return [one for one in COMMANDS if one in chosen]


def run(command: str, *, before: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, after what the shell does first."""
    shell = ["/bin/bash", "-c", f'{before}\nexec "$@"', "bash", COMMAND, *command.split()]
    return subprocess.run(
        shell, env={**ENVIRON, **environ}, capture_output=True, text=True, check=False, timeout=90, cwd="/"
    )


def well(done: subprocess.CompletedProcess[str], codes: tuple[int, ...]) -> bool:
    """Return whether it is a report with one of these codes, or one clear line where there is none."""
    said = done.stderr.splitlines()
    assert "internal error" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in codes, (done.returncode, done.stdout, done.stderr)
    return bool(done.stdout) or (len(said) == 1 and said[0].startswith("gpustack: "))


@wide
@pytest.mark.parametrize("command", [*commands("deleted"), *NOWHERE])
def test_the_working_folder_may_be_deleted(command: str, tmp_path: Path) -> None:
    """In CI a sample of the commands, see ``commands``."""
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run(command, before=f"cd {gone} && rmdir {gone}", HOME=str(tmp_path))
    assert well(done, COMMANDS.get(command) or (NOWHERE[command],))


@wide
@pytest.mark.parametrize(("command", "files"), [*((one, 5) for one in commands("files")), ("doctor", 6), ("doctor", 8)])
def test_few_files_may_be_opened(command: str, files: int, tmp_path: Path) -> None:
    """With fewer than five Python itself does not start; what could not be checked is unknown, never healthy.

    In CI a sample of the commands, see ``commands``.
    """
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > files
    done = run(command, before=f"ulimit -n {files}", HOME=str(tmp_path))
    assert well(done, (*COMMANDS[command], 1, 3) if command == "selftest" else (*COMMANDS[command], 3))
    if command == "doctor" and done.returncode == 0:
        assert "UNKNOWN" in done.stdout
    if done.returncode == 3:
        assert "Too many open files" in done.stderr or command.startswith("bench")


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that sets the clock forward in any process that preloads it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        leave_out("there is no C compiler")
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    source = str(REPO / "tests" / "fakes" / "clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), source, "-ldl"], check=True)
    return made


# In years from about 2026 on: past what nanoseconds can count, and past 9999.
@wide
@pytest.mark.parametrize(("command", "years"), [*((one, 237) for one in commands("c", "snapshot")), ("check", 7980)])
def test_the_clock_may_be_in_another_century(command: str, years: int, clock: Path, tmp_path: Path) -> None:
    """In CI a sample of the commands, see ``commands``."""
    shifted = {"LD_PRELOAD": str(clock), "CLOCK_SHIFT": str(years * YEAR)}
    done = run(command, HOME=str(tmp_path), **shifted)
    assert well(done, COMMANDS[command])
    assert "OverflowError" not in done.stdout + done.stderr
    if command == "snapshot":
        assert '"taken": "2262-04-11T23:47:16+00:00"' in done.stdout or sys.version_info >= (3, 12)


def test_the_clock_of_the_test_is_one_that_python_cannot_read(clock: Path) -> None:
    """The stand-in works; otherwise nothing here could fail. A later Python may read such a clock."""
    environ = {**os.environ, "LD_PRELOAD": str(clock), "CLOCK_SHIFT": str(237 * YEAR)}
    program = "import subprocess, time; print(subprocess.check_output(['date', '+%Y'], text=True)); time.time()"
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert int(done.stdout) > 2262
    assert "OverflowError" in done.stderr
