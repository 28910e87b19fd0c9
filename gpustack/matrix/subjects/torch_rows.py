"""What the rows on PyTorch state, as types: releases, builds, their libraries and GPU code, and what goes with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import numbers
from gpustack.model.versions import CodeArch, CudaVersion

if TYPE_CHECKING:
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

LINUX = "linux-x86_64"
_KIND = re.compile(r"cpu|xpu|cu|rocm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release on the package index.

    ``tag`` is the build that the index serves for Linux x86-64, ``aarch64`` that for Linux on ARM; None where no source
    says which. ``pythons`` are those with a wheel for Linux x86-64. ``pins`` are what that wheel requires, by library.
    """

    version: str
    pythons: tuple[str, ...]
    wheels: tuple[str, ...]
    row: Row
    tag: str | None = None
    aarch64: str | None = None
    free_threaded: tuple[str, ...] = ()
    requires_python: str | None = None
    glibc: str | None = None
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build of one release for one platform, by its tag on PyTorch's own index (cu128, rocm6.3, xpu, cpu).

    ``archs`` is the GPU code inside, empty where no source says; ``code`` is the row that states it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """torchvision and torchaudio made for one release of PyTorch; ``pin`` is what torchvision requires of torch."""

    torch: str
    torchvision: str
    pin: str
    row: Row
    torchaudio: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The tags that are offered of a minor release for one platform, maybe of some of its patch releases ``only``."""

    torch: str
    platform: str
    tags: tuple[str, ...]
    only: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """cuDNN and NCCL that one CUDA build of a minor release was made with."""

    torch: str
    cuda: CudaVersion
    cudnn: str
    nccl: str | None
    row: Row

    @property
    def tag(self) -> str:
        """The build's name on PyTorch's own index, such as cu128."""
        return f"cu{self.cuda.major}{self.cuda.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The GPU code in one CUDA build of a minor release for one platform."""

    torch: str
    cuda: CudaVersion
    archs: tuple[CodeArch, ...]
    platform: str
    only: str
    row: Row


def release(line: Line) -> Release:
    """Give one release."""
    if not numbers(line["torch"]):
        raise ValueError(f"{line['torch']!r} is no version")
    build = f"{line['default']} by default" if "default" in line else "default build not known"
    glibc = f", glibc {line['glibc']}" if "glibc" in line else ""
    text = f"torch {line['torch']}: {build}, Python {line['python'][0]} to {line['python'][-1]}{glibc}"
    return Release(
        version=line["torch"],
        pythons=tuple(line["python"]),
        wheels=tuple(line["wheels"]),
        row=tables.row("torch_wheels", text, line),
        tag=line.get("default"),
        aarch64=line.get("aarch64"),
        free_threaded=tuple(line.get("free_threaded", ())),
        requires_python=line.get("requires_python"),
        glibc=line.get("glibc"),
        pins=line.get("pins", {}),
    )


def offer(line: Line) -> Offer:
    """Give what is offered of one minor release for one platform."""
    only = line.get("only", "")
    which = f"torch {line['torch']}" + (f" ({only})" if only else "")
    text = f"{which} for {line['platform']} is offered as {' '.join(line['tags'])}"
    row = tables.row("torch_wheels", text, line)
    return Offer(torch=line["torch"], platform=line["platform"], tags=tuple(line["tags"]), only=only, row=row)


def libraries(line: Line) -> Libraries:
    """Give the libraries of one build."""
    nccl = f" and NCCL {line['nccl']}" if "nccl" in line else ""
    text = f"torch {line['torch']} for CUDA {line['cuda']} was made with cuDNN {line['cudnn']}{nccl}"
    return Libraries(
        torch=line["torch"],
        cuda=tables.needed(CudaVersion.parse(line["cuda"])),
        cudnn=line["cudnn"],
        nccl=line.get("nccl"),
        row=tables.row("torch_wheels", text, line),
    )


def code(line: Line) -> Code:
    """Give the GPU code of one build."""
    platform, only = line.get("platform", LINUX), line.get("only", "")
    which = f"torch {line['torch']}{f' ({only})' if only else ''} for CUDA {line['cuda']} on {platform}"
    return Code(
        torch=line["torch"],
        cuda=tables.needed(CudaVersion.parse(line["cuda"])),
        archs=tuple(tables.needed(CodeArch.parse(arch)) for arch in line["archs"]),
        platform=platform,
        only=only,
        row=tables.row("torch", f"{which} has code for {' '.join(line['archs'])}", line),
    )


def companion(line: Line) -> Companions:
    """Give what goes with one release."""
    audio = f", torchaudio {line['torchaudio']}" if "torchaudio" in line else ""
    return Companions(
        torch=line["torch"],
        torchvision=line["torchvision"],
        pin=line.get("pin", f"=={line['torch']}"),
        row=tables.row(
            "torch_wheels", f"torch {line['torch']} goes with torchvision {line['torchvision']}{audio}", line
        ),
        torchaudio=line.get("torchaudio"),
    )
