"""What CI draws is the same for the same commit, in whichever process and after whatever else."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = range(1_000_003, 1_000_403)


def drawn() -> list[int]:
    """Return what is drawn for a test."""
    values: list[int] = []

    @settings(max_examples=300)
    @given(st.integers())
    def test(value: int) -> None:
        values.append(value)

    test()
    return values


def test_what_is_drawn_does_not_depend_on_what_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, Hypothesis would draw the constants of a module of ours once that has been imported."""
    if settings.get_current_profile_name() != "same":
        pytest.skip("what is drawn is to differ: nox -s wide")
    before = drawn()
    (tmp_path / "imported.py").write_text(f"NUMBERS = {list(NUMBERS)}\n")
    spec = spec_from_file_location("imported", tmp_path / "imported.py")
    assert spec
    monkeypatch.setitem(sys.modules, "imported", module_from_spec(spec))
    assert drawn() == before
