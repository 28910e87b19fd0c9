"""AMD's libraries from the distribution's packages, unpacked beside the system and really loaded: no GPU is needed.

Nothing is installed. It needs apt-get and its archive (27 MB are downloaded), and is skipped where one is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.leaving import leave_out
from tests.told import REPO

pytestmark = [pytest.mark.packages, pytest.mark.timeout(300)]
HIP = ("libamdhip64-5", "libamdhip64-6", "libamdhip64-7")  # one in each release of a distribution
PACKAGES = (
    *HIP,
    "librocm-smi64-1",
    "libhsa-runtime64-1",
    "libhsakmt1",
    "libamd-comgr2",
    "libdrm-amdgpu1",
    "libdrm2",
    "libnuma1",
    "libelf1",
    "librocrand1",
)
ROWS = {row["id"]: row for row in json.loads((REPO / "probes" / "catalogue.json").read_text("utf-8"))["systems"]}


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages' files in it."""
    apt, dpkg, cache = (shutil.which(tool) for tool in ("apt-get", "dpkg", "apt-cache"))
    if not apt or not dpkg or not cache:
        leave_out("no apt-get here: AMD's packages cannot be fetched")
    folder = tmp_path_factory.mktemp("amd")
    there = [name for name in PACKAGES if _known(cache, name)]
    if not {*HIP} & {*there}:
        leave_out("this distribution has no package libamdhip64-5 to -7, or its lists are not fetched")
    wanted = [apt, "download", "-o", "Acquire::Retries=3", *there]
    told = subprocess.run(wanted, cwd=folder, capture_output=True, text=True, check=False, timeout=240)
    if told.returncode:
        leave_out(f"apt-get could not fetch the packages: {told.stderr.strip()[-200:]}")
    for package in folder.glob("*.deb"):
        subprocess.run([dpkg, "-x", str(package), str(folder / "root")], check=True, timeout=60)
    return folder / "root"


def _known(cache: str, package: str) -> bool:
    said = subprocess.run([cache, "policy", package], capture_output=True, text=True, check=False, timeout=60)
    return "Candidate: " in said.stdout and "Candidate: (none)" not in said.stdout


def ask(root: Path, row: str) -> dict[str, Any]:
    """Return the probe's result in a child whose loader searches the unpacked folders first."""
    folders = [str(root / "usr/lib/x86_64-linux-gnu"), str(root / "usr/lib"), str(root / "usr/lib/aarch64-linux-gnu")]
    environ = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}
    asked = json.dumps({"rows": [{**ROWS[row], "folders": folders}], "seconds": 20.0})
    done = subprocess.run(
        [sys.executable, str(REPO / "probes"), asked],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def unpacked_copy(root: Path, row: str) -> dict[str, Any]:
    answer = ask(root, row)
    found = [copy for copy in answer["instances"] if copy["path"].startswith(str(root))]
    assert found, answer
    return dict(found[0])


def test_hip_loads_and_tells_its_version_without_a_gpu(unpacked: Path) -> None:
    copy = unpacked_copy(unpacked, "hip")
    assert (copy["status"], copy["version_from"], copy["graphs"]) == ("present", "library", True)
    assert copy["version"].split(".")[0] in {"5", "6", "7"}


def test_the_hsa_runtime_and_libdrm_are_recognised_by_their_files(unpacked: Path) -> None:
    assert unpacked_copy(unpacked, "hsa-runtime")["version"].startswith("1.")
    assert unpacked_copy(unpacked, "libdrm-amdgpu")["soname"] == "libdrm_amdgpu.so.1"


def test_rocrand_tells_its_version_in_the_encoding_that_the_row_states(unpacked: Path) -> None:
    row = {**ROWS["rocrand"], "lazy": False}
    ROWS["rocrand asked"] = row
    copy = unpacked_copy(unpacked, "rocrand asked")
    assert (copy["version_from"], copy["version"].split(".")[0]) in {("library", "2"), ("library", "3")}


def test_rocm_smi_loads_in_its_own_process_and_says_what_it_finds(unpacked: Path) -> None:
    copy = unpacked_copy(unpacked, "rocm-smi")
    assert (copy["status"], copy["loaded"], copy["library"]) == ("present", True, "librocm_smi64")
    assert copy["code"] in {0, 8}
    assert copy["code"] == 8 or copy["gpus"] >= 0
