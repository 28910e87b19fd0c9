"""Why a GPU holds its clocks back now, as a mask: what the rules about heat and power share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because_of, number
from gpustack.diagnose.rules.seen import gpus
from gpustack.model.command import GPU, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Gpu
    from gpustack.model.facts import Facts

# Clock event reasons of nvml.h (wheel nvidia-nvml-dev 13.4.92, read 2026-11-21). They are bits and come together; what
# is not here (idle 0x1, application clocks 0x2, software power cap 0x4, sync boost 0x10, display 0x100) is no fault.
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80


def held_back(facts: Facts, *, finding: str, bits: int, unless: int = 0, what: str, advice: str) -> Iterator[Finding]:
    """Give each GPU whose mask has one of these bits and none of the others."""
    for gpu in gpus(facts):
        mask = number(gpu.copy.facts, "throttle", "mask") or 0
        if not (mask & bits or (bits & HW_THERMAL and _at_limit(gpu))) or mask & unless:
            continue
        grounds = [("throttle", "reasons"), ("temperature", "gpu_c"), ("temperature", "slowdown_c"), ("power", "watts")]
        yield Finding(
            id=finding,
            instance=gpu.mark,
            severity=Severity.WARNING,
            layer=Layer.HARDWARE,
            component="gpu",
            title=f"{gpu.name} at {gpu.mark} {what}",
            because=tuple(because_of(facts, "gpu", gpu.copy, *names) for names in (("throttle", "mask"), *grounds)),
            fix=Fix(
                text=advice,
                commands=(sh("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {gpu}", gpu=GPU(gpu.mark)),),
            ),
        )


def _at_limit(gpu: Gpu) -> bool:
    """Tell whether a GPU is as hot as the temperature at which it slows down: its own limit, not one of ours."""
    now, limit = (number(gpu.copy.facts, "temperature", name) for name in ("gpu_c", "slowdown_c"))
    return now is not None and limit is not None and 0 < limit <= now
