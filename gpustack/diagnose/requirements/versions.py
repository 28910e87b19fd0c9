"""Requirements on versions and builds: what each thing needs of another; each broken one has its finding.

What a person names side by side is judged like a question, if nothing else was found to be wrong. A text says which
things there are, but seldom which are used together; so only pairs are compared that have no other reason to be named,
and never what a tool listed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes, wheels
from gpustack.diagnose.change_sets import COMPONENTS, FAMILY
from gpustack.diagnose.machine.events import heard
from gpustack.diagnose.machine.inventory import from_text, gpus
from gpustack.diagnose.machine.values import because, table, told, version
from gpustack.diagnose.requirements import (
    extensions,
    frameworks,
    host,
    libraries,
    makers,
    python,
    question,
    records,
    serving,
)
from gpustack.diagnose.requirements.fits import GIVEN
from gpustack.diagnose.requirements.records import Pair, pairs
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import NAME, Command, sh, step
from gpustack.model.facts import Component, Facts, Instance, product
from gpustack.model.report import Because, Confidence, Contract, Finding, Kept, Purpose, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpustack.matrix import Matrix

ROOMS = (
    host.kernel_draw,
    host.driver_draw,
    host.gpu_draw,
    makers.amd_draw,
    makers.intel_draw,
    libraries.runtime_draw,
    libraries.library_draw,
    frameworks.draw,
    python.draw,
    extensions.extension_draw,
    libraries.compiler_draw,
    serving.draw,
    serving.image_draw,
    extensions.combination_draw,
    question.draw,
)


def draw(facts: Facts, matrix: Matrix) -> tuple[Contract, ...]:
    """Return every requirement whose two ends are known, bottom layer first, each once."""
    drawn = (contract for drawn_by in ROOMS for contract in drawn_by(facts, matrix))
    return tuple({(one.from_, one.to, one.kind, one.needs, one.found, one.environment): one for one in drawn}.values())


IN_WORDS = "(in words)"  # how the source of what people wrote themselves ends
COMPILERS = frozenset({"gcc", "clang"})  # whose version reads the same in words and as they print it
WELL = ("fine-said", "cuda-works-said")
GPUS = frozenset({"gpu", "amd-gpu", "intel-gpu"})
DRIVER, UNUSED = "cuda", ("cuda-available-false", "no-device", "gpu-unused-said", "cuda-fails-said")
KINDS = frozenset({"accelerator", "architecture", "host-compiler", "python", "toolkit"})


def in_words(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Yield each broken requirement between two things that a text names only in words, one of each."""
    alone = {one.id for one in facts.components if _is_one(one)}
    named = {one.id for one in facts.components if one.source.endswith(IN_WORDS)} & alone
    if len(alone & GPUS) > 1 or heard(facts, *WELL):
        return
    question = replace(facts, components=tuple(_asked(one) if one.id in named else one for one in facts.components))
    kinds = KINDS | ({DRIVER} if heard(facts, *UNUSED) else set())  # the build that pip takes, where CUDA fails
    for one in draw(question, matrix):
        if one.status is Kept.BROKEN and one.kind in kinds and {one.from_, one.to} <= named | (COMPILERS & alone):
            yield one


def _is_one(component: Component) -> bool:
    copies = component.instances
    return bool(copies) and all(_what(copy) == _what(copies[0]) for copy in copies)


def _what(copy: Instance) -> tuple[object, ...]:
    return copy.version, copy.build, copy.facts.get("name")


def _asked(component: Component) -> Component:
    copies = tuple(replace(copy, facts={**copy.facts, GIVEN: True}) for copy in component.instances)
    return replace(component, instances=copies)


BOUND = {"pytorch", *(COMPONENTS.get(name, name) for name in FAMILY)}  # what one set of changes covers
LACKING = "gpu-feature-unsupported"  # by the GPU: no other release of a package helps
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
OWN = {"{headers}": fixes.headers, "{reinstall}": fixes.reinstall}  # commands of this distribution


