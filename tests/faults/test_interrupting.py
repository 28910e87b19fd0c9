"""The command on a machine where all hangs: in time, interruptible at any moment, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults import command, machine
from tests.test_schemas import validator

if TYPE_CHECKING:
    from tests.faults.machine import Shop

HUNG = "NV_SICK", "cuInit=hang;nvmlInit=spin;zeInit=stop;cudnnGetVersion=hang;rsmi_init=hang"
CRASHED = "NV_SICK", "cuInit=segv;nvmlInit=abort;zeInit=exit0;cudnnGetVersion=smash;rsmi_init=deep;ncclGetVersion=bus"
DOCTOR = ("doctor", "--format", "json")
ENDS = (130, -signal.SIGINT)  # a shell shows both as 130


@pytest.fixture(scope="module")
def environ(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment of a machine that is well, with a home of its own."""
    home = tmp_path_factory.mktemp("home")
    return {**machine.planted(shop, tmp_path_factory.mktemp("machine"), ()), "HOME": str(home), "TMPDIR": str(home)}


def sick(environ: dict[str, str], plan: tuple[str, str]) -> dict[str, str]:
    return {**environ, "NV_SICK": plan[1], "NVML_FAKE": plan[1]}


def test_a_machine_where_all_hangs_is_reported_in_time(environ: dict[str, str]) -> None:
    ran = command.run((*DOCTOR, "--timeout", "4"), sick(environ, HUNG))
    validator("report").validate(ran.report)
    assert ran.seconds < 6  # four, and what a busy machine takes to start a Python
    assert ran.report["verdict"]["status"] in {"unknown", "broken"}
    for component, letter in (("libcuda", "S"), ("nvml", "R"), ("level-zero", "T")):
        status, reason = ran.status(component)
        assert status == "failed"
        assert f"(state {letter}" in reason
    assert command.left(ran.mark) == []


def test_a_machine_where_all_crashes_is_reported_whole(environ: dict[str, str]) -> None:
    ran = command.run(DOCTOR, sick(environ, CRASHED))
    validator("report").validate(ran.report)
    assert ran.report["verdict"]["status"] in {"unknown", "broken"}
    assert "SIGSEGV" in ran.status("libcuda")[1]
    assert "SIGABRT" in ran.status("nvml")[1]
    assert "exit code 0" in ran.status("level-zero")[1]
    assert {len(ran.report["components"])} == {len(command.run(DOCTOR, environ).report["components"])}
    assert command.left(ran.mark) == []


@pytest.mark.parametrize("after", [0.5, 0.9, 1.5])
def test_ctrl_c_gives_what_is_known_within_a_second(environ: dict[str, str], after: float) -> None:
    ran = command.run(DOCTOR, sick(environ, HUNG), after)
    assert ran.code in ENDS
    assert ran.err.strip().splitlines()[-1].startswith("gpustack: interrupted")
    assert "Traceback" not in ran.err
    assert ran.seconds < 1.5  # one, and what a busy machine adds
    assert command.left(ran.mark) == []
    if ran.out:
        assert ran.code == 130
        validator("report").validate(ran.report)
        assert "interrupted" in ran.status("libcuda")[1]
    assert ran.out or after < 1, "nothing was told of what was known by then"


@pytest.mark.parametrize("after", [0.0, 0.04, 0.1, 0.25])
def test_ctrl_c_at_the_very_start_is_one_line(environ: dict[str, str], after: float) -> None:
    ran = command.run(DOCTOR, sick(environ, HUNG), after)
    ours = "gpustack/cli" in ran.err or "gpustack: " in ran.err  # else Python was not up yet, and says so in its way
    assert not ours or (ran.code in ENDS and ran.err.startswith("gpustack: interrupted")), ran.err
    assert ran.seconds < 1.5
    assert command.left(ran.mark) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_command_leaves_no_child_behind(environ: dict[str, str], number: signal.Signals) -> None:
    mark = f"{os.getpid()}-{number}-{time.monotonic_ns()}"
    child = command.start(DOCTOR, sick(environ, HUNG), mark)
    deadline = time.monotonic() + 10
    while len(command.left(mark, 0)) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(number)
    child.communicate(timeout=10)
    assert command.left(mark, 3.0) == []


def test_no_file_is_left(environ: dict[str, str]) -> None:
    home = Path(environ["HOME"])
    command.run(DOCTOR, sick(environ, HUNG), 0.9)
    command.run(DOCTOR, sick(environ, CRASHED))
    names = [path.name for path in home.rglob("*")]
    assert [name for name in names if not name.startswith("tmpxft_")] == []  # nvcc's own, where it is ended at its work
