"""The machine has a GPU and its driver, and this container was started without them.

The bus and the kernel's modules show through into the container, but the device nodes are not there: nobody asked the
container runtime for GPUs. Start the container with --gpus all (podman: --device nvidia.com/gpu=all; Kubernetes: a
request for nvidia.com/gpu), on a machine with the NVIDIA container toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules.reading import because, copies, flag, items, text, told
from gpustack.rules.seen import builds, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

COMMANDS = {
    "podman": "podman run --device nvidia.com/gpu=all …",
    "kubernetes": "kubectl explain pod.spec.containers.resources.limits  # ask for nvidia.com/gpu: 1",
    "apptainer": "apptainer exec --nv …",
}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a container shows a driven GPU and no device node: an error where CUDA is installed."""
    module = told(facts, "nvidia.ko")
    driven = flag(module, "loaded") or any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    nodes = [node for node in items(module, "nodes") if flag(node, "exists")]
    if not facts.host.container or not driven or nodes or "nodes" not in module:
        return
    wants = any(build.accelerator == "cuda" for build in builds(facts)) or copies(facts, "cuda-toolkit")
    yield Finding(
        id="container-no-gpus-flag",
        severity=Severity.ERROR if wants else Severity.WARNING,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title="This container was started without the GPU that its machine has",
        because=(
            because(facts, "linux-kernel", "container"),
            because(facts, "nvidia.ko", "loaded"),
            because(facts, "nvidia.ko", "nodes"),
        ),
        fix=Fix(
            text="Start the container with the GPU.",
            commands=(COMMANDS.get(facts.host.container, "docker run --gpus all …"),),
            verify="nvidia-smi",
        ),
    )
