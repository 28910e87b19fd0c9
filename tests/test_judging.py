"""The judge: one verdict, causes before consequences, and the same answer to the same facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack.model.facts import Component, Environment, Facts, Host, Instance, JsonValue, Layer, Status
from gpustack.model.report import Health, Kept, Purpose, Severity
from tests.build import (
    PYTHON,
    driver,
    healthy,
    ids,
    jax,
    kernel,
    libcuda,
    log,
    machine,
    merged,
    module,
    nvml,
    nvml_error,
    onnxruntime,
    pci,
    python,
    report,
    roots,
    seen,
    torch,
    uvm,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

RAN = {"ran": True, "ok": True, "device": "cuda:0"}


def test_a_machine_where_all_is_well_is_healthy() -> None:
    made = report(healthy(torch(), jax(), onnxruntime()))
    assert made.verdict.status is Health.HEALTHY
    assert made.verdict.root_causes == ()
    assert made.verdict.works == {"pytorch": True, "jax": True, "onnxruntime": False}
    assert {contract.status for contract in made.contracts} == {Kept.OK}
    assert made.tool.name == "gpustack"
    assert made.tool.matrix_date == "2026-11-21"


def test_what_weighs_on_a_verdict() -> None:
    assert report(healthy(torch("2.11.0", "cpu", None))).verdict.status is Health.DEGRADED
    assert report(healthy(torch(), libcuda(init=802))).verdict.status is Health.BROKEN
    assert report(healthy(seen("nvml", reason="gave no answer", status="failed"))).verdict.status is Health.UNKNOWN
    assert report(machine(seen("pci-display"))).verdict.status is Health.NO_GPU
    assert report(machine()).verdict.status is Health.UNKNOWN


def test_a_fault_is_a_fault_even_where_something_else_was_not_seen() -> None:
    facts = healthy(torch(), libcuda(init=802), seen("pci-display", reason="x", status="failed"))
    assert report(facts).verdict.status is Health.BROKEN


def test_nothing_that_shows_the_driver_at_work_is_not_health() -> None:
    assert report(machine(seen("pci-display", pci()), module(), driver())).verdict.status is Health.UNKNOWN
    assert report(machine(seen("pci-display", pci()), libcuda())).verdict.status is Health.HEALTHY
    ran = machine(seen("pci-display", pci()), module(), driver(), torch(exercise=RAN))
    assert report(ran).verdict.status is Health.HEALTHY


def test_gpus_that_are_all_held_for_virtual_machines_are_as_they_should_be() -> None:
    held = machine(kernel(), seen("pci-display", pci("vfio-pci")), module(None, None), driver(None), seen("nvml"))
    assert report(held).verdict.status is Health.HEALTHY
    assert ids(held) == {"gpu-passed-through"}


def test_no_gpu_is_no_fault_and_needs_a_look_at_the_bus() -> None:
    bare = (kernel(), module(None, None), driver(None), seen("nvml"), seen("libcuda"), python(), torch())
    assert report(machine(seen("pci-display"), *bare)).verdict.status is Health.NO_GPU
    assert ids(machine(seen("pci-display"), *bare)) == set()
    blind = machine(seen("pci-display", reason="sysfs is not mounted", status="failed"), *bare)
    assert report(blind).verdict.status is Health.UNKNOWN
    assert report(machine(*bare)).verdict.status is Health.UNKNOWN


def test_roots_are_ordered_by_weight_then_by_layer() -> None:
    throttled = {"mask": 0x40, "reasons": []}
    hot = seen("gpu", {**_gpu_facts(), "throttle": throttled})
    facts = healthy(hot, torch(archs=["sm_75"]), libcuda(visible="7"))
    assert roots(facts) == ("arch-not-in-build", "cuda-visible-devices-invalid", "gpu-overheat")


def _gpu_facts() -> dict[str, object]:
    copy = next(one for one in healthy().components if one.id == "gpu").instances[0]
    return {**copy.facts, "key": copy.key}


def test_a_consequence_has_a_cause_and_no_advice() -> None:
    made = report(
        healthy(torch(), module("570.133.07", "580.95.05"), nvml_error(18, "MISMATCH"), libcuda(init=803), seen("gpu"))
    )
    by_key = {finding.key: finding for finding in made.findings}
    for finding in made.findings:
        if finding.caused_by:
            assert finding.caused_by in by_key
            assert finding.fix is None
            assert finding.key not in made.verdict.root_keys
    assert made.verdict.root_keys == ("driver-library-mismatch",)


def test_each_root_is_named_once_and_each_key_too() -> None:
    two = seen("pci-display", pci("nouveau", "0x1db6"), pci("nouveau", "0x1db6", "0000:02:00.0"))
    missing = healthy(
        two, module(None, None), driver(None), seen("nvml"), seen("libcuda"), seen("gpu"), uvm(loaded=False)
    )
    verdict = report(missing).verdict
    assert verdict.root_causes == ("nvidia-driver-missing",)
    lost = log(xids=[{"pci": f"0000:0{n}:00.0", "code": 79, "text": ""} for n in (1, 2)])
    verdict = report(merged(healthy(lost), seen("gpu"))).verdict
    assert verdict.root_causes == ("gpu-fell-off-bus",)
    assert len(verdict.root_keys) == 2


def test_what_works_is_told_for_each_python_and_the_chosen_one() -> None:
    other = "/opt/other/bin/python"
    facts = healthy(
        seen(
            "pytorch",
            {
                "version": "2.11.0+cu130",
                "build": "cu130",
                "environment": PYTHON,
                "cuda": "13.0",
                "accelerator": "cuda",
                "archs": ["sm_90"],
            },
            {"version": "2.11.0+cpu", "build": "cpu", "environment": other, "accelerator": "cpu"},
        )
    )
    both = replace(
        facts, environments=(Environment(python=PYTHON, kind="venv"), Environment(python=other, kind="venv"))
    )
    made = report(both)
    assert [one.works for one in made.environments] == [{"pytorch": True}, {"pytorch": False}]
    assert made.verdict.works == {"pytorch": True}
    assert report(replace(facts, environments=())).verdict.works == {"pytorch": False}


@pytest.mark.parametrize(
    ("facts", "works"),
    [
        (healthy(torch(exercise=RAN)), True),
        (healthy(torch(exercise={"ran": True, "ok": False, "device": "cuda:0"})), False),
        (healthy(torch(exercise=RAN), libcuda(init=802)), True),
        (healthy(torch(), libcuda(init=802)), False),
        (healthy(torch(archs=["sm_75"])), False),
        (healthy(torch(archs=[])), None),
        (healthy(torch(), seen("libcuda", reason="hung", status="failed")), None),
        (healthy(torch(status="failed")), False),
        (machine(seen("pci-display"), torch()), None),
        (machine(seen("pci-display"), torch(exercise={"ran": True, "ok": True, "device": "cpu"})), True),
        (machine(seen("pci-display"), torch(exercise={"ran": True, "ok": False, "device": "cpu"})), None),
        (machine(torch()), None),
    ],
)
def test_a_framework_works_when_it_is_proven_or_all_it_needs_is_there(facts: Facts, works: bool | None) -> None:  # noqa: FBT001 - a row
    assert report(facts).verdict.works == {"pytorch": works}


def test_contracts_are_drawn_between_what_was_seen() -> None:
    kinds = {(one.from_, one.to, one.kind) for one in report(healthy(torch())).contracts}
    assert kinds == {
        ("nvidia-uvm.ko", "nvidia.ko", "release"),
        ("libcuda", "nvidia.ko", "release"),
        ("libnvidia-ml", "nvidia.ko", "release"),
        ("gpu", "nvidia-driver", "branch"),
        ("gpu", "nvidia.ko", "flavour"),
        ("pytorch", "nvidia-driver", "cuda"),
        ("pytorch", "gpu", "architecture"),
        ("pytorch", "python", "python"),
        ("pytorch", "python", "glibc"),
    }
    assert report(machine()).contracts == ()


def test_contracts_that_are_broken_say_what_is_needed_and_what_was_found() -> None:
    headers = seen("kernel-headers")
    dkms = seen("dkms", {"key": "nvidia", "module": "nvidia", "state": "added"})
    made = report(healthy(dkms, headers, module(vermagic="6.5.0-1 SMP"), python("3.9.1", "2.17"), torch()))
    broken = {one.kind: (one.needs, one.found) for one in made.contracts if one.status is not Kept.OK}
    assert broken["headers"] == ("6.8.0-50-generic", "none")
    assert broken["vermagic"] == ("6.5.0-1", "6.8.0-50-generic")
    assert broken["glibc"] == ("glibc 2.28 or newer", "glibc 2.17")
    assert broken["python"][1] == "Python 3.9.1"


def test_libraries_of_another_release_than_the_module_break_their_contract() -> None:
    facts = healthy(module("570.133.07"), nvml_error(18, "MISMATCH"), seen("gpu"))
    found = {one.from_: one.status for one in report(facts).contracts if one.kind == "release"}
    assert found["libcuda"] is Kept.BROKEN
    working = {
        one.from_: one.status for one in report(healthy(module("570.133.07"))).contracts if one.kind == "release"
    }
    assert working["libcuda"] is Kept.OK


def test_toolkit_and_bindings_have_contracts_with_the_driver() -> None:
    toolkit = seen("cuda-toolkit", {"key": "/usr/local/cuda", "version": "13.2", "in_use": True})
    bindings = seen("cuda-bindings", {"key": "cuda-bindings", "version": "13.3.1", "environment": PYTHON})
    old = (module("535.183.01"), driver("535.183.01"), nvml("535.183.01", 12020), libcuda(12020, "535.183.01"))
    found = {one.from_: one.status for one in report(healthy(toolkit, bindings, *old)).contracts}
    assert found["cuda-toolkit"] is Kept.BROKEN
    assert found["cuda-bindings"] is Kept.LIMITED
    assert "cuda-toolkit" not in {one.from_ for one in report(machine(seen("pci-display"), toolkit)).contracts}


# Any facts at all.

NAMES = (
    *(
        "linux-kernel",
        "kernel-headers",
        "dkms",
        "kernel-log",
        "pci-display",
        "nvidia.ko",
        "nvidia-uvm.ko",
        "nvidia-driver",
    ),
    *("nvml", "libcuda", "gpu", "python", "pytorch", "jax", "onnxruntime", "cudnn", "cuda-toolkit", "cuda-core"),
    *("cuda-bindings", "libnvidia-ml", "nvlink", "cublas", "nccl", "other"),
)
FACTS = (
    *(
        "version",
        "release",
        "loaded",
        "version_loaded",
        "version_on_disk",
        "flavour",
        "nodes",
        "competitors",
        "xids",
        "nvrm",
    ),
    *(
        "module_errors",
        "vendor",
        "device_id",
        "class",
        "driver",
        "link",
        "bridges",
        "code",
        "error",
        "cu_init",
        "driver_cuda",
    ),
    *(
        "devices",
        "stub_on_path",
        "visible",
        "kind",
        "copies",
        "gpu_count",
        "cuda_version",
        "pci",
        "uuid",
        "name",
        "cc",
        "ecc",
    ),
    *(
        "remap",
        "mig",
        "throttle",
        "recovery_action",
        "fabric",
        "cuda",
        "accelerator",
        "archs",
        "search",
        "pins",
        "exercise",
    ),
    *(
        "jaxlib",
        "plugins",
        "distributions",
        "state",
        "module",
        "log_tail",
        "for_running_kernel",
        "mixed",
        "owner",
        "glibc",
    ),
    *(
        "secure_boot",
        "os_id",
        "vermagic",
        "libcuda",
        "libnvidia_ml",
        "in_use",
        "readable",
        "blacklisted",
        "signer",
        "text",
    ),
)
WORDS = st.sampled_from(
    (
        *(
            "nvidia",
            "nouveau",
            "vfio-pci",
            "amd",
            "0x2335",
            "0x1b82",
            "0x030200",
            "open",
            "proprietary",
            "580.95.05",
            "570.1",
        ),
        *(
            "13.0.1",
            "9.0",
            "sm_90",
            "compute_80",
            "cuda",
            "cpu",
            "cu130",
            "cuda12",
            "2.11.0+cu130",
            "0000:01:00.0",
            "compat",
        ),
        *(
            "LD_LIBRARY_PATH",
            "/a/libcudnn.so.9",
            "ubuntu",
            "in-progress",
            "failed",
            "-1",
            "GPU-0",
            "onnxruntime-gpu",
            "\n",
        ),
    )
)
TEXTS = WORDS | st.text(max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 20000)
    | st.sampled_from([15, 16, 18, 34, 79, 802, 803, 804, 999])
    | TEXTS
)
KEYS = st.sampled_from(
    (*FACTS, "libcudnn.so.9", "step", "real", "path", "loaded", "ran", "ok", "device", "mask", "width", "max_width")
)


def _deeper(inner: SearchStrategy[JsonValue]) -> SearchStrategy[JsonValue]:
    return st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)


ANYTHING: SearchStrategy[JsonValue] = st.recursive(LEAVES, _deeper, max_leaves=5)
HELD: SearchStrategy[Mapping[str, JsonValue]] = st.dictionaries(st.sampled_from(FACTS), ANYTHING, max_size=6)
PYTHONS = st.sampled_from([None, PYTHON, "/other/python"])
INSTANCES = st.builds(
    Instance,
    key=TEXTS.filter(bool),
    version=st.none() | TEXTS,
    build=st.none() | TEXTS,
    path=st.none() | TEXTS,
    environment=PYTHONS,
    status=st.sampled_from(Status),
    facts=HELD,
)
COMPONENTS = st.builds(
    Component,
    id=st.sampled_from(NAMES),
    layer=st.sampled_from(Layer),
    vendor=st.just("any"),
    status=st.sampled_from(Status),
    version=st.none() | TEXTS,
    facts=HELD,
    reason=st.none() | TEXTS,
    instances=st.lists(INSTANCES, max_size=2).map(tuple),
)
MACHINES = st.builds(
    Facts,
    taken=st.just(""),
    host=st.builds(Host, container=st.sampled_from([None, "docker"]), wsl=st.booleans(), kernel=st.none() | TEXTS),
    components=st.lists(COMPONENTS, max_size=6, unique_by=lambda one: one.id).map(tuple),
    environments=st.sampled_from([(), (Environment(python=PYTHON, kind="venv"),)]),
)
BASES = st.sampled_from(
    [
        healthy(torch(), jax(), onnxruntime()),
        healthy(torch(), module("570.133.07"), nvml_error(18, "MISMATCH"), libcuda(init=803)),
        machine(seen("pci-display", pci("nouveau")), module(None, None), driver(None)),
    ]
)


@given(MACHINES, st.sampled_from(Purpose))
@settings(max_examples=100, deadline=None)
def test_any_facts_are_judged_and_the_report_holds_together(facts: Facts, purpose: Purpose) -> None:
    made = report(facts, purpose)
    keys = [finding.key for finding in made.findings]
    assert len(set(keys)) == len(keys)
    at_fault = {f.key for f in made.findings if f.severity in {Severity.ERROR, Severity.WARNING} and not f.caused_by}
    assert set(made.verdict.root_keys) == at_fault
    assert all(finding.caused_by in {None, *keys} and finding.caused_by != finding.key for finding in made.findings)
    assert len(set(made.verdict.root_causes)) == len(made.verdict.root_causes)
    if made.verdict.status is Health.HEALTHY:
        assert not at_fault


@given(BASES, st.lists(COMPONENTS, max_size=3), st.data())
@settings(max_examples=40, deadline=None)
def test_the_same_facts_in_another_order_give_the_same_findings(
    base: Facts, others: list[Component], data: st.DataObject
) -> None:
    facts = merged(base, *others)
    shuffled = replace(facts, components=tuple(data.draw(st.permutations(facts.components))))
    first, second = report(facts), report(shuffled)
    assert first.findings == second.findings
    assert first.verdict == second.verdict
    assert first.contracts == second.contracts
    assert report(facts) == first


@given(
    BASES, st.lists(st.builds(replace, COMPONENTS, id=st.sampled_from(["weather", "flavour", "vulkan"])), max_size=2)
)
@settings(max_examples=20, deadline=None)
def test_facts_that_are_nobodys_change_no_finding(base: Facts, others: list[Component]) -> None:
    more = replace(base, components=(*base.components, *others))
    assert report(more).findings == report(base).findings
    assert report(more).verdict == report(base).verdict
