"""Physical limits, computed from what the GPU says of itself, so that a product in no table is judged too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.model.bench import Device, Link

# GT/s a lane and the part of the bits that is data: 8b/10b, then 128b/130b, then FLITs of 236 bytes in 256.
# Source: PCI Express Base Specification 6.0, "Physical Layer Logical Block".
PCIE = {
    1: (2.5, 0.8),
    2: (5.0, 0.8),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 236 / 256),
}
# Bytes round each payload: header, sequence number, check. Writes by the GPU carry a longer header than the completions
# with which the host answers its reads.
WRITE_OVERHEAD = 24
COMPLETION_OVERHEAD = 20
USUAL_PAYLOAD = 256
DIRECTIONS = frozenset({"pcie.h2d", "pcie.d2h", "pcie.bidir"})
WITHOUT = {
    "pcie.pageable": "none: the host's processor copies, and its memory is the limit",
    "pcie.latency": "none: the way through the host decides",
    "none": "none: the host's processor and the driver decide",
}
# Bytes a clock and multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory"). What one can take
# from the second level is an assumption: A100's cache gives 47 to each of its 108.
BANKS, PORT = 128, 64
GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A limit in the unit of the figure: at the card's best, at the clock or link held meanwhile, and where it is from.

    ``best`` is None where the card does not tell enough, and ``source`` then says what is missing.
    """

    best: float | None
    held: float | None
    source: str


def memory(device: Device, held_mhz: float | None) -> Ceiling:
    """Give the limit of the device memory: two transfers a clock over the whole width of the bus, in GB/s."""
    clock, bits = device.memory_clock_mhz, device.bus_bits
    if not clock or not bits:
        return Ceiling(best=None, held=None, source="the card does not tell its memory clock and bus width")
    best = _memory(clock, bits)
    held = _memory(held_mhz, bits) if held_mhz else None
    return Ceiling(best=best, held=held, source=f"2 x {clock:g} MHz x {bits} bit / 8, as the card reports them")


def _memory(clock_mhz: float, bits: int) -> float:
    return 2 * clock_mhz * 1e6 * bits / 8 / GIGA


def pcie(link: Link, payload: int | None, *, overhead: int) -> Ceiling:
    """Give the limit of one direction of the link: rate x lanes x encoding x payload efficiency, in GB/s."""
    generation, width = link.max_generation or link.generation, link.max_width or link.width
    if generation not in PCIE or not width:
        return Ceiling(best=None, held=None, source="nobody told the generation and width of the link")
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
    """Give the limit of a direction of the link, h2d or d2h, or of both at once, bidir: their sum."""
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
    """Give the limit of shared memory: multiprocessors x banks x clock, in GB/s."""
    return _clocked(device, held_mhz, BANKS, "32 banks of 4 bytes a clock")


def level2(device: Device, bytes_a_clock: float | None, held_mhz: float | None) -> Ceiling:
    """Give the limit of the second-level cache in GB/s: its own where a row states it, else what can be taken of it."""
    units, clock = device.multiprocessors, device.clock_mhz
    if not bytes_a_clock or not units or not clock:
        why = "assumed: no row tells what the cache of this architecture gives"
        return _clocked(device, held_mhz, PORT, f"{PORT} bytes a clock for each ({why})")
    return Ceiling(
        best=bytes_a_clock * clock * 1e6 / GIGA,
        held=bytes_a_clock * held_mhz * 1e6 / GIGA if held_mhz else None,
        source=f"{bytes_a_clock:g} bytes a clock (published for the architecture) x {clock:g} MHz (its highest clock)",
    )


def _clocked(device: Device, held_mhz: float | None, each: float, what: str) -> Ceiling:
    units, clock = device.multiprocessors, device.clock_mhz
    if not units or not clock:
        return Ceiling(best=None, held=None, source="the card does not tell its multiprocessors and clock")
    per_mhz = units * each * 1e6 / GIGA
    return Ceiling(
        best=per_mhz * clock,
        held=per_mhz * held_mhz if held_mhz else None,
        source=f"{units} multiprocessors x {what} x {clock:g} MHz (its highest clock)",
    )


def compute(device: Device, rates: Mapping[str, float], dtype: str, held_mhz: float | None) -> Ceiling:
    """Give the limit of matrix products: multiprocessors x operations a clock x clock, in TFLOP/s."""
    rate, units, clock = rates.get(dtype), device.multiprocessors, device.clock_mhz
    if not rate:
        source = f"no row tells the {dtype} rate of compute capability {device.compute_capability}"
        return Ceiling(best=None, held=None, source=source)
    if not units or not clock:
        return Ceiling(best=None, held=None, source="the card does not tell its multiprocessors and clock")
    per_mhz = units * rate * 1e6 / 1e12
    return Ceiling(
        best=per_mhz * clock,
        held=per_mhz * held_mhz if held_mhz else None,
        source=f"{units} multiprocessors x {rate:g} FLOP a clock x {clock:g} MHz (its highest clock)",
    )
