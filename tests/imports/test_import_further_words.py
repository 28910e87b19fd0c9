"""Facts in other forms: conda's records, bare output of a Python, other machines, and what is left unsaid."""

from __future__ import annotations

import pytest

from tests.imports.reading import component, copies, held, kinds, packages, read, version


@pytest.mark.parametrize(
    ("words", "name", "wanted"),
    [
        ("nvidia-384 384.130", "nvidia-driver", "384.130"),
        ("the host driver was upgraded from 375.26 to 375.39", "nvidia-driver", "375.39"),
        ("the loaded kernel module is 470.103.01", "nvidia.ko", "470.103.01"),
        ("NVRM version:   460.39\nCUDA version:   11.2", "nvidia.ko", "460.39"),
        ("module load gcc/11 cuda/12.1", "cuda-toolkit", "12.1"),
        ("1.4.0\nTrue\nTrue\n_CudaDeviceProperties(name='GeForce GTX TITAN', major=3, minor=5)", "pytorch", "1.4.0"),
    ],
)
def test_a_version_is_read_in_further_forms(words: str, name: str, wanted: str) -> None:
    assert version(read(words), name) == wanted


def test_a_version_without_any_mention_of_pytorch_belongs_to_nothing() -> None:
    assert read("1.4.0\nTrue\nTrue").find("pytorch") is None


def test_properties_of_a_device_name_the_gpu() -> None:
    found = read("_CudaDeviceProperties(name='GeForce GT 740', major=3, minor=0, total_memory=1991MB)")
    assert copies(found, "gpu")["0"].facts["cc"] == "3.0"


@pytest.mark.parametrize(
    "line",
    [
        "pytorch=1.9.0=py3.8_cpu_0",
        "  pytorch            pytorch/win-64::pytorch-1.10.0-py3.6_cpu_0",
        "pytorch                   1.4.0               py3.7_cpu_0  [cpuonly]  pytorch",
        "pytorch-mutex 1.0 cpu\npytorch 1.13.1",
        "conda list: pytorch 1.13.1 py3.10_cpu_0",
    ],
)
def test_conda_tells_a_build_for_the_processor(line: str) -> None:
    assert held(read(line), "pytorch")["accelerator"] == "cpu"


def test_what_was_asked_of_conda_is_kept_beside_the_result() -> None:
    found = held(read("conda install pytorch cudatoolkit=10.1\n  ::pytorch-1.10.0-py3.6_cpu_0"), "pytorch")
    assert (found["asked_cuda"], found["accelerator"]) == ("10.1", "cpu")


def test_the_toolkit_of_conda_is_pytorchs() -> None:
    found = held(read("conda: cudatoolkit 10.2.89, pytorch 1.6.0"), "pytorch")
    assert (found["cuda"], found["accelerator"]) == ("10.2", "cuda")


def test_one_row_of_columns_is_a_package_where_its_name_is_known() -> None:
    assert packages(read("cudatoolkit                         10.0.130"))["cudatoolkit"] == "10.0.130"
    assert read("epoch                         10.0").find("packages") is None


@pytest.mark.parametrize(
    "head", ["Another environment of the same machine works:", "My other computer works fine:", "A second env is ok:"]
)
def test_what_another_machine_has_is_none_of_this_one(head: str) -> None:
    found = read(f"pytorch 1.4.0 py3.7_cpu_0\n\n{head}\npytorch 1.3.1 cuda100py37h53c1284_0\n\ndriver 440.33")
    assert {copy.version for copy in component(found, "pytorch").instances} == {"1.4.0"}
    assert version(found, "nvidia-driver") == "440.33"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("/dev/nvidia0 is passed through, /dev/nvidia-uvm is not", "uvm-missing"),
        ("level-zero-loader is installed, intel-level-zero-gpu isn't.", "ze-library-missing"),
    ],
)
def test_what_people_leave_out_is_said_before(words: str, kind: str) -> None:
    assert kind in kinds(read(words))


def test_an_answer_of_the_shell_is_the_variable() -> None:
    found = held(read("$ echo $LD_LIBRARY_PATH\n/opt/cudnn/lib:/usr/local/cuda/lib64"), "environment")
    assert found["variables"] == {"LD_LIBRARY_PATH": "/opt/cudnn/lib:/usr/local/cuda/lib64"}


def test_the_prompt_of_a_container_tells_of_one_whoever_works_there() -> None:
    assert read("appuser@2c33616b558b:/det2/demo$ python demo.py").host.container == "docker"


def test_the_name_of_a_wheel_tells_the_machine() -> None:
    found = read("pip install torch-2.4.1-cp312-cp312-manylinux2014_aarch64.whl")
    assert found.host.machine == "aarch64"
