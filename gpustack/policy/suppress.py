"""Findings as a policy weighs them: some are notes until a day, some weigh more, and the verdict follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpustack.diagnose import engine
from gpustack.model.facts import Facts
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from datetime import date

    from gpustack.model.policy import Ignored, Policy, Raised
    from gpustack.model.report import Finding, Report, Verdict

SEVERITIES = tuple(Severity)


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
    facts = Facts(taken=report.taken, host=report.host, components=report.components)
    return engine.verdict(findings, facts, report.verdict.works, blind=engine.blind(report.not_seen))
