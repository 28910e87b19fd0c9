"""Each guard that the table relies on is removed, one at a time, and its rows must fail without it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.collect import catalogue, probe_results, probing, subprocesses, workers
from gpustack.collect.subprocesses import Door
from gpustack.diagnose import engine
from gpustack.diagnose.engine import judge
from gpustack.diagnose.rule import asked
from gpustack.diagnose.rules import coverage
from gpustack.matrix import Matrix
from gpustack.model.facts import Facts, Status
from gpustack.model.report import Health
from tests.faults import machine, tree
from tests.faults.rows import Row, libraries
from tests.patience import in_time

if TYPE_CHECKING:
    import pytest

    from gpustack.collect.catalogue import System
    from tests.faults.machine import Shop

pytestmark = in_time

MATRIX = Matrix()
NAMED: Mapping[str, Row] = {row.name: row for row in libraries()}


def sick(shop: Shop, folder: Path, *names: str) -> Facts:
    """Return the facts of the machine of these rows."""
    rows = [NAMED[name] for name in names]
    return machine.look(machine.planted(shop, folder, rows), rows)


def reason(facts: Facts, component: str) -> str:
    seen = facts.find(component)
    assert seen is not None
    return str(seen.reason)


def test_without_the_time_limit_of_a_probe_a_hang_is_not_ended(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = NAMED["hang-zeInit-level-zero"]
    environ = machine.planted(shop, tmp_path, [row])
    begun = time.monotonic()
    machine.look(environ, [row])
    with_guard = time.monotonic() - begun
    monkeypatch.setattr(workers._Worker, "due", lambda self: self.since + 2.5)  # noqa: SLF001 - the guard that is taken away
    begun = time.monotonic()
    machine.look(environ, [row])
    assert time.monotonic() - begun > max(2.4, with_guard)


def test_without_a_process_for_each_risky_probe_a_crash_costs_the_answers_of_others(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = sick(shop, tmp_path / "one", "segv-cuInit-libcuda")
    assert [one.id for one in guarded.components if one.status is Status.FAILED] == ["libcuda"]
    monkeypatch.setattr(workers.Crew, "_start", _never_again(workers.Crew._start))  # noqa: SLF001 - the guard that is taken away
    facts = _together(shop, tmp_path / "two")
    assert [one.id for one in facts.components if one.status is Status.FAILED] != ["libcuda"]


def _never_again(start: object) -> object:
    """Return a start that gives no new process to what a dead one left behind."""
    begun: set[int] = set()

    def once(self: workers.Crew, task: workers.Task, systems: list[System]) -> None:
        if id(task) in begun:
            for system in systems:
                self._fail(task, system, "nobody goes on for the dead")
            return
        begun.add(id(task))
        start(self, task, systems)  # type: ignore[operator]

    return once


def _together(shop: Shop, folder: Path) -> Facts:
    """Return the facts of a machine whose libcuda crashes, all probes running in one process."""
    environ = machine.planted(shop, folder, [NAMED["segv-cuInit-libcuda"]])
    systems = [
        replace(one, alone=False, group="", target=False)
        for one in catalogue.load()
        if one.id in {"libcuda", "gpu", "nvlink"}
    ]
    return probing.look(systems=systems, environ=environ, timeout=20.0)


def test_without_the_check_of_who_answers_a_forged_answer_is_taken(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "forge-zeInit-level-zero"
    assert "printed something that is not an answer" in reason(sick(shop, tmp_path / "one", row), "level-zero")
    true = subprocesses.answered

    def trusting(line: bytes) -> dict[str, object] | None:
        said = true(line)
        return dict(said, id="level-zero") if said and said.get("id") == "somebody-else" else said

    monkeypatch.setattr(workers, "answered", trusting)
    seen = sick(shop, tmp_path / "two", row).find("level-zero")
    assert seen is not None
    assert seen.status is not Status.FAILED


def test_without_the_rule_for_what_was_not_seen_a_dead_library_is_called_healthy(
    shop: Shop, tmp_path: Path, well: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = sick(shop, tmp_path, "segv-nvmlSystemGetNVMLVersion-nvml", "segv-cudnnGetVersion-cudnn")
    for component in ("nvml", "cudnn"):
        mine = machine.transplanted(well, facts, [component])
        assert judge(mine, MATRIX).verdict.status is Health.UNKNOWN
        with monkeypatch.context() as patch:
            left = tuple(rule for rule in asked(mine) if rule is not coverage.component_not_seen)
            patch.setattr(engine, "asked", lambda _, left=left: left)
            assert judge(mine, MATRIX).verdict.status is Health.HEALTHY


def test_without_the_words_for_odd_files_a_loop_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.plant(tmp_path)
    tree.sicken(tmp_path, "/proc/meminfo", "loop")
    assert [one.what for one in tree.look(tmp_path).not_seen] == ["/proc/meminfo"]
    monkeypatch.setattr(probe_results, "ODD", re.compile("nothing at all"))
    assert tree.look(tmp_path).not_seen == ()


def test_without_the_bound_on_output_an_endless_answer_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os\nwhile True:\n    os.write(1, b'x' * 65536)\n")
    task = workers.Task(argv=(sys.executable, str(program)), environ=dict(os.environ), systems=_one())
    guarded = _ask(task)
    assert guarded.failure == "printed over 16 MiB and was stopped"
    monkeypatch.setattr(workers, "MOST_OUTPUT", 1 << 40)
    assert "gave no answer" in str(_ask(task).failure)


def _one() -> tuple[System, ...]:
    return tuple(replace(one, seconds=0.8) for one in catalogue.load() if one.id == "nvml")


def _ask(task: workers.Task) -> workers.Reply:
    door = Door()
    return next(workers.ask([task], door, door.now() + 1.5))
