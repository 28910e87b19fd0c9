"""Which Pythons are looked at, and what of our environment they get to see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpustack.collect import targets
from gpustack.errors import UsageError


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
def test_a_name_that_is_no_program_is_one_clear_error(name: str) -> None:
    with pytest.raises(UsageError, match="there is no program to run there"):
        targets.choose([name], {})


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
