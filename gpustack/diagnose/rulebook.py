"""The rules by their ids, and what each finding means in its own words."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING

from gpustack.diagnose import another_environment
from gpustack.diagnose.requirements import of_gpus, of_versions
from gpustack.diagnose.requirements.register import RECORDS
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
    return tuple(name for name, one in RECORDS.items() if one.doc)


def ids() -> tuple[str, ...]:
    """Return the ids of all findings about a machine."""
    return (*rules(), *required(), *of_versions.TEXTS, *AFTERWARDS)


def explained_by(finding: str) -> tuple[str, ...]:
    """Return the findings that one may follow from, the likeliest first."""
    record = rules().get(finding) or RECORDS.get(finding)
    return record.explained_by if record else ()


def explain(finding: str) -> str | None:
    """Return what a finding means, why it hurts and how to fix it; None where none has this id."""
    if finding in rules():
        return rules()[finding].explanation
    record = RECORDS.get(finding)
    return record.doc if record else {**of_versions.TEXTS, **AFTERWARDS}.get(finding)


def module_of(finding: str) -> str:
    """Return the name of the module that a finding comes from."""
    if finding in rules():
        return rules()[finding].predicate.__module__
    if finding in AFTERWARDS:
        return another_environment.__name__
    if finding in of_versions.TEXTS:
        return of_versions.__name__
    return f"{of_gpus.__package__}.{'of_gpus' if finding in of_gpus.RECORDS else 'of_machine'}"
