"""The page about faults is in step with the rows, and the rows are as many as were promised."""

from __future__ import annotations

from tests.faults.files import files
from tests.faults.programs import programs
from tests.faults.rows import libraries
from tests.faults.table import PAGE, page


def test_the_page_is_in_step_with_the_tests() -> None:
    """When this fails: ``python -m tests.faults.table``."""
    assert PAGE.read_text("utf-8") == page()


def test_no_combination_stands_twice_and_there_are_enough_of_them() -> None:
    rows = [(row.words, row.place, row.component) for row in libraries()]
    rows += [(row.words, row.path, row.component) for row in files()]
    rows += [(row.words, row.command, row.component) for row in programs()]
    assert len(rows) == len(set(rows)) >= 150
    assert len({fault for fault, _, _ in rows}) >= 20
    assert len({place for _, place, _ in rows}) >= 12
