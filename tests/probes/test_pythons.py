"""Where Pythons are found: each tool's own folders, in a small tree that stands in for a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, load

PYTHONS = load("pythons.py")
CFG = "home = /usr/bin\nversion_info = 3.11.2.final.0\n"


def put(root: Path, prefix: str, mark: str | None = "pyvenv.cfg") -> None:
    """Create a prefix with a program in it."""
    folder = root / prefix.lstrip("/")
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    program = folder / "bin/python"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    if mark == "pyvenv.cfg":
        (folder / mark).write_text(CFG)
    elif mark:
        (folder / mark).mkdir()


def ask(root: Path, place: str, row: dict[str, Any] | None = None, **environ: str) -> list[dict[str, Any]]:
    host = Host(root=str(root), environ={"HOME": "/home/u", **environ}, seconds=1.0)
    host.row = {"place": place, **(row or {})}
    found = PYTHONS["probe"](host)
    return found if isinstance(found, list) else []


def told(root: Path, place: str, row: dict[str, Any] | None = None, **environ: str) -> list[tuple[str, str]]:
    return [(one["prefix"], one["kind"]) for one in ask(root, place, row, **environ)]


def test_venvs_of_the_folder_and_of_the_home(tmp_path: Path) -> None:
    for prefix in ("/w/.venv", "/w/tool", "/home/u/.venv", "/home/u/p/venv", "/envs/x", "/data/virtualenvs/y"):
        put(tmp_path, prefix)
    put(tmp_path, "/w/plain", None)
    put(tmp_path, "/w/conda", "conda-meta")
    assert told(tmp_path, "here", {"folder": "/w/"}) == [
        ("/w/.venv", "venv"), ("/w/conda", "conda"), ("/w/tool", "venv"),
    ]  # fmt: skip
    assert sorted(told(tmp_path, "home", WORKON_HOME="/envs", XDG_DATA_HOME="/data")) == [
        ("/data/virtualenvs/y", "venv"), ("/envs/x", "venv"), ("/home/u/.venv", "venv"), ("/home/u/p/venv", "venv"),
    ]  # fmt: skip


def test_prefixes_of_conda_and_mamba(tmp_path: Path) -> None:
    prefixes = ["/c", "/m/envs/a", "/home/u/.local/share/mamba/envs/b", "/home/u/.conda/envs/d", "/opt/conda", "/e/f"]
    for prefix in [*prefixes, "/listed"]:
        put(tmp_path, prefix, "conda-meta")
    (tmp_path / "c/conda-meta/python-3.12.7-h5148396_0.json").write_text("{}")
    (tmp_path / "home/u/.conda/environments.txt").write_text("/listed\nrelative\n\n/opt/conda\n")
    found = ask(tmp_path, "conda", CONDA_EXE="/c/bin/conda", MAMBA_ROOT_PREFIX="/m", CONDA_ENVS_PATH="/e:relative")
    assert {one["prefix"] for one in found} == {*prefixes, "/listed"}
    assert {one["kind"] for one in found} == {"conda"}
    assert found[0]["version"] == "3.12.7"
    assert told(tmp_path, "conda", CONDA_EXE="conda") != []


def test_pipx_uv_and_pyenv(tmp_path: Path) -> None:
    for prefix in ("/px/venvs/a", "/opt/pipx/venvs/b", "/tools/c"):
        put(tmp_path, prefix)
    for prefix in ("/up/cpython-3.13.1", "/py/versions/3.9.1"):
        put(tmp_path, prefix, None)
    assert told(tmp_path, "pipx", PIPX_HOME="/px") == [("/px/venvs/a", "pipx"), ("/opt/pipx/venvs/b", "pipx")]
    assert told(tmp_path, "uv", UV_TOOL_DIR="/tools") == [("/tools/c", "uv tool")]
    assert told(tmp_path, "managed", UV_PYTHON_INSTALL_DIR="/up", PYENV_ROOT="/py") == [
        ("/up/cpython-3.13.1", "uv"), ("/py/versions/3.9.1", "pyenv"),
    ]  # fmt: skip


def test_the_systems_pythons_are_recognised_by_their_programs(tmp_path: Path) -> None:
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    for name in ("python3.11", "python3.13t", "python3.11-config", "python2.7"):
        (folder / name).write_bytes(b"\x7fELF")
        (folder / name).chmod(0o755)
    (folder / "python3").symlink_to("python3.11")
    (folder / "python3.9").symlink_to("/gone/python3.9")
    put(tmp_path, "/v")
    (tmp_path / "v/bin/python3").symlink_to("python")
    found = ask(tmp_path, "system", PATH="/v/bin:relative:/usr/bin")
    assert [(one["key"], one["kind"], one["version"]) for one in found] == [
        ("/usr/bin/python3.11", "system", "3.11"), ("/usr/bin/python3.13t", "system", "3.13"), ("/v", "venv", "3.11.2"),
    ]  # fmt: skip
    given_ = ask(tmp_path, "given", {"pythons": ["/usr/bin/python3", "/v/bin/python3", "/gone"]})
    assert [one["key"] for one in given_] == ["/usr/bin/python3.11", "/v"]


def test_a_prefix_without_a_mark_tells_its_version_by_its_library(tmp_path: Path) -> None:
    put(tmp_path, "/py/versions/mine", None)
    (tmp_path / "py/versions/mine/lib/python3.10").mkdir(parents=True)
    assert [one["version"] for one in ask(tmp_path, "managed", PYENV_ROOT="/py")] == ["3.10"]


def test_kernels_are_those_of_found_prefixes_and_of_the_usual_folders(tmp_path: Path) -> None:
    put(tmp_path, "/home/u/.venv")
    put(tmp_path, "/far")
    for share, name, program in (
        ("home/u/.venv/share/jupyter", "near", "/far/bin/python"),
        ("j", "gone", "/gone/bin/python3"),
        ("usr/share/jupyter", "julia", "/usr/bin/julia"),
    ):
        folder = tmp_path / share / "kernels" / name
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps({"argv": [program]}))
    host = Host(root=str(tmp_path), environ={"HOME": "/home/u", "JUPYTER_PATH": "/j"}, seconds=1.0)
    host.row = {"place": "home"}
    assert [one["kernels"] for one in PYTHONS["probe"](host)] == [["near"]]
    host.row = {"place": "jupyter"}
    found = PYTHONS["probe"](host)
    assert [(one["key"], one["kind"], one["broken"]) for one in found] == [
        ("/gone/bin/python3", "jupyter kernel gone", "/gone/bin/python3"), ("/far", "jupyter kernel near", None),
    ]  # fmt: skip


def test_a_link_to_what_is_gone_is_reported_and_nothing_at_all_is_not(tmp_path: Path) -> None:
    put(tmp_path, "/home/u/.venv")
    (tmp_path / "home/u/.venv/bin/python").unlink()
    assert ask(tmp_path, "home") == []
    (tmp_path / "home/u/.venv/bin/python").symlink_to("/usr/bin/python3.8")
    (one,) = ask(tmp_path, "home")
    assert (one["broken"], one["status"], one["key"]) == ("/usr/bin/python3.8", "failed", "/home/u/.venv")


@given(st.text())
def test_any_pyvenv_cfg_has_settings(text: str) -> None:
    assert all(name == name.strip().lower() for name in PYTHONS["settings"](text))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"argv": []}', '{"argv": 1}', '{"argv": [1]}', "[" * 100_000])
def test_a_damaged_kernel_is_none(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "usr/share/jupyter/kernels/k"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(text)
    assert ask(tmp_path, "jupyter") == []


def test_a_version_of_endless_digits_is_none(tmp_path: Path) -> None:
    put(tmp_path, "/w/.venv")
    (tmp_path / "w/.venv/pyvenv.cfg").write_text(f"version = {'9' * 5000}.1\n")
    assert [one["version"] for one in ask(tmp_path, "here", {"folder": "/w/"})] == [None]
