"""Rows that sources dispute, or that were wrong once: the matrix's answers to the questions that showed it."""

from __future__ import annotations

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import drivers, toolkits
from gpustack.model.matrix_answer import Compatibility, MatrixAnswer
from gpustack.model.versions import ComputeCapability

MATRIX = Matrix()


def why(*texts: str, gpu: str | None = None, python: str | None = None) -> MatrixAnswer:
    return answering.why(texts, Given(gpu=gpu, python=python), None, MATRIX)


def test_onnx_1_23_writes_an_ir_that_onnxruntime_1_31_refuses() -> None:
    answer = why("onnx==1.23.0", "onnxruntime==1.31.1")
    assert answer.verdict is Compatibility.LIMITED
    assert "IR version 14" in answer.reasons[0].text
    assert why("onnx==1.21.0", "onnxruntime==1.31.1").verdict is Compatibility.COMPATIBLE


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("tensorflow==1.15.5", Compatibility.COMPATIBLE),
        ("tensorflow-gpu==1.15.5", Compatibility.COMPATIBLE),
        ("tensorflow==2.0.0", Compatibility.INCOMPATIBLE),
        ("tensorflow-gpu==2.0.0", Compatibility.COMPATIBLE),
        ("tensorflow==1.14.0", Compatibility.INCOMPATIBLE),
        ("tensorflow==2.1.0", Compatibility.COMPATIBLE),
    ],
)
def test_the_plain_wheel_of_tensorflow_has_the_gpu_in_1_15_and_not_in_2_0(asked: str, verdict: Compatibility) -> None:
    assert why(asked, gpu="V100", python="3.7").verdict is verdict


def test_a_tensorflow_before_2_3_has_ptx_of_each_architecture_and_2_3_of_the_newest_alone() -> None:
    for asked, gpu, verdict in (
        ("tensorflow==1.15.0", "sm_50", Compatibility.LIMITED),
        ("tensorflow==1.15.0", "T4", Compatibility.COMPATIBLE),
        ("tensorflow==2.3.0", "sm_50", Compatibility.INCOMPATIBLE),
        ("tensorflow==2.3.0", "V100", Compatibility.COMPATIBLE),
        ("tensorflow==2.10.0", "sm_80", Compatibility.COMPATIBLE),  # compute_80 is machine code too
        ("tensorflow==2.10.0", "sm_89", Compatibility.COMPATIBLE),
        ("tensorflow==2.10.0", "sm_90", Compatibility.LIMITED),
    ):
        assert why(asked, gpu=gpu, python="3.7").verdict is verdict, (asked, gpu)


@pytest.mark.parametrize(
    ("cuda", "newest"),
    [("12.2.0", 15), ("12.2.91", 15), ("12.2.1", 16), ("12.2.128", 16), ("12.2.140", 16), ("12.3", 16), ("12.4", 17)],
)
def test_the_condition_of_the_header_says_which_clang_nvcc_takes(cuda: str, newest: int) -> None:
    found = toolkits.compilers_of(MATRIX, cuda)
    assert found is not None
    assert found.clang_max == newest
    assert why(f"cuda-toolkit=={cuda}", f"clang=={newest}").verdict is Compatibility.COMPATIBLE
    assert why(f"cuda-toolkit=={cuda}", f"clang=={newest + 1}").verdict is Compatibility.INCOMPATIBLE


@pytest.mark.parametrize(
    ("device", "arch", "last"),
    [
        (0x0A65, "Tesla", 340),
        (0x10C5, "Tesla", 340),
        (0x06CD, "Fermi", 390),
        (0x0DC4, "Fermi", 390),
        (0x1140, "Fermi", 390),
    ],
)
def test_a_geforce_210_is_not_sent_to_a_branch_that_never_ran_it(device: int, arch: str, last: int) -> None:
    found = MATRIX.pci_arch(device)
    assert found is not None
    assert found.arch == arch
    span = MATRIX.span(found.arch)
    assert span is not None
    assert span.last == last


@pytest.mark.parametrize(
    ("cuda", "branch"), [("12.5", 550), ("12.6", 470), ("12.8", 550), ("12.9", 550), ("12.4", 525), ("12.4", 470)]
)
def test_compat_packages_know_the_branches_that_were_supported_then(cuda: str, branch: int) -> None:
    package = next(one for one in MATRIX.compats if str(one.cuda) == cuda)
    assert branch in package.bases


def test_cuda_12_on_windows_takes_the_higher_of_two_disputed_drivers() -> None:
    floor = MATRIX.families[12]
    assert str(floor.windows) == "528.33"
    assert "527.41" in floor.row.source
    assert drivers.branch_of(MATRIX, 525) is not None
    for driver, verdict in (("528.33", Compatibility.LIMITED), ("527.41", Compatibility.INCOMPATIBLE)):
        given = Given(os="windows", driver=driver)
        assert answering.why(["torch==2.5.1+cu121"], given, None, MATRIX).verdict is verdict


