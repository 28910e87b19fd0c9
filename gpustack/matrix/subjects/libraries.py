"""CUDA's libraries: which CUDA a name belongs to, and what cuDNN, NCCL and TensorRT need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import VersionRange, numbers
from gpustack.model import field, row
from gpustack.model.reading import key, whole
from gpustack.model.rows import Stated, driver
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

_NO_LIBRARY = frozenset({"cuda", "source", "checked", "origin"})
_FIRST_FAMILY = 11
_OWN_MINOR = re.compile(r"lib\w+\.so\.(?:[789]|10)\.\d+|libcupti\.so\.11\.\d+")
_CUDA_11 = 11
_MAJORS = (12, 13)


@row
class Soname(Stated):
    """The name that a library is loaded under, the CUDA majors whose builds have it, and the wheels that contain it."""

    soname: str
    library: str
    majors: tuple[int, ...] = field(metadata=key("cuda"))
    wheels: tuple[str, ...] = ()
    note: str | None = None

    def __str__(self) -> str:
        return f"{self.soname} belongs to CUDA {' or '.join(map(str, self.majors))}"


@row
class ToolkitParts(Stated):
    """The versions of the libraries in one release of the toolkit, by library (cublas, cufft, nvrtc …)."""

    toolkit: str = field(metadata=key("cuda"))
    cuda: CudaVersion
    parts: Mapping[str, str] = field(
        metadata=whole(lambda line: {name: version for name, version in line.items() if name not in _NO_LIBRARY})
    )

    def __str__(self) -> str:
        cublas = f" with cuBLAS {self.parts['cublas']}" if "cublas" in self.parts else ""
        return f"CUDA {self.toolkit} comes{cublas}"


@row
class CudnnRelease(Stated):
    """Releases of cuDNN in one range.

    ``cuda`` are majors (11, 12), and minors before CUDA 11 (10.2); ``drivers`` the oldest Linux driver for each.
    ``oldest_gpu`` is None if no source states it; ``oldest_gpu_cuda11`` is set if builds for CUDA 11 need a newer one.
    """

    versions: VersionRange
    soname: str
    cuda: tuple[str, ...]
    drivers: Mapping[str, DriverRelease] = field(default_factory=dict)
    oldest_gpu: ComputeCapability | None = field(default=None, metadata=key("min_cc"))
    oldest_gpu_cuda11: ComputeCapability | None = field(default=None, metadata=key("min_cc_cuda11"))

    def __str__(self) -> str:
        gpu = f" and GPUs from compute capability {self.oldest_gpu}" if self.oldest_gpu else ""
        return f"cuDNN {self.versions} ({self.soname}) is for CUDA {', '.join(self.cuda)}{gpu}"


@row
class NcclRelease(Stated):
    """One release: the CUDA version inside its wheel and the code in it, by CUDA major, empty if not read."""

    version: str = field(metadata=key("nccl"))
    date: str | None = None
    cuda12: CudaVersion | None = None
    cuda13: CudaVersion | None = None
    archs12: tuple[CodeArch, ...] = ()
    archs13: tuple[CodeArch, ...] = ()

    @property
    def built(self) -> Mapping[int, CudaVersion]:
        """The CUDA version inside each wheel."""
        return {major: cuda for major, cuda in zip(_MAJORS, (self.cuda12, self.cuda13), strict=True) if cuda}

    @property
    def archs(self) -> Mapping[int, tuple[CodeArch, ...]]:
        """The code in each wheel."""
        return {major: archs for major, archs in zip(_MAJORS, (self.archs12, self.archs13), strict=True) if archs}

    def __str__(self) -> str:
        built = " and ".join(map(str, self.built.values()))
        return f"NCCL {self.version}" + (f" was built with CUDA {built}" if built else f" is of {self.date}")


@row
class NcclWheel(Stated):
    """The wheel for one CUDA major, its first and last release, and the oldest Linux driver."""

    wheel: str
    cuda: int
    driver: DriverRelease
    first: str | None = None
    last: str | None = None

    def __str__(self) -> str:
        return f"{self.wheel} needs driver {self.driver} or newer"


@row
class TensorrtRelease(Stated):
    """One release; ``cuda`` are the toolkits (or majors) it was built with, ``cudnn`` is None if none is needed."""

    version: str = field(metadata=key("tensorrt"))
    cuda: tuple[str, ...]
    soname: str
    cudnn: str | None = None
    oldest_gpu: ComputeCapability | None = field(default=None, metadata=key("min_cc"))

    @property
    def majors(self) -> tuple[int, ...]:
        """The CUDA majors that it has builds for."""
        return tuple(sorted({int(cuda.partition(".")[0]) for cuda in self.cuda}))

    def __str__(self) -> str:
        cudnn = f" and cuDNN {self.cudnn}" if self.cudnn else ""
        gpu = f", for GPUs from compute capability {self.oldest_gpu}" if self.oldest_gpu else ""
        return f"TensorRT {self.version} is built with CUDA {' and '.join(self.cuda)}{cudnn}{gpu}"


@row
class TensorrtDriver(Stated):
    """The oldest Linux driver of a range of releases in their builds for one CUDA major."""

    versions: VersionRange
    cuda: int
    driver: DriverRelease = field(metadata=key("driver", driver))

    def __str__(self) -> str:
        return f"TensorRT {self.versions} for CUDA {self.cuda} needs driver {self.driver.branch} or newer"


sonames = rows_of("libraries", "sonames", Soname)  # every name that is known
toolkits = rows_of("libraries", "toolkits", ToolkitParts)  # the parts of every release of the toolkit, oldest first
cudnn_releases = rows_of("cudnn", "releases", CudnnRelease)  # the releases of cuDNN, oldest first
nccl_releases = rows_of("nccl", "releases", NcclRelease)  # every known release of NCCL, oldest first
# Every known release of TensorRT, oldest first.
tensorrt_releases = rows_of("tensorrt", "releases", TensorrtRelease)


def soname_of(matrix: Matrix, name: str) -> Soname | None:
    """Return what is known about a name such as libcublasLt.so.11; further numbers (as in .so.11.11.3) are ignored."""
    known = {one.soname: one for one in sonames(matrix)}
    while name not in known and re.search(r"\.so\.\d+\.", name):
        name = name.rpartition(".")[0]
    return known.get(name)


def cuda_of_soname(matrix: Matrix, name: str) -> tuple[int, ...]:
    """Return the CUDA majors that a name may belong to; none for an unknown name.

    Up to CUDA 10 the name itself contains major and minor (libcudart.so.10.2), as CUPTI's does in CUDA 11.
    """
    known = soname_of(matrix, name)
    if known:
        return known.majors
    return (numbers(name.partition(".so.")[2])[0],) if _OWN_MINOR.fullmatch(name) else ()


def wheel_of_soname(matrix: Matrix, name: str, cuda: int | None = None) -> tuple[str, ...]:
    """Return the wheels that contain a library, for one CUDA major or for all."""
    known = soname_of(matrix, name)
    if known is None:
        return ()
    return tuple(wheel for wheel in known.wheels if cuda is None or _for(wheel, cuda))


def _for(wheel: str, cuda: int) -> bool:
    """Return whether a wheel is made for this major; without a suffix it is for CUDA 13."""
    match = re.search(r"-cu(\d+)\b", wheel)
    return int(match.group(1)) == cuda if match else cuda > _FIRST_FAMILY + 1


def cudnn_of(matrix: Matrix, version: str) -> CudnnRelease | None:
    """Return what is known about a version of cuDNN such as 9.10.2.21, or None."""
    return next((one for one in cudnn_releases(matrix) if one.versions.holds(version)), None)


def cudnn_oldest_gpu(matrix: Matrix, version: str, cuda: int | None = None) -> ComputeCapability | None:
    """Return the oldest GPU that this cuDNN's build for a CUDA major runs on; None if no source states it."""
    release = cudnn_of(matrix, version)
    if release is None:
        return None
    return (release.oldest_gpu_cuda11 if cuda == _CUDA_11 else None) or release.oldest_gpu