def pair(contract: Contract) -> Pair:
    """Return how a broken requirement is reported."""
    if contract.kind == "cuda" and contract.from_ == "cuda-toolkit":
        return replace(pairs()["cuda"], building=True, severity=Severity.WARNING)
    named = (
        *(f"{contract.kind} {contract.to}", f"{contract.from_} {contract.kind}"),
        *(f"{contract.kind} {contract.found}", contract.kind, "other"),
    )
    return next(pairs()[name] for name in named if name in pairs())


def saying(contract: Contract, findings: Iterable[Finding]) -> Finding | None:
    """Return the finding about a broken requirement, preferably for its Python and component."""
    how = pair(contract)
    ids = (how.finding, *how.said_by)
    fitting = [one for one in findings if one.id in ids or (contract.row and one.row == contract.row)]
    if contract.environment:
        near = [one for one in fitting if contract.environment in (one.instance or "")]
        fitting = near or [one for one in fitting if ":/" not in (one.instance or "")]

    def rank(one: Finding) -> tuple[bool, bool, int]:
        return one.severity not in AT_FAULT, not _about(contract, one), ids.index(one.id) if one.id in ids else len(ids)

    return min(fitting, key=rank, default=None)


def tied(contracts: Sequence[Contract], findings: Sequence[Finding]) -> Iterator[Contract]:
    """Yield contracts, each broken one with the key of the finding that says so.

    One that only a remark speaks of is limited. One that would only hurt some, or was not sure, is broken where a
    finding of its own kind says so that no broken requirement accounts for.
    """
    open_ = (one for one in contracts if not one.finding and one.status is not Kept.OK)
    said = {id(one): found for one in open_ if (found := saying(one, findings))}
    known = {said[id(one)].key for one in contracts if one.status is Kept.BROKEN and id(one) in said}
    for one in contracts:
        found, broken = said.get(id(one)), one.status is Kept.BROKEN
        if found is None or not (broken or _says_itself(one, found, known)):
            yield one
        elif found.severity not in AT_FAULT:
            yield replace(one, status=Kept.LIMITED) if broken else one
        else:
            yield replace(one, status=Kept.BROKEN, finding=found.key)


def _says_itself(contract: Contract, finding: Finding, known: set[str]) -> bool:
    return finding.key not in known and finding.id == pair(contract).finding and _about(contract, finding)


def _about(contract: Contract, finding: Finding) -> bool:
    return contract.from_ in {finding.component, (finding.instance or "").partition(":")[0]}


def spoken(findings: Iterable[Finding], contracts: Iterable[Contract]) -> Iterator[Contract]:
    """Yield the requirement of each finding that rests only on words, so that nothing was compared."""
    drawn, known = {one.finding for one in contracts}, records.spoken()
    for one in findings:
        record = records.by_id().get(one.id)
        ends = known.get(one.id) or ((record.component, record.component, "state") if record else None)
        if ends is None or one.severity not in AT_FAULT or one.key in drawn:
            continue
        name, _, place = (one.instance or "").partition(":/")
        from_ = next((end for end in (place and name, one.component) if end and end != ends[1]), ends[0])
        seen = next((str(why.value) for why in one.because if why.value is not None), "as a program says")
        yield Contract(
            from_=from_,
            to=ends[1],
            kind=ends[2],
            needs=one.title,
            found=" ".join(seen.split())[:120],
            status=Kept.BROKEN,
            row=one.row,
            environment=f"/{place}" if place else None,
            finding=one.key,
        )


def findings(
    contracts: Iterable[Contract], known: Sequence[Finding], facts: Facts, matrix: Matrix, purpose: Purpose
) -> Iterator[Finding]:
    """Yield what no rule reports: one finding for all broken requirements of one kind on one thing."""
    groups: dict[str, list[Contract]] = {}
    for one in contracts:
        builds = purpose is Purpose.BUILD and one.status is Kept.LIMITED and pair(one).building
        if (one.status is Kept.BROKEN or builds) and saying(one, known) is None:
            how = pair(one)
            mark = "" if how.whole else f"{one.from_}:{one.environment}" if one.environment else one.from_
            groups.setdefault(f"{how.finding}@{mark}", []).append(one)
    for key, group in groups.items():
        yield _finding(group, key.partition("@")[2] or None, facts, matrix)


