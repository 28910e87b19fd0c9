"""Intel's GPUs judged from facts: what is wrong with a card, and what is not a fault in an integrated GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Health, Kept, Severity
from tests.build import PYTHON, found, healthy, ids, machine, merged, pci, report, roots, seen, torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.model.facts import Component, Facts

CARD, INSIDE = "0000:03:00.0", "0000:00:02.0"
NODE = {
    "path": "/dev/dri/renderD128",
    "exists": True,
    "readable": True,
    "writable": True,
    "group": "render",
    "gid": 105,
}
SHUT = {**NODE, "readable": False, "writable": False}
DEVICE = {
    "kind": "gpu",
    "name": "Intel(R) Arc(TM) A770 Graphics",
    "pci": CARD,
    "xe_cores": 32,
    "memory_bytes": 17 << 30,
}
LEVEL_ZERO = seen("level-zero", {"key": "z", "version": "1.28.2", "ze_init": 0, "drivers": [{"devices": [DEVICE]}]})
EMPTY = seen("level-zero", {"key": "z", "version": "1.28.2", "ze_init": 0x78000001, "drivers": []})
HALF = {"key": "/l/libze_intel_gpu.so.1", "kind": "level-zero", "legacy": False, "version": "26.05.37020.3"}
RUNTIME = seen("intel-compute-runtime", HALF)
NO_RUNTIME = seen("intel-compute-runtime")
XPU = {
    "accelerator": "xpu",
    "pins": {"intel-sycl-rt": "2025.3.1"},
    "installed": {"intel-sycl-rt": "2025.3.1"},
    "search": {"libsycl.so.8": [{"step": "RUNPATH", "path": "/v/lib/libsycl.so.8"}]},
}


def card(at: str = CARD, device: str = "0x56a0", **facts: object) -> dict[str, object]:
    """Return one Intel GPU as the probe reports it."""
    common = {"key": at, "pci": at, "device_id": device, "driver": "i915", "integrated": at == INSIDE, "nodes": [NODE]}
    return {**common, "link": None, "clocks": [], **facts}


def bus(at: str = CARD, device: str = "0x56a0", **facts: object) -> dict[str, object]:
    return pci("i915", device, at, "intel", **{"class": "0x030000", **facts})


def arc(*more: Component, **facts: object) -> Facts:
    """Return a machine whose only GPU is an Arc A770, healthy except for what is given."""
    parts = (
        seen("pci-display", bus()),
        seen("intel-gpu", {**card(), **facts}),
        LEVEL_ZERO,
        RUNTIME,
        seen("libcuda"),
    )
    return merged(machine(*parts, pythons=[PYTHON]), *more)


def xpu(**facts: object) -> Component:
    return torch("2.11.0+xpu", "xpu", None, **{**XPU, **facts})


def test_a_healthy_card_is_healthy_and_its_framework_works() -> None:
    made = report(arc(xpu()))
    assert made.verdict.status is Health.HEALTHY
    assert made.verdict.works == {"pytorch": True}
    assert {one.status for one in made.contracts} == {Kept.OK}
    assert "gpu-stack-not-examined" not in ids(arc())


def test_a_card_is_named_by_level_zero_or_by_the_matrix() -> None:
    (gpu,) = next(one for one in report(arc()).components if one.id == "intel-gpu").instances
    assert gpu.facts["name"] == DEVICE["name"]
    assert (gpu.facts["xe_cores"], gpu.facts["memory_bytes"], gpu.facts["platform"]) == (32, 17 << 30, "Alchemist")
    (gpu,) = next(one for one in report(arc(EMPTY)).components if one.id == "intel-gpu").instances
    assert gpu.facts["name"] == "Intel Arc A770 Graphics"
    assert "xe_cores" not in gpu.facts


@pytest.mark.parametrize(
    ("parts", "severity", "name"),
    [
        ((seen("level-zero"), NO_RUNTIME), Severity.WARNING, "libze_intel_gpu.so.1"),
        ((EMPTY, NO_RUNTIME), Severity.WARNING, "libze_intel_gpu.so.1"),
        ((seen("level-zero"), RUNTIME), Severity.WARNING, "libze_loader.so.1"),
        ((EMPTY, seen("intel-compute-runtime", {**HALF, "kind": "opencl"}), xpu()), Severity.ERROR, "libze_intel_gpu"),
    ],
)
def test_a_card_without_a_half_of_level_zero(parts: tuple[Component, ...], severity: Severity, name: str) -> None:
    finding = found(arc(*parts), "intel-level-zero-missing")
    assert finding is not None
    assert finding.severity is severity
    assert name in finding.title
    assert "Arc A770" in finding.title
    assert finding.fix is not None


def test_what_is_there_but_lists_nothing_is_not_called_missing() -> None:
    assert found(arc(EMPTY), "intel-level-zero-missing") is None
    assert found(arc(seen("level-zero"), drop_runtime()), "intel-level-zero-missing") is None


def drop_runtime() -> Component:
    """Return a runtime that could not be checked."""
    return seen("intel-compute-runtime", status="unknown", reason="no time")


def test_a_gpu_in_a_processor_is_not_a_reason_for_a_fault() -> None:
    parts = (seen("pci-display", bus(INSIDE, "0x9a49")), seen("intel-gpu", card(INSIDE, "0x9a49", nodes=[SHUT])))
    facts = machine(*parts, seen("level-zero"), NO_RUNTIME, seen("libcuda"), torch("2.11.0", "cpu", None))
    assert report(facts).verdict.status is Health.HEALTHY
    assert roots(facts) == ()
    wanted = merged(facts, xpu(), seen("intel-gpu", card(INSIDE, "0x9a49")))
    assert roots(wanted) == ("intel-level-zero-missing",)


def test_a_gpu_in_the_processor_beside_an_nvidia_gpu_stays_quiet() -> None:
    both = seen("pci-display", pci(), bus(INSIDE, "0x9a49"))
    facts = healthy(both, seen("intel-gpu", card(INSIDE, "0x9a49", nodes=[SHUT])), seen("level-zero"), NO_RUNTIME)
    made = report(merged(facts, torch()))
    assert made.verdict.status is Health.HEALTHY
    assert made.findings == ()


def test_an_npu_is_not_a_gpu() -> None:
    unit = bus("0000:00:0b.0", "0x7d1d", **{"class": "0x120000"})
    facts = machine(seen("pci-display", unit), seen("intel-gpu"))
    assert report(facts).verdict.status is Health.NO_GPU
    assert ids(facts) == set()


def test_a_user_outside_the_nodes_group() -> None:
    facts = arc(EMPTY, nodes=[SHUT], login={"groups": [], "account_groups": []})
    finding = found(facts, "user-not-in-render-group")
    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert "/dev/dri/renderD128" in finding.title
    assert "render" in finding.title
    assert roots(facts) == ("user-not-in-render-group",)
    waiting = found(arc(nodes=[SHUT], login={"groups": [], "account_groups": ["render"]}), "user-not-in-render-group")
    assert waiting is not None
    assert waiting.fix is not None
    assert waiting.fix.commands == ("newgrp render",)
    assert found(arc(nodes=[{**SHUT, "exists": False}]), "user-not-in-render-group") is None


@pytest.mark.parametrize(("version", "build"), [("2.11.0", "cpu"), ("2.11.0+cu130", "cu130")])
def test_a_torch_for_others_beside_a_card(version: str, build: str) -> None:
    finding = found(arc(torch(version, build, None)), "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None
    assert "/whl/xpu" in finding.fix.commands[0]
    assert found(arc(xpu()), "cpu-only-build") is None


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"kind": "boot", "words": "Survivability mode type: Boot\nPostcode Info: 0x1 - 0x2"}, "Postcode Info"),
        ({"kind": None, "words": None, "unread": "denied"}, "Only root"),
    ],
)
def test_a_card_in_survivability_mode(held: dict[str, object], words: str) -> None:
    facts = arc(driver="xe", device="0xe20b", survivability=held, nodes=[])
    finding = found(facts, "xe-survivability-mode")
    assert finding is not None
    assert (finding.severity, finding.instance) == (Severity.ERROR, CARD)
    assert words in finding.detail
    assert roots(facts) == ("xe-survivability-mode",)
    assert found(arc(survivability=None), "xe-survivability-mode") is None


def test_oneapi_that_is_installed_and_not_set_up() -> None:
    root = {"key": "/opt/intel/oneapi", "path": "/opt/intel/oneapi", "script": True, "variables": {}}
    lost: dict[str, object] = {"search": {"libsycl.so.8": []}, "installed": {}}
    facts = arc(seen("oneapi", {**root, "on_library_path": []}), xpu(**lost))
    finding = found(facts, "oneapi-env-not-sourced")
    assert finding is not None
    assert "libsycl.so.8" in finding.title
    assert finding.fix is not None
    assert finding.fix.commands == ("source /opt/intel/oneapi/setvars.sh",)
    set_up = seen("oneapi", {**root, "on_library_path": ["/opt/intel/oneapi/compiler/2025.3/lib"]})
    assert found(arc(set_up, xpu(**lost)), "oneapi-env-not-sourced") is None
    assert found(arc(seen("oneapi"), xpu(**lost)), "oneapi-env-not-sourced") is None
    assert found(arc(seen("oneapi", {**root, "on_library_path": []}), xpu()), "oneapi-env-not-sourced") is None


def test_garbage_in_a_gpus_facts_is_not_a_crash() -> None:
    facts = arc(device_id="0xzz", nodes=["x", None], survivability="yes", link=3, memory_bytes="much")
    assert report(facts).verdict.status is Health.HEALTHY
    odd = seen("level-zero", {"key": "z", "ze_init": 0, "drivers": [3, {"devices": "none"}, {"devices": [None]}]})
    assert report(arc(odd)).verdict.status is Health.HEALTHY


# Contracts.


def kept(facts: Facts, kind: str) -> list[tuple[str, Kept]]:
    return [(one.found or "", one.status) for one in report(facts).contracts if one.kind == kind]


def test_a_small_window_breaks_xe_and_limits_i915() -> None:
    small: dict[str, object] = {"memory_bytes": 16 << 30, "memory_window_bytes": 256 << 20}
    assert kept(arc(driver="xe", **small), "window") == [("a window of 0.25 GiB", Kept.BROKEN)]
    assert kept(arc(**small), "window") == [("a window of 0.25 GiB", Kept.LIMITED)]
    assert kept(arc(**{**small, "memory_window_bytes": 16 << 30}), "window") == [("a window of 16.00 GiB", Kept.OK)]
    assert kept(arc(EMPTY), "window") == []


def test_the_runtime_of_an_old_platform_does_not_serve_a_new_card() -> None:
    legacy = seen("intel-compute-runtime", {**HALF, "legacy": True, "version": None, "build": "30872"})
    assert kept(arc(legacy), "platform") == [("compute runtime build 30872", Kept.BROKEN)]
    assert kept(arc(), "platform") == [("compute runtime 26.05.37020.3", Kept.OK)]


def test_another_sycl_runtime_than_the_pinned_one() -> None:
    other = xpu(installed={"intel-sycl-rt": "2026.0.0"}, search={"libsycl.so.8": []})
    assert kept(arc(other), "library") == [("intel-sycl-rt 2026.0.0", Kept.BROKEN)]
    assert kept(arc(other), "loader") == [("no such file", Kept.BROKEN)]
    row = next(one.row for one in report(arc(xpu())).contracts if one.kind == "library")
    assert row is not None


def test_a_build_whose_gpu_level_zero_does_not_list_does_not_work() -> None:
    assert kept(arc(EMPTY, xpu()), "architecture") == [("no GPU that Level Zero lists", Kept.BROKEN)]
    assert report(arc(EMPTY, xpu())).verdict.works == {"pytorch": False}
    assert kept(arc(xpu()), "module") == [("i915", Kept.OK)]


def test_a_node_that_was_not_queried_is_not_shut() -> None:
    unasked = {**NODE, "readable": None, "writable": None}
    for nodes, told in (([unasked], False), ([SHUT], True)):
        facts = arc(xpu(), nodes=nodes)
        assert ("user-not-in-render-group" in ids(facts)) is told


# Drivers that are registered but missing.


def icds(component: str, *rows: Mapping[str, object], **facts: object) -> Facts:
    return healthy(seen(component, {"key": "0", "version": "1", "icds": list(rows), **facts}))


GONE = {"file": "/etc/OpenCL/vendors/intel.icd", "library": "/l/libigdrcl.so", "path": None, "error": None}


@pytest.mark.parametrize("component", ["opencl", "vulkan"])
def test_a_registered_driver_that_is_not_there_is_reported_and_takes_nothing_from_cuda(component: str) -> None:
    finding = found(icds(component, GONE), f"{component}-icd-broken")
    assert finding is not None
    assert finding.severity is Severity.INFO
    own = found(icds(component, {**GONE, "library": "libnvidia-opencl.so.1"}), f"{component}-icd-broken")
    assert own is not None
    assert own.severity is (Severity.WARNING if component == "opencl" else Severity.INFO)
    assert finding.instance == GONE["file"]
    assert "/l/libigdrcl.so" in finding.title
    assert finding.because[0].value == "/l/libigdrcl.so"
    well = {**GONE, "path": "/l/libigdrcl.so"}
    for other in (well, {**GONE, "library": None}, {**GONE, "error": "denied"}):
        assert found(icds(component, other), f"{component}-icd-broken") is None


def test_manifests_for_32_bit_programs_and_files_without_a_loader_are_no_fault() -> None:
    for other in ({**GONE, "bits": "32"}, {**GONE, "file": "/usr/share/vulkan/icd.d/radeon_icd.i686.json"}):
        assert found(icds("vulkan", other), "vulkan-icd-broken") is None
    assert found(icds("opencl", GONE, status="absent"), "opencl-icd-broken") is None


def test_a_driver_named_by_a_variable_is_taken_out_of_it() -> None:
    finding = found(icds("opencl", {**GONE, "file": None}), "opencl-icd-broken")
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.commands == ("unset OCL_ICD_FILENAMES",)
