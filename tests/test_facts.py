"""The schema of facts: every recorded, read or probed fact is in it with its type, and what no rule reads is marked."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack import selftest, snapshots
from gpustack.collect import probing
from gpustack.matrix.facts import Kind, Schema
from gpustack.model.facts import Component, Instance, Layer, Status
from tests.build import report
from tests.drawn import RECORDED, recorded
from tests.schema import MATRIX, SCHEMA, SYSTEMS, answering, violations, wrongs

if TYPE_CHECKING:
    from pathlib import Path


def of(component: str, **facts: object) -> Component:
    copy = Instance(key="x", facts=facts)  # type: ignore[arg-type]  # wrong values are what is tried
    return Component(id=component, layer=Layer.DRIVER, vendor="any", status=Status.PRESENT, instances=(copy,))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_fact_of_a_recorded_machine_is_in_the_schema(path: Path) -> None:
    facts = recorded(path)
    assert list(violations(facts)) == []
    assert list(violations(replace(facts, components=report(facts).components))) == [], "with what the report adds"


def test_every_fact_of_the_selftest_is_in_the_schema() -> None:
    for name, sick in selftest.sick_facts().items():
        facts = snapshots.take({"schema": snapshots.SCHEMA, **sick}, name)
        assert list(violations(facts)) == [], name


def test_every_fact_of_this_machine_is_in_the_schema() -> None:
    assert list(violations(probing.look(pythons=[sys.executable]))) == []


def test_every_system_of_the_catalogue_and_of_the_stack_is_in_the_schema() -> None:
    known = {fact.component for fact in SCHEMA.facts}
    assert {one["id"] for one in SYSTEMS} <= known
    assert set(MATRIX.systems) <= known


@pytest.mark.parametrize(
    ("component", "wrong"),
    [
        (of("warp-drive"), "warp-drive: no such component in facts.toml"),
        (of("gpu", colour="green"), "gpu: colour: no such fact in facts.toml"),
        (of("gpu", index="0"), "gpu: index: whole in facts.toml, found '0'"),
        (of("gpu", index=True), "gpu: index: whole in facts.toml, found 'True'"),
        (of("gpu", persistence=1), "gpu: persistence: flag in facts.toml, found '1'"),
        (of("gpu", name=("a",)), "gpu: name: text in facts.toml, found \"('a',)\""),
        (of("gpu", memory=3), "gpu: memory: a table in facts.toml, found '3'"),
        (of("gpu", processes={}), "gpu: processes: a list in facts.toml, found '{}'"),
        (of("gpu", power={"watts": "61 W"}), "gpu: power.watts: number in facts.toml, found '61 W'"),
        (of("nvlink", links=({"active": "up"},)), "nvlink: links[].active: flag in facts.toml, found 'up'"),
        (of("nvlink", links=({"lame": True},)), "nvlink: links[].lame: no such fact in facts.toml"),
        (of("nvidia-driver", libcuda="newest"), "nvidia-driver: libcuda: version in facts.toml, found 'newest'"),
        (of("limits", open_files="many"), "limits: open_files: limit in facts.toml, found 'many'"),
        (replace(of("nccl"), version="unknown"), "nccl: version: version in facts.toml, found 'unknown'"),
    ],
)
def test_what_is_not_in_the_schema_is_one_line_that_names_it(component: Component, wrong: str) -> None:
    assert list(wrongs(component)) == [wrong]


def test_what_is_in_the_schema_passes_and_so_does_what_is_not_known() -> None:
    fine = [
        of(
            "gpu",
            index=0,
            name=None,
            power={"watts": 61},
            processes=(),
            fabric={"state": None},
            unavailable={"a.b": "c"},
        ),
        of("limits", open_files="unlimited", memlock_bytes=65536),
        of("packages", pins={"torch": "==2.8.0"}, duplicates={"torch-vision": ("0.25.0",)}),
        of("infinity-fabric", hives=(("0000:63:00.0",), ())),
    ]
    assert [line for one in fine for line in wrongs(one)] == []


def test_a_probe_that_renames_a_fact_fails_its_test() -> None:
    def probe(_host: object) -> dict[str, object]:
        return {"key": "x", "running": True, "enabeld": True}

    with pytest.raises(AssertionError, match=r"nvidia-fabricmanager: enabeld: no such fact in facts\.toml"):
        answering("driver/daemon.py", "probe", probe)(object())


def test_every_row_has_a_meaning_of_its_own_words_and_a_unit_where_its_name_ends_in_one() -> None:
    units = {"mib": "MiB", "bytes": "bytes", "mhz": "MHz", "khz": "kHz", "watts": "W", "c": "°C", "ns": "ns"}
    for fact in SCHEMA.facts:
        assert len(fact.what) > 5, fact
        assert fact.what[-1] != ".", fact
        ending = fact.path.rstrip("[]").rpartition("_")[2]
        if fact.kind in {Kind.WHOLE, Kind.NUMBER} and "_" in fact.path and ending in units:
            assert fact.unit == units[ending], fact


def test_a_fact_is_found_by_its_names() -> None:
    fact = Schema(MATRIX).at("gpu", "memory", "total_mib")
    assert (fact.kind, fact.unit, fact.informational) == (Kind.WHOLE, "MiB", False) if fact else None
    assert SCHEMA.at("packages", "pins", "torch") is not None
    assert SCHEMA.at("gpu", "memory") is None
    assert SCHEMA.at("gpu", "memory", "total_mib", "x") is None
