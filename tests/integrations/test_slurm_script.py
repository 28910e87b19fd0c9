"""What the Slurm hooks do without a Slurm: they need no PATH, and they end in time whatever gpustack does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.patience import in_time

HOOKS = Path(__file__).resolve().parents[2] / "integrations/slurm"
SLURM_ENDS_AT = 60  # slurm.conf(5), HealthCheckProgram


def hooks(folder: Path, gpustack: str) -> Path:
    """Give a copy of the hooks that asks a gpustack which does this."""
    shutil.copytree(HOOKS, folder / "hooks")
    stand_in = folder / "gpustack"
    stand_in.write_text(f"#!/bin/sh\n{gpustack}\n", "utf-8")
    stand_in.chmod(0o755)
    with (folder / "hooks/settings.sh").open("a", encoding="utf-8") as file:
        file.write(f"gpustack={stand_in}\ncheck_seconds=-6\n")  # eight more are allowed: two
    return folder / "hooks"


@in_time
@pytest.mark.parametrize("mode", ["health", "prolog", "epilog"])
@pytest.mark.parametrize(
    "gpustack", ["exec /bin/sleep 1000", "trap '' TERM; /bin/sleep 1000; /bin/sleep 1000", "exit 3", "echo nonsense"]
)
def test_a_gpustack_that_hangs_or_breaks_fails_no_job_and_drains_nothing(
    mode: str, gpustack: str, tmp_path: Path
) -> None:
    begun = time.monotonic()
    done = subprocess.run(
        [hooks(tmp_path, gpustack) / f"{mode}.sh"], env={}, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0
    assert "gpustack gave no answer; nothing is changed" in done.stderr
    assert time.monotonic() - begun < 30


def test_the_hooks_end_before_slurm_ends_them() -> None:
    (seconds,) = re.findall(r"^check_seconds=(\d+)", (HOOKS / "settings.sh").read_text("utf-8"), re.MULTILINE)
    (more,) = re.findall(r"check_seconds \+ (\d+)", (HOOKS / "node.sh").read_text("utf-8"))
    (last,) = re.findall(r"timeout -k (\d+)", (HOOKS / "node.sh").read_text("utf-8"))
    assert int(seconds) + int(more) + int(last) < SLURM_ENDS_AT - 5, "some seconds are left for scontrol"


def test_slurm_may_run_what_it_runs_and_nothing_else_is_a_program() -> None:
    programs = {path.name for path in HOOKS.glob("*.sh") if os.access(path, os.X_OK)}
    named = set(re.findall(r"/(\w+\.sh)$", (HOOKS / "slurm.conf.part").read_text("utf-8"), re.MULTILINE))
    assert programs == {*named, "node.sh"}
