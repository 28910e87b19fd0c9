"""Which Pythons are examined, and which parts of our environment they can see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpustack.collect import targets
from gpustack.collect.subprocesses import Door
from gpustack.errors import UsageError
from gpustack.model.facts import Environment


def python_at(folder: Path, mark: str | None = None) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    if mark:
        (folder / mark).mkdir()
    return folder


def test_the_active_environment_is_chosen_before_the_path(tmp_path: Path) -> None:
    active, first = python_at(tmp_path / "active", "conda-meta"), python_at(tmp_path / "first")
    path = str(first / "bin")
    (chosen,) = targets.choose((), {"VIRTUAL_ENV": str(active), "PATH": path})
    assert (chosen.python, chosen.kind) == (f"{active}/bin/python", "venv")
    (chosen,) = targets.choose((), {"CONDA_PREFIX": str(active), "PATH": path})
    assert (chosen.python, chosen.kind) == (f"{active}/bin/python", "conda")
    (chosen,) = targets.choose((), {"VIRTUAL_ENV": str(tmp_path / "gone"), "PATH": path})
    assert (chosen.python, chosen.kind) == (f"{first}/bin/python3", "system")
    (chosen,) = targets.choose((), {"PATH": "/nowhere"})
    assert (chosen.python, chosen.kind) == (sys.executable, "own")


def test_named_pythons_are_taken_in_order_and_each_once(tmp_path: Path) -> None:
    conda, venv = python_at(tmp_path / "c", "conda-meta"), python_at(tmp_path / "v", "pyvenv.cfg")
    names = [str(venv), str(conda / "bin/python"), str(venv / "bin/python")]
    assert [(one.kind, one.prefix) for one in targets.choose(names, {})] == [("venv", str(venv)), ("conda", str(conda))]


@pytest.mark.parametrize("name", ["/nowhere/python", "no-such-command", "/etc", "/etc/passwd", ""])
def test_a_name_that_is_not_a_program_is_one_clear_error(name: str) -> None:
    with pytest.raises(UsageError, match="there is no program to run there"):
        targets.choose([name], {})


def shim(folder: Path, does: str) -> Environment:
    (folder / "shims").mkdir(parents=True)
    script = folder / "shims/python3"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    return Environment(python=str(script), kind="system")


def test_a_shim_is_asked_which_python_it_starts_with_the_variables_that_choose_it(tmp_path: Path) -> None:
    chosen = shim(tmp_path, 'exec "$CHOSEN" "$@"')
    other = Environment(python=sys.executable, kind="own")
    found = targets.programs((chosen, other), {"CHOSEN": sys.executable}, Door())
    assert found == {chosen.python: sys.executable}


@pytest.mark.parametrize("does", ["exit 1", "echo /nowhere", "echo python3", "printf '/\\0'", "sleep 60"])
def test_a_shim_that_does_not_say_what_it_starts_is_started_itself(tmp_path: Path, does: str) -> None:
    assert targets.programs((shim(tmp_path, does),), {"PATH": "/usr/bin:/bin"}, Door(), seconds=0.5) == {}


def test_a_shim_that_is_not_a_program_is_none_of_them(tmp_path: Path) -> None:
    broken = shim(tmp_path, "")
    Path(broken.python).write_text("#!/nowhere/sh\n")
    assert targets.programs((broken,), {}, Door()) == {}


def test_probes_see_what_concerns_a_gpu_stack_and_no_secret() -> None:
    ours = {"LD_LIBRARY_PATH": "/x", "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": "/p", "PATH": "/bin"}
    secret = {
        "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "s",
        "HF_TOKEN": "s",
        "PASSWORD": "s",
        "NVIDIA_API_KEY": "s",
    }
    seen = targets.environment_of({**ours, **secret})
    assert ours.items() <= seen.items()
    assert not secret.keys() & seen.keys()
    assert seen["PYTHONDONTWRITEBYTECODE"] == "1"
