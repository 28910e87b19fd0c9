"""Whether somebody says that no GPU is meant to be used: there is none, or the processor was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.saying import heard
from gpustack.diagnose.rules.seen import nvidia_here

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

ABSENT, CHOSEN = "nvidia-absent-said", "cpu-meant-said"


def none_here(facts: Facts) -> bool:
    """Tell whether the machine is said to have no GPU, and nothing shows one."""
    return heard(facts, ABSENT) and not nvidia_here(facts)


def on_cpu(facts: Facts) -> bool:
    """Tell whether the processor is to be used, by choice or because there is no GPU."""
    return heard(facts, CHOSEN) or none_here(facts)
