"""What no rule reads: a fact has to be read, be marked informational, or be listed here with what it could show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import diagnose
from gpustack.diagnose.machine.values import copies, flag, items, number
from gpustack.matrix.facts import ANY, EACH, STEPS
from tests import asked, drawn, sharing
from tests.diagnose import machines
from tests.recorded import facts_of
from tests.schema import MATRIX, SCHEMA
from tools import cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix.facts import Fact

ROOT = Path(__file__).parent
DIAGNOSE = Path(diagnose.__file__).parent
# Read where several things coincide, which few machines show: block and path, and the module that reads it.
BY_SOURCE: Mapping[tuple[str, str], str] = {
    ("every", "answer"): "rules/coverage.py",
    ("cudnn", "parts.*"): "rules/cudnn.py",
    ("gpu", "device_id"): "requirements/subjects.py",
    ("dkms", "log_tail"): "rules/module_builds.py",
    ("kernel-log", "iommu_faults[]"): "rules/interconnect.py",
    ("iommu", "bridges[].pci"): "rules/interconnect.py",
    ("libcuda-copies", "copies[].path"): "machine/completing.py",
    ("libcuda-copies", "copies[].release"): "machine/completing.py",
    ("libcuda-copies", "copies[].note.drivers[]"): "machine/completing.py",
    ("cuda-toolkit", "also_told"): "rules/driver_age.py",
    ("linux-kernel", "cmdline[]"): "rules/interconnect.py",
    ("linux-kernel", "dxg"): "machine/inventory.py",
    ("linux-kernel", "os_version"): "fixes.py",
    ("onnxruntime", "cuda"): "machine/inventory.py",
    ("onnxruntime", "search.*[].path"): "machine/libraries.py",
    ("shared-library", "found_by[]"): "rules/cudnn.py",
    ("torch-extensions", "why"): "evidence.py",
}
# What could show a fault but is not judged yet: what it would show, and by block the paths of the facts.
UNREAD: Mapping[str, Mapping[str, str]] = {
    "PCI Express errors, and what both ends can": {
        "amd-gpu": "link.speed link.slot.speed",
        "intel-gpu": "link.at link.switch link.speed",
    },
    "temperatures against their limits and margins": {
        "amd-gpu": "temperature.edge_shutdown_c temperature.junction_shutdown_c temperature.memory_shutdown_c",
    },
    "siblings of one kind that differ, and settings that are not the default": {
        "amd-gpu": "clocks.core_mhz clocks.memory_mhz",
    },
    "NVLink: links, errors, topology": {
        "infinity-fabric": "gpus links[].to links[].weight links[].min_mbs hives[][] cut",
    },
    "firmware of another release than the module": {
        "nvidia-driver": "firmware[]",
        "intel-gpu": "firmware.*.file firmware.*.version",
    },
    "descriptions and engines that name another driver, or no runtime": {
        "nvidia-container-toolkit": "cdi[].drivers[] engines.*.runtime engines.*.default engines.*.cdi",
    },
    "a rule reads the same from messages alone": {
        "cuda-toolkit": "host_compiler.version host_compiler.kind host_compiler.error",
        "python": "libstdcxx.path libstdcxx.glibcxx",
        "opencl": "icds[].loads",
    },
    "wheels: a free-threaded Python, copies left behind or shadowed": {
        "python": "leftovers[]",
        "distribution": "shadowed_by built_for.*[]",
        "packages": "duplicates.*[]",
    },
    "modules that a text names": {
        "other-module": "loaded",
        "intel-module": "loaded",
    },
    "builds of TensorFlow, ONNX Runtime and FlashAttention": {
        "tensorflow": "cuda cudnn archs[]",
        "onnxruntime": "providers[] cudnn",
        "flash-attention": "cuda torch cxx11abi",
        "listed": "accelerator cuda",
    },
    "a setting that leads nowhere": {
        "triton": "ptxas_path_exists",
        "torch-compile": "floor assembler",
    },
}


def blocks() -> Iterator[tuple[str, str, bool, frozenset[str]]]:
    """Yield block and path of each row, whether it is marked informational, and the components that it belongs to."""
    table = MATRIX.table("facts")
    for block, rows in table["facts"].items():
        for path, row in rows.items():
            yield block, path, row.get("informational", False), frozenset(table["of"].get(block, (block,)))


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> frozenset[tuple[str, str]]:
    """Return the rows that some rule reads, by block and path."""
    return sharing.worked_out(tmp_path_factory, "what rules read", read_by_rules)


def read_by_rules() -> frozenset[tuple[str, str]]:
    """Return the rows that some rule reads, by block and path."""
    first = {case.root_cause: case for case in reversed(cases.every())}
    ports = machines.recorded()  # of one kind, which random machines rarely have
    machines.add_ports(ports)
    machines.add(ports, "environment", "environment", {"nccl_conf": {"NCCL_P2P_DISABLE": "1"}})
    known = (*drawn.known(), *drawn.machines(10), machines.facts(ports))
    found = asked.read([*known, *map(facts_of, first.values())])
    held = {(fact.component, fact.path) for fact in found}
    rows = {(block, path) for block, path, _, components in blocks() if {(one, path) for one in components} & held}
    return frozenset({*rows, *BY_SOURCE})


def test_a_fact_that_no_rule_reads_is_marked_informational_or_named_with_the_reason(
    read: frozenset[tuple[str, str]],
) -> None:
    """When this fails: let a rule read what can show a fault, and mark ``informational`` what cannot."""
    unread = {(block, path) for block, path, marked, _ in blocks() if not marked} - read
    assert sorted(unread - set(named())) == []


def test_a_fact_that_is_named_as_unread_is_not_read(
    read: frozenset[tuple[str, str]],
) -> None:
    """When this fails, a rule now reads it: remove it from ``UNREAD``."""
    assert sorted(set(named()) & read) == []
    assert sorted(set(named()) - {(block, path) for block, path, marked, _ in blocks() if not marked}) == []


def test_no_fact_that_is_marked_informational_is_read(
    read: frozenset[tuple[str, str]],
) -> None:
    """When this fails, a rule now reads it: remove the mark from its row in ``facts.toml``."""
    assert sorted({(block, path) for block, path, marked, _ in blocks() if marked} & read) == []


@pytest.mark.parametrize(("row", "module"), BY_SOURCE.items(), ids=str)
def test_what_few_machines_make_a_rule_read_is_named_in_its_source(row: tuple[str, str], module: str) -> None:
    source = (DIAGNOSE / module).read_text("utf-8")
    steps = [step for step in STEPS.findall(row[1]) if step not in {EACH, ANY}]
    named = set(re.findall(r"""["'](\w+)["']""", source))
    assert [step for step in steps if step not in named] == []


def test_a_fact_that_is_read_is_noted_at_any_depth() -> None:
    def of(*names: str) -> set[Fact]:
        found = SCHEMA.at(*names)
        assert found
        return {found}

    into: set[Fact] = set()
    facts = asked.noting(drawn.recorded(ROOT / "hosts" / "recorded-h200-x2.json"), into)
    (nvlink, *_), (gpu, *_) = copies(facts, "nvlink"), copies(facts, "gpu")
    assert into == set()
    assert number(gpu.facts, "pcie", "width") == 16
    assert into == of("gpu", "pcie", "width")
    assert all(flag(link, "active") for link in items(nvlink.facts, "links"))
    assert into == of("gpu", "pcie", "width") | of("nvlink", "links", "[]", "active")


def named() -> Iterator[tuple[str, str]]:
    """Yield block and path of each fact that is known to be unread."""
    for held in UNREAD.values():
        for block, paths in held.items():
            yield from ((block, path) for path in paths.split())
