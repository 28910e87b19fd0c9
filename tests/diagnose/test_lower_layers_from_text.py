"""Pasted text about drivers, kernel modules, containers and virtual machines, and the cause that the doctor names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health
from tests.build import MATRIX

if TYPE_CHECKING:
    from gpustack.model.report import Report

REFUSED = """NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: {})
NVRM: installed in this system is not supported by the
NVRM: NVIDIA {} driver release.
NVRM: None of the NVIDIA devices were initialized.
"""
OPEN_ONLY = """NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.144
NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)
NVRM: installed in this system requires use of the NVIDIA open kernel modules.
"""
THREE_LEFT = "\n\n$ nvidia-smi -L\n" + "".join(
    f"GPU {number}: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-00000000000{number})\n"
    for number in range(3)
)
NODES = """$ ls -l /dev/nvidia*
crw-rw----{} 1 root {} 195,   0 Jan 12 09:12 /dev/nvidia0
crw-rw---- 1 root {} 195, 255 Jan 12 09:12 /dev/nvidiactl
crw-rw-rw- 1 root root 506,   0 Jan 12 09:12 /dev/nvidia-uvm
"""
INSUFFICIENT = "$ nvidia-smi\nFailed to initialize NVML: Insufficient Permissions\n"
AVC = (
    'type=AVC msg=audit(1700000000.1:35): avc:  denied  {{ map }} for  pid=11 comm="python" path="/dev/nvidia0"'
    ' dev="devtmpfs" ino=8 scontext=s tcontext=t tclass=chr_file permissive={}'
)


@cache
def report(text: str) -> Report:
    """Return the report on one text."""
    return judge(load_texts({"a paste.txt": text.encode()}, MATRIX), MATRIX)


def roots(text: str) -> tuple[str, ...]:
    """Return the causes that the doctor names, likeliest first."""
    return report(text).verdict.root_causes


def first(text: str) -> str:
    """Return what the doctor names first, a root or else a candidate."""
    return [*roots(text), *(one.id for one in report(text).candidates), ""][0]


@pytest.mark.parametrize(
    ("text", "root"),
    [
        (REFUSED.format("10de:2236", "550.54.15") + "A10 in a VM on vSphere 8", "vgpu-guest-driver-missing"),
        (REFUSED.format("10de:2b85", "550.54.15"), "driver-too-old-for-gpu"),
        (REFUSED.format("10de:1b06", "590.44.01"), "legacy-gpu-needs-older-branch"),
        (
            OPEN_ONLY,
            "closed-module-unsupported-gpu",
        ),
        (
            "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x025001c6 0x0 0x0 0x0 0x0 0x0)",
            "nvlink-error",
        ),
        ("GTX 1050 on Arch. After the upgrade nvidia-dkms is at 590 and X is dead.", "legacy-gpu-needs-older-branch"),
        ("GTX 1080 Ti with driver version 590.44: nvidia-smi No devices were found", "legacy-gpu-needs-older-branch"),
        (INSUFFICIENT + NODES.format("+", "vglusers", "vglusers"), "device-nodes-not-accessible"),
        (NODES.format("", "video", "video") + INSUFFICIENT, "device-nodes-not-accessible"),
    ],
)
def test_what_the_text_decides_is_the_root(text: str, root: str) -> None:
    assert roots(text)[:1] == (root,)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (AVC.format(0), "device-nodes-not-accessible"),
        ("$ lspci\n1c:00.0 VGA compatible controller: NVIDIA Corporation TU102GL (rev ff)", "gpu-fell-off-bus"),
        ("Rootless podman: as root nvidia-smi works, and from then on rootless works too.", "nvidia-uvm-missing"),
        ("$ hashcat -I\nclGetDeviceIDs(): CL_DEVICE_NOT_FOUND", "opencl-icd-broken"),
        ("==> ERROR: module not found: 'nvidia_uvm'", "nvidia-module-not-loaded"),
        ("INFO: task nvidia-smi:509579 blocked for more than 120 seconds.", "gpu-process-stuck"),
        ("nvidia-smi never comes back on this node; ps shows it in state D.", "gpu-process-stuck"),
    ],
)
def test_what_the_text_suggests_comes_first(text: str, cause: str) -> None:
    assert first(text) == cause


@pytest.mark.parametrize(
    "said",
    [
        "nvidia-smi only shows 3 of our 4 GPUs.",
        "lspci lists 4 GPUs, nvidia-smi lists 3 only.",
        "One of the four GPUs is missing since the upgrade.",
        "There should be 8 GPUs in the machine, I see 3.",
    ],
)
def test_a_list_of_the_gpus_that_are_left_does_not_make_a_machine_well(said: str) -> None:
    assert report(said + THREE_LEFT).verdict.status is Health.UNKNOWN
    assert first(said + THREE_LEFT) == "gpu-missing"


def test_such_a_list_by_itself_is_well() -> None:
    assert report("All work." + THREE_LEFT).verdict.status is Health.HEALTHY


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0 0x8)",
            "nvlink-error",
        ),
        ("My GTX 1060 works fine with driver 580.126.", "legacy-gpu-needs-older-branch"),
        (REFUSED.format("10de:2b85", "550.54.15") + "in a VM", "vgpu-guest-driver-missing"),
    ],
)
def test_what_does_no_harm_is_not_blamed(text: str, cause: str) -> None:
    assert cause not in {*roots(text)[:1], first(text)}


@pytest.mark.parametrize(
    "text",
    [
        AVC.format(1),
        "01:00.0 VGA compatible controller: NVIDIA Corporation GK106M [GeForce GTX 765M] (rev ff)",
        "nvidia-smi lists only one process",
    ],
)
def test_what_was_allowed_asleep_or_something_else_is_no_message(text: str) -> None:
    kinds = {one.kind for one in load_texts({"a paste.txt": text.encode()}, MATRIX).messages}
    assert not kinds & {"selinux-denied-gpu", "bus-reads-ones", "gpus-fewer-said"}


def test_a_container_without_control_groups_has_its_own_fix() -> None:
    text = "config.toml:\nno-cgroups = true\n\nIn docker: Failed to initialize NVML: Unknown Error"
    assert roots(text) == ("container-cgroup-lost-devices",)
    found = next(one for one in report(text).findings if one.id == "container-cgroup-lost-devices")
    assert "no-cgroups" in found.title
