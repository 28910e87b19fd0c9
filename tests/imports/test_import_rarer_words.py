"""Facts in rarer forms: progress bars, check lists, typed commands, what pip already has, tables of a dictionary."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.errors import InputError
from tests.build import MATRIX
from tests.imports.reading import copies, given, packages, read, version


@pytest.mark.parametrize(
    ("words", "component", "wanted"),
    [
        ("PyTorch 1.4.0 | CUDA 10.1 | Python 3.7", "pytorch", "1.4.0"),
        ("PyTorch 1.4.0 | CUDA 10.1 | Python 3.7", "cuda-toolkit", "10.1"),
        ("pip install torch==1.13.1+cu117 torchvision==0.14.1+cu117", "pytorch", "1.13.1+cu117"),
        ("conda install pytorch==1.12.1 torchvision cudatoolkit=11.3 -c pytorch", "pytorch", "1.12.1"),
        ("updated libnvidia-compute-535 to 535.216.01", "nvidia-driver", "535.216.01"),
    ],
)
def test_a_version_is_read_in_rarer_forms(words: str, component: str, wanted: str) -> None:
    assert version(read(words), component) == wanted


@pytest.mark.parametrize(
    "words",
    [
        "you should try pip install torch==1.13.1",
        "pip install torch==1.4.0\nERROR: No matching distribution found for torch==1.4.0",
        "pip install torch==2.1.0\npip install torch==2.2.0",
    ],
)
def test_a_command_that_came_to_nothing_or_is_a_choice_tells_no_version(words: str) -> None:
    assert read(words).find("pytorch") is None


def test_the_cuda_of_a_check_list_is_pytorchs() -> None:
    found = read("Check CUDA version used by PyTorch..................[OK] (12.1)")
    assert copies(found, "pytorch")["pytorch"].facts["cuda"] == "12.1"


def test_what_pip_has_already_is_installed() -> None:
    found = read("Requirement already satisfied: torch in /usr/local/lib/python3.10/dist-packages (2.1.0+cu121)")
    assert packages(found)["torch"] == "2.1.0+cu121"


def test_columns_below_a_filtered_list_are_packages() -> None:
    found = read("$ pip list | grep cupy\ncupy-cuda110 9.6.0\ncupy-cuda113 9.6.0")
    assert packages(found) == {"cupy-cuda110": "9.6.0", "cupy-cuda113": "9.6.0"}


def test_the_link_is_read_from_a_query() -> None:
    head = "name, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max"
    found = read(f"{head}\nNVIDIA GeForce RTX 3090, 1, 4, 8, 16")
    link = {"generation": 1, "max_generation": 4, "width": 8, "max_width": 16}
    assert copies(found, "gpu")["0"].facts["pcie"] == link


@pytest.mark.parametrize("word", ["dual", "two", "four"])
def test_gpus_are_counted_by_words(word: str) -> None:
    wanted = {"dual": 2, "two": 2, "four": 4}[word]
    assert len(copies(read(f"{word} RTX 3090 in one machine"), "gpu")) == wanted


@pytest.mark.parametrize("words", ["runs under wsl2", "wsl, RTX 3060", "Windows 11 with WSL-2"])
def test_wsl_is_known_by_every_spelling(words: str) -> None:
    assert read(words).host.wsl


def test_a_path_of_wsl_is_not_wsl() -> None:
    assert not read("the docs speak of /usr/lib/wsl/lib").host.wsl


def test_a_log_that_begins_with_a_brace_is_read_as_text() -> None:
    found = given(b"{1}[Hardware Error]: event severity: fatal\n{1}[Hardware Error]: section_type: PCIe error\n")
    assert [one.kind for one in found.messages] == ["mce"]
    found = given(b"{'loss': 0.3887, 'grad_norm': 0.26, 'epoch': 2.0}\nCUDA out of memory. Tried to allocate 2.00 GiB")
    assert "program-out-of-memory" in [one.kind for one in found.messages]


def test_a_log_of_json_lines_is_read_as_text() -> None:
    found = given(
        b'{"level": "info", "msg": "start"}\n{"msg": "Detected non-NVML platform: could not load NVML library"}'
    )
    assert [one.kind for one in found.messages] == ["toolkit-missing-said"]


def test_what_a_python_printed_is_text_and_json_that_was_cut_is_refused() -> None:
    printed = given(b"{'torch': '2.6.0+cu124', 'gpu': 'RTX 5090'}")
    assert judge(printed, MATRIX).verdict.root_causes == ("arch-not-in-build",)
    with pytest.raises(InputError, match="begins like JSON"):
        given(b'{"torch": "2.6.0+cu124", "gpu": ')


def test_a_package_that_a_filtered_list_shows_and_one_that_was_given_to_pip_are_here() -> None:
    assert packages(read("$ pip show flash-attn | grep Version\nVersion: 2.7.3"))["flash-attn"] == "2.7.3"
    assert packages(read("Windows 11, pip install tensorflow==2.15.0, RTX 3070"))["tensorflow"] == "2.15.0"
    assert packages(read("nvidia-cublas-cu11 11.11.3.6, nvidia-cublas-cu12 12.1.3.1")) == {
        "nvidia-cublas-cu11": "11.11.3.6",
        "nvidia-cublas-cu12": "12.1.3.1",
    }


def test_words_before_those_of_a_program_are_read_in_one_line() -> None:
    found = read("Quadro P4000, driver 390.116, torch 1.3.1; RuntimeError: CUDA error: out of memory")
    assert version(found, "pytorch") == "1.3.1"
