"""Every regular expression of the project, wherever it is written: in a module, in a call, in a row of a table."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpustack.ask.given import NUMBER
from gpustack.imports.gathered import NAMES
from gpustack.matrix.subjects import messages
from gpustack.matrix.subjects.codes import FAMILIES
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.command import KINDS
from tests.told import REPO

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

FOLDERS = ("gpustack", "probes", "microbench")
FLAGS = {"compile": 1, "search": 2, "match": 2, "fullmatch": 2, "findall": 2, "finditer": 2, "split": 3, "sub": 4}
ANCHORED = frozenset({"match", "fullmatch"})
# Calls whose expression comes from a table or a caller: from where, so that in_rows has it. The other
# such calls insert a plain word into an expression, for which "word" stands in.
FROM_ELSEWHERE = {
    ("gpustack/ask/given.py", "pattern"): "NUMBER",
    ("gpustack/imports/devices.py", "pattern"): "a table of the same module, which holds what was compiled",
    ("gpustack/imports/messages.py", "one.said"): "FAMILIES",
    ("gpustack/imports/messages.py", "family.said"): "FAMILIES",
    ("gpustack/model/command.py", "self.form"): "KINDS",
    ("gpustack/redaction/form.py", "head"): "the forms, which tests/redaction/test_redaction_forms.py measures",
    ("gpustack/redaction/form.py", "pattern"): "the same",
    ("gpustack/redaction/form.py", "unless"): "the same",
    ("gpustack/matrix/subjects/messages.py", "match"): "the table of prose",
    ("gpustack/matrix/subjects/wording.py", "_PARTS.sub(_part, match)"): "the tables of messages",
    ("probes/application/gpu_processes.py", "pattern"): "the row's kinds",
    ("probes/environment/distribution.py", "host.row['tag']"): "the row's tag",
    ("probes/environment/packages.py", "host.row.get('pinned', '(?!)')"): "the row's pinned",
    ("probes/library/shared_object.py", "row['names']"): "the row's names",
    ("probes/runtime/cuda_toolkit.py", "wanted"): "literals, which the same module gives to first()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One regular expression, where it is written, and the methods that use it."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str] = frozenset({"finditer"})

    @property
    def anchored(self) -> bool:
        """Whether it is only tried at the start of a text."""
        return bool(self.methods) and self.methods <= ANCHORED

    def run(self, text: str) -> None:
        """Try it on the whole of a text."""
        said: Any = text.encode("utf-8", "replace") if isinstance(self.pattern.pattern, bytes) else text
        if self.anchored:
            for method in self.methods:
                getattr(self.pattern, method)(said)
            return
        for _ in self.pattern.finditer(said):
            pass


def in_modules() -> Iterator[Expression]:
    """Yield what modules write as constants and in calls."""
    for path in _files():
        yield from _calls(path)
    for path in _files("gpustack"):
        name = ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
        if "re." in _text(path) and not name.endswith("__main__"):
            for held in vars(importlib.import_module(name)).values():
                if isinstance(held, tuple | list | dict):
                    yield from (Expression(place=name, pattern=one) for one in _inside(held))


def in_rows(matrix: Matrix) -> Iterator[Expression]:
    """Yield what the rows of tables are turned into."""
    for row in patterns(matrix):
        yield Expression(place=f"{row.kind}: {row.wording[:60]}", pattern=row.compiled())
    for said in (*messages.things(matrix), *messages.states(matrix), *messages.voids(matrix)):
        yield Expression(place=said.name, pattern=said.compiled(), methods=frozenset({"search"}))
    for meaning in messages.meanings(matrix):
        about = filter(None, (meaning.unless, meaning.only))
        yield from (Expression(place=str(meaning), pattern=re.compile(one, re.IGNORECASE)) for one in about)
    for pattern, _ in NUMBER.values():
        yield Expression(place="NUMBER", pattern=re.compile(pattern), methods=frozenset({"fullmatch"}))
    for words, _ in NAMES:
        yield Expression(place="NAMES", pattern=re.compile(rf"\b(?:{words})(?![a-z])"))
    for kind in KINDS:
        yield Expression(place=kind.blank, pattern=re.compile(kind.form, re.ASCII), methods=frozenset({"fullmatch"}))
    for family in FAMILIES:
        yield Expression(place=family.id, pattern=re.compile(family.said, re.IGNORECASE))
    for row in json.loads((REPO / "probes/catalogue.json").read_text("utf-8"))["systems"]:
        texts = [row[name] for name in ("tag", "pinned", "names") if isinstance(row.get(name), str)]
        for text in (*texts, *(pattern for _, pattern in row.get("kinds", ()))):
            yield Expression(place=row["id"], pattern=re.compile(text, re.IGNORECASE))


@cache
def _files(*folders: str) -> tuple[Path, ...]:
    return tuple(path for folder in folders or FOLDERS for path in sorted((REPO / folder).rglob("*.py")))


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def _uses(path: Path) -> dict[str, frozenset[str]]:
    """Return the methods by which each constant of a module is used anywhere; "passed" where it is handed on."""
    own, module = _read(path).used, path.stem
    found = {name: set(methods) for name, methods in own.items() if "." not in name}
    for other in _files():
        if other != path and module in _text(other):
            for name, methods in _read(other).used.items():
                place, _, last = name.rpartition(".")
                if place == module:
                    found.setdefault(last, set()).update(methods)
    return {name: frozenset(methods) for name, methods in found.items()}


class Read(NamedTuple):
    """What one pass over a file yields: the methods by which it uses constants, its calls of re and their parents.

    Its own constants have their names, others' are module.NAME.
    """

    used: dict[str, frozenset[str]]
    given: tuple[tuple[ast.Call, ast.AST], ...]


@cache
def _read(path: Path) -> Read:
    nodes: list[ast.AST] = [ast.parse(_text(path))]
    parents: dict[ast.AST, ast.AST] = {}
    for node in nodes:  # which grows
        below = tuple(ast.iter_child_nodes(node))
        parents.update(dict.fromkeys(below, node))
        nodes += below
    given = tuple((node, parents[node]) for node in nodes if isinstance(node, ast.Call) and _of_re(node))
    return Read(used=_used(nodes, parents), given=given)


def _used(nodes: list[ast.AST], parents: dict[ast.AST, ast.AST]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    origin = {
        alias.asname or alias.name: f"{(node.module or '').rpartition('.')[2]}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.isupper()
    }
    for node in nodes:
        if isinstance(node, ast.Name):
            name = origin.get(node.id, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
        else:
            continue
        if isinstance(node.ctx, ast.Load) and name.rpartition(".")[2].isupper():
            parent = parents[node]
            found.setdefault(name, set()).add(parent.attr if isinstance(parent, ast.Attribute) else "passed")
    return {name: frozenset(methods - {"pattern", "flags"}) for name, methods in found.items()}


def _of_re(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=method):
            return method in FLAGS
    return False


def calls() -> Iterator[tuple[str, str]]:
    """Yield the file and the words of each expression that is passed to re."""
    for path in _files():
        yield from ((str(path.relative_to(REPO)), ast.unparse(call.args[0])) for call, _ in _given(path))


def _calls(path: Path) -> Iterator[Expression]:
    where = str(path.relative_to(REPO))
    for call, parent in _given(path):
        if (where, ast.unparse(call.args[0])) not in FROM_ELSEWHERE:
            made = _made(path, call)
            yield replace(made, place=f"{where}:{call.lineno}", methods=_methods(path, call, parent))


def _given(path: Path) -> tuple[tuple[ast.Call, ast.AST], ...]:
    """Return the calls of re in a file, each with its enclosing node."""
    return _read(path).given if "re." in _text(path) else ()


def _made(path: Path, call: ast.Call) -> Expression:
    """Return the expression of a call, as its module would make it; a name that only a function knows is a word."""
    name = ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
    space: dict[str, Any] = dict(vars(importlib.import_module(name)))
    place = FLAGS[call.func.attr] if isinstance(call.func, ast.Attribute) else 1
    given = [*(one.value for one in call.keywords if one.arg == "flags"), *call.args[place : place + 1]]
    while True:
        try:
            said, *flags = (
                eval(compile(ast.Expression(one), str(path), "eval"), space)  # noqa: S307 - our own code
                for one in (call.args[0], *given)
            )
        except NameError as error:
            space[str(error.name)] = Word("word")
            continue
        assert not isinstance(said, Word), f"{name}:{call.lineno}: its expression comes from elsewhere: from where?"
        pattern = said if isinstance(said, re.Pattern) else re.compile(said, flags[0] if flags else 0)
        return Expression(place="", pattern=pattern)


class Word(str):
    """A word in place of a function's argument: any attribute of it is a word too."""

    __slots__ = ()

    def __getitem__(self, _key: object) -> Word:
        """Return a word."""
        return self

    def __mod__(self, _other: object) -> Word:
        """Return a word."""
        return self

    def __int__(self) -> int:
        """Return a number, for an expression that holds one."""
        return 7

    __index__ = __int__

    def __bytes__(self) -> bytes:
        """Return a word, for an expression of bytes."""
        return str(self).encode()

    def group(self, _number: int) -> Word:
        """Return a word, as a match would."""
        return self

    def __iter__(self) -> Iterator[str]:
        """Yield words."""
        yield str(self)


def _methods(path: Path, call: ast.Call, parent: ast.AST) -> frozenset[str]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        return frozenset({call.func.attr})
    if isinstance(parent, ast.Attribute):
        return frozenset({parent.attr})
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        return _uses(path).get(parent.targets[0].id, frozenset({"passed"}))
    return frozenset({"passed"})


def _inside(held: object) -> Iterator[re.Pattern[Any]]:
    """Yield the expressions in a table of a module."""
    if isinstance(held, re.Pattern):
        yield held
    elif isinstance(held, dict):
        yield from (one for value in (*held, *held.values()) for one in _inside(value))
    elif isinstance(held, tuple | list | frozenset):
        yield from (one for value in held for one in _inside(value))