def nccl_of(matrix: Matrix, version: str) -> NcclRelease | None:
    """Return one release of NCCL (2.27.5), or None."""
    wanted = numbers(version)[:3]
    return next((one for one in nccl_releases(matrix) if numbers(one.version) == wanted), None)


def nccl_wheel(matrix: Matrix, cuda: int) -> NcclWheel | None:
    """Return the wheel of NCCL for a CUDA major, or None."""
    return next((one for one in matrix.rows("nccl", "wheels", NcclWheel) if one.cuda == cuda), None)


def tensorrt_of(matrix: Matrix, version: str) -> TensorrtRelease | None:
    """Return the TensorRT with this version (10.9.0.34), else the newest known of its minor, or None."""
    wanted = numbers(version)
    same = [one for one in tensorrt_releases(matrix) if numbers(one.version)[:2] == wanted[:2]]
    return next((one for one in same if numbers(one.version)[:3] == wanted[:3]), same[-1] if same else None)


def tensorrt_drivers(matrix: Matrix, version: str) -> tuple[TensorrtDriver, ...]:
    """Return the oldest Linux drivers for a version of TensorRT, by CUDA major; none if no row states them."""
    drivers = matrix.rows("tensorrt", "drivers", TensorrtDriver)
    return tuple(one for one in drivers if one.versions.holds(version))
