"""Findings as every form shows them: in which order, which belong together, and each in plain sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gpustack.model.facts import Strength
from gpustack.report.summary import few

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue
    from gpustack.model.report import Because, Finding, Fix

Family: TypeAlias = "tuple[Finding, tuple[Finding, ...]]"
MOST_ITEMS = 8


def families(findings: Sequence[Finding], root_keys: Sequence[str]) -> tuple[list[Family], list[Family]]:
    """Give the root causes and the other findings, each with all that follows from it; every finding once."""
    by_key = {one.key: one for one in findings}
    roots = [by_key[key] for key in root_keys if key in by_key]
    heads = [one for one in findings if one.caused_by not in by_key]
    made: dict[str, Family] = {}
    told: set[str] = set()
    for head in (*roots, *heads, *findings):  # the last: findings that name each other as causes
        if head.key not in told:
            follow = tuple(one for one in consequences(head.key, findings) if one.key not in told)
            made[head.key] = (head, follow)
            told |= {head.key, *(one.key for one in follow)}
    first = [made.pop(one.key) for one in roots if one.key in made]
    return first, list(made.values())


def consequences(of: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Give all findings that follow from the one of this key, directly or not, each once."""
    found: dict[str, Finding] = {}
    causes = [of]
    while causes:
        cause = causes.pop(0)
        new = [one for one in findings if one.caused_by == cause and one.key not in {*found, of}]
        found.update((one.key, one) for one in new)
        causes += [one.key for one in new]
    return tuple(found.values())


def alike(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Give each finding with those that say the same of other instances: same id, same fix."""
    groups: list[list[Finding]] = []
    for finding in findings:
        group = next((held for held in groups if (held[0].id, held[0].fix) == (finding.id, finding.fix)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    yield from ((group[0], tuple(group[1:])) for group in groups)


def paragraphs(finding: Finding) -> list[str]:
    """Give what is known of a finding beside its title."""
    return [line for line in map(str.strip, finding.detail.splitlines()) if line]


def reasons(finding: Finding, *, strengths: bool = False) -> Iterator[str]:
    """Return how we know: each fact that the finding rests on with its source, and the row of the matrix.

    With ``strengths``, a fact that was not measured says how it was learnt.
    """
    for one in finding.because:
        weaker = strengths and one.strength is not Strength.MEASURED
        yield _because(one) + (f" ({one.strength.value})" if weaker else "")
    if finding.row:
        row = finding.row
        yield f"Rule: {row.text} ({row.source}, checked {row.checked})"


def heading(fix: Fix) -> str:
    """Give the words that stand before a fix: "What to type (needs root):"."""
    needs = " and ".join(["root"] * fix.needs_root + ["a reboot"] * fix.needs_reboot)
    return ("What to type" if fix.commands else "What to do") + (f" (needs {needs})" if needs else "") + ":"


def one_line(command: str) -> str:
    """Give a command on one line: a newline that came in with a name must not become a second command."""
    return "\\n".join(command.splitlines())


def sentences(finding: Finding, follow: Sequence[Finding] = ()) -> Iterator[str]:
    """Give all of a finding but its title, a line each: what is known, how, what to type, what follows from it."""
    yield from paragraphs(finding)
    if known := list(reasons(finding)):
        yield "How we know:"
        yield from (f"- {one}" for one in known)
    if fix := finding.fix:
        yield f"{heading(fix)} {fix.text}"
        yield from (f"    {one_line(command)}" for command in fix.commands)
        if fix.verify:
            yield f"Then check with: {one_line(fix.verify)}"
    if follow:
        yield "What follows from it:"
        yield from (f"- {one.title} [{one.key}]" for one in follow)


def _because(because: Because) -> str:
    source = f", from {because.source}" if because.source else ""
    return f"{because.component} {because.fact}: {value(because.value)}{source}"


def value(held: JsonValue) -> str:
    """Give a fact's value in words."""
    if held is None or isinstance(held, bool):
        return {None: "not there", True: "yes", False: "no"}[held]
    if isinstance(held, Mapping):
        return few((f"{name} {value(one)}" for name, one in held.items()), MOST_ITEMS) or "empty"
    if isinstance(held, tuple | list):
        return few(map(value, held), MOST_ITEMS) or "empty"
    return f"{held:g}" if isinstance(held, float) else str(held)
