"""The health check: the right class for faulty machines and a healthy one, and each policy rule, kept and broken."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from gpustack.bench import read as read_bench
from gpustack.diagnose import engine, rule
from gpustack.model.facts import Layer, Unseen
from gpustack.model.policy import HealthClass
from gpustack.model.report import Health, Report, Severity
from gpustack.policy import BENCHES, evaluate, read
from gpustack.policy.checking import check
from tests.build import PYTHON, healthy, merged, pci, report, seen, torch
from tests.build import machine as machine_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.policy.checked import (
    BENCH,
    DEGRADED,
    GOOD,
    HOST,
    IGNORE,
    LOW,
    OK,
    OURS,
    TESTS,
    TODAY,
    UNKNOWN,
    checked,
    code,
    machine,
    row,
)

SICK = tomllib.loads((TESTS / "checks/sick.toml").read_text("utf-8"))["machines"]


# The pipeline.


def test_the_recorded_healthy_h200_passes_with_its_recorded_bench() -> None:
    bench = read_bench(BENCH)
    made = check(machine("hosts/recorded-h200.json"), bench, today=TODAY)
    assert (made.class_, code(made)) == (OK, False)
    assert row(made, "bench").ok is True
    policy = 'frameworks = ["pytorch", "jax"]\n[gpus]\ncount = 1\nname = "NVIDIA H200"\n[bench.least]\n"hbm.*" = 0.85\n'
    made = check(machine("hosts/recorded-h200.json"), bench, read(policy), today=TODAY)
    assert (made.class_, made.why) == (OK, "nothing in the stack is at fault; 5 rules of the policy hold")


@pytest.mark.parametrize("sick", SICK, ids=lambda sick: str(sick["from"]))
def test_a_sick_machine_fails_with_the_class_that_was_set_by_hand(sick: dict[str, str]) -> None:
    made = checked(machine(sick["from"]), sick.get("policy", ""))
    assert made.class_ is HealthClass(sick["class"])
    assert code(made)
    assert made.verdict.root_causes[0] == sick["root"]
    assert len(sick["origin"]) > 10
    assert len(sick["because"]) > 10


def test_a_policy_that_cannot_hold_fails_for_that_reason_alone() -> None:
    made = checked(machine("hosts/recorded-h200.json"), '[bench.least]\n"hbm.read" = 1.5\n', read_bench(BENCH))
    assert (made.class_, code(made)) == (HOST, True)
    assert [one.rule for one in made.policy if one.ok is False] == ["bench.least.hbm.read"]
    assert made.why == (
        "bench.least.hbm.read (gpustack.toml:2): 150% of the limit or more is required; found: 95.9% hbm.read on GPU 0"
    )


# Whose fault it is.


def test_every_exception_among_findings_is_a_finding_and_is_none_of_its_layer() -> None:
    assert set(evaluate.BY_FINDING) <= {*rule.ids(), *BENCHES}
    assert set(evaluate.BY_LAYER) == set(Layer)
    assert all(len(why) > 20 for _, why in (*evaluate.BY_LAYER.values(), *evaluate.BY_FINDING.values()))


def test_a_fault_of_the_host_goes_before_one_of_the_environment() -> None:
    both = machine("hosts/cudnn-shadowed.json")
    assert checked(both).class_ is OURS
    assert checked(both, '[components]\nnvidia-driver = ">=999"').class_ is HOST
    assert checked(both, '[components]\njax = "present"').class_ is OURS


def test_warnings_degrade_and_what_was_not_seen_is_unknown() -> None:
    assert checked(machine("hosts/cpu-only-torch.json")).class_ is DEGRADED
    assert not code(checked(machine("hosts/cpu-only-torch.json")))
    assert code(checked(machine("hosts/cpu-only-torch.json")), "error", "warning")
    hung = checked(machine("hosts/nvml-hung.json"))
    assert hung.class_ is UNKNOWN
    assert "libcuda" in hung.why
    assert not code(hung)
    assert code(hung, "error", "warning", "unknown")


def test_a_machine_without_a_gpu_is_bad_unless_none_is_required() -> None:
    bare = machine("hosts/no-gpu.json")
    for made in (checked(bare), checked(bare, "[gpus]\ncount = 1"), checked(bare, "for = 'train'")):
        assert (made.class_, made.verdict.status, code(made)) == (HOST, Health.NO_GPU, True)
        assert row(made, "gpus.count").found == "there is no GPU on the PCI bus"
    for made in (checked(bare, gpus=0), checked(bare, "[gpus]\ncount = 0"), checked(bare, "[gpus]\ncount = 8", gpus=0)):
        assert (made.class_, code(made, "error", "warning", "unknown")) == (OK, False)
    pasted = checked(replace(bare, taken="", verdict=replace(bare.verdict, status=Health.UNKNOWN)))
    assert "gpus.count" not in {one.rule for one in pasted.policy}


TWO = "hosts/recorded-h200-x2.json"


def without(base: Report, component: str, **facts: object) -> Report:
    """Return a machine whose second GPU is missing from a component, which reports something else as well."""
    (old,) = [one for one in base.components if one.id == component]
    kept = old.instances[:1]
    own = {**kept[0].facts, **facts} if facts else kept[0].facts
    new = replace(old, facts=own, instances=(replace(kept[0], facts=own),))  # type: ignore[arg-type]  # plain facts
    return replace(base, components=tuple(new if one is old else one for one in base.components))


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        (("gpu",), "1: 2 on the PCI bus, 1 in the driver (without 0000:00:07.0)"),
        (("pci-display", "gpu"), "1: 1 on the PCI bus, 1 in the driver"),
    ],
)
def test_fewer_gpus_than_required_are_a_fault_of_the_host_that_says_where_they_are_missing(
    lost: tuple[str, ...], found: str
) -> None:
    made = machine(TWO)
    assert checked(made, gpus=2).class_ is OK
    for component in lost:
        made = without(made, component)
    held = checked(made, "[gpus]\ncount = 1", gpus=2)
    assert (held.class_, code(held), row(held, "gpus.count").place) == (HOST, True, None)
    assert row(held, "gpus.count").found.startswith(found)
    assert row(checked(made), "gpus.count").ok is True, "without a number one is enough"


def test_a_gpu_that_cuda_does_not_show_is_missing_and_its_variable_is_named() -> None:
    base = machine(TWO)
    devices = next(one for one in base.components if one.id == "libcuda").facts["devices"]
    assert isinstance(devices, Sequence)
    held = row(checked(without(base, "libcuda", devices=devices[:1], visible="0"), gpus=2), "gpus.count")
    assert (held.ok, held.whose) == (False, HOST)
    assert held.found == "1: 2 on the PCI bus, 2 in the driver, 1 in CUDA (CUDA_VISIBLE_DEVICES is '0')"


def test_a_container_that_was_given_too_few_says_so() -> None:
    base = machine(TWO)
    inside = without(replace(base, host=replace(base.host, container="docker")), "gpu")
    assert (
        "this container (docker) may not have been given the rest" in row(checked(inside, gpus=2), "gpus.count").found
    )


def test_more_gpus_than_required_are_a_warning() -> None:
    made = checked(machine(TWO), gpus=1)
    assert (made.class_, code(made), code(made, "error", "warning")) == (DEGRADED, False, True)
    assert (row(made, "gpus.count").found, row(made, "gpus.count").warns) == ("2", True)
    assert row(checked(machine(TWO), "[gpus]\ncount = 1"), "gpus.count").warns
    assert row(checked(machine(TWO), '[gpus]\ncount = "==1"'), "gpus.count").whose is HOST


def test_gpus_of_any_vendor_count() -> None:
    amd = machine("hosts/amd-healthy-mi210.json")
    assert row(checked(amd), "gpus.count").ok is True
    assert row(checked(amd, gpus=64), "gpus.count").ok is False


def test_what_is_required_of_a_missing_framework_is_reported_without_a_gpu() -> None:
    bare = machine("hosts/no-gpu.json")
    works = checked(bare, 'frameworks = ["pytorch"]')
    assert (works.class_, row(works, "frameworks.pytorch").ok) == (HOST, False)


# Rules of a policy, kept and broken.


@pytest.mark.parametrize(
    ("policy", "rule", "ok", "found"),
    [
        ('[components]\npytorch = ">=2.6,<3"', "components.pytorch", True, "2."),
        ('[components]\ntorch = "==2.0"', "components.torch", False, "2."),
        ('[components]\nnvidia-driver = "present"', "components.nvidia-driver", True, "580"),
        ('[components]\njax = "present"', "components.jax", None, "not known"),
        ("[gpus]\ncount = 1", "gpus.count", True, "1"),
        ("[gpus]\ncount = 2", "gpus.count", False, "1"),
        ('[gpus]\ncount = ">=1,<9"', "gpus.count", True, "1"),
        ('[gpus]\nname = "NVIDIA H*"', "gpus.name", True, "NVIDIA H200"),
        ('[gpus]\nname = ["NVIDIA A100*", "NVIDIA L40S"]', "gpus.name", False, "NVIDIA H200 at 0000:01:00.0"),
        ('[gpus]\ncompute-capability = ">=9.0"', "gpus.compute-capability", True, "9.0"),
        ('[gpus]\ncompute-capability = ">=10"', "gpus.compute-capability", False, "9.0 at 0000:01:00.0"),
        ("[gpus]\nmemory-gib = 100", "gpus.memory-gib", True, "140.4 GiB"),
        ("[gpus]\nmemory-gib = 141", "gpus.memory-gib", False, "140.4 GiB at 0000:01:00.0"),
        ('frameworks = ["pytorch"]', "frameworks.pytorch", True, "it works"),
        ('frameworks = ["jax"]', "frameworks.jax", False, "it is not installed in"),
        ("[in-use]\nmemory-mib = 0", "in-use.memory-mib", None, "not told"),
        ("[in-use]\nprocesses = []", "in-use.processes", True, "none other"),
    ],
)
def test_a_rule_is_checked_against_the_machine(policy: str, rule: str, *, ok: bool | None, found: str) -> None:
    made = checked(GOOD, policy)
    held = row(made, rule)
    assert (held.ok, made.class_ is OK) == (ok, ok is True)
    assert held.found.startswith(found)
    assert held.place is not None
    assert held.place.startswith("gpustack.toml:")


def test_a_version_before_the_release_is_within_a_range_as_images_ship_them() -> None:
    made = checked(healthy(torch("2.12.0a0")), '[components]\ntorch = ">=2.6"')
    assert (row(made, "components.torch").ok, row(made, "components.torch").found) == (True, "2.12.0a0+cu130")


def test_a_framework_that_could_not_be_checked_is_not_missing() -> None:
    lost = replace(seen("pytorch", reason="KeyError: 'x'", status="failed"), vendor="any")
    elsewhere = seen(
        "pytorch",
        {"version": "2.11.0+cu130", "environment": "/b/bin/python"},
        {"status": "unknown", "answer": "failed", "error": "KeyError: 'x'", "environment": PYTHON},
    )
    for facts in (healthy(lost), healthy(replace(elsewhere, vendor="any"))):
        made = checked(facts, 'frameworks = ["pytorch"]')
        held = row(made, "frameworks.pytorch")
        assert (held.ok, made.class_, held.found) == (None, UNKNOWN, "it could not be examined: KeyError: 'x'")
    assert row(checked(healthy(lost), '[components]\ntorch = ">=2"'), "components.torch").ok is None


def test_a_component_that_is_not_a_system_of_the_stack_is_looked_for_among_the_packages() -> None:
    python = "/opt/venv/bin/python"
    held = seen("packages", {"environment": python, "distributions": {"flash_attn": "2.6.3", "Peft": "0.11"}})
    facts = merged(GOOD, held)
    made = checked(facts, '[components]\npeft = ">=0.10"\n"Flash.Attn" = "present"\nxformers = "present"')
    assert [(one.rule, one.found, one.ok) for one in made.policy[:3]] == [
        ("components.peft", "0.11", True),
        ("components.Flash.Attn", "2.6.3", True),
        ("components.xformers", "absent", False),
    ]
    assert made.class_ is OURS


def test_memory_and_processes_of_others_are_a_fault_of_the_host() -> None:
    base = machine("hosts/recorded-h200.json")
    gpus = next(one for one in base.components if one.id == "gpu")
    used = replace(
        gpus.instances[0], facts={**gpus.instances[0].facts, "memory": {"total_mib": 143771, "used_mib": 900}}
    )
    who = seen(
        "gpu-processes",
        {"key": "pid 7", "pid": 7, "name": "python3", "command": "python3 train.py"},
        {"pid": 9, "name": "Xorg"},
    )
    busy = replace(
        base, components=(*(one for one in base.components if one.id != "gpu"), replace(gpus, instances=(used,)), who)
    )
    made = checked(busy, '[in-use]\nmemory-mib = 500\nprocesses = ["Xorg"]')
    assert made.class_ is HOST
    assert row(made, "in-use.memory-mib").found == "900 MiB at 0000:00:06.0"
    assert row(made, "in-use.processes").found == "python3 (pid 7)"
    allowed = checked(busy, '[in-use]\nmemory-mib = 900\nprocesses = ["Xorg", "python3 *"]')
    assert (allowed.class_, row(allowed, "in-use.processes").ok) == (OK, True)


def test_a_process_that_may_not_be_asked_leaves_open_whose_the_gpu_is() -> None:
    who = seen("gpu-processes", {"pid": 9, "name": "Xorg"}, {"pid": 7, "status": "unknown"})
    made = checked(merged(GOOD, who), '[in-use]\nprocesses = ["Xorg"]')
    held = row(made, "in-use.processes")
    assert (held.ok, held.found) == (None, "not known: some processes cannot be examined")
    assert row(checked(merged(GOOD, who), "[in-use]\nprocesses = []"), "in-use.processes").ok is False


def test_a_part_of_a_divided_gpu_is_not_a_gpu_of_its_own() -> None:
    whole = {"key": "0000:03:00.0", "pci": "0000:03:00.0", "name": "AMD Instinct MI300X"}
    parts = [{"key": f"{whole['key']} part {part}", "name": whole["name"], "partition": True} for part in (1, 2)]
    bus = seen("pci-display", pci("amdgpu", "0x74a1", "0000:03:00.0", "amd"))
    made = checked(machine_of(bus, seen("amd-gpu", whole, *parts)), "[gpus]\ncount = 1")
    assert (row(made, "gpus.count").ok, row(made, "gpus.count").found) == (True, "1")


def test_a_driver_that_lists_nothing_leaves_the_kind_of_gpu_unknown() -> None:
    blind = merged(GOOD, seen("pci-display", pci()), seen("gpu", status="unknown", reason="NVML hangs"))
    made = checked(blind, '[gpus]\ncount = 1\nname = "NVIDIA H200"')
    assert [one.ok for one in made.policy if one.rule.startswith("gpus")] == [None, None]
    assert made.class_ in {UNKNOWN, HOST}


# Findings that are suppressed or made more severe.


def test_an_ignored_finding_is_a_note_with_all_that_follows_from_it_until_its_day_is_over() -> None:
    sick = machine("hosts/module-mismatch-update.json")
    assert {one.severity for one in sick.findings if one.caused_by} >= {Severity.ERROR}
    policy = IGNORE.format(finding="driver-library-mismatch")
    made = checked(sick, policy)
    assert (made.verdict.root_causes, code(made)) == ((), False)
    assert {one.severity for one in made.findings} == {Severity.INFO}
    assert "Ignored until 2026-11-21: ticket 12" in made.findings[0].detail
    assert row(made, "ignore.driver-library-mismatch").found == "1 found"
    late = checked(sick, policy, today=date(2026, 11, 22))
    assert (late.class_, code(late)) == (HOST, True)
    told = row(late, "ignore.driver-library-mismatch")
    assert (told.ok, told.found) == (None, "this ended on 2026-11-21: 1 found, no longer ignored")
    good = checked(machine("hosts/recorded-h200.json"), policy, today=date(2027, 1, 1))
    assert (good.class_, code(good, "error", "warning", "unknown")) == (OK, False)


def test_a_raised_finding_is_an_error_and_a_consequence_is_not_raised() -> None:
    policy = '[[raise]]\nfinding = "cpu-only-build"\nreason = "jobs here train"\n'
    made = checked(machine("hosts/cpu-only-torch.json"), policy)
    assert (made.class_, made.verdict.status, code(made)) == (OURS, Health.BROKEN, True)
    assert made.findings[0].detail.startswith("Raised by the policy: jobs here train")
    ended = checked(machine("hosts/cpu-only-torch.json"), policy + "until = 2026-11-20\n")
    assert ended.class_ is DEGRADED
    both = checked(machine("hosts/cpu-only-torch.json"), policy + IGNORE.format(finding="cpu-*"))
    assert both.class_ is OK
    sick = machine("hosts/module-mismatch-update.json")
    assert {one.id for one in sick.findings if one.caused_by} >= {"nvml-init-failed"}
    follow = checked(sick, policy.replace("cpu-only-build", "nvml-init-failed"))
    assert (follow.verdict, follow.findings) == (sick.verdict, sick.findings)


def test_notes_about_what_was_not_seen_can_be_ignored_and_then_the_machine_is_healthy() -> None:
    facts = merged(GOOD, seen("libcuda", status="unknown"), unseen=[Unseen(what="libcuda", why="it hung")])
    assert checked(facts).class_ is UNKNOWN
    made = checked(facts, IGNORE.format(finding="component-not-seen"))
    assert made.verdict.status in {Health.HEALTHY, Health.UNKNOWN}


def test_what_is_left_after_ignoring_decides_the_verdict() -> None:
    bare = merged(healthy(torch()), seen("pci-display"), seen("gpu"), seen("libcuda"), drop=["nvml", "nvidia.ko"])
    hurt = replace(report(bare), findings=(replace(LOW, id="gpu-ecc-error", severity=Severity.ERROR),))
    hurt = replace(hurt, verdict=replace(hurt.verdict, status=Health.BROKEN))
    assert checked(hurt, IGNORE.format(finding="gpu-ecc-error")).verdict.status is Health.NO_GPU
    lost = replace(hurt, not_seen=(Unseen(what="a-rule", why="its rule failed", enable_by=engine.REPORT_IT),))
    assert checked(lost, IGNORE.format(finding="gpu-ecc-error")).verdict.status is Health.UNKNOWN
    jetson = merged(healthy(torch()), seen("pci-display"), seen("gpu"), drop=["nvml", "nvidia.ko"])
    whole = report(jetson)
    hurt = replace(whole, findings=(*whole.findings, replace(LOW, id="gpu-ecc-error", severity=Severity.ERROR)))
    assert checked(hurt, IGNORE.format(finding="gpu-ecc-error")).verdict.status is whole.verdict.status
    sick = report(healthy(torch()))
    error, warning = replace(LOW, id="gpu-ecc-error", severity=Severity.ERROR), replace(LOW, id="gpu-overheat")
    unseen = replace(LOW, id="component-not-seen", severity=Severity.UNKNOWN)
    broken = replace(sick.verdict, status=Health.BROKEN)
    for rest, verdict in (((), Health.HEALTHY), ((warning,), Health.DEGRADED), ((warning, unseen), Health.UNKNOWN)):
        made = replace(sick, findings=(error, *rest), verdict=broken)
        assert checked(made, IGNORE.format(finding="gpu-ecc-error")).verdict.status is verdict
