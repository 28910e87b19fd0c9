"""Real broken machines, described as in public issues: the true cause is named, nothing healthy is blamed.

Each file of ``tests/cases`` holds the machines of one cause: what was pasted of each, the thread of its facts, and the
facts that a diagnosis must name (``|`` separates spellings). A case is ``partly`` decidable where its input narrows
the cause down without settling it; then it is enough to list the cause, as a root or among the first candidates. The
facts are the thread's; the text is ours: docs/decisions/0010-recorded-machines-in-our-own-words.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Health, Severity
from gpustack.model.writing import render
from tests.build import MATRIX
from tests.diagnose import test_fixes as fixes
from tests.diagnose.test_broken import unpaired
from tests.diagnose.test_rules import unsound
from tests.recorded import facts_of
from tests.report import screens
from tests.wide import sample, wide
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.report import Report

FEW = 3
LONGEST = 4000  # of a finding's JSON, as much as a reader takes in


@wide
@pytest.mark.parametrize("cause", cases.causes(healthy=False))
def test_the_true_cause_is_the_first_root_and_names_the_facts_that_decide(cause: str) -> None:
    """In CI one case in thirty-two is judged, and one of each cause at least."""
    found = [f"{case.id}: {why}" for case in some_of(cause) for why in misjudged(case)]
    assert not found, "\n".join(found)


def some_of(cause: str) -> list[cases.Case]:
    """Return the cases of a cause that are judged."""
    held = cases.of(cause)
    return sample(held, 32) or list(held[:1])


def judged(case: cases.Case) -> Report:
    """Return the report on a case, after checking its fixes against the rules for every fix."""
    facts = facts_of(case)
    report = judge(facts, MATRIX)
    fixes.hold(facts, report)
    return report


def wrong(report: Report, *, shown: bool) -> Iterator[str]:
    """Yield how a report breaks the rules for every report: on its findings, its requirements, and its screen."""
    yield from (*unsound(report), *map(str, unpaired(report)), *(screens.wrong(report) if shown else ()))


def shown(case: cases.Case) -> bool:
    """Return whether the screen of this case is held: of a third of them in CI, of all with ``GPUSTACK_WIDE=1``."""
    return bool(sample([case.id], 3))


def misjudged(case: cases.Case) -> Iterator[str]:
    """Yield what is wrong with the report on a broken stack."""
    report = judged(case)
    yield from wrong(report, shown=shown(case))
    roots = report.verdict.root_causes
    if case.decidable == "partly" and case.root_cause in [one.id for one in report.candidates[:FEW]]:
        return
    if case.root_cause not in (roots if case.decidable == "partly" else roots[:1]):
        yield f"the roots are {', '.join(roots) or 'none'}"
        return
    root = next(one for one in report.findings if one.id == case.root_cause)
    at = json.loads(render(report))["findings"][report.findings.index(root)]
    said = json.dumps(at, ensure_ascii=False).lower()[:LONGEST]
    for fact in case.must_mention:
        if not any(spelling.strip().lower() in said for spelling in fact.split("|")):
            yield f"it does not name {fact}"


@wide
@pytest.mark.parametrize("cause", cases.causes(healthy=True))
def test_a_stack_that_is_healthy_is_not_blamed(cause: str) -> None:
    """In CI one case in thirty-two is judged."""
    found = [f"{case.id}: {why}" for case in some_of(cause) for why in blamed(case)]
    assert not found, "\n".join(found)


def blamed(case: cases.Case) -> Iterator[str]:
    """Yield every complaint in the report on a healthy stack."""
    report = judged(case)
    yield from wrong(report, shown=shown(case))
    yield from report.verdict.root_causes
    yield from (one.id for one in report.findings if one.severity is Severity.ERROR)
    if report.verdict.status is Health.BROKEN:
        yield "the verdict is broken"


def test_a_case_says_where_it_comes_from() -> None:
    for case in cases.every():
        assert "#" in case.source or case.source.startswith("https://"), case.id
        assert case.inputs, case.id


def test_each_case_is_there_once() -> None:
    ids = [case.id for case in cases.every()]
    assert len(ids) == len(set(ids))
