"""The tables of the compatibility matrix become rows here, and nowhere else: nothing later checks again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gpustack.model.facts import Layer
from gpustack.model.report import Row
from gpustack.model.rows import (
    Architecture,
    ArchSpan,
    BadPair,
    BindingsFloor,
    Code,
    CompatPackage,
    CudaFamily,
    DriverBranch,
    Flavour,
    PciRange,
    StackSystem,
    Toolkit,
    TorchBuild,
    TorchRelease,
    WheelSpan,
)
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Mapping

    Line = Mapping[str, Any]

Value = TypeVar("Value")


def memory(line: Line) -> tuple[tuple[str, ...], str]:
    """Give the words of products' names and the kind of memory that they have."""
    return tuple(line["match"]), line["type"]


def architecture(line: Line, table: Mapping[str, list[Line]]) -> Architecture:
    """Give one architecture, with what the other parts of its table say of the same compute capability."""
    cc = line["cc"]
    limits, rates, half, mma, level2 = (
        next((other for other in table[part] if other["cc"] == cc), {})
        for part in ("limits", "rates", "half_rate", "mma", "level2")
    )
    since = f", from driver branch {line['first_driver']} on" if "first_driver" in line else ""
    return Architecture(
        capability=needed(ComputeCapability.parse(cc)),
        name=line["name"],
        row=row("arch", f"compute capability {cc} is {line['name']}{since}", line),
        gpus=tuple(line["gpus"]),
        first_toolkit=CudaVersion.parse(line.get("first_toolkit")),
        last_toolkit=CudaVersion.parse(line.get("last_toolkit")),
        first_branch=_branch(line.get("first_driver")),
        last_branch=_branch(line.get("last_driver")),
        embedded=line.get("embedded", False),
        tensor_cores=rates.get("tensor_cores"),
        shared_kib=limits.get("shared_kib"),
        threads=limits.get("threads"),
        rates=rates.get("rates", {}),
        halved=rates.get("halved", {}),
        half_rate=tuple(half.get("names", ())),
        mma=mma.get("share", {}),
        level2=level2.get("bytes"),
        efficiency={one["what"]: (one["low"], one["high"]) for one in table["efficiency"] if one["cc"] == cc},
    )


def family(line: Line) -> CudaFamily:
    """Give one CUDA family."""
    text = f"CUDA {line['major']}.x needs driver {line['driver']} or newer"
    return CudaFamily(
        major=int(line["major"]),
        floor=needed(DriverRelease.parse(line["driver"])),
        row=row("cuda_driver", text, line),
    )


def toolkit(line: Line) -> Toolkit:
    """Give one toolkit; a bare branch stands for every driver of it."""
    driver = line["driver"]
    return Toolkit(
        version=line["cuda"],
        cuda=needed(CudaVersion.parse(line["cuda"])),
        driver=DriverRelease(int(driver)) if driver.isdecimal() else needed(DriverRelease.parse(driver)),
        row=row("cuda_driver", f"CUDA {line['cuda']} comes with driver {driver}", line),
    )


def compat(line: Line) -> CompatPackage:
    """Give one compat package."""
    bases = ", ".join(str(base) for base in line["bases"])
    return CompatPackage(
        name=line["package"],
        cuda=needed(CudaVersion.parse(line["cuda"])),
        branch=int(line["branch"]),
        bases=tuple(int(base) for base in line["bases"]),
        row=row("cuda_driver", f"{line['package']} runs on driver branches {bases}", line),
    )


def branch(line: Line) -> DriverBranch:
    """Give one driver branch."""
    return DriverBranch(
        number=int(line["branch"]),
        cuda=needed(CudaVersion.parse(line["cuda"])),
        kind=line.get("kind"),
        first=line.get("first"),
        end=line.get("end"),
        row=row("driver_branches", f"driver branch {line['branch']} runs CUDA up to {line['cuda']}", line),
    )


def span(line: Line) -> ArchSpan:
    """Give the driver branches of one architecture."""
    first, last = line.get("first"), line.get("last")
    ends = [f"from branch {first}" if first else "", f"up to branch {last}" if last else ""]
    text = f"{line['arch']} is supported {' '.join(end for end in ends if end)}"
    return ArchSpan(arch=line["arch"], first=first, last=last, row=row("driver_branches", text, line))


