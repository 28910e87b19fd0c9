"""What is built and installed: one pure wheel, only ``gpustack`` in site-packages, and no other package moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPO = Path(__file__).resolve().parent.parent
FOLDERS = ("gpustack", "probes", "microbench", "compat-matrix", "examples")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_CONFIG"}
    }
    done = subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fresh(folder: Path) -> Path:
    """Return the Python of a new environment, without pip."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path) -> None:
    """Install with uv: pip is covered by tests/test_command_blocks.py."""
    run(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, *what)


def site_packages(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the contents of a checkout, so that no build writes into ours."""
    copy = tmp_path_factory.mktemp("checkout") / "gpustack"
    copy.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPO / name, copy)
    shutil.copytree(REPO / "docs/man", copy / "docs/man")
    for name in FOLDERS:
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".made"))
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that is built from the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", out, source)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_is_pure_and_holds_gpustack_alone(wheel: Path, source: Path) -> None:
    assert wheel.name.startswith("gpustack_doctor-")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if ".dist-info/" not in name}
    pages = {name.rpartition("/")[2] for name in ours if ".data/data/share/man/man1/" in name}
    assert pages == {path.name for path in (source / "docs/man").glob("*.1")} > {"gpustack-doctor.1"}
    assert {name.split("/")[0] for name in ours if ".data/data/share/man/" not in name} == {"gpustack"}
    for folder in FOLDERS[1:]:
        files = {str(path.relative_to(source)) for path in (source / folder).rglob("*") if path.is_file()}
        once = {name for name in files if name == "compat-matrix/candidates.toml"}  # large, so as JSON alone
        assert {f"gpustack/_shipped/{name}" for name in files - once} <= names
        assert {f"gpustack/_shipped/{name.replace('.toml', '.json')}" for name in once} <= names
    assert "gpustack/py.typed" in names


def test_the_wheel_has_each_table_in_the_form_that_is_read_fast(wheel: Path) -> None:
    held = zipfile.ZipFile(wheel)
    tables = [name for name in held.namelist() if "/compat-matrix/" in name and name.endswith(".toml")]
    assert len(tables) > 30
    for name in tables:
        assert json.loads(held.read(name.replace(".toml", ".json"))) == tomllib.loads(held.read(name).decode())


def test_the_installed_wheel_works_with_nothing_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "env")
    before = {path.name for path in site_packages(python).iterdir()}
    install(python, wheel)
    new = {path.name for path in site_packages(python).iterdir()} - before
    assert {name for name in new if name in {*FOLDERS, "tests", "docs", "benchmarks"}} == {"gpustack"}
    command = python.parent / "gpustack"
    report = json.loads(run(command, "doctor", "--format", "json", cwd=tmp_path))
    assert {row["id"]: row["status"] for row in report["components"]}["linux-kernel"] == "present"
    assert run(command, "--version", cwd=tmp_path).startswith("gpustack ")


def test_uv_sync_works(source: Path, tmp_path: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("uv is not installed here")
    copy = tmp_path / "checkout"
    shutil.copytree(source, copy)
    run(uv, "sync", "--quiet", "--no-progress", "--python", sys.executable, cwd=copy)
    assert json.loads(run(copy / ".venv/bin/gpustack", "doctor", "--format", "json", cwd=tmp_path))["components"]


def test_the_bench_extra_leaves_the_bindings_of_the_patient_where_they_are(wheel: Path, tmp_path: Path) -> None:
    """The metapackage cuda-python would move them: docs/decisions/0002."""
    python = fresh(tmp_path / "env")
    install(python, "cuda-bindings==12.9.4")
    install(python, f"{wheel}[bench]")
    assert "cuda-bindings==12.9.4\n" in run(sys.executable, "-m", "uv", "pip", "freeze", "--python", python)
    assert run(python, "-c", "import cuda.core; print(cuda.core.__version__)").startswith("1.")
    install(python, "pytest", "pytest-rerunfailures", "pytest-timeout", "hypothesis")
    plain = ("-o", "addopts=--import-mode=importlib")  # without the options of plugins that are not here
    stand_in = ("-m", "pytest", "-p", "no:cacheprovider", *plain, "tests/bench/test_stand_in.py")
    assert "passed" in run(python, *stand_in, "-v", "-k", "older_drivers or all_nine", cwd=REPO)