def _finding(group: Sequence[Contract], instance: str | None, facts: Facts, matrix: Matrix) -> Finding:
    first, how = group[0], pair(group[0])
    words = [_title(one, _name(one, facts, matrix), facts) for one in group]
    light = from_text(facts) and all(map(_near, group))  # its effect was not observed
    verify = sh("gpustack doctor")
    month = serving.other_image(facts, matrix) if first.from_ == "image" else None
    bound = how.finding != LACKING and not how.driver and not {first.from_, first.to}.isdisjoint(BOUND)
    fix = wheels.together(facts, matrix, first.environment, verify) if bound else None
    if month and not fix:
        fix = fixes.advice(month[0], *month[1], verify=verify)
    elif how.driver:
        fix = fixes.change_driver(facts, matrix, how.remedy)
    return Finding(
        id=how.finding,
        instance=instance,
        severity=Severity.INFO if light else how.severity,
        layer=how.layer,
        component=how.component or first.from_,
        title=words[0][:190],
        detail=" ".join(f"{one}." for one in words[1:]),
        because=tuple(dict.fromkeys(ground for one in group for ground in _grounds(one, facts))),
        row=first.row,
        fix=fix or fixes.advice(how.remedy, *_commands(first, how, facts), verify=verify),
        confidence=Confidence.LIKELY if from_text(facts) else Confidence.CERTAIN,
    )


def _title(contract: Contract, name: str, facts: Facts) -> str:
    """Return the problem in plain words: the thing, what it requires, and what is here."""
    wanted, found = contract.needs, contract.found
    code = re.fullmatch(r"code for ((?:sm_|gfx)\w+)", wanted)
    if code:
        here = [one.name for one in gpus(facts) if one.capability and one.capability.sm == code[1]]
        return f"{name} has no code for the {here[0] if here else 'GPU'} ({code[1]}): it has {found}"
    if wanted.startswith("no "):
        return f"{name} does not work with {found}"
    return f"{name} requires {wanted}; this machine has {found}"


def _commands(contract: Contract, how: Pair, facts: Facts) -> tuple[Command, ...]:
    if not how.commands:
        return (step("`gpustack matrix plan {subject}` lists the releases", subject=NAME(contract.from_)),)
    return tuple(OWN[one](facts) if one in OWN else records.typed(one, None) for one in how.commands)


def _name(contract: Contract, facts: Facts, matrix: Matrix) -> str:
    """Return the name and version of what has a requirement; for GPUs, those that the row describes."""
    if contract.from_ == "image":
        return f"The image {serving.image(facts)}"
    if contract.from_ != "gpu":
        several = table(told(facts, "onnxruntime"), "distributions") if contract.from_ == "onnxruntime" else {}
        called = next((name for name in several if name.endswith("-gpu")), contract.from_)
        return f"{product(called)} {version(facts, contract.from_) or ''}".strip()
    names: dict[str, bool] = {}
    for gpu in gpus(facts):
        arch = matrix.arch(gpu.capability) if gpu.capability else None
        span = matrix.span(arch.name.partition(" ")[0]) if arch else None
        if gpu.name:
            names[gpu.name] = contract.row in {one.row for one in (arch, span) if one}
    return ", ".join([name for name, about in names.items() if about] or names) or "The GPU"


def _near(contract: Contract) -> bool:
    """Return whether a version differs from the pinned one only in its last number."""
    wanted, found = (numbers(said.rpartition(" ")[2].lstrip("=")) for said in (contract.needs, contract.found))
    return "==" in contract.needs and len(wanted) > len(wanted[:2]) and wanted[:2] == found[:2]


def _grounds(contract: Contract, facts: Facts) -> Iterator[Because]:
    """Yield the versions of both ends as far as they are known, else what was found."""
    held = [one for one in (because(facts, end, "version") for end in (contract.from_, contract.to)) if one.value]
    yield from held
    if len(held) < 2:  # noqa: PLR2004 - one end has no version
        yield Because(component=contract.to, fact=contract.kind, value=contract.found, source="")
