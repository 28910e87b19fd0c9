"""The driver's daemons: installed or not, running or not, and their version, with and without systemd."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect.catalogue import load as catalogue
from tests.told import ToldHost, load

PROBE = load("driver/daemon.py")
ROWS = {one.id: dict(one.data) for one in catalogue() if one.data["probe"] == "driver/daemon.py"}
MANAGER, PERSISTENCE = "nvidia-fabricmanager", "nvidia-persistenced"
SWITCH = {
    "/sys/bus/pci/devices/0000:07:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:07:00.0/class": "0x068000\n",
}
STATUS = "Package: nvidia-fabricmanager-580\nStatus: install ok installed\nVersion: 580.95.05-0ubuntu1\n\n"
DEB = {
    "/var/lib/dpkg/status": STATUS,
    "/var/lib/dpkg/info/nvidia-fabricmanager-580.list": "/.\n/usr/bin/nv-fabricmanager\n",
}
PROGRAM = "/usr/bin/nv-fabricmanager"


def look(row: str, files: dict[str, Any] | None = None, **said: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return PROBE["probe"](ToldHost(files, row=ROWS[row], **said))


def running(pid: int, name: str) -> dict[str, Any]:
    return {f"/proc/{pid}/comm": f"{name[:15]}\n"}


def test_absent_where_nothing_of_it_is_here() -> None:
    assert look(PERSISTENCE) is None
    assert look(MANAGER, running(7, "bash")) is None


def test_where_switches_are_on_the_bus_its_absence_is_reported_with_the_need() -> None:
    assert look(MANAGER, SWITCH) == {"key": "nv-fabricmanager", "status": "absent", "needed": True}


def test_installed_by_its_package_and_not_running() -> None:
    files = {**DEB, **SWITCH, "/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service": ""}
    seen = look(MANAGER, {**files, "/proc/1/comm": "systemd\n"}, commands={PROGRAM: ""})
    assert look(MANAGER, files, commands={PROGRAM: ""})["running"] is None, "others' processes are hidden"
    assert (seen["version"], seen["version_from"], seen["package"]) == (
        "580.95.05",
        "package",
        "nvidia-fabricmanager-580",
    )
    assert (seen["running"], seen["needed"], seen["enabled"]) == (False, True, True)


@pytest.mark.parametrize(
    ("row", "program", "said", "release"),
    [
        (MANAGER, PROGRAM, "\n\tFabric Manager version is : 535.161.08\n\n", "535.161.08"),
        (PERSISTENCE, "/usr/bin/nvidia-persistenced", "nvidia-persistenced:  version 590.48.01\n", "590.48.01"),
        (PERSISTENCE, "/usr/bin/nvidia-persistenced", "unknown option", None),
    ],
)
def test_without_a_package_the_program_says_its_release(row: str, program: str, said: str, release: str | None) -> None:
    seen = look(row, commands={program: "", f"{program} --version": said})
    assert seen["version"] == release


def test_one_that_hangs_is_installed_anyway() -> None:
    seen = look(MANAGER, commands={PROGRAM: "", f"{PROGRAM} --version": TimeoutError("slow")})
    assert (seen["path"], seen["version"], seen["needed"]) == (PROGRAM, None, None)


@pytest.mark.parametrize("pidfile", [True, False])
def test_running_by_its_file_or_by_its_name(pidfile: bool) -> None:  # noqa: FBT001 - a case
    files: dict[str, Any] = {**running(812, "nv-fabricmanager"), "/etc/passwd": "root:x:0:0::/root:/bin/sh\n"}
    files |= {ROWS[MANAGER]["pid"]: "812\n"} if pidfile else {}
    seen = look(MANAGER, files, links={"/proc/812/exe": f"{PROGRAM} (deleted)"})
    assert (seen["running"], seen["pid"], seen["user"], seen["replaced"]) == (True, 812, "root", True)


@pytest.mark.parametrize("said", ["812\n", "garbage", "", "9999999999999"])
def test_a_stale_file_is_not_believed(said: str) -> None:
    files = {ROWS[MANAGER]["pid"]: said, **running(812, "bash")}
    assert look(MANAGER, files) is None


def test_a_container_that_was_given_the_socket_does_not_know_whether_it_runs() -> None:
    seen = look(PERSISTENCE, {ROWS[PERSISTENCE]["socket"]: ""})
    assert (seen["running"], seen["socket"]) == (None, ROWS[PERSISTENCE]["socket"])


def test_settings_that_decide_how_the_fabric_runs() -> None:
    path = ROWS[MANAGER]["settings"][0]
    seen = look(MANAGER, {path: "# x\nFABRIC_MODE=1\nLOG_LEVEL=4\n"}, commands={PROGRAM: ""})
    assert seen["settings"] == {"FABRIC_MODE": "1"}
    closed = look(MANAGER, {path: OSError(errno.EACCES, "Permission denied")}, commands={PROGRAM: ""})
    assert closed["settings"] == {}


@given(st.text(max_size=120))
def test_whatever_a_program_or_a_file_says(text: str) -> None:
    files = {ROWS[MANAGER]["pid"]: text, ROWS[MANAGER]["settings"][0]: text}
    seen = look(MANAGER, files, commands={PROGRAM: "", f"{PROGRAM} --version": text})
    assert seen["path"] == PROGRAM


IMEX = "nvidia-imex"
TRAY = {"/proc/driver/nvidia/gpus/0008:01:00.0/information": "Model: \t\t NVIDIA GB200\n"}


@pytest.mark.parametrize(
    ("printed", "domain"),
    [("Nodes From\\To  0\nDomain State: UP\n", "UP"), ("Domain State: DEGRADED\n", "DEGRADED"), ("?", None)],
)
def test_imex_tells_its_domain_its_channels_and_whether_this_machine_needs_it(printed: str, domain: str | None) -> None:
    files = {**TRAY, **running(9, IMEX), "/dev/nvidia-caps-imex-channels/channel0": ""}
    seen = look(IMEX, files, commands={"nvidia-imex-ctl -N": printed})
    assert (seen["running"], seen["needed"], seen["channels"], seen["domain"]) == (True, True, 1, domain)


def test_imex_that_does_not_run_has_no_domain_and_is_not_needed_outside_of_a_rack() -> None:
    alone = {"/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\n"}
    assert look(IMEX, alone) is None
    assert look(IMEX, TRAY) == {"key": IMEX, "status": "absent", "needed": True, "channels": 0}
