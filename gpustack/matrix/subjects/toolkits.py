"""CUDA toolkits: their drivers, the GPUs they compile for, the host compilers that nvcc accepts, compat packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model import field, row
from gpustack.model.reading import key, whole
from gpustack.model.rows import Stated, driver, spelt
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

FIRST_BUILD = 20  # nvcc's third number is a build number (12.2.91); no CUDA release had so many patch releases


@row
class Toolkit(Stated):
    """One release of the CUDA toolkit and the driver that runs everything it builds."""

    version: str = field(metadata=key("cuda"))
    cuda: CudaVersion
    driver: DriverRelease = field(metadata=key("driver", driver))

    def __str__(self) -> str:
        return f"CUDA {self.version} comes with driver {spelt(self.driver)}"


@row
class Release(Stated):
    """One release of the toolkit; ``driver`` is None if only the ``branch`` of the driver is published."""

    version: str = field(metadata=key("cuda"))
    cuda: CudaVersion
    branch: int = field(metadata=whole(lambda line: line.get("branch") or driver(line["driver"]).branch))
    driver: DriverRelease | None = field(default=None, metadata=key("driver", driver))
    windows: DriverRelease | None = None
    released: str | None = None
    what: str = ""

    def __str__(self) -> str:
        if self.driver is None:
            return f"CUDA {self.version} is of driver branch {self.branch}: {self.what}"
        return f"CUDA {self.version} comes with driver {spelt(self.driver)}"


@row
class Floor(Stated):
    """The oldest driver that runs every build of a CUDA major, on Linux and, where published, on Windows."""

    major: int
    linux: DriverRelease = field(metadata=key("driver"))
    windows: DriverRelease | None = None

    def __str__(self) -> str:
        return f"CUDA {self.major}.x needs driver {self.linux} or newer"


@row
class Target(Stated):
    """What a minor version of the toolkit compiles for (empty: not measured) and the newest PTX that it writes."""

    cuda: CudaVersion
    ptx: tuple[int, ...] = field(metadata=key("ptx", numbers))
    sm: tuple[int, ...] = ()

    @property
    def capabilities(self) -> tuple[ComputeCapability, ...]:
        """The GPUs that it compiles for."""
        return tuple(ComputeCapability(*divmod(number, 10)) for number in self.sm)

    def __str__(self) -> str:
        return f"CUDA {self.cuda} writes PTX up to {'.'.join(map(str, self.ptx))}"


@row
class Variant(Stated):
    """A target with a suffix, such as sm_90a, and the first toolkit that has it."""

    arch: CodeArch = field(metadata=key("target"))
    first: CudaVersion = field(metadata=key("first_toolkit"))
    target: str

    def __str__(self) -> str:
        return f"{self.target} can be compiled from CUDA {self.first} on"


@row
class CompatPackage(Stated):
    """A user-space driver of a newer branch, for data-centre GPUs with a kernel driver of one of the base branches."""

    name: str = field(metadata=key("package"))
    cuda: CudaVersion
    branch: int
    bases: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} runs on driver branches {', '.join(map(str, self.bases))}"


@row
class HostCompilers(Stated):
    """What nvcc of one CUDA version accepts: the newest compiler its header allows, the oldest its guide requires."""

    version: str = field(metadata=key("cuda"))
    gcc_max: int
    newest_clang: str = field(metadata=key("clang_max"))
    gcc_min: int | None = None
    clang_min: str | None = None
    msc_min: int | None = None
    msc_max: int | None = None
    nvcc: str | None = None

    @property
    def cuda(self) -> tuple[int, ...]:
        """The numbers of the CUDA version."""
        return numbers(self.version)

    @property
    def clang_max(self) -> int:
        """The newest major version of Clang."""
        return numbers(self.newest_clang)[0]

    def takes_gcc(self, major: int) -> bool:
        """Return whether nvcc compiles with this major version of GCC without -allow-unsupported-compiler."""
        return (self.gcc_min or 0) <= major <= self.gcc_max

    def __str__(self) -> str:
        return f"CUDA {self.version} compiles with GCC up to {self.gcc_max} and Clang up to {self.newest_clang}"


def releases(matrix: Matrix) -> tuple[Release, ...]:
    """Return every release of the toolkit, including those without a published driver, oldest first."""
    made = matrix.rows("cuda_driver", "toolkits", Release) + matrix.rows("cuda_driver", "unpublished", Release)
    return tuple(sorted(made, key=lambda one: numbers(one.version)))


# The floor of every CUDA major that has minor-version compatibility, newest first.
floors = rows_of("cuda_driver", "families", Floor)
targets = rows_of("arch", "targets", Target)  # what every minor version of the toolkit compiles for, oldest first
variants = rows_of("arch", "variants", Variant)  # the targets with a suffix, oldest architecture first
compilers = rows_of("host_compiler", "compilers", HostCompilers)  # what every CUDA version accepts, oldest first


def floor_of(matrix: Matrix, cuda: CudaVersion) -> Floor | None:
    """Return the floor of a CUDA version's family; None before CUDA 11, where each minor needs its own driver."""
    return matrix.families.get(cuda.major)


def target_of(matrix: Matrix, cuda: CudaVersion) -> Target | None:
    """Return what a minor version of the toolkit compiles for, or None if the matrix does not know it."""
    return next((one for one in targets(matrix) if one.cuda == cuda), None)


