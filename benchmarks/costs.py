"""What a command costs: its exit code, its processor time and the peak of its memory, without its children."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).resolve().parent.parent
# The kernel also counts the memory of the process that a child was forked from, so a small process starts it.
LAUNCHER = """
import json, os, resource, subprocess, sys
out, err, most, *argv = sys.argv[1:]
with open(out, "wb") as out, open(err, "wb") as err:
    child = subprocess.Popen(argv, stdout=out, stderr=err)
    resource.prlimit(child.pid, resource.RLIMIT_AS, (int(most), int(most)))
    _, status, used = os.wait4(child.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]), flush=True)
os._exit(0)
"""


class Ran(NamedTuple):
    """How a command ended, and what it cost: processor seconds and MiB of memory at its peak."""

    code: int
    out: bytes
    err: str
    seconds: float
    mib: float


def gpustack(*arguments: str | Path, at: Path, gib: float = 2) -> Ran:
    """Run the command with limited address space; its output is kept in the folder."""
    argv = [sys.executable, "-m", "gpustack", *map(str, arguments)]
    launch = [sys.executable, "-I", "-c", LAUNCHER, str(at / "out"), str(at / "err"), str(int(gib * 2**30)), *argv]
    done = subprocess.run(launch, cwd=REPO, capture_output=True, check=True)
    code, seconds, mib = json.loads(done.stdout)
    return Ran(code, (at / "out").read_bytes(), (at / "err").read_text(), seconds, mib)
