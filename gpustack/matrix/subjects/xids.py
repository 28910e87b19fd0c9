"""What the driver logs when a GPU or a switch fails: Xids, SXids and what follows them; why clocks are low."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

LAYERS = ("app", "driver", "hw", "link", "pcie", "env", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One Xid; ``layer`` says whose fault it usually is, ``bucket`` is NVIDIA's own word for what to do at once."""

    number: int
    name: str
    meaning: str
    row: Row
    action: str | None = None
    layer: str | None = None
    bucket: str | None = None
    investigate: str | None = None
    mnemonic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Xids that bring others in the seconds after them on the same GPU; ``sxid`` where a switch is the cause."""

    first: tuple[int, ...]
    then: tuple[int, ...]
    why: str
    row: Row
    sxid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SXid:
    """Errors of an NVSwitch chip: non-fatal, fatal (one port), always-fatal (the whole fabric), or notable."""

    numbers: tuple[int, ...]
    kind: str
    name: str
    meaning: str
    action: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReason:
    """One bit of why clocks are below their maximum; ``weight`` is ok, info, warn or bad."""

    bit: int
    name: str
    meaning: str
    weight: str
    row: Row
    words: str | None = None


def xids(matrix: Matrix) -> tuple[Xid, ...]:
    """Give every Xid that the matrix knows, by number."""
    engines = matrix.rows("xid", "engines", _engine)
    made = matrix.rows("xid", "xids", _xid) + matrix.rows("xid", "new", _new) + matrix.rows("xid", "unused", _unused)
    return tuple(sorted(made + tuple(one for group in engines for one in group), key=lambda one: one.number))


def bucket_of(matrix: Matrix, bucket: str) -> str | None:
    """Give in words what one of NVIDIA's action words means, or None where it is none."""
    return dict(matrix.rows("xid", "buckets", _bucket)).get(bucket)


def cascades(matrix: Matrix) -> tuple[Cascade, ...]:
    """Give which Xids bring which others."""
    return matrix.rows("xid", "follows", _cascade)


def sxids(matrix: Matrix) -> tuple[SXid, ...]:
    """Give the errors of NVSwitch chips."""
    return matrix.rows("xid", "sxids", _sxid)


def clock_reasons(matrix: Matrix) -> tuple[ClockReason, ...]:
    """Give every reason for lowered clocks, lowest bit first."""
    return matrix.rows("xid", "clocks", _clock)


def _xid(line: Line) -> Xid:
    if line["layer"] not in LAYERS:
        raise ValueError(line["layer"])
    return Xid(
        number=int(line["code"]),
        name=line["name"],
        meaning=line["meaning"],
        action=line["action"],
        layer=line["layer"],
        bucket=line.get("bucket"),
        investigate=line.get("investigate"),
        mnemonic=line.get("mnemonic"),
        row=row("xid", f"Xid {line['code']} ({line['name']}): {line['meaning']}", line),
    )


def _engine(line: Line) -> tuple[Xid, ...]:
    return tuple(_xid({**line, "code": code}) for code in line["codes"])


def _new(line: Line) -> Xid:
    words = line["mnemonic"].replace("_", " ").lower()
    text = f"Xid {line['code']} is {words} in the driver's source"
    return Xid(
        number=int(line["code"]),
        name=words,
        meaning="defined in the driver's source, not explained yet",
        mnemonic=line["mnemonic"],
        row=row("xid", text, line),
    )


def _unused(line: Line) -> Xid:
    words = line["mnemonic"].replace("_", " ").lower()
    return Xid(
        number=int(line["code"]),
        name=words,
        meaning="NVIDIA's catalogue lists it as unused",
        bucket=line["bucket"],
        mnemonic=line["mnemonic"],
        row=row("xid", f"Xid {line['code']} is {words} and unused on A100 and later", line),
    )


def _bucket(line: Line) -> tuple[str, str]:
    return line["bucket"], line["meaning"]


def _cascade(line: Line) -> Cascade:
    first, then = tuple(line.get("first", ())), tuple(line["then"])
    said = " or ".join(str(one) for one in first) if first else f"SXid {line['sxid']}"
    text = f"Xid {' or '.join(str(one) for one in then)} after {said}: {line['why']}"
    return Cascade(first=first, then=then, why=line["why"], sxid=line.get("sxid"), row=row("xid", text, line))


def _sxid(line: Line) -> SXid:
    return SXid(
        numbers=tuple(line["codes"]),
        kind=line["kind"],
        name=line["name"],
        meaning=line["meaning"],
        action=line["action"],
        row=row("xid", f"SXid {line['codes'][0]} ({line['name']}, {line['kind']}): {line['meaning']}", line),
    )


def _clock(line: Line) -> ClockReason:
    return ClockReason(
        bit=int(line["bit"]),
        name=line["name"],
        words=line.get("smi"),
        meaning=line["meaning"],
        weight=line["weight"],
        row=row("xid", f"{line.get('smi', line['name'])}: {line['meaning']}", line),
    )