def first_for(matrix: Matrix, arch: CodeArch) -> CudaVersion | None:
    """Return the first toolkit that makes code for a target such as sm_90a or sm_120, or None if no row states it."""
    if arch.suffix:
        found = (one for one in variants(matrix) if one.arch.capability == arch.capability)
        return next((one.first for one in found if one.arch.suffix == arch.suffix), None)
    known = matrix.arch(arch.capability)
    return known.first_toolkit if known else None


def compats_for(matrix: Matrix, cuda: CudaVersion, branch: int) -> tuple[CompatPackage, ...]:
    """Return the compat packages that run this CUDA version on a kernel driver of this branch, smallest step first."""
    fitting = (one for one in matrix.compats if one.cuda.major == cuda.major and one.cuda >= cuda)
    return tuple(sorted((one for one in fitting if branch in one.bases), key=lambda one: one.cuda))


@row
class Packaged(Stated):
    """The major versions of GCC that a distribution's release has as separate packages."""

    distribution: str
    release: str
    gcc: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.distribution} {self.release} has GCC {', '.join(map(str, self.gcc))}"


@row
class SystemGlibc(Stated):
    """The glibc in one release of some distributions."""

    distributions: tuple[str, ...]
    release: str
    glibc: str

    def __str__(self) -> str:
        return f"{' and '.join(self.distributions)} {self.release} have glibc {self.glibc}"


def glibc_of(matrix: Matrix, distribution: str, release: str) -> str | None:
    """Return the glibc of a distribution's release; a point release has the glibc of its major release."""
    there = [one for one in matrix.rows("host_compiler", "glibc", SystemGlibc) if distribution in one.distributions]
    names = (release, release.partition(".")[0])
    return next((one.glibc for name in names for one in there if one.release == name), None)


def packaged_gcc(matrix: Matrix, distribution: str | None, release: str | None, newest: int) -> int | None:
    """Return the newest GCC up to a major version that a distribution lists; that version if its list is unknown.

    None: its list is known, and has none that old.
    """
    for one in matrix.rows("host_compiler", "packaged", Packaged):
        if (one.distribution, one.release) == (distribution, (release or "").partition(".")[0]):
            return max((major for major in one.gcc if major <= newest), default=None)
    return newest


def compilers_of(matrix: Matrix, cuda: str) -> HostCompilers | None:
    """Return what a CUDA version (12.8 or 12.8.93) accepts; None if the matrix has no row for its minor."""
    wanted = numbers(cuda)[:3]
    by_build = wanted[2:] >= (FIRST_BUILD,)
    same = [one for one in compilers(matrix) if one.cuda[:2] == wanted[:2]]
    begins = {one: numbers(one.nvcc) if one.nvcc and by_build else one.cuda for one in same}
    older = [one for one in same if wanted == one.cuda[:2] or begins[one] <= wanted]
    return max(older, key=lambda one: one.cuda, default=None)


def first_cuda(matrix: Matrix, gcc: int) -> HostCompilers | None:
    """Return the oldest CUDA version that accepts this major version of GCC, or None if none does."""
    return next((one for one in compilers(matrix) if one.takes_gcc(gcc)), None)


# A month of NVIDIA's images, and one of them with its tag. No framework has had a release of such a number.
MONTH = r"(?:1[7-9]|2\d)\.(?:0[1-9]|1[0-2])"
NGC = re.compile(
    rf"(?<![\w.-])(?<![\w.-]/)(?P<name>nvcr\.io/nvidia/[a-z][\w-]{{1,60}}):(?P<month>{MONTH})(?P<build>(?:[.-][\w.-]{{0,60}}\w)?)(?![\w-])"
)
KINDS = {
    **dict.fromkeys(("pytorch", "tritonserver", "tensorrt", "mxnet", "paddlepaddle", "dgl", "sglang"), "-py3"),
    "tensorflow": "-tf2-py3",
}


@row
class Monthly(Stated):
    """One month of NVIDIA's images: GPUs from ``lowest`` to the generation of ``newest``; None: no row states it.

    ``bases`` are the driver branches that the compat libraries in it stand on, ``images`` those known to exist.
    """

    month: str = field(metadata=key("container"))
    cuda: CudaVersion
    lowest: ComputeCapability | None = field(default=None, metadata=key("capability"))
    newest: ComputeCapability | None = None
    bases: tuple[int, ...] = ()
    images: tuple[str, ...] = ()
    torch: str = ""

    def tag(self, name: str, build: str) -> str | None:
        """Return an image of this month with its tag, or None if it is not known to exist."""
        kind = name.rpartition("/")[2]
        return f"{name}:{self.month}{build}" if kind in self.images and build == KINDS[kind] else None

    def __str__(self) -> str:
        span = f", compute capability {self.lowest} or newer" if self.lowest else ""
        own = f", torch {self.torch}" if self.torch else ""
        return f"NVIDIA's images of {self.month} are made for CUDA {self.cuda}{span}{own}"


months = rows_of("serving", "ngc", Monthly)  # NVIDIA's monthly images, oldest first


def month_of(matrix: Matrix, name: str, month: str, build: str) -> Monthly | None:
    """Return what the month of an image of NVIDIA's was made for, or None if no row states it."""
    if name.removeprefix("nvcr.io/nvidia/") not in KINDS or "igpu" in build:
        return None
    rows = matrix.rows("serving", "trtllm_containers", Monthly) if "trtllm" in build else months(matrix)
    return next((one for one in rows if one.month == month), None)
