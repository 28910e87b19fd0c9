"""A report as JUnit XML: a test case for each contract, finding, policy row and figure, including passed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpustack.model import record
from gpustack.model.report import Report, Severity
from gpustack.report import parts
from gpustack.report.page import clean
from gpustack.report.summary import Family, sentences

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport, Result
    from gpustack.report.parts import Reported

WEIGHT = {
    parts.Outcome.ERROR: Severity.ERROR,
    parts.Outcome.WARNING: Severity.WARNING,
    parts.Outcome.SKIPPED: Severity.UNKNOWN,
}
SECONDS = 19  # letters of a time down to its seconds: the schema allows no more


@record
class Case:
    """One test case: its name, its outcome, and its text."""

    room: str
    name: str
    outcome: parts.Outcome
    title: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()
    seconds: float = 0.0


def render(reported: Reported, told: parts.Told = parts.NOTHING) -> str:
    """Return the XML; anything below the failure threshold is a passed test with a message."""
    suites = {name: cases for name, cases in _suites(reported).items() if cases}
    root = ET.Element("testsuites")
    made = [_suite(root, name, cases, reported, told) for name, cases in suites.items()]
    total = {key: str(sum(int(suite.get(key, "0")) for suite in made)) for key in ("tests", "failures", "skipped")}
    root.attrib |= {"name": "gpustack", **total, "errors": "0", "time": f"{_number(_took(reported)):.3f}"}
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suites(reported: Reported) -> Mapping[str, Sequence[Case]]:
    report, bench = parts.diagnosis(reported), parts.measured(reported)
    of_bench = list(_bench(bench)) if bench else []
    shown = {line for case in of_bench for line in case.lines[:1]}
    families = [held for held in parts.ordered(reported) if held[0].key not in shown]
    return {
        "gpustack.policy": list(_policy(reported)),
        "gpustack.findings": list(map(_finding, families)),
        "gpustack.contracts": list(_contracts(report)) if report else [],
        "gpustack.bench": of_bench,
    }


def _policy(reported: Reported) -> Iterator[Case]:
    for row in parts.policy(reported):
        said = f"{row.rule}: wanted {row.wanted}; found {row.found}"
        place = (f"The policy requires it in {row.place}.",) if row.place else ()
        lines = (*place, *filter(None, (parts.means(row),)))
        yield Case(
            room="policy", name=row.rule, outcome=parts.of_policy(row), title=said, kind=row.whose.value, lines=lines
        )


def _finding(family: Family) -> Case:
    head, follow = family
    return Case(
        room=f"{head.layer.value}.{head.component}",
        name=head.key,
        outcome=parts.WEIGHS[head.severity],
        title=head.title,
        kind=head.id,
        lines=(head.key, *sentences(head, follow)),
    )


def _contracts(report: Report) -> Iterator[Case]:
    python = report.environments[0].python if report.environments else None
    for edge in report.contracts:
        outcome = parts.of_contract(edge, python)
        beside = f" in {edge.environment}" if edge.environment else ""
        said = f"{edge.from_} needs from {edge.to}: {edge.needs}; found {edge.found}"
        row = (f"Rule: {edge.row.text} ({edge.row.source}, checked {edge.row.checked})",) if edge.row else ()
        name = f"{edge.from_} → {edge.to} ({edge.kind}){beside}"
        yield Case(room="contract", name=name, outcome=outcome, title=said, kind=edge.status.value, lines=row)


def _bench(bench: BenchReport) -> Iterator[Case]:
    for result in bench.results:
        outcome, finding = parts.of_result(result, bench.findings)
        yield Case(
            room="bench",
            name=f"{result.id}{result.place()}",
            outcome=outcome,
            title="; ".join((_figure(result), *result.why)),
            kind=f"bench-{result.verdict.value}",
            lines=(finding.key, finding.title, *sentences(finding)) if finding else (),
            seconds=result.seconds,
        )


def _figure(result: Result) -> str:
    if result.value is None:
        return f"{result.id}: no figure"
    limit = f" of {result.ceiling:.4g}" if result.ceiling is not None else ""
    part = f" ({result.ratio:.0%} of the limit)" if result.ratio is not None else ""
    return f"{result.id}: {result.value:.4g}{limit} {result.unit}{part}"


def _suite(root: ET.Element, name: str, cases: Sequence[Case], reported: Reported, told: parts.Told) -> ET.Element:
    """Add a suite with its cases; cases with the same name get a number."""
    report = parts.diagnosis(reported)
    suite = ET.SubElement(root, "testsuite", name=name)
    if report and report.host.hostname:
        suite.set("hostname", clean(report.host.hostname))
    if reported.taken:
        suite.set("timestamp", clean(reported.taken)[:SECONDS])
    properties = ET.SubElement(suite, "properties")
    tool, (word, said) = reported.tool, parts.headline(reported)
    for key, value in (("verdict", word), ("why", said), ("tool", f"{tool.name} {tool.version}")):
        ET.SubElement(properties, "property", name=key, value=clean(value))
    times: Counter[tuple[str, str]] = Counter()
    tags = Counter(_case(suite, case, times, told) for case in cases)
    suite.attrib |= {"tests": str(len(cases)), "failures": str(tags["failure"]), "errors": "0"}
    suite.attrib |= {"skipped": str(tags["skipped"]), "time": f"{sum(_number(case.seconds) for case in cases):.3f}"}
    return suite


def _case(suite: ET.Element, case: Case, times: Counter[tuple[str, str]], told: parts.Told) -> str:
    """Add a case; return the tag of its outcome, or nothing if it passed."""
    place = f"gpustack.{clean(case.room)}", clean(case.name)
    times[place] += 1
    name = place[1] if times[place] == 1 else f"{place[1]} ({times[place]})"
    made = ET.SubElement(suite, "testcase", classname=place[0], name=name, time=f"{_number(case.seconds):.3f}")
    lines = list(map(clean, case.lines))
    if WEIGHT.get(case.outcome) in told.failing:
        failure = ET.SubElement(made, "failure", message=clean(case.title), type=clean(case.kind))
        failure.text = "\n".join(lines or [clean(case.title)])
        return "failure"
    if case.outcome is parts.Outcome.SKIPPED:
        ET.SubElement(made, "skipped", message=clean(case.title))
    word = "" if case.outcome is parts.Outcome.OK else f"{case.outcome.value}: "
    ET.SubElement(made, "system-out").text = "\n".join([f"{word}{clean(case.title)}", *lines])
    return "skipped" if case.outcome is parts.Outcome.SKIPPED else ""


def _took(reported: Reported) -> float:
    bench = parts.measured(reported)
    return _number(reported.seconds) + (_number(bench.seconds) if bench and bench is not reported else 0.0)


def _number(value: float) -> float:
    return value if value - value == 0 and value >= 0 else 0.0
