"""Every fault of a library at every place: the report is complete, in time, names it, and calls nothing healthy."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import workers
from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model import writing
from gpustack.model.report import Health
from tests.faults import machine
from tests.faults.kinds import DAMAGES
from tests.faults.rows import Row, libraries
from tests.patience import idle, in_time

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts
    from tests.faults.machine import Shop

pytestmark = in_time

MATRIX = Matrix()
LIMIT, AT_A_TIME = 20.0, 5
LOOKS = sorted(machine.packed(libraries()), key=lambda rows: not machine.waits(rows))
ROWS = [row for rows in LOOKS for row in rows]  # those of one group next to each other, however tests are distributed


class Looks:
    """The results from faulty machines, each taken once, if in time; those that wait for something a few at a time."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self.shop, self.folder = shop, folder
        self.taken: dict[int, tuple[Facts, float]] = {}
        self.where = {row.name: number for number, rows in enumerate(LOOKS) for row in rows}

    def of(self, row: Row, *, again: bool = False) -> tuple[Facts, float]:
        """Return the facts collected from the row's machine, collected anew where asked, and how long that took."""
        number = self.where[row.name]
        if again or number not in self.taken:
            waits = machine.waits(LOOKS[number]) and number not in self.taken
            wanted = [one for one, rows in enumerate(LOOKS) if waits and machine.waits(rows)] or [number]
            planted = [
                {
                    **machine.planted(self.shop, self.folder / f"look{one}", LOOKS[one]),
                    "NV_FIRED": str(self.folder / f"met{one}"),
                }
                for one in wanted
            ]
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                self.taken.update(zip(wanted, pool.map(taken, planted, [LOOKS[one] for one in wanted]), strict=True))
        return self.taken[number]

    def met(self, row: Row) -> list[str]:
        """Return the faults that the stand-ins of the row's machine produced, as named in the plan."""
        at = self.folder / f"met{self.where[row.name]}"
        return at.read_text().splitlines() if at.exists() else []


def taken(environ: Mapping[str, str], rows: Sequence[Row]) -> tuple[Facts, float]:
    """Return the facts of the machine of these rows, and how long probing took."""
    door = machine.Refusing() if any(row.unkillable for row in rows) else None
    begun = time.monotonic()
    try:
        facts = machine.look(environ, rows, door)
        return facts, time.monotonic() - begun
    finally:
        if door:
            door.end()


@pytest.fixture(scope="module")
def looks(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return Looks(shop, tmp_path_factory.mktemp("looks"))


def shown(row: Row, facts: Facts, folder: str) -> tuple[str, str]:
    """Return the status of a row's component, and all that is said about it; about a copy where there may be many."""
    seen = facts.find(row.component)
    assert seen is not None
    if row.library not in machine.SHARED:
        beside = [one.why for one in facts.not_seen if one.what.endswith(row.library)]
        return seen.status.value, f"{seen.reason} {json.dumps(seen.facts)} {_copies(seen)} {beside}"
    copy = next(one for one in seen.instances if f"/{folder}/{row.library}" in (one.path or ""))
    return copy.status.value, json.dumps(copy.facts)


def _copies(seen: Component) -> str:
    return " ".join(json.dumps(copy.facts) for copy in seen.instances)


def unmet(row: Row, facts: Facts, folder: str) -> list[str]:
    """Return the row's assertions that these facts do not meet."""
    status, said = shown(row, facts, folder)
    missing = [] if status == row.status else [f"it is {status}: {said}"]
    return missing + [f"{part} is not in {said}" for part in row.says.split("…") if part not in said]


def longest(row: Row, facts: Facts) -> float:
    """Return the seconds that the slowest call of the row's function took."""
    seen = facts.find(row.component)
    assert seen is not None
    return max((call.seconds for call in seen.calls if call.name == row.place), default=0.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a busy machine the time to end what has closed its output."""
    monkeypatch.setattr(workers, "GRACE", 3.0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_fault_is_named_and_nothing_is_called_healthy(
    row: Row, looks: Looks, well: Facts, request: pytest.FixtureRequest
) -> None:
    facts, seconds = looks.of(row, again=request.node.execution_count > 1)
    rows = LOOKS[looks.where[row.name]]
    shared = [one for one in rows if one.library in machine.SHARED]
    folder = f"copy{shared.index(row)}" if row in shared else ""
    assert unmet(row, facts, folder) == []
    assert seconds < idle(LIMIT)
    assert {one.id for one in facts.components} == machine.asked(rows)
    assert row.fault in DAMAGES or f"{folder}/{row.place}={row.fault}".lstrip("/") in looks.met(row)
    assert longest(row, facts) >= row.least
    assert (unmet(row, well, "copy") == []) is row.harmless, "the same is seen where the library is well"
    report = judge(machine.transplanted(well, facts, {row.component}), MATRIX)
    json.loads(writing.render(report))
    assert not (row.decides and report.verdict.status is Health.HEALTHY)


def test_without_any_fault_the_machine_is_called_healthy(well: Facts) -> None:
    """So a different verdict is caused by the fault."""
    assert {one.status.value for one in well.components} <= {"present", "absent"}
    assert judge(well, MATRIX).verdict.status is Health.HEALTHY
