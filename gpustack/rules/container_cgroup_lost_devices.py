"""The container's device rules have lost the GPU.

The device nodes are there and their modes allow opening them, yet opening is refused: the container's cgroup no longer
lists them. That happens to running containers when systemd reloads its units (systemctl daemon-reload), and NVML then
says "Unknown Error". Start the container again; to keep it from coming back, pass the devices by CDI or by --device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules.nodes import refused
from gpustack.rules.reading import because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a container may open a node by its mode and is refused all the same."""
    lost = [path for path, by_mode in refused(facts) if not by_mode]
    if not facts.host.container or not lost:
        return
    yield Finding(
        id="container-cgroup-lost-devices",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title=f"The container's device rules refuse {', '.join(lost)}, whose modes allow it",
        because=(because(facts, "nvidia.ko", "nodes"), because(facts, "nvml", "error")),
        fix=Fix(
            text="Start the container again. To keep it from coming back, pass the devices by CDI, or name each node.",
            commands=("docker run --device nvidia.com/gpu=all …",),
            verify="nvidia-smi",
        ),
    )
