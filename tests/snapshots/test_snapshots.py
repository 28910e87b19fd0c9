"""Facts written as a snapshot and read back are the same facts, and nothing else is taken for a snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.errors import InputError
from gpustack.model.facts import (
    Call,
    Component,
    Environment,
    Facts,
    Host,
    Instance,
    JsonValue,
    Layer,
    Status,
    Unseen,
)
from gpustack.model.writing import render
from gpustack.snapshots import read
from tests.build import healthy, torch

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TEXT = st.text(max_size=12)
MAYBE = st.none() | TEXT
SECONDS = st.floats(0, 1e6, allow_nan=False)
NUMBERS = st.integers(-(2**70) + 1, 2**70 - 1)
LEAF = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT


def _deeper(inner: SearchStrategy[JsonValue]) -> SearchStrategy[JsonValue]:
    return st.lists(inner, max_size=3).map(tuple) | st.dictionaries(TEXT, inner, max_size=3)


VALUES: SearchStrategy[JsonValue] = st.recursive(LEAF, _deeper, max_leaves=6)
FACTS: SearchStrategy[Mapping[str, JsonValue]] = st.dictionaries(TEXT, VALUES, max_size=3)
INSTANCES = st.builds(
    Instance,
    key=TEXT,
    version=MAYBE,
    build=MAYBE,
    path=MAYBE,
    environment=MAYBE,
    status=st.sampled_from(Status),
    facts=FACTS,
)
COMPONENTS = st.builds(
    Component,
    id=TEXT,
    layer=st.sampled_from(Layer),
    vendor=st.text(min_size=1, max_size=8),
    status=st.sampled_from(Status),
    version=MAYBE,
    build=MAYBE,
    path=MAYBE,
    facts=FACTS,
    source=TEXT,
    reason=MAYBE,
    seconds=SECONDS,
    instances=st.lists(INSTANCES, max_size=2).map(tuple),
    calls=st.lists(st.builds(Call, name=TEXT, seconds=SECONDS, outcome=TEXT), max_size=2).map(tuple),
)
ALL_FACTS = st.builds(
    Facts,
    taken=TEXT,
    host=st.builds(
        Host,
        hostname=MAYBE,
        os=MAYBE,
        kernel=MAYBE,
        machine=MAYBE,
        virtualisation=MAYBE,
        container=MAYBE,
        wsl=st.booleans(),
    ),
    components=st.lists(COMPONENTS, max_size=3).map(tuple),
    environments=st.lists(st.builds(Environment, python=TEXT, kind=TEXT, version=MAYBE, prefix=MAYBE), max_size=2).map(
        tuple
    ),
    not_seen=st.lists(st.builds(Unseen, what=TEXT, why=TEXT, enable_by=MAYBE), max_size=2).map(tuple),
    deep=st.booleans(),
    seconds=SECONDS,
)
GOOD = json.loads(render(healthy(torch())))


@given(ALL_FACTS)
def test_what_is_written_is_what_is_read(facts: Facts) -> None:
    assert read(render(facts)) == facts


def refusal(text: str) -> str | None:
    try:
        read(text, "given.json")
    except InputError as error:
        return str(error)
    return None


@given(st.text() | st.text().map(lambda text: json.dumps({"schema": text})))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    said = refusal(text)
    assert said is not None
    assert said.startswith("given.json ")
    assert "\n" not in said


@given(
    st.recursive(LEAF, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20),
    st.sampled_from(sorted(GOOD)),
)
def test_a_snapshot_with_anything_in_the_place_of_a_part_is_read_or_refused(value: object, part: str) -> None:
    said = refusal(json.dumps({**GOOD, part: value}))
    assert said is None or said.startswith("given.json ")


def test_keys_that_are_not_known_are_skipped() -> None:
    component = {**GOOD["components"][0], "mood": "good"}
    newer = {**GOOD, "weather": "fine", "components": [component, *GOOD["components"][1:]]}
    assert read(json.dumps(newer)) == read(json.dumps(GOOD))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins like JSON but is not valid"),
        ('{"schema": ', "begins like JSON but is not valid"),
        ("[]", "is not a JSON object"),
        ("{}", "holds JSON without a schema"),
        ('{"schema": "gpustack.snapshot/2"}', "holds gpustack.snapshot/2, but gpustack.snapshot/1 is required"),
        ('{"schema": "gpustack.report/1"}', "holds gpustack.report/1"),
        ('{"schema": "gpustack.snapshot/1", "seconds": NaN}', "NaN is not JSON"),
        ('{"schema": "gpustack.snapshot/1", "host": []}', "damaged snapshot: host is not an object"),
        ('{"schema": "gpustack.snapshot/1", "components": {}}', "damaged snapshot: components is not a list"),
        ('{"schema": "gpustack.snapshot/1", "components": [{"id": "x"}]}', "components[0].layer is missing"),
        (
            '{"schema": "gpustack.snapshot/1", "components": [{"id": 5, "layer": "driver"}]}',
            "s[0].id is not text",
        ),
        ('{"schema": "gpustack.snapshot/1", "components": [{"id": "x", "layer": "attic"}]}', "attic"),
        ('{"schema": "gpustack.snapshot/1", "deep": 1}', "deep is neither true nor false"),
        ('{"schema": "gpustack.snapshot/1", "seconds": true}', "seconds is not a number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_a_snapshot_is_refused_and_says_why(text: str, why: str) -> None:
    with pytest.raises(InputError, match=r"^a\.json ") as refused:
        read(text, "a.json")
    assert why in str(refused.value)


def test_a_snapshot_of_the_bare_minimum_is_facts_about_nothing() -> None:
    facts = read('{"schema": "gpustack.snapshot/1"}')
    assert facts.components == ()
    assert facts.host == Host()