def flavour(line: Line) -> Flavour:
    """Give the module flavours of some architectures."""
    text = f"{', '.join(line['archs'])}: open kernel module {line['open']}, closed one {line['closed']}"
    return Flavour(
        archs=tuple(line["archs"]), open=line["open"], closed=line["closed"], row=row("driver_branches", text, line)
    )


def pci_range(line: Line) -> PciRange:
    """Give one range of PCI device numbers."""
    text = f"PCI devices 10de:{line['first']} to {line['last']} are {line['arch']}"
    return PciRange(
        first=int(line["first"], 16), last=int(line["last"], 16), arch=line["arch"], row=row("pci", text, line)
    )


def stack_system(line: Line) -> StackSystem:
    """Give one system of the stack."""
    return StackSystem(id=line["id"], layer=Layer(line["layer"]), vendor=line["vendor"], role=line["role"])


def code(line: Line, table: str) -> Code:
    """Give one number, with what is behind it or to be done."""
    text = f"{line['code']} ({line['name']}): {line['meaning']}"
    advice = line.get("cause", line.get("action"))
    said = row(table, text, line)
    return Code(number=int(line["code"]), name=line["name"], meaning=line["meaning"], advice=advice, row=said)


def torch_release(line: Line) -> TorchRelease:
    """Give one minor release of PyTorch."""
    text = f"torch {line['torch']}: {line['default']} by default, Python {line['python'][0]} to {line['python'][-1]}"
    return TorchRelease(
        torch=line["torch"],
        tag=line["default"],
        pythons=tuple(line["python"]),
        glibc=line["glibc"],
        row=row("torch", f"{text}, glibc {line['glibc']}", line),
    )


def torch_build(line: Line) -> TorchBuild:
    """Give one build of PyTorch."""
    text = f"torch {line['torch']} for CUDA {line['cuda']} has code for {' '.join(line['archs'])}"
    return TorchBuild(
        torch=line["torch"],
        cuda=needed(CudaVersion.parse(line["cuda"])),
        archs=tuple(needed(CodeArch.parse(arch)) for arch in line["archs"]),
        row=row("torch", text, line),
    )


def wheel(line: Line, name: str) -> WheelSpan:
    """Give the releases of a wheel, or the extra of it, that are made for one CUDA major."""
    which = line.get("extra") or f"{line['first']} to {line.get('last', 'now')}"
    return WheelSpan(
        cuda=int(line["cuda"]),
        first=line.get("first"),
        last=line.get("last"),
        extra=line.get("extra"),
        row=row("wheels", f"{name} {which} is made for CUDA {line['cuda']}", line),
    )


def bad_pair(line: Line) -> BadPair:
    """Give one pair of cuda-core and cuda-bindings that fails."""
    text = f"cuda-core {line['core']} with cuda-bindings {line['first']} to {line['last']}: {line['outcome']}"
    return BadPair(
        core=line["core"],
        first=line["first"],
        last=line["last"],
        outcome=line["outcome"],
        row=row("cuda_python", text, line),
    )


def bindings_floor(line: Line) -> BindingsFloor:
    """Give what a major of cuda-bindings loses on an older driver."""
    text = f"cuda-bindings {line['bindings']} on a driver below CUDA {line['driver']}: {line['outcome']}"
    return BindingsFloor(
        bindings=int(line["bindings"]),
        driver=needed(CudaVersion.parse(line["driver"])),
        outcome=line["outcome"],
        weight=line["weight"],
        row=row("cuda_python", text, line),
    )


def needed(value: Value | None) -> Value:
    """Give the value, which a row must have; raises ValueError where it has none."""
    if value is None:
        raise ValueError("a version is none")
    return value


def _branch(text: str | None) -> int | None:
    return None if text is None else int(text)


def row(table: str, text: str, line: Line) -> Row:
    """Give what a row says in words, with its source and the day it was checked."""
    return Row(table=table, text=text, source=line["source"], checked=line["checked"])
