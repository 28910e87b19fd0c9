"""What the compatibility matrix states, as types: every row brings where it comes from and when it was checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpustack.model.facts import Layer
from gpustack.model.report import Row
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One GPU architecture: who can compile for it and run it, and what one SM does in a clock.

    ``rates`` are dense operations per clock and SM by data type (fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4), empty
    where no row states them; ``mma`` is the part of each that mma.sync alone reaches, ``level2`` the bytes a clock that
    the second-level cache gives; ``efficiency`` is what a good library reaches of the ceiling, (low, high) by benchmark
    id.
    """

    capability: ComputeCapability
    name: str
    row: Row
    gpus: tuple[str, ...] = ()
    first_toolkit: CudaVersion | None = None
    last_toolkit: CudaVersion | None = None
    first_branch: int | None = None
    last_branch: int | None = None
    embedded: bool = False
    tensor_cores: int | None = None
    shared_kib: int | None = None
    threads: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    halved: Mapping[str, float] = field(default_factory=dict)
    half_rate: tuple[str, ...] = ()
    mma: Mapping[str, float] = field(default_factory=dict)
    level2: float | None = None
    efficiency: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def rates_of(self, product: str) -> Mapping[str, float]:
        """Return the rates of this product: some (GeForce, L40) have half of what their architecture can do."""
        slow = any(re.search(rf"\b{re.escape(name)}\b", product) for name in self.half_rate)
        return {**self.rates, **self.halved} if slow else self.rates


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFamily:
    """The builds of one CUDA major and the oldest driver that runs them all, with the limits of a minor version."""

    major: int
    floor: DriverRelease
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """One release of the CUDA toolkit and the driver that runs all that it builds."""

    version: str
    cuda: CudaVersion
    driver: DriverRelease
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatPackage:
    """A user-space driver of a newer branch, for data-centre GPUs with a kernel driver of one of the base branches."""

    name: str
    cuda: CudaVersion
    branch: int
    bases: tuple[int, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverBranch:
    """One branch of the driver: the highest CUDA version it runs, and until when it is looked after."""

    number: int
    cuda: CudaVersion
    row: Row
    kind: str | None = None
    first: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchSpan:
    """The first and the last driver branch that runs an architecture; None: no such end."""

    arch: str
    row: Row
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """Whether the open and the closed kernel module can run these architectures, in one word each."""

    archs: tuple[str, ...]
    open: str
    closed: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class PciRange:
    """PCI device numbers of NVIDIA, both ends included, that are GPUs of one architecture."""

    first: int
    last: int
    arch: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSystem:
    """One system of the stack and what it is for."""

    id: str
    layer: Layer
    vendor: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A number that a library or the kernel log answers with, its name, its meaning, and what is behind it or to do."""

    number: int
    name: str
    meaning: str
    advice: str | None
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRelease:
    """One minor release of PyTorch: the build that a plain install takes, its Pythons and its oldest glibc."""

    torch: str
    tag: str
    pythons: tuple[str, ...]
    glibc: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """One build of a minor release of PyTorch: its CUDA version and the GPU code inside."""

    torch: str
    cuda: CudaVersion
    archs: tuple[CodeArch, ...]
    row: Row

    @property
    def tag(self) -> str:
        """Its name on PyTorch's own index, such as cu128."""
        return f"cu{self.cuda.major}{self.cuda.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSpan:
    """Releases of a wheel, from first to last minor (None: up to now), or an extra of it, made for one CUDA major."""

    cuda: int
    row: Row
    first: str | None = None
    last: str | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPair:
    """A release of cuda-core that fails with these releases of cuda-bindings, both ends included, and how."""

    core: str
    first: str
    last: str
    outcome: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingsFloor:
    """What a major of cuda-bindings loses on a driver below a CUDA version; ``weight`` is the severity of that."""

    bindings: int
    driver: CudaVersion
    outcome: str
    weight: str
    row: Row
