"""The command that verifies a fix shows the fault while it is present, and succeeds once it is gone.

Each is run by a shell on a stand-in of the program that it calls: once as that program behaves with the fault, once
without it. ``gpustack doctor`` is its own check: the machine that has the finding is judged, and the same machine
without the fault. What no stand-in can imitate is in ``NOT_TRIED``, with the reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpustack.selftest import prove
from tests.build import MATRIX, PYTHON, healthy, report, torch
from tests.diagnose.test_rules import judged

if TYPE_CHECKING:
    from pathlib import Path

SMI = ("echo 'NVIDIA-SMI has failed'; exit 9", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'")
LISTS = (
    "echo 'libc.so.6 => /lib'",
    "echo 'libcudnn.so.9 libcuda.so.1 libcudart.so.12 libcublasLt.so.12 libnvrtc.so.12'",
)
# What a command calls: the program, and what its shell stand-in does with the fault and without it.
STANDS: tuple[tuple[str, str, str, str], ...] = (
    (r"(/usr/lib/wsl/lib/)?nvidia-smi( -L| topo -m)?", "nvidia-smi", *SMI),
    (r"nvidia-smi nvlink --status( -i \S+)?", "nvidia-smi", "echo 'Link 0: <inactive>'", "echo 'Link 0: 26 GB/s'"),
    (
        r"nvidia-smi -q \| grep -A 8 Fabric",
        "nvidia-smi",
        "echo 'Fabric State : In Progress'",
        "echo 'Fabric Completed'",
    ),
    (r"env \| grep .*", "env", "echo CUDA_LAUNCH_BLOCKING=1", "echo CUDA_VISIBLE_DEVICES=0"),
    (r"nvidia-imex-ctl -N", "nvidia-imex-ctl", "echo 'Domain State: DOWN'; exit 1", "echo 'Domain State: UP'"),
    (r"amd-smi metric( -g \S+)?", "amd-smi", "echo 'REPLAY_COUNT: 500000'", "echo 'REPLAY_COUNT: 0'"),
    (r"lspci -k(?: -s \S+)?", "lspci", "echo 'Display controller'", "echo 'Kernel driver in use: xe'"),
    (r"rdma link", "rdma", "echo 'state DOWN'", "echo 'state ACTIVE'"),
    (r"timedatectl .*", "timedatectl", "echo NTPSynchronized=no", "echo NTPSynchronized=yes"),
    (
        r"nvidia-smi -q -d ECC\S*( -i \S+)?",
        "nvidia-smi",
        "echo 'DRAM Uncorrectable : 4'",
        "echo 'DRAM Uncorrectable : 0'",
    ),
    (r"nvidia-smi -q -d PCI", "nvidia-smi", "echo 'Current : 1'", "echo 'Current : 5'"),
    (r"nvidia-smi (--query-gpu=\S+ --format=csv|-q( .*)?)", "nvidia-smi", *SMI),
    (r"ldconfig -p \| grep (lib\S+|-E '\S+')", "ldconfig", *LISTS),
    (r"systemctl (is-active|status) nvidia-fabricmanager", "systemctl", "echo failed; exit 3", "echo active"),
    (r"nvcc --(version|list-gpu-arch)", "nvcc", "exit 127", "echo compute_120"),
    (r"rocminfo( \| grep gfx)?", "rocminfo", "echo 'no HSA device'; exit 1", "echo 'Name: gfx1100'"),
    (r"rocm-smi|sycl-ls|clinfo -l|vulkaninfo --summary", "", "exit 1", "echo 'a device'"),
    (r"docker run .*", "docker", "echo 'could not select device driver' >&2; exit 125", "echo 'GPU 0'"),
    (r"dkms status", "dkms", "echo 'nvidia/580: added'", "echo 'nvidia/580: installed'"),
    (r"id -nG", "id", "echo users", "echo users render video"),
    (r"df -h /dev/shm", "df", "echo 'shm 64M'", "echo 'shm 8.0G'"),
    (r"ldd --version", "ldd", "echo 'ldd 2.28'", "echo 'ldd 2.39'"),
    (r"\S*g\+\+(-\d+)? --version", "", "exit 127", "echo 'g++ 13'"),
    (r"ls /\S+( /\S+)?", "ls", "exit 2", "echo kfd"),
    (r"cat /\S+", "cat", "echo N", "echo Y"),
    (r"strings \S+ \| grep \S+", "strings", "echo GLIBCXX_3.4.28", "echo GLIBCXX_3.4.29 GLIBCXX_3.4.30 GLIBCXX_3.4.32"),
    (r"python -m (pip check|bitsandbytes|xformers\.info)", "python", "echo 'has requirement'; exit 1", "echo fine"),
    (r"python --version", "python", "echo 'Python 3.14.0'", "echo 'Python 3.12.1'"),
)
NOT_TRIED = {
    r"ulimit -[ln]": "the limit is that of the shell itself, which only root may raise",
    r"grep -ho .*": "it reads the memory maps of running processes",
    r"gpustack --version": "it shows which gpustack was installed; whether it is new enough, a person says",
    r'python -c "import numpy; print\(numpy.__version__\)"': "it shows which NumPy is there, which a person reads",
    r"export NCCL_DEBUG=INFO": "NCCL then names the interface it uses, which a person reads",
    r"grep .*|echo .*|where .*": "it shows a setting, which a person reads",
}
DOCTOR = r"gpustack doctor( --deep)?( --python \S+)?"
CODE = re.compile(r"""(?:\S*python\S*|"[^"]*python[^"]*") -c (?P<code>.+)""")


@cache
def verifies() -> dict[str, set[str]]:
    """Return the checks of all fixes on all recorded and invented machines, with the findings they belong to."""
    found: dict[str, set[str]] = {}
    for _, made in judged():
        for one in made.findings:
            if one.fix and one.fix.verify:
                command = re.sub(r"^(\S*/python[\d.]*|\S+python\.exe)(?= )", "python", one.fix.verify)
                found.setdefault(command.replace(PYTHON, "python"), set()).add(one.id)
    return found


def run(command: str, folder: Path, program: str, does: str) -> tuple[int, str]:
    """Return how a command ends and what it prints, where a program behaves this way."""
    folder.mkdir()
    (folder / program).write_text(f"#!/bin/sh\n{does}\n", "utf-8")
    (folder / program).chmod(0o755)
    shell, path = ["sh", "-c", command], {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(shell, env=path, cwd=folder, capture_output=True, text=True, check=False, timeout=20)
    return done.returncode, done.stdout


def in_python(code: str, folder: Path, *, sick: bool) -> tuple[int, str]:
    """Return how a line of Python ends and what it prints, where the framework that it imports has the fault or not."""
    folder.mkdir()
    for name in set(re.findall(r"import ([\w., ]+?)(?: as \w+)?(?:;|$|\"|')", code)):
        for module in re.split(r"[, ]+", name.replace(" as e", "")):
            top = folder / module.partition(".")[0]
            top.mkdir(exist_ok=True)
            body = "raise ImportError('undefined symbol')\n" if sick else WELL
            at = top
            (at / "__init__.py").write_text(body, "utf-8")
            for part in module.split(".")[1:]:
                at = at / part
                at.mkdir(exist_ok=True)
                (at / "__init__.py").write_text(body, "utf-8")
    shell = ["sh", "-c", f"{sys.executable} -c {code}"]
    done = subprocess.run(
        shell, env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


WELL = """__version__ = "1"
class Any:
    def __getattr__(self, name):
        return self
    def __call__(self, *args, **more):
        return self
    def __matmul__(self, other):
        return self
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Any()
"""


def test_every_check_tells_the_fault_from_the_machine_without_it(tmp_path: Path) -> None:
    wrong = []
    for number, (command, ids) in enumerate(sorted(verifies().items())):
        where = tmp_path / str(number)
        stand = next((one for one in STANDS if re.fullmatch(one[0], command)), None)
        code = CODE.fullmatch(command)
        if re.fullmatch(DOCTOR, command) or any(re.fullmatch(one, command) for one in NOT_TRIED):
            continue
        if code:
            sick, well = (in_python(code["code"], where.with_suffix(f".{one}"), sick=one) for one in (True, False))
        elif stand:
            program = stand[1] or re.split(r"[ |]", command)[0].rpartition("/")[2]
            bare = re.sub(r"^/\S*/(?=\S+( |$))", "", command)
            sick = run(bare, where.with_suffix(".sick"), program, stand[2])
            well = run(bare, where.with_suffix(".well"), program, stand[3])
        else:
            wrong.append(f"no stand-in for {command} ({', '.join(sorted(ids))})")
            continue
        if well[0] != 0 or sick == well:
            wrong.append(f"{command} ({', '.join(sorted(ids))}): {sick} with the fault, {well} without")
    assert not wrong, "\n".join(wrong)
    assert len(verifies()) > 20


@pytest.mark.timeout(240)
def test_where_the_doctor_is_the_check_it_names_the_fault_and_a_healthy_machine_has_none() -> None:
    """The self-test judges a machine with each fault; on a machine without any the same check succeeds."""
    proved = {one.name for one in prove(MATRIX).proofs if one.part.value == "rule" and one.held}
    checked = {one for command, ids in verifies().items() if re.fullmatch(DOCTOR, command) for one in ids}
    assert checked - proved <= UNPROVED, checked - proved
    assert not checked & {one.id for one in report(healthy(torch())).findings}


# Findings about what gpustack itself could or could not check: not faults that could be planted and removed.
UNPROVED = {"component-not-seen"}
