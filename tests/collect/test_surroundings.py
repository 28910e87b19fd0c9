"""Every other Python of a machine: found once, in real folders created here, whatever else is in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpustack.collect import targets
from gpustack.collect.probing import look as look_at_machine
from gpustack.collect.subprocesses import Door
from gpustack.collect.targets import MOST, Surroundings
from gpustack.model.facts import Environment, Unseen
from tests.build import machine, seen
from tests.patience import in_time

REAL = Path(sys.executable).resolve()


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/nowhere", **more}


def around(home: Path, folder: Path | None = None, chosen: Sequence[str] = (), **more: str) -> Surroundings:
    """Look for environments with this home; the system's own Pythons are included."""
    door = Door()
    first = tuple(Environment(python=python, kind="system") for python in chosen)
    return targets.look(first, environ(home, **more), str(folder or home / "empty"), door, door.now() + 20)


def below(found: Surroundings, home: Path) -> dict[str, str]:
    """Return kind by folder, relative to the home, of what was found there."""
    return {
        str(Path(one.prefix or "").relative_to(home)): one.kind
        for one in found.environments
        if Path(one.prefix or "").is_relative_to(home)
    }


def venv(folder: Path) -> Path:
    """Create a real venv."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def like(folder: Path, mark: str = "pyvenv.cfg", target: Path = REAL, text: str = "version = 3.12.1\n") -> Path:
    """Create a stand-in for a venv or a conda prefix: its marker file and a link."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(target)
    if mark == "pyvenv.cfg":
        (folder / mark).write_text(text)
    elif mark:
        (folder / mark).mkdir()
        (folder / mark / "python-3.11.9-h955ad1f_0_cpython.json").write_text("{}")
    return folder


def test_real_venvs_are_found_where_people_make_them(tmp_path: Path) -> None:
    places = (".venv", "venv", ".virtualenvs/a", "project/.venv", "other/venv", ".cache/pypoetry/virtualenvs/p-py3.11")
    venv(tmp_path / places[0])
    for place in places[1:]:
        like(tmp_path / place)
    work = tmp_path / "work"
    for place in ("env", "tool"):
        like(work / place)
    (work / "plain").mkdir()
    found = around(tmp_path, work)
    assert below(found, tmp_path) == dict.fromkeys((*places, "work/env", "work/tool"), "venv")
    assert all(one.found for one in found.environments)
    real = next(one for one in found.environments if one.prefix == str(tmp_path / ".venv"))
    assert real.version == ".".join(map(str, sys.version_info[:3]))


def test_conda_pipx_uv_and_pyenv_keep_theirs_each_in_its_way(tmp_path: Path) -> None:
    for place in ("miniforge3", "miniforge3/envs/torch", "elsewhere/listed", "many/one"):
        like(tmp_path / place, "conda-meta")
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda/environments.txt").write_text(f"{tmp_path}/elsewhere/listed\n\n/gone\n{tmp_path}/miniforge3\n")
    like(tmp_path / ".local/share/pipx/venvs/black")
    like(tmp_path / ".local/share/uv/tools/ruff")
    for place in (".local/share/uv/python/cpython-3.13.1-linux-x86_64-gnu", ".pyenv/versions/3.10.2"):
        like(tmp_path / place, "")
    found = below(around(tmp_path, CONDA_ENVS_PATH=f"{tmp_path}/many"), tmp_path)
    assert found == {
        "miniforge3": "conda",
        "miniforge3/envs/torch": "conda",
        "elsewhere/listed": "conda",
        "many/one": "conda",
        ".local/share/pipx/venvs/black": "pipx",
        ".local/share/uv/tools/ruff": "uv tool",
        ".local/share/uv/python/cpython-3.13.1-linux-x86_64-gnu": "uv",
    }  # uv's and pyenv's are one program here, which is reported once


