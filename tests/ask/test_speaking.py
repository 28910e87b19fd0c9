"""A configuration that no contract covers is never called OK: other vendors' GPUs, unrelated facts, a driver branch."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as some

from gpustack.ask.releases import FIND, candidates
from gpustack.errors import UsageError
from gpustack.matrix.subjects import amd_intel, drivers
from gpustack.model.matrix_answer import Compatibility
from tests.ask.questions import MATRIX, judged, plan, verdict, why

WORKS = {Compatibility.COMPATIBLE, Compatibility.LIMITED}
SUBJECTS = tuple(
    f"{component}=={one.version}"
    for component in FIND
    for found in (candidates(MATRIX, component),)
    for one in (*found[:: max(1, len(found) // 4)], found[-1])
)
AMD = tuple(one.gfx for one in amd_intel.targets(MATRIX))
BRANCHES = tuple(one for one in drivers.branches(MATRIX) if one.last)
OF_NVIDIA = ("cuda-toolkit", "nvidia-driver", "cudnn", "nccl", "tensorrt", "tensorflow", "jax", "vllm")
GIVEN = {
    "driver": "570.133.20",
    "gpu": "H100",
    "python": "3.12",
    "glibc": "2.35",
    "cudnn": "9.10.2",
    "gcc": "13",
    "clang": "18",
    "kernel": "6.8.0-50-generic",
    "kernel_module": "open",
    "os": "windows",
}


@settings(max_examples=30)
@drawn(subject=some.sampled_from(SUBJECTS), gpu=some.sampled_from(AMD))
def test_nothing_of_nvidia_works_with_a_gpu_of_amd(subject: str, gpu: str) -> None:
    answer = judged(subject, gpu=gpu)
    assert answer.verdict not in WORKS
    if subject.partition("==")[0] in OF_NVIDIA:
        assert answer.verdict is Compatibility.INCOMPATIBLE


@drawn(arch=some.sampled_from(sorted(MATRIX.architectures)), build=some.sampled_from(amd_intel.torch_builds(MATRIX)))
def test_no_build_for_rocm_works_with_a_gpu_of_nvidia(arch: object, build: amd_intel.TorchRocmBuild) -> None:
    assert verdict(f"torch=={build.torch}+rocm{build.rocm}", gpu=str(arch)) not in {one.value for one in WORKS}


@settings(max_examples=30)
@drawn(
    branch=some.sampled_from(BRANCHES), other=some.sampled_from(["torch==2.7.1+cu128", "cuda==12.4", "cudnn==9.10.2"])
)
def test_a_branch_as_a_subject_is_the_branch_behind_the_option(branch: drivers.Branch, other: str) -> None:
    by_option = why(other, driver=str(branch.number))
    by_subject = why(other, f"driver=={branch.number}")
    assert (by_option.verdict, by_option.reasons) == (by_subject.verdict, by_subject.reasons)
    assert by_option.alternatives == by_subject.alternatives
    assert verdict(f"driver=={branch.number}", gpu="sm_86") == verdict(f"driver=={branch.last}", gpu="sm_86")


@drawn(subject=some.sampled_from(SUBJECTS), names=some.sets(some.sampled_from(sorted(GIVEN)), min_size=1, max_size=4))
def test_what_works_has_a_reason_for_all_that_was_given(subject: str, names: set[str]) -> None:
    """A fact that does not change the reasons is not covered by any of them."""
    said = {name: GIVEN[name] for name in names}
    try:
        answer = judged(subject, **said)
    except UsageError:
        return
    if answer.verdict not in WORKS:
        return
    for name in names:
        fewer = judged(subject, **{other: text for other, text in said.items() if other != name})
        assert {one.text for one in answer.reasons} != {one.text for one in fewer.reasons}, name


@pytest.mark.parametrize("name", ["driver", "kernel_module", "cudnn"])
def test_a_build_for_the_cpu_has_no_use_of_a_gpu_s_things_and_says_so(name: str) -> None:
    answer = why("torch==2.7.1+cpu", **{name: GIVEN[name]})
    assert answer.verdict is Compatibility.COMPATIBLE
    assert "computes on the CPU" in answer.reasons[0].text


@settings(max_examples=10)
@drawn(subject=some.sampled_from(SUBJECTS), names=some.sets(some.sampled_from(sorted(GIVEN)), min_size=1, max_size=3))
def test_plan_agrees_with_why(subject: str, names: set[str]) -> None:
    said = {name: GIVEN[name] for name in names}
    try:
        asked, planned = why(subject, **said), plan(subject, **said)
    except UsageError:
        return
    assert (asked.verdict, asked.reasons) == (planned.verdict, planned.reasons)
    assert all(one.verdict in WORKS for one in planned.alternatives)


def test_a_name_of_a_gpu_is_a_subject_and_a_name_of_a_component_is_none() -> None:
    assert why("H100", driver="550.54.15").meant == "gpu H100"
    assert why("RTX 4090", driver="550.54.15").meant == "gpu RTX 4090"
    assert why("RX 7900 XTX", driver="550.54.15").verdict is Compatibility.INCOMPATIBLE
    assert why("nvidia==550.54.15", gpu="H100").meant == "nvidia-driver 550.54.15"
