"""Variables that change what a GPU stack does: those of the row alone are told."""

from __future__ import annotations

from tests.told import ToldHost, load

PROBE = load("environment/variables.py")["probe"]
ROW = {"variables": ["HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES"]}


def test_only_those_that_are_set_and_asked_after_are_told() -> None:
    host = ToldHost(environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "", "TOKEN": "x"}, row=ROW)
    assert PROBE(host) == {"variables": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}
    assert PROBE(ToldHost(row=ROW)) is None
