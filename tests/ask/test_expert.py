"""Questions with a known right answer, as an expert would give it: the kernel module flavour, and every pin."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.ask import answering, ground, search
from gpustack.ask import plan as planning
from gpustack.ask.given import Given, made, put
from gpustack.ask.why import judge as judge_subject
from gpustack.diagnose import fixes
from gpustack.diagnose.change_sets import Place, release_for
from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.matrix.subjects import torch as rows
from gpustack.model.command import apart
from gpustack.model.facts import Facts, Host
from gpustack.model.matrix_answer import Change, Compatibility
from tests.ask.questions import MATRIX, command, plan, why, written
from tests.wide import one_of, wide

if TYPE_CHECKING:
    from collections.abc import Callable

GCC_14 = (
    b"/usr/local/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later"
    b" than 13 are not supported!\n"
)


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
def test_no_older_gpu_is_recommended_to_the_owner_of_a_newer_one(gpu: str, torch: str) -> None:
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
def test_no_pair_is_recommended_that_conda_forge_never_built(torch: str, cuda: str) -> None:
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
def test_every_command_of_an_answer_can_be_typed_as_it_is() -> None:
    """With one of three drivers in CI, with all of them with GPUSTACK_WIDE=1."""
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
    assert "data-centre GPUs only" in answer.not_taken[0].because
    written(answer, "matrix")


def test_what_would_not_help_is_said_with_its_reason() -> None:
    out = {one.kind: one.because for one in why("torch==2.9", driver="550", gpu="RTX 5090").not_taken}
    assert "cu130" in out[Change.WHEEL]
    assert "driver branch from 570" in out[Change.WHEEL]
    assert "data-centre GPUs only" in out[Change.COMPAT]


def test_on_wsl_the_driver_is_installed_on_windows() -> None:
    facts = Facts(taken="", host=Host(os="Linux", wsl=True))
    typed, by_hand = apart(fixes.driver(facts, MATRIX, branch=580))
    assert typed == ()
    assert "On Windows, install branch 580 of NVIDIA's driver" in by_hand
    assert "`wsl.exe --shutdown` in PowerShell" in by_hand


def test_what_is_bound_to_torch_comes_with_the_torch_that_is_here() -> None:
    """Bitsandbytes 0.50 replaces torch 2.1.2 when installed beside it; unpinned, vllm installs its newest release."""
    first = plan("bitsandbytes", "torch==2.1.2").alternatives[0]
    assert first.commands == ("python -m pip install bitsandbytes==0.45.5 torch==2.1.2",)
    assert why("bitsandbytes==0.50.0", "torch==2.1.2").verdict is Compatibility.INCOMPATIBLE
    found = plan("vllm", "torch==2.9.0").alternatives
    assert found[0].commands == ("python -m pip install vllm==0.13.0 torch==2.9.0",)
    assert not [one for one in found if one.subject.startswith("vllm==0.2.")]  # of torch 2.1, and names no newest


@pytest.mark.parametrize("question", ["vllm 4090", "vllm t4", "sglang B200"])
def test_what_a_server_does_without_is_not_a_limit_of_it(question: str) -> None:
    """A 4090 was called limited for FlashAttention 3, which is for Hopper only, and was offered an old release."""
    answer = why(question)
    assert answer.verdict is Compatibility.COMPATIBLE
    assert answer.alternatives == ()
    assert any("It runs without that" in one.text for one in answer.reasons)


@pytest.mark.parametrize("python", ["3.10", "3.13"])
def test_no_server_is_recommended_whose_pins_were_not_read(python: str) -> None:
    """SGLang 0.5.21 and 0.5.22 pin a wheel that exists only as a stub on the package index, and need newer Pythons."""
    for driver in ("580.95.05", "595.45.04"):
        for one in plan("sglang", driver=driver, gpu="H200", python=python).alternatives:
            assert not re.search(r"0\.5\.(18|20|21|22)\b", " ".join((one.subject, *one.commands)))


def test_a_release_that_works_with_limits_is_not_traded_for_an_older_one() -> None:
    found = why("torch==2.9", driver="550").alternatives
    assert [one.kind for one in found] == [Change.COMPAT, Change.DRIVER]


def test_a_gpu_that_newer_drivers_dropped_gets_the_last_that_runs_it() -> None:
    for answer in (why("K80", driver="535"), why("driver==535", "K80")):
        first = answer.alternatives[0]
        assert first.kind is Change.DRIVER
        assert first.commands[1:] == ("sudo apt-get install nvidia-driver-470-server", "sudo reboot")
        assert "nvidia-open" not in first.steps


@pytest.mark.parametrize(("gpu", "command"), [("H100", "nvidia-driver-580-server-open"), ("GTX 1650", "595-open")])
def test_a_driver_is_of_a_branch_that_is_supported_whatever_is_asked_first(gpu: str, command: str) -> None:
    asked = why("driver==470", gpu).alternatives if gpu == "H100" else plan("driver", gpu).alternatives
    assert command in asked[0].commands[1]
    assert asked[0].commands[2] == "sudo reboot"


def test_a_host_compiler_is_answered_as_the_doctor_answers_it() -> None:
    facts = load_texts({"pasted.txt": b"Cuda compilation tools, release 12.4, V12.4.131\n" + GCC_14}, MATRIX)
    (doctor,) = [one.fix for one in judge(facts, MATRIX).findings if one.id == "host-compiler-too-new" and one.fix]
    first = why("cuda==12.4", gcc="14").alternatives[0]
    assert first.kind is Change.COMPILER
    assert first.commands == doctor.commands
    assert first.commands[0] == "sudo apt-get install gcc-13 g++-13"
    on_rocky = why("cuda==12.4", gcc="14", os="rocky-9").alternatives[0].commands
    assert on_rocky[0] == "sudo dnf install gcc-toolset-13"
    assert "/opt/rh/gcc-toolset-13/root/usr/bin/g++" in on_rocky[1]


def test_a_compiler_that_no_distribution_has_any_more_is_not_a_command() -> None:
    typed, by_hand = apart(fixes.older_gcc(Facts(taken="", host=Host(os="Linux")), MATRIX, 3))
    assert typed == ()
    assert "No package has GCC 3 or older any more" in by_hand


@pytest.mark.parametrize(
    ("system", "cuda", "first"),
    [
        ("debian-12", "12.4", "sudo apt-get install gcc-12 g++-12"),  # GCC 13 is accepted, and Debian 12 has 11 and 12
        ("debian-13", "12.4", "sudo apt-get install gcc-13 g++-13"),
        ("debian-13", "11.8", ""),  # GCC 11 is the newest accepted, and the oldest in Debian 13 is 12
    ],
)
def test_a_compiler_is_one_that_the_named_release_has_by_its_listing(system: str, cuda: str, first: str) -> None:
    (one,) = [one for one in why(f"cuda=={cuda}", gcc="15", os=system).alternatives if one.kind is Change.COMPILER]
    assert one.commands[:1] == ((first,) if first else ())
    assert first or "No package has GCC 11 or older any more" in one.steps


def test_a_python_that_nothing_fits_gets_an_environment_of_its_own() -> None:
    other = why("torch==2.4.0", python="3.13").alternatives[1]
    assert (other.kind, other.commands[0]) == (Change.PYTHON, "uv venv --seed --python 3.12 env-3.12")
    (one,) = why("torch==2.9", gpu="B200", driver="470", python="3.8").alternatives
    assert one.commands[1:4] == (
        "sudo apt-get install nvidia-driver-580-server-open",
        "sudo reboot",
        "uv venv --seed --python 3.9 env-3.9",
    )
    assert one.commands[-1] == "python -m pip install torch==2.8.0"  # and not 1.5.1, whose 2020 PTX suits this GPU


def test_another_gpu_is_of_the_same_class() -> None:
    (one,) = why("flash-attn==2.8.3", gpu="T4").alternatives
    assert "such as A100" in one.change
    (one,) = why("flash-attn==2.8.3", gpu="RTX 2080").alternatives
    assert "RTX 3" in one.change


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("rocky-9", "sudo dnf install cuda-compat-12-8"),
        ("ubuntu-24.04", "sudo apt-get install cuda-compat-12-8"),
        ("sles-15", "sudo zypper install cuda-compat-12-8"),
    ],
)
def test_a_named_distribution_s_own_package_manager_installs_what_nvidia_has(system: str, command: str) -> None:
    found = why("torch==2.9", driver="550", gpu="A100", os=system).alternatives
    assert [one.commands[0] for one in found if one.kind is Change.COMPAT] == [command]


def test_the_oldest_driver_is_found_without_trying_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer judged more than a thousand builds; a binary search gives the same answer with a fifth of them."""
    count = 0

    def counted(*asked: object) -> object:
        nonlocal count
        count += 1
        return judging(*asked)

    judging: Callable[..., object] = judge_subject
    monkeypatch.setattr(search, "judge", counted)
    asked = answering.search(["torch==2.6.0"], Given(gpu="B200", driver="535"), None, MATRIX, versions=4)
    (found,) = planning.alternatives(asked)
    assert count < 300
    newer = [(one, put(asked.facts, made("nvidia-driver", str(one)))) for one in ground.upgrades(asked)]
    does = [one for one, facts in newer if ground.gpu_runs(facts, MATRIX) and planning.packages(asked, facts)]
    assert f"another driver: {does[0]} or newer" in found.change


def test_a_companion_has_a_wheel_for_the_python_that_is_here() -> None:
    """The package index has torchvision 0.20.1, for torch 2.5.1, for Python 3.9 to 3.12."""
    here = Place(python="3.12", system="linux-x86_64", held={}, asks={}, tag=None)
    assert release_for("torchvision", here, "2.5.1", MATRIX) == "0.20.1"
    assert release_for("torchvision", replace(here, python="3.13"), "2.5.1", MATRIX) is None


def test_no_server_is_recommended_that_names_no_newest_torch() -> None:
    """The doctor paired torch 2.7.1 with vLLM 0.2.5, which requires torch 2.1.1 or newer but is compiled for 2.1."""
    here = Place(python="3.12", system="linux-x86_64", held={"vllm": "0.27.0"}, asks={}, tag=None)
    for one in rows.releases(MATRIX):
        assert not (release_for("vllm", here, one.version, MATRIX) or "").startswith(("0.1.", "0.2.5", "0.2.6"))
