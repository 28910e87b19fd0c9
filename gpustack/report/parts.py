"""What all formats of a report share: the order of findings, the outcome of each row, and the one-line summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from gpustack.model import field, record
from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.facts import OTHER_CHECKS, Host, product
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.model.report import Candidate, Contract, Decide, Finding, Health, Kept, Report, Severity
from gpustack.report.summary import Family, alike, families, ground, listed

Reported: TypeAlias = "Report | BenchReport"
WORST = (Mark.FAILED, Mark.LOW, Mark.UNSTEADY, Mark.OK, Mark.SKIPPED)
WORTH_TELLING = 0.03  # the weight of a likely cause
LEAST_SHARE = 0.01
STANDS_OUT = 0.05  # of all weight: below it, a likely cause is as good as a guess
TEXT = "text"  # the component of evidence that is only words
TECHNIQUE = "technique"  # what a server can do here: what it cannot do is not a fault


class Outcome(str, Enum):
    """The outcome of one row. ``skipped`` was not checked or measured; ``note`` is worth knowing, but not a fault."""

    OK = "ok"
    NOTE = "note"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"


class Standing(str, Enum):
    """The overall state in monitoring's four words."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"


@record
class Told:
    """A format's input besides the report: the source files, what each rule means, and what counts as failure.

    ``origins`` are the inputs, each with its path as a reader of the format knows it.
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
    Health.NO_GPU: "no GPU was found on this machine",
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
    """Return the doctor's report, if there is one."""
    return reported if isinstance(reported, Report) else None


def measured(reported: Reported) -> BenchReport | None:
    """Return the measurements, if there are any."""
    if isinstance(reported, CheckReport):
        return reported.bench
    return reported if isinstance(reported, BenchReport) else None


def policy(reported: Reported) -> tuple[Held, ...]:
    """Return the rules of the policy as checked against the machine."""
    return reported.policy if isinstance(reported, CheckReport) else ()


def unkept(reported: Reported) -> tuple[Held, ...]:
    """Return the rules of the policy that fail, and those that could not be checked."""
    return tuple(row for row in policy(reported) if row.ok is False or row.unseen)


def means(row: Held) -> str:
    """Return whose fault a violated rule is; nothing if it is met or does not apply."""
    if row.ok is None:
        return "It could not be checked, so it does not count as met." if row.unseen else ""
    return "" if row.ok else MEANS[row.whose]


def ordered(reported: Reported) -> tuple[Family, ...]:
    """Return the findings of the doctor and the bench, root causes first, each followed by its consequences."""
    report, bench = diagnosis(reported), measured(reported)
    every = {one.key: one for held in (report, bench) if held for one in held.findings}
    first, rest = families(tuple(every.values()), report.verdict.root_keys if report else ())
    return (*first, *sorted(rest, key=by_severity))


def every(reported: Reported) -> tuple[Finding, ...]:
    """Return the same findings as one sequence, each consequence after its cause."""
    return tuple(one for head, follow in ordered(reported) for one in (head, *follow))


def counted(reported: Reported) -> Mapping[Severity, int]:
    """Return the number of findings of each severity, including consequences."""
    number = Counter(one.severity for one in every(reported))
    return {severity: number[severity] for severity in Severity}


def of_policy(row: Held) -> Outcome:
    """Return the outcome of a rule of the policy."""
    unsure = Outcome.SKIPPED if row.unseen else Outcome.NOTE  # it could not be checked, or does not apply
    return {True: Outcome.OK, False: Outcome.WARNING if row.warns else Outcome.ERROR, None: unsure}[row.ok]


def of_contract(edge: Contract, chosen: str | None) -> Outcome:
    """Return the outcome of a contract; one broken in a Python other than the chosen one breaks nothing."""
    outcome = DRAWN[edge.status]
    if outcome is Outcome.ERROR and edge.kind == TECHNIQUE:
        return Outcome.NOTE
    beside = edge.environment is not None and edge.environment != chosen
    return Outcome.WARNING if outcome is Outcome.ERROR and beside else outcome


def of_result(result: Result, findings: Sequence[Finding]) -> tuple[Outcome, Finding | None]:
    """Return the outcome of a figure, and its finding."""
    name = f"{result.id}{result.place()}"
    speaks = (one for one in findings if one.id == f"bench-{result.verdict.value}" and one.instance == name)
    return MEASURED[result.verdict], next(speaks, None)


def standing(reported: Reported) -> Standing:
    """Return the overall state for monitoring: a check's class, or a bench's worst figure."""
    return STANDING[headline(reported)[0]]


def worst(bench: BenchReport) -> Mark:
    """Return the mark of the worst figure; without measurements, that of unknown."""
    there = {Mark.OK if wavers(one) else one.verdict for one in bench.results}
    return next((mark for mark in WORST if mark in there), Mark.SKIPPED)


