"""gpustack.pyz: one file that any Python from 3.10 on runs, without a network and wherever it may write."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import zipapp

REPO = Path(__file__).resolve().parents[2]
OLD = REPO / "examples/driver-too-old.json"
PROGRAM = "import json, sys\nprint(json.dumps([__file__, sys.argv[1:], sys.path]))\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return what is installed: a gpustack that prints its location, and what installers write beside it."""
    folder = tmp_path / "site"
    for name, text in {
        "gpustack/__main__.py": PROGRAM,
        "gpustack/__init__.py": "",
        "gpustack/__pycache__/x.pyc": "compiled",
        "bin/gpustack": "#!/nowhere/python",
        "gpustack_doctor-1.dist-info/METADATA": "Name: gpustack-doctor",
        "gpustack_doctor-1.dist-info/licenses/LICENSE": "Apache",
        "gpustack_doctor-1.dist-info/direct_url.json": '{"url": "file:///home/somebody"}',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def run(archive: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TMPDIR": str(home.parent)}
    return subprocess.run(
        [sys.executable, archive, *arguments], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_archive_holds_what_runs_and_nothing_of_the_machine_that_built_it(site: Path, tmp_path: Path) -> None:
    zipapp.pack(site, tmp_path / "one.pyz")
    os.utime(site / "gpustack/__init__.py", (1, 1))
    zipapp.pack(site, tmp_path / "two.pyz")
    assert (tmp_path / "one.pyz").read_bytes() == (tmp_path / "two.pyz").read_bytes()
    about = "site/gpustack_doctor-1.dist-info"
    assert zipfile.ZipFile(tmp_path / "one.pyz").namelist() == [
        "DIGEST",
        "__main__.py",
        "site/gpustack/__init__.py",
        "site/gpustack/__main__.py",
        f"{about}/METADATA",
        f"{about}/licenses/LICENSE",
    ]
    (site / "gpustack/fast.so").write_bytes(b"")
    with pytest.raises(ValueError, match="is for one platform alone"):
        zipapp.pack(site, tmp_path / "three.pyz")


def test_it_is_unpacked_once_and_runs_before_what_is_installed(site: Path, tmp_path: Path) -> None:
    archive, home = tmp_path / "gpustack.pyz", tmp_path / "home"
    home.mkdir()
    zipapp.pack(site, archive)
    file, arguments, path = json.loads(run(archive, home, "doctor", "-v").stdout)
    assert arguments == ["doctor", "-v"]
    assert Path(file).is_relative_to(home / ".cache/gpustack/pyz")
    assert path[0] == str(Path(file).parents[1])
    before = Path(file).stat().st_ino
    assert json.loads(run(archive, home).stdout)[0] == file
    assert Path(file).stat().st_ino == before
    (site / "gpustack/__init__.py").write_text("new = 1\n", "utf-8")
    zipapp.pack(site, archive)
    assert json.loads(run(archive, home).stdout)[0] != file, "another release is unpacked beside it"


@pytest.mark.parametrize("how", ["a file in the way", "open to others"])
def test_where_no_cache_may_be_trusted_or_written_it_runs_from_a_folder_that_goes_again(
    how: str, site: Path, tmp_path: Path
) -> None:
    archive, home = tmp_path / "gpustack.pyz", tmp_path / "home"
    zipapp.pack(site, archive)
    if how == "open to others":
        (home / ".cache/gpustack/pyz").mkdir(parents=True)
        (home / ".cache/gpustack/pyz").chmod(0o777)
    else:
        home.mkdir()
        (home / ".cache").write_text("", "utf-8")
    file = json.loads(run(archive, home).stdout)[0]
    assert Path(file).is_relative_to(tmp_path)
    assert not Path(file).is_relative_to(home)
    assert not Path(file).exists()
    assert list(tmp_path.glob("gpustack-*")) == []


def test_a_python_that_is_too_old_is_named_in_one_line(site: Path, tmp_path: Path) -> None:
    archive = tmp_path / "gpustack.pyz"
    zipapp.pack(site, archive)
    program = (
        "import runpy, sys\n"
        "sys.version_info = (3, 6, 9)\n"
        f"sys.argv = [{str(archive)!r}]\n"
        f"runpy.run_path({str(archive)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("gpustack: Python 3.10 or newer is needed; this is Python 3.6.9 (/")
    assert len(done.stderr.splitlines()) == 1


def test_what_names_a_python_that_is_too_old_can_be_read_by_it() -> None:
    ast.parse((REPO / "tools/zipapp/start.py").read_text("utf-8"), feature_version=(3, 6))


@pytest.mark.packages
@pytest.mark.timeout(300)
def test_the_real_one_is_the_same_twice_and_does_its_work_alone(tmp_path: Path) -> None:
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(build, cwd=REPO, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    archive, again, home = tmp_path / "gpustack.pyz", tmp_path / "again.pyz", tmp_path / "home"
    home.mkdir()
    zipapp.build(wheel, archive)
    zipapp.build(wheel, again)
    assert archive.read_bytes() == again.read_bytes()
    assert archive.stat().st_size < 8_000_000
    recorded = json.loads(run(archive, home, "doctor", "--from", str(OLD), "--format", "json").stdout)
    assert recorded["verdict"]["root_causes"] == ["driver-too-old-for-cuda-build"]
    here = json.loads(run(archive, home, "doctor", "--format", "json").stdout)
    assert {one["id"]: one["status"] for one in here["components"]}["linux-kernel"] == "present"
    assert "fallen off the bus" in run(archive, home, "explain", "xid", "79").stdout
    hint = "".join(run(archive, home, "doctor", "--from", str(OLD)).stdout.split())  # a long path is wrapped
    assert f"python3{archive}explaindriver-too-old-for-cuda-buildsayswhy" in hint
    for python in filter(None, (shutil.which(f"python3.{minor}") for minor in range(10, 15))):
        done = subprocess.run([python, archive, "--version"], env={**os.environ, "HOME": str(home)}, check=False)
        assert done.returncode in {0, 127}, python  # 127: a shim for a Python that is not installed
