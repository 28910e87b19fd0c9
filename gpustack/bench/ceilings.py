"""The physical limit of each figure, computed from what the device reports, of one GPU and between two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.model.bench import Device, Link

# GT/s per lane and the share of bits that is data: 8b/10b, then 128b/130b, then FLITs of 236 bytes in 256.
# Source: PCI Express Base Specification 6.0, "Physical Layer Logical Block".
PCIE = {
    1: (2.5, 0.8),
    2: (5.0, 0.8),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 236 / 256),
}
# Bytes around each payload: header, sequence number, check. Writes by the GPU have a longer header than the completions
# by which the host answers its reads.
WRITE_OVERHEAD = 24
COMPLETION_OVERHEAD = 20
USUAL_PAYLOAD = 256
DIRECTIONS = frozenset({"pcie.h2d", "pcie.d2h", "pcie.bidir"})
WITHOUT = {
    "pcie.pageable": "none: the host's processor copies, so its memory is the limit",
    "pcie.far": "none: it depends on the link between the host's processors",
    "pcie.latency": "none: it depends on the path through the host",
    "none": "none: it depends on the host's processor and the driver",
}
# Bytes a clock and multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory"). What one can take
# from the second level is an assumption: A100's cache gives 47 to each of its 108.
BANKS, PORT = 128, 64
GIGA = 1e9
# NVML tells the rate at which a link signals, and this part of it is data: the datasheets state 25 GB/s a link and
# direction for V100 (6 links, 300 GB/s both ways) and H100 (18, 900), and 50 for B200 (18, 1800). A100's 25000 is data.
SIGNALLED = {25781: 32 / 33, 26562: 16 / 17, 53125: 16 / 17}
NEAR = 2  # megabytes per second, NVML's rounding
BETWEEN_WITHOUT = {
    "latency": "none: it depends on the path through the links",
    "refused": "none: the driver copies through the host's memory, since peer access is refused",
    "multicast": "none: the switch adds in transit, since NCCL_NVLS_ENABLE was set",
}
UNKNOWN = "none: NVML reports no NVLinks from each of these GPUs to all others, and NCCL chooses the path"
EVERY = "p2p.every"
LARGE = 1 << 30  # bytes: below that a sum's startup dominates, and a share of the limit is meaningless


@record
class Ceiling:
    """A limit in the figure's unit: at the card's best, at the clock or link held meanwhile, and its source.

    ``best`` is None if the card does not report enough, and ``source`` then says what is missing.
    """

    best: float | None
    held: float | None
    source: str


def memory(device: Device, held_mhz: float | None) -> Ceiling:
    """Return the device memory's limit: two transfers per clock over the whole bus width, in GB/s."""
    clock, bits = device.memory_clock_mhz, device.bus_bits
    if not clock or not bits:
        return Ceiling(best=None, held=None, source="the card does not report its memory clock and bus width")
    best = _memory(clock, bits)
    held = _memory(held_mhz, bits) if held_mhz else None
    return Ceiling(best=best, held=held, source=f"2 x {clock:g} MHz x {bits} bit / 8, as the card reports them")


def _memory(clock_mhz: float, bits: int) -> float:
    return 2 * clock_mhz * 1e6 * bits / 8 / GIGA


def pcie(link: Link, payload: int | None, *, overhead: int) -> Ceiling:
    """Return the limit of one direction of the link: rate x lanes x encoding x payload efficiency, in GB/s."""
    generation, width = link.max_generation or link.generation, link.max_width or link.width
    if generation not in PCIE or not width:
        return Ceiling(best=None, held=None, source="nothing reports the generation and width of the link")
    size = payload or USUAL_PAYLOAD
    part = size / (size + overhead)
    encoded = _pcie(generation, width)
    known = "" if payload else " (assumed: the card's configuration could not be read)"
    held = _pcie(link.generation, link.width) * part if link.generation in PCIE and link.width else None
    return Ceiling(
        best=encoded * part,
        held=held,
        source=f"PCIe {generation}.0 x{width}: {encoded:.1f} GB/s encoded, "
        f"{encoded * part:.1f} with payloads of {size} bytes{known}",
    )


def link(seen: Link, payload: int | None, which: str) -> Ceiling:
    """Return the limit of the link in direction h2d or d2h, or of both at once, bidir: their sum."""
    inward = pcie(seen, payload, overhead=COMPLETION_OVERHEAD)
    outward = pcie(seen, payload, overhead=WRITE_OVERHEAD)
    if which != "bidir" or inward.best is None or outward.best is None:
        return outward if which == "d2h" else inward
    held = inward.held + outward.held if inward.held and outward.held else None
    return Ceiling(best=inward.best + outward.best, held=held, source=f"both directions of {inward.source}")


def _pcie(generation: int, width: int) -> float:
    rate, encoding = PCIE[generation]
    return rate * width / 8 * encoding


def shared(device: Device, held_mhz: float | None) -> Ceiling:
    """Return the limit of shared memory: multiprocessors x banks x clock, in GB/s."""
    return _clocked(device, held_mhz, BANKS, "32 banks of 4 bytes per clock")


