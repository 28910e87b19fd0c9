"""Every fault of a kernel file: the report is complete, in time, names it, and calls nothing unchecked healthy."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model import writing
from gpustack.model.report import Health
from tests.faults import tree
from tests.faults.files import Sick, files
from tests.leaving import leave_out
from tests.patience import idle, in_time

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

pytestmark = in_time

MATRIX = Matrix()
LIMIT = 9.0


def grouped() -> list[list[Sick]]:
    """Return the rows in groups: those that do not affect one another share one, like those of one fault of a file."""
    groups: list[list[Sick]] = []
    for row in files():
        fitting = (group for group in groups if all(_beside(one, row) for one in group))
        group = next(fitting, None)
        if group is None:
            groups.append(group := [])
        group.append(row)
    return groups


def _beside(one: Sick, row: Sick) -> bool:
    return (one.path, one.fault) == (row.path, row.fault) or not one.touches & row.touches


GROUPS = grouped()
ROWS = [row for group in GROUPS for row in group]  # next to each other, however the tests are distributed


class Looks:
    """The results from faulty machines, each taken once, if in time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken: dict[int, tuple[Facts, float]] = {}

    def of(self, row: Sick) -> tuple[Facts, float]:
        """Return the facts of the row's machine, and how long probing took."""
        number = next(number for number, group in enumerate(GROUPS) if row in group)
        if number not in self.taken or self.taken[number][1] >= LIMIT:
            begun = time.monotonic()
            facts = look(self.folder / str(number), GROUPS[number])
            self.taken[number] = facts, time.monotonic() - begun
        return self.taken[number]


def look(root: Path, rows: Sequence[Sick]) -> Facts:
    """Return the facts of the machine on which these files are faulty."""
    tree.plant(root)
    with ExitStack() as stack:
        stack.callback(tree.remove, root)
        for path, fault in dict.fromkeys((row.path, row.fault) for row in rows):
            if fault == "changing":
                stack.enter_context(tree.changing(root, path))
            else:
                tree.sicken(root, path, fault)
        return tree.look(root)


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return Looks(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Return the facts of the machine with every fault switched off."""
    return tree.look(tree.plant(tmp_path_factory.mktemp("off")))


def unmet(row: Sick, facts: Facts) -> list[str]:
    """Return the row's assertions that these facts do not meet."""
    seen = facts.find(row.component)
    assert seen is not None
    named = any(one.why == row.says for one in facts.not_seen if one.what == row.asked)
    found = {name: seen.facts.get(name) for name in (row.fact, row.same) if name}
    missing = [] if seen.status.value == row.status else [f"it is {seen.status.value}: {seen.reason}"]
    missing += [] if named or row.says in (seen.reason or "") else [f"{row.asked} is not named: {facts.not_seen}"]
    if row.fact and (found[row.fact] != row.left if row.left else found[row.fact]):
        missing.append(f"{row.fact} is {found[row.fact]}")
    return missing + ([] if not row.same or found[row.same] else [f"{row.same} is lost"])


def leave_out_where_nothing_is_denied(row: Sick) -> None:
    if row.fault == "denied" and not tree.may_drop():
        leave_out("what root may read cannot be forbidden here")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_faulty_file_is_named_and_nothing_is_made_up(row: Sick, looks: Looks, off: Facts) -> None:
    leave_out_where_nothing_is_denied(row)
    facts, seconds = looks.of(row)
    assert seconds < idle(LIMIT)
    assert {one.id for one in facts.components} == set(tree.ASKED)
    assert unmet(row, facts) == []
    assert unmet(row, off) != [], "the same is seen where the file is well"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0].name)
def test_a_faulty_file_affects_nothing_that_does_not_depend_on_it(
    group: Sequence[Sick], well: Facts, looks: Looks, off: Facts
) -> None:
    """So a change in a component in a group of rows is caused by the one row that affects it."""
    facts, _ = looks.of(group[0])
    touched = frozenset[str]().union(*(row.touches for row in group))
    apart = [(one.id, one.status, one.facts) for one in facts.components if one.id not in touched]
    assert apart == [(one.id, one.status, one.facts) for one in off.components if one.id not in touched]
    assert {one.what for one in facts.not_seen} <= {row.asked for row in group}
    report = judge(tree.with_driver(facts, well), MATRIX)
    json.loads(writing.render(report))
    assert report.verdict.status is not Health.NO_GPU


@pytest.mark.parametrize("row", [row for row in ROWS if row.same], ids=lambda row: row.name)
def test_what_is_not_lost_with_a_faulty_file_is_stated_by_another(row: Sick, off: Facts, tmp_path: Path) -> None:
    """The other one is gone too, so that nothing states the fact."""
    leave_out_where_nothing_is_denied(row)
    tree.plant(tmp_path)
    for path, fault in ((row.path, row.fault), (row.by, "gone")):
        tree.sicken(tmp_path, path, fault)
    for facts, known in ((off, True), (tree.look(tmp_path), False)):
        seen = facts.find(row.component)
        assert seen is not None
        assert bool(seen.facts.get(row.same)) is known


def test_the_same_machine_is_seen_whole_while_it_is_healthy(well: Facts, off: Facts) -> None:
    assert {one.status.value for one in off.components} == {"present"}
    assert off.not_seen == ()
    assert all(row.says or row.fact for row in files())
    assert judge(tree.with_driver(off, well), MATRIX).verdict.status is Health.HEALTHY


@pytest.mark.parametrize("file", ["class", "vendor"])
def test_a_gpu_whose_files_are_closed_is_not_called_no_gpu(file: str, tmp_path: Path) -> None:
    """Nothing else shows it: neither module nor library."""
    tree.plant(tmp_path)
    for path in ("/sys/module/nvidia/version", "/sys/module/nvidia/initstate", "/proc/driver/nvidia/version"):
        tree.sicken(tmp_path, path, "gone")
    tree.sicken(tmp_path, f"{tree.GPU}/{file}", "denied")
    assert judge(tree.look(tmp_path), MATRIX).verdict.status is Health.UNKNOWN
