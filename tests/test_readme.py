"""What the README promises: its commands are the ones that are run, and its links work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
README = (REPO / "README.md").read_text("utf-8")
BLOCKS = [block.strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]


def test_ci_calls_the_readmes_own_test_command() -> None:
    (command,) = [block for block in BLOCKS if "pytest" in block]
    assert command in (REPO / ".ci/run").read_text("utf-8").splitlines()
    assert f"- run: {command}" in (REPO / ".github/workflows/ci.yml").read_text("utf-8")


def test_the_first_command_needs_nothing_but_python_and_runs_the_doctor() -> None:
    first = BLOCKS[0]
    assert first.startswith("python3 -m venv .venv && ")
    assert first.endswith("gpustack doctor")
    assert "\n" not in first


def test_the_recorded_broken_machine_is_diagnosed() -> None:
    (command,) = [block for block in BLOCKS if "--from" in block]
    arguments = command.split()[1:]
    done = subprocess.run(
        [sys.executable, "-m", "gpustack", *arguments], cwd=REPO, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert "driver" in done.stdout


def test_links_lead_to_files_that_are_there() -> None:
    local = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("https://")]
    assert len(local) >= 3
    assert [link for link in local if not (REPO / link).exists()] == []


def test_it_opens_with_a_broken_machine_diagnosed_as_the_program_prints_it_and_is_short() -> None:
    command = [sys.executable, "-m", "gpustack", "doctor", "--from", "examples/gpu-newer-than-build.json"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, encoding="utf-8", check=False)
    shown = re.findall(r"```text\n(.*?)```", README, re.DOTALL)[0]
    assert README.index("```text") < README.index("## Install")
    assert shown.splitlines() == done.stdout.splitlines()[:12]
    assert len(README.splitlines()) <= 120


def test_the_guide_leads_to_files_that_are_there() -> None:
    guide = (REPO / "docs/guide.md").read_text("utf-8")
    local = [link for link in re.findall(r"\]\(([^)#]+)\)", guide) if not link.startswith("https://")]
    assert [link for link in local if not (REPO / "docs" / link).exists()] == []
