"""The results of a health check, of a comparison of two snapshots, and of the self-test, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.difference import Changed, Difference, Side, Told, Turn
from gpustack.model.matrix_answer import Part, SelfTest
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.model.report import Health, Severity
from gpustack.report import text
from gpustack.report.bench_many import ID_COLUMNS, NUMBER_COLUMNS, UNIT_COLUMNS, VERDICT, gathered, many, number, own
from gpustack.report.bench_text import bar, card
from gpustack.report.lines import Line, block, indent, renderer, say, section, title, write
from gpustack.report.parts import cause, figures
from gpustack.report.summary import alike, few, listed

if TYPE_CHECKING:
    from gpustack.report.page import Page

CLASSES = {
    HealthClass.OK: ("ok", "OK", "good", ""),
    HealthClass.DEGRADED: ("warn", "DEGRADED", "warning", "It works, with limits."),
    HealthClass.BAD_HOST: ("bad", "BAD HOST", "error", "Another host may work: requeue the job elsewhere."),
    HealthClass.BAD_ENVIRONMENT: (
        *("bad", "BAD ENVIRONMENT", "error"),
        "The fault is in what was installed or configured for this job; another host will not help.",
    ),
    HealthClass.UNKNOWN: ("ask", "UNKNOWN", "unknown", "Too little is known to decide."),
}
ROWS = {True: ("ok", "good"), False: ("bad", "error"), None: ("none", "dim")}
ORDER = (False, None, True)
MARKS = {Turn.NEW: ("bad", "error"), Turn.GONE: ("ok", "good"), Turn.CHANGED: ("warn", "warning")}
HEADS = {Turn.NEW: "new", Turn.GONE: "gone", Turn.CHANGED: "changed severity"}
SECTIONS = ("WHAT IT MEANS", "CHANGES THAT MATTER", "OTHER CHANGES", "PACKAGES")
DISTRIBUTION = "distribution"
MOST_PACKAGES = 12
NAMES = {
    Part.RULE: "checks fire on a machine that has the fault they look for",
    Part.GUARD: "probes that hang or crash are stopped and reported, and the others still answer",
}


def lines(report: CheckReport, page: Page) -> Iterator[Line]:
    """Yield the lines: the class, the policy rules and figures that failed, and the doctor's root causes."""
    mark, word, style, meaning = CLASSES[report.class_]
    yield text.verdict(mark, word, style, report.why, page)
    if page.quiet:
        return
    if meaning:
        yield say(page, meaning, lead="  ")
    yield from _policy(report.policy, page)
    if report.bench and report.bench.results:
        name = f"{'QUICK BENCH' if report.bench.quick else 'BENCH'}, {figures(report.bench)}"
        yield from _part(name, _bench(report.bench, page), page)
    known = report.verdict.status is Health.NO_GPU or cause(report) in report.why
    if page.verbose or not known:
        yield from (Line(), say(page, ("THE DOCTOR", "head")))
        yield from text.head(report, page)
    yield from text.body(report, page)


def _policy(policy: Sequence[Held], page: Page) -> Iterator[Line]:
    """Yield the rules that fail and those that could not be checked; all with ``-v``."""
    if policy:
        rows = [row for row in policy if page.verbose or row.ok is False or row.unseen]
        judged = [row.ok for row in policy if row.ok is not None or row.unseen]
        name = f"POLICY, {judged.count(True)} of {len(judged)} rules hold"
        yield from _part(name, (_rule(row, page) for row in sorted(rows, key=lambda row: ORDER.index(row.ok))), page)


def _part(heading: str, inside: Iterator[Line], page: Page) -> Iterator[Line]:
    """Yield a section, or only its heading if nothing in it needs to be read."""
    yield from list(section(heading, inside, page)) or [say(page, heading.lower(), lead="  ")]


def _rule(row: Held, page: Page) -> Line:
    """Return one rule of the policy: its mark, name, result, requirement, and where it is written."""
    mark, style = ("ask", "unknown") if row.unseen else ("warn", "warning") if row.warns else ROWS[row.ok]
    wanted = f" (wanted: {row.wanted})" if row.wanted != row.found or row.ok is not True else ""
    place = f" [{row.place}]" if row.place and (row.ok is not True or page.verbose) else ""
    head = (f"{page.mark(mark)} ", style), (row.rule, "head")
    return say(page, *head, f": {row.found}{wanted}", (place, "dim"), hang="  ")


