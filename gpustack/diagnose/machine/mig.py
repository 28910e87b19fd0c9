"""MIG as texts tell of it: whether it is on, whether instances were made, and what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import gpus
from gpustack.diagnose.machine.messages import heard, said
from gpustack.diagnose.machine.values import flag, items, table

if TYPE_CHECKING:
    from gpustack.model.facts import Facts


SEVERAL = 2
NONE = "mig-no-instance"
ON = "mig-enabled-said"
MADE = ("mig-devices-listed", "mig-created", "mig-several-said", "mig-visible-several")
NO_GPU = ("no-device", "init-error", "device-busy", "cuda-available-false", "no-driver-found", "cuda-unknown-error")
BEYOND = ("invalid-ordinal", "device-index-beyond", "duplicate-gpu", "one-device-seen")


def on(facts: Facts) -> bool:
    """Return whether MIG is said or seen to be on."""
    return heard(facts, ON, NONE, *MADE) or any(flag(gpu.copy.facts, "mig", "enabled") for gpu in gpus(facts))


def instances(facts: Facts) -> int:
    """Return how many instances are known: by what is listed, else 2 where several are mentioned."""
    listed = len(said(facts, "mig-devices-listed"))
    held = sum(len(items(table(gpu.copy.facts, "mig"), "instances")) for gpu in gpus(facts))
    spoken = SEVERAL if heard(facts, "mig-several-said", "mig-visible-several") else 0
    return max(listed, held, spoken)


def none(facts: Facts) -> bool:
    """Return whether texts show MIG on without an instance: in so many words, or by programs that find no GPU."""
    if heard(facts, NONE):
        return not heard(facts, "cuda-available-true")
    return on(facts) and not heard(facts, *MADE) and not instances(facts) and heard(facts, *NO_GPU)


def too_many(facts: Facts) -> bool:
    """Return whether a program was given several instances and failed at all but the first."""
    several = instances(facts) >= SEVERAL or (on(facts) and len(gpus(facts)) >= SEVERAL)
    return several and heard(facts, *BEYOND)
