"""What can be explained: findings with their documentation, errors, systems, layers and terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import cleandoc
from typing import TYPE_CHECKING

from gpustack.diagnose import rule
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import serving, toolkits
from gpustack.matrix.subjects.codes import ClockReason, Number, bucket_of, cascades
from gpustack.matrix.subjects.terms import LayerRow, System, Term, layers, leads_of, place_of, systems, terms
from gpustack.model.facts import Layer
from gpustack.model.matrix_answer import Kind, Lead, Meaning

if TYPE_CHECKING:
    from gpustack.matrix.subjects.messages import Pattern
    from gpustack.model.report import Finding
    from gpustack.model.rows import Architecture

DOCS: Mapping[str, Mapping[str, str]] = Matrix().table("findings")["docs"]
BENCH, TRACE = DOCS["bench"], DOCS["trace"]
DOCTOR = ("gpustack doctor",)
CLOCKS = ("nvidia-smi -q -d PERFORMANCE", "gpustack bench")
WEIGHTS = {
    "ok": "It is not a fault.",
    "info": "It is not a fault by itself.",
    "warn": "The GPU is slower than it could be for as long as it lasts.",
    "bad": "The GPU protects itself: something outside the program has to be fixed.",
}
MOST_BEFORE = 6  # Xids that are named as what brings another; of more, none is
ASK = "gpustack doctor, run on the machine, says whether its stack is the cause; if not, the program is."
HERE = "Run the command below on the machine: if the finding applies there, it prints the commands that fix it."
CAPABILITY = ("nvidia-smi --query-gpu=name,compute_cap --format=csv",)


def ids() -> tuple[str, ...]:
    """Return the id of every finding that can be explained, in the order of the rules."""
    return (*rule.ids(), *BENCH, *TRACE)


def text(finding: str) -> tuple[str, ...]:
    """Return the paragraphs of a finding's text, the first its title; none where there is no such finding."""
    said = BENCH.get(finding) or TRACE.get(finding) or rule.explain(finding) or ""
    return tuple(" ".join(part.split()) for part in cleandoc(said).split("\n\n") if part.strip())


def of_finding(finding: str, matrix: Matrix) -> Meaning:
    """Return what a finding means; its text says why it hurts and what to do."""
    title, *says = text(finding)
    place = place_of(matrix, finding)
    return Meaning(
        kind=Kind.FINDING,
        id=finding,
        title=title,
        layer=place.layer if place else None,
        says=tuple(says),
        fix=HERE,
        stands_on=(place.about,) if place and place.about else (),
        see=("gpustack bench",) if finding in BENCH else ("gpustack trace",) if finding in TRACE else DOCTOR,
    )


def of_judged(finding: Finding) -> Meaning:
    """Return what a finding on a pasted line says of the machine that printed it."""
    fix = finding.fix
    return Meaning(
        kind=Kind.FINDING,
        id=finding.id,
        title=finding.title,
        layer=finding.layer,
        says=tuple(one for one in (finding.detail, *text(finding.id)[1:]) if one),
        fix=fix.text if fix else None,
        commands=fix.commands if fix else (),
        stands_on=(finding.component,),
        see=(fix.verify,) if fix and fix.verify else (),
        row=finding.row,
    )


def of_number(number: Number, matrix: Matrix) -> Meaning:
    """Return what a number of a library or of the kernel log means."""
    family = number.family
    says = [f"Also called {' and '.join(number.also)}."] if number.also else []
    lead = leads(leads_of(matrix, family.id, number.number))
    bucket = bucket_of(matrix, number.bucket) if number.bucket else None
    says += [f"NVIDIA's catalogue says {number.bucket}: {bucket}."] if bucket else []
    says += _chain(number.number, matrix) if family.id == "xid" else []
    return Meaning(
        kind=Kind.CODE,
        id=f"{family.id}-{number.number}",
        title=f"{family.title} {number.number}, {number.name}: {number.meaning or 'not yet explained by its vendor'}.",
        layer=number.layer,
        says=tuple(says),
        cause=number.cause,
        fix=number.action or (None if lead else ASK),
        see=family.see,
        findings=lead,
        row=number.row,
    )


def of_clock_reason(one: ClockReason, matrix: Matrix) -> Meaning:
    """Return what it means that the clocks of a GPU are below their maximum for this reason."""
    says = (
        f"A reason for lowered clocks: bit 0x{one.bit:x} of clocks_event_reasons.active of nvidia-smi, "
        f"clocks_throttle_reasons.active in older ones; NVML calls it {one.name}. {WEIGHTS[one.weight]}"
    )
    return Meaning(
        kind=Kind.CODE,
        id=one.name,
        title=f"{one.words or one.name}: {one.meaning}.",
        layer=Layer.HARDWARE,
        says=(says,),
        see=CLOCKS,
        findings=leads(leads_of(matrix, "clocks", one.bit)),
        row=one.row,
    )


def of_message(pattern: Pattern, line: str, matrix: Matrix) -> Meaning:
    """Return what a recognised message means, and the finding that it usually leads to."""
    place = place_of(matrix, pattern.finding) if pattern.finding else None
    return Meaning(
        kind=Kind.MESSAGE,
        id=pattern.kind,
        title=pattern.says,
        layer=place.layer if place else None,
        says=(f"Seen in: {line}",),
        see=DOCTOR,
        findings=leads((pattern.finding,) if pattern.finding else pattern.likely),
        row=pattern.row,
    )


