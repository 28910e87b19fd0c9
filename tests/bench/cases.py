"""Measurements of an H200 with everything that a verdict rests on, for tests to change."""

from __future__ import annotations

from dataclasses import replace

from gpustack.bench.case import Case, Spread, spread
from gpustack.bench.ceilings import Ceiling
from gpustack.matrix import Matrix
from gpustack.model.bench import Clocks, Hop, Link, NvLink, Power, Span, Telemetry
from gpustack.model.versions import ComputeCapability
from tests.bench.test_ceilings import H200

WHOLE = Link(generation=5, width=16, max_generation=5, max_width=16, replays=0)


def steady(value: float) -> Spread:
    return spread([value] * 12)


def at(value: float) -> Span:
    return Span(low=value, median=value, high=value)


def product(value: float = 800.0, held: float | None = 1980.0, **telemetry: object) -> Case:
    """Return a bf16 matrix product on an H200 at this clock, its other readings being those of a healthy card."""
    known: dict[str, object] = {
        "clocks": Clocks(held=held, sm=at(1980.0)),
        "power": Power(watts=at(450.0), limit=700.0, default_limit=700.0),
        **telemetry,
    }
    best = 132 * 4096 * 1980e6 / 1e12
    return Case(
        bench="gemm.bf16",
        limit="compute.bf16",
        figures=steady(value),
        ceiling=Ceiling(best=best, held=best * held / 1980 if held else None, source=""),
        telemetry=replace(Telemetry(readings=12), **known),  # type: ignore[arg-type]  # each test names real fields
        device=H200,
        architecture=Matrix().arch(ComputeCapability(9, 0)),
        unit="TFLOP/s",
    )


def copy(value: float = 55.5, link: Link | None = None, **more: object) -> Case:
    """Return a copy over a generation 5 link with 16 lanes."""
    seen = link or WHOLE
    part = (seen.width or 16) / 16
    known = Case(
        bench="pcie.d2h.pinned",
        limit="pcie.d2h",
        figures=steady(value),
        ceiling=Ceiling(best=57.6, held=57.6 * part, source=""),
        telemetry=Telemetry(readings=12, link=seen),
        device=H200,
        architecture=None,
        unit="GB/s",
    )
    return replace(known, **more)  # type: ignore[arg-type]  # each test names real fields


def memory(value: float = 4610.0, **telemetry: object) -> Case:
    """Return a measurement of the device memory at the clock that the telemetry reports."""
    known = replace(Telemetry(readings=12, clocks=Clocks(memory=at(3201.0))), **telemetry)  # type: ignore[arg-type]  # each test names real fields
    loaded = known.clocks.memory.median if known.clocks.memory else 3201.0
    return Case(
        bench="hbm.read",
        limit="hbm",
        figures=steady(value),
        ceiling=Ceiling(best=4814.3, held=4814.3 * loaded / 3201, source=""),
        telemetry=known,
        device=H200,
        architecture=Matrix().arch(ComputeCapability(9, 0)),
        unit="GB/s",
    )


def pair(nvlink: NvLink | None) -> Case:
    """Return a copy between two GPUs with these links."""
    telemetry = Telemetry(readings=12, nvlink=nvlink)
    known = Ceiling(best=450.0, held=None, source="")
    return replace(copy(390.0), bench="p2p.bandwidth", limit="p2p", telemetry=telemetry, ceiling=known)


def hops(*rows: tuple[int, int, int, int]) -> tuple[Hop, ...]:
    """Return links from the GPU up: generation and lanes under load, and the maximum of both."""
    return tuple(
        Hop(address=f"0000:{16 + row:02x}:00.0", generation=now, width=lanes, max_generation=most, max_width=all_)
        for row, (now, lanes, most, all_) in enumerate(rows)
    )
