"""Answers: whether something works, why and what else would; and what the matrix states about one component."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from gpustack.ask.given import Given, apply, is_given, newest, put, where
from gpustack.ask.ground import not_taken, suited, weighed
from gpustack.ask.plan import alternatives, as_it_is
from gpustack.ask.search import Search
from gpustack.ask.subjects import COMPONENTS, Subject, install, parse, resolve
from gpustack.ask.why import judge
from gpustack.ask.words import understood
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.requirements.python import ON_ARM
from gpustack.errors import UsageError
from gpustack.matrix import MEASURED, Matrix
from gpustack.matrix.subjects import generated
from gpustack.matrix.subjects.torch import LINUX
from gpustack.model.matrix_answer import Alternative, Compatibility, MatrixAnswer, MatrixPart, MatrixTables, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpustack.model.facts import Facts

    Line = Mapping[str, Any]

STRANGE = (
    "Nothing is known about {!r} in that question: the matrix knows GPUs, drivers, toolkits, frameworks and servers by"
    " their versions. It does not say whether a model fits into a GPU's memory."
)
PLANNED = 4  # other releases besides the one in question


def why(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix) -> MatrixAnswer:
    """Return whether the first subject works with the others and the given machine, and what would work instead."""
    asked = search(texts, given, facts, matrix, versions=1)
    return _answer(asked, alternatives(asked))


def plan(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix) -> MatrixAnswer:
    """Return what satisfies a requirement on the given machine, the smallest change first."""
    asked = search(texts, given, facts, matrix, versions=PLANNED)
    return _answer(asked, (*as_it_is(asked), *alternatives(asked)))


def search(texts: Sequence[str], given: Given, facts: Facts | None, matrix: Matrix, versions: int) -> Search:
    """Return the question as understood: the subject judged on the given machine, and what else to try."""
    asked = understood(texts, matrix)
    typed = [parse(text, matrix) for text in asked.subjects]
    if not typed:
        raise UsageError("say what to ask about, such as torch==2.11.0")
    given = replace(given, os=given.os or asked.os, machine=given.machine or asked.machine)
    given = replace(given, ways=" ".join(asked.ways) or given.ways)
    machine = apply(given, facts, matrix)
    system = _system(typed, machine, matrix)
    first, *others = _apart([_released(resolve(one, system, matrix), machine, matrix) for one in typed])
    twice = next((one.typed for one in others if one.component == first.component), None)
    if twice:
        raise UsageError(f"{first.typed} and {twice} are the same thing: ask about one release at a time")
    for one in others:
        if is_given(machine, one.component):
            raise UsageError(f"{one.typed} and an option give different values for {one.component}: give one of them")
        machine = put(machine, install(one, where(machine), matrix))
    return Search(
        subject=first,
        at=judge(first, machine, matrix),
        others=tuple(others),
        facts=machine,
        matrix=matrix,
        versions=versions,
        given=given.words,
        ways=tuple((given.ways or "").split()),
        strange=asked.strange,
    )


def _apart(subjects: Sequence[Subject]) -> Iterator[Subject]:
    """Yield the subjects in question; a further part of one thing, such as jaxlib with jax, under its own name."""
    usual: dict[str, str] = {}
    for one in sorted(subjects, key=lambda one: one.name != one.component):
        usual.setdefault(one.component, one.name)
    for one in subjects:
        part = generated.parted(usual[one.component], one.name)
        yield replace(one, component=one.name) if part else one


def _system(typed: Sequence[Subject], facts: Facts, matrix: Matrix) -> str:
    """Return the platform that builds are chosen for: that of the processor given or implied by a GPU."""
    for one in typed:
        facts = put(facts, install(one, None, matrix)) if one.component == "gpu" else facts
    return ON_ARM if platform(complete(facts, matrix)) == ON_ARM else LINUX


def _released(subject: Subject, facts: Facts, matrix: Matrix) -> Subject:
    """Return a driver typed as a branch alone as its newest release, as ``--driver`` takes it."""
    if subject.component != "nvidia-driver" or not subject.version:
        return subject
    return replace(subject, version=newest(subject.version, f"{subject.name}==", facts, matrix))


def _answer(search: Search, found: tuple[Alternative, ...]) -> MatrixAnswer:
    others, verdict, reasons = tuple(one.words for one in search.others), search.at.verdict, search.at.reasons
    if search.strange:
        reasons = (Reason(text=STRANGE.format(" ".join(search.strange)), verdict=Compatibility.UNKNOWN), *reasons)
        verdict = verdict if verdict is Compatibility.INCOMPATIBLE else Compatibility.UNKNOWN
    here = () if not search.facts.taken else ("what is on this machine",)
    return MatrixAnswer(
        subject=search.subject.typed.strip(),
        meant=_meant(search.at.subject, search.subject, platform(search.facts)),
        given=(*search.given, *others, *here),
        verdict=verdict,
        reasons=reasons,
        alternatives=tuple(suited(one, search.ways) for one in weighed(found)),
        not_taken=tuple(not_taken(search, found)),
    )


def _meant(subject: Subject, asked: Subject, system: str | None) -> str:
    """Return how a subject was understood, and the build chosen for it."""
    if subject.component == "jax" and subject.tag and not asked.tag:
        return f"{subject.words}: with its plugin; a plain install computes on the CPU"
    plain = subject.component == "pytorch" and "+" not in subject.typed and subject.tag
    if plain and system == "windows":
        return f"{subject.words}: from PyTorch's own index; a plain pip install takes the build for the CPU"
    where = "aarch64" if system == ON_ARM else "x86-64"
    return f"{subject.words}: the build that a plain pip install takes on Linux {where}" if plain else subject.words


HEAD = frozenset({"source", "checked"})
PLAIN = frozenset({"schema", "subjects"})
NEAR = 3
# One screen of 80 columns: its lines, the lines of each part besides its rows, and the most rows of one part.
SCREEN, COLUMNS, HEAD_LINES, MOST = 19, 70, 4, 6
WIDEST = 45  # letters of a value on that screen: columns with longer ones are shown only with --all
# Parts of tables about several components, whose names differ from the component that they describe.
PARTS = {"flash_attention": "flash-attention"}


def show(text: str, matrix: Matrix) -> MatrixTables:
    """Return everything stated about a component; raises UsageError, with near misses, for an unknown one."""
    name = canonicalize_name(text.strip()) if text.strip() else ""
    tables = {table: frozenset(matrix.table(table).get("subjects", ())) for table in names(matrix)}
    made = matrix.distributions
    named = {one: component for component, held in generated.DISTRIBUTIONS.items() for one in held}
    known = frozenset(made - named.keys()).union(*tables.values())
    dotted = text.strip().lower()
    component = next((one for one in (dotted, named.get(name, COMPONENTS.get(name, name))) if one in known), None)
    if component is None:
        raise UsageError(_nothing(text, known, matrix))
    parts = [
        part
        for table, subjects in sorted(tables.items(), key=lambda one: (_late(one[0]), len(one[1])))
        if component in subjects
        for part in _parts(table, component, subjects, matrix)
    ]
    for name_ in generated.DISTRIBUTIONS.get(component, (component,)):
        parts[:0] = _parts(generated.table(name_), component, frozenset(), matrix) if name_ in made else ()
    return MatrixTables(subject=text, component=component, parts=tuple(parts))


def brief(tables: MatrixTables) -> MatrixTables:
    """Return what fits on one screen: the newest rows of the first parts, newest first, and what was omitted."""
    room, kept, left = SCREEN, list[MatrixPart](), list[MatrixPart]()
    for part in tables.parts:
        short, lines = _newest(part, room - HEAD_LINES)
        room -= HEAD_LINES + lines if short.rows else 0
        (kept if short.rows else left).append(short)
    if not kept:
        return tables
    return replace(tables, parts=tuple(kept), left=tuple(f"{one.table}.{one.part}" for one in left))


def _newest(part: MatrixPart, room: int) -> tuple[MatrixPart, int]:
    """Return a part with its newest rows that fit into this many lines, and how many lines they take."""
    part = _narrow(part)
    taken = lines = 0
    newest = (part.columns, *part.rows[-MOST:])
    as_columns = sum(max(map(len, column)) + 2 for column in zip(*newest, strict=True)) < COLUMNS
    for row in reversed(part.rows):
        more = 1 if as_columns else 1 + len("  ".join((*part.columns, *row))) // COLUMNS
        if taken == MOST or lines + more > room:
            break
        taken, lines = taken + 1, lines + more
    last = slice(None, -taken - 1, -1)
    short = replace(part, about="", rows=part.rows[last], sources=part.sources[last], checked=part.checked[last])
    return replace(short, left=len(part.rows) - taken), lines


def _narrow(part: MatrixPart) -> MatrixPart:
    """Return a part without columns whose newest values are empty or too long for a screen, unless all are."""
    newest = part.rows[-MOST:]
    widths = [max(map(len, column)) for column in zip(*newest, strict=True)]
    short = [at for at, width in enumerate(widths) if 0 < width <= WIDEST]
    if len(short) <= 1:
        return part
    rows = tuple(tuple(row[at] for at in short) for row in part.rows)
    return replace(part, columns=tuple(part.columns[at] for at in short), rows=rows)


def names(matrix: Matrix) -> tuple[str, ...]:
    """Return the names of all tables."""
    measured = (f"{MEASURED}/{path.stem}" for path in matrix.folder.glob(f"{MEASURED}/*.toml"))
    by_hand = (path.stem for path in matrix.folder.glob("*.toml") if path.stem != "meta")
    return tuple(sorted((*by_hand, *measured)))


def _late(table: str) -> int:
    """Return the position of a table: compatibility first, then known problems, messages last."""
    return 2 if table.startswith("messages_") else int(table == "known_bad")


def _nothing(text: str, known: frozenset[str], matrix: Matrix) -> str:
    names_ = {**{name: name for name in known}, **COMPONENTS}
    near = dict.fromkeys(names_[one] for one in get_close_matches(text.lower(), names_, n=NEAR, cutoff=0.6))
    if near:
        return f"the matrix states nothing about {text!r}; did you mean {', '.join(near)}?"
    if text in matrix.systems:
        return f"the matrix states nothing about {text!r}; gpustack explain {text} says what it is"
    return f"the matrix states nothing about {text!r}; subjects are, for example, pytorch, nvidia-driver and cudnn"


def _parts(table: str, component: str, subjects: frozenset[str], matrix: Matrix) -> Iterator[MatrixPart]:
    heads = _heads(table, matrix)
    for part, held in matrix.table(table).items():
        if part in PLAIN or not isinstance(held, list) or not _about(part, component, subjects):
            continue
        rows = [line for line in held if isinstance(line, dict)]
        lines = [line for line in rows if component in (line.get("component", component), *line.get("with", ()))]
        if lines:
            yield _part(table, part, heads.get(part, ""), lines, matrix.table(table))


def _part(table: str, part: str, about: str, lines: Sequence[Line], held: Line) -> MatrixPart:
    lines = [{**{one: held[one] for one in HEAD if one in held}, **line} for line in lines]
    columns = tuple(dict.fromkeys(key for line in lines for key in line if key not in HEAD))
    return MatrixPart(
        table=table,
        part=part,
        about=about,
        columns=columns,
        rows=tuple(tuple(_said(line.get(column)) for column in columns) for line in lines),
        sources=tuple(str(line.get("source", "")) for line in lines),
        checked=tuple(str(line.get("checked", "")) for line in lines),
    )


def _about(part: str, component: str, subjects: frozenset[str]) -> bool:
    """Return whether a part is about this component: one that begins with another's name is about that one."""
    owner = PARTS.get(part)
    spelt = part.replace("_", "-")
    owners = {owner} if owner else {one for one in subjects if spelt == one or spelt.startswith((f"{one}-", one))}
    return not owners or component in owners or all(len(one) < len(component) and one in component for one in owners)


def _heads(table: str, matrix: Matrix) -> dict[str, str]:
    """Return the comments at the head of a file about each of its parts, by their first word."""
    parts = set(matrix.table(table))
    heads: dict[str, str] = {}
    part = ""
    written = matrix.folder / f"{table}.toml"  # a table from a bundle has none
    for line in written.read_text("utf-8").splitlines() if written.exists() else ():
        if not line.startswith("#"):
            break
        first, _, rest = line.lstrip("# ").partition(" ")
        indented = line.startswith("#  ")
        part = first if first in parts and not indented else part if indented else ""
        if part:
            said = rest if first == part and not indented else line.lstrip("# ")
            heads[part] = f"{heads.get(part, '')} {said}".strip()
    return heads


def _said(value: object) -> str:
    """Return a value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(
            _said(one) if not isinstance(one, str) or " " not in one else f"{one}," for one in value
        ).rstrip(",")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(one)}" for name, one in value.items())
    return "" if value is None else str(value)