def _bench(bench: BenchReport, page: Page) -> Iterator[Line]:
    """Yield a row for each figure, one for those skipped, and the problems."""
    if bench.interrupted:
        yield say(page, ("! stopped early: ", "warning"), bench.interrupted)
    several = len({one.device for one in bench.results if one.verdict is not Mark.SKIPPED}) > 1
    each, shown = own(bench), set[int | None]()
    if len(each) > 1 and page.verbose:
        shown = {device.index for device in each}
        yield from many(each, {device: card(device) for device in each}, page)
    hidden = {Mark.SKIPPED} if page.verbose else {Mark.SKIPPED, Mark.OK}
    for one in bench.results:
        if one.verdict not in hidden and (one.gpus or one.device not in shown):
            yield _figure(one, page, several=several)
    skipped = dict.fromkeys(one.id for one in bench.results if one.verdict is Mark.SKIPPED)
    if skipped and page.verbose:
        said = f"skipped: {', '.join(skipped)}"
        yield say(page, (said, "dim"), lead=f"{page.mark('none')} ")
    grave = [one for one in bench.findings if one.severity in {Severity.ERROR, Severity.WARNING}]
    for first, others in alike(gathered(grave, bench.results)):
        if page.verbose:
            yield Line()
            yield from block(first, others, (), page)
        else:
            yield replace(title(first, page), short=True)


def _figure(one: Result, page: Page, *, several: bool) -> Line:
    mark, word, style = VERDICT[one.verdict]
    state = (f"{page.mark(mark)} {word}", style)
    name = one.id + (one.place() if several or one.gpus else "")
    part = "" if one.ratio is None else f"{one.ratio:.0%}"
    if page.narrow or len(name) >= ID_COLUMNS:
        limit = f", {part} of the limit" if part else ""
        return say(page, (name, "head"), f": {number(one.value)} {one.unit}{limit}: ", state)
    full, rest = bar(one.ratio, page)
    figure = f"{number(one.value):>{NUMBER_COLUMNS}} {one.unit:<{UNIT_COLUMNS}} "
    return say(
        page, figure, (full, style), (rest, "dim"), f" {part:>4}  ", state, lead=(f"{name:<{ID_COLUMNS}}", "head")
    )


render = renderer(lines)


def diff_lines(found: Difference, page: Page) -> Iterator[Line]:
    """Yield the lines: the two verdicts, findings that appeared or disappeared, relevant changes, and the others."""
    count = len(found.changes)
    said = "nothing changed" if not count else f"{count} change{'s' if count > 1 else ''}"
    came = sum(one.turn is Turn.NEW for one in found.findings)
    went = sum(one.turn is Turn.GONE for one in found.findings)
    then, now = (side.status.value.upper() for side in (found.before, found.after))
    verdict = f"{then} before and after" if then == now else f"{then} → {now}"
    told = f"{verdict}: {said}, {came} new finding{'s' if came != 1 else ''}, {went} gone."
    yield say(page, (told, "head"), hang="  ")
    yield from indent(2, (say(page, f"{word}: {_side(side)}") for word, side in _sides(found)))
    grave = [one for one in found.findings if page.verbose or Severity.INFO not in {one.before, one.after} - {None}]
    notes = len(found.findings) - len(grave)
    yield from section(SECTIONS[0], _findings(grave, notes, page), page)
    matter = {one.key for one in grave}
    first = [one for one in found.changes if matter & set(one.matters)]
    rest = [one for one in found.changes if one not in first]
    packages = [one for one in rest if one.what == DISTRIBUTION]
    yield from section(SECTIONS[1], _changes(first, page), page)
    yield from section(SECTIONS[2], _changes([one for one in rest if one.what != DISTRIBUTION], page), page)
    yield from section(SECTIONS[3], _packages(packages, page), page)
    made = f"gpustack {found.tool.version}, matrix of {found.tool.matrix_date}"
    same = f"{found.same} component{'s are' if found.same != 1 else ' is'} the same"
    yield from (Line(), say(page, (f"{made}; {same}.", "dim")))


