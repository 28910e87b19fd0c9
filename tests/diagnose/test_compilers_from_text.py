"""Pasted text about builds that fail because of their compilers, and the one cause that must result."""

from __future__ import annotations

import pytest

from tests.diagnose.test_libraries_from_text import told, words

RELEASE = "Cuda compilation tools, release {}, V{}.1"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            "Cuda extensions are being compiled with a version of Cuda that does not match the version used to compile "
            "Pytorch binaries.  Pytorch binaries were compiled with Cuda 11.8.\n" + RELEASE.format("12.1", "12.1"),
            ["CUDA 12.1", "CUDA 11.8", "CUDA_HOME=/usr/local/cuda-11.8", "cu121"],
        ),
        (
            "Installed CUDA version 11.5 does not match the version torch was compiled with 12.1, unable to compile",
            ["CUDA 11.5", "CUDA 12.1"],
        ),
    ],
)
def test_nvcc_of_another_cuda_is_named_with_both_versions(text: str, mentions: list[str]) -> None:
    said = words(text, "nvcc-torch-mismatch")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            (
                "The current installed version of x86_64-conda-linux-gnu-c++ (14.3.0) is greater than the "
                "maximum required version by CUDA 12.4. Please make sure to use an adequate version (>=6.0.0, <14.0)."
            ),
            ["14.3.0", "CUDA 12.4", "GCC 13 at most", "g++-13", "CUDA 12.8 and newer"],
        ),
        (
            (
                "/usr/local/cuda-11.4/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version! gcc "
                "versions later than 10 are not supported!\ngcc (Debian 12.2.0-14) 12.2.0\nDebian 12"
            ),
            ["GCC 12.2.0", "CUDA 11.4", "No package has GCC 10"],
        ),
        (
            (
                r"C:\NVIDIA GPU Computing Toolkit\CUDA\v12.1\include\crt/host_config.h(157): fatal error C1189:"
                " #error:  -- unsupported Microsoft Visual Studio version! Only the versions between 2017 and 2022 "
                "(inclusive) are supported!"
            ),
            ["Visual Studio", "CUDA 12.1", "between 2017 and 2022"],
        ),
        (
            'error: static assertion failed: "error STL1002: Unexpected compiler version, expected CUDA 12.4 or newer',
            ["Visual Studio", "CUDA 12.4"],
        ),
        (
            "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with '...':\n"
            + RELEASE.format("11.5", "11.5"),
            ["GCC 11", "CUDA 11.5"],
        ),
        ("unsupported clang version! clang version must be less than 16 and greater than 3.2 .", ["clang 15 at most"]),
    ],
)
def test_a_compiler_that_nvcc_refuses_is_named_with_what_it_accepts(text: str, mentions: list[str]) -> None:
    said = words(text, "host-compiler-too-new")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", ["sm_121a", "CUDA 12.9 or newer"]),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nRTX 5090, CUDA 12.4", ["sm_120", "12.8", "12.4"]),
        (
            "nvcc fatal: Unsupported gpu architecture 'compute_90a'\n CUDA compiler identification is NVIDIA 11.8.89",
            ["compute_90a", "CUDA 12.0 or newer", "11.8"],
        ),
        (
            "libnvvm : error: -arch=compute_89 is an unsupported option\nL4, CUDA 11.4",
            ["compute_89", "compute capability 8.9", "CUDA 11.8 or newer", "TORCH_CUDA_ARCH_LIST=8."],
        ),
    ],
)
def test_a_toolkit_older_than_the_gpu_is_named_with_the_first_that_knows_it(text: str, mentions: list[str]) -> None:
    said = words(text, "toolkit-too-old-for-arch")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("arch", "cuda", "last"),
    [("compute_35", "12.1", "11.8"), ("compute_61", "13.0", "12.9"), ("sm_70", "13.1", "12.9")],
)
def test_an_architecture_that_a_newer_toolkit_dropped_is_not_called_new(arch: str, cuda: str, last: str) -> None:
    text = f"nvcc fatal   : Unsupported gpu architecture '{arch}'\n{RELEASE.format(cuda, cuda)}"
    (one,) = [one for one in told(text).findings if one.id == "arch-dropped-by-toolkit"]
    assert f"CUDA {last} was the last" in one.title
    assert one.severity.value == "info"  # the build targets it, and there is no such GPU here


def test_an_architecture_of_a_gpu_that_is_here_and_was_dropped_is_a_fault_of_the_toolkit() -> None:
    text = f"Tesla P40\nnvcc fatal   : Unsupported gpu architecture 'compute_61'\n{RELEASE.format('13.0', '13.0')}"
    assert "Tesla P40" in words(text, "arch-dropped-by-toolkit")


@pytest.mark.parametrize(("arch", "cuda"), [("compute_20", "9.0"), ("compute_51", "9.0"), ("compute_21", "8.0")])
def test_an_architecture_that_no_gpu_of_these_years_has_is_a_matter_of_what_is_built(arch: str, cuda: str) -> None:
    text = f"nvcc fatal   : Unsupported gpu architecture '{arch}'\n{RELEASE.format(cuda, cuda)}"
    assert told(text).verdict.root_causes == ()


@pytest.mark.parametrize(
    "text",
    [
        (
            "The detected CUDA version (11.8) has a minor version mismatch with the version that was used to compile "
            "PyTorch (11.7). Most likely this shouldn't be a problem."
        ),
        (
            "Installed CUDA version 11.6 does not match the version torch was compiled with 11.7 but since the APIs "
            "are compatible, accepting this combination"
        ),
        "There are no g++ version bounds defined for CUDA version 12.4",
        "gcc (Ubuntu 13.3.0) 13.3.0\n" + RELEASE.format("11.8", "11.8"),
        "/usr/include/c++/13/vector:1: error: something else is wrong\n" + RELEASE.format("12.4", "12.4"),
        "ptxas error   : Feature 'tcgen05' not supported on .target 'sm_120'",
    ],
)
def test_what_builds_print_without_harm_is_not_a_fault(text: str) -> None:
    assert told(text).verdict.root_causes == ()
