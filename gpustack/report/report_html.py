"""A report as one HTML file that loads nothing: the verdict, what to type, the figures, and the map of the stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.model.policy import CheckReport
from gpustack.model.report import Severity
from gpustack.report import bench_html, stack_html
from gpustack.report.page import document, safe, tag
from gpustack.report.parts import (
    NOTHING,
    SAID,
    TECHNIQUE,
    WORKS,
    Told,
    counted,
    diagnosis,
    headline,
    likely,
    likely_heading,
    measured,
    ordered,
    policy,
    remarks,
    standing,
    where,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Unseen
    from gpustack.model.report import Decide, EnvironmentVerdict, Report
    from gpustack.report.parts import Reported
    from gpustack.report.summary import Family

TONES = {"OK": "good", "WARNING": "warn", "CRITICAL": "bad", "UNKNOWN": "ask"}
ANSWER = {True: "good", False: "bad", None: "ask"}
SECTIONS = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.UNKNOWN: "Not known",
    Severity.INFO: "Notes",
}
COUNTED = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.UNKNOWN: ("question left open", "questions left open"),
    Severity.INFO: ("note", "notes"),
}


def render(reported: Reported, told: Told = NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the page."""
    word, said = headline(reported)
    return document(
        f"gpustack: {word}: {said}", "\n".join(filter(None, _parts(reported))), "map", "finding", "bench", "report"
    )


def _parts(reported: Reported) -> Iterator[str]:
    report, bench = diagnosis(reported), measured(reported)
    yield _head(reported)
    if rows := policy(reported):
        yield _section("Policy", tag("div", stack_html.held(rows), "card"))
    families = ordered(reported)
    roots = set(report.verdict.root_keys) if report else set()
    first = [family for family in families if family[0].key in roots]
    yield _section("Root cause" if len(first) == 1 else "Root causes, most likely first", stack_html.blocks(first))
    if report:
        yield _section(likely_heading(report), _list(map(_candidate, likely(report))))
    rest = [family for family in families if family[0].key not in roots]
    yield _of(Severity.ERROR, rest)
    yield _of(Severity.WARNING, rest)
    if bench:
        yield _section("Measured", bench_html.figures(bench))
    if report:
        yield _section("The stack, top first", _stack(report))
    yield _of(Severity.UNKNOWN, rest)
    yield _of(Severity.INFO, rest)
    if report:
        yield _section("Pythons", _list(map(_python, report.environments)) if len(report.environments) > 1 else "")
        yield _section("Not checked", _list(map(_unseen, report.not_seen)))
    tool = reported.tool
    yield tag("p", safe(f"gpustack {tool.version}, matrix of {tool.matrix_date}"), "soft about")


def _head(reported: Reported) -> str:
    """Return the verdict, the sentence behind it, which machine it is, and what works."""
    word, said = headline(reported)
    report, number = diagnosis(reported), counted(reported)
    counts = [f"{number[one]} {words[number[one] != 1]}" for one, words in COUNTED.items() if number[one]]
    about = [
        where(report.host) if report else "",
        f"taken {reported.taken}" if reported.taken else "",
        ", ".join(counts),
    ]
    bench = measured(reported)
    about += remarks(bench) if bench else ()
    if isinstance(reported, CheckReport):
        about.insert(1, f"verdict of the doctor: {reported.verdict.status.value}")
    begun = f"{said[:1].upper()}{said[1:]}" if said in SAID.values() else said  # others may begin with a name
    inside = tag("span", safe(word), "badge") + tag("h1", safe(begun))
    inside += "".join(tag("p", safe(line), "soft") for line in about if line)
    if report and report.verdict.works:
        chips = (_chip(name, answer) for name, answer in report.verdict.works.items())
        inside += tag("ul", "".join(chips), "works")
    return tag("header", inside, f"card top tone-{TONES[standing(reported).value]}")


def _chip(name: str, answer: bool | None) -> str:  # noqa: FBT001 - the answer itself
    return tag("li", f"{tag('b', safe(name))} {WORKS[answer]}", f"tone-{ANSWER[answer]}")


def _section(heading: str, inside: str) -> str:
    """Return a part of the page with its heading, or nothing where nothing is in it."""
    return tag("section", tag("h2", heading) + inside) if inside else ""


def _of(severity: Severity, families: list[Family]) -> str:
    return _section(SECTIONS[severity], stack_html.blocks([one for one in families if one[0].severity is severity]))


def _stack(report: Report) -> str:
    """Return the boxes of the layers, with the components that findings speak of marked."""
    roots, faults = set(report.verdict.root_keys), dict[str, str]()
    for one in report.findings:
        if one.severity in {Severity.ERROR, Severity.WARNING}:
            word = "at fault" if one.key in roots else "affected" if one.caused_by else one.severity.value
            if faults.get(one.component, "affected") == "affected":
                faults[one.component] = word
    return stack_html.boxes(report.components, [one for one in report.contracts if one.kind != TECHNIQUE], faults)


def _list(items: Iterator[str]) -> str:
    inside = "".join(tag("li", item) for item in items)
    return tag("div", tag("ul", inside, "plain"), "card") if inside else ""


def _candidate(one: tuple[str, str, tuple[str, ...], Decide]) -> str:
    what, place, speaking, decide = one
    commands = "".join(tag("pre", safe(command)) for command in decide.commands)
    said = "".join(tag("p", safe(line), "soft") for line in (*speaking, f"To decide: {decide.text}"))
    return f"{tag('b', safe(what))} ({safe(place)}){said}{commands}"


def _python(one: EnvironmentVerdict) -> str:
    works = "; ".join(f"{name} {WORKS[answer]}" for name, answer in one.works.items()) or "nothing that uses a GPU"
    said = f"({one.kind}, version {one.version or 'unknown'}): {works}"
    return f"{tag('code', safe(one.python))} {safe(said)}"


def _unseen(one: Unseen) -> str:
    help_ = f". To see it: {one.enable_by}" if one.enable_by else ""
    return safe(f"{one.what}: {one.why}{help_}")
