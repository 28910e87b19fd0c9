"""AMD machines as examined: what is healthy, what is a fault, and what follows from what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.machine.amd import ready
from gpustack.model.report import Health, Kept, Severity
from tests.build import (
    PYTHON,
    found,
    ids,
    jax,
    kernel,
    log,
    machine,
    merged,
    onnxruntime,
    pci,
    python,
    report,
    roots,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts

PCI = "0000:03:00.0"
LIST = ["gfx90a", "gfx942", "gfx1030", "gfx1100"]
CARD = pci("amdgpu", "0x744c", PCI, "amd", vendor_id="0x1002")
BRIDGE = {"pci": "0000:02:00.0", "speed": 16.0, "width": 16, "max_speed": 16.0, "max_width": 16}


def card(gfx: str | None = "gfx1100", at: str = PCI, *, kfd: bool = True, **facts: object) -> dict[str, object]:
    """Return one AMD GPU in good health, as the kernel reports it."""
    common = {"key": at, "pci": at, "gfx": gfx, "kfd": kfd, "integrated": False, "driver": "amdgpu"}
    return {**common, "render": "/dev/dri/renderD128", "name": "Radeon", "ras": {}, "temperature": {}, **facts}


def node(path: str, *, open_: bool = True, exists: bool = True) -> dict[str, object]:
    return {"path": path, "exists": exists, "readable": open_, "writable": open_, "group": "render", "gid": 993}


def module(*, open_: bool = True, version: str | None = None, **facts: object) -> Component:
    """Return the kernel's amdgpu, loaded, with its nodes accessible to this login."""
    nodes = [node("/dev/kfd", open_=open_), node("/dev/dri/renderD128", open_=open_)]
    login = {"root": False, "gids": [1000], "groups": ["render"] if open_ else [], "account_groups": []}
    common = {"loaded": True, "version_loaded": version, "kfd": True, "blacklisted": [], "login": login, "nodes": nodes}
    return seen("amdgpu.ko", {**common, **facts})


def rocm_torch(*archs: str, hip: str = "6.4.43482", **facts: object) -> Component:
    return torch("2.8.0", "rocm6.4", None, hip=hip, accelerator="rocm", archs=list(archs or LIST), **facts)


def amd(*others: Component, gpus: Iterable[dict[str, object]] = ()) -> Facts:
    """Return an ordinary machine with one card and whatever else is named."""
    absent = (seen(name) for name in ("nvidia.ko", "nvidia-driver", "nvml", "libcuda", "gpu"))
    parts = (seen("pci-display", CARD), seen("amd-gpu", *(gpus or [card()])), module(), python())
    return merged(machine(kernel(), log(), *absent, *parts, pythons=[PYTHON]), *others)


@pytest.mark.parametrize("build", [jax("cuda12"), onnxruntime("cuda", cuda="12.4"), torch()])
def test_a_build_for_cuda_is_never_said_to_work_on_a_card_of_amd(build: Component) -> None:
    """The absence of a broken contract proves nothing: the doctor says that it works only where a contract says so."""
    assert report(amd(build)).verdict.works[build.id] is not True


@pytest.mark.parametrize("version", [None, "6.14.14"])
@pytest.mark.parametrize("others", [(), (rocm_torch(),)])
def test_a_card_with_the_kernels_own_module_or_amds_is_healthy(
    others: tuple[Component, ...], version: str | None
) -> None:
    made = report(amd(module(version=version), *others))
    assert (made.verdict.status, made.findings) == (Health.HEALTHY, ())
    assert made.verdict.works == ({"pytorch": True} if others else {})


def test_a_gpu_whose_examination_failed_or_was_never_made_is_still_not_examined() -> None:
    assert "gpu-stack-not-examined" in ids(merged(amd(), drop=["amd-gpu"]))
    assert report(merged(amd(), drop=["amd-gpu"])).verdict.status is Health.UNKNOWN


def test_a_build_without_code_for_the_only_card_is_broken() -> None:
    finding = found(amd(rocm_torch("gfx90a", "gfx942")), "rocm-gfx-unsupported")
    assert finding is not None
    assert (finding.severity, finding.instance) == (Severity.ERROR, f"pytorch:{PYTHON}")
    assert "gfx1100" in finding.title
    assert "gfx90a gfx942" in finding.detail
    assert "arch-not-in-build" not in ids(amd(rocm_torch("gfx90a")))


