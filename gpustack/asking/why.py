"""Why something works with what is given, or does not: the contracts of which one end is the subject."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpustack.asking.given import put
from gpustack.asking.installed import install, offered
from gpustack.asking.releases import known
from gpustack.model.matrix_answer import Compatibility, Reason
from gpustack.model.report import Kept
from gpustack.rules.completing import complete, platform
from gpustack.rules.contracts import draw
from gpustack.rules.seen import nvidia_here
from gpustack.subjects import jax

if TYPE_CHECKING:
    from gpustack.asking.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract

VERDICTS = {
    Kept.OK: Compatibility.COMPATIBLE,
    Kept.LIMITED: Compatibility.LIMITED,
    Kept.BROKEN: Compatibility.INCOMPATIBLE,
    Kept.UNKNOWN: Compatibility.UNKNOWN,
}
WORST = (Compatibility.INCOMPATIBLE, Compatibility.UNKNOWN, Compatibility.LIMITED, Compatibility.COMPATIBLE)
NAMES = {
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "onnxruntime": "ONNX Runtime",
    "vllm": "vLLM",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "tensorrt": "TensorRT",
    "cuda-toolkit": "the CUDA toolkit",
    "nvidia-driver": "the driver",
    "gpu": "the GPU",
    "amd-gpu": "the GPU",
    "nvidia.ko": "the kernel module",
    "linux-kernel": "the kernel",
    "flash-attention": "flash-attn",
}
ALSO = {"gpu": ("amd-gpu",), "nvidia-driver": ("nvidia.ko",)}
DEVICES = frozenset({"gpu", "amd-gpu", "nvidia-driver"})
PSEUDO = frozenset({"windows"})
CODE, UNREAD = "code for", "code list not seen"
MINOR_VERSION = (
    " It works by minor-version compatibility, with limits: PTX of a newer CUDA than the driver's is refused, and so is"
    " a call that needs newer driver code."
)
BY_PTX = " It has PTX alone for this GPU, which the driver compiles at the first start: slow to begin with."
BY_PIP = " No wheel is ready for that: pip compiles it, which needs nvcc and much time."


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of judging a subject: the subject with its version and build, the verdict, reasons and contracts."""

    subject: Subject
    verdict: Compatibility
    reasons: tuple[Reason, ...]
    contracts: tuple[Contract, ...] = ()
    facts: Facts


def judge(subject: Subject, others: tuple[Subject, ...], facts: Facts, matrix: Matrix) -> Judged:
    """Give how a resolved subject goes with the facts and the other subjects; of a JAX its best build counts."""
    tries = [_judge(one, others, facts, matrix) for one in _builds(subject, matrix)]
    return max(tries, key=lambda one: WORST.index(one.verdict))


def _builds(subject: Subject, matrix: Matrix) -> tuple[Subject, ...]:
    """Give the builds that a subject may mean: JAX has one for each CUDA major, and its name tells none."""
    if subject.component != "jax" or subject.tag or not known(matrix, "jax", subject.version or ""):
        return (subject,)
    release = jax.release_of(matrix, subject.version or "")
    majors = sorted(release.cuda, reverse=True) if release else ()
    return tuple(replace(subject, tag=f"cuda{major}") for major in majors) or (subject,)


def _judge(subject: Subject, others: tuple[Subject, ...], facts: Facts, matrix: Matrix) -> Judged:
    where = facts.environments[0].python if facts.environments else None
    machine = facts
    for one in (*others, subject):
        machine = put(machine, install(one, where, matrix))
    machine = complete(machine, matrix)
    ends = {subject.component, *ALSO.get(subject.component, ())}
    drawn = (one for one in draw(machine, matrix) if one.environment in {None, where})
    own = tuple(one for one in drawn if {one.from_, one.to} & ends and _both_given(one, machine))
    verdict, reasons = _concluded(subject, own, machine, matrix)
    return Judged(subject=subject, verdict=verdict, reasons=reasons, contracts=own, facts=machine)


