"""PyTorch: its releases, the builds of each, what they contain, and the matching torchvision and torchaudio."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import ANY, VersionRange, is_version, minor, numbers
from gpustack.model import field, record, row
from gpustack.model.reading import key, whole
from gpustack.model.report import Row
from gpustack.model.rows import Stated
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

LINUX = "linux-x86_64"
_TAG = re.compile(r"cu(\d{1,2})(\d)")
_KIND = re.compile(r"cpu|xpu|cu|rocm")


def _version(text: str) -> str:
    if not numbers(text):
        raise ValueError(f"{text!r} is not a version")
    return text


@row
class Release(Stated):
    """One release on the package index.

    ``tag`` is the build that the index serves for Linux x86-64, ``aarch64`` the one for Linux on ARM; None if no source
    states it. ``pythons`` are those with a wheel for Linux x86-64. ``pins`` are what that wheel requires, by library.
    """

    version: str = field(metadata=key("torch", _version))
    pythons: tuple[str, ...] = field(metadata=key("python"))
    wheels: tuple[str, ...]
    tag: str | None = field(default=None, metadata=key("default"))
    aarch64: str | None = None
    free_threaded: tuple[str, ...] = ()
    requires_python: str | None = None
    glibc: str | None = None
    pins: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        build = f"{self.tag} by default" if self.tag else "default build not known"
        glibc = f", glibc {self.glibc}" if self.glibc else ""
        return f"torch {self.version}: {build}, Python {self.pythons[0]} to {self.pythons[-1]}{glibc}"


@row
class Minor(Stated):
    """One minor release of PyTorch: the build that a plain install picks, its Pythons and its oldest glibc."""

    torch: str
    tag: str = field(metadata=key("default"))
    pythons: tuple[str, ...] = field(metadata=key("python"))
    glibc: str

    def __str__(self) -> str:
        pythons = f"Python {self.pythons[0]} to {self.pythons[-1]}"
        return f"torch {self.torch}: {self.tag} by default, {pythons}, glibc {self.glibc}"


@record
class Build:
    """One build of one release for one platform, by its tag on PyTorch's own index (cu128, rocm6.3, xpu, cpu).

    ``archs`` is its GPU code, empty if no source states it; ``code`` is the row that does.
    """

    version: str
    tag: str
    platform: str
    row: Row
    cuda: CudaVersion | None = None
    archs: tuple[CodeArch, ...] = ()
    code: Row | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def accelerator(self) -> str:
        """What it computes on: cuda, rocm, xpu or cpu."""
        match = _KIND.match(self.tag)
        return {"cu": "cuda"}.get(match.group(), match.group()) if match else "cpu"


@row
class Companions(Stated):
    """torchvision and torchaudio for one release of PyTorch; ``pin`` is the torch that torchvision requires."""

    torch: str
    torchvision: str
    pin: str = field(metadata=whole(lambda line: line.get("pin", f"=={line['torch']}")))
    torchaudio: str | None = None

    def __str__(self) -> str:
        audio = f", torchaudio {self.torchaudio}" if self.torchaudio else ""
        return f"torch {self.torch} goes with torchvision {self.torchvision}{audio}"


@row
class Offer(Stated):
    """The tags offered for a minor release, or ``only`` for some of its patch releases, on one platform."""

    torch: str
    platform: str
    tags: tuple[str, ...]
    only: VersionRange = ANY

    def __str__(self) -> str:
        return f"torch {_some(self.torch, self.only)} for {self.platform} is offered as {' '.join(self.tags)}"


@row
class Libraries(Stated):
    """The cuDNN and NCCL of one CUDA build of a minor release."""

    torch: str
    cuda: CudaVersion
    cudnn: str
    nccl: str | None = None

    @property
    def tag(self) -> str:
        """The build's name on PyTorch's own index, such as cu128."""
        return f"cu{self.cuda.major}{self.cuda.minor}"

    def __str__(self) -> str:
        nccl = f" and NCCL {self.nccl}" if self.nccl else ""
        return f"torch {self.torch} for CUDA {self.cuda} was made with cuDNN {self.cudnn}{nccl}"


@row
class Code(Stated):
    """The GPU code in one CUDA build of a minor release for one platform."""

    torch: str
    cuda: CudaVersion
    archs: tuple[CodeArch, ...]
    platform: str = LINUX
    only: VersionRange = ANY

    @property
    def table(self) -> str:
        """The table under which the row is cited."""
        return "torch"

    @property
    def tag(self) -> str:
        """The build's name on PyTorch's own index, such as cu128."""
        return f"cu{self.cuda.major}{self.cuda.minor}"

    def __str__(self) -> str:
        which = f"torch {_some(self.torch, self.only)} for CUDA {self.cuda} on {self.platform}"
        return f"{which} has code for {' '.join(map(str, self.archs))}"


@row
class Platform(Stated):
    """What applies to a platform: the tag of its plain install, or that it has the code of Linux x86-64 (no tag)."""

    platform: str
    versions: VersionRange
    tag: str | None = None


releases = rows_of("torch_wheels", "patches", Release)  # every release of PyTorch on the package index, oldest first
_companions = rows_of("torch_wheels", "companions", Companions)


def release_of(matrix: Matrix, version: str) -> Release | None:
    """Return the release of this version (2.7.1, 2.7.1+cu126), or None if the matrix does not know it."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in releases(matrix) if one.version == wanted), None)


