"""A machine compared with a policy: a row for each rule, which findings are ignored, and whose fault each is.

The layer of a finding decides whose fault it is, except for findings in one layer that are fixed in another. Each row
says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from gpustack.compare import PACKAGES, changes, distributions
from gpustack.diagnose import engine
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model.facts import Component, Facts, Layer, Status
from gpustack.model.policy import ALSO, PRESENT, HealthClass, Held, Ignored, Policy, Raised
from gpustack.model.report import Finding, Health, Report, Severity, Verdict

if TYPE_CHECKING:
    from datetime import date

    from gpustack.model.difference import Changed
    from gpustack.policy import Written

HOST, OURS, NOBODY = HealthClass.BAD_HOST, HealthClass.BAD_ENVIRONMENT, HealthClass.OK
FAULTS: Mapping[str, Mapping[str, tuple[str, str]]] = Matrix().table("findings")["faults"]
BY_LAYER = {Layer(layer): (HealthClass(whose), why) for layer, (whose, why) in FAULTS["layers"].items()}
BY_FINDING = {finding: (HealthClass(whose), why) for finding, (whose, why) in FAULTS["findings"].items()}
SEVERITIES = tuple(Severity)


def whose(finding: Finding) -> HealthClass:
    """Return the class of a finding that is a root cause and an error."""
    return _row(finding)[0]


def because(finding: Finding) -> str:
    """Return why it has this class."""
    return _row(finding)[1]


def of_layer(layer: Layer) -> HealthClass:
    """Return the class of a problem in a layer that has no finding."""
    return BY_LAYER[layer][0]


def _row(finding: Finding) -> tuple[HealthClass, str]:
    return BY_FINDING.get(finding.id) or BY_LAYER[finding.layer]


def weighed(report: Report, policy: Policy, today: date) -> Report:
    """Return the report with its findings weighted by the policy; unchanged if the policy mentions none of them."""
    findings = weigh(report.findings, policy, today)
    if findings == report.findings:
        return report
    return replace(report, findings=findings, verdict=_verdict(report, findings))


def weigh(findings: Sequence[Finding], policy: Policy, today: date) -> tuple[Finding, ...]:
    """Return the findings with the policy's severities, the most severe first.

    Consequences of an ignored finding are ignored with it. A consequence is not raised: its cause counts.
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
    """Return whether an id, a key, or a pattern of either matches a finding."""
    return named in {finding.id, finding.key} or fnmatchcase(finding.key, named) or fnmatchcase(finding.id, named)


def in_force(until: date | None, today: date) -> bool:
    """Return whether a day has not yet passed; without a day, true."""
    return until is None or today <= until


def _ignored(finding: Finding, by_key: dict[str, Finding], rows: Iterable[Ignored], today: date) -> Ignored | None:
    """Return the rule that ignores a finding, or one of its causes."""
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


MOST_NAMED = 4
UNTOLD = "no reason was given"


def components(report: Report, written: Written) -> Iterator[Held]:
    """Yield a row for each component that must be there."""
    for name, wanted in written.policy.components.items():
        seen = next((one for one in report.components if one.id == ALSO.get(name, name)), None)
        found, ok = _version(seen, wanted) if seen else _distribution(name, wanted, report)
        yield Held(
            rule=f"components.{name}",
            wanted=wanted,
            found=found,
            ok=ok,
            whose=of_layer(seen.layer) if seen else OURS,
            place=written.place("components", name),
        )


def frameworks(report: Report, written: Written) -> Iterator[Held]:
    """Yield a row for each framework that must be able to use the GPU, in the chosen Python."""
    roots = [one for one in report.findings if one.severity is Severity.ERROR and one.caused_by is None]
    hosts = any(whose(one) is HOST for one in roots)
    for name in written.policy.frameworks:
        unseen = _unseen(report, name)
        works = report.verdict.works.get(name, None if unseen else False)
        there = name in report.verdict.works or unseen is not None
        if report.verdict.status is Health.NO_GPU:
            works, hosts = False, True
        said = {True: "it works", False: "it does not work", None: "not known; --deep runs it"}[works]
        if not there:
            said = f"it is not installed in {report.environments[0].python if report.environments else 'any Python'}"
        elif report.verdict.status is Health.NO_GPU:
            said = "there is no GPU"
        elif works is None and unseen:
            said = f"it could not be examined: {unseen}"
        yield Held(
            rule=f"frameworks.{name}",
            wanted="it works on the GPU",
            found=said,
            ok=works,
            whose=HOST if hosts and there else OURS,
            place=written.place("frameworks"),
        )


