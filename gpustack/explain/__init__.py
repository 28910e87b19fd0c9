"""Words become an explanation: every meaning that they have, the likeliest first, or the names perhaps meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from gpustack.diagnose.candidates import likely
from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine.events import MESSAGE
from gpustack.explain import topics
from gpustack.imports import messages
from gpustack.imports.messages import mentioned
from gpustack.imports.texts import take
from gpustack.matrix.subjects.amd_intel import gfx_of
from gpustack.matrix.subjects.candidates import index, tokens
from gpustack.matrix.subjects.codes import FAMILIES, ClockReason, Number, clock_reasons, numbers
from gpustack.matrix.subjects.gpus import capability_of
from gpustack.matrix.subjects.messages import patterns
from gpustack.matrix.subjects.ranges import SUFFIX, cut, spellings, squash
from gpustack.matrix.subjects.terms import layers, systems, terms
from gpustack.model.facts import Facts, Layer
from gpustack.model.matrix_answer import Explanation, Kind, Meaning

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Candidate
    from gpustack.model.rows import Architecture

Make = Callable[[], Meaning]
Entry = tuple[str, tuple[str, ...], Make]  # its name, its other names, and what gives its meaning
PHRASE = 6  # words; what is longer was pasted, and ordinary words in it mean nothing by themselves
PART = 5  # words that can be a part of a line, of which the names in them say little
NEAR = 0.74
LONGEST = 80  # letters; no name is longer
MOST_NEAR = 3
LONGEST_GPU = 60  # letters of a GPU's name
MOST_LIKELY = 3
SHORTEST = 4  # letters of a word that tells something
# Words of messages and findings that say nothing of the stack by themselves.
_ORDINARY = """about above after again against already been being below between block both brought build built
        cannot could does doesn each error even event ever every first found from given going have
        hello here just left like main many more most much near next only other right some start still
        such than that their them then there these they thing things think this those through today
        train until upon using very want well were what when where which while will with within without
        world would write wrong your"""
ORDINARY = frozenset(_ORDINARY.split())


def explain(words: Sequence[str], matrix: Matrix) -> Explanation:
    """Return all that is known of the words: typed one after the other, or a line that was pasted."""
    text = " ".join(" ".join(words).split())
    entries = tuple(_entries(matrix))
    known = _index(entries)
    listed, missing = mentioned(text, matrix)
    begun = _begun(text, entries)
    told = [make() for make in next((known[form] for form in spellings(text) if form in known), ())]
    told = told or [*topics.of_image(text, matrix)] or [make() for _, make in begun if len(begun) == 1]
    if not told:
        told += [*_with_messages(text, listed, matrix), *_judged(text, matrix)]
    if not any(one.kind is not Kind.MESSAGE or one.findings for one in told) and not missing:
        spoken, missing = _spoken(text, known)
        told += spoken or (*gpu(text, matrix), *shared(text, matrix, exact=True))
    near = (
        () if told else tuple(one.id for one in _spoken(text, known)[0]) or tuple(_near(text, begun, entries, matrix))
    )
    part = len(text.split()) >= PART and not any(one.findings for one in told if one.kind is not Kind.SYSTEM)
    if part or not (told or near or missing):
        told += shared(text, matrix, exact=False)
    return Explanation(words=text, meanings=tuple(_once(told)), near=near, missing=missing)


def _entries(matrix: Matrix) -> Iterator[Entry]:
    """Yield everything that has a name; where several share one, the order here is the order in which they are told."""
    yield from ((one, (), partial(topics.of_finding, one, matrix)) for one in topics.ids())
    yield from ((one.id, one.also, partial(topics.of_system, one, matrix)) for one in systems(matrix))
    yield from ((one.name, one.also, partial(topics.of_term, one, matrix)) for one in terms(matrix))
    for one in layers(matrix):
        name = one.layer.value
        yield name, (f"{name} layer", f"layer {name}", *one.also), partial(topics.of_layer, one, matrix)
    for arch in matrix.architectures.values():
        yield (
            f"sm_{arch.capability.major}{arch.capability.minor}",
            _called(arch),
            partial(topics.of_architecture, arch),
        )
    yield from (_clock_reason(one, matrix) for one in clock_reasons(matrix))


def _called(arch: Architecture) -> tuple[str, ...]:
    major, minor = arch.capability.major, arch.capability.minor
    return (
        f"compute_{major}{minor}",
        f"compute capability {arch.capability}",
        arch.name,
        arch.name.split()[0],
        *arch.gpus,
    )


def _clock_reason(one: ClockReason, matrix: Matrix) -> Entry:
    """Return a reason for lowered clocks under the names of nvidia-smi, its query fields and NVML, old and new."""
    field = one.name.partition("Reason")[2]
    others = (
        *(one.name, one.name.replace("Event", "Throttle")),
        *(f"clocks_event_reasons.{field}", f"clocks_throttle_reasons.{field}"),
    )
    name = one.words if one.words and " " in one.words else one.name
    return name, others, partial(topics.of_clock_reason, one, matrix)


def _index(entries: Iterable[Entry]) -> Mapping[str, Sequence[Make]]:
    """Return what each squashed name means: those whose own name it is before those that are also called so."""
    own: dict[str, list[Make]] = {}
    also: dict[str, list[Make]] = {}
    for name, others, make in entries:
        own.setdefault(squash(name), []).append(make)
        for other in (SUFFIX.sub("", name), *others):
            also.setdefault(squash(other), []).append(make)
    return {form: list(dict.fromkeys((*own.get(form, ()), *also.get(form, ())))) for form in (*own, *also)}


def _judged(text: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield what the doctor would say is at fault, had it been handed the line."""
    if " " not in text:
        return
    facts, _ = take([("the line", text)], matrix)
    report = judge(facts, matrix)
    for finding in report.findings:
        if finding.key in report.verdict.root_keys and any(one.component == MESSAGE for one in finding.because):
            yield topics.of_judged(finding)


