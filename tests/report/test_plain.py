"""The JSON: the promised keys, the same bytes for the same report, and nothing that JSON cannot express."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.facts import Facts, Instance, JsonValue
from gpustack.model.writing import plain, render
from tests.report import reports

# The keys of design.md, "JSON": what users, CI jobs and checks rely on.
REPORT = {"schema", "tool", "host", "components", "contracts", "findings", "not_seen", "environments", "verdict"}
COMPONENT = {"id", "layer", "vendor", "status", "version", "build", "path", "facts", "source", "seconds", "instances"}
FINDING = {"id", "key", "instance", "severity", "layer", "component", "title", "detail", "because", "row", "fix"}
PROMISED = {
    "tool": {"name", "version", "matrix_date"},
    "host": {"hostname", "os", "kernel", "virtualisation", "container", "wsl"},
    "verdict": {"status", "root_causes", "root_keys", "works"},
}
ROWS = {
    "components": COMPONENT,
    "contracts": {"from", "to", "kind", "needs", "found", "status", "row"},
    "findings": FINDING | {"caused_by", "confidence"},
    "not_seen": {"what", "why", "enable_by"},
    "environments": {"python", "kind", "works"},
}


def read(value: object) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render(value))
    return loaded


@pytest.mark.parametrize("name", reports.ALL)
def test_every_promised_key_is_there(name: str) -> None:
    said = read(reports.ALL[name]())
    assert set(said) >= REPORT
    assert said["schema"] == "gpustack.report/1"
    for key, promised in PROMISED.items():
        assert set(said[key]) >= promised
    for key, promised in ROWS.items():
        assert all(set(row) >= promised for row in said[key])
    for component in said["components"]:
        for copy in component["instances"]:
            assert set(copy) == {"key", "version", "build", "path", "environment", "status", "facts", "strengths"}


def test_a_finding_tells_its_key_its_reasons_and_its_fix() -> None:
    said = read(reports.eight())["findings"][0]
    assert (said["id"], said["key"], said["instance"]) == ("pcie-link-degraded", "pcie-link-degraded@GPU-1", "GPU-1")
    said = read(reports.driver_too_old())["findings"][0]
    assert said["key"] == said["id"] == "driver-too-old-for-cuda-build"
    assert set(said["because"][0]) == {"component", "fact", "value", "source", "strength"}
    assert set(said["fix"]) == {"text", "commands", "needs_root", "needs_reboot", "verify"}
    assert (said["row"]["source"], said["confidence"], said["caused_by"]) == (
        reports.DRIVER_ROW.source,
        "certain",
        None,
    )


def test_enumerations_are_their_words() -> None:
    said = read(reports.h200())
    assert said["verdict"]["status"] == "degraded"
    assert {row["status"] for row in said["contracts"]} == {"ok"}
    assert {row["layer"] for row in said["components"]} >= {"kernel-module", "hardware"}


def test_a_snapshot_names_its_schema() -> None:
    said = read(Facts(taken="2026-11-21T10:02:00+00:00", host=reports.H200_HOST, components=reports.H200_COMPONENTS))
    assert said["schema"] == "gpustack.snapshot/1"
    assert said["components"][0]["instances"][0]["key"] == "0"


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render(reports.h200()) == render(reports.h200())


def test_the_text_is_ascii_and_cannot_steer_a_terminal() -> None:
    text = render(reports.hostile())
    assert text.isascii()
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert json.loads(render(replace(reports.h200(), taken="\x7f\x1b\u202e")))["taken"] == "\x7f\x1b\u202e"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda held: st.lists(held).map(tuple) | st.dictionaries(st.text(), held),
)


@given(JSON)
def test_any_fact_becomes_strict_json(fact: JsonValue) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = render(Instance(key="x", facts={"fact": fact}))
    json.loads(text, parse_constant=refuse)
    text.encode("utf-8")


def test_numbers_that_are_none_are_null_and_half_a_surrogate_pair_is_a_question_mark() -> None:
    assert plain((float("nan"), float("inf"), 1.5, True, "a\ud800", {"\udfff": 1})) == [
        None,
        None,
        1.5,
        True,
        "a?",
        {"?": 1},
    ]
