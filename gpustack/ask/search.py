"""A question that was understood: what is asked, on what, how it is as it stands, and what else could be tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpustack.ask.why import PSEUDO, judge
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.diagnose.machine.values import copies, text, told
from gpustack.matrix.subjects import frameworks, gpus, torch
from gpustack.model.matrix_answer import Compatibility
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.ask.subjects import Subject
    from gpustack.ask.why import Judged
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


RANK = {Compatibility.COMPATIBLE: 2, Compatibility.LIMITED: 1}
UNSERVED = frozenset({("jax", "cuda11")})  # builds that no index serves under a name of theirs
MAKERS = {"amd-gpu": "rocm", "intel-gpu": "xpu"}
FORWARD = frozenset({"datacenter", "embedded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is being asked, on what; ``at`` is how it is as it stands, ``versions`` how many other releases to offer.

    ``given`` is what was given in words, ``ways`` how it is to be installed or run, and ``strange`` what was typed
    beside it of which nothing is known.
    """

    subject: Subject
    at: Judged
    others: tuple[Subject, ...]
    facts: Facts
    matrix: Matrix
    versions: int = 1
    given: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()

    def better(self, subject: Subject, facts: Facts | None = None) -> Judged | None:
        """Return how a changed question is answered, where that is better than the question as it stands.

        What was wrong must be judged again: that no row covers it any more makes nothing better.
        """
        found = judge(subject, facts or self.facts, self.matrix)
        broken = (one for one in self.at.contracts if one.status is not Kept.OK)
        wrong = {end for one in broken for end in (one.from_, one.to)} - PSEUDO
        judged = {end for one in found.contracts for end in (one.from_, one.to)}
        if (subject.component, found.subject.tag) in UNSERVED:
            return None
        return found if rank(found) > rank(self.at) and wrong <= judged and not _by_ptx_alone(found) else None


def _by_ptx_alone(found: Judged) -> bool:
    """Return whether a build has no machine code for the GPU: it starts, but the doctor advises no such build."""
    made = {"pytorch", "tensorflow"}
    codes = (one for one in found.contracts if one.from_ in made and one.kind == "architecture")
    return any(one.status is Kept.LIMITED and one.needs.startswith("code for") for one in codes)


def rank(judged: Judged) -> int:
    """Return how well something works: two where it does, one with limits, zero where it does not or nobody knows."""
    return RANK.get(judged.verdict, 0)


def builds_of(subject: Subject, search: Search) -> tuple[Subject, ...]:
    """Return the builds of a release for the maker of the GPU, the newest CUDA or ROCm first."""
    if subject.component == "jax" and subject.version:
        release = frameworks.jax_of(search.matrix, subject.version)
        tags = [f"cuda{major}" for major in release.cuda] if release else []
    elif subject.component == "pytorch" and subject.version:
        maker = "cuda" if capabilities(search.facts) else _maker(search.facts)
        builds = torch.builds_of(search.matrix, subject.version, platform(search.facts) or "")
        tags = [one.tag for one in builds if one.accelerator == maker]
    else:
        tags = []
    return tuple(replace(subject, tag=tag) for tag in reversed(dict.fromkeys(tags)) if tag != subject.tag)


def _maker(facts: Facts) -> str:
    return next((kind for gpu, kind in MAKERS.items() if copies(facts, gpu)), "cuda")


def may_forward(search: Search) -> bool:
    """Return whether a compat package may run here: the GPU is of a class that it is made for, or nobody named one."""
    kind = gpus.class_of(search.matrix, text(told(search.facts, "gpu"), "name") or "")
    if kind:
        return kind in FORWARD
    made_for = {one.capability for one in gpus.product_lines(search.matrix) if one.kind in FORWARD}
    return all(gpu in made_for for gpu in capabilities(search.facts))


def wanted_cuda(search: Search) -> CudaVersion | None:
    """Return the CUDA version that the subject needs of a driver, where that is what does not fit."""
    for one in search.at.contracts:
        if one.kind == "cuda" and one.to == "nvidia-driver" and one.status in {Kept.BROKEN, Kept.LIMITED}:
            return CudaVersion.parse(one.needs.partition("CUDA ")[2])
    return None