def _sides(found: Difference) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("before", found.before), ("after", found.after)


def _side(side: Side) -> str:
    causes = f"; at fault: {listed(side.root_causes)}" if side.root_causes else ""
    where = ", ".join(filter(None, (side.path, side.hostname, f"taken {side.taken}" if side.taken else None)))
    return f"{where or 'a machine'}{causes}"


def _findings(findings: Sequence[Told], notes: int, page: Page) -> Iterator[Line]:
    """Yield each root cause that appeared or disappeared, the number of its consequences, and the change behind it."""
    known = {one.key for one in findings}
    follow: dict[str, int] = {}
    for one in findings:
        if one.caused_by in known:
            follow[one.caused_by or ""] = follow.get(one.caused_by or "", 0) + 1
    for one in findings:
        if one.caused_by in known and not page.verbose:
            continue
        mark, style = MARKS[one.turn]
        weight = (one.after or one.before or Severity.INFO).value
        head = f"{page.mark(mark)} {HEADS[one.turn]} ({weight}): "
        yield say(page, (head, style), (one.title, "head"), f" [{one.key}]", hang="  ")
        behind = few(one.because_of) if one.because_of else "no compared value changed; the fault itself is new"
        said = f"behind it: {behind}" if one.because_of or one.turn is Turn.NEW else ""
        more = f"{follow[one.key]} more follow{'s' * (follow[one.key] == 1)} from it" if one.key in follow else ""
        if told := "; ".join(filter(None, (said, more))):
            yield say(page, told, lead="    ")
    if notes:
        yield say(page, (f"{notes} note{'s' if notes > 1 else ''} came or went: -v lists them.", "dim"))


def _changes(changes: Sequence[Changed], page: Page) -> Iterator[Line]:
    """Yield a row for each change; identical changes of several components share one."""
    groups: dict[tuple[str | None, str | None], list[Changed]] = {}
    for one in changes:
        alike = (one.before, one.after) if one.before and one.after else (str(len(groups)), None)
        groups.setdefault(alike, []).append(one)
    for group in groups.values():
        first = group[0]
        names = list(dict.fromkeys(_name(one) for one in group))
        said = {Turn.NEW: f"{first.after} (new)", Turn.GONE: f"{first.before} (gone)"}
        told = said.get(first.turn, f"{first.before} → {first.after}")
        yield say(page, (few(names, 6), "head"), f": {told}", lead="- ")


def _name(one: Changed) -> str:
    what = "" if one.what in {"version", DISTRIBUTION} else f" {one.what}"
    return f"{one.component}{what}" + (f" at {one.where}" if one.where else "")


def _packages(changes: Sequence[Changed], page: Page) -> Iterator[Line]:
    """Yield the distributions that were added, removed or changed; only a few unless all are requested."""
    told = [f"{one.component} {one.before or 'none'} → {one.after or 'gone'}" for one in changes]
    if told:
        yield say(page, few(told, len(told) if page.verbose else MOST_PACKAGES), lead="- ")


def _text(tested: SelfTest, page: Page) -> Iterator[Line]:
    for part, name in NAMES.items():
        proofs = [proof for proof in tested.proofs if proof.part is part]
        held = sum(proof.held for proof in proofs)
        mark = ("ok", "good") if held == len(proofs) else ("bad", "error")
        yield say(page, f"{held} of {len(proofs)} {name}", lead=(f"{page.mark(mark[0])} ", mark[1]))
        for proof in proofs:
            if not proof.held or page.verbose:
                shown = ("ok", "good") if proof.held else ("bad", "error")
                lead = write(page, f"  {page.mark(shown[0])} ")
                yield say(page, (proof.name, shown[1]), f": {proof.says}", lead=lead)
    end = "All held" if tested.held else "Some tests failed: do not trust this installation; reinstall it"
    yield say(page, f"{end} ({tested.seconds:.1f} s).")


render_diff = renderer(diff_lines)


render_selftest = renderer(_text)
