"""Every fault of a called program: what it would report is unknown, nothing else is, and what is odd is named."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.faults import programs, tree
from tests.patience import idle, in_time

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts, JsonValue
    from tests.faults.programs import Program

pytestmark = in_time

LIMIT = 10.0
LOOKS = programs.looks()


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Facts, ...]:
    """Return the facts of the machine without a faulty program, then of the rows' machines; all at the same time."""
    folder = tmp_path_factory.mktemp("programs")
    begun = time.monotonic()
    roots = [programs.plant(folder / str(number), rows) for number, rows in enumerate(((), *LOOKS))]
    with ThreadPoolExecutor() as pool:
        facts = tuple(pool.map(lambda root: tree.look(root, programs.COMPONENTS), roots))
    assert time.monotonic() - begun < idle(LIMIT)
    return facts


def known(row: Program, facts: Facts) -> tuple[Component, JsonValue]:
    """Return the row's component, and the fact that the program reports."""
    seen = facts.find(row.component)
    assert seen is not None
    return seen, seen.version if row.fact == "version" else seen.facts.get(row.fact)


def unmet(row: Program, facts: Facts) -> list[str]:
    """Return the row's assertions that these facts do not meet."""
    seen, fact = known(row, facts)
    named = [one.why for one in facts.not_seen if f"/{one.what.split(' ')[0]}".endswith(f"/{row.command}")]
    missing = [] if seen.status.value == row.status else [f"it is {seen.status.value}: {seen.reason}"]
    missing += [] if not fact else [f"{row.fact} is {fact}"]
    return missing + ([] if not row.says or row.says in named else [f"{row.command} is not named: {named}"])


@pytest.mark.parametrize(
    ("number", "row"),
    [(number, row) for number, rows in enumerate(LOOKS, 1) for row in rows],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_faulty_program_loses_only_what_it_would_say(number: int, row: Program, looks: tuple[Facts, ...]) -> None:
    assert unmet(row, looks[number]) == []
    assert unmet(row, looks[0]) != [], "the same is seen where the program is well"


def test_the_same_machine_is_seen_whole_while_its_programs_are_healthy(looks: tuple[Facts, ...]) -> None:
    assert {one.status.value for one in looks[0].components} == {"present"}
    assert all(known(row, looks[0])[1] for rows in LOOKS for row in rows)
    assert [one.what for one in looks[0].not_seen] == ["/dev"]
