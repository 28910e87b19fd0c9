"""GPU products by the names that people and tools write: compute capability, what they are made for, peaks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.matrix.tables import needed, row
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

PEAKS = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
CLASSES = ("datacenter", "workstation", "consumer", "embedded")
_NOISE = re.compile(
    r"\(uuid:.*|/pcie/sse2|\(rev \w+\)|mig \d+g\.\d+gb\S*|\b\d+ ?(?:gib|gb|mib|mb|g)\b|\(nvgpu\)|\((?:r|tm)\)|[®™]"
)
_JOINED = re.compile(r"\b((?:rtx|gtx|gt)(?=\d)|titan(?=[xv]))|(?<=\d\d0)(?=(?:ti|super|d)\b)")
_ORNAMENT = frozenset(
    (
        *("nvidia", "corporation", "graphics", "card", "geforce", "tesla", "dgx", "hgx", "gpu", "laptop", "notebook"),
        *("mobile", "max", "maxq", "q", "with", "design", "edition", "generation", "gen", "workstation", "embedded"),
        *("oem", "blackwell", "pcie", "pci", "e", "nvl", "developer", "dev", "kit", "devkit", "module", "industrial"),
        *("superchip", "founders", "lhr", "lite", "hash", "rate", "mac", "refresh", "lc", "active", "converged"),
        *("accelerator", "desktop", "lovelace"),
    )
)
_FORM = re.compile(r"sxm\d?|nvl\d+|hbm\d\w?|g?ddr\d\w?|\d{1,2}[abcq]")
_COUNT = re.compile(r"^(?:gpu )?\d+ ?(?:x |\u00d7 ?|: )")
_BEFORE = ("rtx ", "gtx ", "gt ", "quadro ", "quadro rtx ", "grid ")
_SWAPPED = {"gtx": "rtx", "rtx": "gtx"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductLine:
    """Products of one kind and compute capability; ``kind`` is datacenter, workstation, consumer or embedded."""

    names: tuple[str, ...]
    keys: frozenset[str]
    capability: ComputeCapability
    kind: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedName:
    """Names that products of different compute capability share, and which products those are."""

    names: tuple[str, ...]
    keys: frozenset[str]
    why: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a product's datasheet says: memory in decimal GB, bandwidth in GB/s, dense peaks in TFLOPS (int8: TOPS)."""

    name: str
    match: tuple[str, ...]
    row: Row
    units: int | None = None
    memory_gb: float | None = None
    memory_gbs: float | None = None
    watts: int | None = None
    peaks: Mapping[str, float] = field(default_factory=dict)


def product_lines(matrix: Matrix) -> tuple[ProductLine, ...]:
    """Give every line of products, oldest architecture first."""
    return matrix.rows("gpus", "products", _line)


def shared_names(matrix: Matrix) -> tuple[SharedName, ...]:
    """Give the names that do not tell the compute capability."""
    return matrix.rows("gpus", "ambiguous", _shared)


def figures(matrix: Matrix) -> tuple[Figures, ...]:
    """Give the datasheet figures that the matrix has."""
    return matrix.rows("gpus", "figures", _figures)


def line_of(matrix: Matrix, product: str) -> ProductLine | None:
    """Give the product line of a name as a tool or a person writes it, or None where it is not sure."""
    words = plain(product)
    if _shared_by(matrix, {words}):
        return None
    return _only(matrix, {words}) or _only(matrix, _guesses(words))


def capability_of(matrix: Matrix, product: str) -> ComputeCapability | None:
    """Give the compute capability of a product by its name, or None where the name alone does not tell."""
    found = line_of(matrix, product)
    return found.capability if found else None


def class_of(matrix: Matrix, product: str) -> str | None:
    """Give what a product is made for: datacenter, workstation, consumer, embedded; None where it is not known."""
    found = line_of(matrix, product)
    return found.kind if found else None


def ambiguity_of(matrix: Matrix, product: str) -> SharedName | None:
    """Give why a name does not tell the compute capability, or None where it is not such a name."""
    return _shared_by(matrix, {plain(product)})


def plain(product: str) -> str:
    """Give a product's name in plain words: no vendor, count, memory size, form factor or trim (Laptop GPU, Max-Q)."""
    inside = product.partition("[")[2].rpartition("]")[0]
    first = (inside or product).partition(" / ")[0]
    text = _COUNT.sub("", first.strip().lower())
    text = _JOINED.sub(lambda match: f"{match.group(1) or ''} ", _NOISE.sub(" ", text))
    words = re.split(r"[\s\-_(),]+", text)
    return " ".join(word for word in words if word and word not in _ORNAMENT and not _FORM.fullmatch(word))


def _only(matrix: Matrix, keys: set[str]) -> ProductLine | None:
    found = [one for one in product_lines(matrix) if not one.keys.isdisjoint(keys)]
    sure = len({one.capability for one in found}) == 1 and _shared_by(matrix, keys) is None
    return found[0] if sure else None


def _shared_by(matrix: Matrix, keys: set[str]) -> SharedName | None:
    return next((one for one in shared_names(matrix) if not one.keys.isdisjoint(keys)), None)


def _guesses(words: str) -> set[str]:
    first, _, rest = words.partition(" ")
    if first in {"grid", "quadro"}:
        return {rest}
    if first in _SWAPPED:
        return {f"{_SWAPPED[first]} {rest}"}
    return {before + words for before in _BEFORE}


def _line(line: Line) -> ProductLine:
    text = f"{line['series']}: compute capability {line['cc']}, {line['class']}"
    if line["class"] not in CLASSES:
        raise ValueError(line["class"])
    return ProductLine(
        names=tuple(line["names"]),
        keys=frozenset(plain(name) for name in line["names"]),
        capability=needed(ComputeCapability.parse(line["cc"])),
        kind=line["class"],
        row=row("gpus", text, line),
    )


def _shared(line: Line) -> SharedName:
    text = f"{', '.join(line['names'])}: {line['why']}"
    keys = frozenset(plain(name) for name in line["names"])
    return SharedName(names=tuple(line["names"]), keys=keys, why=line["why"], row=row("gpus", text, line))


def _figures(line: Line) -> Figures:
    peaks = {what: float(line[what]) for what in PEAKS if what in line}
    shown = ", ".join(f"{what} {value:g}" for what, value in peaks.items())
    return Figures(
        name=line["name"],
        match=tuple(line["match"]),
        units=line.get("units"),
        memory_gb=line.get("memory_gb"),
        memory_gbs=line.get("memory_gbs"),
        watts=line.get("watts"),
        peaks=peaks,
        row=row("gpus", f"datasheet of {line['name']}: {shown or 'no peaks'}", line),
    )
