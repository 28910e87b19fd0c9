"""Faults planted in recorded machines: each is reported with its GPU and its fact; unchanged machines are healthy."""

from __future__ import annotations

import copy
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.diagnose import requirements
from gpustack.diagnose.requirements.records import by_id
from gpustack.diagnose.rule import ids, required
from gpustack.matrix.subjects import health
from gpustack.matrix.subjects.codes import Number, xids
from gpustack.model.facts import Call
from gpustack.model.reading import made
from gpustack.model.report import Confidence, Contract, Finding, Health, Kept, Report, Severity
from tests.build import MATRIX, gpu, healthy, libcuda, machine, report, seen
from tests.counting import each
from tests.diagnose.faults import (
    CHOSEN,
    FAULTS,
    HARMLESS,
    Fault,
    all_links_down,
    gone_from_cuda,
    gone_from_nvml_without_a_word,
    spread,
    uncounted,
)
from tests.diagnose.machines import OTHERS, add, add_ports, address, facts, of, part, pci, put, recorded
from tests.wide import one_of, sample, wide

if TYPE_CHECKING:
    from collections.abc import Callable

# What NVIDIA recommends for what is no fault of the machine, or is covered by other Xids and words.
PASSED = {*("IGNORE", "RESTART_APP", "CONTACT_SUPPORT", "XID_154"), *(f"WORKFLOW_XID_{code}" for code in (13, 31, 45))}
RECORDED = 63  # records a memory repair, which is judged by the GPU's own facts
CONTAINED = 94  # only requires restarting the program, and is an ECC error
KINDS = {"state", "limit", "alike", "count", "event"}
MACHINES = {maker: {"two": of(maker, 2), "eight": of(maker, 8)} for maker in ("gpu", *OTHERS)}
GRAVE = {Severity.ERROR, Severity.WARNING}
ROWS: tuple[health.Duty | health.Count, ...] = (
    *health.states(MATRIX),
    *health.limits(MATRIX),
    *health.alikes(MATRIX),
    *health.counts(MATRIX),
)


def drawn(made: Report) -> list[Contract]:
    return [one for one in made.contracts if one.kind in KINDS]


def says(finding: Finding) -> str:
    return " ".join(
        (finding.title, finding.detail, *(str(one.value) for one in finding.because), finding.instance or "")
    )


@wide
@pytest.mark.parametrize(
    ("fault", "size"),
    [
        pytest.param(one, size, id=f"{one.name}-{size}")
        for one in FAULTS
        if sample([one.name], 2)
        for size in one_of(["two", "eight"], one.name)
    ],
)
def test_a_planted_fault_is_reported_with_its_gpu_and_its_fact(fault: Fault, size: str) -> None:
    """In CI half of them, each on a machine of two GPUs or of eight; all on both with GPUSTACK_WIDE=1."""
    said = copy.deepcopy(MACHINES[fault.maker][size])
    last = (8 if size == "eight" else 2) - 1
    place = address(said, last, fault.maker)
    fault.plant(said, last)
    made = report(facts(said))
    told = [one for one in made.findings if one.id == fault.finding and one.severity in GRAVE]
    assert told, [one.key for one in made.findings]
    unseen = any(one.id == "component-not-seen" for one in made.findings)
    assert made.verdict.status in {Health.BROKEN, Health.DEGRADED, *([Health.UNKNOWN] if unseen else ())}
    assert fault.finding in made.verdict.root_causes
    assert fault.whole or any(place in says(one) for one in told)
    assert any(fault.fact in ground.fact for one in told for ground in one.because)
    assert_paired(made)


def assert_paired(made: Report) -> None:
    """Assert that each broken contract has its finding, and each finding of a requirement its contract."""
    keys = {one.key: one for one in made.findings}
    broken = [one for one in drawn(made) if one.status in {Kept.BROKEN, Kept.LIMITED}]
    assert {one.finding for one in broken} <= set(keys)
    assert all(one.finding is None for one in drawn(made) if one.status is Kept.UNKNOWN)
    assert {one.key for one in made.findings if one.id in required()} <= {one.finding for one in broken}
    assert all(one.row for one in broken)


@pytest.mark.parametrize("name", ["recorded-h200", "recorded-h200-deep", "healthy-h200", "recorded-h200-x2"])
def test_a_healthy_recorded_machine_breaks_no_requirement(name: str) -> None:
    assert drawn(report(facts(recorded(name)))) == []


