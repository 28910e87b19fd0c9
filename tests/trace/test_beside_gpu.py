"""gpustack trace --cpu from end to end on a stand-in GPU: both run the model, and the break-even point is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import idle

pytest.importorskip("numpy")
pytest.importorskip("cuda.core")


@pytest.fixture
def environ(driver: Path, products: str, host_kernels: Path, tmp_path: Path) -> dict[str, str]:
    """Return what makes gpustack see the stand-in driver, and the stand-in cuBLASLt in the active environment."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "lib" / Path(products).name).symlink_to(products)
    found = {"LD_LIBRARY_PATH": str(driver), "FAKE_KERNELS": str(host_kernels), "VIRTUAL_ENV": str(tmp_path)}
    return {**os.environ, **found, "FAKE_MEMORY": str(16 << 20)}  # what is copied is really copied


def run(environ: dict[str, str], *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "gpustack", "trace", "--format", "json", "--precision", "fp32", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=idle(110))
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_both_run_the_model_and_the_crossing_is_reported(environ: dict[str, str]) -> None:
    code, trace = run(environ, "--cpu")
    assert (code, trace["failed"]) == (0, None), [step["why"] for step in trace["steps"]]
    assert {step["status"] for step in trace["steps"]} == {"done"}
    assert [check["what"] for check in trace["checks"]][-1] == "output on the CPU"
    assert all(check["passed"] for check in trace["checks"])
    assert [one["name"] for one in trace["cpu_layers"]] == [one["name"] for one in trace["layers"]]
    both = [one["batch"] for one in trace["crossover"]["points"] if one["cpu_seconds"] and one["gpu_seconds"]]
    assert both == [1, 4, 16, 64]
    assert trace["crossover"]["says"]
    assert any("at batch 1 the GPU takes" in why for why in trace["crossover"]["why"])
    assert trace["processor"]["threads"] >= 1