def kernel(folder: Path, name: str, program: Path | str) -> None:
    (folder / "kernels" / name).mkdir(parents=True)
    (folder / "kernels" / name / "kernel.json").write_text(json.dumps({"argv": [str(program), "-m", "ipykernel"]}))


def test_a_kernel_of_jupyter_is_a_python_of_its_own_or_a_note_on_one_that_was_found(tmp_path: Path) -> None:
    known, other = like(tmp_path / "venv"), like(tmp_path / "deep/down/other")
    share = tmp_path / ".local/share/jupyter"
    kernel(share, "mine", known / "bin/python")
    kernel(share, "far", other / "bin/python")
    kernel(share, "bash", "/bin/bash")
    kernel(share, "gone", tmp_path / "removed/bin/python3.9")
    kernel(known / "share/jupyter", "own", "python")
    (share / "kernels/odd").mkdir()
    (share / "kernels/odd/kernel.json").write_text('{"argv": [[]]}')
    found = around(tmp_path)
    assert below(found, tmp_path) == {"venv": "venv", "deep/down/other": "jupyter kernel far"}
    assert sorted(found.kernels[str(known / "bin/python")]) == ["mine", "own"]
    (gone,) = [one for one in found.not_seen if one.what == "jupyter kernel gone"]
    assert gone.why == f"there is no Python at {tmp_path}/removed/bin/python3.9"
    assert "--name gone" in str(gone.enable_by)


def test_what_was_noted_of_kernels_is_among_the_facts_of_the_python(tmp_path: Path) -> None:
    copy = {"key": "p", "version": "3.12", "environment": str(tmp_path)}
    (noted,) = targets.noted((seen("python", copy),), {str(tmp_path): ("mine",)})
    assert noted.instances[0].facts["jupyter_kernels"] == ("mine",)


def test_the_chosen_python_is_not_found_again_by_whatever_name(tmp_path: Path) -> None:
    made = like(tmp_path / "venv")
    (tmp_path / ".virtualenvs").mkdir()
    (tmp_path / ".virtualenvs/same").symlink_to(made)
    assert len(below(around(tmp_path), tmp_path)) == 1
    assert below(around(tmp_path, chosen=[str(made / "bin/python")]), tmp_path) == {}
    everywhere = around(tmp_path, chosen=[str(REAL)], PATH=f"{REAL.parent}:{REAL.parent}")
    assert REAL not in {Path(one.python).resolve() for one in everywhere.environments if one.kind == "system"}


def test_a_python_whose_base_is_gone_or_too_old_is_reported_once_with_what_to_do(tmp_path: Path) -> None:
    like(tmp_path / "venv", target=tmp_path / "removed/python3.9")
    like(tmp_path / ".local/share/pipx/venvs/old", target=tmp_path / "removed/python3.9")
    like(tmp_path / ".venv", text="version_info = 3.6.15.final.0\n")
    (tmp_path / "miniconda3/conda-meta").mkdir(parents=True)  # a prefix may contain no Python at all
    found = around(tmp_path)
    assert below(found, tmp_path) == {}
    ours = [one for one in found.not_seen if str(tmp_path) in one.what]
    assert ours == [
        Unseen(what=f"{tmp_path}/.venv/bin/python", why="it is Python 3.6.15, but the probes need 3.8 or newer"),
        Unseen(
            what=f"{tmp_path}/venv/bin/python",
            why=f"the Python it was created from, {tmp_path}/removed/python3.9, is gone",
            enable_by=f"make it again: python3 -m venv --clear {tmp_path}/venv",
        ),
        Unseen(
            what=f"{tmp_path}/.local/share/pipx/venvs/old/bin/python",
            why=f"the Python it was created from, {tmp_path}/removed/python3.9, is gone",
            enable_by="make it again: pipx reinstall-all",
        ),
    ]


