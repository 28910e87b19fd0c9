"""A Python reports about itself what its wheels are built for."""

from __future__ import annotations

import sys

import pytest

from probes import interpreter


@pytest.mark.parametrize(("flags", "gil"), [("", True), ("d", True), ("t", False), ("td", False)])
def test_a_build_without_the_gil_is_one_though_the_gil_was_switched_on(
    monkeypatch: pytest.MonkeyPatch, flags: str, *, gil: bool
) -> None:
    monkeypatch.setattr(sys, "abiflags", flags, raising=False)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert interpreter.describe()["gil"] is gil
