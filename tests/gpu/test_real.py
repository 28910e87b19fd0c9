"""Tests that need a real NVIDIA GPU: ranges and relations, not numbers. Run with ``pytest -m gpu``."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]
INSTALLED = Path(sys.executable).parent / "gpustack"  # never that of the current folder, if there is another
COMMAND = [str(INSTALLED)] if INSTALLED.exists() else [sys.executable, "-m", "gpustack"]
HEALTHY = {"healthy", "degraded"}


@cache
def gpustack(*arguments: str) -> Any:  # noqa: ANN401 - JSON
    done = subprocess.run([*COMMAND, *arguments, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return json.loads(done.stdout)


def component(report: Any, name: str) -> Any:  # noqa: ANN401 - JSON
    (found,) = [row for row in report["components"] if row["id"] == name]
    return found


@pytest.mark.parametrize("deep", [(), ("--deep",)], ids=["doctor", "doctor --deep"])
def test_a_machine_that_works_is_not_called_broken(deep: tuple[str, ...]) -> None:
    report = gpustack("doctor", *deep)
    assert report["verdict"]["status"] in HEALTHY
    assert [found["id"] for found in report["findings"] if found["severity"] == "error"] == []
    assert {row["id"] for row in report["components"] if row["status"] == "failed"} == set()


def test_the_three_versions_of_the_driver_agree_and_cuda_answers() -> None:
    report = gpustack("doctor")
    driver = component(report, "nvidia-driver")
    assert driver["version"] == component(report, "nvml")["version"] == component(report, "nvidia.ko")["version"]
    cuda = component(report, "libcuda")["facts"]
    assert (cuda["cu_init"], cuda["driver_cuda"] >= 12000) == (0, True)


def test_nvml_and_cuda_see_the_same_gpus() -> None:
    report = gpustack("doctor")
    by_nvml = {copy["facts"]["pci"]: copy["facts"] for copy in component(report, "gpu")["instances"]}
    by_cuda = {device["pci"]: device for device in component(report, "libcuda")["facts"]["devices"]}
    assert by_cuda.keys() <= by_nvml.keys()
    for pci, device in by_cuda.items():
        assert device["name"] == by_nvml[pci]["name"]
        assert device["cc"] == by_nvml[pci]["cc"]
        assert 0.9 < by_nvml[pci]["memory"]["total_mib"] * 2**20 / device["attributes"]["memory_bytes"] < 1.1


@pytest.mark.parametrize("framework", ["pytorch", "jax"])
def test_what_a_framework_really_loads_is_read_from_its_own_memory_map(framework: str) -> None:
    found = component(gpustack("doctor", "--deep"), framework)
    if found["status"] != "present" or found["build"] == "cpu":
        pytest.skip(f"there is no {framework} for CUDA in the Python that is examined")
    exercise = found["facts"]["exercise"]
    assert (exercise["ran"], exercise["ok"]) == (True, True)
    assert exercise["device"].startswith("cuda")
    assert exercise["loaded"]["libcuda"]


def test_figures_are_real_steady_and_below_their_limit() -> None:
    report = gpustack("bench", "--quick", "--gpu", "0")
    results = {row["id"]: row for row in report["results"]}
    assert {row["verdict"] for row in results.values()} <= {"ok", "unsteady", "skipped", "low"}
    for name in ("pcie.h2d.pinned", "pcie.d2h.pinned", "hbm.read", "hbm.write", "hbm.copy"):
        assert 0.5 < results[name]["ratio"] < 1.05
        assert results[name]["p05"] <= results[name]["median"] <= results[name]["p95"]
        assert len(results[name]["samples"]) >= 3


def test_tensor_cores_beat_the_plain_lanes() -> None:
    names = ("gemm.bf16", "gemm.tf32", "gemm.fp32")
    results = {row["id"]: row for row in gpustack("bench", "--quick", *names)["results"]}
    if results["gemm.bf16"]["verdict"] == "skipped":
        pytest.skip("there is no cuBLASLt on this machine")
    assert results["gemm.bf16"]["value"] > 3 * results["gemm.tf32"]["value"] / 2 > results["gemm.fp32"]["value"]
