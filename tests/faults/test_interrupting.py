"""The command on a machine where everything hangs: in time, interruptible at any moment, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import assets
from gpustack.collect import catalogue
from tests.faults import command, machine
from tests.faults.command import DOCTOR
from tests.patience import idle, in_time
from tests.schemas.test_schemas import validator

if TYPE_CHECKING:
    from tests.faults.machine import Shop

pytestmark = in_time

HUNG = "NV_SICK", "cuInit=hang;nvmlInit=spin;zeInit=stop;cudnnGetVersion=hang;rsmi_init=hang"
CRASHED = "NV_SICK", "cuInit=segv;nvmlInit=abort;zeInit=exit0;cudnnGetVersion=smash;rsmi_init=deep;ncclGetVersion=bus"
ENDS = (130, -signal.SIGINT)  # a shell shows both as 130


@pytest.fixture(scope="module")
def environ(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a healthy machine, with a home of its own."""
    home = tmp_path_factory.mktemp("home")
    return {**machine.planted(shop, tmp_path_factory.mktemp("machine"), ()), "HOME": str(home), "TMPDIR": str(home)}


def sick(environ: dict[str, str], plan: tuple[str, str]) -> dict[str, str]:
    return {**environ, "NV_SICK": plan[1], "NVML_FAKE": plan[1]}


@pytest.fixture(scope="module")
def crashed(environ: dict[str, str]) -> command.Ran:
    """Return the result on a machine where everything crashes."""
    return command.run(DOCTOR, sick(environ, CRASHED))


def cut(environ: dict[str, str]) -> command.Ran:
    """Return the result on a machine where everything hangs and the user pressed Ctrl-C."""
    return command.run(DOCTOR, sick(environ, HUNG), 0.5, children=8)


def test_a_machine_where_all_hangs_is_reported_in_time(environ: dict[str, str]) -> None:
    ran = command.run((*DOCTOR, "--timeout", "3"), sick(environ, HUNG))
    validator("report").validate(ran.report)
    assert ran.seconds < idle(5)  # three, and what a busy machine takes to start a Python
    assert ran.report["verdict"]["status"] in {"unknown", "broken"}
    for component, letter in (("libcuda", "S"), ("nvml", "R"), ("level-zero", "T")):
        status, reason = ran.status(component)
        assert status == "failed"
        assert f"(state {letter}" in reason
    assert command.left(ran.mark) == []


def test_a_machine_where_all_crashes_is_reported_whole(crashed: command.Ran) -> None:
    validator("report").validate(crashed.report)
    assert crashed.report["verdict"]["status"] in {"unknown", "broken"}
    assert "SIGSEGV" in crashed.status("libcuda")[1]
    assert "SIGABRT" in crashed.status("nvml")[1]
    assert "exit code 0" in crashed.status("level-zero")[1]
    assert {one["id"] for one in crashed.report["components"]} == {one.id for one in catalogue.load()}
    assert command.left(crashed.mark) == []


def test_ctrl_c_reports_what_is_known_within_a_second(environ: dict[str, str]) -> None:
    ran = cut(environ)
    _interrupted(ran)
    assert ran.out, "nothing was told of what was known by then"


def test_ctrl_c_while_the_children_are_started_reports_what_is_known(environ: dict[str, str]) -> None:
    _interrupted(command.run(DOCTOR, sick(environ, HUNG), 0.0, children=1))


def _interrupted(ran: command.Ran) -> None:
    """Assert that it ended at once, left no process behind, and reported what was known."""
    assert ran.code in ENDS
    assert ran.err.strip().splitlines()[-1].startswith("gpustack: interrupted")
    assert "Traceback" not in ran.err
    assert ran.seconds < idle(1.5)  # one, and what a busy machine adds
    assert command.left(ran.mark) == []
    if ran.out:
        assert ran.code == 130
        validator("report").validate(ran.report)
        assert "interrupted" in ran.status("libcuda")[1]
        unseen = [one["fix"]["text"] for one in ran.report["findings"] if one["id"] == "component-not-seen"]
        assert set(unseen) <= {"Run gpustack again, and let it finish."}  # not advice for a driver that hangs


@pytest.mark.parametrize("after", [0.0, 0.04, 0.08, 0.15, 0.25])
def test_ctrl_c_at_the_very_start_is_one_line(environ: dict[str, str], after: float) -> None:
    ran = command.run(DOCTOR, sick(environ, HUNG), after)
    ours = (
        ran.code == 130 or "gpustack/cli" in ran.err or "gpustack: " in ran.err
    )  # else Python was still starting, and says so itself
    assert not ours or (ran.code in ENDS and ran.err.startswith("gpustack: interrupted")), ran.err
    assert ran.seconds < idle(1.5)
    assert command.left(ran.mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_command_leaves_no_child_behind(
    environ: dict[str, str], number: signal.Signals, tmp_path: Path
) -> None:
    """Each library hangs by then, in a child or in a fork of a child: none would end by itself."""
    mark = f"{os.getpid()}-{number}-{time.monotonic_ns()}"
    met = tmp_path / "met"
    child = command.start(DOCTOR, {**sick(environ, HUNG), "NV_FIRED": str(met)}, mark)
    deadline = time.monotonic() + 20
    while not (met.exists() and {*HUNG[1].split(";")} <= {*met.read_text().split()}) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert time.monotonic() < deadline
    child.send_signal(number)
    child.communicate(timeout=10)
    assert command.left(mark) == []


@pytest.mark.usefixtures("crashed")
def test_no_file_is_left(environ: dict[str, str]) -> None:
    cut(environ)
    names = [path.name for path in Path(environ["HOME"]).rglob("*")]
    assert [name for name in names if not name.startswith("tmpxft_")] == []  # nvcc's own, when killed at work


def test_a_child_whose_starter_is_gone_before_it_could_say_so_ends_at_once(environ: dict[str, str]) -> None:
    """It was started, and its caller was killed before the kernel knew that the two belong together."""
    asked = {"rows": [{"id": "x", "probe": "driver/nvml.py"}], "bound": _gone()}
    argv = [sys.executable, "-I", "-S", str(assets.PROBES), json.dumps(asked)]
    done = subprocess.run(argv, env=sick(environ, HUNG), capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def _gone() -> int:
    """Return the id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid
