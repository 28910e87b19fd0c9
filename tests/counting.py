"""What coverage counts: our modules as they are imported, and of each test the first of its cases.

Code runs two to three times as slowly while it is counted, pytest's own included. What is left uncounted runs lines
that other tests or other cases of the same test run as well.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import threading
import traceback
from collections import Counter
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

import gpustack
from gpustack.bench import listening
from tests import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CHILDREN = "COVERAGE_PROCESS_CONFIG"  # with which coverage starts in them
ENOUGH = 1  # the case of each test that is counted: with three, a thousandth more of the lines would be counted
# Tests of the whole, and all that use hypothesis or are named test_any_*: other tests run the same lines.
WHOLE = (
    "tests/ask/test_plan.py::test_what_is_offered_works",
    "tests/ask/test_agreement.py",
    "tests/ask/test_expert.py",
    "tests/ask/test_one_planner.py",
    "tests/ask/test_matrix_command.py",
    "tests/ask/test_speaking.py",
    "tests/ask/test_ways.py::test_a_number_behind_a_card",
    "tests/ask/test_words.py::test_words_and_signs",
    "tests/ask/test_why.py",
    "tests/bench/test_bench_command.py",
    "tests/bench/test_check_on_stand_in.py",
    "tests/bench/test_every_gpu.py",
    "tests/bench/test_host_side.py",
    "tests/bench/test_memory.py",
    "tests/bench/test_several.py",
    "tests/bench/test_stress.py",
    "tests/benchmarks/",
    "tests/faults/",
    "tests/imports/test_import_any_text.py",
    "tests/integrations/",
    "tests/report/test_deceptive.py",
    "tests/diagnose/test_any_message.py",
    "tests/diagnose/test_health.py::test_every_row_is_broken",
    "tests/diagnose/test_health.py::test_on_any_machine",
    "tests/diagnose/test_selftest.py::test_a_rule_that_is_silent",
    "tests/cli/test_writing.py::test_no_other_place",
    "tests/fleet/test_judge.py::test_twins_have_one_verdict",
    "tests/fleet/test_pairs.py::test_ten_thousand",
    "tests/matrix/test_generated_tables.py",
    "tests/matrix/test_shipped_tables.py",
    "tests/test_replacements.py",
    "tests/test_security_page.py",
    "tests/trace/test_following.py::test_the_steps_are_the_wall_time",
    "tests/trace/test_following.py::test_two_traces",
    "tests/diagnose/test_broken.py",
    "tests/diagnose/test_candidates.py::test_threads_of_other_repositories",
    "tests/imports/test_held_out.py",
    "tests/imports/test_import_own_reports.py",
    "tests/diagnose/test_fixes.py",
    "tests/diagnose/test_rules.py",
    "tests/diagnose/test_verify.py",
    "tests/system/",
    "tests/diagnose/test_any_facts.py",
    "tests/test_bounds.py",
    "tests/test_facts_read.py",
    "tests/test_isolation.py",
    "tests/test_odd_surroundings.py",
    "tests/diagnose/test_cases.py",
    "tests/policy/test_check_command.py",
    "tests/cli/test_cli.py",
    "tests/test_command_blocks.py",
    "tests/diagnose/test_commands.py",
    "tests/collect/test_images.py",
    "tests/imports/test_linear.py",
    "tests/imports/test_long_lines.py",
    "tests/cli/test_outputs.py",
    "tests/test_packaging.py",
    "tests/redaction/test_redaction_forms.py",
    "tests/test_rooms.py",
    "tests/trace/test_beside_gpu.py",
    "tests/trace/test_command.py",
    "tests/trace/test_failing.py::test_nothing_is_said_against_a_healthy_machine",
)
# The few of these, with their children, that run lines which nothing else does.
EVEN_SO = (
    "tests/ask/test_expert.py::test_a_b200_gets_the_servers_package",
    "tests/bench/test_several.py::test_each_pair_and_all_gpus",
    "tests/bench/test_stand_in.py::test_all_are_measured_and_checked",
    "tests/bench/test_stand_in.py::test_a_wrong_result_is_a_failure_and_no_figure",
    "tests/bench/test_stress.py::test_one_wrong_bit",
    "tests/collect/test_images.py::test_a_build_of_the_image_is_judged",
    "tests/integrations/test_pytest_plugin.py::test_a_test_is_skipped",
    "tests/integrations/test_pytest_plugin.py::test_fail_gives_the_diagnosis",
    "tests/trace/test_on_stand_in.py::test_a_driver_that_tells_nothing",
)
# Where the children are counted too: elsewhere they are whole commands, which run the same lines as others.
WITH_CHILDREN = ("tests/bench/", "tests/collect/", "tests/probes/", "tests/trace/")
# But not these: their children repeat what those of EVEN_SO do.
WITHOUT = (
    "tests/bench/test_stand_in.py",
    "tests/trace/test_frameworks.py::test_the_steps_add_up",
    "tests/trace/test_on_stand_in.py::test_a_",
)
# A child writes down what was counted as it ends: on a busy machine that takes longer than one that is done is given.
GRACE, WRITING = listening.GRACE, 20.0
NOT_OURS = "tests/bench/test_listening.py"  # where children count nothing, and one does not end
_cases: Counter[str] = Counter()
_tracers: list[tuple[Any, Any]] = []  # coverage's own, of this thread and of new ones, once they are paused
COUNTED = pytest.StashKey[bool]()


def each(
    names: str | tuple[str, ...], rows: Iterable[Any], ids: Callable[[Any], object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on each of these rows as one test, which names every row that fails and counts the first.

    It takes the place of ``parametrize`` where thousands of rows take milliseconds each: to collect, hand out and
    report a test takes as long. Rows share the fixtures, which they must not change.
    """
    table = [(row,) if isinstance(names, str) else row for row in rows]
    keys = (names,) if isinstance(names, str) else names

    def named(number: int) -> str:
        row = table[number]
        said = "-".join(str(ids(one)) for one in row) if ids else ", ".join(map(repr, row))
        return f"row {number}: {said[:300]}"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**fixtures: object) -> None:
            failed = {}
            for number, row in enumerate(table):
                try:
                    test(**fixtures, **dict(zip(keys, row, strict=True)))
                except (Exception, pytest.fail.Exception):  # noqa: BLE001 - each row is a test
                    failed[named(number)] = traceback.format_exc()
                sys.settrace(None)
                threading.settrace(None)
            assert table
            assert not failed, "\n".join([f"{len(failed)} of {len(table)} rows fail", *failed, *failed.values()])

        own = signature(test)
        left = [one for name, one in own.parameters.items() if name not in keys]
        vars(whole).update(__signature__=own.replace(parameters=left))
        return whole

    return decorated