def _unseen(report: Report, name: str) -> str | None:
    """Return why nothing is known about a component in the chosen Python; None if it was probed."""
    seen = next((one for one in report.components if one.id == name), None)
    if seen is None:
        return None
    if seen.status in {Status.FAILED, Status.UNKNOWN} and not seen.instances:
        return seen.reason or UNTOLD
    chosen = report.environments[0].python if report.environments else None
    blank = next((one for one in seen.instances if one.environment == chosen and one.status is Status.UNKNOWN), None)
    return str(blank.facts.get("error") or UNTOLD) if blank else None


def weights(findings: Sequence[Finding], written: Written, today: date) -> Iterator[Held]:
    """Yield a row for each ignored or raised finding, with the outcome. None of these can fail."""
    rows: list[tuple[str, int, Ignored | Raised]] = [
        *(("ignore", number, one) for number, one in enumerate(written.policy.ignore)),
        *(("raise", number, one) for number, one in enumerate(written.policy.raise_)),
    ]
    for what, number, one in rows:
        said = "ignored" if what == "ignore" else "raised"
        met = sum(fits(finding, one.finding) for finding in findings)
        until = f" until {one.until}" if one.until else ""
        valid = in_force(one.until, today)
        yield Held(
            rule=f"{what}.{one.finding}",
            wanted=f"{said}{until}: {one.reason}",
            found=f"{met or 'none'} found"
            if valid
            else f"this ended on {one.until}: {met or 'none'} found, no longer {said}",
            ok=True if valid else None,
            whose=NOBODY,
            place=written.place(what, number),
        )


def drift(
    report: Report, golden: Report | None, origin: str, written: Written, hide: Callable[[Report], Report]
) -> Iterator[Held]:
    """Yield a row for each component that differs from the golden snapshot, and one for the rest.

    Snapshots are redacted when recorded, so both are compared after ``hide`` removed the names.
    """
    if golden is None:
        return
    place = written.place("golden", "snapshot") if written.policy.golden.snapshot else None
    by_component: dict[str, list[Changed]] = {}
    for one in changes(hide(golden), hide(report)):
        if one.what != "path":
            by_component.setdefault(one.component, []).append(one)
    for component, parts in by_component.items():
        allowed = _may_differ(parts, written)
        yield Held(
            rule=f"golden.{component}",
            wanted=_told(part.before for part in parts),
            found=_told(f"{part.what} {part.after or 'gone'}" for part in parts) + (", which may differ" * allowed),
            ok=allowed,
            whose=of_layer(parts[0].layer),
            place=written.place("golden", "may-differ") if allowed else place,
        )
    same = len({one.id for one in report.components} & {one.id for one in golden.components} - set(by_component))
    yield Held(rule="golden", wanted=f"as in {origin}", found=f"{same} components are unchanged", ok=True, place=place)


def _may_differ(parts: Sequence[Changed], written: Written) -> bool:
    names = {parts[0].component, *([PACKAGES] if parts[0].what == "distribution" else [])}
    return any(fnmatchcase(name, pattern) for name in names for pattern in written.policy.golden.may_differ)


def few(words: Sequence[str]) -> str:
    """Return the first words, and how many more there are."""
    rest = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + rest


def _told(words: Iterable[str | None]) -> str:
    return few(list(dict.fromkeys(word or "not there" for word in words)))


def _version(seen: Component, wanted: str) -> tuple[str, bool | None]:
    """Return the version of a component, and whether it meets the requirement; None: unknown."""
    reason = f": {seen.reason}" if seen.reason else ""
    if seen.status is Status.UNKNOWN or (seen.status is Status.FAILED and not seen.instances):
        return f"not known{reason}", None
    if seen.status is not Status.PRESENT:
        return f"{seen.status.value}{reason}", False
    return _within(seen.version, wanted)


def _distribution(name: str, wanted: str, report: Report) -> tuple[str, bool | None]:
    """Return the distribution in the chosen Python, for a name that is not a system of the stack."""
    held = {canonicalize_name(one): version for one, version in distributions(report).items()}
    if canonicalize_name(name) in held:
        return _within(held[canonicalize_name(name)], wanted)
    return ("absent", False) if held else ("not known: the packages of the chosen Python were not examined", None)


def _within(version: str | None, wanted: str) -> tuple[str, bool | None]:
    if wanted == PRESENT:
        return version or "present", True
    known = version_of(version) if version else None
    if known is None:
        return f"present, with a version that is {'no number: ' + version if version else 'not told'}", None
    return str(version), VersionRange(wanted).holds(str(version))
