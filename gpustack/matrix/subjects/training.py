"""Training libraries: which torch, CUDA and GPU their releases are built for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashWheels:
    """The wheels of one release of flash-attn: torch minors (2.8) and CUDA versions that they are built with."""

    version: str
    torches: tuple[str, ...]
    cudas: tuple[CudaVersion, ...]
    row: Row

    def serves(self, torch: str, cuda: CudaVersion) -> bool:
        """Tell whether a wheel of the release fits this torch, built for a CUDA of the same major."""
        minor = ".".join(torch.split(".")[:2])
        return minor in self.torches and any(one.major == cuda.major for one in self.cudas)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPin:
    """The torch that one release of a library asks for."""

    version: str
    torch: VersionRange
    python: VersionRange
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsandbytesRelease:
    """The CUDA and ROCm versions for which one release of bitsandbytes brings a library.

    ``near`` is True for a release that takes the nearest of the same major where it has none for exactly this CUDA.
    """

    version: str
    cudas: tuple[CudaVersion, ...]
    torch: VersionRange
    row: Row
    rocms: tuple[str, ...] = ()
    near: bool = False

    def serves(self, cuda: CudaVersion) -> bool:
        """Tell whether it has a library that it takes for a torch of this CUDA."""
        return cuda in self.cudas or (self.near and any(one.major == cuda.major for one in self.cudas))


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsandbytesBuild:
    """The GPU code in the libraries of some releases of bitsandbytes for some CUDA versions."""

    versions: VersionRange
    cuda: VersionRange
    archs: tuple[CodeArch, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRelease:
    """The oldest CUDA and cuDNN of one release of Transformer Engine."""

    version: str
    cuda: VersionRange
    cudnn: VersionRange
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFloor:
    """The lowest compute capability of a library in some releases, or of the part that ``what`` names."""

    component: str
    versions: VersionRange
    capability: ComputeCapability
    what: str
    row: Row


def flash_wheels(matrix: Matrix) -> tuple[FlashWheels, ...]:
    """Give what the wheels of flash-attn are built for, oldest first."""
    return matrix.rows("training", "flash_attention", _flash)


def flash_wheels_of(matrix: Matrix, version: str) -> FlashWheels | None:
    """Give the wheels of a release of flash-attn (post releases are the same), or None where no row states it."""
    wanted = version_of(version)
    found = (one for one in flash_wheels(matrix) if wanted and version_of(one.version) == version_of(_base(version)))
    return next(found, None)


def xformers(matrix: Matrix) -> tuple[TorchPin, ...]:
    """Give the torch that each release of xFormers asks for, oldest first."""
    return matrix.rows("training", "xformers", lambda line: _pin(line, "xformers"))


def xformers_of(matrix: Matrix, version: str) -> TorchPin | None:
    """Give the release of xFormers of exactly this version, or None where no row states it."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in xformers(matrix) if wanted is not None and version_of(one.version) == wanted), None)


def bitsandbytes(matrix: Matrix) -> tuple[BitsandbytesRelease, ...]:
    """Give what each release of bitsandbytes brings, oldest first."""
    return matrix.rows("training", "bitsandbytes", _bitsandbytes)


def bitsandbytes_of(matrix: Matrix, version: str) -> BitsandbytesRelease | None:
    """Return the release of bitsandbytes of exactly this version, or None where no row states it."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in bitsandbytes(matrix) if wanted is not None and version_of(one.version) == wanted), None)


def bitsandbytes_builds(matrix: Matrix) -> tuple[BitsandbytesBuild, ...]:
    """Give the GPU code in the libraries of bitsandbytes."""
    return matrix.rows("training", "bitsandbytes_builds", _bitsandbytes_build)


def transformer_engine(matrix: Matrix) -> tuple[EngineRelease, ...]:
    """Give what each release of Transformer Engine needs, oldest first."""
    return matrix.rows("training", "transformer_engine", _engine)


def floors_of(matrix: Matrix, component: str, version: str) -> tuple[GpuFloor, ...]:
    """Give the lowest GPUs that a release of a library, and parts of it, run on."""
    floors = matrix.rows("training", "floors", _floor)
    return tuple(one for one in floors if one.component == component and one.versions.holds(version))


def _base(version: str) -> str:
    found = version_of(version)
    return found.base_version if found else version


def _flash(line: Line) -> FlashWheels:
    text = f"wheels of flash-attn {line['version']} are for torch {', '.join(line['torch'])}"
    return FlashWheels(
        version=line["version"],
        torches=tuple(line["torch"]),
        cudas=tuple(needed(CudaVersion.parse(one)) for one in line["cuda"]),
        row=row("training", f"{text} with CUDA {', '.join(line['cuda'])}", line),
    )


def _pin(line: Line, name: str) -> TorchPin:
    return TorchPin(
        version=line["version"],
        torch=VersionRange.parse(line["torch"]),
        python=VersionRange.parse(line["python"]),
        row=row("training", f"{name} {line['version']} asks for torch {line['torch']}", line),
    )


def _bitsandbytes(line: Line) -> BitsandbytesRelease:
    return BitsandbytesRelease(
        version=line["version"],
        cudas=tuple(needed(CudaVersion.parse(one)) for one in line["cuda"]),
        torch=VersionRange.parse(line.get("torch", "")),
        row=row("training", f"bitsandbytes {line['version']} brings CUDA {', '.join(line['cuda'])}", line),
        rocms=tuple(line.get("rocm", ())),
        near=line.get("near", False),
    )


def _bitsandbytes_build(line: Line) -> BitsandbytesBuild:
    text = f"bitsandbytes {line['versions']} for CUDA {line['cuda']} has code for {' '.join(line['archs'])}"
    return BitsandbytesBuild(
        versions=VersionRange.parse(line["versions"]),
        cuda=VersionRange.parse(line["cuda"]),
        archs=tuple(needed(CodeArch.parse(arch)) for arch in line["archs"]),
        row=row("training", text, line),
    )


def _engine(line: Line) -> EngineRelease:
    text = f"Transformer Engine {line['version']} needs CUDA {line['cuda']} and cuDNN {line['cudnn']}"
    return EngineRelease(
        version=line["version"],
        cuda=VersionRange.parse(line["cuda"]),
        cudnn=VersionRange.parse(line["cudnn"]),
        row=row("training", text, line),
    )


def _floor(line: Line) -> GpuFloor:
    named = f"{line['component']} {line.get('versions', '')}".strip()
    return GpuFloor(
        component=line["component"],
        versions=VersionRange.parse(line.get("versions", "")),
        capability=needed(ComputeCapability.parse(line["capability"])),
        what=line["what"],
        row=row("training", f"{named}, {line['what']}: compute capability {line['capability']} or newer", line),
    )
