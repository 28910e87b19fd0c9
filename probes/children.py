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
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

LIMIT = 1 << 20
SOON = 0.3
STAYS = -9
MOMENT = 0.05
HOPE = 0.5  # share of the time: for how long starting is retried while the system has no room
PDEATHSIG = 1  # PR_SET_PDEATHSIG of prctl(2)


def command(argv: "Sequence[str]", environ: "Dict[str, str]", seconds: float) -> "Optional[Tuple[int, bytes, bytes]]":
    """Return the exit code and the first part of both outputs of a command; None if it does not finish in time."""
    deadline = time.monotonic() + seconds
    out, err, nothing = os.pipe(), os.pipe(), quiet()
    try:
        child = _popen(list(argv), environ, (nothing, out[1], err[1]), time.monotonic() + HOPE * seconds)
    except OSError:
        os.close(out[0])
        os.close(err[0])
        raise
    finally:
        for handle in (out[1], err[1], nothing):
            os.close(handle)
    said = listen([out[0], err[0]], deadline)
    code = collect(child.pid, kill=said[0] is None or said[1] is None)
    child.returncode = STAYS if code is None else code
    if code is None or said[0] is None or said[1] is None:
        return None
    return code, said[0], said[1]


def _popen(argv: "List[str]", environ: "Dict[str, str]", handles: "Tuple[int, int, int]", until: float) -> "Any":
    """Start a command, retrying for a while at the process limit; raises OSError."""
    import subprocess  # noqa: PLC0415 - costs a quarter of a child's start, and most probes start nothing

    while True:
        try:
            return subprocess.Popen(argv, stdin=handles[0], stdout=handles[1], stderr=handles[2], env=environ)
        except BlockingIOError:  # noqa: PERF203 - a few turns, each with a rest
            if time.monotonic() > until:
                raise
            time.sleep(MOMENT)


def quiet() -> int:
    """Open an empty input that discards all output; a pipe without another end if there is none."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:  # a chroot or a sandbox without /dev
        reader, writer = os.pipe()
        os.close(writer)
        return reader


def bind(parent: int) -> None:
    """Have the kernel end this process when its parent ends, which may itself be killed.

    If that happened before the kernel was asked, there is no process left to answer to.
    """
    try:
        ctypes.CDLL(None).prctl(PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return  # no Linux
    if os.getppid() != parent and not _lives(parent):
        os._exit(1)


def _lives(process: int) -> bool:
    """Return whether a process exists: a script may stand between the two."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def fork_all(works: "Sequence[Callable[[], Any]]", seconds: float) -> "List[Any]":
    """Return each work's result, or an OSError that says how it ended; a fork for each, with one common limit.

    At the process limit, what could not be started waits until the others are done.
    """
    answers: "List[Any]" = [OSError("no answer in %.1f s" % seconds)] * len(works)
    waiting, deadline = list(range(len(works))), time.monotonic() + seconds
    until = deadline - (1 - HOPE) * seconds
    while waiting and time.monotonic() < min(until, deadline):
        for number in waiting:
            answers[number] = _tried(works[number])
        going = [number for number in waiting if not isinstance(answers[number], OSError)]
        said = listen([answers[number][1] for number in going], deadline)
        for number, data in zip(going, said):
            answers[number] = _answer(answers[number][0], data, seconds)
        waiting = [number for number in waiting if number not in going]
        if going:
            until = time.monotonic() + HOPE * seconds
        elif waiting:
            time.sleep(MOMENT)
    return answers


def listen(readers: "Sequence[int]", deadline: float) -> "List[Optional[bytes]]":
    """Return each end's output until it closes, its first ``LIMIT`` bytes; None if the deadline came first."""
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
    """Reap a child that is done or is to be killed: its exit code, minus its signal, or None if it stays."""
    if kill:
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        time.sleep(0.001)
    return None


def _tried(work: "Callable[[], Any]") -> "Union[OSError, Tuple[int, int]]":
    """Start the work in a fork, or return why that failed: processes and open files are limited."""
    try:
        return _fork(work)
    except OSError as error:
        return OSError("no process could be started for it: %s" % (error.strerror or error))


def _fork(work: "Callable[[], Any]") -> "Tuple[int, int]":
    """Start the work in a fork that leaves without exit handlers; return its process and the end to read."""
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if child:
        os.close(writer)
        return child, reader
    try:
        bind(parent)
        nothing = quiet()
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
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
    except (ValueError, TypeError, RecursionError) as error:
        return OSError("an answer that is none: %s" % error)
    return OSError(value) if how == "error" else value


def _death(code: "Optional[int]") -> str:
    if code is None:
        return "still there after its end was asked for"
    return "killed by signal %d" % -code if code < 0 else "ended with code %d and no answer" % code
