"""The machine has a GPU and its driver, and this container was started without them.

The bus and the kernel's modules show through into the container, but the device nodes are not there: nobody asked the
container runtime for GPUs. Start the container with --gpus all (podman: --device nvidia.com/gpu=all; Kubernetes: a
request for nvidia.com/gpu), on a machine with the NVIDIA container toolkit. AMD's GPUs need no toolkit: give the
container /dev/kfd and /dev/dri, and the group that owns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd, containers, naming
from gpustack.diagnose.rules.nodes import left_out
from gpustack.diagnose.rules.reading import because, because_of, flag, items, text, told
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import for_cuda, nvidia_here, ours
from gpustack.model.command import NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a container shows a driven GPU and no device node: a remark where nothing wants CUDA."""
    if containers.without_gpu(facts):
        yield _said(facts, matrix)
        return
    yield from _of_amd(facts)
    module = told(facts, "nvidia.ko")
    driven = flag(module, "loaded") or any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    if not driven or not left_out(facts):
        return
    yield Finding(
        id="container-no-gpus-flag",
        severity=Severity.ERROR if for_cuda(facts) else Severity.INFO,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title="This container was started without the GPU that its machine has",
        because=(
            because(facts, "linux-kernel", "container"),
            because(facts, "nvidia.ko", "loaded"),
            because(facts, "nvidia.ko", "nodes"),
        ),
        fix=_fix(facts),
    )


def _of_amd(facts: Facts) -> Iterator[Finding]:
    """Give the finding where a container has software for AMD GPUs and no /dev/kfd, and its machine drives one."""
    driven = [gpu for gpu in amd.gpus(facts) if gpu.driver == "amdgpu"]
    held = {text(node, "path"): flag(node, "exists") for node in items(told(facts, amd.MODULE), "nodes")}
    if not facts.host.container or not driven or not amd.wanted(facts) or held.get(amd.KFD) is not False:
        return
    yield Finding(
        id="container-no-gpus-flag",
        instance="amd",
        severity=Severity.WARNING if nvidia_here(facts) else Severity.ERROR,
        layer=Layer.CONTAINER,
        component=amd.MODULE,
        title=f"This container was started without {amd.KFD}: ROCm in it finds no GPU, and its machine has one",
        because=(
            because(facts, "linux-kernel", "container"),
            because_of(facts, "amd-gpu", driven[0].copy, "driver"),
            because(facts, amd.MODULE, "nodes"),
        ),
        fix=Fix(
            text="Start the container with /dev/kfd, /dev/dri and the group that owns them (on many systems render "
            "beside video).",
            commands=(sh(containers.AMD, engine=NAME("podman" if facts.host.container == "podman" else "docker")),),
            verify=sh("rocminfo"),
        ),
    )


def _said(facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding on what programs said in a container."""
    outright = heard(facts, "ngc-no-gpu") or containers.asked_for_gpu(facts) is False
    driver = naming.driver_name(facts, matrix)
    return Finding(
        id="container-no-gpus-flag",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title="This container was started without a GPU: neither --gpus nor a reservation of devices asks for one"
        if containers.asked_for_gpu(facts) is False
        else "This container was started without a GPU (no --gpus): the driver is not in it",
        detail="The driver's programs and libraries (nvidia-smi, libcuda) come into a container from the machine, and "
        f"only when a GPU is asked for.{f' The machine has {driver}.' if driver else ''}",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=grounds(facts, containers.TOLD, "docker-run", *containers.NOT_FOUND, *containers.NOT_WORKING),
        fix=_fix(facts),
    )


def _fix(facts: Facts) -> Fix:
    lines = " ".join(one.line.lower() for one in said(facts, "docker-run", containers.TOLD))
    named = next((kind for word, kind in containers.ENGINES.items() if word in lines), "")
    kind = named or facts.host.container or ""
    return Fix(
        text="Start the container with the GPU (docker run --gpus all; compose: deploy.resources.reservations).",
        commands=(containers.COMMANDS.get(kind) or sh("docker run --gpus all …"),),
        verify=sh("nvidia-smi"),
    )
