"""Subprocesses: start one, read from it, end it, and never wait for one that will not end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpustack.collect.isolation import absolute

MOMENT = 0.05
MOST_DIGITS = 40  # Python itself refuses 4300, later than 3.10.6, and before that takes minutes


class Door:
    """How children are started and ended. Tests inject one that refuses to kill.

    ``interrupted`` is set by Ctrl-C: from then on nothing waits.
    """

    interrupted = False
    _left: tuple[int, ...] = ()  # asked to end, but not yet reaped

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a child in its own session, with both outputs piped and this input or none; raises OSError.

        None of its search paths leads to the working folder.
        """
        self.collect()
        nothing = _nothing()
        try:
            child = subprocess.Popen(
                list(argv),
                bufsize=0,
                stdin=nothing if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=absolute(environ),
                start_new_session=True,
            )
        finally:
            os.close(nothing)
        for stream in (child.stdout, child.stderr):
            if stream:
                os.set_blocking(stream.fileno(), False)
        return child

    def kill(self, child: subprocess.Popen[bytes]) -> None:
        """Ask the system to end the child and everything it started; does not wait."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

    def release(self, child: subprocess.Popen[bytes]) -> None:
        """Forget a child that was asked to end: reaped once it has ended, else left to the system."""
        if child.poll() is None:
            child.returncode = -signal.SIGKILL
            self._left += (child.pid,)

    def collect(self) -> None:
        """Reap children that have ended; until then they count towards the process limit."""
        self._left = tuple(pid for pid in self._left if not _collected(pid))

    def pause(self) -> None:
        """Give the system a moment to end processes."""
        time.sleep(MOMENT)

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.monotonic()


def _nothing() -> int:
    """Open an empty input: a pipe without a writer if a chroot or a sandbox has no /dev."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        reader, writer = os.pipe()
        os.close(writer)
        return reader


def _collected(pid: int) -> bool:
    """Reap a child that has ended, and return whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def ended(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait at most this long for the child and return its exit status, or None if it has not ended."""
    with suppress(subprocess.TimeoutExpired):
        return child.wait(seconds)
    return None


def death(code: int) -> str:
    """Return in words how a process ended, from its exit status."""
    if code >= 0:
        return f"ended with exit code {code} before it answered"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def last_line(text: bytes) -> str:
    """Return the last line of a process's output, in brackets, or nothing."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return f"({lines[-1][:200]})" if lines else ""


def state(pid: int) -> str:
    """Return what a process is doing: its state letter, and the kernel function it waits in if readable."""
    said = []
    with suppress(OSError, IndexError):
        said.append("state " + Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0])
    with suppress(OSError):
        channel = Path(f"/proc/{pid}/wchan").read_text("utf-8", "replace").strip()
        said += [f"waiting in {channel}"] if channel not in {"", "0"} else []
    return ", ".join(said) or "state unreadable"


def answered(line: bytes) -> dict[str, Any] | None:
    """Return the object on a line of a child's output, or None if there is none."""
    try:
        said = json.loads(line, parse_int=_whole)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _whole(digits: str) -> int | None:
    """Return a whole number, or None if it is implausibly large: it is dropped alone, not with the answer."""
    return int(digits) if len(digits) <= MOST_DIGITS else None
