"""Types define how decoded JSON and TOML are read: what fits becomes the type, the rest is reported with its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpustack import assets
from gpustack.errors import BrokenError
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import drivers, ranges, toolkits
from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.model.facts import Facts, Layer
from gpustack.model.reading import MisfitError, key, made, whole
from gpustack.model.versions import ComputeCapability, DriverRelease
from gpustack.model.writing import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    class_: str
    layer: Layer
    driver: DriverRelease | None = None
    versions: VersionRange = ranges.ANY
    gpus: tuple[ComputeCapability, ...] = ()
    pair: tuple[float, int] = (0.0, 0)
    devices: frozenset[int] = frozenset()
    parts: tuple[Part, ...] = ()
    named: Mapping[str, Part] = field(default_factory=dict)
    words: str = field(default="none", metadata=key("text", str.upper))
    count: int = field(metadata=whole(len))


GOOD = {
    "class": "x",
    "layer": "driver",
    "driver": "580.95.05",
    "versions": ">=2,<3",
    "gpus": ["9.0", "sm_100"],
    "pair": [1, 2],
    "devices": [3, 3],
    "parts": [{"name": "a"}],
    "named": {"b": {"name": "b", "weight": 2}},
    "text": "loud",
    "unknown": [None],
}


def test_the_types_of_the_fields_say_how_each_value_is_read() -> None:
    assert made(GOOD, Thing) == Thing(
        class_="x",
        layer=Layer.DRIVER,
        driver=DriverRelease(580, 95, 5),
        versions=VersionRange(">=2,<3"),
        gpus=(ComputeCapability(9, 0), ComputeCapability(10, 0)),
        pair=(1.0, 2),
        devices=frozenset({3}),
        parts=(Part(name="a"),),
        named={"b": Part(name="b", weight=2.0)},
        words="LOUD",
        count=len(GOOD),
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"class": 5}, "class is not text"),
        ({"layer": "attic"}, "layer is wrong: 'attic' is not a valid Layer"),
        ({"driver": "new"}, "driver is not a DriverRelease: 'new'"),
        ({"versions": "570 and later"}, "versions is wrong: Invalid specifier: '570 and later'"),
        ({"gpus": ["9.0", "nine"]}, r"gpus\[1\] is not a ComputeCapability: 'nine'"),
        ({"gpus": "9.0"}, "gpus is not a list"),
        ({"pair": [1]}, "pair has 1 values, not 2"),
        ({"pair": [True, 2]}, r"pair\[0\] is not a number"),
        ({"pair": [1e300, 2]}, r"pair\[0\] is not a number"),
        ({"devices": ["x"]}, r"devices\[0\] is not a whole number"),
        ({"parts": [{"name": "a"}, {}]}, r"parts\[1\]\.name is missing"),
        ({"parts": [7]}, r"parts\[0\] is not an object"),
        ({"named": {"b": {"name": None}}}, r"named\['b'\]\.name is not text"),
        ({"text": 5}, "text is wrong"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(change: Mapping[str, object], says: str) -> None:
    with pytest.raises(MisfitError, match=f"^{says}"):
        made({**GOOD, **change}, Thing)


def test_a_key_that_must_be_there_is_missed_by_name() -> None:
    with pytest.raises(MisfitError, match=r"^layer is missing$"):
        made({"class": "x"}, Thing)


VALUE = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(some.sampled_from(sorted(GOOD)), VALUE)
def test_anything_in_the_place_of_a_value_is_read_or_refused_by_place(name: str, value: object) -> None:
    refused = None
    try:
        made({**GOOD, name: value}, Thing)
    except MisfitError as error:
        refused = str(error)
    assert refused is None or refused.startswith(name)


@given(VALUE)
def test_anything_at_all_is_facts_or_refused(value: object) -> None:
    try:
        facts = made(value, Facts)
    except MisfitError:
        return
    assert made(json.loads(json.dumps(plain(facts))), Facts) == facts


@pytest.mark.parametrize(
    ("table", "was", "now", "says"),
    [
        (
            "cuda_driver",
            'driver = "580.65.06"',
            'driver = "580.x"',
            r"cuda_driver\.families\[0\]: driver is not a Dr",
        ),
        ("cuda_driver", "major = 13", 'major = "13"', r"cuda_driver\.families\[0\]: major is not a whole number"),
        ("cuda_driver", "major = 13, ", "", r"cuda_driver\.families\[0\]: major is missing"),
        ("cuda_driver", "families = [", "family = [", r"cuda_driver\.families"),
        (
            "driver_branches",
            "branch = 390",
            "branch = true",
            r"driver_branches\.branches\[\d+\]: branch is not a whole",
        ),
    ],
)
def test_a_damaged_row_is_said_with_file_part_row_and_key(
    table: str, was: str, now: str, says: str, tmp_path: Path
) -> None:
    text = (assets.MATRIX / f"{table}.toml").read_text("utf-8")
    assert was in text
    (tmp_path / f"{table}.toml").write_text(text.replace(was, now, 1))
    with pytest.raises(BrokenError, match=f"the shipped compatibility matrix is damaged: {says}"):
        (toolkits.floors if table == "cuda_driver" else drivers.branches)(Matrix(tmp_path))
