"""The recorded cases: one TOML file per cause in ``tests/cases``, named after it, with a ``[[case]]`` for each machine.

Causes that begin with ``none-`` belong to healthy stacks. Each file is read once, when it is first needed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "cases"
HELD_OUT = FOLDER.with_name("held_out")  # from repositories whose threads nobody reads while building
EXPECTED = "expected.toml"
# The keys of a [[case]], in order; its inputs follow.
KEPT = (
    *("id", "source", "input_form", "layer", "layer_also", "must_mention", "false_alarms"),
    *("fix", "confidence", "decidable", "works"),
)
OPTIONAL = frozenset({"false_alarms", "works"})  # written only if they say something
BY_ID = attrgetter("id")
NOT_LITERAL = re.compile(r"'''|'\Z|[^\t\n\x20-\x7e\x80-\U0010ffff]")  # a literal TOML string cannot contain these


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A machine that someone described in public: the texts, and what their diagnosis must say."""

    root_cause: str
    id: str
    source: str  # the thread that its facts are from
    input_form: str
    layer: str
    layer_also: tuple[str, ...]
    must_mention: tuple[str, ...]  # "|" separates spellings
    false_alarms: tuple[str, ...] = ()  # what a careless diagnosis would blame
    fix: str
    confidence: str
    decidable: str  # "partly" if the input narrows the cause down without determining it
    works: bool = False  # the text of a healthy stack shows a GPU at work, as decided before it was judged
    inputs: Mapping[str, str]  # by file name without ".txt"

    @property
    def healthy(self) -> bool:
        """Whether the stack is healthy, whatever failed on it."""
        return self.root_cause.startswith("none-")

    @property
    def repository(self) -> str:
        """The repository of the thread."""
        return self.source.partition("#")[0].strip().lower()

    @property
    def files(self) -> dict[str, bytes]:
        """The inputs as files, under names that state their origin."""
        return {f"tests/cases/{self.id}/{name}.txt": text.encode() for name, text in self.inputs.items()}


def causes(*, healthy: bool | None = None, held_out: bool = False) -> list[str]:
    """Return the causes that have recorded cases: all, or only those of healthy or of faulty stacks."""
    names = sorted(path.stem for path in (HELD_OUT if held_out else FOLDER).glob("*.toml"))
    return [name for name in names if healthy is None or name.startswith("none-") is healthy]


@cache
def of(cause: str, *, held_out: bool = False) -> tuple[Case, ...]:
    """Return the cases with one cause."""
    text = ((HELD_OUT if held_out else FOLDER) / f"{cause}.toml").read_text("utf-8")
    return tuple(made(cause, row, row["inputs"]) for row in tomllib.loads(text)["case"])


@cache
def every(*, held_out: bool = False) -> tuple[Case, ...]:
    """Return all cases by id: those to build with, or the held-out ones."""
    found = (case for cause in causes(held_out=held_out) for case in of(cause, held_out=held_out))
    return tuple(sorted(found, key=BY_ID))


def named(wanted: str) -> Case:
    """Return the case with this id; only the file that contains it is decoded."""
    line = f'\nid = "{wanted}"\n'
    for cause in causes():
        if line in (FOLDER / f"{cause}.toml").read_text("utf-8"):
            return next(case for case in of(cause) if case.id == wanted)
    raise LookupError(f"no case has the id {wanted}")


def made(cause: str, row: Mapping[str, Any], inputs: Mapping[str, str]) -> Case:
    """Return the case that a TOML table describes."""
    held: dict[str, Any] = {
        key: tuple(row[key]) if isinstance(row[key], list) else row[key] for key in KEPT if key in row
    }
    return Case(root_cause=cause, inputs=dict(inputs), **held)


def write(case: Case, folder: Path) -> Path:
    """Write a case as a subfolder, with one file per input and the expected result; return the folder."""
    at = folder / case.id
    at.mkdir(parents=True)
    for name, text in case.inputs.items():
        (at / f"{name}.txt").write_bytes(text.encode())
    said = {**_values(case), "dump": list(case.inputs), "healthy": case.healthy, "root_cause": case.root_cause}
    (at / EXPECTED).write_text("".join(f"{key} = {_basic(value)}\n" for key, value in said.items()), "utf-8")
    return at


def add(folder: Path) -> Case:
    """Write the case in a folder to the file of its cause, replacing any with the same id; return it."""
    row = tomllib.loads((folder / EXPECTED).read_text("utf-8"))
    texts = {name: (folder / f"{name}.txt").read_bytes().decode() for name in row["dump"]}
    case = made(row["root_cause"], row, texts)
    if row["healthy"] is not case.healthy:
        raise ValueError(f"{case.id}: the causes of stacks that are well, and only those, begin with none-")
    put(case)
    return case


def put(case: Case, *, held_out: bool = False) -> None:
    """Write a case to the file of its cause, replacing any with the same id."""
    folder, line = HELD_OUT if held_out else FOLDER, f'\nid = "{case.id}"\n'
    there = {cause for cause in causes(held_out=held_out) if line in (folder / f"{cause}.toml").read_text("utf-8")}
    for cause in {*there, case.root_cause}:
        path = folder / f"{cause}.toml"
        before = of(cause, held_out=held_out) if path.exists() else ()
        after = [one for one in before if one.id != case.id] + [case] * (cause == case.root_cause)
        if not after:
            path.unlink()
        elif tuple(after) != before:
            path.parent.mkdir(exist_ok=True)
            path.write_text(written(after), "utf-8")
    of.cache_clear()
    every.cache_clear()


def written(cases: Iterable[Case]) -> str:
    """Return the file content for the cases of one cause, ordered by id."""
    return "\n".join(map(_row, sorted(cases, key=BY_ID)))


def _row(case: Case) -> str:
    lines = [f"{key} = {_basic(value)}" for key, value in _values(case).items()]
    inputs = [f"{name} = {_text(text)}" for name, text in case.inputs.items()]
    return "\n".join(("[[case]]", *lines, "[case.inputs]", *inputs, ""))


def _values(case: Case) -> dict[str, str | bool | tuple[str, ...]]:
    return {key: value for key in KEPT if (value := getattr(case, key)) or key not in OPTIONAL}


def _basic(value: object) -> str:
    """Return a value as TOML on one line, which is the same as JSON except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(text: str) -> str:
    """Return a multi-line text, as a literal string if TOML can represent it."""
    if not NOT_LITERAL.search(text):
        return f"'''\n{text}'''"
    escaped = "\n".join(_basic(line)[1:-1] for line in text.split("\n"))
    return f'"""\n{escaped}"""'