def headline(reported: Reported) -> tuple[str, str]:
    """Return the summary as a word and a sentence without its full stop."""
    if isinstance(reported, CheckReport):
        return reported.class_.value, reported.why.rstrip(".") or cause(reported)
    if isinstance(reported, Report):
        return reported.verdict.status.value, cause(reported)
    return worst(reported).value, figures(reported)


def wavers(result: Result) -> bool:
    """Return whether a figure is unsteady because of the host: it has a range, and says nothing about the GPU."""
    return result.verdict is Mark.UNSTEADY and result.ceiling is None and result.value is not None


def figures(bench: BenchReport) -> str:
    """Return the number of figures of each kind and, for several GPUs, which ones fall short."""
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
    """Return remarks on all figures: that the run ended early, or was a quick one."""
    early = (f"stopped early: {bench.interrupted}",) if bench.interrupted else ()
    return (*early, *(("quick run: figures are less precise",) if bench.quick else ()))


def where(host: Host) -> str:
    """Return which machine it is."""
    kernel = f"Linux {host.kernel}" if host.kernel else None
    named = (host.hostname, host.os, kernel, host.machine, host.virtualisation, host.container, "WSL" * host.wsl)
    return ", ".join(filter(None, named))


def works(answers: Mapping[str, bool | None], *, good_first: bool = False) -> str:
    """Return which frameworks can use the GPU, which cannot, and which were not tested, without a full stop."""
    named = {answer: listed([product(name) for name, held in answers.items() if held is answer]) for answer in WORKS}
    able, unable = (f"{named[answer]} {WORKS[answer]}" * bool(named[answer]) for answer in (True, False))
    untested = f"{named[None]} {'were' if ' and ' in named[None] else 'was'} {WORKS[None]}" * bool(named[None])
    return "; ".join(filter(None, (able, unable, untested) if good_first else (unable, able, untested)))


def chosen(report: Report) -> Mapping[str, bool | None]:
    """Return what works, without unchosen CPU builds, which are only a note."""
    notes = {one.component for one in report.findings if one.severity is Severity.INFO and one.id == CPU_BUILD}
    return {name: held for name, held in report.verdict.works.items() if held is not False or name not in notes}


def cause(report: Report) -> str:
    """Return the title of the first root cause and the number of others, else what the verdict rests on."""
    roots = [one for key in report.verdict.root_keys for one in report.findings if one.key == key]
    if roots:
        more = sum(1 for _ in alike(roots)) - 1
        return roots[0].title.rstrip(".") + (f" (and {more} more root cause{'s' * (more > 1)})" if more else "")
    status = report.verdict.status
    open_ = next((one.title for one in report.findings if one.severity is Severity.UNKNOWN), None)
    if status is Health.UNKNOWN and open_:
        return open_.rstrip(".")
    if status is Health.HEALTHY and OTHER_CHECKS in report.not_seen:
        return "the checks asked for found no problem"
    able = {name: held for name, held in chosen(report).items() if held}
    if status is Health.UNKNOWN and report.candidates:
        likeliest = f"; most likely: {report.candidates[0].title.rstrip('.')}"
        return f"nothing is proven{likeliest if stands_out(report) else ', and no cause stands out'}"
    return works(able) if status is Health.HEALTHY and able else SAID[status]


def stands_out(report: Report) -> bool:
    """Return whether the first candidate is likely enough to be named before what speaks for it."""
    return report.candidates[0].weight >= STANDS_OUT


def likely_heading(report: Report) -> str:
    """Return the heading of the likely causes."""
    if report.verdict.root_causes:
        return "Other likely causes"
    return f"{'Likely' if report.candidates and stands_out(report) else 'Possible'} causes, none proven"


def likely(report: Report) -> tuple[tuple[str, str, tuple[str, ...], Decide], ...]:
    """Return the likely causes: the title, the id with its weight, the supporting facts, and the deciding check."""
    first = report.candidates[: not report.verdict.root_causes]
    told = (*first, *(one for one in report.candidates[len(first) :] if one.weight >= WORTH_TELLING))
    return tuple((one.title, f"{one.id}, {_share(one.weight)}", tuple(_speaking(one)), one.decide) for one in told)


def _share(weight: float) -> str:
    return f"{weight:.0%}" if weight >= LEAST_SHARE else "under 1%"


def _speaking(one: Candidate) -> Iterator[str]:
    if one.because:
        grounds = [f"the words {by.value}" if by.component == TEXT else ground(by) for by in one.because]
        yield f"Evidence: {'; '.join(grounds)}"
    if one.similar:
        yield f"Similar recorded machines: {listed([alike.source for alike in one.similar])}"


def by_severity(family: Family) -> int:
    """Return the sort key of a cause, the most severe first."""
    return tuple(Severity).index(family[0].severity)