def level2(device: Device, bytes_a_clock: float | None, held_mhz: float | None) -> Ceiling:
    """Return the limit of the second-level cache in GB/s: its own if a row states it, else its maximum throughput."""
    units, clock = device.multiprocessors, device.clock_mhz
    if not bytes_a_clock or not units or not clock:
        why = "assumed: no row states the bandwidth of this architecture's cache"
        return _clocked(device, held_mhz, PORT, f"{PORT} bytes per clock for each ({why})")
    return Ceiling(
        best=bytes_a_clock * clock * 1e6 / GIGA,
        held=bytes_a_clock * held_mhz * 1e6 / GIGA if held_mhz else None,
        source=f"{bytes_a_clock:g} bytes per clock (published for the architecture) x {clock:g} MHz (its maximum)",
    )


def _clocked(device: Device, held_mhz: float | None, each: float, what: str) -> Ceiling:
    units, clock = device.multiprocessors, device.clock_mhz
    if not units or not clock:
        return Ceiling(best=None, held=None, source="the card does not report its multiprocessors and clock")
    per_mhz = units * each * 1e6 / GIGA
    return Ceiling(
        best=per_mhz * clock,
        held=per_mhz * held_mhz if held_mhz else None,
        source=f"{units} multiprocessors x {what} x {clock:g} MHz (its highest clock)",
    )


def compute(device: Device, rates: Mapping[str, float], dtype: str, held_mhz: float | None) -> Ceiling:
    """Return the limit of matrix products: multiprocessors x operations per clock x clock, in TFLOP/s."""
    rate, units, clock = rates.get(dtype), device.multiprocessors, device.clock_mhz
    if not rate:
        source = f"no row states the {dtype} rate of compute capability {device.compute_capability}"
        return Ceiling(best=None, held=None, source=source)
    if not units or not clock:
        return Ceiling(best=None, held=None, source="the card does not report its multiprocessors and clock")
    per_mhz = units * rate * 1e6 / 1e12
    return Ceiling(
        best=per_mhz * clock,
        held=per_mhz * held_mhz if held_mhz else None,
        source=f"{units} multiprocessors x {rate:g} FLOP per clock x {clock:g} MHz (its highest clock)",
    )


@record
class End:
    """One GPU's links: how many, how many are up, MB/s of one, and how many go directly to each other GPU."""

    gpu: int
    links: int
    up: int
    mb_s: int | None
    straight: Mapping[str, int]


def ends(method: Mapping[str, Any]) -> tuple[End, ...]:
    """Return the link ends in a method's details; none if NVML reported nothing."""
    told = method.get("nvlinks")
    return tuple(End(**one) for one in told) if isinstance(told, Sequence) and not isinstance(told, str) else ()


def limit(kind: str, method: Mapping[str, Any], link: Link, payload: int | None) -> tuple[str, Ceiling]:
    """Return the kind of limit and the limit of one direction, in GB/s, for all links and for those that are up.

    Without NVLink between two GPUs it is that of PCIe, and none if the host takes part.
    """
    for name, why in BETWEEN_WITHOUT.items():
        if kind.endswith(f".{name}") or method.get(name):
            return kind, Ceiling(best=None, held=None, source=why)
    family, known = kind.partition(".")[0], ends(method)
    if kind == EVERY:
        return kind, _of_all(known)
    if (straight := _straight(known)) is not None:
        return f"{family}.nvlink", _counted(straight, straight, known[0].mb_s, "straight from one to the other")
    if known and all(end.up and end.mb_s for end in known) and not any(end.straight for end in known):
        most, up = min(end.links for end in known), min(end.up for end in known)
        small = family == "nccl" and method.get("bytes", 0) < LARGE
        each = min(end.mb_s or 0 for end in known)
        name = "nvlink" if kind in {"p2p.copy", "nccl.sum"} else kind.partition(".")[2]
        return f"{family}.{'small' if small else name}", _counted(most, up, each, "of a GPU")
    if family == "nccl":
        return kind, Ceiling(best=None, held=None, source=UNKNOWN)
    return "p2p.pcie", pcie(link, payload, overhead=WRITE_OVERHEAD)


def _of_all(known: Sequence[End]) -> Ceiling:
    """Return the limit of all GPUs writing to all others at once: each one's links to a switch or to the others."""
    if not known or not all(end.up and end.mb_s for end in known):
        return Ceiling(best=None, held=None, source=UNKNOWN)
    used = [sum(end.straight.values()) or end.links for end in known]
    up = sum(min(end.up, links) for end, links in zip(known, used, strict=True))
    return _counted(sum(used), up, known[0].mb_s, f"of {len(known)} GPUs")


def _straight(known: Sequence[End]) -> int | None:
    """Return how many links connect two GPUs directly, without a switch."""
    if len(known) != 2:  # noqa: PLR2004 - a pair
        return None
    return known[0].straight.get(str(known[1].gpu)) or None


def _counted(links: int, up: int, mb_s: int | None, where: str) -> Ceiling:
    told = mb_s or 0
    part = next((part for rate, part in SIGNALLED.items() if abs(told - rate) <= NEAR), 1.0)
    each = told * part / 1000
    signalled = f", {told / 1000:g} signalled" if part < 1 else ""
    source = f"{links} NVLinks {where} x {each:.4g} GB/s per direction{signalled}, as NVML reports them"
    return Ceiling(best=links * each, held=up * each, source=source)
