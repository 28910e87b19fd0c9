"""Every fault of a file of the kernel's: the report is whole, in time, names it, and calls nothing healthy unseen."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.judging import judge
from gpustack.matrix import Matrix
from gpustack.model.report import Health
from gpustack.render import plain
from tests.faults import tree
from tests.faults.files import FAILED, Sick, files
from tests.leaving import leave_out
from tests.patience import in_time

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

pytestmark = in_time

MATRIX = Matrix()
LIMIT = 9.0


def touches(row: Sick) -> str:
    """Give what a row is about: the module is seen through several files, each of which does for the others."""
    return "module" if "nvidia/" in row.path else row.component


def grouped() -> list[list[Sick]]:
    """Give the rows by look: those that do not touch one another share one."""
    groups: list[list[Sick]] = []
    for row in files():
        fitting = (group for group in groups if all(touches(one) != touches(row) for one in group))
        group = next(fitting, None)
        if group is None:
            groups.append(group := [])
        group.append(row)
    return groups


GROUPS = grouped()
ROWS = [row for group in GROUPS for row in group]  # side by side, wherever the tests are dealt out


class Looks:
    """The looks at sick machines, each taken once if in time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken: dict[int, tuple[Facts, float]] = {}

    def of(self, row: Sick) -> tuple[Facts, float]:
        """Give the facts of the row's machine, and how long the look took."""
        number = next(number for number, group in enumerate(GROUPS) if row in group)
        if number not in self.taken or self.taken[number][1] >= LIMIT:
            begun = time.monotonic()
            facts = look(self.folder / str(number), GROUPS[number])
            self.taken[number] = facts, time.monotonic() - begun
        return self.taken[number]


def look(root: Path, rows: Sequence[Sick]) -> Facts:
    """Give the facts of the machine with these files sick."""
    tree.plant(root)
    with ExitStack() as stack:
        stack.callback(tree.remove, root)
        for row in rows:
            if row.fault == "changing":
                stack.enter_context(tree.changing(root, row.path))
            else:
                tree.sicken(root, row.path, row.fault)
        return tree.look(root)


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return Looks(tmp_path_factory.mktemp("trees"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_sick_file_is_named_and_nothing_is_made_up(row: Sick, well: Facts, looks: Looks) -> None:
    if row.fault == "denied" and not tree.may_drop():
        leave_out("what root may read cannot be forbidden here")
    facts, seconds = looks.of(row)
    assert seconds < LIMIT
    assert {one.id for one in facts.components} == set(tree.ASKED)
    seen = facts.find(row.component)
    assert seen is not None
    said = f"{seen.reason} {[one for one in facts.not_seen if one.what.endswith(row.path.rpartition('/')[2])]}"
    assert seen.status.value == row.status, said
    assert row.says in said
    assert not row.fact or not seen.facts.get(row.fact), seen.facts.get(row.fact)
    report = judge(tree.with_driver(facts, well), MATRIX)
    json.loads(plain.render(report))
    assert not (row.status == FAILED and row.component == "pci-display" and report.verdict.status is Health.NO_GPU)


def test_the_same_machine_is_seen_whole_while_it_is_well(well: Facts, tmp_path: Path) -> None:
    facts = tree.look(tree.plant(tmp_path))
    assert {one.status.value for one in facts.components} == {"present"}
    assert facts.not_seen == ()
    for row in files():
        seen = facts.find(row.component)
        assert seen is not None
        assert not row.fact or seen.facts[row.fact]
    assert judge(tree.with_driver(facts, well), MATRIX).verdict.status is Health.HEALTHY


@pytest.mark.parametrize("file", ["class", "vendor"])
def test_a_gpu_whose_files_are_closed_is_not_called_no_gpu(file: str, tmp_path: Path) -> None:
    """Nothing else shows it: neither module nor library."""
    tree.plant(tmp_path)
    for path in ("/sys/module/nvidia/version", "/sys/module/nvidia/initstate", "/proc/driver/nvidia/version"):
        tree.sicken(tmp_path, path, "gone")
    tree.sicken(tmp_path, f"{tree.GPU}/{file}", "denied")
    assert judge(tree.look(tmp_path), MATRIX).verdict.status is Health.UNKNOWN
