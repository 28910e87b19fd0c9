"""The rules by their ids, and what each finding means in its own words."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING

from gpustack.diagnose import another_environment
from gpustack.diagnose.requirements.records import by_id, texts
from gpustack.diagnose.rule import Rule
from gpustack.diagnose.rules import FAMILIES

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

# Those that rest on what works and what does not, which the others decide first.
AFTERWARDS = {another_environment.ID: cleandoc(another_environment.__doc__ or "")}


ADDED: dict[str, Rule] = {}  # rules of plugins


def rules() -> dict[str, Rule]:
    """Return every rule by its id, in the order in which they are asked; those of plugins come last."""
    return {**_shipped(), **ADDED} if ADDED else _shipped()


@cache
def _shipped() -> dict[str, Rule]:
    found = (one for family in FAMILIES for one in _of(f"gpustack.diagnose.rules.{family}"))
    return {one.id: one for one in found}


def _of(module: str) -> list[Rule]:
    """Return the rules of one family, in the order in which they stand in it."""
    held = vars(import_module(module)).values()
    return [one for one in held if isinstance(one, Rule) and one.predicate.__module__ == module]


def asked(facts: Facts) -> list[Rule]:
    """Return the rules that can say something of these facts, in their order."""
    return [one for one in rules().values() if facts.messages or not one.from_messages]


def required() -> tuple[str, ...]:
    """Return the ids of findings that rows of requirements alone yield."""
    return tuple(name for name, one in by_id().items() if one.doc)


def ids() -> tuple[str, ...]:
    """Return the ids of all findings about a machine."""
    return (*rules(), *required(), *texts(), *AFTERWARDS)


def explained_by(finding: str) -> tuple[str, ...]:
    """Return the findings that one may follow from, the likeliest first."""
    record = rules().get(finding) or by_id().get(finding)
    return record.explained_by if record else ()


def explain(finding: str) -> str | None:
    """Return what a finding means, why it hurts and how to fix it; None where none has this id."""
    if finding in rules():
        return rules()[finding].explanation
    record = by_id().get(finding)
    return cleandoc(record.doc or "") if record else {**texts(), **AFTERWARDS}.get(finding)


def file_of(finding: str) -> str:
    """Return the file that says what a finding is, from the root of a checkout."""
    if finding in rules():
        module = rules()[finding].predicate.__module__
    elif finding in AFTERWARDS:
        module = another_environment.__name__
    else:
        return "compat-matrix/findings.toml"
    return f"{module.replace('.', '/')}.py"
