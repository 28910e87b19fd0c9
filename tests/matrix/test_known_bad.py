"""A machine has the known-bad combinations that match its versions and GPUs, and no others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import amd_intel, known_bad
from gpustack.matrix.subjects.known_bad import Effect, KnownBad, Proof
from gpustack.model.versions import ComputeCapability
from tests.counting import each

if TYPE_CHECKING:
    from gpustack.matrix.subjects.ranges import VersionRange

MATRIX = Matrix()
ROWS = known_bad.rows(MATRIX)


def _ids(versions: dict[str, str], *capabilities: str, gpus: int = 1, gfx: tuple[str, ...] = ()) -> set[str]:
    found = (ComputeCapability.parse(text) for text in capabilities)
    return {one.id for one in known_bad.matching(MATRIX, versions, [one for one in found if one], gfx, gpus)}


def test_every_combination_is_told_apart_and_says_what_to_do() -> None:
    assert len(ROWS) > 40
    assert len({one.id for one in ROWS}) == len({one.row.text for one in ROWS}) == len(ROWS)
    for one in ROWS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.id)
        assert len(one.what) > 15
        assert len(one.advice) > 10
        assert one.component not in one.partners


def test_every_component_is_a_subject_of_ours_or_a_package() -> None:
    subjects = set(MATRIX.systems)
    named = {name for one in ROWS for name in (one.component, *one.partners)}
    assert all(name in subjects or re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name) for name in named)
    assert {"nvidia-driver", "cublas", "cudnn", "nccl", "pytorch", "linux-kernel", "rocm"} <= named & subjects


@each("one", ROWS, ids=lambda one: one.id)
def test_every_combination_is_one_that_a_machine_can_have_and_needs_all_its_parts(one: KnownBad) -> None:
    machine = known_bad.Machine(
        capabilities=tuple(MATRIX.architectures),
        gfx=tuple(target.gfx for target in amd_intel.targets(MATRIX)),
        gpu_count=8,
        architecture="".join(one.machines),
    )
    versions = {name: _inside(span) for name, span in {one.component: one.versions, **one.partners}.items()}
    assert one.fits(versions, machine)
    for name in versions:
        assert not one.fits({other: version for other, version in versions.items() if other != name}, machine)
    if one.capabilities or one.gfx or one.gpus or one.machines:
        assert not one.fits(versions, known_bad.Machine())


def _inside(span: VersionRange) -> str:
    bounds: list[str] = re.findall(r"\d+(?:\.[0-9a-z]+)*", span.text)
    tried = ("0", *bounds, *(f"{bound}.1" for bound in bounds))
    return next(version for version in tried if span.holds(version))


@pytest.mark.parametrize(
    ("versions", "capability", "wanted"),
    [
        ({"cublas": "12.8.4.1"}, "10.0", "cublas-tensor-memory"),
        ({"cublas": "13.1.0.3"}, "11.0", "cublas-tensor-memory"),
        ({"nvidia-driver": "535.54.03"}, "8.0", "nvml-process-record"),
        ({"nvidia-driver": "535.98"}, "8.0", "nvml-process-functions-gone"),
        ({"cudnn": "9.11.0"}, "7.0", "cudnn-without-volta"),
        ({"cudnn": "9.10.0.56"}, "9.0", "cudnn-9-10-0-enums"),
        ({"pytorch": "2.2.2+cu121", "numpy": "2.0.1"}, "8.6", "torch-numpy-2"),
        ({"nvidia-driver": "595.58.03", "linux-kernel": "6.17.9-300.fc43.x86_64"}, "12.0", "uvm-hmm-null"),
        ({"vllm": "0.11.0"}, "7.0", "vllm-0-11-0-volta"),
        ({"bitsandbytes": "0.44.1", "triton": "3.2.0"}, "8.0", "bitsandbytes-triton-ops"),
    ],
)
def test_a_combination_is_found(versions: dict[str, str], capability: str, wanted: str) -> None:
    assert wanted in _ids(versions, capability)


@pytest.mark.parametrize(
    ("versions", "capability", "other"),
    [
        ({"cublas": "12.8.4.1"}, "9.0", "cublas-tensor-memory"),
        ({"cublas": "13.2.0.1"}, "10.0", "cublas-tensor-memory"),
        ({"cublas": "12.8.4.1"}, "12.0", "cublas-tensor-memory"),
        ({"nvidia-driver": "535.98"}, "8.0", "nvml-process-record"),
        ({"nvidia-driver": "535.104.05"}, "8.0", "nvml-process-functions-gone"),
        ({"cudnn": "9.11.0"}, "7.5", "cudnn-without-volta"),
        ({"cudnn": "9.10.1.4"}, "9.0", "cudnn-9-10-0-enums"),
        ({"pytorch": "2.3.0", "numpy": "2.0.1"}, "8.6", "torch-numpy-2"),
        ({"pytorch": "2.2.2"}, "8.6", "torch-numpy-2"),
        ({"nvidia-driver": "595.58.03"}, "12.0", "uvm-hmm-null"),
        ({"vllm": "0.11.0"}, "8.0", "vllm-0-11-0-volta"),
    ],
)
def test_a_neighbour_of_a_combination_is_fine(versions: dict[str, str], capability: str, other: str) -> None:
    assert other not in _ids(versions, capability)


def test_the_number_of_gpus_counts() -> None:
    versions = {"cudnn": "9.10.0.56", "cublas": "12.9.0.13"}
    assert "cudnn-multi-gpu-matmul" in _ids(versions, "9.0", gpus=2)
    assert "cudnn-multi-gpu-matmul" not in _ids(versions, "9.0", gpus=1)


def test_an_amd_target_counts() -> None:
    assert "gfx1151-cwsr" in _ids({"linux-kernel": "6.17.4"}, gfx=("gfx1151",))
    assert "gfx1151-cwsr" not in _ids({"linux-kernel": "6.17.4"}, gfx=("gfx1100",))
    assert "gfx1151-cwsr" not in _ids({"linux-kernel": "6.18.0"}, gfx=("gfx1151",))
    assert "torch-layer-norm-rdna" in _ids({"pytorch": "2.12.0+rocm7.2"}, gfx=("gfx1036",))


def test_the_machine_counts_where_a_row_asks_for_it() -> None:
    versions = {"nccl": "2.28.3"}
    arm = known_bad.matching(MATRIX, versions, gpu_count=4, architecture="aarch64")
    assert "nccl-arm-lost-slots" in {one.id for one in arm}
    for architecture in ("x86_64", None):
        found = known_bad.matching(MATRIX, versions, gpu_count=4, architecture=architecture)
        assert "nccl-arm-lost-slots" not in {one.id for one in found}


def test_wrong_results_come_first() -> None:
    blackwell = ComputeCapability(10, 0)
    versions = {"cublas": "12.9.0.13", "nccl": "2.29.7", "cudnn": "9.24.0", "nvidia-driver": "595.58.03"}
    found = known_bad.matching(MATRIX, versions, [blackwell], gpu_count=8)
    order = [list(Effect).index(one.effect) for one in found]
    assert order == sorted(order)
    assert len(set(order)) > 1


def test_a_machine_without_versions_has_none() -> None:
    assert known_bad.matching(MATRIX, {}) == ()


def test_the_combinations_of_a_component_hold_those_in_which_it_is_the_partner() -> None:
    found = {one.id for one in known_bad.of(MATRIX, "vllm")}
    assert {"vllm-0-11-0-volta", "driver-545-tensor-parallel"} <= found
    assert known_bad.of(MATRIX, "directml") == ()


def test_a_row_says_what_it_is_about() -> None:
    tensor_memory = next(one for one in ROWS if one.id == "cublas-tensor-memory")
    assert tensor_memory.proof is Proof.PROJECT
    said = f"cublas >=12.8,<13.2 on compute capability >=10.0,<12, when {tensor_memory.when}: {tensor_memory.what}"
    assert tensor_memory.row.text == said
    assert tensor_memory.when


def test_a_toolkit_of_the_system_says_nothing_of_a_jax_that_brings_its_own() -> None:
    named = "ptxas-miscompiles-xla-cuda-11"
    assert named not in _ids({"cuda-toolkit": "10.1.243", "jax": "0.11.2"})
    (old,) = [one for one in ROWS if one.id == named]
    assert old.fits({"cuda-toolkit": "10.1.243", "jax": "0.4.25"}, known_bad.Machine())
    assert old.when