@pytest.mark.parametrize("maker", MACHINES)
@pytest.mark.parametrize("size", ["two", "eight"])
def test_a_machine_that_faults_are_planted_in_is_healthy(maker: str, size: str) -> None:
    made = report(facts(MACHINES[maker][size]))
    assert [one.key for one in made.findings if one.severity in GRAVE] == []
    assert drawn(made) == []


def bare(said: dict[str, Any]) -> None:
    said["host"].update(container=None, virtualisation=None)


def on_ports_of_qemu(said: dict[str, Any]) -> None:
    said["host"].update(container=None, virtualisation="kvm")
    port = {"pci": "0000:00:02.0", "speed": 2.5, "width": 1, "max_speed": 16.0, "max_width": 32}
    put(said, "pci-display", 1, "bridges", [port])


def with_mig(said: dict[str, Any]) -> None:
    bare(said)
    for number in range(2):
        put(said, "gpu", number, "mig", {"enabled": True, "instances": [{"uuid": f"MIG-{number}"}]})
        put(said, "gpu", number, "memory.used_mib", 60_000)
        part(said, "nvlink")["instances"][number]["facts"].update(links=[], total=0, active=0, topology={})


def with_cards_that_no_bridge_joins(said: dict[str, Any]) -> None:
    bare(said)
    for number in range(2):
        put(said, "gpu", number, "name", "NVIDIA H100 PCIe")
        put(said, "gpu", number, "fabric", {"state": "not-supported"})
        held = {"links": [], "total": 0, "active": 0, "topology": {}}
        part(said, "nvlink")["instances"][number]["facts"].update(held)


def of_a_host_of_virtual_gpus(said: dict[str, Any]) -> None:
    bare(said)
    put(said, "gpu", 1, "virtualisation_mode", "host-vgpu")
    put(said, "gpu", 1, "memory.used_mib", 100_000)


def with_a_log_of_every_day(said: dict[str, Any]) -> None:
    lines = ("NVRM: GPU at PCI:0000:00:07: GPU-2", "nvidia 0000:00:07.0: enabling device (0000 -> 0002)")
    part(said, "kernel-log")["instances"][0]["facts"]["nvrm"] += lines


def whose_last_gpu_a_guest_has(said: dict[str, Any]) -> None:
    for path, value in (("driver", "vfio-pci"), ("kfd", False), ("render", None)):
        put(said, "amd-gpu", 1, path, value)


def whose_container_shows_two_of_eight(said: dict[str, Any]) -> None:
    said["host"]["container"] = "docker"
    part(said, "amdgpu.ko")["instances"] = part(of("amd-gpu", 8), "amdgpu.ko")["instances"]


def with_a_busy_gpu(said: dict[str, Any]) -> None:
    put(said, "amd-gpu", 1, "memory.vram_used_mib", 60_000)
    add(said, "gpu-processes", "application", {"pid": 4242, "name": "python", "state": "R"})


def with_a_reset_that_its_start_does(said: dict[str, Any]) -> None:
    line = f"amdgpu {address(said, 1, 'amd-gpu')}: amdgpu: GPU mode1 reset"
    put(said, "kernel-log", 0, "amdgpu", [line])


def whose_last_gpu_sleeps(said: dict[str, Any]) -> None:
    for path, value in (("power_state", "D3cold"), ("clocks", []), ("firmware", {"unread": "denied"})):
        put(said, "intel-gpu", 1, path, value)


LEGITIMATE = {
    "gpu": (
        *(bare, on_ports_of_qemu, with_mig, with_cards_that_no_bridge_joins),
        *(of_a_host_of_virtual_gpus, with_a_log_of_every_day),
    ),
    "amd-gpu": (
        *(whose_last_gpu_a_guest_has, whose_container_shows_two_of_eight),
        *(with_a_busy_gpu, with_a_reset_that_its_start_does),
    ),
    "intel-gpu": (whose_last_gpu_sleeps,),
}


@pytest.mark.parametrize(
    ("maker", "change"), [pytest.param(name, one, id=one.__name__) for name, all_ in LEGITIMATE.items() for one in all_]
)
def test_a_machine_that_is_set_up_on_purpose_raises_nothing(
    maker: str, change: Callable[[dict[str, Any]], None]
) -> None:
    said = of(maker, 2)
    change(said)
    assert [one.title for one in report(facts(said)).findings if one.severity in GRAVE] == []


