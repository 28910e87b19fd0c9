"""A question as understood: the subject, the machine, the answer without changes, and what else could be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.ask import commands
from gpustack.ask.releases import candidates
from gpustack.ask.why import PSEUDO, Judged, judge
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.diagnose.machine.values import copies, text, told
from gpustack.diagnose.requirements.serving import FORWARD
from gpustack.matrix.subjects import frameworks, generated, gpus, toolkits, torch
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model import record, replace
from gpustack.model.matrix_answer import Compatibility
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.ask.releases import Candidate
    from gpustack.ask.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


RANK = {Compatibility.COMPATIBLE: 2, Compatibility.LIMITED: 1}
UNSERVED = frozenset({("jax", "cuda11")})  # builds that no index serves under their own name
MAKERS = {"amd-gpu": "rocm", "intel-gpu": "xpu"}


@record
class Search:
    """The subject and the machine; ``at`` is the answer without changes, ``versions`` how many other releases to offer.

    ``given`` is what was given in words, ``ways`` how it is installed or run, and ``strange`` the typed words that
    nothing is known about.
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
        """Return the answer to a changed question, if it is better than that to the original.

        Whatever was wrong must be judged again: losing the row that covers it is not an improvement.
        """
        found = judge(subject, facts or self.facts, self.matrix)
        broken = (one for one in self.at.contracts if one.status is not Kept.OK)
        wrong = {end for one in broken for end in (one.from_, one.to)} - PSEUDO
        judged = {end for one in found.contracts for end in (one.from_, one.to)}
        if (subject.component, found.subject.tag) in UNSERVED or (facts is None and _unpulled(subject, self.matrix)):
            return None
        return found if rank(found) > rank(self.at) and wrong <= judged and not _by_ptx_alone(found) else None


def _unpulled(subject: Subject, matrix: Matrix) -> bool:
    """Return whether a subject is an image that is not known to exist."""
    known = (one.tag(subject.name, subject.tag or "") for one in toolkits.months(matrix))
    return subject.component == "image" and subject.words not in known


def _by_ptx_alone(found: Judged) -> bool:
    """Return whether a build has no machine code for the GPU: it starts, but the doctor does not recommend it."""
    made = {"pytorch", "tensorflow"}
    codes = (one for one in found.contracts if one.from_ in made and one.kind == "architecture")
    return any(one.status is Kept.LIMITED and one.needs.startswith("code for") for one in codes)


def rank(judged: Judged) -> int:
    """Return how well something works: two if it does, one with limits, zero if it does not or is unknown."""
    return RANK.get(judged.verdict, 0)


def builds_of(subject: Subject, search: Search) -> tuple[Subject, ...]:
    """Return the builds of a release for the GPU's vendor, the newest CUDA or ROCm first."""
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


def rows(search: Search) -> list[Candidate]:
    """Return the releases of the subject in the range that was asked for."""
    span = VersionRange.parse(search.subject.span)
    return [one for one in candidates(search.matrix, search.subject.component) if span.holds(one.version)]


def by_distance(search: Search) -> list[Candidate]:
    """Return its other releases, those nearest to the one that was asked for first; of a range the newest first."""
    known, version = rows(search), search.at.subject.version or ""
    here = version_of(version)
    ended = lasting(search) is not search.subject
    others = [one for one in known if ended or version_of(one.version) != here]
    if search.subject.component == "nvidia-driver":
        others = [one for one in others if commands.is_supported(one.version, search.facts, search.matrix)]
    if not search.subject.exact or here is None:
        return others[::-1]
    newer = [one for one in others if (found := version_of(one.version)) and found >= here]
    older = [one for one in others if one not in newer][::-1]
    pairs = [(place, 0, one) for place, one in enumerate(newer)] + [(place, 1, one) for place, one in enumerate(older)]
    return [one for _, _, one in sorted(pairs, key=lambda pair: pair[:2])]


def lasting(search: Search) -> Subject:
    """Return the subject; of a distribution that was given up for another, that one."""
    subject = search.subject
    gone = generated.unserved(search.matrix, subject.name, search.at.subject.version or "")
    main = generated.DISTRIBUTIONS.get(subject.component, (subject.component,))[0]
    return replace(subject, name=main) if gone and gone.stops else subject


def _maker(facts: Facts) -> str:
    return next((kind for gpu, kind in MAKERS.items() if copies(facts, gpu)), "cuda")


def may_forward(search: Search) -> bool:
    """Return whether a compat package may run here: it supports the GPU's class, or no GPU was named."""
    kind = gpus.class_of(search.matrix, text(told(search.facts, "gpu"), "name") or "")
    if kind:
        return kind in FORWARD
    made_for = {one.capability for one in gpus.product_lines(search.matrix) if one.kind in FORWARD}
    return all(gpu in made_for for gpu in capabilities(search.facts))


def wanted_cuda(search: Search) -> CudaVersion | None:
    """Return the CUDA version that the subject requires from the driver, if that is the conflict."""
    for one in search.at.contracts:
        if one.kind == "cuda" and one.to == "nvidia-driver" and one.status in {Kept.BROKEN, Kept.LIMITED}:
            return CudaVersion.parse(one.needs.partition("CUDA ")[2])
    return None
