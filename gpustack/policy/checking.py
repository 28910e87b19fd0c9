"""The health check: a report and a quick bench held against a policy, and one word for whose fault it is.

Everything here is a pure function of what was seen; whose fault a finding is stands in ``gpustack.faults``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from gpustack.model.check import CheckReport, HealthClass, Held
from gpustack.model.facts import Status
from gpustack.model.report import Health, Severity
from gpustack.policy import Written, bench_rows, evaluate, faults, gpu_rows, suppress
from gpustack.policy.bench_rows import Unmeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from gpustack.model.bench import BenchReport
    from gpustack.model.report import Finding, Report

__all__ = ["Unmeasured", "check", "failed", "unmeasurable"]

OK, DEGRADED, UNKNOWN = HealthClass.OK, HealthClass.DEGRADED, HealthClass.UNKNOWN
GRAVEST = (HealthClass.BAD_HOST, HealthClass.BAD_ENVIRONMENT)


def check(
    report: Report,
    bench: BenchReport | None,
    written: Written | None = None,
    *,
    today: date,
    golden: Report | None = None,
    origin: str = "",
    unmeasured: Unmeasured | None = None,
    hide: Callable[[Report], Report] = lambda report: report,
) -> CheckReport:
    """Give the check's report. Without a policy the doctor's verdict counts, and figures that failed or are low.

    ``golden`` is the machine as it was when it was good, read from ``origin``; ``unmeasured`` says why there is no
    bench; ``today`` decides which findings are still ignored; ``hide`` takes out the names that the golden machine is
    without.
    """
    written = written or Written()
    policy = written.policy
    seen = (*report.findings, *(bench.findings if bench else ()))
    report = suppress.weighed(report, policy, today)
    if bench:
        bench = replace(bench, findings=suppress.weigh(bench.findings, policy, today))
        bench = bench_rows.eased(bench, policy)
    rows = (
        *evaluate.components(report, written),
        *gpu_rows.kinds(report, written),
        *evaluate.frameworks(report, written),
        *gpu_rows.use(report, written),
        *bench_rows.rows(bench, unmeasured, written),
        *evaluate.drift(report, golden, origin, written, hide),
        *evaluate.weights(seen, written, today),
    )
    class_, why = _classed(report, rows)
    held = {one.name: getattr(report, one.name) for one in fields(report)}
    return CheckReport(**held, class_=class_, why=why, policy=rows, bench=bench)


def failed(report: CheckReport, counted: Sequence[str]) -> bool:
    """Tell whether anything has one of the severities that count; a rule of the policy that fails is an error."""
    findings = (*report.findings, *(report.bench.findings if report.bench else ()))
    rows = {"error": any(_fails(row) for row in report.policy), "unknown": any(row.unseen for row in report.policy)}
    return (
        report.verdict.status.value in counted
        or any(finding.severity.value in counted for finding in findings)
        or any(there and name in counted for name, there in rows.items())
    )


def _classed(report: Report, rows: Sequence[Held]) -> tuple[HealthClass, str]:
    """Give the class and the sentence behind it: a fault of the host goes before one of the environment."""
    wrong = [*_roots(report, Severity.ERROR), *((row.whose, _failure(row)) for row in rows if _fails(row))]
    for class_ in GRAVEST:
        for whose, why in wrong:
            if whose is class_:
                return class_, why
    blind = [one.title for one in report.findings if one.severity is Severity.UNKNOWN and one.caused_by is None]
    blind += [f"{row.rule} could not be seen: {row.found}" for row in rows if row.unseen]
    if blind or report.verdict.status is Health.UNKNOWN:
        return UNKNOWN, blind[0] if blind else "too little could be seen to judge this machine"
    for _, why in _roots(report, Severity.WARNING):
        return DEGRADED, why.partition("; ")[0]
    return OK, _well(report, rows)


def _roots(report: Report, severity: Severity) -> Iterator[tuple[HealthClass, str]]:
    """Give the causes of one severity, most likely first, each with its class and why it is of that."""
    by_key = {one.key: one for one in report.findings}
    roots: list[Finding] = [by_key[key] for key in report.verdict.root_keys if key in by_key]
    return ((faults.whose(one), f"{one.title}; {faults.because(one)}") for one in roots if one.severity is severity)


def _failure(row: Held) -> str:
    place = f" ({row.place})" if row.place else ""
    return f"{row.rule}{place}: {row.wanted} is wanted, and found was: {row.found}"


def _well(report: Report, rows: Sequence[Held]) -> str:
    asked = [row for row in rows if row.ok and row.place]
    kept = f"; {len(asked)} rules of the policy hold" if len(asked) > 1 else "; the policy holds" if asked else ""
    if report.verdict.status is Health.NO_GPU:
        return f"there is no GPU here, which is no fault where none is asked for{kept}"
    return f"nothing in the stack is at fault{kept}"


def _fails(row: Held) -> bool:
    return row.ok is False


def unmeasurable(report: Report) -> Unmeasured | None:
    """Say why nothing can be measured on a machine; None where it can be tried."""
    status = {one.id: one.status for one in report.components}
    libcuda = next((one for one in report.components if one.id == "libcuda"), None)
    if report.verdict.status is Health.NO_GPU:
        return Unmeasured(why=gpu_rows.NONE)
    if status.get("gpu") is not Status.PRESENT and any(status.get(one) is Status.PRESENT for one in gpu_rows.OTHERS):
        return Unmeasured(why="only GPUs of NVIDIA are measured")
    code = libcuda.facts.get("cu_init") if libcuda else None
    if libcuda is None or libcuda.status is not Status.PRESENT or code not in {0, None}:
        return Unmeasured(why="CUDA does not start here", blind=True)
    return None
