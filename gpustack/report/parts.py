"""What every form of a report shares: which findings in which order, what came of each row, and the whole in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.facts import Host, product
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.model.report import Candidate, Contract, Decide, Finding, Health, Kept, Report, Severity
from gpustack.report.summary import Family, alike, families, ground, listed

Reported: TypeAlias = "Report | BenchReport"
WORST = (Mark.FAILED, Mark.LOW, Mark.UNSTEADY, Mark.OK, Mark.SKIPPED)
WORTH_TELLING = 0.03  # the weight of a likely cause
TEXT = "text"  # the component of a ground that is words
TECHNIQUE = "technique"  # what a server can do here: what it cannot do is not a fault


class Outcome(str, Enum):
    """What came of one row. ``skipped`` is what was not checked or measured; ``note`` is worth knowing, no fault."""

    OK = "ok"
    NOTE = "note"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"


class Standing(str, Enum):
    """The whole in the four words that monitoring knows."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a form is given beside the report: the files it was made from, what each rule means, and what fails.

    ``origins`` are what was given to be read, each with its path as a reader of the form knows it.
    """

    origins: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    failing: frozenset[Severity] = frozenset({Severity.ERROR})


NOTHING = Told()
MEANS = {
    HealthClass.OK: "",
    HealthClass.DEGRADED: "It works, with limits.",
    HealthClass.BAD_HOST: "The host is at fault: requeue the job elsewhere.",
    HealthClass.BAD_ENVIRONMENT: "The fault is in what this job installed or configured; another host will not help.",
    HealthClass.UNKNOWN: "Too little could be examined to say whose fault it is.",
}
SAID = {
    Health.HEALTHY: "no problem was found",
    Health.DEGRADED: "the GPU works, with limits",
    Health.BROKEN: "something in the stack is broken",
    Health.NO_GPU: "no GPU was found on this machine, which is not a fault",
    Health.UNKNOWN: "too little is known to judge",
}
WORKS = {True: "can use the GPU", False: "cannot use the GPU", None: "not tested"}
CPU_BUILD = "cpu-only-build"
WEIGHS = {
    Severity.ERROR: Outcome.ERROR,
    Severity.WARNING: Outcome.WARNING,
    Severity.UNKNOWN: Outcome.SKIPPED,
    Severity.INFO: Outcome.NOTE,
}
MEASURED = {
    Mark.OK: Outcome.OK,
    Mark.LOW: Outcome.WARNING,
    Mark.UNSTEADY: Outcome.NOTE,
    Mark.FAILED: Outcome.ERROR,
    Mark.SKIPPED: Outcome.SKIPPED,
}
DRAWN = {Kept.OK: Outcome.OK, Kept.LIMITED: Outcome.NOTE, Kept.BROKEN: Outcome.ERROR, Kept.UNKNOWN: Outcome.SKIPPED}
STANDING = {
    **dict.fromkeys(("healthy", "no-gpu", "ok", "unsteady"), Standing.OK),
    **dict.fromkeys(("degraded", "low"), Standing.WARNING),
    **dict.fromkeys(("broken", "bad-host", "bad-environment", "failed"), Standing.CRITICAL),
    **dict.fromkeys(("unknown", "skipped"), Standing.UNKNOWN),
}


def diagnosis(reported: Reported) -> Report | None:
    """Return what the doctor says, where it was asked."""
    return reported if isinstance(reported, Report) else None


def measured(reported: Reported) -> BenchReport | None:
    """Return what was measured, where something was."""
    if isinstance(reported, CheckReport):
        return reported.bench
    return reported if isinstance(reported, BenchReport) else None


def policy(reported: Reported) -> tuple[Held, ...]:
    """Return the rules of the policy as they were checked against the machine."""
    return reported.policy if isinstance(reported, CheckReport) else ()


def unkept(reported: Reported) -> tuple[Held, ...]:
    """Return the rules of the policy that fail, and those of which nobody could see whether they do."""
    return tuple(row for row in policy(reported) if row.ok is False or row.unseen)


def means(row: Held) -> str:
    """Return whose fault it is that a rule of the policy is not kept; nothing where it is kept or does not apply."""
    if row.ok is None:
        return "It could not be checked, so it does not count as met." if row.unseen else ""
    return "" if row.ok else MEANS[row.whose]


def ordered(reported: Reported) -> tuple[Family, ...]:
    """Return the findings of the doctor and the bench, causes with what follows from them, the root causes first."""
    report, bench = diagnosis(reported), measured(reported)
    every = {one.key: one for held in (report, bench) if held for one in held.findings}
    first, rest = families(tuple(every.values()), report.verdict.root_keys if report else ())
    return (*first, *sorted(rest, key=by_severity))


def every(reported: Reported) -> tuple[Finding, ...]:
    """Return the same findings one after another, each consequence after its cause."""
    return tuple(one for head, follow in ordered(reported) for one in (head, *follow))


def counted(reported: Reported) -> Mapping[Severity, int]:
    """Return how many findings there are of each severity, those that follow from others too."""
    number = Counter(one.severity for one in every(reported))
    return {severity: number[severity] for severity in Severity}


def of_policy(row: Held) -> Outcome:
    """Return what came of a rule of the policy."""
    unsure = Outcome.SKIPPED if row.unseen else Outcome.NOTE  # nobody could look, or it does not apply
    return {True: Outcome.OK, False: Outcome.WARNING if row.warns else Outcome.ERROR, None: unsure}[row.ok]


def of_contract(edge: Contract, chosen: str | None) -> Outcome:
    """Return what came of a contract; one that is broken in a Python beside the chosen one breaks nothing."""
    outcome = DRAWN[edge.status]
    if outcome is Outcome.ERROR and edge.kind == TECHNIQUE:
        return Outcome.NOTE
    beside = edge.environment is not None and edge.environment != chosen
    return Outcome.WARNING if outcome is Outcome.ERROR and beside else outcome


def of_result(result: Result, findings: Sequence[Finding]) -> tuple[Outcome, Finding | None]:
    """Return what came of a figure, and the finding that speaks of it."""
    name = f"{result.id}{result.place()}"
    speaks = (one for one in findings if one.id == f"bench-{result.verdict.value}" and one.instance == name)
    return MEASURED[result.verdict], next(speaks, None)


def standing(reported: Reported) -> Standing:
    """Return the whole in a word that monitoring knows; a check goes by its class, a bench by its worst figure."""
    return STANDING[headline(reported)[0]]


def worst(bench: BenchReport) -> Mark:
    """Return the mark of the worst figure; nothing measured is nothing known."""
    there = {Mark.OK if wavers(one) else one.verdict for one in bench.results}
    return next((mark for mark in WORST if mark in there), Mark.SKIPPED)


def headline(reported: Reported) -> tuple[str, str]:
    """Return the whole in a word and a sentence without its end."""
    if isinstance(reported, CheckReport):
        return reported.class_.value, reported.why.rstrip(".") or cause(reported)
    if isinstance(reported, Report):
        return reported.verdict.status.value, cause(reported)
    return worst(reported).value, figures(reported)


def wavers(result: Result) -> bool:
    """Tell whether a figure is unsteady that the host decides: it has a range, and says nothing of the GPU."""
    return result.verdict is Mark.UNSTEADY and result.ceiling is None and result.value is not None


def figures(bench: BenchReport) -> str:
    """Say how many figures there are of each kind, and of several GPUs which ones fall short."""
    held = [one for one in bench.results if not wavers(one)]
    counts = Counter(one.verdict for one in held)
    there = [mark for mark in WORST if counts[mark]]
    if not bench.results:
        return "no figures"
    gpus = sorted({one.device for one in bench.results if one.device is not None and one.value is not None})
    named = {mark: _named(held, mark) if len(gpus) > 1 else "" for mark in (Mark.FAILED, Mark.LOW)}
    told = [f"{counts[one]} {one.value}{named.get(one, '')}" for one in there]
    said = f"all {there[0].value}" if len(there) == 1 and not named.get(there[0]) else listed(told)
    rest = len(bench.results) - len(held)
    waver = f"; {rest} var{'y' if rest > 1 else 'ies'} with the host" if rest else ""
    many = f"{len(gpus)} GPUs, " if len(gpus) > 1 else ""
    return f"{many}{len(bench.results)} figure{'s' * (len(bench.results) != 1)}: {said}{waver}"


def _named(results: Sequence[Result], mark: Mark) -> str:
    gpus = sorted({one.device for one in results if one.verdict is mark and one.device is not None})
    return f" ({numbered(gpus)})" if gpus else ""


def numbered(gpus: Sequence[int]) -> str:
    """Return GPUs in words: GPU 2, GPUs 0 to 3, GPUs 0, 2 and 5."""
    if len(gpus) > 2 and list(gpus) == list(range(gpus[0], gpus[-1] + 1)):  # noqa: PLR2004 - two are named
        return f"GPUs {gpus[0]} to {gpus[-1]}"
    return f"GPU{'s' * (len(gpus) > 1)} {listed([str(gpu) for gpu in gpus])}"


def remarks(bench: BenchReport) -> tuple[str, ...]:
    """Say what must be known of all figures: that the run ended early, or was a quick one."""
    early = (f"stopped early: {bench.interrupted}",) if bench.interrupted else ()
    return (*early, *(("quick run: figures are less precise",) if bench.quick else ()))


def where(host: Host) -> str:
    """Say which machine it is."""
    kernel = f"Linux {host.kernel}" if host.kernel else None
    named = (host.hostname, host.os, kernel, host.machine, host.virtualisation, host.container, "WSL" * host.wsl)
    return ", ".join(filter(None, named))


def works(answers: Mapping[str, bool | None], *, good_first: bool = False) -> str:
    """Say which frameworks can use the GPU, which cannot, and which nobody tested, in a sentence without its end."""
    named = {answer: listed([product(name) for name, held in answers.items() if held is answer]) for answer in WORKS}
    able, unable = (f"{named[answer]} {WORKS[answer]}" * bool(named[answer]) for answer in (True, False))
    untested = f"{named[None]} {'were' if ' and ' in named[None] else 'was'} {WORKS[None]}" * bool(named[None])
    return "; ".join(filter(None, (able, unable, untested) if good_first else (unable, able, untested)))


def chosen(report: Report) -> Mapping[str, bool | None]:
    """Return what works, without the builds for the CPU that nobody chose to use on the GPU, which are only a note."""
    notes = {one.component for one in report.findings if one.severity is Severity.INFO and one.id == CPU_BUILD}
    return {name: held for name, held in report.verdict.works.items() if held is not False or name not in notes}


def cause(report: Report) -> str:
    """Return the title of the first root cause and how many more there are, else what the verdict rests on."""
    roots = [one for key in report.verdict.root_keys for one in report.findings if one.key == key]
    if roots:
        more = sum(1 for _ in alike(roots)) - 1
        return roots[0].title.rstrip(".") + (f" (and {more} more root cause{'s' * (more > 1)})" if more else "")
    status = report.verdict.status
    open_ = next((one.title for one in report.findings if one.severity is Severity.UNKNOWN), None)
    if status is Health.UNKNOWN and open_:
        return open_.rstrip(".")
    able = {name: held for name, held in chosen(report).items() if held}
    if status is Health.UNKNOWN and report.candidates:
        return f"nothing is proven; most likely: {report.candidates[0].title.rstrip('.')}"
    return works(able) if status is Health.HEALTHY and able else SAID[status]


def contracts(report: Report) -> Iterator[tuple[Contract, Outcome]]:
    """Yield each contract and what came of it."""
    chosen = report.environments[0].python if report.environments else None
    yield from ((edge, of_contract(edge, chosen)) for edge in report.contracts)


def likely_heading(report: Report) -> str:
    """Return what stands above the likely causes."""
    return "Other likely causes" if report.verdict.root_causes else "Likely causes, none proven"


def likely(report: Report) -> tuple[tuple[str, str, tuple[str, ...], Decide], ...]:
    """Return the likely causes: the title, the id with its weight, what speaks for it, and what decides."""
    first = report.candidates[: not report.verdict.root_causes]
    told = (*first, *(one for one in report.candidates[len(first) :] if one.weight >= WORTH_TELLING))
    return tuple((one.title, f"{one.id}, {one.weight:.0%}", tuple(_speaking(one)), one.decide) for one in told)


def _speaking(one: Candidate) -> Iterator[str]:
    if one.because:
        grounds = [f"the words {by.value}" if by.component == TEXT else ground(by) for by in one.because]
        yield f"Evidence: {'; '.join(grounds)}"
    if one.similar:
        yield f"Similar recorded machines: {listed([alike.source for alike in one.similar])}"


def by_severity(family: Family) -> int:
    """Return the place of a cause among others, the gravest first."""
    return tuple(Severity).index(family[0].severity)
