"""The policy's rules for figures, and the whole check.

Everything here is a pure function of the facts; ``evaluate`` decides whose fault a finding is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING

from gpustack.model import record, replace
from gpustack.model.facts import Status
from gpustack.model.policy import CheckReport, HealthClass, Held, Policy
from gpustack.model.report import Finding, Health, Report, Severity
from gpustack.policy import Written, evaluate, gpu_rows

if TYPE_CHECKING:
    from datetime import date

    from gpustack.model.bench import BenchReport

HOST, NOBODY = HealthClass.BAD_HOST, HealthClass.OK
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
LOW = "bench-low"
SHARED = ".all"  # the suffix of figures of all GPUs at once, which share the host
LINKS = ("pcie.h2d.pinned", "pcie.d2h.pinned")
OK, DEGRADED, UNKNOWN = HealthClass.OK, HealthClass.DEGRADED, HealthClass.UNKNOWN
GRAVEST = (HealthClass.BAD_HOST, HealthClass.BAD_ENVIRONMENT)


@record
class Unmeasured:
    """Why there is no bench. ``blind``: there is a GPU to measure, and nobody chose to skip it."""

    why: str
    blind: bool = False


@record
class Reached:
    """What one figure reached: its share of the limit or of the baseline; None if it has neither.

    One that is not a GPU's ``own`` is reached by several on what they share: only its id covers it, not a pattern.
    """

    id: str
    where: str
    share: float | None
    own: bool = True


def bench_rows(bench: BenchReport | None, unmeasured: Unmeasured | None, written: Written) -> Iterator[Held]:
    """Yield a row for each minimum share in the policy, and one for all figures that it does not mention."""
    figures = written.policy.bench
    for key, wanted, reached in (
        ("least", figures.least, _of_limits(bench)),
        ("least-of-baseline", figures.least_of_baseline, _of_baseline(bench)),
    ):
        for pattern, least in wanted.items():
            mine = [one for one in reached if pattern_of(one.id, wanted) == pattern and (one.own or one.id == pattern)]
            found, ok = _held(mine, least) if bench else (f"not measured: {unmeasured.why}" if unmeasured else "", None)
            yield Held(
                rule=f"bench.{key}.{pattern}",
                wanted=f"{least:.0%} of the {'limit' if key == 'least' else 'baseline'} or more",
                found=found,
                ok=ok,
                whose=HOST if bench or (unmeasured and unmeasured.blind) else NOBODY,
                place=written.place("bench", key, pattern),
            )
    yield _all(bench, unmeasured)


def pattern_of(name: str, wanted: Mapping[str, float]) -> str | None:
    """Return the key that covers a benchmark: its id, else the first matching pattern."""
    return name if name in wanted else next((one for one in wanted if fnmatchcase(name, one)), None)


def asks_of_each_link(policy: Policy) -> bool:
    """Return whether the policy sets a minimum for each GPU's link, which must then be measured alone."""
    wanted = {**policy.bench.least, **policy.bench.least_of_baseline}
    return any(pattern_of(link, wanted) for link in LINKS)


def eased(bench: BenchReport, policy: Policy) -> BenchReport:
    """Return the report with "low" as a note if the policy itself sets a figure's minimum."""
    told = {one.id for one in bench.results if pattern_of(one.id, policy.bench.least)}
    told |= {one.id for one in bench.results if pattern_of(one.id, policy.bench.least_of_baseline)}
    findings = tuple(
        replace(one, severity=Severity.INFO)
        if one.id == LOW and (one.instance or "").partition(" ")[0] in told and one.severity in AT_FAULT
        else one
        for one in bench.findings
    )
    return replace(bench, findings=findings)


def _of_limits(bench: BenchReport | None) -> list[Reached]:
    results = bench.results if bench else ()
    return [
        Reached(id=one.id, where=one.place(), share=one.ratio, own=not one.id.endswith(SHARED))
        for one in results
        if one.value is not None
    ]


def _of_baseline(bench: BenchReport | None) -> list[Reached]:
    changes = bench.comparison.changes if bench and bench.comparison else ()
    return [
        Reached(
            id=one.id.partition(" ")[0],
            where="" if one.device is None else f" on GPU {one.device}",
            share=None if one.change is None else 1 + one.change,
            own=not one.id.endswith(SHARED),
        )
        for one in changes
        if one.after is not None
    ]


def _held(mine: Sequence[Reached], least: float) -> tuple[str, bool | None]:
    """Return what the figures of one row reached, lowest first, and whether all of them reached enough."""
    known = sorted((one.share, one.id + one.where) for one in mine if one.share is not None and isfinite(one.share))
    if not known:
        return ("what was measured has no such fraction" if mine else "none of these was measured"), None
    short = [(share, name) for share, name in known if share < least]
    told = [f"{share:.1%} {name}" for share, name in (short or known[:1])]
    said = evaluate.few(told)
    return said if short or len(known) == 1 else f"{said}, the least of {len(known)}", not short


def _all(bench: BenchReport | None, unmeasured: Unmeasured | None) -> Held:
    """Return the row that applies without any policy: no figure failed or is low without a reason."""
    row = Held(rule="bench", wanted="no figure failed or low", found="", ok=None, whose=NOBODY)
    if bench is None:
        return replace(row, found=f"not measured: {unmeasured.why}" if unmeasured else "not measured")
    wrong = [one.title for one in bench.findings if one.severity in AT_FAULT]
    measured = sum(one.value is not None for one in bench.results)
    if not wrong and not measured:
        return replace(row, found="nothing was measured")
    said = evaluate.few(wrong) or f"{measured} figure{'s' * (measured != 1)}, all good"
    return replace(row, found=said, ok=not wrong, whose=HOST)


