"""The compatibility matrix: what goes with what, each row with its source and the day it was checked."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from gpustack import assets
from gpustack.errors import BrokenError
from gpustack.matrix import tables

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

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
    from gpustack.model.versions import ComputeCapability, CudaVersion

Made = TypeVar("Made")


@dataclass(frozen=True)
class Matrix:
    """All tables, each read when it is first asked for and kept; a damaged file raises BrokenError then."""

    folder: Path = field(default=assets.MATRIX)
    _held: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _made: dict[str, tuple[object, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def date(self) -> str:
        """The day of the youngest row, as YYYY-MM-DD."""
        return str(self.table("meta").get("date", ""))

    @cached_property
    def architectures(self) -> Mapping[ComputeCapability, Architecture]:
        """Every GPU architecture by its compute capability."""
        table = self.table("arch")
        made = self._rows("arch", "arch", lambda line: tables.architecture(line, table))
        return {one.capability: one for one in made}

    @cached_property
    def memories(self) -> Mapping[str, str]:
        """Every kind of memory by the words of a product's name, the longest words first."""
        rows = self._rows("memory", "memory", tables.memory)
        held = {words: kind for named, kind in rows for words in named}
        return dict(sorted(held.items(), key=lambda one: -len(one[0])))

    def memory_of(self, product: str) -> str | None:
        """Give the kind of memory of a product by its name, or None where the matrix does not know it."""
        fitting = (kind for words, kind in self.memories.items() if re.search(rf"\b{re.escape(words)}\b", product))
        return next(fitting, None)

    @cached_property
    def families(self) -> Mapping[int, CudaFamily]:
        """Every CUDA family by its major version; before CUDA 11 there are none."""
        return {one.major: one for one in self._rows("cuda_driver", "families", tables.family)}

    @cached_property
    def toolkits(self) -> tuple[Toolkit, ...]:
        """Every release of the CUDA toolkit, oldest first."""
        return self._rows("cuda_driver", "toolkits", tables.toolkit)

    @cached_property
    def compats(self) -> tuple[CompatPackage, ...]:
        """Every compat package."""
        return self._rows("cuda_driver", "compat", tables.compat)

    @cached_property
    def branches(self) -> Mapping[int, DriverBranch]:
        """Every driver branch by its number."""
        return {one.number: one for one in self._rows("driver_branches", "branches", tables.branch)}

    @cached_property
    def spans(self) -> Mapping[str, ArchSpan]:
        """The driver branches that run each architecture, by the first word of its name."""
        return {one.arch: one for one in self._rows("driver_branches", "ends", tables.span)}

    @cached_property
    def flavours(self) -> tuple[Flavour, ...]:
        """Which flavour of the kernel module runs which architectures."""
        return self._rows("driver_branches", "flavours", tables.flavour)

    @cached_property
    def pci_ranges(self) -> tuple[PciRange, ...]:
        """The architectures of PCI device numbers."""
        return self._rows("pci", "ranges", tables.pci_range)

    @cached_property
    def systems(self) -> Mapping[str, StackSystem]:
        """Every system of the stack by its id, bottom layer first."""
        return {one.id: one for one in self._rows("stack", "systems", tables.stack_system)}

    @cached_property
    def xids(self) -> Mapping[int, Code]:
        """The Xid numbers that rules speak of."""
        return {one.number: one for one in self._rows("xid", "xids", lambda line: tables.code(line, "xid"))}

    @cached_property
    def nvml_codes(self) -> Mapping[int, Code]:
        """What NVML answers with."""
        return {one.number: one for one in self._rows("codes", "nvml", lambda line: tables.code(line, "codes"))}

    @cached_property
    def cuda_codes(self) -> Mapping[int, Code]:
        """What CUDA answers with, driver and runtime alike."""
        return {one.number: one for one in self._rows("codes", "cuda", lambda line: tables.code(line, "codes"))}

    @cached_property
    def torch_releases(self) -> Mapping[str, TorchRelease]:
        """PyTorch's minor releases by their name (2.11)."""
        return {one.torch: one for one in self._rows("torch", "releases", tables.torch_release)}

    @cached_property
    def torch_builds(self) -> tuple[TorchBuild, ...]:
        """PyTorch's own builds for Linux x86-64, oldest first."""
        return self._rows("torch", "builds", tables.torch_build)

    @cached_property
    def onnxruntime(self) -> tuple[WheelSpan, ...]:
        """Which CUDA major each onnxruntime-gpu is made for, oldest first."""
        return self._rows("wheels", "onnxruntime", lambda line: tables.wheel(line, "onnxruntime-gpu"))

    @cached_property
    def jax_extras(self) -> tuple[WheelSpan, ...]:
        """The extras of JAX that bring CUDA, newest first."""
        return self._rows("wheels", "jax", lambda line: tables.wheel(line, "jax"))

    @cached_property
    def bad_pairs(self) -> tuple[BadPair, ...]:
        """Releases of cuda-core and cuda-bindings that fail together."""
        return self._rows("cuda_python", "pairs", tables.bad_pair)

    @cached_property
    def bindings_floors(self) -> tuple[BindingsFloor, ...]:
        """What cuda-bindings loses on older drivers, the strongest first."""
        return self._rows("cuda_python", "floors", tables.bindings_floor)

    def arch(self, capability: ComputeCapability) -> Architecture | None:
        """Give the architecture of a compute capability, or None where the matrix does not know it."""
        return self.architectures.get(capability)

    def native(self, cuda: CudaVersion) -> Toolkit | None:
        """Give the toolkit of this minor version with the oldest driver, or None where no row states it."""
        return min((one for one in self.toolkits if one.cuda == cuda), key=lambda one: one.driver, default=None)

    def span(self, arch: str) -> ArchSpan | None:
        """Give the driver branches of an architecture by its name, such as ``Ada Lovelace``, or None."""
        return self.spans.get(_first_word(arch))

    def flavour(self, arch: str) -> Flavour | None:
        """Give the module flavours of an architecture by its name, or None."""
        return next((one for one in self.flavours if _first_word(arch) in one.archs), None)

    def pci_arch(self, device: int) -> PciRange | None:
        """Give the range that an NVIDIA GPU's PCI device number is in, or None."""
        return next((one for one in self.pci_ranges if one.first <= device <= one.last), None)

    def table(self, name: str) -> Mapping[str, Any]:
        """Give one file as it stands; raises BrokenError where it is damaged."""
        if name not in self._held:
            try:
                self._held[name] = self._read(name)
            except (OSError, ValueError) as error:
                raise _damaged(name, error) from error
        return self._held[name]

    def _read(self, name: str) -> Mapping[str, Any]:
        """Give a file: in a wheel as the JSON that was made of it, in a checkout as it is written."""
        quick = self.folder / f"{name}.json"
        if quick.exists():
            return cast("Mapping[str, Any]", json.loads(quick.read_text("utf-8")))
        return tomllib.loads((self.folder / f"{name}.toml").read_text("utf-8"))

    def rows(self, name: str, part: str, make: Callable[[Mapping[str, Any]], Made]) -> tuple[Made, ...]:
        """Give one part of a file as rows, made once; the modules of ``gpustack.subjects`` name part and maker."""
        key = f"{name}.{part} {make.__module__}.{getattr(make, '__qualname__', '')}"  # two makers may read one part
        if key not in self._made:
            self._made[key] = self._rows(name, part, make)
        return cast("tuple[Made, ...]", self._made[key])

    def _rows(self, name: str, part: str, make: Callable[[Mapping[str, Any]], Made]) -> tuple[Made, ...]:
        try:
            return tuple(make(line) for line in self.table(name)[part])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(f"{name}.{part}", error) from error


def _first_word(name: str) -> str:
    return name.partition(" ")[0]


def _damaged(name: str, error: Exception) -> BrokenError:
    return BrokenError(f"the shipped compatibility matrix is damaged: {name}: {type(error).__name__}: {error}")
