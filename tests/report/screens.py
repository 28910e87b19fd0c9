"""Rules for the first screen of every report: its length, a matching headline, and nothing contradictory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from gpustack.model.report import Health, Severity
from gpustack.report import report_markdown
from gpustack.report.parts import cause
from gpustack.report.summary import alike
from gpustack.report.text import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.report import Report

WIDTH, ONE_CAUSE, ANOTHER, WELL, PASTED = 80, 24, 8, 8, 40


def height(text: str) -> int:
    """Return how many rows of an 80-column terminal the text takes, including its long commands."""
    return sum(-(-cell_len(line) // WIDTH) or 1 for line in text.splitlines())


def wrong(report: Report) -> Iterator[str]:
    """Yield each rule that the first screen of this report breaks."""
    text = render(report, example="examples/driver-too-old.json")
    by_key = {one.key: one for one in report.findings}
    roots = [by_key[key] for key in report.verdict.root_keys]
    most = WELL if report.verdict.status in {Health.HEALTHY, Health.NO_GPU} else ONE_CAUSE
    most += ANOTHER * max(0, len(list(alike(roots))) - 1)
    if height(text) > most:
        yield f"the screen takes {height(text)} rows of {most}:\n{text}"
    flat, said = "".join(text.split()), cause(report)  # a long path is broken where it has no space
    if "".join(f": {said}.".split()) not in flat:
        yield f"the headline is not {said!r}:\n{text}"
    if roots and not said.startswith(roots[0].title.rstrip(".")):
        yield f"the headline is {said!r}, the first root cause {roots[0].title!r}"
    if roots and roots[0].fix:
        yield from (f"{one} is not on the screen" for one in roots[0].fix.commands if one not in text)
    if report.verdict.status is Health.DEGRADED and not any(one.severity is not Severity.INFO for one in roots):
        yield "a note alone makes it degraded"
    if "not checked" in text.lower() and "everything" in text.lower():
        yield f"it says that all was checked, and what was not:\n{text}"
    pasted = report_markdown.render(report)
    if len(list(alike(roots))) <= 1 and len(pasted.splitlines()) > PASTED:
        yield f"the Markdown has {len(pasted.splitlines())} lines of {PASTED}:\n{pasted}"
    if len(render(report, quiet=True).splitlines()) != 1:
        yield "the quiet report is not one line"
