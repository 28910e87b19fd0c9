"""The loaders of OpenCL, Vulkan and Level Zero with real drivers, unpacked beside the system and really loaded.

Nothing is installed and no GPU is needed: PoCL and lavapipe compute on the processor, and Level Zero's loader finds no
driver. It needs apt-get and its archive (60 to 90 MB with dependencies are downloaded), and is skipped without them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.build import found, machine, seen
from tests.leaving import leave_out
from tests.patience import in_time
from tests.told import REPO

pytestmark = [pytest.mark.packages, pytest.mark.timeout(400)]
PACKAGES = ("ocl-icd-libopencl1", "pocl-opencl-icd", "libvulkan1", "mesa-vulkan-drivers", "libze1")
MOST_BYTES = 300_000_000


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the packages, and of their dependencies that are not installed."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if not apt or not dpkg:
        leave_out("no apt-get here: the loaders' packages cannot be fetched")
    folder = tmp_path_factory.mktemp("loaders")
    (folder / "archives/partial").mkdir(parents=True)
    options = ["-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={folder}/archives"]
    told = _run(apt, "install", "--reinstall", "--print-uris", "-qq", "--no-install-recommends", *options, *PACKAGES)
    rows = re.findall(r"^'\S+' (\S+?)_\S+ (\d+) ", told.stdout, re.MULTILINE)
    if told.returncode or not {*PACKAGES} <= {name for name, _ in rows}:
        leave_out(f"apt-get knows no such packages, or its lists are not fetched: {told.stderr.strip()[-200:]}")
    assert sum(int(size) for _, size in rows) < MOST_BYTES
    fetched = _run(apt, "download", "-q", "-o", "Acquire::Retries=3", *(name for name, _ in rows), folder=folder)
    if fetched.returncode:
        leave_out(f"apt-get could not fetch the packages: {fetched.stderr.strip()[-200:]}")
    for package in folder.glob("*.deb"):
        subprocess.run([dpkg, "-x", str(package), str(folder / "root")], check=True, timeout=120)
    return folder / "root"


def _run(*argv: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def ask(root: Path, row: str, **environ: str) -> dict[str, Any]:
    """Return the real probe's result in a child whose loader searches the unpacked folders first."""
    (folder,) = {path.parent for path in root.glob("usr/lib/*/libOpenCL.so.1")}
    inside = [folder, *(path.parent for path in root.glob("usr/lib/*/*/libLLVM*.so*"))]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(REPO / "probes"), row],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "LD_LIBRARY_PATH": ":".join(map(str, inside)),
            "POCL_CACHE_DIR": str(root / "cache"),
            **environ,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["id"] == row
    return dict(answer["instances"][0]) if answer["instances"] else {"status": answer["status"]}


@in_time  # the probe gives a loader a few seconds, and its first use of PoCL takes long on a loaded machine
def test_opencl_names_the_platform_and_the_device_of_pocl(root: Path) -> None:
    told = ask(root, "opencl", OCL_ICD_VENDORS=str(root / "etc/OpenCL/vendors"))
    assert told["path"].startswith(str(root))
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["version"])
    assert told["loader"] == "OpenCL ICD Loader"
    (platform,) = told["platforms"]
    assert platform["name"] == "Portable Computing Language"
    assert re.match(r"OpenCL [123]\.\d PoCL \d+\.\d", platform["version"])
    (device,) = platform["devices"]
    assert device["kind"] == "cpu"
    assert device["driver"].startswith(re.findall(r"PoCL (\d+\.\d+)", platform["version"])[0])
    assert [icd["loads"] for icd in told["icds"] if "pocl" in icd["file"]] == [True]


def test_a_file_for_a_driver_that_is_not_there_is_reported_and_found(root: Path, tmp_path: Path) -> None:
    for path in (root / "etc/OpenCL/vendors").glob("pocl*.icd"):
        shutil.copy(path, tmp_path)
    (tmp_path / "gone.icd").write_text("libgone-opencl.so.1\n", "utf-8")
    told = ask(root, "opencl", OCL_ICD_VENDORS=str(tmp_path))
    gone = next(icd for icd in told["icds"] if icd["file"].endswith("gone.icd"))
    assert (gone["library"], gone["path"], gone["loads"]) == ("libgone-opencl.so.1", None, None)
    assert len(told["platforms"]) == 1
    finding = found(machine(seen("opencl", {"key": "0", **told})), "opencl-icd-broken")
    assert finding is not None
    assert "libgone-opencl.so.1" in finding.title


def test_vulkan_names_lavapipe_and_its_queue(root: Path, tmp_path: Path) -> None:
    told = ask(root, "vulkan", VK_DRIVER_FILES=str(lavapipe(root, tmp_path)))
    assert re.fullmatch(r"1\.\d+\.\d+", told["version"])
    (device,) = told["devices"]
    assert device["name"].startswith("llvmpipe")
    assert (device["kind"], device["compute_queues"]) == ("cpu", 1)
    assert re.match(r"1\.\d+\.\d+", device["api"])


def test_a_manifest_for_a_driver_that_is_not_there_is_reported_and_found(root: Path, tmp_path: Path) -> None:
    # as unpacked: the manifests name the system's folder, where the drivers are not (or are, where Mesa is installed)
    gone = tmp_path / "gone_icd.json"
    gone.write_text(
        json.dumps({"ICD": {"library_path": "/nowhere/libvulkan_gone.so", "api_version": "1.3.0"}}), "utf-8"
    )
    told = ask(root, "vulkan", VK_DRIVER_FILES=f"{gone}:{lavapipe(root, tmp_path)}")
    assert [icd["path"] is None for icd in told["icds"]] == [True, False]
    assert len(told["devices"]) == 1
    finding = found(machine(seen("vulkan", {"key": "0", **told})), "vulkan-icd-broken")
    assert finding is not None
    assert finding.instance == str(gone)
    alone = ask(root, "vulkan", VK_ICD_FILENAMES=str(gone))
    assert (alone["code"], alone["devices"]) == (-9, [])


def lavapipe(root: Path, folder: Path) -> Path:
    """Return lavapipe's manifest, naming the driver where it was unpacked."""
    (path,) = [*root.glob("usr/share/vulkan/icd.d/lvp_icd*.json")][:1]
    said = json.loads(path.read_text("utf-8"))
    name = Path(said["ICD"]["library_path"]).name
    said["ICD"]["library_path"] = str(next(root.glob(f"usr/lib/*/{name}")))
    made = folder / "lvp_icd.json"
    made.write_text(json.dumps(said), "utf-8")
    return made


def test_level_zeros_loader_finds_no_driver_and_says_so(root: Path) -> None:
    told = ask(root, "level-zero")
    assert told["path"].startswith(str(root))
    assert re.fullmatch(r"1\.\d+\.\d+", told["version"])
    assert told["ze_init"] != 0
    assert told["drivers"] == []
