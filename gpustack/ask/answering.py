"""The complete answer to one question: what was meant, whether it works, why, and what else would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.ask.given import apply, is_given, newest, put, where
from gpustack.ask.ground import not_taken, suited, weighed
from gpustack.ask.plan import alternatives, as_it_is
from gpustack.ask.search import Search
from gpustack.ask.subjects import install, parse, resolve
from gpustack.ask.why import judge
from gpustack.ask.words import understood
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.requirements.python import ON_ARM
from gpustack.errors import UsageError
from gpustack.matrix.subjects import generated
from gpustack.matrix.subjects.torch import LINUX
from gpustack.model.matrix_answer import Compatibility, MatrixAnswer, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.ask.given import Given
    from gpustack.ask.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.matrix_answer import Alternative

STRANGE = (
    "Nothing is known about {!r} in that question: the matrix knows GPUs, drivers, toolkits, frameworks and servers by"
    " their versions. It does not say whether a model fits into a GPU's memory."
)
PLANNED = 4  # other releases besides the one in question


def why(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix) -> MatrixAnswer:
    """Return whether the first subject works with the others and the given machine, and what would work instead."""
    asked = search(texts, given, facts, matrix, versions=1)
    return _answer(asked, alternatives(asked))


def plan(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix) -> MatrixAnswer:
    """Return what satisfies a requirement on the given machine, the smallest change first."""
    asked = search(texts, given, facts, matrix, versions=PLANNED)
    return _answer(asked, (*as_it_is(asked), *alternatives(asked)))


def search(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix, versions: int) -> Search:
    """Return the question as understood: the subject judged on the given machine, and what else to try."""
    asked = understood(texts, matrix)
    typed = [parse(text, matrix) for text in asked.subjects]
    if not typed:
        raise UsageError("say what to ask about, such as torch==2.11.0")
    given = replace(given, os=given.os or asked.os, machine=given.machine or asked.machine)
    given = replace(given, ways=" ".join(asked.ways) or given.ways)
    machine = apply(given, facts, matrix)
    system = _system(typed, machine, matrix)
    first, *others = _apart([_released(resolve(one, system, matrix), machine, matrix) for one in typed])
    twice = next((one.typed for one in others if one.component == first.component), None)
    if twice:
        raise UsageError(f"{first.typed} and {twice} are the same thing: ask about one release at a time")
    for one in others:
        if is_given(machine, one.component):
            raise UsageError(f"{one.typed} and an option give different values for {one.component}: give one of them")
        machine = put(machine, install(one, where(machine), matrix))
    return Search(
        subject=first,
        at=judge(first, machine, matrix),
        others=tuple(others),
        facts=machine,
        matrix=matrix,
        versions=versions,
        given=given.words,
        ways=tuple((given.ways or "").split()),
        strange=asked.strange,
    )


def _apart(subjects: Sequence[Subject]) -> Iterator[Subject]:
    """Yield the subjects in question; a further part of one thing, such as jaxlib with jax, under its own name."""
    usual: dict[str, str] = {}
    for one in sorted(subjects, key=lambda one: one.name != one.component):
        usual.setdefault(one.component, one.name)
    for one in subjects:
        part = generated.parted(usual[one.component], one.name)
        yield replace(one, component=one.name) if part else one


def _system(typed: Sequence[Subject], facts: Facts, matrix: Matrix) -> str:
    """Return the platform that builds are chosen for: that of the processor given or implied by a GPU."""
    for one in typed:
        facts = put(facts, install(one, None, matrix)) if one.component == "gpu" else facts
    return ON_ARM if platform(complete(facts, matrix)) == ON_ARM else LINUX


def _released(subject: Subject, facts: Facts, matrix: Matrix) -> Subject:
    """Return a driver typed as a branch alone as its newest release, as ``--driver`` takes it."""
    if subject.component != "nvidia-driver" or not subject.version:
        return subject
    return replace(subject, version=newest(subject.version, f"{subject.name}==", facts, matrix))


def _answer(search: Search, found: tuple[Alternative, ...]) -> MatrixAnswer:
    others, verdict, reasons = tuple(one.words for one in search.others), search.at.verdict, search.at.reasons
    if search.strange:
        reasons = (Reason(text=STRANGE.format(" ".join(search.strange)), verdict=Compatibility.UNKNOWN), *reasons)
        verdict = verdict if verdict is Compatibility.INCOMPATIBLE else Compatibility.UNKNOWN
    here = () if not search.facts.taken else ("what is on this machine",)
    return MatrixAnswer(
        subject=search.subject.typed.strip(),
        meant=_meant(search.at.subject, search.subject, platform(search.facts)),
        given=(*search.given, *others, *here),
        verdict=verdict,
        reasons=reasons,
        alternatives=tuple(suited(one, search.ways) for one in weighed(found)),
        not_taken=tuple(not_taken(search, found)),
    )


def _meant(subject: Subject, asked: Subject, system: str | None) -> str:
    """Return how a subject was understood, and the build chosen for it."""
    if subject.component == "jax" and subject.tag and not asked.tag:
        return f"{subject.words}: with its plugin; a plain install computes on the CPU"
    plain = subject.component == "pytorch" and "+" not in subject.typed and subject.tag
    if plain and system == "windows":
        return f"{subject.words}: from PyTorch's own index; a plain pip install takes the build for the CPU"
    where = "aarch64" if system == ON_ARM else "x86-64"
    return f"{subject.words}: the build that a plain pip install takes on Linux {where}" if plain else subject.words
