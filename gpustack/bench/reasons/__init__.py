"""Why a figure is as it is: each rule looks at one thing, and speaks with its evidence and what to do, or is silent."""

from __future__ import annotations

from collections.abc import Callable

from gpustack.bench.case import Case, Reason
from gpustack.bench.reasons import clocks, company, health, links, rates

Rule = Callable[[Case], Reason | None]

RULES: tuple[Rule, ...] = (
    rates.beyond,
    rates.cut,
    company.shared,
    company.sliced,
    clocks.power,
    clocks.thermal,
    clocks.hardware,
    clocks.locked,
    clocks.memory_clock,
    rates.lesser,
    rates.ungated,
    links.link,
    links.slot,
    links.payload,
    links.replays,
    links.numa,
    links.nvlinks,
    links.refused,
    links.nvlink_errors,
    health.errors,
    health.remapped,
)

# What can be said of the same work without rest: only the window is another.
HELD: tuple[Rule, ...] = (
    company.shared,
    clocks.power,
    clocks.thermal,
    clocks.hardware,
    clocks.locked,
    health.errors,
)
