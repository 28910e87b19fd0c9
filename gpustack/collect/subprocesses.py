"""The door to other processes: start one, read from it, end it, and never wait for one that will not end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.collect.isolation import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MOMENT = 0.05


class Door:
    """How children are started and ended. Tests hand in one that refuses to kill.

    ``interrupted`` is set once somebody pressed Ctrl-C: from then on nothing is waited for.
    """

    interrupted = False
    _left: tuple[int, ...] = ()  # asked to end, and not yet collected

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a child in a session of its own, with both outputs piped and this input or none; raises OSError.

        No search path of its variables leads to the working folder.
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
        """Ask the system to end the child and all that it started; does not wait."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

    def release(self, child: subprocess.Popen[bytes]) -> None:
        """Forget a child that was asked to end: collected once it has, left to the system where it cannot."""
        if child.poll() is None:
            child.returncode = -signal.SIGKILL
            self._left += (child.pid,)

    def collect(self) -> None:
        """Collect those that have ended since; until then they count among the processes that may be started."""
        self._left = tuple(pid for pid in self._left if not _collected(pid))

    def pause(self) -> None:
        """Return the system a moment to bury the dead."""
        time.sleep(MOMENT)

    def now(self) -> float:
        """Return the time in seconds on a clock that only goes forward."""
        return time.monotonic()


def _nothing() -> int:
    """Open an input that is at its end; a pipe that nobody writes to where a chroot or a sandbox has no /dev."""
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        reader, writer = os.pipe()
        os.close(writer)
        return reader


def _collected(pid: int) -> bool:
    """Collect a child where it has ended, and tell whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def ended(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait at most this long for the child's end and give its return code, or None where it has not ended."""
    with suppress(subprocess.TimeoutExpired):
        return child.wait(seconds)
    return None


def death(code: int) -> str:
    """Say in words how a process ended, from its return code."""
    if code >= 0:
        return f"ended with exit code {code} before it answered"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def last_line(text: bytes) -> str:
    """Return the last line that a process said, in brackets, or nothing."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return f"({lines[-1][:200]})" if lines else ""


def state(pid: int) -> str:
    """Say what a process is doing: its state letter, and the kernel function it waits in where that can be read."""
    said = []
    with suppress(OSError, IndexError):
        said.append("state " + Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0])
    with suppress(OSError):
        channel = Path(f"/proc/{pid}/wchan").read_text("utf-8", "replace").strip()
        said += [f"waiting in {channel}"] if channel not in {"", "0"} else []
    return ", ".join(said) or "state unreadable"
