"""The command itself on a faulty machine: started, observed, interrupted; and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.schemas.test_schemas import validator

MARK = "GPUSTACK_TEST_RUN"
DOCTOR = ("doctor", "--format", "json")
KEPT = "NV_TEST_RUN"  # the same, under a name that the probes' environment keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str
    seconds: float
    mark: str

    @property
    def report(self) -> dict[str, Any]:
        """The report that it wrote."""
        said: dict[str, Any] = json.loads(self.out)
        return said

    def status(self, component: str) -> tuple[str, str]:
        """Return status and reason of a component."""
        seen = next(one for one in self.report["components"] if one["id"] == component)
        return seen["status"], str(seen["reason"])


def start(argv: Sequence[str], environ: Mapping[str, str], mark: str, **more: Any) -> subprocess.Popen[str]:  # noqa: ANN401 - what Popen takes
    """Start ``gpustack`` with this environment and a marker by which its children are recognised."""
    return subprocess.Popen(
        [sys.executable, "-m", "gpustack", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environ, MARK: mark, KEPT: mark},
        **more,
    )


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    after: float | None = None,
    children: int = 0,
    **more: Any,  # noqa: ANN401 - the same
) -> Ran:
    """Run it to its end, or press Ctrl-C this long after it has this many children; time is then counted from there."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    begun = time.monotonic()
    child = start(argv, environ, mark, **more)
    if after is not None:
        grown(mark, children)
        time.sleep(after)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    return Ran(code=child.returncode, out=out, err=err, seconds=time.monotonic() - begun, mark=mark)


def grown(mark: str, children: int, patience: float = 20.0) -> None:
    """Wait until the command with this marker has this many children."""
    deadline = time.monotonic() + patience
    while children and len(_alive(mark)) <= children and time.monotonic() < deadline:
        time.sleep(0.02)


def whole(ran: Ran) -> dict[str, Any]:
    """Return the report, which is complete and mentions no failure of gpustack itself."""
    assert ran.code in {0, 1}, ran.err
    assert "Traceback" not in ran.err
    report = ran.report
    validator("report").validate(report)
    assert len(report["components"]) > 60
    return report


def left(mark: str, patience: float = 4.0) -> list[str]:
    """Return the processes with this marker that still exist after a short wait, zombies excluded."""
    deadline = time.monotonic() + patience
    while (found := _alive(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _alive(mark: str) -> list[str]:
    processes = [path for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [_words(path / "cmdline") for path in processes if f"{KEPT}={mark}" in _words(path / "environ")]


def _words(path: Path) -> str:
    """Return the content of a process's file; nothing if the process is gone or access is denied."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
