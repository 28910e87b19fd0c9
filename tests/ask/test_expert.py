"""Questions with a known right answer, as an engineer of this field would give it: the flavour, and every pin."""

from __future__ import annotations

import pytest

from gpustack.diagnose import fixes
from gpustack.model.command import apart
from gpustack.model.facts import Facts, Host
from gpustack.model.matrix_answer import Change, Compatibility
from tests.ask.questions import MATRIX, command, plan, why, written
from tests.wide import one_of, wide


@pytest.mark.parametrize("ask", [why, plan])
@pytest.mark.parametrize("gpu", ["RTX 5090", "RTX PRO 6000"])
def test_blackwell_gets_the_open_flavour_of_the_driver(ask: type, gpu: str) -> None:
    """With the proprietary flavour the GPU is not detected."""
    (answer,) = [one for one in ask("torch==2.9", driver="550", gpu=gpu).alternatives if one.kind is Change.DRIVER]
    assert answer.commands == ("sudo apt-get update", "sudo apt-get install nvidia-driver-580-open", "sudo reboot")
    assert (answer.needs_root, answer.needs_reboot) == (True, True)
    assert "nvidia-driver:580-open" in answer.steps
    assert "Ubuntu" in answer.steps


def test_a_b200_gets_the_servers_package_and_the_release_that_knows_it_in_one_plan() -> None:
    (one,) = plan("torch==2.6.0", gpu="B200", driver="535").alternatives
    assert "sudo apt-get install nvidia-driver-580-server-open" in one.commands
    assert "torch==2.7.0+cu128" in one.commands[-1]


def test_a_pascal_gpu_gets_the_proprietary_flavour() -> None:
    answer = plan("torch==2.7.1", driver="470.256.02", gpu="GTX 1080")
    (one,) = [
        one for one in answer.alternatives if one.kind is Change.DRIVER and one.verdict is Compatibility.COMPATIBLE
    ]
    assert one.commands[-2:] == ("sudo apt-get install nvidia-driver-580", "sudo reboot")


@pytest.mark.parametrize("gpu", ["B200", "RTX 5090", "H100", "T4", "V100"])
@pytest.mark.parametrize("torch", ["2.5.1", "2.6.0", "2.9.0", "2.15.0"])
def test_no_older_gpu_is_advised_to_who_has_a_newer(gpu: str, torch: str) -> None:
    asked = MATRIX.arch(next(one for one in MATRIX.architectures if one.sm == SM[gpu]))
    assert asked
    for one in why(f"torch=={torch}", gpu=gpu, driver="535").alternatives:
        if one.kind is Change.GPU:
            assert int(one.subject.removeprefix("sm_")) > int(SM[gpu].removeprefix("sm_"))


SM = {"B200": "sm_100", "RTX 5090": "sm_120", "H100": "sm_90", "T4": "sm_75", "V100": "sm_70"}


def test_gfx1031_gets_the_override_that_the_doctor_knows() -> None:
    (one,) = why("torch==2.9", gpu="gfx1031").alternatives
    assert "+rocm" in one.commands[0]
    assert one.commands[-1] == "export HSA_OVERRIDE_GFX_VERSION=10.3.0"


@pytest.mark.parametrize(
    ("torch", "cuda"), [("2.13.0", "12.6"), ("2.5.1", "12.1"), ("2.5.1", "11.8"), ("2.7.0", "12.8")]
)
def test_no_pair_is_advised_that_conda_forge_never_built(torch: str, cuda: str) -> None:
    for driver in ("470", "525", "550", "560", "580"):
        for one in plan(f"torch=={torch}", driver=driver).alternatives:
            assert f"pytorch-gpu={torch} cuda-version={cuda}" not in f"{one.commands} {one.steps}"


def test_a_pair_that_conda_forge_has_built_is_said_beside_the_wheel() -> None:
    wheels = [one.steps for one in why("torch==2.13.0", driver="560").alternatives if one.kind is Change.WHEEL]
    assert any("`conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9`" in one for one in wheels)


def test_flash_attention_is_built_against_the_torch_that_is_here() -> None:
    (one,) = plan("flash-attn==2.8.3", gpu="H100").alternatives[:1]
    assert one.commands == ("python -m pip install flash-attn==2.8.3 --no-build-isolation",)


@wide
def test_every_command_of_an_answer_can_be_typed_as_it_stands() -> None:
    """On one of three drivers in CI, on all of them with GPUSTACK_WIDE=1."""
    for subject in ("torch==2.13.0", "vllm", "jax", "tensorflow==2.17.0", "onnxruntime-gpu", "cuda-toolkit==12.4"):
        for driver in one_of(("470", "550", "580"), subject):
            for one in plan(subject, driver=driver, gcc="14").alternatives:
                assert not [line for line in one.commands if "#" in line or not line.strip()]


def test_the_steps_are_shown() -> None:
    done = command("why", "torch", "2.9", "driver", "550", "rtx", "5090")
    assert "nvidia-driver-580-open" in done.stdout
    assert "Red Hat Enterprise Linux" in " ".join(done.stdout.split())


def test_a_plan_says_what_it_keeps_and_why_the_next_is_not_the_first() -> None:
    answer = plan("torch==2.13.0", driver="535", gpu="RTX 4090")
    first, *others = answer.alternatives
    assert first.kind is Change.WHEEL
    assert first.keeps == "The release, the Python, the driver and the GPU stay as they are."
    assert first.not_first == ""
    assert not first.needs_root
    driver = next(one for one in others if one.kind is Change.DRIVER)
    assert "root and a restart" in driver.not_first
    assert (driver.needs_root, driver.needs_reboot) == (True, True)
    assert [one.kind for one in answer.not_taken] == [Change.COMPAT]
    assert "data-centre GPUs alone" in answer.not_taken[0].because
    written(answer, "matrix")


def test_what_would_not_help_is_said_with_its_reason() -> None:
    out = {one.kind: one.because for one in why("torch==2.9", driver="550", gpu="RTX 5090").not_taken}
    assert "cu130" in out[Change.WHEEL]
    assert "driver branch from 570" in out[Change.WHEEL]
    assert "data-centre GPUs alone" in out[Change.COMPAT]


def test_on_wsl_the_driver_is_installed_on_windows() -> None:
    facts = Facts(taken="", host=Host(os="Linux", wsl=True))
    typed, by_hand = apart(fixes.driver(facts, MATRIX, branch=580))
    assert typed == ()
    assert "On Windows, install branch 580 of NVIDIA's driver" in by_hand
    assert "`wsl.exe --shutdown` in PowerShell" in by_hand
