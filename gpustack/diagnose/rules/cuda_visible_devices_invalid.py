"""CUDA_VISIBLE_DEVICES names GPUs that are not there, or none.

CUDA shows a program only the GPUs that this variable lists, and stops reading at the first that does not exist: those
before it are seen, and where it is the first, none is. An index beyond the last GPU, a wrong UUID, -1 or nothing at all
hides them. Unset it, or name GPUs that nvidia-smi -L lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import visible_said
from gpustack.diagnose.rules.reading import at, because, number, text, told
from gpustack.diagnose.rules.seen import gpus, starts
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

END = "-1"
HIDING = frozenset({"", END, "NoDevFiles"})


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give an error where the variable leaves no GPU by mistake, a warning where it hides some or all of them."""
    spoken = visible_said.finding(facts)
    if spoken:
        yield spoken
        return
    said = at(told(facts, "libcuda"), "visible")
    count = len(gpus(facts)) or number(told(facts, "nvml"), "gpu_count")
    if not isinstance(said, str) or not count:
        return
    names = [name.strip() for name in said.split(",")]
    hidden = names[0] in HIDING
    wrong = [] if hidden else _wrong(names, count, facts)
    if not hidden and not wrong:
        return
    named = "hides every GPU" if hidden else f"names {', '.join(wrong)}, which is not there"
    cut = hidden or wrong[0] != names[0] or starts(facts)  # some are left, or none is on purpose
    yield Finding(
        id="cuda-visible-devices-invalid",
        severity=Severity.WARNING if cut else Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="libcuda",
        title=f"CUDA_VISIBLE_DEVICES={said} {named}",
        detail=f"This machine has {count} GPU{'s' if count > 1 else ''}: 0{f' to {count - 1}' if count > 1 else ''}.",
        because=(because(facts, "libcuda", "visible"), because(facts, "nvml", "gpu_count")),
        fix=Fix(
            text="Unset it, or name a GPU that is there.",
            commands=(sh("unset CUDA_VISIBLE_DEVICES"), sh("nvidia-smi -L")),
        ),
    )


def _wrong(names: list[str], count: int, facts: Facts) -> list[str]:
    """Give the names of what is not there, up to a -1, with which people end the list."""
    listed = names[: names.index(END)] if END in names else names
    return [name for name in listed if not _there(name, count, facts)]


def _there(name: str, count: int, facts: Facts) -> bool:
    """Tell whether a name leads to a GPU; of a UUID the beginning is enough, and MIG devices are not judged here."""
    if numbers(name) and name.isdecimal():
        return numbers(name) < (count,)
    known = [text(gpu.copy.facts, "uuid") or gpu.copy.key for gpu in gpus(facts)]
    if not name.startswith("GPU-") or not all(uuid.startswith("GPU-") for uuid in known):
        return name.startswith(("MIG-", "GPU-"))
    return any(uuid.startswith(name) for uuid in known)
