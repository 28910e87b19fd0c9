"""Which of the given things depend on each other, and which of these pairs no row decides."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from gpustack.ask.given import GPUS, given_parts
from gpustack.ask.speaking import UNTOUCHED, ends, named, on_cpu
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.values import copies
from gpustack.diagnose.requirements.extensions import PINS
from gpustack.diagnose.requirements.python import ON_ARM
from gpustack.model.matrix_answer import Compatibility, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.ask.subjects import Subject
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract

FRAMEWORKS = frozenset({"pytorch", "tensorflow", "jax", "onnxruntime"})
COMPANIONS = frozenset({"torchvision", "torchaudio"})  # built for the same GPUs as the PyTorch of the same day
ON_TORCH = frozenset(PINS)
SERVERS = frozenset({"vllm", "sglang", "tgi", "tensorrt-llm"})
LIBRARIES = frozenset({"cudnn", "nccl", "tensorrt"})
COMPILERS = frozenset({"gcc", "clang"})
DRIVER, TOOLKIT = "nvidia-driver", "cuda-toolkit"
# What directly depends on what. The rest follows from what is in between: the kernel affects a framework
# through the driver, and the driver affects an extension through its PyTorch.
RELATED = (
    (GPUS, FRAMEWORKS | (ON_TORCH - COMPANIONS) | LIBRARIES | {TOOLKIT, DRIVER, "nvidia.ko", "rocm"}),
    (frozenset({DRIVER}), FRAMEWORKS | LIBRARIES | {TOOLKIT, "linux-kernel"}),
    (frozenset({"python"}), FRAMEWORKS | ON_TORCH),
    (frozenset({"pytorch"}), ON_TORCH | {"nccl"}),
    (frozenset({"cudnn"}), FRAMEWORKS | {"tensorrt"}),
    (frozenset({TOOLKIT}), FRAMEWORKS | LIBRARIES | COMPILERS),
    (frozenset({"onnx"}), frozenset({"onnxruntime"})),
    (FRAMEWORKS, FRAMEWORKS),  # in one environment they share the CUDA libraries' wheels
    (SERVERS, SERVERS | (ON_TORCH - COMPANIONS)),  # each pins what the other installs
)
ON_BOTH = GPUS | COMPILERS | {"python", "linux-kernel", DRIVER}  # for any processor, or sold with one
# Their rows of GPU code describe the project's build, not its wheels for x86-64.
ON_EVERY_MACHINE = frozenset({"pytorch", "jax"}) | LIBRARIES | GPUS | {TOOLKIT, DRIVER, "nvidia.ko"}


def undecided(subject: Subject, drawn: Sequence[Contract], facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return every pair of related given things that no row decides, the subject's own first."""
    decided = {frozenset({one.from_, one.to}) for one in drawn}
    idle = UNTOUCHED if on_cpu(subject) else frozenset[str]()
    return tuple(
        (one, other)
        for one, other in combinations(sorted(given_parts(facts), key=lambda one: one not in ends(subject)), 2)
        if related(one, other) and frozenset({one, other}) not in decided
        if not (one in ends(subject) and other in idle) and ("python" not in {one, other} or _python(facts))
    )


def gaps(pairs: Sequence[tuple[str, str]], drawn: Sequence[Contract], facts: Facts) -> Iterator[Reason]:
    """Yield the missing row for each pair, and for the processor that was given or comes with the GPU."""
    for one, other in pairs:
        first, second = (other, one) if one in {"python", *GPUS} else (one, other)
        text = f"No row for {named(first, facts)} → {named(second, facts)}: whether they work together is not known."
        yield Reason(text=_upper(text), verdict=Compatibility.UNKNOWN)
    yield from _on_arm(drawn, facts)
    yield from _no_platform(drawn, facts)


def related(one: str, other: str) -> bool:
    """Return whether two things directly depend on each other, whatever their versions."""
    sides = ((left, right) for pair in RELATED for left, right in (pair, pair[::-1]))
    return one != other and any(one in left and other in right for left, right in sides)


def _on_arm(drawn: Sequence[Contract], facts: Facts) -> Iterator[Reason]:
    """Yield that the GPU code of an aarch64 wheel was not read, if rows exist only for the wheels for x86-64."""
    if facts.taken or platform(facts) != ON_ARM:
        return
    judged = {one.from_ for one in drawn if one.to in GPUS and one.kind in {"architecture", "technique"}}
    for component in sorted(judged - ON_EVERY_MACHINE):
        text = f"No row for {named(component, facts)} on aarch64 → GPU: only the wheels for x86-64 are known."
        yield Reason(text=text, verdict=Compatibility.UNKNOWN)


def _no_platform(drawn: Sequence[Contract], facts: Facts) -> Iterator[Reason]:
    """Yield that no row says whether something exists for aarch64, given or implied by the GPU; all are for x86-64."""
    if platform(facts) != ON_ARM:
        return
    judged = {one.from_ for one in drawn if one.to == "machine"}
    asked = facts.host.machine is not None and not facts.taken
    for component in given_parts(facts):
        wheels = component in {*FRAMEWORKS, *ON_TORCH}
        if component not in judged and (wheels or (asked and component not in ON_BOTH)):
            text = f"No row for {named(component, facts)} → aarch64: whether there is a build for it is not known."
            yield Reason(text=_upper(text), verdict=Compatibility.UNKNOWN)


def _python(facts: Facts) -> bool:
    return any(copy.version for copy in copies(facts, "python"))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