@each(("component", "path", "value"), HARMLESS)
def test_values_within_their_limits_and_settings_on_purpose_raise_nothing(
    component: str, path: str, value: object
) -> None:
    for size in (2, 8):
        said = of(component if component in OTHERS else "gpu", size)
        bare(said)
        spread(said, component, path, value, size)
        assert [one.title for one in report(facts(said)).findings if one.severity in GRAVE] == []


@pytest.mark.parametrize(("maker", "name", "value"), CHOSEN)
def test_gpus_that_somebody_chose_raise_nothing(maker: str, name: str, value: str) -> None:
    said = of(maker, 2)
    add(said, "environment", "environment", {"variables": {name: value}})
    assert [one.title for one in report(facts(said)).findings if one.severity in GRAVE] == []


def test_advice_about_a_gpu_of_amd_names_the_tools_of_amd() -> None:
    said = of("amd-gpu", 2)
    put(said, "amd-gpu", 1, "link.replays", 500_000)
    (finding,) = (one for one in report(facts(said)).findings if one.id == "pcie-errors")
    assert finding.component == "amd-gpu"
    assert finding.fix
    commands = " ".join(str(one) for one in (*finding.fix.commands, finding.fix.verify))
    assert f"amd-smi metric -g {address(said, 1, 'amd-gpu')}" in commands
    assert "nvidia" not in commands


def test_every_row_is_broken_by_a_planted_fault() -> None:
    """When this fails: a new row of health.toml needs a fault in faults.py."""
    broken = set()
    for fault in FAULTS:
        said = copy.deepcopy(MACHINES[fault.maker]["two"])
        fault.plant(said, 1)
        broken |= {one.row for one in requirements.outcomes(facts(said), MATRIX)}
    assert [row.name for row in ROWS if row.row not in broken and row.severity in GRAVE] == []


