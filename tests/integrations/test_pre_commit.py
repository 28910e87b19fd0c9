"""The pre-commit hook, fetched and run by pre-commit itself, in a project that has its own Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
OURS = '[components]\npython = "present"\nonly-of-the-project = "==1.2"\n'


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([which("git"), *AUTHOR, *arguments], cwd=folder, check=True, capture_output=True)


def which(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    assert found, f"{name} is not installed here"
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a virtual environment that has one distribution, and the hook from a repository of ours."""
    ours, theirs = tmp_path / "gpustack", tmp_path / "project"
    ours.mkdir()
    shutil.copy(REPO / ".pre-commit-hooks.yaml", ours)
    theirs.mkdir()
    for folder in (ours, theirs):
        git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "--message=as it is")
    venv.create(theirs / ".venv", with_pip=False, symlinks=True)
    (packages,) = (theirs / ".venv/lib").glob("python3.*/site-packages")
    held = packages / "only_of_the_project-1.2.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: only-of-the-project\nVersion: 1.2\n", "utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gpustack").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpustack "$@"\n', "utf-8")
    (tmp_path / "bin/gpustack").chmod(0o755)
    return theirs


def commit(project: Path, policy: str, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the hook on a changed policy, as a commit does."""
    (project / "gpustack.toml").write_text(policy, "utf-8")
    head = subprocess.run(
        [which("git"), "rev-parse", "HEAD"], cwd=project.parent / "gpustack", check=True, capture_output=True, text=True
    )
    hook = {"id": "gpustack-check", "args": list(args)}
    config = {"repos": [{"repo": str(project.parent / "gpustack"), "rev": head.stdout.strip(), "hooks": [hook]}]}
    (project / ".pre-commit-config.yaml").write_text(json.dumps(config), "utf-8")
    git(project, "add", "gpustack.toml", ".pre-commit-config.yaml")
    home = {"PRE_COMMIT_HOME": str(project.parent / "cache"), "HOME": str(project.parent)}
    path = os.pathsep.join((str(project.parent / "bin"), os.environ["PATH"]))
    plain = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    return subprocess.run(
        [which("pre-commit"), "run", "--color=never"],
        cwd=project,
        env={**plain, **home, "PATH": path, "PYTHONPATH": str(REPO), **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("named", [True, False], ids=["named", "active"])
def test_pre_commit_checks_the_projects_python_against_a_changed_policy(project: Path, *, named: bool) -> None:
    given = ("--gpus", "0", *(("--python", ".venv") if named else ()))
    active = {} if named else {"VIRTUAL_ENV": str(project / ".venv")}
    done = commit(project, OURS, *given, **active)
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout + done.stderr
    done = commit(project, OURS.replace("1.2", "1.3"), *given, **active)
    assert (done.returncode, "==1.3 is required" in " ".join(done.stdout.split())) == (1, True), done.stdout


def test_pre_commit_looks_for_frameworks_and_gpus_here_and_not_in_an_environment_of_its_own(project: Path) -> None:
    done = commit(project, 'frameworks = ["pytorch"]\n[gpus]\ncount = 640\n', "--python", ".venv", "-v")
    assert (done.returncode, "640" in done.stdout, "frameworks.pytorch" in done.stdout) == (1, True, True), done.stdout
    assert "Python 3." in done.stdout
    assert str(project.parent / "cache") not in "".join(done.stdout.split())
