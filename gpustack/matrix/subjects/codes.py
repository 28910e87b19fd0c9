"""Numbers that drivers, libraries and the kernel log report: Xids, SXids, CUDA errors, reasons for lowered clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpustack.matrix.subjects import rows_of
from gpustack.model import field, record, row
from gpustack.model.facts import Layer
from gpustack.model.reading import key, whole
from gpustack.model.report import Row
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

LAYERS = ("app", "driver", "hw", "link", "pcie", "env", "info")
# What is known about Xids for which NVIDIA gives only the name, by the part of the table that they are in.
UNEXPLAINED = {
    "xid.new": "defined in the driver's source, not explained yet",
    "xid.unused": "NVIDIA's catalogue lists it as unused",
}
_OURS = {"app": Layer.APPLICATION, "driver": Layer.DRIVER}


def _whose(word: str) -> str:
    if word not in LAYERS:
        raise ValueError(word)
    return word


def _codes(line: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(line["codes"] if "codes" in line else (line["code"],))


def _spellings(line: Mapping[str, Any]) -> tuple[str, ...]:
    words = (line["mnemonic"].replace("_", " ").lower(),) if line["origin"] in UNEXPLAINED else ()
    return *words, *(line[name] for name in ("name", "driver", "mnemonic") if name in line)


def _meaning(line: Mapping[str, Any]) -> str:
    return str(line.get("meaning", UNEXPLAINED.get(line["origin"], "")))


@record
class Family:
    """Numbers of one kind. ``said`` is an expression for a line that contains one.

    ``spelt``: the meanings are the library's own words, so a line that contains one implies the number.
    """

    id: str
    title: str
    layer: Layer
    said: str
    parts: tuple[tuple[str, str], ...]
    see: tuple[str, ...]
    spelt: bool = False


@row
class Code(Stated):
    """A number that a library or the kernel log reports: its name, its meaning, its usual cause or what to do."""

    number: int = field(metadata=key("code"))
    name: str
    meaning: str
    advice: str | None = field(metadata=whole(lambda line: line.get("cause", line.get("action"))))
    finding: str | None = None

    def __str__(self) -> str:
        return f"{self.number} ({self.name}): {self.meaning}"


@row
class CodeLine(Stated):
    """One row of a table of numbers; some rows are about several numbers."""

    numbers: tuple[int, ...] = field(metadata=whole(_codes))
    spellings: tuple[str, ...] = field(metadata=whole(_spellings))
    meaning: str = field(default="", metadata=whole(_meaning))
    whose: str | None = field(default=None, metadata=key("layer", _whose))
    cause: str | None = None
    action: str | None = None
    bucket: str | None = None
    message: str | None = None

    @property
    def table(self) -> str:
        """The table under which the row is cited."""
        return "codes"

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.numbers))} ({self.spellings[0]}): {self.meaning or 'not explained'}"


@record
class Number:
    """One number of a family: its names, its meaning, its usual cause, and what to do.

    ``message`` is the kind of message that means the same.
    """

    family: Family
    number: int
    name: str
    meaning: str
    row: Row
    layer: Layer
    also: tuple[str, ...] = ()
    cause: str | None = None
    action: str | None = None
    bucket: str | None = None
    whose: str | None = None
    message: str | None = None


@row
class Bucket(Stated):
    """The meaning of an action word in NVIDIA's Xid catalogue."""

    bucket: str
    meaning: str


@row
class Cascade(Stated):
    """Xids that cause others on the same GPU within seconds; ``sxid`` if a switch is the cause."""

    first: tuple[int, ...] = ()
    then: tuple[int, ...]
    why: str
    sxid: str | None = None

    def __str__(self) -> str:
        cause = " or ".join(map(str, self.first)) or f"SXid {self.sxid}"
        return f"Xid {' or '.join(map(str, self.then))} after {cause}: {self.why}"


