"""Numbers that drivers, libraries and the kernel log answer with: every table of them, and what each number means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.model.facts import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

LAYERS = {"app": Layer.APPLICATION, "driver": Layer.DRIVER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Numbers of one kind. ``said`` is an expression for a line that speaks of them.

    ``spelt``: the meanings are the library's own words, so that a line which holds one holds the number.
    """

    id: str
    title: str
    layer: Layer
    said: str
    parts: tuple[tuple[str, str], ...]
    see: tuple[str, ...]
    spelt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a family: its names, its meaning, what is mostly behind it, and what to do."""

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


KERNEL_LOG = ("journalctl -k -g 'NVRM: Xid'", "dmesg | grep -i xid")
DOCTOR = ("gpustack doctor",)
FAMILIES = (
    Family(
        id="xid",
        title="Xid",
        layer=Layer.HARDWARE,
        said=r"(?<![a-z])xid",
        parts=(("xid", "xids"), ("xid", "engines"), ("xid", "new")),
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
    Family(
        id="cublas", title="cuBLAS status", layer=Layer.LIBRARY, said="cublas", parts=(("codes", "cublas"),), see=DOCTOR
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
    """Give every number of a family."""
    rows = (line for table, part in family.parts for line in matrix.rows(table, part, _line))
    return tuple(one for line in rows for one in _numbers(line, family))


def bucket_of(matrix: Matrix, bucket: str) -> str | None:
    """Give what a word of NVIDIA's Xid catalogue for the action to take means, or None."""
    return dict(matrix.rows("xid", "buckets", _bucket)).get(bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    numbers: tuple[int, ...]
    name: str
    meaning: str
    row: Row
    layer: Layer | None
    also: tuple[str, ...]
    cause: str | None
    action: str | None
    bucket: str | None


def _line(line: Mapping[str, Any]) -> _Line:
    spellings = [str(line[key]) for key in ("name", "driver", "mnemonic") if key in line]
    meaning = str(line.get("meaning", ""))
    codes = tuple(int(code) for code in line.get("codes", (line.get("code"),)))
    return _Line(
        numbers=codes,
        name=spellings[0],
        meaning=meaning,
        layer=LAYERS.get(line["layer"], Layer.HARDWARE) if "layer" in line else None,
        also=tuple(spellings[1:]),
        cause=line.get("cause"),
        action=line.get("action"),
        bucket=line.get("bucket"),
        row=tables.row("codes", f"{', '.join(map(str, codes))} ({spellings[0]}): {meaning or 'not explained'}", line),
    )


def _numbers(line: _Line, family: Family) -> Iterator[Number]:
    for number in line.numbers:
        yield Number(
            family=family,
            number=number,
            name=line.name,
            meaning=line.meaning,
            row=line.row,
            layer=line.layer or family.layer,
            also=line.also,
            cause=line.cause,
            action=line.action,
            bucket=line.bucket,
        )


def _bucket(line: Mapping[str, Any]) -> tuple[str, str]:
    return line["bucket"], line["meaning"]
