"""What coverage counts: our modules as they are imported, and of each test the first few of its cases.

Whatever is counted takes two to three times as long, pytest's own work too. What is left uncounted runs lines that
other tests or other cases of the same test run as well.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import gpustack
from tests import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

CHILDREN = "COVERAGE_PROCESS_CONFIG"  # by which coverage starts in them
ENOUGH = 3  # cases of one test
# Tests of the whole, and all that hypothesis draws or whose name begins with test_any_: other tests run what they run.
WHOLE = (
    "tests/ask/test_plan.py::test_what_is_offered_works",
    "tests/ask/test_agreement.py",
    "tests/ask/test_expert.py",
    "tests/ask/test_one_planner.py",
    "tests/ask/test_matrix_command.py",
    "tests/ask/test_speaking.py",
    "tests/ask/test_why.py",
    "tests/bench/test_bench_command.py",
    "tests/bench/test_check_on_stand_in.py",
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
    "tests/diagnose/test_broken.py",
    "tests/diagnose/test_candidates.py::test_threads_of_other_repositories",
    "tests/imports/test_held_out.py",
    "tests/imports/test_import_own_reports.py",
    "tests/diagnose/test_fixes.py",
    "tests/diagnose/test_rules.py",
    "tests/system/",
    "tests/diagnose/test_any_facts.py",
    "tests/test_bounds.py",
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
_cases: Counter[str] = Counter()


def import_all() -> None:
    """Import every module of ours and run every probe's definitions, while that is counted."""
    if sys.gettrace() is None:
        return
    for module in pkgutil.walk_packages(gpustack.__path__, "gpustack."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    probes = told.REPO / "probes"
    for file in probes.glob("*/*.py"):
        told.load(str(file.relative_to(probes)))


def counted(item: pytest.Item) -> bool:
    """Return whether this case of a test is one that is counted."""
    test = item.nodeid.partition("[")[0]
    _cases[test] += 1
    drawn = item.get_closest_marker("hypothesis") is not None or item.name.startswith("test_any_")
    return not drawn and _cases[test] <= ENOUGH and not test.startswith(WHOLE)


@contextmanager
def uncounted() -> Iterator[None]:
    """Run what is inside, and the children that it starts, as fast as without coverage."""
    tracer, children = sys.gettrace(), os.environ.pop(CHILDREN, None)
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)
        if children is not None:
            os.environ[CHILDREN] = children
