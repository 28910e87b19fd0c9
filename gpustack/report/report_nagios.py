"""A report as the line of a Nagios plugin: one word, one sentence, performance data; the findings on further lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.model.report import Severity
from gpustack.report.page import clean
from gpustack.report.parts import NOTHING, Told, counted, diagnosis, every, headline, measured, policy, standing, unkept

if TYPE_CHECKING:
    from gpustack.model.bench import Result
    from gpustack.report.parts import Reported

CUT = "..."
FIRST_LINE = 80  # what node-problem-detector keeps, and most pagers show
COUNTS = {
    Severity.ERROR: "errors",
    Severity.WARNING: "warnings",
    Severity.UNKNOWN: "unknown",
    Severity.INFO: "notes",
}


def render(reported: Reported, told: Told = NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Give the line, and below it a line for each finding and each row of the policy that is not kept."""
    lead = f"GPUSTACK {standing(reported).value} - "
    said = _short(_text(_said(reported)), FIRST_LINE - len(lead))
    rows = [f"policy: {row.rule}: wanted {row.wanted}; found {row.found}" for row in unkept(reported)]
    rows += [f"{one.severity.value}: {one.title} [{one.key}]" for one in every(reported)]
    return "\n".join([f"{lead}{said} | {' '.join(_performance(reported))}", *map(_text, rows)]) + "\n"


def _said(reported: Reported) -> str:
    """Give the sentence; a class of the check says whose fault it is."""
    word, said = headline(reported)
    return f"{word}: {said}" if policy(reported) or word.startswith("bad-") else said


def _performance(reported: Reported) -> Iterator[str]:
    """Give how many findings there are of each kind, each figure's part of its limit, and how long it took."""
    number = counted(reported)
    yield from (f"{COUNTS[severity]}={number[severity]};;;0" for severity in COUNTS)
    bench, report = measured(reported), diagnosis(reported)
    for result in bench.results if bench else ():
        if result.ratio is not None and _finite(result.ratio * 100):
            yield _figure(result)
    took = [held.seconds for held in (report, bench) if held and _finite(held.seconds)]
    yield f"time={sum(took):.3f}s;;;0"


def _figure(result: Result) -> str:
    """Give a figure's part of its limit in percent, under its name: no quotes and no equals sign may be in that."""
    label = "".join(letter for letter in clean(f"{result.id}{result.place()}") if letter not in "'=|\"")
    return f"'{label}'={(result.ratio or 0.0) * 100:.1f}%;;;0"


def _finite(value: float | None) -> bool:
    return value is not None and value - value == 0 and value >= 0


def _text(text: str) -> str:
    """Give the text on one line, without the sign that begins performance data."""
    return clean(text).replace("|", "/").strip()


def _short(text: str, most: int) -> str:
    """Give the text, or as many whole words of it as there is room for."""
    if len(text) <= most:
        return text
    words, room = text[: most - len(CUT) + 1].rpartition(" ")[0], text[: most - len(CUT)]
    return f"{(words or room).rstrip(' ,;:')}{CUT}"