def check(
    report: Report,
    bench: BenchReport | None,
    written: Written | None = None,
    *,
    today: date,
    golden: Report | None = None,
    origin: str = "",
    unmeasured: Unmeasured | None = None,
    gpus: int | None = None,
    hide: Callable[[Report], Report] = lambda report: report,
) -> CheckReport:
    """Return the check's report. Without a policy the doctor's verdict and failed or low figures decide.

    ``gpus`` is how many GPUs there must be, whatever the policy says. ``golden`` is the machine in its known-good
    state, read from ``origin``; ``unmeasured`` says why there is no bench; ``today`` decides which findings are still
    ignored; ``hide`` removes the names that the golden snapshot lacks.
    """
    written = written or Written()
    policy = written.policy
    seen = (*report.findings, *(bench.findings if bench else ()))
    report = evaluate.weighed(report, policy, today)
    if bench:
        bench = replace(bench, findings=evaluate.weigh(bench.findings, policy, today))
        bench = eased(bench, policy)
    rows = (
        *evaluate.components(report, written),
        *gpu_rows.kinds(report, written, gpus),
        *evaluate.frameworks(report, written),
        *gpu_rows.use(report, written),
        *bench_rows(bench, unmeasured, written),
        *evaluate.drift(report, golden, origin, written, hide),
        *evaluate.weights(seen, written, today),
    )
    class_, why = _classed(report, rows)
    held = {one.name: getattr(report, one.name) for one in fields(report)}
    return CheckReport(**held, class_=class_, why=why, policy=rows, bench=bench)


def failed(report: CheckReport, counted: Sequence[str]) -> bool:
    """Return whether anything has one of the given severities; a failed rule of the policy is an error."""
    findings = (*report.findings, *(report.bench.findings if report.bench else ()))
    rows = {
        "error": any(_fails(row) for row in report.policy),
        "warning": any(row.warns for row in report.policy),
        "unknown": any(row.unseen for row in report.policy),
    }
    return (
        report.verdict.status.value in counted
        or any(finding.severity.value in counted for finding in findings)
        or any(there and name in counted for name, there in rows.items())
    )


def _classed(report: Report, rows: Sequence[Held]) -> tuple[HealthClass, str]:
    """Return the class and the sentence behind it: a fault of the host takes precedence over the environment's."""
    wrong = [*_roots(report, Severity.ERROR), *((row.whose, _failure(row)) for row in rows if _fails(row))]
    for class_ in GRAVEST:
        for whose, why in wrong:
            if whose is class_:
                return class_, why
    blind = [one.title for one in report.findings if one.severity is Severity.UNKNOWN and one.caused_by is None]
    blind += [f"{row.rule} could not be checked: {row.found}" for row in rows if row.unseen]
    if blind or report.verdict.status is Health.UNKNOWN:
        return UNKNOWN, blind[0] if blind else "too little could be examined to judge this machine"
    for _, why in _roots(report, Severity.WARNING):
        return DEGRADED, why.partition("; ")[0]
    for row in rows:
        if row.warns:
            return DEGRADED, _failure(row)
    return OK, _well(report, rows)


def _roots(report: Report, severity: Severity) -> Iterator[tuple[HealthClass, str]]:
    """Return the causes of one severity, most likely first, each with its class and the reason for it."""
    by_key = {one.key: one for one in report.findings}
    roots: list[Finding] = [by_key[key] for key in report.verdict.root_keys if key in by_key]
    return ((evaluate.whose(one), f"{one.title}; {evaluate.because(one)}") for one in roots if one.severity is severity)


def _failure(row: Held) -> str:
    place = f" ({row.place})" if row.place else ""
    return f"{row.rule}{place}: {row.wanted} is required; found: {row.found}"


def _well(report: Report, rows: Sequence[Held]) -> str:
    asked = [row for row in rows if row.ok and row.place]
    kept = f"; {len(asked)} rules of the policy hold" if len(asked) > 1 else "; the policy holds" if asked else ""
    if report.verdict.status is Health.NO_GPU:
        return f"there is no GPU here, and none is required{kept}"
    return f"nothing in the stack is at fault{kept}"


def _fails(row: Held) -> bool:
    return row.ok is False and not row.warns


def unmeasurable(report: Report) -> Unmeasured | None:
    """Return why nothing can be measured on a machine; None if it can be tried."""
    status = {one.id: one.status for one in report.components}
    libcuda = next((one for one in report.components if one.id == "libcuda"), None)
    if report.verdict.status is Health.NO_GPU:
        return Unmeasured(why=gpu_rows.NONE)
    if status.get("gpu") is not Status.PRESENT and any(status.get(one) is Status.PRESENT for one in gpu_rows.OTHERS):
        return Unmeasured(why="only NVIDIA GPUs are measured")
    code = libcuda.facts.get("cu_init") if libcuda else None
    if libcuda is None or libcuda.status is not Status.PRESENT or code not in {0, None}:
        return Unmeasured(why="CUDA does not start here", blind=True)
    return None
