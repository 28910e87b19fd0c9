"""``gpustack check`` from end to end on a stand-in driver: it probes, measures, and judges the measurements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpustack.collect import isolation
from tests.bench.test_bench_command import standing_in
from tests.patience import idle

POLICY = """\
[gpus]
count = 1
name = "NVIDIA *"

[bench.least]
"pcie.*" = 1.5
"hbm.*" = 0.5
"""


def check(at: Path, *folders: Path, python_path: str = "") -> dict[str, Any]:
    """Return the check's report as JSON, with these folders on the library path."""
    paths = ":".join([*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")])
    more = {"LD_LIBRARY_PATH": paths, "FAKE_MEMORY": "1000000", "PYTHONPATH": python_path}
    done = subprocess.run(
        [sys.executable, "-m", "gpustack", "check", "--format", "json"],
        cwd=at,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=idle(110),
    )
    assert done.returncode == 1, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@standing_in
def test_a_gpu_is_probed_and_measured_and_its_figures_are_checked_against_the_policy(
    driver: Path, nvml: Path, tmp_path: Path
) -> None:
    (tmp_path / "gpustack.toml").write_text(POLICY)
    report = check(tmp_path, driver, nvml)
    rows = {row["rule"]: row["ok"] for row in report["policy"]}
    assert rows["gpus.name"] is True
    assert (rows["bench.least.pcie.*"], rows["bench.least.hbm.*"]) == (False, True)
    assert report["bench"]["quick"] is True
    assert report["class"] == "bad-host"
    assert report["verdict"]["root_causes"][0] == "gpu-ecc-error", "the stand-in counts memory errors"


@standing_in
def test_without_the_packages_of_the_bench_its_rules_are_unknown_and_the_doctor_still_speaks(
    driver: Path, nvml: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken" / "cuda"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('cuda-core is not installed')\n")
    (tmp_path / "gpustack.toml").write_text(POLICY)
    report = check(tmp_path, driver, nvml, python_path=f"{broken.parent}:{isolation.OWN}")
    rows = {row["rule"]: (row["ok"], row["found"]) for row in report["policy"]}
    assert rows["bench.least.hbm.*"][0] is None
    assert rows["bench"][1].startswith("not measured: ")
    assert "cuda-core" in rows["bench"][1]
    assert report["bench"] is None
    assert report["class"] == "bad-host"
