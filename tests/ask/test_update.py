"""Updating rows from an index: the user's own pip is run, here on a folder of small wheels instead of an index."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpustack.collect.updates import compare, save
from gpustack.errors import NothingSeenError, UsageError
from gpustack.matrix import Matrix
from gpustack.report.knowledge_text import render_matrix
from tests.ask.questions import MATRIX, command, written

CUDA_13 = "cuda-toolkit[cublas,cudart]==13.2.1; platform_system == 'Linux'"


def wheel(folder: Path, name: str, version: str, requires_python: str, *requires: str) -> None:
    """Write a wheel that contains only its metadata."""
    folder.mkdir(exist_ok=True)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Requires-Python: {requires_python}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that pip uses as the whole index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def newest(table: str, part: str, key: str) -> str:
    """Return the version of the last row."""
    return str(MATRIX.table(table)[part][-1][key])


def changed(names: Sequence[str], matrix: Matrix = MATRIX) -> dict[str, tuple[str | None, str]]:
    return {one.key: (one.was, one.now) for one in compare(names, matrix, 60).changes}


def test_a_release_without_a_row_is_new_and_one_that_agrees_is_counted(index: Path) -> None:
    row = MATRIX.table("tensorflow")["pins"][-1]
    wheel(index, "tensorflow", row["tensorflow"], row["requires_python"], "numpy")
    wheel(index, "tensorflow", "99.1.0", ">=3.8", "numpy>=2")
    found = compare(["tensorflow"], MATRIX, 60)
    assert (found.same, [one.key for one in found.changes]) == (1, ["99.1.0"])
    assert found.changes[0].was is None
    said = 'requires_python = ">=3.8", source = "METADATA of the tensorflow 99.1.0 wheel"'
    assert said in found.changes[0].now
    written(found, "matrix-update")
    assert "99.1.0 (new)" in render_matrix(found)


def test_a_row_that_differs_shows_both_sides(index: Path) -> None:
    version = newest("tensorflow", "pins", "tensorflow")
    wheel(index, "tensorflow", version, ">=3.8", "numpy")
    was, now = changed(["tensorflow"])[version]
    assert was
    assert '">=3.8"' not in was
    assert 'requires_python = ">=3.8"' in now
    assert 'keras = ">=3.12.0"' in now  # what the metadata does not state is left unchanged


def test_the_default_build_of_torch_follows_from_what_its_wheel_requires(index: Path) -> None:
    wheel(index, "torch", "99.0.0", ">=3.8", "filelock", CUDA_13)
    wheel(index, "torch", "99.1.0", ">=3.8", "nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'")
    found = changed(["torch"])
    assert 'default = "cu132"' in found["99.0.0"][1]
    assert 'default = "cu128"' in found["99.1.0"][1]


def test_releases_that_this_python_is_not_shown_are_said_to_be_unread(index: Path) -> None:
    wheel(index, "tensorflow", "2.14.0", ">=3.8", "numpy")
    found = compare(["tensorflow"], MATRIX, 60)
    assert (found.same, found.changes) == (0, ())
    assert found.unread == ("tensorflow: the index offers this Python nothing as new as the newest row",)


def test_what_is_written_are_rows_as_tables_hold_them(index: Path, tmp_path: Path) -> None:
    wheel(index, "torch", "99.0.0", ">=3.8", CUDA_13)
    save(compare(["pytorch"], MATRIX, 60), tmp_path / "new")
    rows = Matrix(tmp_path / "new").table("torch_wheels.patches")["patches"]
    assert [(row["torch"], row["default"], row["requires_python"]) for row in rows] == [("99.0.0", "cu132", ">=3.8")]
    assert rows[0]["source"] == "METADATA of the torch 99.0.0 wheel"


def test_an_index_that_does_not_answer_is_one_clear_line(index: Path) -> None:
    assert not list(index.iterdir())
    with pytest.raises(NothingSeenError):
        compare(["tensorflow"], MATRIX, 60)
    done = command("update", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index))
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpustack: the package index could not be asked: ")


def test_a_name_that_no_wheel_tells_of_is_refused() -> None:
    with pytest.raises(UsageError, match="torch"):
        compare(["gcc"], MATRIX, 60)