def test_an_override_to_a_target_with_code_silences_it_and_limits_the_contract() -> None:
    environment = seen("environment", {"variables": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}})
    made = report(amd(rocm_torch("gfx1030"), environment, gpus=[card("gfx1031")]))
    assert made.findings == ()
    assert {one.status for one in made.contracts if one.kind == "architecture"} == {Kept.LIMITED}
    other = seen("environment", {"variables": {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}})
    assert "rocm-gfx-unsupported" in ids(amd(rocm_torch("gfx1030"), other, gpus=[card("gfx1031")]))


def test_an_integrated_gpu_without_code_beside_a_card_that_has_it_is_a_remark() -> None:
    both = [card(), card("gfx1036", "0000:10:00.0", integrated=True, render="/dev/dri/renderD129")]
    made = report(amd(rocm_torch(), gpus=both))
    assert [(one.id, one.severity) for one in made.findings] == [("rocm-gfx-unsupported", Severity.INFO)]
    assert made.verdict.status is Health.HEALTHY
    assert Kept.BROKEN not in {one.status for one in made.contracts}


@pytest.mark.parametrize(("build", "cuda"), [("cpu", None), ("cu130", "13.0")])
def test_a_build_for_other_hardware_beside_a_card_is_said(build: str, cuda: str | None) -> None:
    finding = found(amd(torch("2.11.0", build, cuda)), "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None
    assert any("rocm" in command for command in finding.fix.commands)


def test_an_integrated_gpu_alone_is_not_a_reason_against_a_cpu_build() -> None:
    facts = amd(torch("2.11.0", "cpu", None), gpus=[card("gfx1103", integrated=True)])
    assert report(facts).verdict.status is Health.HEALTHY


def test_a_login_that_may_not_open_the_nodes_is_told_which_group_owns_them() -> None:
    facts = amd(module(open_=False), rocm_torch())
    finding = found(facts, "user-not-in-render-group")
    assert finding is not None
    assert (finding.severity, report(facts).verdict.works) == (Severity.ERROR, {"pytorch": False})
    assert "/dev/kfd" in finding.title
    assert "render" in finding.title
    assert finding.fix is not None
    assert "usermod" in finding.fix.commands[0]


def test_a_group_that_was_given_after_the_login_needs_a_new_login() -> None:
    login = {"root": False, "gids": [1000], "groups": [], "account_groups": ["render"]}
    finding = found(amd(module(open_=False, login=login)), "user-not-in-render-group")
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.commands == ("newgrp render",)


def test_in_a_container_the_groups_number_is_what_helps() -> None:
    facts = amd(module(open_=False))
    finding = found(replace(facts, host=replace(facts.host, container="docker")), "user-not-in-render-group")
    assert finding is not None
    assert finding.fix is not None
    assert "--group-add" in finding.fix.commands[0]


def test_whether_rocm_can_start_rests_on_kfd_and_one_render_node() -> None:
    assert ready(amd()) is True
    assert ready(amd(module(open_=False))) is False
    assert ready(amd(module(nodes=[]))) is None
    gone = [node("/dev/kfd", exists=False), node("/dev/dri/renderD128")]
    assert ready(amd(module(nodes=gone))) is False
    assert ready(amd(gpus=[card(driver="vfio-pci", kfd=False)])) is True
    assert ready(merged(amd(), drop=["amd-gpu"])) is None


@pytest.mark.parametrize(
    ("others", "severity"),
    [((), Severity.WARNING), ((rocm_torch(),), Severity.ERROR)],
)
def test_a_card_that_the_kernel_drives_and_kfd_does_not_list(others: tuple[Component, ...], severity: Severity) -> None:
    finding = found(amd(*others, gpus=[card(None, kfd=False)]), "gpu-unsupported-by-kfd")
    assert finding is not None
    assert finding.severity is severity


def test_a_gpu_outside_kfd_beside_one_that_computes_or_hidden_by_a_container_is_not_a_fault() -> None:
    beside = amd(gpus=[card(), card(None, "0000:10:00.0", kfd=False)])
    assert {one.severity for one in report(beside).findings} == {Severity.INFO}
    hidden = amd(gpus=[card(), card(None, "0000:10:00.0", kfd=False, hidden_nodes=1)])
    assert "gpu-unsupported-by-kfd" not in ids(hidden)


def test_a_kernel_without_kfd_is_named_as_the_cause() -> None:
    finding = found(amd(module(kfd=False, nodes=[]), gpus=[card(None, kfd=False)]), "gpu-unsupported-by-kfd")
    assert finding is not None
    assert "no KFD" in finding.title


def test_a_card_that_no_driver_has_names_the_file_that_keeps_it_out() -> None:
    out = module(loaded=False, nodes=[], kfd=False, blacklisted=["/etc/modprobe.d/no.conf"])
    finding = found(amd(out, gpus=[card(None, kfd=False, driver=None)]), "amdgpu-not-loaded")
    assert finding is not None
    assert "/etc/modprobe.d/no.conf" in finding.detail
    guest = amd(out, gpus=[card(None, kfd=False, driver="vfio-pci")])
    assert "amdgpu-not-loaded" not in ids(guest)


def test_firmware_that_is_missing_and_atomics_that_the_slot_lacks_are_named_from_the_kernels_log() -> None:
    line = "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/navi31_mes.bin failed with error -2"
    said = seen("kernel-log", {"readable": True, "amdgpu": [line]})
    without = found(amd(said, gpus=[card(None, kfd=False, driver=None)]), "amdgpu-not-loaded")
    assert without is not None
    assert "navi31_mes.bin" in without.detail
    skipped = seen("kernel-log", {"readable": True, "amdgpu": ["kfd kfd: amdgpu: skipped device, PCI rejects atomics"]})
    unlisted = found(amd(skipped, gpus=[card(None, kfd=False)]), "gpu-unsupported-by-kfd")
    assert unlisted is not None
    assert "atomics" in unlisted.detail


def test_uncorrectable_errors_are_an_error_and_pages_out_of_use_a_warning() -> None:
    bad = card(ras={"uncorrected": 2, "corrected": 9, "blocks": {"umc": {"ue": 2, "ce": 9}}, "bad_pages": 1})
    assert roots(amd(gpus=[bad])) == ("gpu-ecc-error",)
    finding = found(amd(gpus=[bad]), "gpu-ecc-error")
    assert finding is not None
    assert "umc: 2" in finding.detail
    worn = found(amd(gpus=[card(ras={"uncorrected": 0, "bad_pages": 3})]), "gpu-ecc-error")
    assert worn is not None
    assert worn.severity is Severity.WARNING
    assert ids(amd(gpus=[card(ras={"uncorrected": 0, "corrected": 99, "bad_pages": 0})])) == set()


def test_nodes_that_were_not_queried_are_neither_open_nor_shut() -> None:
    unasked = [{"path": path, "exists": True} for path in ("/dev/kfd", "/dev/dri/renderD128")]
    made = report(amd(rocm_torch(), module(nodes=unasked)))
    assert made.verdict.root_causes == ()
    assert made.verdict.works == {"pytorch": None}
    assert made.verdict.status is Health.UNKNOWN
    unnamed = report(amd(rocm_torch(), gpus=[card(render=None)]))
    assert unnamed.verdict.works == {"pytorch": None}
    assert report(amd(rocm_torch())).verdict.works == {"pytorch": True}


def test_errors_of_a_gpu_in_partitions_are_reported_once() -> None:
    ras = {"uncorrected": 1, "blocks": {}}
    parts = [card("gfx942", ras=ras), card("gfx942", "0000:03:00.1", ras=ras, pci=PCI, partition=True)]
    assert [one.instance for one in report(amd(gpus=parts)).findings if one.id == "gpu-ecc-error"] == [PCI]


def test_heat_at_the_limit_is_a_warning_and_below_it_is_fine() -> None:
    hot = card(temperature={"junction_c": 110.0, "junction_limit_c": 110.0, "edge_c": 80.0, "edge_limit_c": 100.0})
    assert roots(amd(gpus=[hot])) == ("gpu-overheat",)
    warm = card(temperature={"junction_c": 95.0, "junction_limit_c": 110.0, "memory_c": 90.0})
    assert ids(amd(gpus=[warm])) == set()


def test_lanes_that_are_missing_between_the_cards_switch_and_the_slot_are_found() -> None:
    slot = {"pci": "0000:01:00.0", "speed": 2.5, "width": 4, "max_speed": 16.0, "max_width": 16}
    port = {"pci": "0000:00:01.1", "speed": 2.5, "width": 4, "max_speed": 16.0, "max_width": 16}
    narrow = seen("pci-display", {**CARD, "bridges": [BRIDGE, slot, port]})
    finding = found(amd(narrow), "pcie-link-degraded")
    assert finding is not None
    assert "4 of 16" in finding.title


@pytest.mark.parametrize("speed", [2.5, 32.0])
def test_an_idle_link_and_a_slot_with_few_lanes_are_no_fault(speed: float) -> None:
    slot = {"pci": "0000:01:00.0", "speed": speed, "width": 4, "max_speed": 16.0, "max_width": 16}
    port = {"pci": "0000:00:01.1", "speed": speed, "width": 4, "max_speed": 16.0, "max_width": 4}
    assert ids(amd(seen("pci-display", {**CARD, "bridges": [BRIDGE, slot, port]}))) == set()


def test_the_driver_of_amd_is_checked_against_the_rocm_that_is_here() -> None:
    drawn = {}
    for release in ("7.0.0", "6.1.0"):
        facts = amd(module(version="6.14.14"), seen("rocm", {"version": release, "path": "/opt/rocm"}))
        drawn[release] = next(one for one in report(facts).contracts if one.kind == "driver")
    assert (drawn["7.0.0"].status, drawn["6.1.0"].status) == (Kept.OK, Kept.LIMITED)
    assert drawn["7.0.0"].row is not None
    own = amd(seen("rocm", {"version": "7.0.0", "path": "/opt/rocm"}))
    assert "driver" not in {one.kind for one in report(own).contracts}


@pytest.mark.parametrize(
    ("release", "kept"), [("6.3.3", Kept.OK), ("6.2.0", Kept.OK), ("7.0.0", Kept.OK), ("7.9.0", Kept.UNKNOWN)]
)
def test_a_target_is_checked_against_what_rocm_supports(release: str, kept: Kept) -> None:
    facts = amd(seen("rocm", {"version": release, "path": "/opt/rocm"}))
    assert [one.status for one in report(facts).contracts if one.kind == "target"] == [kept]


@pytest.mark.parametrize(
    ("version", "kept"), [("6.4.43482", Kept.OK), ("6.3.42134", Kept.LIMITED), ("7.0.51831", Kept.BROKEN)]
)
def test_a_build_is_checked_against_the_hip_of_its_own_python(version: str, kept: Kept) -> None:
    facts = amd(rocm_torch(), seen("hip", {"version": version, "path": "/x", "environment": PYTHON}))
    assert [one.status for one in report(facts).contracts if one.kind == "library"] == [kept]


def in_container(*others: Component, driver: str | None = "amdgpu", exists: bool = False) -> Facts:
    """Return a machine with one card as a container shows it."""
    shut = module(nodes=[node("/dev/kfd", exists=exists, open_=exists), node("/dev/dri/renderD128", exists=exists)])
    inside = merged(amd(shut, *others, gpus=[card(driver=driver)]), drop=[])
    return replace(inside, host=replace(inside.host, container="docker"))


def test_a_container_with_rocm_and_without_kfd_was_started_without_its_machines_gpu() -> None:
    finding = found(in_container(rocm_torch()), "container-no-gpus-flag")
    assert finding is not None
    assert (finding.severity, finding.instance) == (Severity.ERROR, "amd")
    assert finding.fix is not None
    assert "--device /dev/kfd --device /dev/dri --group-add video" in finding.fix.commands[0]
    assert roots(in_container(rocm_torch()))[0] == "container-no-gpus-flag"


@pytest.mark.parametrize(
    "facts",
    [
        in_container(),
        in_container(rocm_torch(), exists=True),
        in_container(rocm_torch(), driver=None),
        amd(rocm_torch(), module(nodes=[node("/dev/kfd", exists=False)])),
    ],
)
def test_without_rocm_or_with_the_node_or_outside_a_container_it_is_not_said(facts: Facts) -> None:
    assert "container-no-gpus-flag" not in ids(facts)
