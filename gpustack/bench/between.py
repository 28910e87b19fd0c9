"""The limit of what goes on between GPUs, from the links that NVML reports; a pure function of the child's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.bench.ceilings import WRITE_OVERHEAD, Ceiling, pcie

if TYPE_CHECKING:
    from gpustack.model.bench import Link

# NVML tells the rate at which a link signals, and this part of it is data: the datasheets state 25 GB/s a link and
# direction for V100 (6 links, 300 GB/s both ways) and H100 (18, 900), and 50 for B200 (18, 1800). A100's 25000 is data.
SIGNALLED = {25781: 32 / 33, 26562: 16 / 17, 53125: 16 / 17}
NEAR = 2  # megabytes a second: how NVML rounds
WITHOUT = {
    "latency": "none: the way through the links decides",
    "refused": "none: the driver copies through the host's memory, since peer access is refused",
    "multicast": "none: the switch adds up on the way, since NCCL_NVLS_ENABLE was set",
}
UNKNOWN = "none: NVML tells of no NVLinks from each of these GPUs to all others, and NCCL chooses the way"
LARGE = 1 << 30  # bytes: below that the start of a sum counts, and a part of the limit means nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The links of one GPU: how many, how many are up, MB/s of one, and how many go straight to each other GPU."""

    gpu: int
    links: int
    up: int
    mb_s: int | None
    straight: Mapping[str, int]


def ends(method: Mapping[str, Any]) -> tuple[End, ...]:
    """Give the ends that a method tells of; none where NVML told nothing."""
    told = method.get("nvlinks")
    return tuple(End(**one) for one in told) if isinstance(told, Sequence) and not isinstance(told, str) else ()


def limit(kind: str, method: Mapping[str, Any], link: Link, payload: int | None) -> tuple[str, Ceiling]:
    """Give which limit it is, and the limit: of one direction, in GB/s, by the links that there are and that are up.

    Without NVLinks between two GPUs it is that of the PCIe link, and none where the host takes part.
    """
    for name, why in WITHOUT.items():
        if kind.endswith(f".{name}") or method.get(name):
            return kind, Ceiling(best=None, held=None, source=why)
    family, known = kind.partition(".")[0], ends(method)
    if (straight := _straight(known)) is not None:
        return f"{family}.nvlink", _counted(straight, straight, known[0].mb_s, "straight from one to the other")
    if known and all(end.up and end.mb_s for end in known) and not any(end.straight for end in known):
        most, up = min(end.links for end in known), min(end.up for end in known)
        small = family == "nccl" and method.get("bytes", 0) < LARGE
        each = min(end.mb_s or 0 for end in known)
        return f"{family}.{'small' if small else 'nvlink'}", _counted(most, up, each, "of a GPU")
    if family == "nccl":
        return kind, Ceiling(best=None, held=None, source=UNKNOWN)
    return "p2p.pcie", pcie(link, payload, overhead=WRITE_OVERHEAD)


def _straight(known: Sequence[End]) -> int | None:
    """Give how many links go from one of two GPUs to the other, where they go there without a switch."""
    if len(known) != 2:  # noqa: PLR2004 - a pair
        return None
    return known[0].straight.get(str(known[1].gpu)) or None


def _counted(links: int, up: int, mb_s: int | None, where: str) -> Ceiling:
    told = mb_s or 0
    part = next((part for rate, part in SIGNALLED.items() if abs(told - rate) <= NEAR), 1.0)
    each = told * part / 1000
    signalled = f", {told / 1000:g} signalled" if part < 1 else ""
    source = f"{links} NVLinks {where} x {each:.4g} GB/s a direction{signalled}, as NVML reports them"
    return Ceiling(best=links * each, held=up * each, source=source)
