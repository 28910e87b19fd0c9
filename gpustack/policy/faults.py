"""Whose fault a finding is: the host's, so that the work goes elsewhere, or that of the environment under test.

The layer decides, but for findings that lie in one layer and are mended in another. Each row says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack.model.check import HealthClass
from gpustack.model.facts import Layer

if TYPE_CHECKING:
    from gpustack.model.report import Finding

HOST, OURS = HealthClass.BAD_HOST, HealthClass.BAD_ENVIRONMENT

BY_LAYER: Mapping[Layer, tuple[HealthClass, str]] = {
    Layer.HARDWARE: (HOST, "the hardware is the host's: another host has other hardware"),
    Layer.KERNEL: (HOST, "the kernel is the host's, containers too run on it"),
    Layer.KERNEL_MODULE: (HOST, "the GPU's kernel module is the host's, containers too run on it"),
    Layer.DRIVER: (HOST, "the driver is the host's: another host may have the one that is needed"),
    Layer.CONTAINER: (HOST, "the container runtime is the host's"),
    Layer.RUNTIME: (OURS, "the CUDA runtime comes with the environment or its image"),
    Layer.LIBRARY: (OURS, "the libraries come with the environment or its image"),
    Layer.COMPILER: (OURS, "the compiler comes with the environment or its image"),
    Layer.FRAMEWORK: (OURS, "the framework and its build are what the environment pins"),
    Layer.SERVING: (OURS, "the server is what the environment pins"),
    Layer.APPLICATION: (OURS, "the program is the work itself"),
    Layer.ENVIRONMENT: (OURS, "Python, paths and variables are the environment's"),
}
BY_FINDING: Mapping[str, tuple[HealthClass, str]] = {
    # In the layers of the host, and mended in the environment:
    "compat-libs-803": (OURS, "the compat libraries came with the image, and its library path finds them first"),
    "forward-compat-804": (OURS, "the compat libraries came with the image, and its library path finds them first"),
    "stub-on-loader-path": (OURS, "the library path is the environment's"),
    "container-no-gpus-flag": (OURS, "the flag is missing in the command that starts the job, wherever it runs"),
    "container-shm-too-small": (OURS, "the size is given by the command that starts the job, wherever it runs"),
    # In the layers of the environment, and mended on the host:
    "device-nodes-not-accessible": (HOST, "the modes of the device nodes are set on the host"),
    "user-not-in-render-group": (HOST, "the groups of the account are set on the host"),
    "mig-enabled-no-instance": (HOST, "how the GPU is divided is set on the host"),
    "memlock-too-small": (HOST, "the limit is set on the host"),
    "libcuda-so-symlink-missing": (HOST, "the driver's files are the host's"),
    "wsl-linux-driver-installed": (HOST, "the driver's files are the host's"),
    "wsl-libcuda-shadowed": (HOST, "the driver's files are the host's"),
    "gpu-process-stuck": (HOST, "the process is not the work's own: it was there before"),
    "process-on-deleted-driver": (HOST, "the process is not the work's own: it was there before"),
}


def whose(finding: Finding) -> HealthClass:
    """Give the class of a finding that is a root and an error."""
    return _row(finding)[0]


def because(finding: Finding) -> str:
    """Say why it is of this class."""
    return _row(finding)[1]


def of_layer(layer: Layer) -> HealthClass:
    """Give the class of what is wrong in a layer and has no finding."""
    return BY_LAYER[layer][0]


def _row(finding: Finding) -> tuple[HealthClass, str]:
    return BY_FINDING.get(finding.id) or BY_LAYER[finding.layer]
