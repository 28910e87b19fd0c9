"""PyTorch: its releases, the builds offered of each, what they carry, and torchvision and torchaudio beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import torch_rows as rows
from gpustack.matrix.subjects.spans import is_version, minor, within
from gpustack.matrix.subjects.torch_rows import LINUX, Build, Code, Companions, Release
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row
    from gpustack.model.versions import ComputeCapability

_TAG = re.compile(r"cu(\d{1,2})(\d)")


def releases(matrix: Matrix) -> tuple[Release, ...]:
    """Give every release of PyTorch on the package index, oldest first."""
    return matrix.rows("torch_wheels", "patches", rows.release)


def release_of(matrix: Matrix, version: str) -> Release | None:
    """Give the release of this version (2.7.1, 2.7.1+cu126), or None where the matrix does not know it."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in releases(matrix) if one.version == wanted), None)


def default_build(matrix: Matrix, version: str, platform: str = LINUX) -> Build | None:
    """Give the build that a plain ``pip install`` takes on this platform; on Windows and macOS it has no CUDA.

    The platforms are linux-x86_64, linux-aarch64, windows and macos. None: no wheel there, or nobody says which.
    """
    release = release_of(matrix, version)
    if release is None or not any(wheel.startswith(platform) for wheel in release.wheels):
        return None
    tag = {LINUX: release.tag, "linux-aarch64": release.aarch64}.get(platform) or _fixed(matrix, version, platform)
    return _build(matrix, release.version, tag, platform, release.row) if tag else None


def builds_of(matrix: Matrix, version: str, platform: str = LINUX) -> tuple[Build, ...]:
    """Give every build of this release that PyTorch's own index offers for this platform."""
    release = version.partition("+")[0].strip()
    fitting = (
        one
        for one in matrix.rows("torch_wheels", "offers", rows.offer)
        if is_version(release)
        and one.torch == minor(release)
        and one.platform == platform
        and within(release, one.only)
    )
    return tuple(_build(matrix, release, tag, platform, one.row) for one in fitting for tag in one.tags)


def build_of(matrix: Matrix, version: str, tag: str, platform: str = LINUX) -> Build | None:
    """Give one build by its tag (cu128), or None where it is not offered or not known."""
    return next((one for one in builds_of(matrix, version, platform) if one.tag == tag), None)


def builds_for_arch(matrix: Matrix, gpu: ComputeCapability, platform: str = LINUX) -> tuple[Build, ...]:
    """Give every build with machine code that runs on this GPU, oldest release first."""
    builds = (one for release in releases(matrix) for one in builds_of(matrix, release.version, platform))
    return tuple(one for one in builds if any(arch.kind == "sm" and arch.runs_on(gpu) for arch in one.archs))


def companions(matrix: Matrix, version: str) -> Companions | None:
    """Give the newest torchvision and torchaudio made for this release of PyTorch, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torch == wanted), None)


def torch_for_torchvision(matrix: Matrix, version: str) -> Companions | None:
    """Give what goes with this release of torchvision, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torchvision == wanted), None)


def torch_for_torchaudio(matrix: Matrix, version: str) -> Companions | None:
    """Give what goes with this release of torchaudio, or None."""
    wanted = version.partition("+")[0].strip()
    return next((one for one in reversed(_companions(matrix)) if one.torchaudio == wanted), None)


def _companions(matrix: Matrix) -> tuple[Companions, ...]:
    return matrix.rows("torch_wheels", "companions", rows.companion)


def _fixed(matrix: Matrix, version: str, platform: str) -> str | None:
    lines = matrix.table("torch_wheels")["defaults"]
    return next((one["tag"] for one in lines if one["platform"] == platform and within(version, one["versions"])), None)


def _build(matrix: Matrix, version: str, tag: str, platform: str, row: Row) -> Build:
    match = _TAG.fullmatch(tag)
    cuda = CudaVersion(int(match.group(1)), int(match.group(2))) if match else None
    code = _code(matrix, version, cuda, platform) if cuda else None
    return Build(
        version=version,
        tag=tag,
        platform=platform,
        row=row,
        cuda=cuda,
        archs=code.archs if code else (),
        code=code.row if code else None,
        libraries=_carried(matrix, version, tag, platform) if cuda else {},
    )


def _code(matrix: Matrix, version: str, cuda: CudaVersion, platform: str) -> Code | None:
    known = (*matrix.rows("torch_wheels", "code", rows.code), *matrix.rows("torch", "builds", rows.code))
    same = _same_code(matrix, version, platform)
    for one in known:
        if (one.torch, one.cuda) == (minor(version), cuda) and within(version, one.only):
            if one.platform == platform:
                return one
            if same and one.platform == LINUX:
                return replace(one, archs=tuple(arch for arch in one.archs if arch.kind == "sm"))
    return None


def _same_code(matrix: Matrix, version: str, platform: str) -> bool:
    """Tell whether the builds for a platform have the machine code of those for Linux x86-64."""
    lines = matrix.table("torch_wheels")["same_code"]
    return any(one["platform"] == platform and within(version, one["versions"]) for one in lines)


def _carried(matrix: Matrix, version: str, tag: str, platform: str) -> Mapping[str, str]:
    known = release_of(matrix, version)
    if known and (known.tag, platform) == (tag, LINUX) and known.pins:
        return known.pins
    for one in matrix.rows("torch_wheels", "libraries", rows.libraries):
        if (one.torch, one.tag) == (minor(version), tag):
            return {"cudnn": one.cudnn} | ({"nccl": one.nccl} if one.nccl else {})
    return {}
