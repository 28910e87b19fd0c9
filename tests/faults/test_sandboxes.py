"""Where the kernel shows little or refuses much: the report is complete, and says what was not checked."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.collect.subprocesses import Door
from tests.faults import command, machine
from tests.faults.command import DOCTOR, whole
from tests.leaving import leave_out
from tests.told import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.faults.machine import Shop

CANNOT = 77
PATIENT = (*DOCTOR, "--timeout", "50")  # the test is whether they finish, not how soon
UNSEEN_ROOT = "run gpustack as root"
STRANGERS = itertools.count(1 << 20 | os.getpid())  # ids that no user and no process here has
POWERS = "-sys_ptrace,-dac_override,-dac_read_search"  # without them root sees no more than any other user


@pytest.fixture(scope="module")
def environ(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a healthy machine."""
    return machine.planted(shop, tmp_path_factory.mktemp("machine"), ())


def apart(environ: dict[str, str], mounts: str, *before: str) -> command.Ran:
    """Run the command where these file systems are mounted; skip the test where there are no mount namespaces."""
    if not shutil.which("unshare"):
        leave_out("there is no unshare here")
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = ["unshare", "--mount", *own, "sh", "-c", f'({mounts}) 2>/dev/null || exit {CANNOT}; exec "$0" "$@"', *before]
    ran = started([*argv, sys.executable, "-m", "gpustack", *PATIENT], environ)
    if ran.code == CANNOT or "unshare: " in ran.err:
        pytest.skip(f"this machine gives no mount namespace: {ran.err.strip() or mounts}")
    return ran


def started(argv: list[str], environ: dict[str, str], processes: int | None = None) -> command.Ran:
    """Run a program to its end, with a limit on the number of its user's processes."""

    def limit() -> None:
        if processes is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))

    done = subprocess.run(
        argv, env=environ, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit
    )  # fmt: skip
    return command.Ran(code=done.returncode, out=done.stdout, err=done.stderr, seconds=0, mark="")


