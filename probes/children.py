"""Processes that a probe starts for itself: a command, or a fork that does one risky thing. Bounded in time and size.

Standard library and Python 3.8 syntax; loaded by path through the host.
"""

import ctypes
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

LIMIT = 1 << 20
SOON = 0.3
STAYS = -9
PDEATHSIG = 1  # PR_SET_PDEATHSIG of prctl(2)


def command(argv: "Sequence[str]", environ: "Dict[str, str]", seconds: float) -> "Optional[Tuple[int, bytes, bytes]]":
    """Give the exit code and the first part of both outputs of a command; None where it is not done in time."""
    import subprocess  # noqa: PLC0415 - costs a quarter of a child's start, and most probes start nothing

    out, err = os.pipe(), os.pipe()
    child = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=out[1], stderr=err[1], env=environ)
    os.close(out[1])
    os.close(err[1])
    said = listen([out[0], err[0]], time.monotonic() + seconds)
    code = collect(child.pid, kill=said[0] is None or said[1] is None)
    child.returncode = STAYS if code is None else code
    if code is None or said[0] is None or said[1] is None:
        return None
    return code, said[0], said[1]


def bind() -> None:
    """Have the kernel end this process with the one that started it: whoever waits for it may be killed himself."""
    try:
        ctypes.CDLL(None).prctl(PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return  # no Linux


def fork_all(works: "Sequence[Callable[[], Any]]", seconds: float) -> "List[Any]":
    """Give for each work what it gives, or an OSError that says how it ended; a fork for each, one limit for all."""
    forks = [_fork(work) for work in works]
    said = listen([reader for _, reader in forks], time.monotonic() + seconds)
    return [_answer(child, data, seconds) for (child, _), data in zip(forks, said)]


def listen(readers: "Sequence[int]", deadline: float) -> "List[Optional[bytes]]":
    """Give what comes from each end until it closes, its first ``LIMIT`` bytes; None where the deadline came first."""
    said = dict.fromkeys(readers, b"")
    open_ = list(readers)
    while open_:
        left = deadline - time.monotonic()
        ready = select.select(open_, [], [], left)[0] if left > 0 else []
        if not ready:
            break
        for reader in ready:
            part = os.read(reader, 1 << 16)
            said[reader] += part[: LIMIT - len(said[reader])]
            if not part:
                open_.remove(reader)
    for reader in readers:
        os.close(reader)
    return [None if reader in open_ else said[reader] for reader in readers]


def collect(child: int, *, kill: bool) -> "Optional[int]":
    """Collect a child that is done or is to be killed: its exit code, minus its signal, or None where it stays."""
    if kill:
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        time.sleep(0.001)
    return None


def _fork(work: "Callable[[], Any]") -> "Tuple[int, int]":
    """Start the work in a fork that leaves without anybody's exit handlers; give its process and the end to read."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        bind()
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            said = ["ok", work()]
        except BaseException as error:  # noqa: BLE001 - a fork that lets anything through would go on as its parent
            said = ["error", "%s: %s" % (type(error).__name__, error)]
        data = json.dumps(said).encode("utf-8")
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _answer(child: int, data: "Optional[bytes]", seconds: float) -> "Any":
    code = collect(child, kill=data is None)
    if data is None:
        return OSError("no answer in %.1f s" % seconds)
    if not data:
        return OSError(_death(code))
    try:
        how, value = json.loads(data.decode("utf-8"))
    except ValueError as error:
        return OSError("an answer that is none: %s" % error)
    return OSError(value) if how == "error" else value


def _death(code: "Optional[int]") -> str:
    if code is None:
        return "still there after its end was asked for"
    return "killed by signal %d" % -code if code < 0 else "ended with code %d and no answer" % code