def _both_given(contract: Contract, facts: Facts) -> bool:
    """Tell whether both ends of a contract are among the facts: what was not given decides nothing."""
    return all(end in PSEUDO or facts.find(end) is not None for end in (contract.from_, contract.to))


def _concluded(
    subject: Subject, own: tuple[Contract, ...], facts: Facts, matrix: Matrix
) -> tuple[Compatibility, tuple[Reason, ...]]:
    reasons = tuple(sorted((_reason(one, subject, facts) for one in own), key=lambda one: WORST.index(one.verdict)))
    unknown = _unknown(subject, facts, matrix)
    if unknown:
        return Compatibility.UNKNOWN, (unknown, *reasons)
    unseen = _unseen(subject, own, facts)
    if unseen:
        reasons = tuple(sorted((*reasons, unseen), key=lambda one: WORST.index(one.verdict)))
    if reasons:
        return reasons[0].verdict, reasons
    text = f"No row of the matrix makes {subject.words} depend on what was given."
    return Compatibility.COMPATIBLE, (Reason(text=text, verdict=Compatibility.COMPATIBLE),)


def _unseen(subject: Subject, own: tuple[Contract, ...], facts: Facts) -> Reason | None:
    """Give that a machine which was looked at shows no GPU and no driver, for what wants one."""
    wants = facts.taken and subject.tag != "cpu" and not any(one.to in DEVICES for one in own)
    if not wants or nvidia_here(facts) or subject.component in {"gcc", "clang", "python", "linux-kernel"}:
        return None
    text = "No NVIDIA GPU and no driver was seen on this machine: whether it would run on one cannot be said."
    return Reason(text=text, verdict=Compatibility.UNKNOWN)


def _unknown(subject: Subject, facts: Facts, matrix: Matrix) -> Reason | None:
    """Give why nothing can be said of a subject; None where the matrix knows it."""
    if not subject.version:
        span = f" in {subject.span}" if subject.span else ""
        text = f"The matrix knows no release of {subject.name}{span}."
    elif not known(matrix, subject.component, subject.version):
        text = f"The matrix has no row for {subject.name} {subject.version}."
    elif not offered(subject, platform(facts) or "", matrix):
        text = f"The matrix knows no build {subject.tag} of {subject.name} {subject.version} for this system."
    else:
        return None
    return Reason(text=text, verdict=Compatibility.UNKNOWN)


def _reason(contract: Contract, subject: Subject, facts: Facts) -> Reason:
    name, row = _named(contract.from_, subject), contract.row
    text = f"{name} needs {contract.needs}; {_found(contract, facts)}.{_more(contract)}"
    text = f"T{text[1:]}" if text.startswith("the ") else text
    return Reason(text=text, verdict=VERDICTS[contract.status], row=row, source=row.source if row else "")


def _named(component: str, subject: Subject) -> str:
    if component != subject.component:
        return NAMES.get(component, component)
    version = f" {subject.version}" if subject.version and component not in {"gpu", "amd-gpu"} else ""
    return f"{NAMES.get(component, component)}{version}" + (f" ({subject.tag})" if subject.tag else "")


def _found(contract: Contract, facts: Facts) -> str:
    if contract.needs.startswith(CODE):
        return f"it has {contract.found}" if contract.found != UNREAD else "its list of code was not read"
    if contract.kind == "accelerator":
        return f"it is {contract.found}"
    return f"{'here' if facts.taken else 'given'} is {contract.found}"


def _more(contract: Contract) -> str:
    """Give the restriction under which it works, or that nobody knows."""
    if contract.status is Kept.UNKNOWN:
        return " No row says whether that is enough."
    if contract.status is not Kept.LIMITED:
        return ""
    if contract.kind == "cuda":
        return MINOR_VERSION
    if contract.kind == "torch":
        return BY_PIP
    if contract.needs.startswith(CODE):
        return BY_PTX
    return f" It works with a limit: {contract.row.text if contract.row else 'see above'}."
