"""A rule: what cannot be said as a requirement, a record beside its predicate; and the rules by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, TypeAlias

from gpustack.diagnose import environments
from gpustack.diagnose.requirements.records import by_id, texts
from gpustack.diagnose.rules import FAMILIES
from gpustack.model import record
from gpustack.model.report import Because, Confidence, Finding, Fix, Row, Severity

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Layer

    Predicate: TypeAlias = Callable[[Facts, Matrix], Iterable[Finding]]


@record
class Rule:
    """What a finding is by default, and the predicate that yields it.

    ``in_one_python``: it is about the packages of one Python, asked for each, and sees no other. ``from_messages``: it
    says nothing without a message of a program or the kernel. ``explained_by``: the findings that it may follow from,
    the likeliest first; a cause of the same instance (GPU, Python) goes before one of another.
    """

    id: str
    layer: Layer
    component: str
    severity: Severity
    predicate: Predicate
    in_one_python: bool = False
    from_messages: bool = False
    explained_by: tuple[str, ...] = ()

    def __call__(self, facts: Facts, matrix: Matrix) -> Iterable[Finding]:
        """Yield what it finds in these facts."""
        return self.predicate(facts, matrix)

    @property
    def explanation(self) -> str:
        """What it means, why it hurts and how to fix it: the docstring of the predicate."""
        return cleandoc(self.predicate.__doc__ or "")

    def finding(
        self,
        *,
        title: str,
        detail: str = "",
        instance: str | None = None,
        because: tuple[Because, ...] = (),
        row: Row | None = None,
        fix: Fix | None = None,
        confidence: Confidence = Confidence.CERTAIN,
        severity: Severity | None = None,
        layer: Layer | None = None,
        component: str | None = None,
    ) -> Finding:
        """Return its finding, of the record's severity, layer and component where none is named."""
        return Finding(
            id=self.id,
            severity=severity or self.severity,
            layer=layer or self.layer,
            component=component or self.component,
            title=title,
            detail=detail,
            instance=instance,
            because=because,
            row=row,
            fix=fix,
            confidence=confidence,
        )


def rule(
    id_: str,
    layer: Layer,
    component: str,
    severity: Severity = Severity.ERROR,
    *,
    in_one_python: bool = False,
    from_messages: bool = False,
    explained_by: tuple[str, ...] = (),
) -> Callable[[Predicate], Rule]:
    """Return what makes a rule of the predicate below it."""
    return lambda predicate: Rule(
        id=id_,
        layer=layer,
        component=component,
        severity=severity,
        predicate=predicate,
        in_one_python=in_one_python,
        from_messages=from_messages,
        explained_by=explained_by,
    )


# Those that rest on what works and what does not, which the others decide first.
AFTERWARDS = {environments.ID: cleandoc(environments.among.__doc__ or "")}
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
        module = environments.__name__
    else:
        return "compat-matrix/findings.toml"
    return f"{module.replace('.', '/')}.py"