@row
class ClockReason(Stated):
    """One reason, as a bit, for clocks below their maximum; ``weight`` is ok, info, warn or bad."""

    bit: int
    name: str
    meaning: str
    weight: str
    words: str | None = field(default=None, metadata=key("smi"))

    def __str__(self) -> str:
        return f"{self.words or self.name}: {self.meaning}"


KERNEL_LOG = ("journalctl -k -g 'NVRM: Xid'", "dmesg | grep -i xid")
DOCTOR = ("gpustack doctor",)
FAMILIES = (
    Family(
        id="xid",
        title="Xid",
        layer=Layer.HARDWARE,
        said=r"(?<![a-z])xid",
        parts=(("xid", "xids"), ("xid", "engines"), ("xid", "new"), ("xid", "unused")),
        see=KERNEL_LOG,
    ),
    Family(
        id="cuda",
        title="CUDA error",
        layer=Layer.RUNTIME,
        said=r"(?<![a-z])cu(?:da|init|rt)|libcuda|torch",
        parts=(("codes", "cuda"),),
        see=DOCTOR,
        spelt=True,
    ),
    Family(
        id="nvml",
        title="NVML error",
        layer=Layer.DRIVER,
        said=r"nvml|nvidia[-_ ]smi",
        parts=(("codes", "nvml"),),
        see=("nvidia-smi", *DOCTOR),
    ),
    Family(
        id="cudnn9", title="cuDNN 9 status", layer=Layer.LIBRARY, said="cudnn", parts=(("codes", "cudnn9"),), see=DOCTOR
    ),
    Family(
        id="cudnn8", title="cuDNN 8 status", layer=Layer.LIBRARY, said="cudnn", parts=(("codes", "cudnn8"),), see=DOCTOR
    ),
    *(
        Family(id=one, title=f"{name} status", layer=Layer.LIBRARY, said=one, parts=(("codes", one),), see=DOCTOR)
        for one, name in (("cublas", "cuBLAS"), ("cusolver", "cuSOLVER"), ("cusparse", "cuSPARSE"))
    ),
    Family(
        id="nccl",
        title="NCCL result",
        layer=Layer.LIBRARY,
        said="nccl",
        parts=(("codes", "nccl"),),
        see=("NCCL_DEBUG=INFO python program.py",),
    ),
    Family(
        id="sxid",
        title="SXid",
        layer=Layer.HARDWARE,
        said="sxid",
        parts=(("xid", "sxids"),),
        see=("dmesg | grep SXid",),
    ),
)


def numbers(matrix: Matrix, family: Family) -> tuple[Number, ...]:
    """Return every number of a family."""
    rows = (line for table, part in family.parts for line in matrix.rows(table, part, CodeLine))
    return tuple(_number(family, number, line) for line in rows for number in line.numbers)


def _number(family: Family, number: int, line: CodeLine) -> Number:
    return Number(
        family=family,
        number=number,
        name=line.spellings[0],
        meaning=line.meaning,
        row=line.row,
        layer=_OURS.get(line.whose, Layer.HARDWARE) if line.whose else family.layer,
        also=line.spellings[1:],
        cause=line.cause,
        action=line.action,
        bucket=line.bucket,
        whose=line.whose,
        message=line.message,
    )


def xids(matrix: Matrix) -> tuple[Number, ...]:
    """Return every Xid by number: whose fault it usually is, and NVIDIA's action word (``bucket``)."""
    return tuple(sorted(numbers(matrix, FAMILIES[0]), key=lambda one: one.number))


def bucket_of(matrix: Matrix, bucket: str) -> str | None:
    """Return the meaning of an action word in NVIDIA's Xid catalogue, or None."""
    return next((one.meaning for one in matrix.rows("xid", "buckets", Bucket) if one.bucket == bucket), None)


cascades = rows_of("xid", "follows", Cascade)  # which Xids cause which others
clock_reasons = rows_of("xid", "clocks", ClockReason)  # every reason for lowered clocks, lowest bit first
