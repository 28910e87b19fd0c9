"""The contracts the doctor draws beside the driver's: toolkits, libraries, Python, and what PyTorch carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.model.report import Contract, Kept
from gpustack.model.versions import CudaVersion
from tests.build import (
    MATRIX,
    PYTHON,
    gpu,
    healthy,
    jax,
    kernel,
    libcuda,
    machine,
    module,
    on,
    python,
    report,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts


def drawn(facts: Facts, from_: str, to: str, kind: str | None = None) -> Contract | None:
    found = (one for one in report(facts).contracts if (one.from_, one.to) == (from_, to))
    return next((one for one in found if kind in {None, one.kind}), None)


def status(facts: Facts, from_: str, to: str, kind: str | None = None) -> Kept | None:
    found = drawn(facts, from_, to, kind)
    return found.status if found else None


def toolkit(version: str) -> Component:
    return seen("cuda-toolkit", {"key": "/usr/local/cuda", "version": version, "in_use": True})


def packages(**distributions: str) -> Component:
    named = {name.replace("_", "-"): version for name, version in distributions.items()}
    return seen("packages", {"key": PYTHON, "environment": PYTHON, "distributions": named})


@pytest.mark.parametrize(
    ("version", "cc", "expected"),
    [("12.4", "9.0", Kept.OK), ("12.4", "12.0", Kept.LIMITED), ("13.0", "6.1", Kept.LIMITED), ("12.9", "6.1", Kept.OK)],
)
def test_a_toolkit_compiles_for_a_gpu_from_its_first_to_its_last_release(version: str, cc: str, expected: Kept) -> None:
    facts = on("580.95.05", 13000, toolkit(version), cc=cc)
    assert status(facts, "cuda-toolkit", "gpu", "target") is expected


@pytest.mark.parametrize(
    ("compiler", "version", "expected"),
    [
        ("gcc", "14.2.0", Kept.LIMITED),
        ("gcc", "13.3.0", Kept.OK),
        ("clang", "17.0.6", Kept.OK),
        ("clang", "19.1", Kept.LIMITED),
    ],
)
def test_nvcc_takes_host_compilers_up_to_a_major(compiler: str, version: str, expected: Kept) -> None:
    facts = healthy(toolkit("12.4.1"), seen(compiler, {"version": version}))
    found = drawn(facts, "cuda-toolkit", compiler)
    assert found
    assert found.status is expected
    assert found.row


def test_a_toolkit_that_is_not_in_use_has_no_contracts() -> None:
    other = seen("cuda-toolkit", {"key": "/opt/cuda-9", "version": "9.0", "in_use": False})
    assert not [one for one in report(healthy(other)).contracts if one.from_ == "cuda-toolkit"]


def test_a_gpu_without_a_pci_number_has_its_branch_by_its_capability() -> None:
    told = machine(seen("gpu", gpu("NVIDIA GeForce GTX 1080", "6.1")), seen("nvidia-driver", {"version": "590.44.01"}))
    found = drawn(told, "gpu", "nvidia-driver", "last branch")
    assert found
    assert (found.status, found.needs, found.found) == (Kept.LIMITED, "a driver branch up to 580", "branch 590")


def test_a_jetson_has_a_driver_of_its_own() -> None:
    told = machine(seen("gpu", gpu("Orin", "8.7")), seen("nvidia-driver", {"version": "540.4.0"}))
    assert drawn(told, "gpu", "nvidia-driver") is None


def test_a_module_that_will_not_build_with_the_kernel_breaks_its_contract_until_it_is_loaded() -> None:
    waiting = healthy(
        kernel(release="7.0.9-1-generic"), module(None, None), seen("nvidia-driver", {"version": "580.119.02"})
    )
    assert status(waiting, "nvidia-driver", "linux-kernel") in {Kept.BROKEN, None}
    loaded = healthy(kernel(release="7.0.9-1-generic"), module("580.119.02", "580.119.02"))
    assert drawn(loaded, "nvidia-driver", "linux-kernel") is None


def test_jax_works_with_a_gpu_by_its_code_and_its_lowest_one() -> None:
    def found(cc: str, build: str = "cuda12") -> Kept | None:
        return status(on("580.95.05", 13000, jax(build, "0.9.0"), cc=cc), "jax", "gpu")

    assert found("9.0") is Kept.OK
    assert found("12.0") is Kept.LIMITED
    assert found("6.1", "cuda13") is Kept.BROKEN


def test_tensorflow_has_contracts_with_driver_gpu_and_python() -> None:
    copy = seen("tensorflow", {"version": "2.17.1", "environment": PYTHON})
    facts = on("535.183.01", 12020, copy, python("3.13.1"), cc="12.0")
    assert status(facts, "tensorflow", "nvidia-driver") is Kept.LIMITED
    # PTX made by CUDA 12.3 is newer than what a driver that supports 12.2 can compile
    assert status(facts, "tensorflow", "gpu") is Kept.BROKEN
    assert status(on("550.54.15", 12040, copy, cc="12.0"), "tensorflow", "gpu") is Kept.LIMITED
    assert status(facts, "tensorflow", "python", "python") is Kept.UNKNOWN


def test_a_python_without_a_wheel_is_unknown_where_the_package_is_there_anyway() -> None:
    facts = healthy(torch("2.11.0"), python("3.9.1"))
    assert status(facts, "pytorch", "python", "python") is Kept.UNKNOWN


@pytest.mark.parametrize(
    ("listed", "version", "expected"),
    [
        ({"vllm": "0.20.2"}, "2.11.0", Kept.OK),
        ({"vllm": "0.20.2"}, "2.9.1", Kept.BROKEN),
        ({"vllm": "0.20.2"}, "2.12.0a0", Kept.UNKNOWN),
        ({"vllm": "999.0"}, "2.11.0", None),
        ({"xformers": "0.0.30"}, "2.11.0", Kept.BROKEN),
        ({"torchvision": "0.22.1"}, "2.7.1", Kept.OK),
        ({"torchvision": "0.22.1"}, "2.11.0", Kept.BROKEN),
        ({"torchaudio": "2.7.1"}, "2.11.0", Kept.UNKNOWN),
        ({"flash_attn": "2.8.3"}, "2.11.0", Kept.UNKNOWN),
        ({"bitsandbytes": "0.49.2"}, "2.11.0", Kept.OK),
    ],
)
def test_what_is_built_on_pytorch_works_with_the_one_beside_it(
    listed: dict[str, str], version: str, expected: Kept | None
) -> None:
    name = {"flash_attn": "flash-attention"}.get(next(iter(listed)), next(iter(listed)))
    facts = healthy(torch(version), packages(**listed))
    assert status(facts, name, "pytorch", "torch") is expected


def test_an_extension_in_another_python_is_not_compared() -> None:
    elsewhere = seen(
        "packages", {"key": "/usr/bin/python3", "environment": "/usr/bin/python3", "distributions": {"vllm": "0.20.2"}}
    )
    assert drawn(healthy(torch("2.9.1"), elsewhere), "vllm", "pytorch") is None


def test_parts_that_need_a_newer_gpu_limit_and_the_whole_breaks() -> None:
    old = on("580.95.05", 13000, packages(bitsandbytes="0.49.2", flash_attn="2.8.3"), cc="7.0")
    assert {one.status for one in report(old).contracts if one.from_ == "bitsandbytes" and one.to == "gpu"} == {
        Kept.OK,
        Kept.LIMITED,
    }
    assert status(old, "flash-attention", "gpu") is Kept.BROKEN


def test_cudnn_of_a_python_works_with_the_gpu_and_one_that_is_unused_does_not_count() -> None:
    copy = {"version": "9.12.0.46", "path": "/opt/venv/lib/libcudnn.so.9"}
    assert (
        status(on("580.95.05", 13000, seen("cudnn", {**copy, "environment": PYTHON}), cc="6.1"), "cudnn", "gpu")
        is Kept.BROKEN
    )
    assert drawn(on("580.95.05", 13000, seen("cudnn", copy), cc="6.1"), "cudnn", "gpu") is None


def test_windows_releases_are_compared_with_windows_numbers() -> None:
    def found(release: str) -> Kept | None:
        parts = (
            module(None, None),
            seen("nvidia-driver", {"version": release}),
            seen("gpu", gpu()),
            torch("2.7.1", "cu126", "12.6"),
        )
        told = machine(*parts, wsl=True)
        return status(told, "pytorch", "nvidia-driver")

    assert found("560.76") is Kept.OK  # the Windows driver of CUDA 12.6.0
    assert found("537.13") is Kept.LIMITED
    assert found("516.31") is Kept.BROKEN
    assert found("581.15") is Kept.OK
    old = driver_fit(CudaVersion(9, 2), machine(seen("nvidia-driver", {"version": "391.35"}), wsl=True), MATRIX)
    assert (old.kept, old.needs) == (Kept.BROKEN, "driver 397.44 or newer")


def test_a_contract_is_drawn_once() -> None:
    two = seen("gpu", gpu(), gpu(at="0000:02:00.0"))
    contracts = report(healthy(two, torch(), libcuda())).contracts
    assert len(contracts) == len(set(contracts))
