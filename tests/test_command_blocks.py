"""Every block of commands in README.md and integrations/README.md is run, in its order, in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "integrations/README.md")
OWN_TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e '.[bench,dev]'"
    " && .venv/bin/python -m pytest -n auto --cov"
)
ELSEWHERE = {OWN_TESTS: ".ci/run"}  # blocks that are not run here, and the file that runs them word for word
ENVIRONMENT = re.compile(r"(?<!\S)(/opt/gpustack|\.venv)(?=[/ ]|$)")  # as each document calls it
LEFT_OUT = shutil.ignore_patterns(".[!m]*", "evidence", "tests", "benchmarks")  # not .made: the cache for fast reading
FINE = (0, 1)  # 1: the command did its work and found something
# Ours; what it makes has our pip, for which requirements are met: .ci/run downloads and installs them.
PYTHON = """#!/bin/sh
[ "$2" = venv ] || exec {python} "$@"
{python} "$@" --without-pip && cd "$3" && echo {packages} >"$(echo lib/python*/site-packages)/met.pth" &&
    printf '#!/bin/sh\\nexec "%s/bin/python" -m pip "$@"\\n' "$PWD" >bin/pip && chmod +x bin/pip
"""


def blocks(document: str) -> list[str]:
    """Return the blocks of commands of a document."""
    text = (REPO / document).read_text("utf-8")
    return [
        block.strip() for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


def commands(block: str) -> list[str]:
    """Return the commands of a block, one to a line."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


def python_with_pip(folder: Path) -> Path:
    """Return the folder, with a python3 in it whose environments need neither a download nor a copy of pip."""
    folder.mkdir()
    python = folder / "python3"  # a link would lose the packages of our environment
    python.write_text(PYTHON.format(python=shlex.quote(sys.executable), packages=Path(pytest.__file__).parents[1]))
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize(("block", "runner"), ELSEWHERE.items())
def test_what_is_run_elsewhere_is_run_there(block: str, runner: str) -> None:
    assert block in (REPO / runner).read_text("utf-8").splitlines()
    assert any(block in blocks(document) for document in DOCUMENTS), "listed, and in no document any more"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_each_document_do_their_work(tmp_path: Path) -> None:
    """Blocks that two documents share, except for the environment's name, run once: they install everything."""
    checkout, root = tmp_path / "checkout", tmp_path / "root"
    shutil.copytree(REPO, checkout, ignore=LEFT_OUT)
    for name in ("opt", "etc/slurm", "etc/systemd/system", "var/lib"):
        (root / name).mkdir(parents=True)
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_", "SSL_", "HTTP"))}
    kept |= {"PIP_NO_COMPILE": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # compiled when imported, built with our hatchling
    environ = {
        **kept,
        "PATH": f"{python_with_pip(tmp_path / 'bin')}:{checkout}/.venv/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    did: set[str] = set()
    for document in DOCUMENTS:
        asked = [block for block in blocks(document) if block not in ELSEWHERE]
        assert asked
        for command in (part for block in asked for line in commands(block) for part in line.split(" && ")):
            if (alike := ENVIRONMENT.sub("ENV", command)) in did:
                continue
            did.add(alike)
            rooted = re.sub(r"(?<![\w/.])/(opt|etc|var)/", rf"{root}/\1/", command)
            shell = ["bash", "-c", rooted]
            done = subprocess.run(shell, cwd=checkout, env=environ, capture_output=True, encoding="utf-8", check=False)
            assert done.returncode in FINE, f"{command}\n{done.stdout}{done.stderr}"
            assert "internal error" not in done.stderr, command
    assert "ENV/bin/pip install '.[bench]'" in did
