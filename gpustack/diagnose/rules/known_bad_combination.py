"""A combination of versions that is known to go wrong: wrong results, a crash, a hang, or much time or memory lost.

Its makers, or people who measured it, have said so; the row names the source. Where it goes wrong only under a
condition that no version shows, this is a remark: see whether the condition is yours. Otherwise change one of the
versions as advised; wrong results are the worst of these, since nothing else tells of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.alone import each, inside
from gpustack.diagnose.rules.reading import copies, table, text, told
from gpustack.diagnose.rules.seen import capabilities, from_text, gpus
from gpustack.matrix.subjects import known_bad
from gpustack.model.command import NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.known_bad import KnownBad
    from gpustack.model.facts import Facts

WORDS = {
    "wrong-results": "is known to give wrong results",
    "crash": "is known to fail",
    "hang": "is known to hang",
    "slow": "is known to cost much time or memory",
    "leak": "is known to lose memory",
}
GRAVE = frozenset({"wrong-results", "crash", "hang"})
DISTRIBUTIONS = {"flash-attn": "flash-attention", "torch": "pytorch"}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each known combination that this machine has, by the versions in use; of other Pythons by their own."""
    chosen, *others = each(facts)
    found = tuple(_found(chosen, matrix))
    yield from found
    for view in others:
        python = view.environments[0].python
        own = _own(view, python)
        for finding in _found(view, matrix):
            if finding not in found and any(one.component in own for one in finding.because):
                yield inside(finding, python)


def _own(facts: Facts, python: str) -> frozenset[str]:
    """Give what lies in this Python itself: the machine's own libraries are judged with the chosen one."""
    packages = table(told(facts, "packages"), "distributions")
    named = (DISTRIBUTIONS.get(name, name) for name in packages)
    held = (one.id for one in facts.components if any(copy.environment == python for copy in one.instances))
    return frozenset((*named, *held))


def _found(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give what one Python and the machine have."""
    versions = versions_of(facts)
    if not versions:
        return
    gfx = tuple(name for copy in copies(facts, "amd-gpu") if (name := text(copy.facts, "gfx")))
    count = len(gpus(facts)) or len(gfx)
    here = capabilities(facts)
    for one in known_bad.matching(matrix, versions, here, gfx, count, architecture=facts.host.machine):
        yield _finding(one, versions, facts)


def versions_of(facts: Facts) -> Mapping[str, str]:
    """Give the version in use of each component and package, where one is known."""
    packages = table(told(facts, "packages"), "distributions")
    named = {DISTRIBUTIONS.get(name, name): held for name, held in packages.items() if isinstance(held, str)}
    used = {one.id: told(facts, one.id).get("version") for one in facts.components}
    return {**named, **{name: held for name, held in used.items() if isinstance(held, str)}}


def _finding(one: KnownBad, versions: Mapping[str, str], facts: Facts) -> Finding:
    proven = one.proof is known_bad.Proof.PROJECT
    certain = not one.when and one.effect.value in GRAVE and proven and not from_text(facts)
    seen = facts.find(one.component)
    pair = " with ".join(f"{name} {versions[name]}" for name in (one.component, *one.partners))
    return Finding(
        id="known-bad-combination",
        instance=one.id,
        severity=Severity.WARNING if certain else Severity.INFO,
        layer=seen.layer if seen else Layer.LIBRARY,
        component=one.component,
        title=f"{pair} {WORDS[one.effect.value]}{f' where {one.when}' if one.when else ''}",
        detail=f"{one.what[:1].upper()}{one.what[1:]}.",
        because=tuple(
            Because(component=name, fact="version", value=versions[name], source=_source(name, facts))
            for name in (one.component, *one.partners)
        ),
        row=one.row,
        fix=Fix(
            text=one.advice,
            commands=(sh("gpustack matrix show {subject}", subject=NAME(one.component)),),
            verify=sh("gpustack doctor"),
        ),
        confidence=Confidence.LIKELY if proven else Confidence.POSSIBLE,
    )


def _source(name: str, facts: Facts) -> str:
    seen = facts.find(name) or facts.find("packages")
    return seen.source if seen else ""
