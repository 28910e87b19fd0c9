"""Which contracts an answer rests on, which given things depend on each other, and which pairs no row decides."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from gpustack.ask.given import GPUS, given_parts, is_given
from gpustack.ask.subjects import CPU_BUILDS, Subject
from gpustack.ask.words import nearest
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import capabilities, gpus, on_windows
from gpustack.diagnose.machine.values import copies, text
from gpustack.diagnose.requirements.extensions import PINS
from gpustack.diagnose.requirements.python import ON_ARM
from gpustack.matrix.subjects import frameworks, toolkits
from gpustack.model.facts import PRODUCTS, Facts
from gpustack.model.matrix_answer import Compatibility, Reason
from gpustack.model.report import Contract, Kept
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from gpustack.matrix import Matrix

NAMES = {
    **PRODUCTS,
    "cuda-toolkit": "the CUDA toolkit",
    "nvidia-driver": "the driver",
    "gpu": "the GPU",
    "amd-gpu": "the GPU",
    "intel-gpu": "the GPU",
    "nvidia.ko": "the kernel module",
    "linux-kernel": "the kernel",
}
# Under which restriction something of this kind works.
BY_KIND = {
    "technique": " It runs without that, with what this GPU can do.",
    "requirement": " It runs, and pip does not install the two together.",
    "system": " It computes on the CPU there.",
    "carried": " It runs by the compat libraries that the image carries, on data-centre GPUs alone.",
}
ALSO = {"gpu": ("amd-gpu", "intel-gpu"), "nvidia-driver": ("nvidia.ko",)}
GROUND = frozenset({*GPUS, "nvidia-driver", "nvidia.ko", "linux-kernel"})  # what other things depend on
# Parts of the machine that do not depend on a Python: a driver runs with any.
APART = GROUND | {"cuda-toolkit", "gcc", "clang", "cudnn", "nccl"}
HELPERS = frozenset({"libcuda"})  # what a compat package would add, inserted here by plan
WITHOUT_GPU = frozenset({"gcc", "clang", "python", "linux-kernel"})
# What a CPU build never uses: any of it is compatible.
UNTOUCHED = frozenset({"nvidia-driver", "nvidia.ko", "cuda-toolkit", "cudnn", "nccl", "tensorrt"})


def ends(subject: Subject) -> set[str]:
    """Return the ids of the contracts that are a subject's own."""
    return {subject.component, *ALSO.get(subject.component, ())}


def spoken(subject: Subject, drawn: Sequence[Contract], facts: Facts) -> tuple[Contract, ...]:
    """Return a subject's own contracts, and those between their dependencies: its driver with the GPU and the kernel.

    Those with neither end given concern only the machine.
    """
    own = ends(subject)
    held = [one for one in drawn if {one.from_, one.to} & own]
    given = {one.id for one in facts.components if is_given(facts, one.id)}
    reached, size = own | _ends(held), 0
    while len(held) != size:
        size = len(held)
        for one in drawn:
            both = {one.from_, one.to}
            leads = both & reached & (given | GROUND) and both & given and both <= given | GROUND
            unsure = one.status is Kept.UNKNOWN and not both <= given  # concerns only the machine
            if leads and one not in held and one.kind != "maker" and not unsure:
                held.append(one)
        reached |= _ends(held)
    return tuple(held)


def unspoken(
    subject: Subject, held: Sequence[Contract], named_: Container[str], facts: Facts, matrix: Matrix
) -> Iterator[Reason]:
    """Return, for each given thing without a contract, that nothing is known or that a build does not use it.

    Those in ``named_`` have their own missing row, which says more.
    """
    own = ends(subject)  # another's Python says nothing about the two together
    reached = _ends(one for one in held if one.kind != "glibc" and (one.kind != "python" or one.from_ in own))
    for one in facts.components:
        if one.id in ends(subject) | HELPERS | reached or one.id in named_ or not is_given(facts, one.id):
            continue
        if one.id != "python" or one.version:
            yield _unsaid(subject, one.id, facts)
    stated = [copy for copy in copies(facts, "python") if not copy.facts.get("glibc_implied")]
    libc = next((name for copy in stated if (name := text(copy.facts, "glibc"))), None)
    if is_given(facts, "python") and not facts.taken and libc and not any(one.kind == "glibc" for one in held):
        yield _unknown(subject, f"glibc {libc}")
    if facts.taken and gpus(facts) and capabilities(facts) and not reached & {*GPUS, "pytorch"} and _wants_gpu(subject):
        yield _unknown(subject, "the GPU of this machine")
    yield from _system(subject, held, facts, matrix)


