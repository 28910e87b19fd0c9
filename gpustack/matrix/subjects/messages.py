"""What programs, the kernel and people write when something is wrong: how it is recognised and what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from gpustack.matrix.facts import EACH, schema
from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.codes import FAMILIES, Number, numbers
from gpustack.matrix.subjects.ranges import SPELLED
from gpustack.matrix.subjects.wording import compiled, expression, words
from gpustack.model import field, record, replace, row
from gpustack.model.reading import frozen, key
from gpustack.model.report import Row
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import JsonValue

NVML = "NVML_ERROR_"
TABLES = (
    *("messages_kernel", "messages_hardware", "messages_driver", "messages_library", "messages_framework"),
    *("messages_compiler", "messages_container", "messages_environment", "messages_harmless"),
)

# A fact that a row names: its component, which copy if there are several, and its path below that.
NAME = re.compile(r"(?P<component>(?:(?:[\w-]+/)?[\w-]+|\{\w+:id\})(?:\.ko)?)(?:\[(?P<copy>[^\]]*)\])?\.(?P<path>.+)")
# {pci}, or {pci|address}: the first one captured; {found:cudnn}: converted by SPELLED
GROUP = re.compile(r"\{(\w+(?:\|\w+)*)(?::(\w+))?\}")
STATUS = "status"  # of the copy itself, not one of its facts: present or failed
MEMBER = re.compile(r"[^\s,;]+")


@record
class Implied:
    """A fact that a message implies: the copy of the component, the fact's path, and its value, not yet filled in."""

    component: str
    copy: str
    path: str
    value: JsonValue

    def filled(self, values: Mapping[str, str], matrix: Matrix) -> Iterator[tuple[str, str, str, JsonValue]]:
        """Yield component, copy, path and value if all their parts were captured and the value has the right type."""
        copy, path, value = _filled(self.copy, values), _filled(self.path, values), self.value
        component = _filled(self.component, values)
        if path is None or component is None:
            return
        if self.path == STATUS:
            yield component, copy or "", STATUS, value
            return
        fact = schema(matrix).at(component, *path.replace(EACH, f".{EACH}").split("."))
        if isinstance(value, str):
            text = _filled(value, values)
            parts = [one.rstrip(".") for one in MEMBER.findall(text or "")] if path.endswith(EACH) else [text or ""]
            read = tuple(one for part in parts if part and fact and (one := fact.parse(part)) is not None)
            value = (read or None) if path.endswith(EACH) else next(iter(read), None)
        if copy is not None and value is not None:
            yield component, copy, path.removesuffix(EACH), value


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    """Return a text with its braces filled with what was captured; None if anything was not captured."""
    known = [
        (next((values[name] for name in names.split("|") if values.get(name)), None), SPELLED.get(how, str))
        for names, how in GROUP.findall(text)
    ]
    captured = iter([None if said is None else spelled(said) for said, spelled in known])
    return None if any(said is None for said, _ in known) else GROUP.sub(lambda _: next(captured) or "", text)


def _implied(said: Mapping[str, object]) -> tuple[Implied, ...]:
    """Return the facts that a row names; raises ValueError for a name without a component or a fact."""
    found = [(NAME.fullmatch(name), value) for name, value in said.items()]
    wrong = [name for name, (match, _) in zip(said, found, strict=True) if match is None]
    if wrong:
        raise ValueError(f"{wrong[0]!r} names no fact of a component")
    return tuple(
        Implied(component=match["component"], copy=match["copy"] or "", path=match["path"], value=frozen(value))
        for match, value in found
        if match
    )


def _texts(values: Mapping[str, object]) -> Mapping[str, str]:
    return {name: str(value) for name, value in values.items()}


