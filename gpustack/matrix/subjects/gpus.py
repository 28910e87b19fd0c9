"""GPU products by the names that people and tools use: compute capability, product class, peaks, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.model import field, row
from gpustack.model.reading import key, whole
from gpustack.model.rows import Stated
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

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
_SERVERS = re.compile(r"\binstinct\b|\bdata cent(?:er|re) gpu\b", re.IGNORECASE)  # how AMD and Intel name theirs
_FORM = re.compile(r"sxm\d?|nvl\d+|hbm\d\w?|g?ddr\d\w?|\d{1,2}[abcq]")
_COUNT = re.compile(r"^(?:gpu )?\d+ ?(?:x |\u00d7 ?|: )")
# Words in the names of other vendors' GPUs.
_MAKERS = {
    "amd": re.compile(
        r"\bamd\b|radeon|instinct|strix|\bvega ?(?:\d{2})?\b|\bmi\d{2,3}\w?\b|\brx ?\d{3}|firepro|\bgfx\d|0 ?xtx?\b"
        r"|\br[579] |^(?!.*\bintel\b).*\bhd ?\d{4}",
        re.IGNORECASE,
    ),
    "intel": re.compile(r"\bintel\b|\barc\b|\biris\b|\buhd graphics\b|data center gpu (?:max|flex)", re.IGNORECASE),
}
_BEFORE = ("rtx ", "gtx ", "gt ", "quadro ", "quadro rtx ", "grid ")
_SWAPPED = {"gtx": "rtx", "rtx": "gtx"}


def plain(product: str) -> str:
    """Return a product's bare name: no vendor, count, memory size, form factor or variant (Laptop, Max-Q)."""
    inside = product.partition("[")[2].rpartition("]")[0]
    first = (inside or product).partition(" / ")[0]
    text = _COUNT.sub("", first.strip().lower())
    text = _JOINED.sub(lambda match: f"{match.group(1) or ''} ", _NOISE.sub(" ", text))
    words = re.split(r"[\s\-_(),]+", text)
    return " ".join(word for word in words if word and word not in _ORNAMENT and not _FORM.fullmatch(word))


def _keys(names: list[str]) -> frozenset[str]:
    return frozenset(map(plain, names))


def _kind(word: str) -> str:
    if word not in CLASSES:
        raise ValueError(word)
    return word


@row
class ProductLine(Stated):
    """Products of one kind and compute capability; ``kind`` is datacenter, workstation, consumer or embedded."""

    names: tuple[str, ...]
    keys: frozenset[str] = field(metadata=key("names", _keys))
    capability: ComputeCapability = field(metadata=key("cc"))
    kind: str = field(metadata=key("class", _kind))
    series: str

    def __str__(self) -> str:
        return f"{self.series}: compute capability {self.capability}, {self.kind}"


@row
class SharedName(Stated):
    """Names shared by products of different compute capability, and those products."""

    names: tuple[str, ...]
    keys: frozenset[str] = field(metadata=key("names", _keys))
    why: str

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: {self.why}"


@row
class Figures(Stated):
    """A product's datasheet figures: memory in decimal GB, bandwidth in GB/s, dense peaks in TFLOPS (int8: TOPS)."""

    name: str
    match: tuple[str, ...]
    units: int | None = None
    memory_gb: float | None = None
    memory_gbs: float | None = None
    watts: int | None = None
    peaks: Mapping[str, float] = field(
        metadata=whole(lambda line: {what: float(line[what]) for what in PEAKS if what in line})
    )

    def __str__(self) -> str:
        shown = ", ".join(f"{what} {value:g}" for what, value in self.peaks.items())
        return f"datasheet of {self.name}: {shown or 'no peaks'}"