def test_every_row_has_a_record_and_every_record_a_row() -> None:
    rows = {row.finding for row in ROWS} | {"gpu-xid", "gpu-far-from-network"}
    assert rows | {name for name, one in by_id().items() if one.said} == set(by_id())
    assert set(required()) == {name for name, one in by_id().items() if one.doc}
    assert set(by_id()) <= set(ids())
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({row.row.text for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("kind", "more", "wrong"),
    [
        (health.State, {}, "a expects nothing"),
        (health.Limit, {"bad": "above"}, "a has no bound or two"),
        (health.Limit, {"bad": "above", "value": 1, "bound": ["y"]}, "a has no bound or two"),
        (health.Limit, {"bad": "beyond", "value": 1}, "bad is wrong: 'beyond' is not a valid Side"),
        (health.State, {"known": "yes"}, "known is neither true nor false"),
        (health.State, {"known": True, "severity": "dire"}, "severity is wrong: 'dire' is not a valid Severity"),
        (health.State, {"known": True, "when": [{"is": [1]}]}, r"when\[0\] is wrong: not enough values"),
        (health.State, {"known": True, "when": [{"fact": "x"}]}, r"when\[0\] is wrong: a condition with fact"),
        (health.State, {"known": True, "when": [{"fact": "x", "was": 1}]}, "a condition with fact, was"),
    ],
)
def test_a_row_that_is_damaged_is_refused(kind: type[health.Duty], more: dict[str, Any], wrong: str) -> None:
    row = {"name": "a", "of": "gpu", "fact": "x", "finding": "y", "severity": "error", "what": "", "source": "s"}
    with pytest.raises(ValueError, match=wrong):
        made({**row, "origin": "health.states", "checked": "2026-11-22", **more}, kind)


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a machine of two or eight GPUs of one maker with some faults, each on some GPU."""
    size, maker = draw(st.sampled_from([2, 8])), draw(st.sampled_from(["gpu", "gpu", *OTHERS]))
    said, own = of(maker, size), [one for one in FAULTS if one.maker == maker]
    for fault in draw(st.lists(st.sampled_from(own), min_size=1, max_size=6, unique_by=lambda one: one.finding)):
        with suppress(LookupError, AttributeError, StopIteration, TypeError, ValueError):  # another was there before
            fault.plant(said, draw(st.integers(0, size - 1)))
    return said


@given(machines())
def test_on_any_machine_each_broken_requirement_has_its_finding_and_each_finding_its_requirement(
    said: dict[str, Any],
) -> None:
    assert_paired(report(facts(said)))


def test_persistence_is_a_warning_on_data_centre_gpus_alone_and_told_once() -> None:
    off = report(healthy(seen("gpu", gpu(persistence=False))))
    assert [one.key for one in off.findings if one.severity is Severity.WARNING] == ["persistence-mode-off"]
    slow = replace(libcuda(), calls=(Call(name="cuInit", seconds=9.5, outcome="ok"),))
    both = report(healthy(slow, seen("gpu", gpu(persistence=False))))
    assert [(one.key, one.severity) for one in both.findings] == [("persistence-mode-off", Severity.WARNING)]
    desktop = gpu("NVIDIA GeForce RTX 4090", "8.9", persistence=False, temperature={"memory_c": 104})
    assert drawn(report(healthy(libcuda(cc="8.9"), seen("gpu", desktop)))) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a virtual machine has it", lambda said: put(said, "pci-display", 1, "driver", "vfio-pci")),
        (
            "a virtual machine has one of Grace",
            lambda said: put(said, "pci-display", 1, "driver", "nvgrace_gpu_vfio_pci"),
        ),
        ("the module leaves it out", lambda said: put(said, "nvidia.ko", 0, "gpus[1].excluded", value=True)),
        ("another job has it", lambda said: put(said, "libcuda", 0, "visible", "0")),
        ("the container has no node of it", lambda said: put(said, "nvidia.ko", 0, "nodes[2].exists", value=False)),
    ],
)
def test_a_gpu_that_is_hidden_on_purpose_is_not_a_finding(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    said = recorded()
    gone_from_nvml_without_a_word.plant(said, 1)
    change(said)
    made = report(facts(said))
    assert not [one for one in made.findings if one.id == "gpu-missing"], name
    assert {(one.status, one.finding) for one in drawn(made)} <= {(Kept.UNKNOWN, None)}


@pytest.mark.parametrize(
    "change",
    [
        lambda said: put(said, "libcuda", 0, "visible", "0"),
        lambda said: put(said, "gpu", 0, "mig", {"enabled": True, "instances": [{"uuid": "MIG-1"}]}),
        lambda said: put(said, "gpu", 1, "compute_mode", "prohibited"),
    ],
)
def test_a_gpu_that_cuda_may_not_list_is_unknown(change: Callable[[dict[str, Any]], None]) -> None:
    said = recorded()
    gone_from_cuda.plant(said, 1)
    change(said)
    made = report(facts(said))
    assert not [one for one in made.findings if one.id == "gpu-missing"]
    assert Kept.UNKNOWN in {one.status for one in drawn(made)}


def test_a_gpu_that_fell_off_the_bus_explains_what_it_takes_along() -> None:
    said = recorded()
    all_links_down.plant(said, 0)
    uncounted(said, 1)
    xid = {"pci": pci(1), "code": 79, "text": "GPU has fallen off the bus."}
    put(said, "kernel-log", 0, "xids", [xid])
    made = report(facts(said))
    assert made.verdict.root_causes == ("gpu-fell-off-bus",)
    caused = {one.id: one.caused_by for one in made.findings if one.id in required()}
    root = f"gpu-fell-off-bus@{pci(1)}"
    assert caused == {"gpu-missing": root, "nvlink-inactive": root}


def test_gpus_that_wait_for_the_fabric_are_a_warning_while_cuda_works_and_no_root_where_it_does_not() -> None:
    said = recorded()
    for number in range(2):
        put(said, "gpu", number, "fabric.state", "in-progress")
    assert [(one.id, one.severity) for one in report(facts(said)).findings if one.severity in GRAVE] == [
        ("fabric-state", Severity.WARNING)
    ] * 2
    put(said, "libcuda", 0, "cu_init", 802)
    made = report(facts(said))
    assert made.verdict.root_causes == ("fabric-manager-not-running",)
    assert {one.caused_by for one in made.findings if one.id == "fabric-state"} == {"fabric-manager-not-running"}


def test_an_idle_link_that_is_slow_and_links_of_a_bridge_that_are_unused_are_not_faults() -> None:
    said = recorded()
    put(said, "gpu", 1, "pcie.generation", 1)
    put(said, "pci-display", 1, "link.speed", 2.5)
    assert drawn(report(facts(said))) == []
    all_links_down.plant(said, 1)
    for number in range(2):
        put(said, "gpu", number, "fabric.state", "not-supported")
        put(said, "gpu", number, "name", "NVIDIA A100 80GB PCIe")
        for link in part(said, "nvlink")["instances"][number]["facts"]["links"]:
            link["remote"] = {"type": "gpu", "pci": pci(1 - number)}
    assert drawn(report(facts(said))) == []


def test_ports_of_network_cards_that_are_in_use_or_unused_alike_are_not_faults() -> None:
    said = recorded()
    add_ports(said)
    assert drawn(report(facts(said))) == []
    for number, change in enumerate(({"state": "DOWN", "physical": "Polling", "rate_gbps": 10.0}, {}, {})):
        part(said, "infiniband")["instances"][number]["facts"].update(change)
        part(said, "infiniband")["instances"][number + 1]["facts"].update(change)
    assert drawn(report(facts(said))) == []  # half of them are in use
    said = recorded()
    add_ports(said)
    part(said, "infiniband")["instances"][3]["facts"].update(state="DOWN", physical="Polling", rate_gbps=10.0)
    (finding,) = (one for one in report(facts(said)).findings if one.id == "rdma-port-degraded")
    assert finding.instance == "mlx5_3/1"
    assert finding.title == "InfiniBand port mlx5_3/1: it is DOWN; most ports of the same kind are ACTIVE"


@pytest.mark.parametrize(("size", "named"), [("two", [pci(0), pci(1)]), ("eight", [pci(7)])])
def test_of_siblings_the_odd_one_is_named_and_of_two_kinds_both(size: str, named: list[str]) -> None:
    said = copy.deepcopy(MACHINES["gpu"][size])
    put(said, "gpu", 7 if size == "eight" else 1, "vbios", "96.00.89.00.01")
    (finding,) = (one for one in report(facts(said)).findings if one.id == "sibling-differs")
    assert finding.instance == (named[0] if size == "eight" else None)
    assert re.findall(r"0000:00:\w\w\.0", finding.title) == named


@pytest.mark.parametrize("one", xids(MATRIX), ids=lambda one: str(one.number))
def test_every_xid_of_the_catalogue_that_asks_for_more_than_a_new_program_is_reported_with_its_gpu(one: Number) -> None:
    said = recorded()
    put(said, "kernel-log", 0, "xids", [{"pci": pci(1), "code": one.number, "text": "", "seconds": 10.0}] * 2)
    made = report(facts(said))
    told = [finding for finding in made.findings if finding.severity in GRAVE]
    board = one.whose in {"hw", "pcie"} and one.number != RECORDED
    asks = board if one.bucket in {None, "IGNORE"} else one.bucket not in PASSED
    assert bool(told) is (asks or one.number == CONTAINED)
    assert all(pci(1) in says(finding) and f"Xid {one.number}" in says(finding) for finding in told)
    assert_paired(made)


def test_an_xid_that_asks_for_a_reset_is_an_error_until_the_driver_says_that_none_is_needed() -> None:
    said = recorded()
    put(said, "kernel-log", 0, "xids", [{"pci": pci(1), "code": 62, "text": "", "seconds": 10.0}])
    (finding,) = (one for one in report(facts(said)).findings if one.id == "gpu-xid")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LIKELY)
    put(said, "gpu", 1, "recovery_action", None)
    (finding,) = (one for one in report(facts(said)).findings if one.id == "gpu-xid")
    assert finding.severity is Severity.ERROR
    assert "reset the GPU" in finding.title


@pytest.mark.parametrize("finding", required())
def test_a_record_says_what_was_seen_why_it_hurts_and_what_to_do(finding: str) -> None:
    first, _, rest = (by_id()[finding].doc or "").partition("\n\n")
    assert first.endswith(".")
    assert "\n" not in first
    assert len(re.findall(r"[.:;]", rest)) >= 2


def test_a_table_where_a_word_belongs_does_not_break_the_report() -> None:
    gpus = seen("gpu", {"key": "0"})
    odd = replace(gpus, instances=tuple(replace(one, facts={"recovery_action": {}}) for one in gpus.instances))
    assert any(one.because for one in report(machine(odd)).findings)