def test_an_a10g_is_slowed_like_a_geforce_and_a_gtx_1650_has_no_tensor_cores() -> None:
    ampere, turing = MATRIX.architectures[ComputeCapability(8, 6)], MATRIX.architectures[ComputeCapability(7, 5)]
    assert ampere.rates_of("NVIDIA A10G")["fp16"] == ampere.rates_of("NVIDIA GeForce RTX 3090")["fp16"]
    assert ampere.rates_of("NVIDIA A10")["fp16"] == 2 * ampere.rates_of("NVIDIA A10G")["fp16"]
    for name in ("NVIDIA GeForce GTX 1650", "NVIDIA T1000 8GB", "NVIDIA T400 4GB", "NVIDIA GeForce MX450"):
        assert turing.tensor_cores_of(name) is None
        assert set(turing.rates_of(name)) == {"fp32"}
    assert turing.tensor_cores_of("Tesla T4") == 2
    assert "fp16" in turing.rates_of("Tesla T4")


@pytest.mark.parametrize(
    ("numpy", "python", "verdict"),
    [
        ("1.25.2", "3.12", Compatibility.INCOMPATIBLE),
        ("1.26.4", "3.12", Compatibility.COMPATIBLE),
        ("1.25.2", "3.11", Compatibility.COMPATIBLE),
        ("2.0.0", "3.11", Compatibility.INCOMPATIBLE),
        ("1.25.2", None, Compatibility.UNKNOWN),  # it depends on the Python
    ],
)
def test_tensorflow_2_16_and_2_17_need_a_newer_numpy_on_python_3_12(
    numpy: str, python: str | None, verdict: Compatibility
) -> None:
    for release in ("2.16.1", "2.17.1"):
        assert why(f"tensorflow=={release}", f"numpy=={numpy}", python=python).verdict is verdict


@pytest.mark.parametrize(
    ("cupy", "numpy", "verdict"),
    [
        ("cupy-cuda12x==14.2.0", "2.5.0", Compatibility.COMPATIBLE),  # the guide was tested up to 2.4
        ("cupy-cuda12x==14.2.0", "2.6.0", Compatibility.INCOMPATIBLE),
        ("cupy-cuda12x==13.6.0", "2.5.0", Compatibility.COMPATIBLE),  # the guide: up to 2.3
        ("cupy-cuda12x==13.6.0", "2.6.0", Compatibility.INCOMPATIBLE),
        ("cupy-cuda12x==13.4.1", "2.3.0", Compatibility.INCOMPATIBLE),
        ("cupy-cuda11x==13.0.0", "1.26.4", Compatibility.COMPATIBLE),
        ("cupy-cuda11x==13.0.0", "2.0.0", Compatibility.INCOMPATIBLE),
        ("cupy-cuda12x==12.3.0", "1.20.0", Compatibility.COMPATIBLE),  # the guide: from 1.21
        ("cupy==13.6.0", "2.2.0", Compatibility.COMPATIBLE),
        ("cupy-cuda12x==13.9.0", "2.2.0", Compatibility.UNKNOWN),
    ],
)
def test_numpy_caps_of_cupy_are_those_that_pip_enforces(cupy: str, numpy: str, verdict: Compatibility) -> None:
    assert why(cupy, f"numpy=={numpy}").verdict is verdict


def test_the_parts_of_cuda_13_5_are_those_of_its_metapackage() -> None:
    row = next(line for line in MATRIX.table("libraries")["toolkits"] if line["cuda"] == "13.5.0")
    assert "cuda-toolkit 13.5.0" in row["source"]


def test_vllm_0_11_does_not_start_on_a_v100() -> None:
    answer = why("vllm==0.11.0", gpu="V100")
    assert answer.verdict is Compatibility.INCOMPATIBLE
    assert "27729" in answer.reasons[0].source
    before = why("vllm==0.9.2", gpu="V100")
    assert before.verdict is Compatibility.COMPATIBLE
    assert any("chunked prefill" in one.text and "not usable there" in one.text for one in before.reasons)


@pytest.mark.parametrize(
    ("version", "gpu", "verdict"),
    [
        ("1.23.0", "sm_120", Compatibility.INCOMPATIBLE),
        ("1.23.0", "sm_90", Compatibility.COMPATIBLE),
        ("1.23.2", "sm_120", Compatibility.LIMITED),
        ("1.31.1", "sm_100", Compatibility.INCOMPATIBLE),
        ("1.31.1", "sm_120", Compatibility.COMPATIBLE),
        ("1.31.1", "sm_121", Compatibility.INCOMPATIBLE),
        ("1.29.0", "sm_90", Compatibility.COMPATIBLE),
    ],
)
def test_onnxruntime_on_blackwell_is_judged_by_the_code_in_its_wheel(
    version: str, gpu: str, verdict: Compatibility
) -> None:
    assert why(f"onnxruntime-gpu=={version}", gpu=gpu).verdict is verdict
