"""The pre-commit hook, installed and run by pre-commit itself, from a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv*", ".*_cache", ".hypothesis", ".coverage*", "docs", "tests"
)
AUTHOR = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([which("git"), *AUTHOR, *arguments], cwd=folder, check=True, capture_output=True)


def which(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    assert found, f"{name} is not installed here"
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_pre_commit_holds_the_machine_against_a_changed_policy(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "gpustack", tmp_path / "project"
    shutil.copytree(REPO, ours, ignore=LEFT_OUT)
    git(ours, "init", "--quiet")
    git(ours, "add", "--all")
    git(ours, "commit", "--quiet", "--message=as it is")
    theirs.mkdir()
    git(theirs, "init", "--quiet")
    environ = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    for policy, code, says in (
        ('[components]\npython = "present"\n', 0, "Passed"),
        ("[gpus]\ncount = 640\n", 1, "640"),
    ):
        (theirs / "gpustack.toml").write_text(policy, "utf-8")
        git(theirs, "add", "gpustack.toml")
        command = [which("pre-commit"), "try-repo", str(ours), "gpustack-check", "--all-files", "--color=never"]
        done = subprocess.run(command, cwd=theirs, env=environ, capture_output=True, encoding="utf-8", check=False)
        assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr
