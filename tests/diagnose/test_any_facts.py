"""Any facts at all are judged: without raising, the same in any order, and unknown components change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.facts import (
    Component,
    Environment,
    Facts,
    Host,
    Instance,
    JsonValue,
    Layer,
    Message,
    Status,
)
from gpustack.model.report import Health, Purpose, Severity
from tests.build import (
    PYTHON,
    driver,
    healthy,
    jax,
    libcuda,
    machine,
    merged,
    module,
    nvml_error,
    onnxruntime,
    pci,
    report,
    seen,
    torch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy


def listed(text: str) -> list[str]:
    return text.split()


NAMES = listed("""
    linux-kernel kernel-headers dkms kernel-log pci-display nvidia.ko nvidia-uvm.ko nvidia-driver nvml libcuda gpu
    python pytorch jax onnxruntime cudnn cuda-toolkit cuda-core cuda-bindings libnvidia-ml nvlink cublas nccl other
    packages limits iommu amd-gpu environment user tensorflow vllm system-packages gcc nccl dkms
""")
FACTS = listed("""
    version release loaded version_loaded version_on_disk flavour nodes competitors xids nvrm module_errors vendor
    device_id class driver link bridges code error cu_init driver_cuda devices stub_on_path visible kind copies
    gpu_count cuda_version pci uuid name cc ecc remap mig throttle recovery_action fabric cuda accelerator archs
    search pins exercise jaxlib plugins distributions state module log_tail for_running_kernel mixed owner glibc
    secure_boot os_id vermagic libcuda libnvidia_ml in_use readable blacklisted signer text
    overwritten owners fits there linker lacking by newest requires note drivers seconds sxids iommu_faults gpus bridges
    acs domain active shm_bytes memlock_bytes rdma may_lock persistence retired repair temperature gpu_c slowdown_c
""")
INSIDE = listed("""
    libcudnn.so.9 step real path loaded ran ok device mask width max_width reason pending enabled instances
""")
WORDS = listed("""
    nvidia nouveau vfio-pci amd 0x2335 0x1b82 0x030200 open proprietary 580.95.05 570.1 13.0.1 9.0 sm_90 compute_80
    cuda cpu cu130 cuda12 2.11.0+cu130 0000:01:00.0 compat LD_LIBRARY_PATH /a/libcudnn.so.9 ubuntu in-progress
    failed -1 GPU-0 onnxruntime-gpu ² 1.² ٣.٤
""")
ENDLESS = "9" * 5000
WORDS += [
    ENDLESS,
    f"{ENDLESS}.1",
    f"1.{ENDLESS}",
    f"libcudnn.so.{ENDLESS}",
    f"cu{ENDLESS}",
    f"==1.{ENDLESS}",
    f"sm_{ENDLESS}",
]
CODES = (15, 16, 18, 34, 48, 79, 119, 802, 803, 804, 999)
TEXTS = st.sampled_from(WORDS) | st.text(max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-5, 20000) | st.sampled_from(CODES) | TEXTS
KEYS = st.sampled_from((*FACTS, *INSIDE))


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
VALUES = st.sampled_from(
    [*WORDS, "12.4", "450.80", "libcudnn.so.8", "libcudart.so.13", "ncclMemFree", "gfx1031", "3.11"]
)

PATTERNS = [(one, sorted(one.names) or ["code"]) for one in patterns(Matrix())]


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Return a message of a known kind, with some of its values, whatever they are."""
    pattern, names = draw(st.sampled_from(PATTERNS))
    named = draw(st.dictionaries(st.sampled_from(names), VALUES | TEXTS))
    return Message(kind=pattern.kind, line=draw(TEXTS), origin="a.txt", values={**pattern.values, **named})


MACHINES = st.builds(
    Facts,
    taken=st.sampled_from(["", "2026-11-21T00:00:00Z"]),
    messages=st.lists(messages(), max_size=4).map(tuple),
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
def test_facts_that_are_nobodys_change_no_finding(base: Facts, others: list[Component]) -> None:
    more = replace(base, components=(*base.components, *others))
    assert report(more).findings == report(base).findings
    assert report(more).verdict == report(base).verdict