def of_system(system: System, matrix: Matrix) -> Meaning:
    """Return what a system of the stack is for, what it stands on and what stands on it."""
    return replace(_in_stack(Kind.SYSTEM, system.id, system, matrix), says=tuple(_able(system.id, matrix)))


def of_term(term: Term, matrix: Matrix) -> Meaning:
    """Return what a term means, what it stands on and what stands on it."""
    return _in_stack(Kind.TERM, term.name, term, matrix)


def _in_stack(kind: Kind, name: str, one: System | Term, matrix: Matrix) -> Meaning:
    return Meaning(
        kind=kind,
        id=name,
        title=one.role,
        layer=one.layer,
        stands_on=one.stands_on,
        carries=carried(name, matrix),
        see=one.see,
        findings=leads(one.findings),
        row=one.row,
    )


def of_layer(layer: LayerRow, matrix: Matrix) -> Meaning:
    """Return what a layer is for, what is in it, and the layers below and above."""
    stack = [one.layer.value for one in layers(matrix) if not one.beside]
    at = stack.index(layer.layer.value) if not layer.beside else None
    return Meaning(
        kind=Kind.LAYER,
        id=layer.layer.value,
        title=layer.role,
        layer=layer.layer,
        stands_on=() if not at else (f"{stack[at - 1]} layer",),
        carries=() if at is None or at + 1 == len(stack) else (f"{stack[at + 1]} layer",),
        holds=tuple(_inside(layer.layer, matrix)),
        see=layer.see,
        row=layer.row,
    )


def of_image(text: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield what one of NVIDIA's monthly images was made for."""
    parts = toolkits.NGC.fullmatch(text)
    month = toolkits.month_of(matrix, parts["name"], parts["month"], parts["build"]) if parts else None
    if month:
        yield Meaning(
            kind=Kind.TERM,
            id=text,
            title=f"{month}.",
            layer=Layer.CONTAINER,
            stands_on=("nvidia-driver", "gpu"),
            see=("nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv",),
            findings=leads(("arch-not-in-build", "driver-too-old-for-cuda-build", "forward-compat-804")),
            row=month.row,
        )


def of_architecture(one: Architecture) -> Meaning:
    """Return what is known of a GPU architecture: its GPUs, who compiles for it, who runs it."""
    return Meaning(
        kind=Kind.ARCHITECTURE,
        id=f"sm_{one.capability.major}{one.capability.minor}",
        title=f"{one.name}, compute capability {one.capability}: an architecture of NVIDIA's GPUs.",
        layer=Layer.HARDWARE,
        says=tuple(_about(one)),
        stands_on=("gpu",),
        see=CAPABILITY,
        findings=leads(("arch-not-in-build", "arch-by-ptx-only")),
        row=one.row,
    )


def carried(name: str, matrix: Matrix) -> tuple[str, ...]:
    """Return the systems and terms that stand on this one: the inverse of what the rows say."""
    above = [one.id for one in systems(matrix) if name in one.stands_on]
    return (*above, *(one.name for one in terms(matrix) if name in one.stands_on))


def leads(findings: Iterable[str]) -> tuple[Lead, ...]:
    """Return these findings with their texts; one that no rule of this version looks for is left out."""
    told = ((one, text(one)) for one in findings)
    return tuple(Lead(id=one, title=text[0], says=text[1:]) for one, text in told if text)


def _able(system: str, matrix: Matrix) -> Iterator[str]:
    """Yield what a server can do and on which GPUs."""
    known = [one for one in serving.techniques(matrix) if one.component == system]
    if known:
        spans = [one.note if one.note and not one.lowest else one.span for one in known]
        notes = [f"{one.name} ({span})" for one, span in zip(known, spans, strict=True)]
        yield f"What it can do, and on which GPUs: {'; '.join(notes)}. gpustack stack -v shows what applies here."


def _chain(xid: int, matrix: Matrix) -> Iterator[str]:
    """Yield which Xids bring this one, and which it brings, in the seconds between."""
    for one in cascades(matrix):
        before = [number for number in one.first if number != xid]
        if xid in one.then and (before or one.sxid):
            many = len(before) > MOST_BEFORE
            which = "other Xids" if many else f"Xid {_either(before)}" if before else f"SXid {one.sxid}"
            yield f"It may follow {which}, which then come first: {one.why}."
        elif xid in one.first:
            yield f"Xid {_either(one.then)} may follow it: {one.why}."


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, numbers))


def _inside(layer: Layer, matrix: Matrix) -> Iterator[str]:
    yield from (one.id for one in systems(matrix) if one.layer is layer)
    yield from (one.name for one in terms(matrix) if one.layer is layer)


def _about(one: Architecture) -> Iterator[str]:
    if one.gpus:
        yield f"GPUs: {', '.join(one.gpus)}."
    if one.first_toolkit:
        last = f" to {one.last_toolkit}" if one.last_toolkit else " and newer"
        yield f"nvcc supports it in CUDA {one.first_toolkit}{last}."
    if one.first_branch or one.last_branch:
        first = f" from branch {one.first_branch}" if one.first_branch else ""
        last = f" up to branch {one.last_branch}" if one.last_branch else " on"
        yield f"Drivers support it{first}{last}."
    if one.tensor_cores:
        yield f"Its tensor cores are generation {one.tensor_cores}."