@in_time
def test_loops_pipes_scripts_and_folders_in_the_place_of_files_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "venv").symlink_to("venv")
    (tmp_path / "a").symlink_to(tmp_path)
    like(tmp_path / "one/.venv")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "piped/.venv/bin").mkdir(parents=True)
    os.mkfifo(tmp_path / "piped/.venv/pyvenv.cfg")
    (tmp_path / "piped/.venv/bin/python").mkdir()
    script = like(tmp_path / "script/.venv", target=tmp_path / "shim")
    (tmp_path / "shim").write_text("#!/bin/sh\n")
    (tmp_path / "shim").chmod(0o755)
    begun = time.monotonic()
    found = around(tmp_path)
    assert below(found, tmp_path) == {"one/.venv": "venv"}
    assert str(script) not in {one.prefix for one in found.environments}
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all folders")
def test_a_folder_that_may_not_be_read_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    found = around(tmp_path)
    assert [one.what for one in found.not_seen if str(tmp_path) in one.what] == [str(tmp_path / "closed")]


def test_denied_guesses_are_named_by_their_folder() -> None:
    looks = ("/h/x/.venv/pyvenv.cfg", "/h/x/.venv/conda-meta", "/h/x/venv", "/h/y/.cache")
    guesses = [Unseen(what=what, why="permission denied") for what in looks]
    assert [one.what for one in targets.denied(guesses)] == ["/h/x", "/h/y/.cache"]


def test_more_than_can_be_checked_are_counted(tmp_path: Path) -> None:
    for number in range(100):
        like(tmp_path / ".virtualenvs" / f"{number:03}")
    found = around(tmp_path)
    assert len(found.environments) == MOST
    (left,) = [one for one in found.not_seen if "further" in one.what]
    assert "Pythons" in left.what
    assert "--python" in str(left.enable_by)


class Stopping(Door):
    """A subprocess starter whose first child times out at once, as if it hung in a folder of a dead file server."""

    def __init__(self) -> None:
        self.stopped = False

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        child = super().start(argv, environ, stdin)
        if not self.stopped:
            self.stopped = True
            os.kill(child.pid, signal.SIGSTOP)
        return child


def test_a_place_that_hangs_loses_only_that_place(tmp_path: Path) -> None:
    like(tmp_path / "venv")
    door = Stopping()
    found = targets.look((), environ(tmp_path), str(tmp_path), door, door.now() + 10)
    assert below(found, tmp_path) == {"venv": "venv"}
    assert any("gave no answer" in one.why and one.what == "the Pythons to examine" for one in found.not_seen)


def test_each_python_answers_for_itself_and_one_that_is_met_again_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the folder of a checkout may contain environments of its own
    made = venv(tmp_path / "venv")
    site = next(made.glob("lib/python3*/site-packages"))
    (site / "cuda_core-1.0.1.dist-info").mkdir()
    (site / "cuda_core-1.0.1.dist-info/METADATA").write_text("Name: cuda-core\nVersion: 1.0.1\n")
    script = tmp_path / "shims/python3"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\necho started >>{tmp_path}/starts\nexec {made}/bin/python "$@"\n')
    script.chmod(0o755)
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    counted: list[tuple[int, int]] = []
    facts = look_at_machine(
        pythons=[str(script)], all_envs=True, timeout=30, environ=home, progress=lambda *said: counted.append(said)
    )
    assert [one.python for one in facts.environments if str(tmp_path) in one.python] == [str(script)]
    assert len((tmp_path / "starts").read_text().splitlines()) == 1, "what the shim starts is started itself"
    other = look_at_machine(pythons=[str(REAL)], all_envs=True, timeout=30, environ=home)
    assert (other.environments[0].python, other.environments[0].found) == (str(REAL), False)
    core = other.find("cuda-core")
    assert core
    assert [(copy.version, copy.environment) for copy in core.instances] == [("1.0.1", f"{made}/bin/python")]
    assert counted[-1][0] == counted[-1][1] >= len(facts.environments)


def test_a_machine_that_was_not_searched_has_no_doubles() -> None:
    assert targets.doubles(machine().components, set()) == set()