def _with_messages(text: str, listed: Sequence[Number], matrix: Matrix) -> Iterator[Meaning]:
    """Yield the meanings of numbers, then of messages; a message that only says a number adds what it leads to."""
    rows = {one.kind: one for one in patterns(matrix)}
    said = messages.find([("", messages.clean(text))], matrix) if " " in text or not listed else ()
    for number in listed:
        meaning = topics.of_number(number, matrix)
        same = [rows[one.kind].finding for one in said if one.values.get("code") == str(number.number)]
        more = topics.leads(one for one in dict.fromkeys(same) if one)
        yield replace(meaning, findings=tuple(dict.fromkeys((*meaning.findings, *more))))
    told = {str(number.number) for number in listed}
    for one in said:
        if one.values.get("code") not in told:
            yield topics.of_message(rows[one.kind], one.line, matrix)


def _spoken(text: str, known: Mapping[str, Sequence[Make]]) -> tuple[list[Meaning], tuple[str, ...]]:
    """Return the names in a phrase, and the other words; of a pasted line, only words that are not ordinary."""
    words = re.findall(r"[^\s,;:()\[\]{}<>|\"'`?!]+", text)
    names, left = cut(words, known)
    told = [make() for name in names for make in known[name]]
    if len(words) > PHRASE:
        return [one for one in told if one.kind is Kind.SYSTEM or not re.fullmatch(r"[a-z ]+", one.id)], ()
    return (told, left) if len(names) >= len(left) else ([], ())


def _begun(text: str, entries: Iterable[Entry]) -> tuple[tuple[str, Make], ...]:
    """Return the names that begin with the text, each with what gives its meaning."""
    start = squash(text)
    named = len(start) >= SHORTEST and " " not in text
    return tuple((name, make) for name, _, make in entries if named and squash(name).startswith(start))


def _near(text: str, begun: Iterable[tuple[str, Make]], entries: Iterable[Entry], matrix: Matrix) -> Iterator[str]:
    """Yield the names that begin with the text, then those that are spelt almost like it."""
    names: dict[str, str] = {}
    for name, others, _ in entries:
        names.update(dict.fromkeys(map(squash, (name, *others)), name))
    for number in (number for family in FAMILIES for number in numbers(matrix, family)):
        names.update({squash(name): name for name in reversed((number.name, *number.also))})
    close = get_close_matches(squash(text)[:LONGEST], names, n=2 * MOST_NEAR, cutoff=NEAR)
    yield from list(dict.fromkeys([*(name for name, _ in begun), *(names[one] for one in close)]))[:MOST_NEAR]


def _once(told: Iterable[Meaning]) -> Iterator[Meaning]:
    """Yield each meaning once, where it comes first."""
    first: dict[tuple[Kind, str], Meaning] = {}
    for one in told:
        first.setdefault((one.kind, one.id), one)
    yield from first.values()


def gpu(text: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield what is known of a GPU by its name."""
    if len(text) > LONGEST_GPU:
        return
    capability, target = capability_of(matrix, text), gfx_of(matrix, text)
    architecture = matrix.arch(capability) if capability else None
    if architecture:
        known = topics.of_architecture(architecture)
        title = f"{text} has the {architecture.name} architecture, compute capability {architecture.capability}."
        yield replace(known, title=title)
    elif target:
        yield (
            Meaning(
                kind=Kind.ARCHITECTURE,
                id=target.gfx,
                title=f"{target.generation}: an architecture of AMD's GPUs, such as {', '.join(target.names)}.",
                layer=Layer.HARDWARE,
                stands_on=("amd-gpu",),
                see=("rocminfo | grep -E 'Marketing Name|gfx'",),
                findings=topics.leads(("rocm-gfx-unsupported", "gpu-unsupported-by-kfd")),
                row=target.row,
            )
        )


def shared(text: str, matrix: Matrix, *, exact: bool) -> Iterator[Meaning]:
    """Yield the findings that recorded machines with such words had, where enough of the words tell something.

    Where it has to be ``exact``, one of them is a symbol or the name of an error.
    """
    held = index(matrix)
    seen = tokens(text) & held.features.keys()
    words = [word for word in re.findall(r"\w+", text.lower()) if len(word) >= SHORTEST]
    symbols = any("_" in word for word in seen)
    telling = 0 if exact or symbols else sum(word in seen and _telling(word, matrix) for word in words)
    if symbols or telling > len(words) / 2 or (not exact and seen & held.names):
        ranked = tuple(likely(Facts(words=tuple(sorted(seen))), matrix))
        if ranked:
            yield _of_likely(text, ranked[:MOST_LIKELY])


def _telling(word: str, matrix: Matrix) -> bool:
    """Return whether a word is one of what programs say when something is wrong."""
    if word in ORDINARY:
        return False
    found = re.compile(rf"(?<![a-z\\]){re.escape(word)}(?![a-z])", re.IGNORECASE)
    said = (one.wording for one in patterns(matrix))
    return any(map(found.search, said)) or any(found.search(" ".join(topics.text(one))) for one in topics.ids())


def _of_likely(words: str, ranked: Sequence[Candidate]) -> Meaning:
    """Return what recorded machines had of which such words were said."""
    first = ranked[0]
    return Meaning(
        kind=Kind.MESSAGE,
        id="likely-causes",
        title="Not known as a whole; recorded machines with these words had one of these causes. Nothing proves which.",
        says=(f"Words: {words}",),
        fix=first.decide.text,
        see=first.decide.commands,
        findings=topics.leads(one.id for one in ranked),
    )
