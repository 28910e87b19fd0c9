"""The compatibility matrix: what works with what, each row with its source and the day it was checked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast
from zlib import crc32

from gpustack import __version__, assets
from gpustack.errors import BrokenError
from gpustack.matrix.subjects import codes, drivers, frameworks, terms, torch, training
from gpustack.matrix.subjects import toolkits as cuda_toolkits
from gpustack.model.reading import made
from gpustack.model.report import Tool
from gpustack.model.rows import Architecture, ArchSpan, Flavour, Memory, PciRange
from gpustack.model.versions import CodeArch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpustack.model.versions import ComputeCapability, CudaVersion

Kind = TypeVar("Kind")
Name = TypeVar("Name")
DATA_SCHEMA, MANIFEST = "gpustack.data/1", "bundle.json"  # of a bundle of data, which bundles.py installs
MADE, MEASURED = ".made", "generated/measured"  # of a checkout; what programs read elsewhere than in the package index
ADDED: dict[tuple[str, str], Mapping[str, Any] | list[Any]] = {}  # by table and part, additions by plugins
SHARED = ("source", "checked")  # what a generated file states once for all its rows


def _rows(name: str, part: str, kind: type[Kind]) -> cached_property[tuple[Kind, ...]]:
    """Return the property that is one part of a file."""
    return cached_property(lambda matrix: matrix.rows(name, part, kind))


def _by(name: str, part: str, kind: type[Kind], key: Callable[[Kind], Name]) -> cached_property[Mapping[Name, Kind]]:
    """Return the property that is one part of a file, each row by its key."""
    return cached_property(lambda matrix: {key(one): one for one in matrix.rows(name, part, kind)})


@dataclass(frozen=True)
class Matrix:
    """All tables, each read on first use and kept; a damaged file then raises BrokenError."""

    folder: Path = field(default=assets.MATRIX)
    _held: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _made: dict[tuple[str, str, type], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def date(self) -> str:
        """The day of the newest row, as YYYY-MM-DD, including those of an installed bundle."""
        return self._newer[0] if self._newer else self._shipped

    @cached_property
    def tool(self) -> Tool:
        """This version of gpustack with these tables, as every result names it."""
        return Tool(name="gpustack", version=__version__, matrix_date=self.date)

    @cached_property
    def _shipped(self) -> str:
        return str(self.table("meta").get("date", ""))

    @cached_property
    def _newer(self) -> tuple[str, Path] | None:
        """The day and folder of a data bundle newer than the tables of this release."""
        folder = assets.data() / "current"
        try:
            held = json.loads((folder / MANIFEST).read_text("utf-8"))
            newer = held["schema"] == DATA_SCHEMA and held["date"] > self._shipped
        except (OSError, ValueError, KeyError, TypeError):  # none is installed, or it is damaged
            return None
        return (held["date"], folder) if newer and self.folder == assets.MATRIX else None

    @property
    def distributions(self) -> frozenset[str]:
        """The distributions that have a generated table."""
        folders = (self.folder, *(self._newer or ())[1:])
        return frozenset(path.stem for folder in folders for path in folder.glob("generated/*.*"))

    @cached_property
    def architectures(self) -> Mapping[ComputeCapability, Architecture]:
        """Every GPU architecture by compute capability, merged from all parts of its table."""
        table = self.table("arch")
        lines = ({**_beside(table, line["cc"]), **line} for line in table["arch"])
        rows = (_row("arch.arch", number, line, Architecture) for number, line in enumerate(lines))
        return {one.capability: one for one in rows}

    @cached_property
    def memories(self) -> Mapping[str, str]:
        """Every kind of memory by words in a product's name, the longest first."""
        held = {words: one.type for one in self.rows("memory", "memory", Memory) for words in one.match}
        return dict(sorted(held.items(), key=lambda one: -len(one[0])))

    @cached_property
    def _memories(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        return tuple((re.compile(rf"\b{re.escape(words)}\b"), kind) for words, kind in self.memories.items())

    def memory_of(self, product: str) -> str | None:
        """Return the kind of memory of a product by its name, or None if the matrix does not know it."""
        return next((kind for words, kind in self._memories if words.search(product)), None)

    toolkits = _rows("cuda_driver", "toolkits", cuda_toolkits.Toolkit)  # of CUDA, every release, oldest first
    compats = _rows("cuda_driver", "compat", cuda_toolkits.CompatPackage)
    flavours = _rows("driver_branches", "flavours", Flavour)  # of the kernel module, by architectures
    pci_ranges = _rows(f"{MEASURED}/pci", "ranges", PciRange)  # the architectures of PCI device numbers
    torch_builds = _rows("torch", "builds", torch.Code)  # PyTorch's own for Linux x86-64, oldest first
    onnxruntime = _rows("wheels", "onnxruntime", frameworks.WheelSpan)  # onnxruntime-gpu by CUDA, oldest first
    jax_extras = _rows("wheels", "jax", frameworks.WheelSpan)  # of JAX, that install CUDA, newest first
    bad_pairs = _rows("cuda_python", "pairs", training.BadPair)  # of cuda-core and cuda-bindings
    bindings_floors = _rows("cuda_python", "floors", training.BindingsFloor)  # the most severe first

    families = _by("cuda_driver", "families", cuda_toolkits.Floor, lambda one: one.major)  # from CUDA 11 on
    branches = _by("driver_branches", "branches", drivers.Branch, lambda one: one.number)
    spans = _by("driver_branches", "ends", ArchSpan, lambda one: one.arch)  # by the first word of its name
    systems = _by("stack", "systems", terms.System, lambda one: one.id)  # bottom layer first
    xids = _by("xid", "xids", codes.Code, lambda one: one.number)  # those that rules mention
    nvml_codes = _by("codes", "nvml", codes.Code, lambda one: one.number)
    cuda_codes = _by("codes", "cuda", codes.Code, lambda one: one.number)  # of driver and runtime alike
    torch_releases = _by("torch", "releases", torch.Minor, lambda one: one.torch)  # by its minor (2.11)

    @cached_property
    def natives(self) -> Mapping[CudaVersion, cuda_toolkits.Toolkit]:
        """The toolkit of each minor version with the oldest driver."""
        oldest_first = sorted(self.toolkits, key=lambda one: one.driver)
        return {one.cuda: one for one in reversed(oldest_first)}

    def arch(self, capability: ComputeCapability) -> Architecture | None:
        """Return the architecture of a compute capability, or None if the matrix does not know it."""
        return self.architectures.get(capability)

    def first_code(self, gpu: ComputeCapability) -> CudaVersion | None:
        """Return the first CUDA whose compiler makes code that runs on a GPU: for it, or for older ones of its kind."""
        own = self.arch(gpu)
        alike = (one for one in self.architectures.values() if own and one.embedded is own.embedded)
        runs = (one.first_toolkit for one in alike if CodeArch("sm", one.capability).runs_on(gpu))
        return min(filter(None, runs), default=None)

    def native(self, cuda: CudaVersion) -> cuda_toolkits.Toolkit | None:
        """Return the toolkit of this minor version with the oldest driver, or None if no row states it."""
        return self.natives.get(cuda)

    def span(self, arch: str) -> ArchSpan | None:
        """Return the driver branches of an architecture by its name, such as ``Ada Lovelace``, or None."""
        return self.spans.get(_first_word(arch))

    def flavour(self, arch: str) -> Flavour | None:
        """Return the module flavours of an architecture by its name, or None."""
        return next((one for one in self.flavours if _first_word(arch) in one.archs), None)

    def pci_arch(self, device: int) -> PciRange | None:
        """Return the range that an NVIDIA GPU's PCI device number is in, or None."""
        return next((one for one in self.pci_ranges if one.first <= device <= one.last), None)

    def has(self, name: str) -> bool:
        """Return whether a file with this name exists."""
        there = name in self._held or any((self.folder / f"{name}.{kind}").exists() for kind in ("json", "toml"))
        return there or bool(self._of_bundle(name))

    def table(self, name: str) -> Mapping[str, Any]:
        """Return one file's contents; raises BrokenError if it is damaged."""
        if name not in self._held:
            try:
                self._held[name] = self._read(name)
            except (OSError, ValueError) as error:
                raise _damaged(name, error) from error
            if self.folder == assets.MATRIX:
                self._held[name] = _with_added(name, self._held[name])
        return self._held[name]

    def _read(self, name: str) -> Mapping[str, Any]:
        """Return a file: from a newer bundle, as JSON built for a wheel or the tests, or else the original."""
        quick = self._of_bundle(name) or self.folder / f"{name}.json"
        if not quick.exists():
            written = (self.folder / f"{name}.toml").read_bytes()
            quick = made_of(self.folder, name, written)
            if not quick.exists():
                return assets.toml(written.decode("utf-8"))
        return cast("Mapping[str, Any]", json.loads(quick.read_text("utf-8")))

    def _of_bundle(self, name: str) -> Path | None:
        """Return a generated table's file in an installed bundle, if it has one."""
        if not name.startswith("generated/") or not self._newer:
            return None
        found = self._newer[1] / f"{name}.json"
        return found if found.is_file() else None

    def rows(self, name: str, part: str, kind: type[Kind]) -> tuple[Kind, ...]:
        """Return one part of a file as rows of a type, read once; an invalid row raises BrokenError."""
        place = name, part, kind
        if place not in self._made:
            try:
                held = self.table(name)
                lines = enumerate(held[part])
            except (KeyError, TypeError) as error:
                raise _damaged(f"{name}.{part}", error) from error
            shared = {key: held[key] for key in SHARED if key in held}
            self._made[place] = tuple(
                _row(f"{name}.{part}", number, {**shared, **line}, kind) for number, line in lines
            )
        return cast("tuple[Kind, ...]", self._made[place])


def made_of(folder: Path, name: str, written: bytes) -> Path:
    """Return the path of a checkout's table as JSON, if it was made from exactly these bytes."""
    return folder / MADE / f"{name.replace('/', '.')}.{crc32(written):08x}.json"


def _with_added(name: str, held: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a table with the additions of plugins: further rows of a list, further names of a mapping."""
    more = {part: rows for (table, part), rows in ADDED.items() if table == name}
    return {
        **held,
        **{
            part: [*held[part], *rows] if isinstance(rows, list) else {**held[part], **rows}
            for part, rows in more.items()
        },
    }


def _row(origin: str, number: int, line: Mapping[str, Any], kind: type[Kind]) -> Kind:
    try:
        return made({"origin": origin, **line}, kind)
    except (TypeError, ValueError) as error:
        raise _damaged(f"{origin}[{number}]", error) from error


def _beside(table: Mapping[str, Any], cc: str) -> dict[str, Any]:
    """Return what the other parts of the architecture table state about a compute capability."""
    parts = ("limits", "rates", "half_rate", "no_tensor_cores", "mma", "level2")
    held: dict[str, Mapping[str, Any]] = {
        part: next((one for one in table[part] if one["cc"] == cc), {}) for part in parts
    }
    return {
        **held["limits"],
        **held["rates"],
        "half_rate": held["half_rate"].get("names", []),
        "no_tensor_cores": held["no_tensor_cores"].get("names", []),
        "mma": held["mma"].get("share", {}),
        "level2": held["level2"].get("bytes"),
        "efficiency": {one["what"]: [one["low"], one["high"]] for one in table["efficiency"] if one["cc"] == cc},
    }


def _first_word(name: str) -> str:
    return name.partition(" ")[0]


def _damaged(name: str, error: Exception) -> BrokenError:
    return BrokenError(f"the shipped compatibility matrix is damaged: {name}: {error}")
