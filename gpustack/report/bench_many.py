"""The figures of several GPUs of one node: a table with the GPUs as columns, and which fall short where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from gpustack.model.bench import BenchReport, Device, Mark, Result
from gpustack.report.lines import Line, indent, say, write
from gpustack.report.parts import numbered
from gpustack.report.summary import listed

if TYPE_CHECKING:
    from gpustack.model.report import Finding
    from gpustack.report.page import Page

VERDICT = {
    Mark.OK: ("ok", "ok", "good"),
    Mark.LOW: ("warn", "low", "warning"),
    Mark.UNSTEADY: ("ask", "unsteady", "unknown"),
    Mark.FAILED: ("bad", "failed", "error"),
    Mark.SKIPPED: ("none", "skipped", "dim"),
}
TOLD_BELOW = (Mark.LOW, Mark.FAILED)  # the remedies for these are in their findings
ID_COLUMNS, NUMBER_COLUMNS, UNIT_COLUMNS, DIGITS = 18, 7, 8, 4
CELL_COLUMNS, LIMIT_COLUMNS = 8, NUMBER_COLUMNS + UNIT_COLUMNS


def number(value: float | None) -> str:
    """Return a figure with its four significant digits."""
    if value is None:
        return "none"
    before = len(f"{abs(value):.0f}") if 1 <= abs(value) < 10**NUMBER_COLUMNS else 0
    return f"{value:.{max(0, DIGITS - before)}f}" if before else f"{value:.{DIGITS}g}"


def own(report: BenchReport) -> dict[Device, list[Result]]:
    """Return what was measured on each GPU by itself, for GPUs that had anything to measure."""
    mine = {
        device: [one for one in report.results if one.device == device.index and not one.gpus]
        for device in report.devices
    }
    return {device: results for device, results in mine.items() if results}


def skipped(results: Sequence[Result]) -> Iterator[tuple[str, str | None]]:
    """Yield what was skipped, one line per reason, with the command that would enable it."""
    groups: dict[tuple[tuple[str, ...], str | None], list[str]] = {}
    for one in results:
        if one.verdict is Mark.SKIPPED:
            groups.setdefault((one.why, one.remedy), []).append(one.name())
    for (why, remedy), names in groups.items():
        yield f"skipped: {', '.join(names)}" + "".join(f"; {reason}" for reason in why), remedy


def gathered(findings: Sequence[Finding], results: Sequence[Result]) -> Iterator[Finding]:
    """Yield the findings, merging those of several figures of one GPU."""
    place = {f"{one.id}{one.place()}": one for one in results}
    groups: dict[tuple[str, int | str | None], list[Finding]] = {}
    for finding in findings:
        of = place.get(finding.instance or "")
        key = of.device if of and not of.gpus else finding.key
        groups.setdefault((finding.id, key), []).append(finding)
    for (_, gpu), held in groups.items():
        if len(held) == 1:
            yield held[0]
            continue
        names = listed([(one.instance or "").partition(" ")[0] for one in held])
        figures = [place[one.instance or ""] for one in held]
        shared = _shared(figures) or list(figures[0].why)
        commands = dict.fromkeys(command for one in held if one.fix for command in one.fix.commands)
        text = next((one.fix.text for one in held if one.fix), "")
        fix = replace(held[0].fix, text=text, commands=tuple(commands)) if held[0].fix else None
        word = "low" if held[0].id == "bench-low" else held[0].id.removeprefix("bench-")
        yield replace(
            held[0],
            instance=f"GPU {gpu}",
            title=f"GPU {gpu}: {len(held)} figures {word} ({names})",
            detail="; ".join(shared),
            because=tuple(because for one in held for because in one.because if because.fact != "limit"),
            fix=fix,
        )


def many(each: Mapping[Device, Sequence[Result]], cards: Mapping[Device, str], page: Page) -> Iterator[Line]:
    """Yield a table of several GPUs: a row for each figure, a column for each GPU, and low figures below."""
    alike_: dict[str, list[int]] = {}
    for device in each:
        alike_.setdefault(cards[device].partition(": ")[2], []).append(device.index)
    yield Line()
    for card, gpus in alike_.items():
        yield say(page, (f"{numbered(gpus)}: {card}", "head"), hang="  ")
    names = list(
        dict.fromkeys(one.id for results in each.values() for one in results if one.verdict is not Mark.SKIPPED)
    )
    known = {(one.id, device.index): one for device, results in each.items() for one in results}
    columns = [device.index for device in each]
    fit = max(1, (page.width - ID_COLUMNS - LIMIT_COLUMNS) // CELL_COLUMNS)
    for at in range(0, len(columns), fit):
        gpus = columns[at : at + fit]
        head = "".join(f"{f'GPU {gpu}':>{CELL_COLUMNS}}" for gpu in gpus)
        yield say(page, (f"{'':{ID_COLUMNS}}{'limit':>{NUMBER_COLUMNS}}{'':{UNIT_COLUMNS}}{head}", "dim"))
        for name in names:
            yield _across(name, [known.get((name, gpu)) for gpu in gpus], page)
    for device, results in each.items():
        short = [one for one in results if one.verdict in TOLD_BELOW]
        yield from indent(2, _short(device, short, page))
    skipped: dict[str, list[str]] = {}
    for device, results in each.items():
        for one in results:
            if one.verdict is Mark.SKIPPED:
                skipped.setdefault("; ".join(one.why), []).append(f"{one.id} (GPU {device.index})")
    for why, those in skipped.items():
        ids = list(dict.fromkeys(one.partition(" ")[0] for one in those))
        yield say(page, (f"{page.mark('none')} skipped: {', '.join(ids)}; {why}", "dim"), hang="  ")


def _across(name: str, row: Sequence[Result | None], page: Page) -> Line:
    """Return one figure of all GPUs, with the low one marked."""
    there = [one for one in row if one]
    limit = next((one.ceiling for one in there if one.ceiling), None)
    unit = there[0].unit if there else ""
    said = number(limit) if limit else ""
    cells: list[tuple[str, str]] = []
    for one in row:
        mark, word, style = VERDICT[one.verdict] if one else VERDICT[Mark.SKIPPED]
        skipped = one is None or one.verdict is Mark.SKIPPED
        shown = number(one.value) if one and one.value is not None else page.mark("none") if skipped else word
        sign = page.mark(mark) if one and one.verdict in TOLD_BELOW else " "
        cells.append((f"{shown:>{CELL_COLUMNS - 1}}{sign}", style if sign != " " else "plain"))
    body = write(
        page, (f"{name:<{ID_COLUMNS}}", "head"), f"{said:>{NUMBER_COLUMNS}} {unit:<{UNIT_COLUMNS - 1}}", *cells
    )
    return Line(body=body, whole=cell_len(body.plain) <= page.width)


def _short(device: Device, short: Sequence[Result], page: Page) -> Iterator[Line]:
    """Yield why figures of one GPU fall short, unless the reason is the same for all of them."""
    shared = _shared(short)
    for one in short:
        mark, word, style = VERDICT[one.verdict]
        why = "; ".join(why for why in one.why if why not in shared)
        said = f"{one.id} on GPU {device.index} {word}" + (f": {why}" if why else "")
        yield say(page, said, lead=(f"{page.mark(mark)} ", style))


def _shared(results: Sequence[Result]) -> list[str]:
    """Return what applies to more than one of these figures."""
    counts = Counter(why for one in results for why in dict.fromkeys(one.why))
    return [why for why, count in counts.items() if count > 1]