def default_build(matrix: Matrix, version: str, platform: str = LINUX) -> Build | None:
    """Return the build that a plain ``pip install`` picks on this platform; on Windows and macOS it has no CUDA.

    The platforms are linux-x86_64, linux-aarch64, windows and macos. None: no wheel there, or no source states which.
    """
    release = release_of(matrix, version)
    if release is None or not any(wheel.startswith(platform) for wheel in release.wheels):
        return None
    tag = {LINUX: release.tag, "linux-aarch64": release.aarch64}.get(platform) or _fixed(matrix, version, platform)
    return _build(matrix, release.version, tag, platform, release.row) if tag else None


@lru_cache(maxsize=512)
def builds_of(matrix: Matrix, version: str, platform: str = LINUX) -> tuple[Build, ...]:
    """Return every build of this release that PyTorch's own index offers for this platform."""
    release = version.partition("+")[0].strip()
    fitting = (
        one
        for one in matrix.rows("torch_wheels", "offers", Offer)
        if is_version(release) and one.torch == minor(release) and one.platform == platform and one.only.holds(release)
    )
    return tuple(_build(matrix, release, tag, platform, one.row) for one in fitting for tag in one.tags)


def build_of(matrix: Matrix, version: str, tag: str, platform: str = LINUX) -> Build | None:
    """Return one build by its tag (cu128), or None if it is not offered or not known."""
    return next((one for one in builds_of(matrix, version, platform) if one.tag == tag), None)


def builds_for_arch(matrix: Matrix, gpu: ComputeCapability, platform: str = LINUX) -> tuple[Build, ...]:
    """Return every build with machine code that runs on this GPU, oldest release first."""
    builds = (one for release in releases(matrix) for one in builds_of(matrix, release.version, platform))
    return tuple(one for one in builds if any(arch.kind == "sm" and arch.runs_on(gpu) for arch in one.archs))


def companions(matrix: Matrix, version: str) -> Companions | None:
    """Return the newest torchvision and torchaudio for this release of PyTorch, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torch == wanted), None)


def torch_for_torchvision(matrix: Matrix, version: str) -> Companions | None:
    """Return the torch and torchaudio for this release of torchvision, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torchvision == wanted), None)


def torch_for_torchaudio(matrix: Matrix, version: str) -> Companions | None:
    """Return the torch and torchvision for this release of torchaudio, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torchaudio == wanted), None)


def _fixed(matrix: Matrix, version: str, platform: str) -> str | None:
    rows = (one for one in matrix.rows("torch_wheels", "defaults", Platform) if one.platform == platform)
    return next((one.tag for one in rows if one.versions.holds(version)), None)


def _build(matrix: Matrix, version: str, tag: str, platform: str, row: Row) -> Build:
    match = _TAG.fullmatch(tag)
    cuda = CudaVersion(int(match.group(1)), int(match.group(2))) if match else None
    archs, code = _code(matrix, version, cuda, platform) if cuda else ((), None)
    return Build(
        version=version,
        tag=tag,
        platform=platform,
        row=row,
        cuda=cuda,
        archs=archs,
        code=code,
        libraries=_carried(matrix, version, tag, platform) if cuda else {},
    )


def _code(
    matrix: Matrix, version: str, cuda: CudaVersion, platform: str
) -> tuple[tuple[CodeArch, ...], Row] | tuple[tuple[()], None]:
    """Return the GPU code of a build and the row that states it; another platform's row gives only machine code."""
    known = (*matrix.rows("torch_wheels", "code", Code), *matrix.rows("torch", "builds", Code))
    same = _same_code(matrix, version, platform)
    for one in known:
        if (one.torch, one.cuda) == (minor(version), cuda) and one.only.holds(version):
            if one.platform == platform:
                return one.archs, one.row
            if same and one.platform == LINUX:
                return tuple(arch for arch in one.archs if arch.kind == "sm"), one.row
    return (), None


def _same_code(matrix: Matrix, version: str, platform: str) -> bool:
    """Return whether the builds for a platform have the same machine code as those for Linux x86-64."""
    rows = matrix.rows("torch_wheels", "same_code", Platform)
    return any(one.platform == platform and one.versions.holds(version) for one in rows)


def _carried(matrix: Matrix, version: str, tag: str, platform: str) -> Mapping[str, str]:
    known = release_of(matrix, version)
    if known and (known.tag, platform) == (tag, LINUX) and known.pins:
        return known.pins
    for one in matrix.rows("torch_wheels", "libraries", Libraries):
        if (one.torch, one.tag) == (minor(version), tag):
            return {"cudnn": one.cudnn} | ({"nccl": one.nccl} if one.nccl else {})
    return {}


def _some(torch: str, only: VersionRange) -> str:
    return f"{torch} ({only})" if only.text else torch
