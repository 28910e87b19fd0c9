"""A report as annotations of GitHub Actions: a line for each root cause and row of the policy that is not kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.model.report import Severity
from gpustack.report.findings import alike, sentences
from gpustack.report.page import clean
from gpustack.report.parts import NOTHING, Told, headline, means, ordered, unkept
from gpustack.report.places import Place, of_finding, of_row

if TYPE_CHECKING:
    from gpustack.model.report import Finding
    from gpustack.report.parts import Reported

COMMANDS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.UNKNOWN: "notice",
    Severity.INFO: "notice",
}


def render(reported: Reported, told: Told = NOTHING) -> str:
    """Give the lines, the gravest first; GitHub shows ten of each kind, so what is alike is one line."""
    lines = [*_policy(reported), *_findings(reported, told)]
    word, said = headline(reported)
    return "".join(f"{line}\n" for line in lines or [_line("notice", f"gpustack: {word}", [said])])


def _policy(reported: Reported) -> Iterator[str]:
    for row in unkept(reported):
        lines = [f"wanted {row.wanted}; found {row.found}", means(row)]
        yield _line("notice" if row.ok is None else "error", f"policy: {row.rule}", lines, of_row(row))


def _findings(reported: Reported, told: Told) -> Iterator[str]:
    families = ordered(reported)
    by_head = {head.key: follow for head, follow in families}
    for first, others in alike(head for head, _ in families):
        follow = [one for head in (first, *others) for one in by_head[head.key]]
        lines = [first.key, *sentences(first, follow), *_others(others)]
        place = of_finding(first, reported, told) if told.origins else None
        yield _line(COMMANDS[first.severity], first.title, lines, place)


def _others(others: tuple[Finding, ...]) -> Iterator[str]:
    if others:
        yield "The same holds for:"
        yield from (f"- {one.title} [{one.key}]" for one in others)


def _line(command: str, title: str, lines: list[str], place: Place | None = None) -> str:
    """Give one annotation; nothing in it can end it or begin another."""
    where = [f"file={_property(place.path)}"] if place else []
    where += [f"line={place.line}"] if place and place.line else []
    message = "%0A".join(_data(clean(line)) for line in lines if line)
    return f"::{command} {','.join([*where, f'title={_property(clean(title))}'])}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
