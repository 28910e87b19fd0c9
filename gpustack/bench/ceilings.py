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


def _pcie(generation: int, width: int) -> float:
    rate, encoding = PCIE[generation]
    return rate * width / 8 * encoding


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