def on_cpu(subject: Subject) -> bool:
    """Return whether a subject is a CPU-only build."""
    return subject.tag == "cpu" or subject.name in CPU_BUILDS


def named(component: str, facts: Facts) -> str:
    """Return a component with its version, or a GPU with its name, as people write it."""
    known = facts.find(component)
    copy = known.instances[0] if known and known.instances else None
    more = (text(copy.facts, "name") or text(copy.facts, "cc")) if copy and component in GPUS else None
    flavour = text(copy.facts, "flavour") if copy else None
    if flavour:
        return f"the {flavour} kernel module"
    words = (NAMES.get(component, component), (known.version if known else None) or more)
    return " ".join(word for word in words if word)


def _ends(held: Iterator[Contract] | Sequence[Contract]) -> set[str]:
    return {end for one in held for end in (one.from_, one.to)}


def _wants_gpu(subject: Subject) -> bool:
    return not on_cpu(subject) and subject.component not in WITHOUT_GPU | GROUND


def _unsaid(subject: Subject, component: str, facts: Facts) -> Reason:
    if component == "python" and subject.component in APART:
        said = f"{NAMES.get(subject.component, subject.component)} {subject.version} is independent of the Python."
        return Reason(text=f"{said[:1].upper()}{said[1:]}", verdict=Compatibility.COMPATIBLE)
    if on_cpu(subject) and component in UNTOUCHED:
        said = f"{subject.words} computes on the CPU and does not use {named(component, facts)}."
        return Reason(text=said, verdict=Compatibility.COMPATIBLE)
    return _unknown(subject, named(component, facts), meant(component))


def meant(name: str) -> str:
    """Return the question whether the nearest known name was meant, for an unknown one."""
    near = nearest(name)
    return f" Did you mean {near}?" if near else ""


def _unknown(subject: Subject, what: str, more: str = "") -> Reason:
    said = f"No row of the matrix says whether {subject.words} works with {what}.{more}"
    return Reason(text=said, verdict=Compatibility.UNKNOWN)


def _system(subject: Subject, held: Sequence[Contract], facts: Facts, matrix: Matrix) -> Iterator[Reason]:
    """Return what is known about a subject on Windows; rows are for Linux, and WSL is Linux except for the driver."""
    if facts.taken or not on_windows(facts):
        return
    by_driver = any("nvidia-driver" in {one.from_, one.to} and one.kind == "cuda" for one in held)
    if facts.host.wsl:
        if subject.component == "nvidia-driver":
            release = DriverRelease.parse(subject.version)
            shipped = [one for one in toolkits.releases(matrix) if one.windows and release and one.windows <= release]
            cuda = max((one.cuda for one in shipped), default=None)
            runs = f" {subject.version} runs CUDA up to {cuda}." if cuda else ""
            said = f"In WSL the driver is that of Windows, and none is installed in its Linux.{runs}"
            yield Reason(text=said, verdict=Compatibility.COMPATIBLE if cuda else Compatibility.UNKNOWN)
        elif subject.component in GROUND and not by_driver:
            yield _unknown(subject, "WSL")
    elif subject.component == "pytorch":
        said = f"PyTorch's own index offers {subject.words} for Windows."
        yield Reason(text=said, verdict=Compatibility.COMPATIBLE)
    elif (
        subject.component == "tensorflow"
        and frameworks.tensorflow_gpu_on(matrix, subject.version or "", "windows") is not None
    ) or any(one.kind == "platform" and one.found == "Windows" for one in held):
        return
    elif not (by_driver and subject.component in {"cuda-toolkit", "nvidia-driver"}):
        yield _unknown(subject, "Windows")


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