def import_all() -> None:
    """Import all of our modules and run every probe's definitions, while coverage counts."""
    if sys.gettrace() is None:
        return
    for module in pkgutil.walk_packages(gpustack.__path__, "gpustack."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ModuleNotFoundError as error:  # of an extra that the tests do without
                if (error.name or "").startswith("gpustack"):
                    raise
    probes = told.REPO / "probes"
    for file in probes.glob("*/*.py"):
        told.load(str(file.relative_to(probes)))


def pause() -> None:
    """Count nothing from here on except inside ``counted``: pytest's own work takes time too."""
    _tracers.append((sys.gettrace(), threading.gettrace()))
    sys.settrace(None)
    threading.settrace(None)


@contextmanager
def children(item: pytest.Item) -> Iterator[None]:
    """Decide whether this case of a test is counted, and whether its children are counted or run at full speed."""
    test = item.nodeid.partition("[")[0]
    _cases[test] += 1
    drawn = item.get_closest_marker("hypothesis") is not None or item.name.startswith("test_any_")
    even_so = test.startswith(EVEN_SO) and _cases[test] <= ENOUGH
    item.stash[COUNTED] = even_so or not (drawn or _cases[test] > ENOUGH or test.startswith(WHOLE))
    counted = item.stash[COUNTED] and test.startswith(WITH_CHILDREN) and not test.startswith(WITHOUT)
    config = None if even_so or counted else os.environ.pop(CHILDREN, None)
    writes = (even_so or counted) and CHILDREN in os.environ and not test.startswith(NOT_OURS)
    vars(listening).update(GRACE=WRITING if writes else GRACE)
    try:
        yield
    finally:
        if config is not None:
            os.environ[CHILDREN] = config


@contextmanager
def counted(item: pytest.Item) -> Iterator[None]:
    """Count what the test's function runs, if this case is counted."""
    chosen = item.stash[COUNTED]
    own, threads = _tracers[-1] if _tracers and chosen else (None, None)
    sys.settrace(own)
    threading.settrace(threads)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