def _forms(text: str | Sequence[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


@record
class Pattern:
    """One message of a program or of the kernel, or of a person, and what it means.

    ``text`` is what a program prints, with placeholders, in each of its versions; ``match`` an expression, where no
    text can say it. It contains a word, in lower case: by default two of its text. ``values`` are implied by the
    message, such as the number of an error that it spells out; ``facts`` are what it implies about the machine.
    ``finding`` is the id of the finding that it usually leads to, None if that depends; ``likely`` are further ones.
    """

    kind: str
    says: str
    source: str
    checked: str
    has: str = ""
    match: str = ""
    text: tuple[str, ...] = field(default=(), metadata=key("text", _forms))
    values: Mapping[str, str] = field(default_factory=dict, metadata=key("values", _texts))
    facts: tuple[Implied, ...] = field(default=(), metadata=key("facts", _implied))
    finding: str | None = None
    likely: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # words one of which it may contain instead

    def __post_init__(self) -> None:
        """Raise ValueError unless it has either texts or an expression, and a word to search for."""
        if bool(self.text) == bool(self.match) or not (self.has or self.text):
            raise ValueError(f"{self.kind}: a message has a text, or has and match")

    @property
    def wording(self) -> str:
        """What its row says about its words."""
        return self.match or " ".join(self.text)

    def compiled(self) -> re.Pattern[str]:
        """Return the expression: case is ignored, a space also matches a wrapped line, and repeats are limited.

        A look-behind has a fixed width, so a space in it matches a single whitespace character.
        """
        return compiled(self.match or expression(self.text))

    @property
    def names(self) -> frozenset[str]:
        """What it captures."""
        return frozenset(name.partition("__")[0] for name in self.compiled().groupindex)

    def captured(self, found: re.Match[str]) -> Mapping[str, str]:
        """Return what was captured, by name."""
        return {name.partition("__")[0]: said.strip() for name, said in found.groupdict().items() if said}

    @property
    def stated(self) -> bool:
        """Whether people write it, rather than programs."""
        return self.source.startswith(("wording", "facts of"))

    @property
    def row(self) -> Row:
        """The row as a report cites it."""
        return Row(table="messages", text=self.says, source=self.source, checked=self.checked)


def rows(matrix: Matrix) -> tuple[Pattern, ...]:
    """Return the rows of the tables of messages, in their order."""
    return tuple(chain.from_iterable(matrix.rows(table, "messages", Pattern) for table in TABLES))


@cache
def patterns(matrix: Matrix) -> tuple[Pattern, ...]:
    """Return every known message, in the order of the tables: once for each word that it may contain."""
    spread = tuple(
        replace(row, has=word, also=())
        for row in rows(matrix)
        for word in ((row.has, *row.also) if row.has else words(row.text))
    )
    return (*spread, *_by_name(spread, matrix))


def _by_name(spread: Sequence[Pattern], matrix: Matrix) -> Iterator[Pattern]:
    """Yield, for each error number with its own message, a message that recognises its name."""
    first = {row.kind: row for row in reversed(spread)}
    for family in FAMILIES:
        for one in numbers(matrix, family):
            if not one.message:
                continue
            row = first[one.message]
            values = {**row.values, "code": str(one.number)} if family.id != "cudnn9" else {}
            for name in _names(one):
                match = rf"(?<!\w){name}(?!\w)"
                source = one.row.source or row.source
                yield replace(row, has=name.lower(), text=(), match=match, values=values, source=source)


def _names(one: Number) -> Iterator[str]:
    """Yield the spellings of an error's name: NVML_ERROR_GPU_IS_LOST is also pynvml's NVMLError_GpuIsLost."""
    yield from (one.name, *one.also)
    if one.name.startswith(NVML):
        words = one.name.removeprefix(NVML).split("_")
        yield f"NVMLError_{''.join(map(str.capitalize, words))}"
        yield from [f"ERROR_{'_'.join(words)}"] if len(words) > 1 else ()


@cache
def _ignoring_case(match: str) -> re.Pattern[str]:
    return re.compile(match, re.IGNORECASE)


@row
class Words(Stated):
    """The words that people use for a thing or for a state."""

    name: str
    match: str

    def compiled(self) -> re.Pattern[str]:
        """Return their expression, which ignores case."""
        return _ignoring_case(self.match)

    def __str__(self) -> str:
        return self.name


@row
class Meaning(Stated):
    """A thing in a state, and the equivalent kind of message, ``unless`` or ``only`` if a line contains certain words.

    ``despite`` names words that void other meanings but not this one: a cure that works reveals the fault.
    """

    thing: str
    state: str
    message: str
    unless: str | None = None
    only: str | None = None
    despite: str | None = None

    def fits(self, sentence: str, line: str) -> bool:
        """Return whether nothing in a sentence changes its meaning, and its line contains what it needs."""
        other = self.unless and _ignoring_case(self.unless).search(sentence)
        return not other and (self.only is None or bool(_ignoring_case(self.only).search(line)))

    def __str__(self) -> str:
        return f"{self.thing} {self.state}"


things = rows_of("prose", "things", Words)  # the things that people mention
states = rows_of("prose", "states", Words)  # the states that they describe
releases = rows_of("prose", "releases", Words)  # what says that a release of a part of the stack works or fails
voids = rows_of("prose", "voids", Words)  # words that make a clause say nothing about the present, or nothing certain
meanings = rows_of("prose", "means", Meaning)  # the meaning of a thing in a state
