"""Layers, systems, terms and numbers of the stack: every row has a type, and every name in it is known."""

from __future__ import annotations

import fnmatch

import pytest

from gpustack.bench import suite
from gpustack.diagnose import rule
from gpustack.diagnose.requirements.records import by_id
from gpustack.explain import topics
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.codes import FAMILIES, Family, bucket_of, clock_reasons, numbers
from gpustack.matrix.subjects.ranges import squash
from gpustack.matrix.subjects.terms import (
    LayerRow,
    NumberLeads,
    System,
    Term,
    layers,
    leads_of,
    place_of,
    places,
    systems,
    terms,
)
from gpustack.model.facts import Layer
from tests.counting import each

MATRIX = Matrix()
NAMED: tuple[System | Term, ...] = (*systems(MATRIX), *terms(MATRIX))
NEEDS = {one.id: one.stands_on for one in systems(MATRIX)} | {one.name: one.stands_on for one in terms(MATRIX)}
PROMISED = (
    *("kernel", "grid", "block", "thread", "warp", "stream", "event", "occupancy", "SM", "CUDA core", "tensor core"),
    *("shared memory", "L2", "HBM", "PCIe", "P2P", "BAR1", "Above 4G decoding", "MIG", "MPS", "ECC", "Xid", "SXid"),
    *("row remapping", "page retirement", "GSP", "UVM", "HMM", "ATS", "SASS", "PTX", "fatbin", "JIT", "stub library"),
    *("compute capability", "minor-version compatibility", "forward compatibility", "driver branch", "nouveau", "nova"),
    *("open kernel module", "Secure Boot", "persistence mode", "soname", "RPATH/RUNPATH", "LD_LIBRARY_PATH", "wheel"),
    *("local version tag", "ABI", "manylinux", "glibc", "workspace", "cuDNN sublibraries", "all-reduce", "collective"),
    *("tensor parallelism", "pipeline parallelism", "data parallelism", "expert parallelism", "ZeRO", "CUDA graph"),
    *("operator fusion", "TorchInductor", "Triton language", "HLO", "eager mode", "autotune", "mixed precision"),
    *("tf32", "bf16", "fp16", "fp8", "int8", "fp4", "quantisation", "KV cache", "paged attention", "flash attention"),
    *("continuous batching", "speculative decoding", "prefill/decode", "LoRA adapter", "execution provider", "opset"),
    *("IR version", "gfx target", "KFD", "render node", "HSA", "wavefront", "OpenCL ICD", "Vulkan ICD", "CDI"),
    *("cgroup device list", "NVIDIA_REQUIRE_CUDA", "WSL /dev/dxg", "roofline", "arithmetic intensity", "power cap"),
    *("clock event reasons", "P-state"),
)


def test_every_layer_has_its_row_in_the_order_of_the_stack() -> None:
    assert [one.layer for one in layers(MATRIX)] == list(Layer)
    assert [one.layer.value for one in layers(MATRIX) if one.beside] == ["environment", "container"]


def test_the_systems_are_those_of_the_map() -> None:
    assert [one.id for one in systems(MATRIX)] == list(MATRIX.systems)
    assert all(one.role == MATRIX.systems[one.id].role for one in systems(MATRIX))


@each("name", PROMISED)
def test_a_word_of_the_field_has_its_row(name: str) -> None:
    assert name in NEEDS


def test_a_row_is_one_sentence_with_a_command_and_a_text_of_its_own() -> None:
    rows: tuple[LayerRow | System | Term, ...] = (*layers(MATRIX), *systems(MATRIX), *terms(MATRIX))
    for one in rows:
        assert one.role.endswith(".")
        assert one.see
        assert all(command.strip() == command and command for command in one.see)
    assert len({one.row.text for one in rows}) == len(rows)


def test_what_something_stands_on_is_known_by_exactly_that_name() -> None:
    assert {(name, need) for name, needs in NEEDS.items() for need in needs if need not in NEEDS} == set()


def test_nothing_stands_on_itself_however_far_down() -> None:
    def below(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, (*above, name)
        for need in NEEDS[name]:
            below(need, (*above, name))

    for name in NEEDS:
        below(name, ())


def test_a_lower_layer_never_stands_on_a_framework() -> None:
    order = {layer: place for place, layer in enumerate(Layer)}
    at = {one.id: one.layer for one in systems(MATRIX)} | {one.name: one.layer for one in terms(MATRIX)}
    for name, needs in NEEDS.items():
        if order[at[name]] < order[Layer.LIBRARY]:
            assert not {need for need in needs if at[need] in {Layer.FRAMEWORK, Layer.SERVING}}, name


def test_no_name_is_given_twice_in_one_table() -> None:
    for table in ([squash(one.id) for one in systems(MATRIX)], [squash(one.name) for one in terms(MATRIX)]):
        assert len(set(table)) == len(table)


def test_a_benchmark_in_a_command_is_one_that_can_be_run() -> None:
    listed = {bench.id for bench in suite.listed()}
    for one in NAMED:
        for command in one.see:
            named = command.removeprefix("gpustack bench").split() if command.startswith("gpustack bench") else []
            assert all(fnmatch.filter(listed, name.strip("'")) for name in named), command


def test_findings_in_rows_can_be_explained() -> None:
    told = {finding for one in NAMED for finding in one.findings}
    told |= {finding for one in leads() for finding in one.findings}
    assert told <= set(topics.ids())


def leads() -> tuple[NumberLeads, ...]:
    return tuple(
        NumberLeads(
            origin="terms.leads",
            source="",
            checked="",
            family=line["table"],
            number=line["code"],
            findings=tuple(line["findings"]),
        )
        for line in MATRIX.table("terms")["leads"]
    )


def test_a_finding_has_the_layer_that_its_rule_gives_it() -> None:
    """When this fails: a new rule needs a row among the ``places`` of compat-matrix/terms.toml."""
    for finding, record in by_id().items():
        place = place_of(MATRIX, finding)
        assert finding in rule.rules() or (place is not None and place.layer is record.layer), finding
    for finding, held in rule.rules().items():
        place = place_of(MATRIX, finding)
        assert place is None or place.layer is held.layer, finding


def test_what_findings_are_about_is_known_and_each_occurs_once() -> None:
    assert {one.finding for one in places(MATRIX) if one.about and one.about not in NEEDS} == set()
    assert len({one.finding for one in places(MATRIX)}) == len(places(MATRIX))
    assert all(place_of(MATRIX, finding) for finding in (*topics.BENCH, *topics.TRACE))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.id)
def test_numbers_have_names_and_occur_once_in_their_table(family: Family) -> None:
    held = numbers(MATRIX, family)
    assert held
    assert all(one.name and one.row.source for one in held)
    assert len({one.number for one in held}) == len(held)
    assert all(bucket_of(MATRIX, one.bucket) for one in held if one.bucket)


def test_a_number_leads_only_where_its_table_has_it() -> None:
    known = {(family.id, one.number) for family in FAMILIES for one in numbers(MATRIX, family)}
    known |= {("clocks", one.bit) for one in clock_reasons(MATRIX)}
    assert {(one.family, one.number) for one in leads()} <= known


def test_what_well_known_numbers_lead_to() -> None:
    assert leads_of(MATRIX, "cuda", 804) == ("forward-compat-804",)
    assert leads_of(MATRIX, "xid", 79) == ("gpu-fell-off-bus",)
    assert leads_of(MATRIX, "nvml", 18) == ("driver-library-mismatch",)
    assert leads_of(MATRIX, "cuda", 1) == ()
