"""The fabric manager, which joins the GPUs of NVSwitch machines: what was said of it, and how it is installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import version
from gpustack.diagnose.rules.saying import heard
from gpustack.diagnose.rules.seen import driver_release, gpus, user_release
from gpustack.model.command import BRANCH, Command, sh
from gpustack.model.report import Fix
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

SAID = ("cuda-802", "fabric-waiting", "fabric-config", "fabric-manager-failed")
# GPUs that sit on NVSwitch boards, by their names. Source: NVIDIA Fabric Manager user guide, "Supported Platforms".
SWITCHED = re.compile(
    r"\b(?:A100|A800|H100|H800)[- ](?:SXM|80GB HBM)|\b(?:H200|H20|H800|B200|B300)\b(?! (?:NVL|PCIe))|\b(?:HGX|DGX)\b"
)
JOINED, MANY = re.compile(r"\b(?:A100|A800|H100|H800)\b(?![- ]PCIe)", re.IGNORECASE), 8
MANAGER = "nvidia-fabricmanager"
NO_GPU = ("cuda-available-false", "no-device", "init-error", "cuda-fails-said", "gpu-unused-said")


def refused(facts: Facts) -> bool:
    """Tell whether CUDA waits for the fabric manager, or it failed where the GPUs need it and CUDA does not start."""
    if heard(facts, "cuda-802", "fabric-waiting", "fabric-config"):
        return True
    named = gpus(facts)
    spoken = any(SWITCHED.search(one.line) for one in facts.messages)
    many = len(named) >= MANY and all(JOINED.search(gpu.name) for gpu in named)
    needed = not named or spoken or many or any(SWITCHED.search(gpu.name) for gpu in named)
    needed = needed and not heard(facts, "fabric-nothing-to-do")
    return needed and heard(facts, "fabric-manager-failed") and (many or heard(facts, *NO_GPU))


def manager_release(facts: Facts) -> DriverRelease | None:
    """Give the release of the fabric manager."""
    return DriverRelease.parse(version(facts, MANAGER))


def install(facts: Facts) -> Fix:
    """Give how the fabric manager of the driver's release is installed and started."""
    release = user_release(facts) or driver_release(facts)
    if fixes.ubuntu(facts) and release:
        commands: tuple[Command, ...] = (
            sh("sudo apt-get install nvidia-fabricmanager-{branch}", branch=BRANCH(release.branch)),
        )
    else:
        commands = fixes.from_nvidia(facts, "nvidia-fabricmanager", fixes.DRIVERS)
    exact = (
        f"fabric manager {release}, exactly the driver's release,"
        if release
        else "the fabric manager of the driver's release"
    )
    return Fix(
        text=f"{fixes.place(facts)}Install {exact} and start it.",
        commands=(*commands, sh("sudo systemctl enable --now nvidia-fabricmanager")),
        needs_root=True,
        verify=sh("systemctl is-active nvidia-fabricmanager"),
    )
