"""Packages that depend on torch change together: one command with every pin, and nothing broken is left behind."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose import installing
from gpustack.diagnose.change_sets import change_set
from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine.completing import complete
from gpustack.imports import load
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import generated
from gpustack.model.facts import Environment, Facts, Host
from tests.build import PYTHON, merged, on, seen, torch

if TYPE_CHECKING:
    from gpustack.model.report import Fix, Report

MATRIX = Matrix()
SMI = """| NVIDIA-SMI {driver}             Driver Version: {driver}     CUDA Version: {cuda}     |
|   0  {name}          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   30C    P0             71W /  700W |       1MiB /  81559MiB |      0%      Default |
"""


def pasted(listed: str, name: str = "NVIDIA H100 80GB HBM3", driver: str = "570.133.20", cuda: str = "12.8") -> Facts:
    lines = "".join(f"{one.replace('==', ' ' * 8)}\n" for one in listed.split())
    text = f"{SMI.format(name=name, driver=driver, cuda=cuda)}\nPackage           Version\n----------- -------\n{lines}"
    return complete(load(["-"], io.BytesIO(text.encode()), MATRIX), MATRIX)


def report(listed: str, *machine: str) -> Report:
    return judge(pasted(listed, *machine), MATRIX)


def fixes(made: Report, *ids: str) -> list[Fix]:
    return [one.fix for one in made.findings if one.fix and one.id in ids]


def test_vllm_beside_another_torch_is_one_change_set() -> None:
    """Torch returns to the release that vLLM was compiled for, and what already fits that release stays."""
    made = report("torch==2.9.0 torchvision==0.23.0 torchaudio==2.8.0 vllm==0.11.0")
    found = fixes(made, "torch-torchvision-mismatch", "pin-violated", "extension-abi-mismatch")
    assert found
    wanted = "python -m pip install torch==2.8.0 torchvision==0.23.0 torchaudio==2.8.0 vllm==0.11.0"
    assert {one.commands for one in found} == {(wanted,)}
    assert "stay" in found[0].text


def test_two_packages_that_torch_left_behind_follow_it_together() -> None:
    (advice, *others) = fixes(
        report("torch==2.9.0 torchvision==0.23.0 torchaudio==2.8.0"), "torch-torchvision-mismatch"
    )
    assert "torchvision==0.24.0+cu128 torchaudio==2.9.0+cu128" in advice.commands[0]
    assert all(one.commands == advice.commands for one in others)


@pytest.mark.parametrize(
    ("listed", "pins"),
    [
        # Not the newest bitsandbytes, which would replace torch 2.1
        ("torch==2.1.2 torchvision==0.16.2 bitsandbytes==0.50.2", {"torch": "2.1.2", "bitsandbytes": "0.45.5"}),
        ("torch==2.4.1 torchvision==0.19.1 xformers==0.0.30", {"torch": "2.4.1", "xformers": "0.0.28.post1"}),
        ("torch==2.1.2 torchvision==0.16.2 flash-attn==2.8.3", {"torch": "2.1.2", "flash-attn": "2.7.3"}),
        ("torch==2.9.0 vllm==0.11.0 torchvision==0.24.0 torchaudio==2.9.0 xformers==0.0.33.post1", {"vllm": "0.11.1"}),
    ],
)
def test_an_extension_comes_in_the_release_that_fits_the_torch_beside_it(listed: str, pins: dict[str, str]) -> None:
    facts = pasted(listed)
    change = change_set(facts, MATRIX)
    assert change is not None
    assert {name: change.pins[name] for name in pins} == pins
    typed = installing.commands(change, facts, None)
    assert all(f"{name}=={version}" in " ".join(typed) for name, version in change.pins.items())
    assert all("--no-build-isolation" in one for one in typed if "flash-attn" in one)


@pytest.mark.parametrize(
    ("held", "driver", "python", "left"),
    [
        # its METADATA asks for 3.11
        ({"torch": "2.6.0", "torchvision": "0.21.0", "torchaudio": "2.8.0", "vllm": "0.33.0"}, 580, "3.10", "0.33.0"),
        # those for torch 2.4.0 require a pyairports that the index no longer has
        (
            {"torch": "2.4.0", "torchvision": "0.19.0", "torchaudio": "2.4.0", "vllm": "0.25.0"},
            570,
            "3.12",
            "0.6.3.post1",
        ),
    ],
)
def test_no_plan_names_a_server_that_cannot_be_installed_on_this_python(
    held: dict[str, str], driver: int, python: str, left: str
) -> None:
    here = seen("python", {"version": f"{python}.1", "glibc": "2.35"})
    listed = seen("packages", {"distributions": held})
    machine = on(f"{driver}.95.05", 13000 if driver > 570 else 12080, torch(held["torch"], "cu124", "12.4"), cc="8.0")
    facts = merged(merged(machine, here), listed)
    change = change_set(facts, MATRIX, PYTHON)
    assert change is not None
    assert change.pins["vllm"] != left
    served = generated.release_of(MATRIX, "vllm", change.pins["vllm"])
    assert served is not None
    assert served.python.holds(python)
    assert generated.unserved(MATRIX, "vllm", served.version) is None


def test_nothing_changes_where_all_fits() -> None:
    assert change_set(pasted("torch==2.9.0 torchvision==0.24.0 torchaudio==2.9.0 vllm==0.11.2"), MATRIX) is None


@pytest.mark.parametrize(
    ("python", "kind", "start"),
    [
        ("/home/u/app/.venv/bin/python", "uv", "uv pip install --python /home/u/app/.venv/bin/python torch=="),
        ("/home/u/.cache/pypoetry/virtualenvs/app/bin/python", "venv", "poetry add torch=="),
        ("/home/u/app/.pixi/envs/default/bin/python", "conda", "pixi add --pypi torch=="),
        ("/opt/venv/bin/python", "venv", "/opt/venv/bin/python -m pip install torch=="),
    ],
)
def test_packages_are_installed_as_the_environment_is_managed(python: str, kind: str, start: str) -> None:
    change = change_set(pasted("torch==2.9.0 vllm==0.11.0"), MATRIX)
    assert change is not None
    facts = Facts(taken="", host=Host(), environments=(Environment(python=python, kind=kind),))
    assert installing.commands(change, facts, python)[0].startswith(start)


@pytest.mark.parametrize(
    ("name", "driver", "cuda", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "470.256.02", "11.4", "torch==2.5.1+cu118"),
        ("NVIDIA A100-SXM4-40GB", "470.256.02", "11.4", "torch==2.5.1+cu118"),
    ],
)
def test_a_torch_that_does_not_run_here_takes_its_companions_along(
    name: str, driver: str, cuda: str, wanted: str
) -> None:
    made = report("torch==2.5.1 torchvision==0.20.1 torchaudio==2.5.1", name, driver, cuda)
    (advice,) = fixes(made, "arch-not-in-build", "driver-too-old-for-cuda-build")
    (command,) = [one for one in advice.commands if "torch==" in one]
    assert wanted in command
    assert "torchvision==0.2" in command
    assert "torchaudio==2." in command


def test_a_server_that_does_not_start_on_this_gpu_is_neither_kept_nor_advised() -> None:
    """On a V100 vLLM starts up to 0.10; all that is wrong in one Python gets the one set of changes."""
    listed = {"torch": "2.11.0", "torchvision": "0.26.0", "torchaudio": "2.11.0", "vllm": "0.27.1"}
    here = seen("python", {"version": "3.12.1", "glibc": "2.35"})
    machine = merged(on("530.41.03", 12010, torch("2.11.0", "cu128", "12.8", archs=["sm_75"]), cc="7.0"), here)
    for environment in (PYTHON, None):  # the list of packages may not say whose it is
        found = seen("packages", {"environment": environment, "distributions": listed})
        typed = [one.fix.commands for one in judge(merged(machine, found), MATRIX).findings if one.fix]
        pinned = [one for commands in typed for one in commands if "torch==" in one]
        assert len(pinned) > 1
        assert all(one.endswith("torch==2.8.0 torchvision==0.23.0 torchaudio==2.8.0 vllm==0.10.2") for one in pinned)
        assert not [commands for commands in typed if any("nvidia-driver" in one for one in commands)]
