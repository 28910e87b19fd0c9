"""Likely causes where nothing is proven: what was recognised, ranked by the recorded machines in which it was seen."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from math import floor
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes, rule
from gpustack.diagnose.evidence import GPUS, possible
from gpustack.diagnose.fitting import misfits
from gpustack.diagnose.machine.events import MESSAGE, because_said, fails, heard, named
from gpustack.diagnose.machine.frameworks import torch
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.diagnose.machine.naming import architecture, branch_of, newer_than_driver, release
from gpustack.diagnose.machine.values import copies, number, text, told, version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.diagnose.requirements.records import decisions
from gpustack.diagnose.requirements.versions import IN_WORDS
from gpustack.matrix.subjects.candidates import HEALTHY, NO_CAUSES, OF_STEM, WORKS, Ranked, index
from gpustack.matrix.subjects.drivers import series_of
from gpustack.matrix.subjects.messages import patterns
from gpustack.matrix.subjects.ranges import minor
from gpustack.model.facts import AT_WORK, ILL, IS_OVER, Status, Strength, once
from gpustack.model.report import Because, Candidate, Confidence, Decide, Health, Kept, Severity, Similar

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, JsonValue
    from gpustack.model.report import Finding, Verdict

# What a list of those that are left does not answer: that another GPU is gone, or a part of one.
GONE = frozenset({"gpu-missing", "gpu-fell-off-bus", "gpu-not-answering", "gpu-sensor-error", "nvlink-inactive"})
UNWELL = ("fabric-manager-failed", "device-count-zero", "memory-without-process-said")
# What says that something beside a GPU at work is wrong.
WRONG = (
    *(*ILL, "works-as-root", "device-count-zero", "gpus-fail-together", "gpu-unused-said"),
    *("gpu-complaint", "cpu-used", "undefined-symbol-said"),
)
SHOWN = ("gpu-busy-said", "out-of-memory", "gpu-listed")
DENIALS = {"no", "not", "found", "false", "without", "until"}  # beside words that all is fine
LISTED = ("amd-gpu", "intel-gpu")  # what a maker's own program prints of them, it has from the driver
SPOKEN = frozenset({"the", "is", "i", "my", "on", "to", "of", "in", "it", "why"})  # no table has them ("a": N/A)
# How much likelier than the likeliest fault or doubt a sound machine has to be where the driver answers (beside a
# complaint, that of one with a GPU at work alone counts), and where a program shows a result; each without and beside
# a complaint (docs/decisions/0030). The answer alone has few words.
ANSWERS, RESULT, ALONE = (0.3, 0.75), (0.1, 0.5), 16
CLEAR = 0.25  # how much of all weight it has to have beside an answer or a result: of few words it is spread thin
# The same where words alone tell of it: without and beside what is wrong, or a rate that somebody complains of;
# how many words, where they name no part of the stack and where they do; and how much of it that of a GPU at work has
# to have alone, beside so much of all, where they name one, or where they do not (docs/decisions/0037 to 0042).
SURE, ENOUGH = (0.75, 0.97), (12, 8)
AT_LEAST, UNNAMED = ((0.0, 0.5), (0.9, 0.3), (0.97, 0.02), (0.99, 0.0)), ((0.97, 0.98),)
# What people say of programs as well is not AGAINST it.
AGAINST = tuple({*WRONG, "gpu-idle"} - {"gpus-fail-together", "gpu-unused-said", "hang", "gpu-complaint"})
OWN_FAULT = "application-fault"  # of a program that reached the GPU: no cause in the stack
MOST, ALWAYS, LEAST = 5, 3, 0.03  # candidates, how many of them however small, and the share of the others
# How much likelier that is to which a message mostly leads, to which it leads too, what explains it, and what does not
# fit together.
LED, LED_TOO, NOTED, JOINED = 5e3, 5e2, 1e10, 1e4
MOST_REASONS, MOST_SIMILAR, MOST_WORDS = 4, 3, 6
FINE = MOST_CODE = 10_000  # weights have four digits
SETTLED = frozenset({Health.HEALTHY, Health.NO_GPU})
TEXT, WORDS = "text", "words"
ON_THE_MACHINE = Decide(text="Run gpustack on the machine itself.", commands=(fixes.DOCTOR_DEEP,))
NAMED = re.compile(r"[a-z_][\w-]{0,19}")


def candidates(facts: Facts, matrix: Matrix, findings: Collection[Finding], verdict: Verdict) -> tuple[Candidate, ...]:
    """Return the likely causes beside the root causes; none where one is certain, or where nothing is wrong."""
    roots = [one for one in findings if one.key in verdict.root_keys]
    if verdict.status in SETTLED or any(one.confidence is Confidence.CERTAIN for one in roots):
        return ()
    noted = (one for one in findings if one.severity is Severity.INFO and one.fix)  # by a program's own message
    told_of = {one.id for one in noted if any(ground.component == MESSAGE for ground in one.because)}
    return tuple(likely(facts, matrix, {one.id for one in roots}, told_of))


def settled(status: Health, facts: Facts, matrix: Matrix) -> Health:
    """Return how a machine is that texts alone describe, by what recorded machines say of such texts.

    Where somebody complains that one of several GPUs is gone, a table of nvidia-smi does not make it well; and where
    nothing that is known of faults is in a text, recorded machines tell whether it shows a GPU at work.
    """
    gone = (one.kind for one in patterns(matrix) if one.finding in GONE)
    told_of = () if facts.taken else UNWELL  # a look at the machine asks for them itself
    if status is Health.HEALTHY and heard(facts, "gpu-wrong-said", *told_of, *gone):
        return Health.UNKNOWN
    if facts.taken or status not in {Health.HEALTHY, Health.UNKNOWN}:
        return status
    faults = (one.kind for one in patterns(matrix) if one.finding and one.finding != OWN_FAULT)
    if status is Health.UNKNOWN and heard(facts, *faults):
        return status
    text = _Text(facts, matrix)
    if status is Health.HEALTHY:
        return status if text.answers else Health.UNKNOWN
    listed = text.lists and not text.complains and text.answers  # a list is no reply to a complaint
    return Health.HEALTHY if listed or text.works else status


@once
def refuted(facts: Facts, matrix: Matrix) -> frozenset[str]:
    """Return the causes that what is known of a machine excludes by the matrix, however much words speak for them."""
    arch, branch, mine = architecture(facts, matrix), branch_of(release(facts)), torch(facts)
    seen = facts.find("gpu")
    if seen is None or seen.source.endswith(IN_WORDS):
        arch = None  # people speak of other GPUs as well
    span, here = matrix.span(arch) if arch else None, capabilities(facts) if arch else ()
    served = span and branch and not newer_than_driver(facts, matrix)
    served = served and span and branch and not (span.last and series_of(matrix, branch) > span.last)
    coded = mine and mine.archs and here and all(any(one.runs_on(cc) for one in mine.archs) for cc in here)
    driven = mine and mine.cuda and driver_fit(mine.cuda, facts, matrix).kept is Kept.OK
    manager, plugins = version(facts, "nvidia-fabricmanager"), told(facts, "jax").get("plugins")
    jaxlib = text(told(facts, "jax"), "jaxlib") or version(facts, "jax") or ""
    fit = isinstance(plugins, Mapping) and jaxlib and all(minor(str(one)) == minor(jaxlib) for one in plugins.values())
    return frozenset(
        cause
        for holds, causes in (
            (served, ("driver-too-old-for-gpu", "legacy-gpu-needs-older-branch")),
            (coded, ("arch-not-in-build",)),
            (driven, ("driver-too-old-for-cuda-build",)),
            (manager and manager == str(release(facts)), ("fabric-manager-version-mismatch",)),
            (fit, ("jax-plugin-mismatch",)),
        )
        for cause in causes
        if holds
    )


class _Text:
    """What a text without a known fault tells of a GPU at work, and of doubt."""

    def __init__(self, facts: Facts, matrix: Matrix) -> None:
        self.facts = facts
        self.words = {one for one in facts.words if " " not in one and not one.startswith(OF_STEM)}
        self.spoken = len(SPOKEN & self.words)
        self.ails = bool(heard(facts, "ailing-said"))
        self.result = bool(heard(facts, AT_WORK))
        self.led = bool(heard(facts, *(one.kind for one in patterns(matrix) if one.likely)))
        self.complains = bool(heard(facts, *WRONG) or self.led or (self.spoken > 1 and self.ails))
        held = index(matrix)
        out = refuted(facts, matrix) - {one.finding for one in patterns(matrix) if heard(facts, one.kind)}
        shares = {cause: one for cause, one in held.shares(features(facts)).items() if cause not in out}
        self.weights = {cause: one / (sum(shares.values()) or 1.0) for cause, one in shares.items()}
        self.named = any(map(held.names_it, facts.words)) or any(one.id in GPUS for one in facts.components)
        self.apart = bool(misfits(facts, matrix))

    @property
    def lists(self) -> bool:
        """Whether the driver, or a program that asks it, lists a GPU, and no word tells of a failure."""
        held = (copy for name in LISTED for copy in copies(self.facts, name) if copy.status is Status.PRESENT)
        printed = any(
            how is Strength.PRINTED and fact != "gfx" for copy in held for fact, how in copy.strengths.items()
        )
        lists = heard(self.facts, "gpu-listed") or printed or number(told(self.facts, "nvml"), "code") == 0
        return bool(lists) and not fails(self.facts.words)

    @property
    def answers(self) -> bool:
        """Whether the driver's or a program's answer is to be believed: it is all there is, or likely sound."""
        if self.apart and not self.result:
            return False
        talked = self.spoken > 1 if self.result else self.spoken or self.ails
        if not (self.complains or talked):  # outputs of commands, or of one alone
            least = RESULT if self.result else ANSWERS
            return sum(map(str.isalpha, self.words)) < ALONE or self.share(HEALTHY) >= least[False]
        if self.result:
            return self.share(HEALTHY) >= RESULT[self.complains]
        sound = (WORKS,) if self.complains else HEALTHY
        return self.share(sound) >= ANSWERS[self.complains] and self.calm(sound) >= CLEAR

    @property
    def works(self) -> bool:
        """Whether words alone tell of a GPU at work: someone says so, or most weight is that of sound machines."""
        if self.apart or heard(self.facts, *AGAINST):
            return False
        calm, sound, quiet = self.calm(HEALTHY), self.calm((WORKS,)), not (self.complains or self.ails)
        doubted = fails(self.facts.words) or not DENIALS.isdisjoint(self.facts.words)
        said = heard(self.facts, "works-said") or (heard(self.facts, "fine-said") and not doubted)
        if quiet and (said or (heard(self.facts, *SHOWN) and calm >= CLEAR)):
            return True
        odd = "nan" in self.words and {"gpu", "gpus"}.isdisjoint(self.words)  # whether a GPU computed it, nobody says
        if odd or self.led or len(self.words) < ENOUGH[self.named]:
            return False
        rate = self.complains and heard(self.facts, "rate-said")
        sure = SURE[heard(self.facts, *WRONG) or rate]
        least = AT_LEAST if self.named else UNNAMED
        return calm >= sure and any(calm >= beside and sound >= alone for beside, alone in least)

    def share(self, healthy: Collection[str]) -> float:
        """Return how likely a machine is one of these healthy ones, relative to the likeliest fault or doubt."""
        likeliest = max((weight for cause, weight in self.weights.items() if cause not in HEALTHY), default=1.0)
        calm = self.calm(healthy)
        return calm / (calm + likeliest) if calm else 0.0  # both vanish beside a weight of 1

    def calm(self, healthy: Collection[str]) -> float:
        """Return the weight of these healthy machines together."""
        return sum(self.weights.get(one, 0.0) for one in healthy)


def likely(
    facts: Facts, matrix: Matrix, known: Collection[str] = (), noted: Collection[str] = ()
) -> Iterator[Candidate]:
    """Yield the likely causes of what was seen, the likeliest first, without those that are known.

    What a message mostly leads to by its row is far likelier than by the ranking alone (docs/decisions/0012 says how
    much that gains), and still more so what explains a program's message and is no fault of the machine (``noted``).
    """
    if not (facts.messages or facts.words or any(one.status is Status.FAILED for one in facts.components)):
        return  # nothing to rank by
    held, seen, apart = index(matrix), dict(features(facts)), misfits(facts, matrix)
    led = _led(facts, matrix, seen)
    seen |= {f"{MESSAGE}:{cause}": one for cause, one in apart.items()}
    ranked = {one.cause: one for one in held.rank(seen) if one.because}
    rows = [row for row in patterns(matrix) if f"{MESSAGE}:{row.kind}" in seen]
    too = {cause: (row.kind,) for row in rows for cause in row.likely}
    for cause, kinds in {**too, **led}.items():
        if cause not in ranked:  # no recorded machine speaks for it
            ranked[cause] = Ranked(cause=cause, weight=LEAST, because=tuple(f"{MESSAGE}:{kind}" for kind in kinds))
    for cause in apart:
        one = ranked.get(cause) or Ranked(cause=cause, weight=LEAST, because=())
        ranked[cause] = replace(one, because=(f"{MESSAGE}:{cause}", *one.because))
    factors = {**dict.fromkeys(too, LED_TOO), **dict.fromkeys(led, LED), **dict.fromkeys(noted, NOTED)}
    factors |= dict.fromkeys(apart, JOINED)
    weights = {cause: one.weight * factors.get(cause, 1) for cause, one in ranked.items()}
    whole = sum(weights.values())
    out = refuted(facts, matrix) - {*led, *too, *apart}
    others = sorted(ranked.keys() - {*known, *NO_CAUSES, *out}, key=lambda one: (-weights[one], one))
    least = LEAST * sum(weights[one] for one in others)
    first = [*islice((one for one in others if possible(one, facts)), MOST)]
    for cause in (*first[:ALWAYS], *(one for one in first[ALWAYS:] if weights[one] >= least)):
        one = ranked[cause]
        yield Candidate(
            id=one.cause,
            title=title(one.cause),
            weight=floor(weights[cause] / whole * FINE) / FINE,
            because=tuple(_reasons(one, seen)),
            similar=tuple(
                Similar(source=source, cause=one.cause) for source in held.similar(one.cause, seen, MOST_SIMILAR)
            ),
            decide=decisions().get(one.cause, ON_THE_MACHINE),
        )


def _led(facts: Facts, matrix: Matrix, seen: Mapping[str, Because | None]) -> Mapping[str, Mapping[str, Because]]:
    """Return the findings that the messages mostly lead to, by their rows, each with these messages by kind."""
    led: dict[str, dict[str, Because]] = {}
    for row in patterns(matrix):
        said = seen.get(f"{MESSAGE}:{row.kind}")
        if said and row.finding and row.finding != OWN_FAULT and possible(row.finding, facts):
            led.setdefault(row.finding, {})[row.kind] = said
    for finding, one in named(facts, matrix):
        led.setdefault(finding, {})[one.kind] = because_said(one)
    gone = seen.get(f"{MESSAGE}:{IS_OVER}")  # beside no fault of now, what was wrong
    over = (one.values["finding"] for one in facts.messages if one.kind == IS_OVER)
    return {**({cause: {IS_OVER: gone} for cause in over} if gone else {}), **led}


def title(cause: str) -> str:
    """Return what a finding says, in a sentence without its end."""
    return " ".join((rule.explain(cause) or cause).partition("\n\n")[0].split()).rstrip(".")


def features(facts: Facts) -> Mapping[str, Because | None]:
    """Return by name all that candidates are ranked by: words (None), messages, and what is known of components."""
    seen: dict[str, Because | None] = dict.fromkeys(facts.words)
    for said in reversed(facts.messages):
        seen[f"{MESSAGE}:{said.kind}"] = Because(
            component=MESSAGE, fact=said.kind, value=said.line, source=said.origin, strength=said.strength
        )
    for one in facts.components:
        seen.update(_of(one))
    return seen


def _of(one: Component) -> Iterator[tuple[str, Because]]:
    def spelt(fact: str, value: JsonValue, strength: Strength = Strength.MEASURED) -> tuple[str, Because]:
        because = Because(component=one.id, fact=fact, value=value, source=one.source, strength=strength)
        return f"{one.id}:{fact}={value}", because

    yield spelt("status", one.status.value)
    for copy in one.instances:
        for fact, value in {**copy.facts, "build": (copy.build or "")[:4] or None}.items():
            short = isinstance(value, str) and NAMED.fullmatch(value)
            if short or isinstance(value, bool) or (isinstance(value, int) and 0 <= value < MOST_CODE):
                yield spelt(fact, value, copy.strengths.get(fact, Strength.MEASURED))


def _reasons(one: Ranked, seen: Mapping[str, Because | None]) -> Iterator[Because]:
    """Yield what speaks most for a candidate: messages and facts, and the words of the text together."""
    held = one.because[: 2 * (MOST_REASONS + MOST_WORDS)]
    yield from [because for name in held if (because := seen[name])][:MOST_REASONS]
    words = [name for name in held if seen[name] is None and not name.startswith(OF_STEM)]
    words = words or [f"{name.removeprefix(OF_STEM)}…" for name in held if seen[name] is None]
    if apart := [one for one in words if not any(one in other.split(" ") for other in words if other != one)]:
        yield Because(component=TEXT, fact=WORDS, value=", ".join(apart[:MOST_WORDS]), strength=Strength.STATED)
