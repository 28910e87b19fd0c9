"""Real wheels, installed without their dependencies and read without importing them: each is reported with its version.

One environment for all, created once. The light ones run with the rest; those of some hundred megabytes carry the
marker ``system``. They are skipped where no package index can be reached.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import catalogue
from gpustack.collect.probing import look
from gpustack.diagnose.requirements.versions import draw
from gpustack.diagnose.rules import extension_abi
from gpustack.matrix import Matrix
from gpustack.model.facts import Status
from tests.leaving import leave_out
from tests.probes.stand_ins import python

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpustack.model.facts import Component, Facts

SECONDS = 240
LIGHT = (
    *("onnx", "onnxruntime", "jax", "jaxlib", "triton", "openvino", "nvmath-python", "numba", "numba-cuda"),
    *("cuda-core", "cuda-bindings", "cuda-pathfinder", "cuda-cccl"),
)
VERSIONS = {
    "onnx": "1.",
    "onnxruntime": "1.",
    "jax": "0.",
    "triton": "3.",
    "openvino": "20",
    "numba-cuda": "0.",
    "cuda-core": "1.",
    "cuda-bindings": "13.",
    "cuda-pathfinder": "1.",
    "cuda-compute": "1.",
    "nvmath-python": "1.",
}
HEAVY = (
    "tensorflow",
    "iree-base-compiler",
    "apache-tvm",
    "bentoml",
    "deepspeed",
    "vllm",
    "xformers",
    "onnxruntime-gpu",
)
TORCH = ("--index-url", "https://download.pytorch.org/whl/cpu", "torch")
OFFLINE = ("Could not find a version", "No matching distribution", "Connection", "Temporary failure", "timed out")
INSTALL = ("install", "--no-deps", "--no-compile", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")

pytestmark = [pytest.mark.timeout(SECONDS + 60)]


def install(site: Path, wanted: Sequence[str]) -> None:
    """Install distributions into a folder with our own pip; skip where no index can be reached."""
    command = [sys.executable, "-m", "pip", *INSTALL, "--target", str(site), "--upgrade", *wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        leave_out(f"the package index gave no answer in {SECONDS} s")
    if done.returncode and ("No module named pip" in done.stderr or any(word in done.stderr for word in OFFLINE)):
        leave_out(f"no packages to be had here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    program, site = python(tmp_path_factory.mktemp("packages") / "env")
    install(site, LIGHT)
    return program, site


@pytest.fixture(scope="module")
def light(environment: tuple[Path, Path]) -> Facts:
    return seen(environment[0])


def seen(program: Path) -> Facts:
    rows = [system for system in catalogue.load() if system.target]
    return look(pythons=[str(program)], systems=rows, timeout=60)


def component(facts: Facts, wanted: str) -> Component:
    found = facts.find(wanted)
    assert found is not None
    assert found.status is Status.PRESENT, found
    return found


@pytest.mark.packages
@pytest.mark.parametrize(("wanted", "floor"), VERSIONS.items())
def test_a_light_package_is_reported_with_its_version(light: Facts, wanted: str, floor: str) -> None:
    assert (component(light, wanted).version or "").startswith(floor)


@pytest.mark.packages
def test_onnx_tells_the_opset_that_it_writes(light: Facts) -> None:
    opset = component(light, "onnx").facts["opset"]
    assert isinstance(opset, int)
    assert opset >= 20


@pytest.mark.packages
def test_triton_tells_its_assembler_and_the_gpus_it_compiles_for(light: Facts) -> None:
    facts = component(light, "triton").facts
    assemblers, devices = facts["assemblers"], facts["devices"]
    assert isinstance(assemblers, dict)
    assert str(assemblers["ptxas"]).startswith(("12.", "13."))
    assert isinstance(devices, tuple)
    assert "cuda" in devices


@pytest.mark.packages
def test_xla_is_reported_through_jaxlib(light: Facts) -> None:
    xla, packages = component(light, "xla"), component(light, "packages")
    distributions = packages.facts["distributions"]
    assert isinstance(distributions, dict)
    assert xla.version == distributions["jaxlib"]


@pytest.mark.packages
def test_what_was_not_installed_is_absent(light: Facts) -> None:
    for wanted in ("vllm", "tensorflow", "sglang", "tgi", "deepspeed", "torch-compile", "torch-extensions"):
        found = light.find(wanted)
        assert found is not None
        assert found.status is Status.ABSENT


@pytest.mark.system
@pytest.mark.timeout(1800)
def test_heavy_packages_are_reported_with_their_versions_and_judged_against_torch(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    install(site, TORCH)
    for name in HEAVY:
        install(site, [name])
    install(site, ["torchvision==0.20.1"])  # for torch 2.5: must be found out
    facts = seen(program)
    for wanted in (
        "pytorch",
        "torchscript",
        "torch-compile",
        "tensorflow",
        "xla",
        "iree",
        "tvm",
        "bentoml",
        "deepspeed",
    ):
        assert component(facts, wanted).version
    assert component(facts, "vllm").facts["built_for"]
    assert component(facts, "tensorflow").build in {"cuda12", "cuda13", "cpu"}
    assert component(facts, "torch-extensions").instances
    (finding,) = extension_abi.torch_torchvision_mismatch(facts, Matrix())
    assert "which this torch does not offer" in finding.detail
    assert not [one for one in extension_abi.extension_abi_mismatch(facts, Matrix()) if one.component == "xformers"]
    assert {one.kind for one in draw(facts, Matrix())} >= {"technique", "compiler", "torch"}