def unseen(report: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return what was not checked, why, and what would make it visible."""
    return {row["what"]: (row["why"], row["enable_by"]) for row in report["not_seen"]}


def test_without_proc_and_dev_the_libraries_are_queried_anyway(environ: dict[str, str]) -> None:
    ran = apart(environ, " && ".join(f"mount -t tmpfs -o ro none /{name}" for name in ("proc", "dev")))
    report = whole(ran)
    assert unseen(report)["/proc"] == unseen(report)["/dev"] == ("nothing is mounted there", None)
    assert report["verdict"]["status"] == "healthy"
    assert report["host"]["kernel"] == os.uname().release
    known = ("linux-kernel", "nvml", "libcuda", "gpu", "cudnn", "level-zero")
    assert {ran.status(one)[0] for one in known} == {"present"}


def test_without_sys_the_bus_is_unknown_and_no_module_is_called_absent(environ: dict[str, str]) -> None:
    bare = {name: value for name, value in environ.items() if name != "LD_LIBRARY_PATH"}
    ran = apart(bare, " && ".join(f"mount -t tmpfs -o ro none /{name}" for name in ("proc", "sys", "dev")))
    report = whole(ran)
    assert {"/proc", "/sys", "/dev"} <= set(unseen(report))
    assert report["verdict"]["status"] == "unknown", "nobody has seen that there is no GPU"
    for component in ("pci-display", "nvidia.ko", "nvidia-uvm.ko"):
        assert ran.status(component) == ("failed", "OSError: /sys: nothing is mounted there")


@pytest.mark.parametrize(("how", "more"), [(1, "mount -o remount,bind,ro /"), (2, "true")], ids=["1, read-only", "2"])
def test_where_others_processes_are_hidden_it_is_said(environ: dict[str, str], how: int, more: str) -> None:
    """The mount is a new one: remounting /proc with other options would change it for the whole machine.

    A read-only file system does not limit what is checked.
    """
    if not shutil.which("setpriv") or os.geteuid() != 0:
        pytest.skip("only root can mount a /proc of its own here, and give its powers away with setpriv")
    mount = f"mount -t proc -o hidepid={how},gid={next(STRANGERS)} proc /proc && {more}"
    report = whole(apart(environ, mount, "setpriv", "--bounding-set", POWERS))
    assert unseen(report)["/proc/*/comm"] == ("permission denied", UNSEEN_ROOT)
    assert report["verdict"]["status"] == "healthy"


@pytest.fixture(scope="module")
def filtered(shop: Shop) -> Path:
    """Return the program that starts another under a system call filter."""
    program = shop.folder / "seccomp"
    made = subprocess.run(
        [shop.compiler, "-O1", "-o", str(program), str(machine.FAKES / "seccomp.c")], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no filter can be compiled here: {made.stderr.decode()[:300]}")
    return program


def test_a_filter_of_system_calls_such_as_containers_have_is_not_noticed(
    environ: dict[str, str], filtered: Path
) -> None:
    """The strict one refuses everything that a container's runtime refuses by default, and more: sockets, for one."""
    socket = [sys.executable, "-c", "import socket; socket.socket()"]
    ends = [started([*before, *socket], {}).code for before in ([], [str(filtered), "strict"])]
    assert ends in ([0, 1], [0, CANNOT])
    report = whole(_under(filtered, "strict", environ))
    assert report["verdict"]["status"] == "healthy"
    assert _blind(report) == []


def test_a_filter_that_lets_nobody_be_started_leaves_the_report_to_say_so(
    environ: dict[str, str], filtered: Path
) -> None:
    report = whole(_under(filtered, "alone", environ))
    assert report["verdict"]["status"] == "unknown"
    assert {one["status"] for one in report["components"]} == {"failed"}
    assert all(why.endswith("could not be started: Operation not permitted") for why, _ in unseen(report).values())


def _blind(report: dict[str, Any]) -> list[str]:
    return [one["id"] for one in report["components"] if one["status"] in {"failed", "unknown"}]


def _under(program: Path, profile: str, environ: dict[str, str]) -> command.Ran:
    ran = started([str(program), profile, sys.executable, "-m", "gpustack", *PATIENT], environ)
    if ran.code == CANNOT:
        pytest.skip("this machine gives no filter of system calls")
    return ran


def test_where_few_processes_may_be_had_they_take_turns(environ: dict[str, str]) -> None:
    report = whole(_as_a_stranger(environ, 12))
    assert report["verdict"]["status"] == "healthy"
    assert _blind(report) == []


def test_where_no_further_process_may_be_had_the_report_says_so(environ: dict[str, str]) -> None:
    report = whole(_as_a_stranger(environ, 1))
    assert report["verdict"]["status"] == "unknown"
    assert all("could not be started: Resource temporarily unavailable" in why for why, _ in unseen(report).values())


def _as_a_stranger(environ: dict[str, str], most: int) -> command.Ran:
    """Run it as a user who may read everything and has no other process, since root may exceed this limit."""
    if not shutil.which("setpriv") or os.geteuid() != 0:
        pytest.skip("only root can be another user, of whom there are no other processes, with setpriv")
    powers = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    number = str(next(STRANGERS))
    user = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", *powers]
    return started([*user, sys.executable, "-m", "gpustack", *PATIENT], environ, most)


def test_few_open_files_cost_time_and_no_answer(environ: dict[str, str]) -> None:
    report = whole(
        command.run(PATIENT, environ, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    )
    assert report["verdict"]["root_causes"] == ["open-files-low"]  # sixteen are too few for work on GPUs
    assert _blind(report) == []


def _refuse() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


class Scarce(Door):
    """A subprocess starter that starts one child at a time, and none until the previous one has been reaped."""

    def __init__(self) -> None:
        self.last: Path | None = None
        self.refused = 0

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        self.collect()
        if self.last and self.last.exists():
            self.refused += 1
            _refuse()
        child = super().start(argv, environ, stdin)
        self.last = Path(f"/proc/{child.pid}")
        return child


def test_children_take_turns_where_the_system_has_room_for_one(environ: dict[str, str]) -> None:
    door = Scarce()
    facts = machine.look(environ, door=door)
    assert door.refused
    assert {one.status.value for one in facts.components} <= {"present", "absent"}


def test_forks_that_cannot_be_had_have_their_turn_later(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, asked, fork_all = os.fork, itertools.count(), load("children.py")["fork_all"]
    monkeypatch.setattr(os, "fork", lambda: _refuse() if next(asked) % 3 == 1 else fork())
    assert fork_all([lambda number=number: number for number in range(5)], 5.0) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(os, "fork", _refuse)
    (answer,) = fork_all([int], 0.2)
    assert str(answer) == "no process could be started for it: Resource temporarily unavailable"
