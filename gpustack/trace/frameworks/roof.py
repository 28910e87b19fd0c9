"""What the framework's GPU could do at best: asked of CUDA and NVML by a child of our own, after the framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.bench import ceilings, results, setting
from gpustack.bench.listening import start
from gpustack.model.trace import Figure
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.results import Opened
    from gpustack.collect.subprocesses import Door
    from gpustack.matrix import Matrix
    from gpustack.model.bench import Device

PATIENCE = 15.0  # seconds of silence
FIRST = 0  # the frameworks run on the first GPU that CUDA shows, and the child sees them in the same order
ASKED = {"gpu": FIRST, "highest": FIRST, "names": [], "company": [], "quick": True, "data": "random", "library": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The GPU with all that it tells of itself, and the limits of its memory and of its products."""

    device: Device
    memory: Figure | None
    compute: Figure | None


def limits(environ: Mapping[str, str], door: Door, deadline: float, precision: str, matrix: Matrix) -> Limits | None:
    """Give the limits of the first GPU; None where it cannot be opened, or our packages for that are not here."""
    seen = _opened(environ, door, deadline)
    if seen is None:
        return None
    capability = ComputeCapability.parse(seen.device.compute_capability)
    architecture = matrix.arch(capability) if capability else None
    rates = architecture.rates_of(seen.device.name) if architecture else {}
    return Limits(
        device=seen.device,
        memory=_figure("hbm", "GB/s", ceilings.memory(seen.device, None)),
        compute=_figure(f"gemm.{precision}", "TFLOP/s", ceilings.compute(seen.device, rates, precision, None)),
    )


def _opened(environ: Mapping[str, str], door: Door, deadline: float) -> Opened | None:
    try:
        ear = start(ASKED, setting.variables(environ), door, PATIENCE, deadline)
    except OSError:
        return None
    try:
        line = next(ear.lines())
        return results.opened(line.what, FIRST) if line.kind == "opened" else None
    except results.MALFORMED:
        return None
    finally:
        ear.close()


def _figure(name: str, unit: str, ceiling: Ceiling) -> Figure | None:
    return Figure(name=name, value=ceiling.best, unit=unit, note=ceiling.source) if ceiling.best else None
