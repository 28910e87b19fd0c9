"""Findings as a policy weighs them: some are notes until a day, some weigh more, and the verdict follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpustack.model.facts import Status
from gpustack.model.report import Health, Severity, Verdict

if TYPE_CHECKING:
    from datetime import date

    from gpustack.model.policy import Ignored, Policy, Raised
    from gpustack.model.report import Finding, Report

SEVERITIES = tuple(Severity)
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
GPUS = ("gpu", "amd-gpu", "intel-gpu")
ON_BUS = "pci-display"


def weighed(report: Report, policy: Policy, today: date) -> Report:
    """Give the report with its findings as the policy weighs them; the same where it has nothing to say of them."""
    findings = weigh(report.findings, policy, today)
    if findings == report.findings:
        return report
    return replace(report, findings=findings, verdict=_verdict(report, findings))


def weigh(findings: Sequence[Finding], policy: Policy, today: date) -> tuple[Finding, ...]:
    """Give the findings, each with the weight that the policy gives it, the gravest first.

    What follows from an ignored one is ignored with it. A consequence is not raised: its cause counts.
    """
    by_key = {one.key: one for one in findings}
    made = []
    for finding in findings:
        if ignored := _ignored(finding, by_key, policy.ignore, today):
            said = f"Ignored until {ignored.until}: {ignored.reason}"
            finding = _as(finding, Severity.INFO, said)  # noqa: PLW2901
        elif finding.caused_by is None and (raised := _raised(finding, policy.raise_, today)):
            finding = _as(finding, raised.to, f"Raised by the policy: {raised.reason}")  # noqa: PLW2901
        made.append(finding)
    return tuple(sorted(made, key=lambda one: SEVERITIES.index(one.severity)))


def fits(finding: Finding, named: str) -> bool:
    """Tell whether a finding is meant by an id, a key, or a pattern of either."""
    return named in {finding.id, finding.key} or fnmatchcase(finding.key, named) or fnmatchcase(finding.id, named)


def in_force(until: date | None, today: date) -> bool:
    """Tell whether a day is not yet over; where none is named, none ends."""
    return until is None or today <= until


def _ignored(finding: Finding, by_key: dict[str, Finding], rows: Iterable[Ignored], today: date) -> Ignored | None:
    """Give what ignores a finding, or one of those that it follows from."""
    valid = [one for one in rows if in_force(one.until, today)]
    seen: set[str] = set()
    while finding.key not in seen:
        seen.add(finding.key)
        found = next((one for one in valid if fits(finding, one.finding)), None)
        if found:
            return found
        finding = by_key.get(finding.caused_by or "", finding)
    return None


def _raised(finding: Finding, rows: Iterable[Raised], today: date) -> Raised | None:
    return next((one for one in rows if in_force(one.until, today) and fits(finding, one.finding)), None)


def _as(finding: Finding, severity: Severity, said: str) -> Finding:
    return replace(finding, severity=severity, detail=f"{said}\n{finding.detail}".strip())


def _verdict(report: Report, findings: Sequence[Finding]) -> Verdict:
    roots = [one for one in findings if one.severity in AT_FAULT and one.caused_by is None]
    return replace(
        report.verdict,
        status=_health(report, findings, roots),
        root_causes=tuple(dict.fromkeys(one.id for one in roots)),
        root_keys=tuple(one.key for one in roots),
    )


def _health(report: Report, findings: Sequence[Finding], roots: Sequence[Finding]) -> Health:
    """Give the verdict in one word as the judge would: see ``gpustack.judging``."""
    if any(one.severity is Severity.ERROR for one in roots):
        return Health.BROKEN
    blind = any(one.severity is Severity.UNKNOWN and one.caused_by is None for one in findings)
    if blind:
        return Health.UNKNOWN
    if report.verdict.status is Health.NO_GPU or _without_gpu(report):
        return Health.NO_GPU
    if roots:
        return Health.DEGRADED
    looked = report.verdict.status in {Health.HEALTHY, Health.DEGRADED}
    return Health.HEALTHY if looked or _listed(report) else Health.UNKNOWN


def _listed(report: Report) -> bool:
    """Tell whether a GPU is listed by its driver."""
    return any(copy.status is Status.PRESENT for one in report.components if one.id in GPUS for copy in one.instances)


def _without_gpu(report: Report) -> bool:
    bus = next((one.status for one in report.components if one.id == ON_BUS), None)
    return bus in {Status.ABSENT, Status.NOT_APPLICABLE} and not _listed(report)
