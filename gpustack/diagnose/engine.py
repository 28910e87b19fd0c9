"""From facts to a report, in which consequences are tied to their causes, or to the map of the whole stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpustack import __version__
from gpustack.diagnose import environments, requirements
from gpustack.diagnose.candidates import candidates, settled
from gpustack.diagnose.environments import alone, each, inside, whole
from gpustack.diagnose.evidence import STARTS, can_be, cause_of, looked, unseen, weighed
from gpustack.diagnose.machine import containers, exercised
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.events import MESSAGE
from gpustack.diagnose.machine.inventory import FRAMEWORKS, Build, any_gpu, builds, starts
from gpustack.diagnose.machine.values import flag
from gpustack.diagnose.requirements import versions
from gpustack.diagnose.requirements.versions import draw, in_words
from gpustack.diagnose.rule import Rule, asked
from gpustack.matrix.subjects import terms
from gpustack.model import record, replace
from gpustack.model.facts import OTHER_CHECKS, Component, Facts, Layer, Status, Unseen
from gpustack.model.matrix_answer import StackMap
from gpustack.model.report import Confidence, EnvironmentVerdict, Health, Kept, Purpose, Report, Severity, Tool, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpustack.diagnose.requirements.states import Outcome
    from gpustack.matrix import Matrix
    from gpustack.model.report import Contract, Finding

Said = TypeVar("Said")
LAYERS, SEVERITIES, CONFIDENCES = tuple(Layer), tuple(Severity), tuple(Confidence)
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
BESIDE = {Severity.ERROR: Severity.WARNING, Severity.UNKNOWN: Severity.INFO}  # in a Python that was merely found
REPORT_IT = "report this bug in gpustack, with a gpustack snapshot"
NOT_TOLD, NOT_ASKED = "the input does not mention it", "it was not asked for"
ARCHITECTURE = "architecture"  # one contract a kind of GPU, the first being the one that programs take by default
DECIDING = frozenset({"cuda", ARCHITECTURE})
# What weighs more for one purpose than for another: (finding, component) to its severity there.
PURPOSES: Mapping[Purpose, Mapping[tuple[str, str], Severity]] = {
    Purpose.INFER: {("cpu-only-build", "onnxruntime"): Severity.WARNING},
    Purpose.TRAIN: {("cpu-only-build", "onnxruntime"): Severity.INFO},
    Purpose.BUILD: {
        ("driver-too-old-for-cuda-build", "cuda-toolkit"): Severity.WARNING,
        ("cpu-only-build", "onnxruntime"): Severity.INFO,
        ("cuda-toolkit-missing", "cuda-toolkit"): Severity.WARNING,
    },
}


def judge(facts: Facts, matrix: Matrix, purpose: Purpose = Purpose.ANY) -> Report:
    """Return the report on these facts: the same for the same facts, wherever they were taken."""
    facts = complete(exercised.implied(facts, matrix), matrix)
    own = alone(facts)
    failures: list[Unseen] = []
    held = _said(requirements.outcomes, facts, matrix, failures)
    drawn = _said(draw, facts, matrix, failures)
    judging = Judging(matrix=matrix, purpose=purpose, held=held, drawn=drawn, failures=failures)
    findings = everything = _found(exercised.recognised(own, matrix), judging)
    if not facts.taken and not looked(facts) and not any(one.severity in AT_FAULT for one in findings):
        judging = replace(judging, drawn=(*drawn, *_said(in_words, facts, matrix, failures)))
        findings = everything = _found(exercised.recognised(own, matrix), judging)
    if not any(one.severity in AT_FAULT for one in findings):
        spoken = _said(requirements.said_outright, own, matrix, failures)
        known = {one.id for one in findings}
        findings = (*findings, *(one for one in spoken if one.id not in known and can_be(one, facts)))
        everything = findings
    if own is not facts:
        everything = _found(exercised.recognised(facts, matrix), judging)
    others = tuple(one for one in everything if one.key not in {finding.key for finding in findings})
    contracts = (*judging.drawn, *requirements.contracts(held))
    works = tuple((build, _works(build, (*findings, *others), contracts, facts)) for build in builds(facts))
    by_python = {one.python: _inside(one.python, works) for one in facts.environments}
    able = environments.among(facts, by_python)
    lighter = (replace(one, severity=BESIDE.get(one.severity, one.severity)) for one in others)
    findings = (*((able,) if able else ()), *findings, *lighter)
    findings = tuple(sorted(findings, key=lambda one: SEVERITIES.index(one.severity)))
    chosen = facts.environments[0].python if facts.environments else None
    contracts = tuple(versions.tied(contracts, findings))
    contracts = (*contracts, *versions.spoken(findings, contracts))
    whole_verdict = verdict(findings, facts, _inside(chosen, works), blind=blind(failures))
    whole_verdict = replace(whole_verdict, status=settled(whole_verdict.status, facts, matrix))
    if facts.host.container and facts.taken and whole_verdict.status is Health.NO_GPU:
        failures.append(containers.unseen(facts))
    return Report(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix.date),
        host=facts.host,
        components=whole(facts, matrix),
        contracts=contracts,
        findings=tuple(weighed(one, facts) for one in findings),
        not_seen=tuple(dict.fromkeys((*facts.not_seen, *failures, *unseen(facts)))),
        environments=tuple(
            EnvironmentVerdict(python=one.python, kind=one.kind, version=one.version, works=by_python[one.python])
            for one in facts.environments
        ),
        verdict=whole_verdict,
        candidates=candidates(facts, matrix, findings, whole_verdict),
        taken=facts.taken,
        deep=facts.deep,
        seconds=facts.seconds,
    )


def chart(facts: Facts, matrix: Matrix) -> StackMap:
    """Return the map of one machine; a system that the facts do not speak of is unknown, never absent."""
    facts = complete(facts, matrix)
    seen = {component.id: component for component in whole(facts, matrix)}
    why, unknown = NOT_ASKED if facts.taken else NOT_TOLD, Status.UNKNOWN
    known = [
        seen.pop(one.id)
        if one.id in seen
        else Component(id=one.id, layer=one.layer, vendor=one.vendor, status=unknown, reason=why)
        for one in terms.systems(matrix)
    ]
    return StackMap(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix.date),
        host=facts.host,
        components=(*known, *seen.values()),
        contracts=(*draw(facts, matrix), *requirements.contracts(requirements.outcomes(facts, matrix))),
        environments=facts.environments,
        not_seen=facts.not_seen,
        known=tuple(component.id for component in known),
        taken=facts.taken,
        seconds=facts.seconds,
    )


@record
class Judging:
    """What is the same for every view of one machine: its broken requirements, the purpose, and which rules failed."""

    matrix: Matrix
    purpose: Purpose
    held: Sequence[Outcome]
    drawn: Sequence[Contract]
    failures: list[Unseen]


def restricted(report: Report, facts: Facts, ids: Sequence[str]) -> Report:
    """Return the report with the findings of these checks alone, and a verdict that rests on them."""
    kept = {one.key for one in report.findings if one.id in ids}
    held = tuple(
        replace(one, caused_by=one.caused_by if one.caused_by in kept else None)
        for one in report.findings
        if one.key in kept
    )
    return replace(
        report,
        findings=held,
        contracts=tuple(replace(one, finding=one.finding if one.finding in kept else None) for one in report.contracts),
        not_seen=(*report.not_seen, OTHER_CHECKS),
        verdict=verdict(held, facts, {}, blind=blind(report.not_seen)),
    )


def _found(facts: Facts, judging: Judging) -> tuple[Finding, ...]:
    """Return what all rules and requirements say, each key once, the gravest first, then the lowest layer first."""
    matrix, failures = judging.matrix, judging.failures
    weights = PURPOSES.get(judging.purpose, {})
    lighter = exercised.light(facts)
    told: dict[str, Finding] = {}
    views = each(facts)
    for rule in asked(facts):
        for finding in _everywhere(rule, facts, views, matrix, failures):
            severity = weights.get((finding.id, finding.component), exercised.eased(finding, lighter))
            told.setdefault(
                finding.key, finding if severity is finding.severity else replace(finding, severity=severity)
            )
    for finding in requirements.findings(judging.held):
        known = told.setdefault(finding.key, finding)
        if known is not finding:  # a rule has said it already, maybe more lightly
            severity = min(known.severity, finding.severity, key=SEVERITIES.index)
            more = tuple(one for one in finding.because if one not in known.because)
            told[finding.key] = replace(known, severity=severity, because=(*known.because, *more))
    pythons = {None, *(one.python for one in facts.environments)}
    drawn = [one for one in judging.drawn if one.environment in pythons or not facts.environments]
    for finding in versions.findings(drawn, tuple(told.values()), facts, matrix, judging.purpose):
        told.setdefault(finding.key, finding)
    held = told.values() if facts.taken else [one for one in told.values() if can_be(one, facts)]
    return tuple(_with_causes(sorted(held, key=_order)))


def _everywhere(
    rule: Rule, facts: Facts, views: Sequence[Facts], matrix: Matrix, failures: list[Unseen]
) -> Iterable[Finding]:
    """Return what one rule says of the machine, or of each Python, where it is about the packages of one."""
    if len(views) == 1 or not rule.in_one_python:
        return _said(rule, facts, matrix, failures)
    found = list(_said(rule, views[0], matrix, failures))
    for view in views[1:]:
        more = [one for one in _said(rule, view, matrix, failures) if one not in found]
        found += [inside(one, view.environments[0].python) for one in more]
    return found


def _said(
    rule: Callable[[Facts, Matrix], Iterable[Said]], facts: Facts, matrix: Matrix, failures: list[Unseen]
) -> tuple[Said, ...]:
    """Return what one rule says; one that fails, which is a fault of ours, costs what it alone would have said."""
    try:
        return tuple(rule(facts, matrix))
    except Exception as error:  # noqa: BLE001 - whatever fails in it, the others still speak
        failures.append(failed(rule, error))
        return ()


def failed(rule: Callable[..., object], error: Exception) -> Unseen:
    """Return that a rule failed, as something that nobody looked at."""
    what = rule.id if isinstance(rule, Rule) else "requirements"
    plugin, slash, _ = what.partition("/")
    remedy = f"correct the plugin {plugin}, or leave it out" if slash else REPORT_IT
    return Unseen(what=what, why=f"its rule failed: {type(error).__name__}: {error}", enable_by=remedy)


def _with_causes(findings: Sequence[Finding]) -> Iterable[Finding]:
    """Yield the findings with their causes; a consequence has no remedy and is no more severe than its cause."""
    by_key = {finding.key: finding for finding in findings}
    for finding in findings:
        cause = cause_of(finding, findings)
        if cause is None:
            yield finding
        else:
            severity = max(finding.severity, by_key[cause].severity, key=SEVERITIES.index)
            yield replace(finding, caused_by=cause, fix=None, severity=severity)


def _order(finding: Finding) -> tuple[int, bool, int, int, int, str]:
    """Return the place of a finding: what a program complained of goes before what only follows from versions.

    Between frameworks it is the order in which they are named everywhere else.
    """
    framework = (finding.instance or "").partition(":")[0]
    return (
        SEVERITIES.index(finding.severity),
        all(one.component != MESSAGE for one in finding.because),
        LAYERS.index(finding.layer),
        CONFIDENCES.index(finding.confidence),
        FRAMEWORKS.index(framework) if framework in FRAMEWORKS else len(FRAMEWORKS),
        finding.key,
    )


def _works(build: Build, findings: Sequence[Finding], contracts: Sequence[Contract], facts: Facts) -> bool | None:
    """Return whether a framework can use the GPU: proven by running it, else by its contracts; None: nobody can say.

    Where there is no GPU, it works if it was run and was right.
    """
    if not any_gpu(facts):
        return True if build.ran_on_gpu or flag(build.exercise, "ok") else None
    if build.ran_on_gpu is not None:
        return build.ran_on_gpu
    wrong = any(one.instance == build.mark and one.severity is Severity.ERROR for one in findings)
    own = [one for one in contracts if one.from_ == build.component and one.environment == build.copy.environment]
    runs = STARTS.get(build.accelerator or "", starts)(facts)
    if wrong or build.accelerator == "cpu" or runs is False or build.copy.status is Status.FAILED:
        return False
    archs = [one.status for one in own if one.kind == ARCHITECTURE]
    if any(one.status is Kept.BROKEN for one in own if one.kind != ARCHITECTURE) or archs[:1] == [Kept.BROKEN]:
        return False
    deciding = [one.status for one in own if one.kind in DECIDING]
    return True if runs and deciding and Kept.UNKNOWN not in deciding else None


def _inside(python: str | None, works: Iterable[tuple[Build, bool | None]]) -> Mapping[str, bool | None]:
    """Return what works in one Python by component; where facts name no Python (None), what works at all."""
    return {build.component: answer for build, answer in works if python is None or build.copy.environment == python}


def blind(not_seen: Iterable[Unseen]) -> bool:
    """Return whether a rule failed, so that nobody can say that all is well."""
    return any(one.enable_by == REPORT_IT for one in not_seen)


def verdict(findings: Sequence[Finding], facts: Facts, works: Mapping[str, bool | None], *, blind: bool) -> Verdict:
    """Return the whole in one word with its causes, as these findings weigh."""
    roots = [finding for finding in findings if finding.severity in AT_FAULT and finding.caused_by is None]
    return Verdict(
        status=_health(findings, roots, facts, blind=blind),
        root_causes=tuple(dict.fromkeys(finding.id for finding in roots)),
        root_keys=tuple(finding.key for finding in roots),
        works=works,
    )


def _health(findings: Sequence[Finding], roots: Sequence[Finding], facts: Facts, *, blind: bool) -> Health:
    """Return the whole in one word: a fault is a fault, and what was not seen is never well."""
    blind = blind or any(finding.severity is Severity.UNKNOWN and finding.caused_by is None for finding in findings)
    if any(finding.severity is Severity.ERROR for finding in roots):
        return Health.BROKEN
    if any_gpu(facts) is False and not blind:
        return Health.NO_GPU
    if blind:
        return Health.UNKNOWN
    if roots:
        return Health.DEGRADED
    return Health.HEALTHY if looked(facts) else Health.UNKNOWN
