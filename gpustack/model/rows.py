"""Rows of the compatibility matrix as types: what each states, where it comes from and when it was checked."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpustack.model import field, row
from gpustack.model.reading import key
from gpustack.model.report import Row
from gpustack.model.versions import ComputeCapability, CudaVersion, DriverRelease


@row
class Stated:
    """One row of a table; its ``str`` is what it states, ``origin`` the file and the part that it was read from."""

    origin: str
    source: str
    checked: str

    @property
    def row(self) -> Row:
        """The row as a report cites it."""
        return Row(table=self.table, text=str(self), source=self.source, checked=self.checked)

    @property
    def table(self) -> str:
        """The table under which the row is cited."""
        return self.origin.partition(".")[0]

    @property
    def stated(self) -> Mapping[str, object]:
        """Return the source and date, for a row of another type that is derived from this one."""
        return {"origin": self.origin, "source": self.source, "checked": self.checked}

    @property
    def part(self) -> str:
        """The part of the file that contains the row."""
        return self.origin.partition(".")[2]


def driver(text: str) -> DriverRelease:
    """Return the driver release that a row names; a bare branch (570) stands for all its releases."""
    found = DriverRelease(int(text)) if text.isdecimal() else DriverRelease.parse(text)
    if found is None:
        raise ValueError(f"{text!r} is not a driver release")
    return found


def spelt(release: DriverRelease) -> str:
    """Return a driver release as its row writes it."""
    return str(release) if (release.minor, release.patch) != (0, 0) else str(release.branch)


def hexadecimal(text: str) -> int:
    """Return a hexadecimal PCI number, such as 2204."""
    return int(text, 16)


@row
class Architecture(Stated):
    """One GPU architecture: what compiles for it and runs it, and what one SM does per clock.

    ``rates`` are dense operations per clock and SM by data type (fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4), empty
    if no row states them; ``mma`` is the share of each that mma.sync alone reaches, ``level2`` the bytes per clock of
    the second-level cache; ``efficiency`` is what a good library reaches of the ceiling, (low, high) by benchmark id.
    """

    capability: ComputeCapability = field(metadata=key("cc"))
    name: str
    gpus: tuple[str, ...] = ()
    first_toolkit: CudaVersion | None = None
    last_toolkit: CudaVersion | None = None
    first_branch: int | None = field(default=None, metadata=key("first_driver", int))
    last_branch: int | None = field(default=None, metadata=key("last_driver", int))
    embedded: bool = False
    tensor_cores: int | None = None
    shared_kib: int | None = None
    threads: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    halved: Mapping[str, float] = field(default_factory=dict)
    half_rate: tuple[str, ...] = ()
    no_tensor_cores: tuple[str, ...] = ()
    mma: Mapping[str, float] = field(default_factory=dict)
    level2: float | None = None
    efficiency: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def rates_of(self, product: str) -> Mapping[str, float]:
        """Return the rates of this product: some (GeForce, L40) have half those of their architecture."""
        if _names(self.no_tensor_cores, product):
            return {name: rate for name, rate in self.rates.items() if name in {"fp64", "fp32"}}
        return {**self.rates, **self.halved} if _names(self.half_rate, product) else self.rates

    def tensor_cores_of(self, product: str) -> int | None:
        """Return the tensor core generation of this product; None if it has none (GTX 1650) or no row."""
        return None if _names(self.no_tensor_cores, product) else self.tensor_cores

    def __str__(self) -> str:
        since = f", from driver branch {self.first_branch} on" if self.first_branch else ""
        return f"compute capability {self.capability} is {self.name}{since}"


def _names(words: tuple[str, ...], product: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", product) for name in words)


@row
class Flavour(Stated):
    """Whether the open and the proprietary kernel module support these architectures; the first branch with both."""

    archs: tuple[str, ...]
    open: str
    closed: str
    first: int | None = None

    def __str__(self) -> str:
        return f"{', '.join(self.archs)}: open kernel module {self.open}, closed one {self.closed}"


@row
class ArchSpan(Stated):
    """The first and the last driver branch that support an architecture; None: no such limit."""

    arch: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        ends = [f"from branch {self.first}"] * bool(self.first) + [f"up to branch {self.last}"] * bool(self.last)
        return f"{self.arch} is supported {' '.join(ends)}"


@row
class PciRange(Stated):
    """NVIDIA's PCI device numbers of GPUs of one architecture, both ends included."""

    first: int = field(metadata=key("first", hexadecimal))
    last: int = field(metadata=key("last", hexadecimal))
    arch: str

    def __str__(self) -> str:
        return f"PCI devices 10de:{self.first:#06x} to {self.last:#06x} are {self.arch}"


@row
class Memory(Stated):
    """The memory type of products whose names contain these words."""

    match: tuple[str, ...]
    type: str
