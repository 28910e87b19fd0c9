"""MIG mode is on, and the GPU is divided into no instance.

With MIG on, CUDA offers only the instances that the GPU has been divided into. There is none, so programs see no GPU.
Make instances, or switch MIG off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import mig_said, naming
from gpustack.diagnose.rules.reading import at, because_of, flag, items, number
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.diagnose.rules.seen import from_text, gpus
from gpustack.model.command import GPU, NOTHING, Command, Word, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ADVICE = "Divide the GPU by one of the profiles that the list shows (PROFILE is its number), or switch MIG off."


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU in MIG mode without an instance."""
    if mig_said.none(facts):
        yield _said(facts)
        return
    for gpu in () if from_text(facts) else gpus(facts):
        held = gpu.copy.facts
        none = at(held, "mig", "instances") is not None and not items(held, "mig", "instances")
        if not flag(held, "mig", "enabled") or not none or number(held, "mig", "instances"):
            continue
        yield Finding(
            id="mig-enabled-no-instance",
            instance=gpu.mark,
            severity=Severity.ERROR,
            layer=Layer.ENVIRONMENT,
            component="gpu",
            title=f"MIG is on for {gpu.name} at {gpu.mark}, and it is divided into no instance",
            because=(
                because_of(facts, "gpu", gpu.copy, "mig", "enabled"),
                because_of(facts, "gpu", gpu.copy, "mig", "instances"),
            ),
            fix=Fix(
                text=ADVICE,
                commands=_commands(sh("-i {gpu}", gpu=GPU(gpu.mark))),
                needs_root=True,
                verify=sh("nvidia-smi -L"),
            ),
        )


def _commands(which: Word | Command = NOTHING) -> tuple[Command, ...]:
    """Give the two ways out for one GPU, or for all."""
    return (
        sh("sudo nvidia-smi mig {which} -lgip", which=which),
        sh("# sudo nvidia-smi mig {which} -cgi PROFILE -C", which=which),
        sh("# or: sudo nvidia-smi {which} -mig 0", which=which),
    )


def _said(facts: Facts) -> Finding:
    """Give the finding on what programs and people said."""
    names = naming.gpu_names(facts)
    return Finding(
        id="mig-enabled-no-instance",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="gpu",
        title=f"MIG is on{f' for {names}' if names else ''}, and there is no MIG instance for programs to use",
        detail="With MIG on, CUDA offers only the instances that a GPU was divided into.",
        confidence=Confidence.CERTAIN if heard(facts, mig_said.NONE) else Confidence.LIKELY,
        because=(*grounds(facts, mig_said.NONE, mig_said.ON, *mig_said.NO_GPU), *naming.of_driver(facts)),
        fix=Fix(
            text=ADVICE,
            commands=_commands(),
            needs_root=True,
            verify=sh("nvidia-smi -L"),
        ),
    )
