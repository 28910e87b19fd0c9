"""Plans in the form that suits the user: an environment's package manager, a container, a cluster, or no root."""

from __future__ import annotations

import pytest

from gpustack.model.matrix_answer import Change
from tests.ask.questions import why

CU126 = "https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize(
    ("way", "first"),
    [
        ("pip", f"python -m pip install torch==2.13.0+cu126 --index-url {CU126}"),
        ("uv", f"uv pip install torch==2.13.0+cu126 --index-url {CU126}"),
        (
            "poetry",
            f"poetry source add --priority=explicit cu126 {CU126} && poetry add --source cu126 torch==2.13.0+cu126",
        ),
        ("pixi", f"pixi add --pypi --index {CU126} torch==2.13.0+cu126"),
    ],
)
def test_the_manager_that_is_named_installs_from_the_index_of_the_build(way: str, first: str) -> None:
    """Poetry and pixi users got a pip command, which the next lock undoes, or were not understood at all."""
    one = why(f"torch 2.13 driver 535 with {way}").alternatives[0]
    assert one.commands == (first,)
    assert ("pip install" in one.steps) == (way in {"pip", "uv"})


def test_conda_gets_the_pair_that_conda_forge_has_first() -> None:
    found = why("torch 2.13 driver 560 conda").alternatives
    assert ("conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9",) in [one.commands for one in found]


@pytest.mark.parametrize(
    ("way", "gets"),
    [
        ("in docker", "docker run --gpus all"),
        ("podman", "podman run --device nvidia.com/gpu=all"),
        ("kubernetes", "resources: {limits: {nvidia.com/gpu: 1}}"),
        ("singularity", "apptainer exec --nv"),
    ],
)
def test_a_container_is_said_to_get_the_packages_in_its_image_and_the_driver_from_its_machine(
    way: str, gets: str
) -> None:
    found = why(f"torch 2.13 driver 470 {way}").alternatives
    packages = next(one for one in found if one.kind is Change.VERSION)
    driver = next(one for one in found if one.kind is Change.DRIVER)
    assert packages.steps.startswith("In the image, as a RUN line of its Dockerfile.")
    assert gets in packages.steps
    assert driver.steps.startswith("On the machine that runs the containers, not in the image")


@pytest.mark.parametrize(
    ("question", "own", "asked"),
    [
        (
            "cuda 12.4 gcc 14 on a slurm cluster",
            ("module avail gcc", "module load gcc/13", 'export NVCC_CCBIN="$(command -v g++)"'),
            "the cluster's administrators",
        ),
        (
            "cuda 12.4 gcc 14 without root",
            ("conda install -c conda-forge gxx=13", 'export NVCC_CCBIN="$CXX"'),
            "who administers the machine",
        ),
        ("torch 2.9 rtx 5090 driver 550 no sudo", (), "who administers the machine"),
    ],
)
def test_a_user_without_root_gets_what_works_without_it_and_whom_to_ask_for_the_rest(
    question: str, own: tuple[str, ...], asked: str
) -> None:
    one = why(question).alternatives[0]
    assert one.commands == own
    assert not one.needs_root
    assert f"sk {asked} to run `sudo " in one.steps


def test_a_number_behind_a_card_is_not_a_release_of_the_distribution() -> None:
    for name in ("arch", "opensuse", "azure linux"):
        answer = why(f"torch 2.9 driver 550 {name} rtx 5090")
        assert "gpu rtx 5090" in answer.given


def test_arch_linux_is_offered_no_branch_that_it_does_not_have() -> None:
    one = why("torch 2.9 driver 550 arch rtx 5090").alternatives[0]
    assert one.commands == ("sudo pacman -Syu nvidia-open nvidia-utils", "sudo reboot")
    assert "580" not in one.steps


@pytest.mark.parametrize(
    ("question", "inside"),
    [
        ("RTX 5070 Ti tensorflow windows", 'python -m pip install "tensorflow[and-cuda]==2.21.*"'),
        ("jax windows rtx 4090", "jax[cuda13]"),
        ("vllm windows rtx 4090", "python -m pip install vllm=="),
    ],
)
def test_what_is_made_for_linux_alone_is_installed_in_wsl(question: str, inside: str) -> None:
    """TensorFlow 2.10 was recommended for a GPU released four years later, and nothing was for JAX and vLLM."""
    one = why(question).alternatives[0]
    assert one.kind is Change.SYSTEM
    assert one.commands[0] == "wsl.exe --install"
    assert inside in one.commands[1]
    assert "PowerShell as an administrator" in one.steps


def test_a_build_that_the_package_index_serves_needs_no_other_index() -> None:
    one = why("torch==2.1.0", python="3.12").alternatives[0]
    assert one.commands == ("python -m pip install torch==2.2.0",)