@row
class JetPack(Stated):
    """One JetPack: its Jetson Linux (L4T), CUDA and GPUs; ``servers``: it runs builds for ARM servers."""

    jetpack: str
    l4t: str
    cuda: str
    capabilities: tuple[ComputeCapability, ...] = field(metadata=key("cc"))
    servers: bool = False

    def __str__(self) -> str:
        runs = "wheels for servers on ARM" if self.servers else "builds made for it alone"
        return f"JetPack {self.jetpack} (Jetson Linux {self.l4t}, CUDA {self.cuda}) runs {runs}"


@row
class JetsonTorch(Stated):
    """The releases of PyTorch that NVIDIA builds for some JetPacks: on an index, or on a page with a wheel for each."""

    jetpacks: VersionRange = field(metadata=key("jetpack"))
    capabilities: tuple[ComputeCapability, ...] = field(metadata=key("cc"))
    torch: tuple[str, ...]
    python: str
    page: str
    index: str | None = None

    def __str__(self) -> str:
        return f"NVIDIA's PyTorch {' '.join(self.torch)} for JetPack {self.jetpacks}, Python {self.python}"


product_lines = rows_of("gpus", "products", ProductLine)  # every line of products, oldest architecture first
shared_names = rows_of("gpus", "ambiguous", SharedName)  # the names that do not determine the compute capability
figures = rows_of("gpus", "figures", Figures)  # the datasheet figures that the matrix has


def jetpacks_for(matrix: Matrix, capability: ComputeCapability) -> tuple[JetPack, ...]:
    """Return the JetPacks that a Jetson of this compute capability runs, oldest first; none for any other GPU."""
    return tuple(one for one in matrix.rows("gpus", "jetpacks", JetPack) if capability in one.capabilities)


def jetpack_named(matrix: Matrix, name: str) -> JetPack | None:
    """Return the newest JetPack for a JetPack or Jetson Linux version as people write it: 6.1, 6, 36.4 or R36.4.3."""
    said = name.lower().removeprefix("r")
    known = matrix.rows("gpus", "jetpacks", JetPack)
    fitting = (one for one in known[::-1] if any(f"{it}.".startswith(f"{said}.") for it in (one.jetpack, one.l4t)))
    return next(fitting, None)


def jetson_torches(matrix: Matrix, capability: ComputeCapability, jetpack: str | None) -> tuple[JetsonTorch, ...]:
    """Return NVIDIA's builds of PyTorch for a Jetson, newest JetPack first; if the JetPack is known, only its own."""
    known = matrix.rows("gpus", "jetson_torch", JetsonTorch)
    here = (one for one in known[::-1] if capability in one.capabilities)
    return tuple(one for one in here if jetpack is None or one.jetpacks.holds(jetpack))


def line_of(matrix: Matrix, product: str) -> ProductLine | None:
    """Return the product line for a name as a tool or a person writes it, or None if it is ambiguous or unknown."""
    words = plain(product)
    if _shared_by(matrix, {words}):
        return None
    return _only(matrix, {words}) or _only(matrix, _guesses(words))


def capability_of(matrix: Matrix, product: str) -> ComputeCapability | None:
    """Return the compute capability of a product by its name, or None if the name does not determine it."""
    found = line_of(matrix, product)
    return found.capability if found else None


def class_of(matrix: Matrix, product: str) -> str | None:
    """Return a product's class: datacenter, workstation, consumer, embedded; None if it is not known."""
    found = line_of(matrix, product)
    return found.kind if found else "datacenter" if _SERVERS.search(product) else None


def ambiguity_of(matrix: Matrix, product: str) -> SharedName | None:
    """Return why a name does not determine the compute capability, or None if it is not such a name."""
    return _shared_by(matrix, {plain(product)})


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
    return {f"{_SWAPPED[first]} {rest}"} if first in _SWAPPED else {before + words for before in _BEFORE}


def maker(name: str) -> str:
    """Return the vendor of a GPU from its name: amd, intel, or nvidia if neither is named."""
    return next((made for made, words in _MAKERS.items() if words.search(name)), "nvidia")
