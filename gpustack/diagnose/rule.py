"""A rule: what cannot be said as a requirement, as a record that stands beside its predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, TypeAlias

from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Layer
    from gpustack.model.report import Because, Fix, Row

    Predicate: TypeAlias = Callable[[Facts, Matrix], Iterable[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def made(predicate: Predicate) -> Rule:
        return Rule(
            id=id_,
            layer=layer,
            component=component,
            severity=severity,
            predicate=predicate,
            in_one_python=in_one_python,
            from_messages=from_messages,
            explained_by=explained_by,
        )

    return made
