"""The command, the probes and the bench's children as forks of a Python that has imported them: all but a start's time.

``Popen`` replaces the one in ``subprocess`` while tests run. What it starts is a child of its caller, with the
arguments, variables, folder, outputs and signals of a real start, and runs the same program from its first line on.
Other programs are started as usual, and so is anything that would start differently: with other variables of Python,
of the loader or of what is read once at an import, counted for coverage, or after a function of its own. Tests of the
start itself have the marker ``starts``.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import inspect
import json
import os
import pkgutil
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMAND = [sys.executable, "-m", "gpustack"]
CHILD = [sys.executable, "-I", "-c"]  # of the bench and the trace: a program, and its request as JSON
BENCH = '"main": "gpustack.'
PROBES = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "probes/__main__.py")]
# What is read once: by the loader, by Python as it starts, or by a module as it is imported.
ONCE = re.compile(
    r"(PYTHON|LD_|LC_|LANG|GLIBC_|MALLOC_|NPY_|CUDA_PYTHON_|COVERAGE_|_?TYPER_|TZ).*"
    r"|FORCE_COLOR|GITHUB_ACTIONS|PY_COLORS|TERMINAL_WIDTH"
)
LIBRARIES, COUNTED = "LD_LIBRARY_PATH", "COVERAGE_PROCESS_CONFIG"
SET_FOR_CHILDREN = {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1"}  # of the bench
ROOMS = (
    *("ask", "bench", "cli", "collect", "compare", "diagnose", "explain", "fleet", "imports", "matrix", "model"),
    *("policy", "redaction", "report", "snapshots", "trace"),
)
USED = (
    *("concurrent.futures.process", "csv", "fractions", "html", "json.tool", "locale", "multiprocessing.pool"),
    *("rich.console", "rich.panel", "rich.progress", "rich.table", "rich.text", "secrets", "shlex", "statistics"),
    *("typer._click.decorators", "typer.rich_utils", "xml.sax.saxutils"),
)
PROBING = ("contextlib", "ctypes", "glob", "importlib.machinery", "itertools", "stat", "time")
MEASURING = ("cuda.core", "cuda.bindings.driver", "pynvml", "numpy", "gpustack.trace.gpu")
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
PLAIN = ("executable", "preexec_fn", "shell", "gid", "gids", "uid")  # what a fork is not used for
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
BEYOND = 512  # file descriptors that no caller uses
FLUSHED = 120  # Python's exit code where its output cannot be written
REAL = subprocess.Popen
active = True  # switched off by the marker starts
inside = False  # in a fork: a command forks its own probes, while those of a test are started


class Popen(REAL[Any]):
    """Like that of ``subprocess``: a fork where that is equivalent to a start."""

    def _execute_child(self, *given: Any) -> None:  # noqa: ANN401 - as it is there
        names = list(inspect.signature(REAL._execute_child).parameters)[1:]  # type: ignore[attr-defined]  # noqa: SLF001 - the one place that all starts go through
        named = dict(zip(names, given, strict=True))
        environ = dict(os.environ if named["env"] is None else named["env"])
        kind = "" if any(named[name] for name in PLAIN) or named["umask"] >= 0 else forked(named["args"], environ)
        if not kind:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        asked = {
            "argv": list(map(str, named["args"])),
            "environ": environ,
            "cwd": str(named["cwd"] or Path.cwd()),
            "session": named["start_new_session"],
            "fds": [0, 1, 2, *named["pass_fds"]],
        }
        own = [named[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        fds = [*(number if fd == -1 else fd for number, fd in enumerate(own)), *named["pass_fds"]]
        libraries = environ.get(LIBRARIES, "") if kind != "command" else ""
        self.pid = server(os.getpid(), kind, libraries).fork(asked, fds)
        self._child_created = True
        self._close_pipe_fds(*(named[name] for name in PIPES))  # type: ignore[attr-defined]


def run(
    argv: Sequence[str], *, cwd: Path | str, environ: Mapping[str, str], given: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run ``gpustack`` with these arguments there."""
    return subprocess.run(
        [*COMMAND, *argv],
        cwd=cwd,
        env=dict(environ),
        input=given,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=timeout,
    )


def forked(argv: object, environ: Mapping[str, str]) -> str:
    """Return which kind of server has forks equivalent to a real start with these arguments, or nothing."""
    if not active or not isinstance(argv, list | tuple) or COUNTED in environ:
        return ""
    words = list(map(str, argv))
    bench = words[:3] == CHILD and len(words) == len(CHILD) + 2 and BENCH in words[-1]
    probes = words[:4] == PROBES and len(words) == len(PROBES) + 1
    kind = "command" if words[:3] == COMMAND else "bench" if bench else "probes" if probes else ""
    return kind if (kind == "probes") == inside and once(environ) == once(os.environ) else ""


def once(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are read once, without those that no server or every server of its kind has.

    A start without a locale takes C.UTF-8 (PEP 538).
    """
    left = {LIBRARIES, COUNTED, "PYTHONUNBUFFERED", "LANG", "LC_CTYPE", *SET_FOR_CHILDREN}
    read = {name: value for name, value in environ.items() if ONCE.fullmatch(name) and name not in left}
    return {"LC_ALL": environ.get("LC_CTYPE") or environ.get("LANG") or "C.UTF-8", **read}


class Server:
    """A Python that waits for this process's requests."""

    def __init__(self, kind: str, libraries: str) -> None:
        """Start it; it ends with its caller."""
        here, there = socket.socketpair()
        environ = {name: value for name, value in os.environ.items() if name != COUNTED}
        environ |= {LIBRARIES: libraries, **SET_FOR_CHILDREN} if kind == "bench" else {}
        environ |= {LIBRARIES: libraries} if kind == "probes" else {}
        plain = PROBES[1:3] if kind == "probes" else []
        argv = [sys.executable, *plain, str(Path(__file__)), kind, str(there.fileno())]
        self.process = REAL(argv, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, env=environ)
        there.close()
        self.door, self.lock = here, threading.Lock()

    def fork(self, asked: Mapping[str, object], fds: Sequence[int]) -> int:
        """Return the id of a new child of this process, which runs the request with these files."""
        with self.lock, open(os.memfd_create("asked"), "w+b") as own:  # noqa: PTH123 - a file without a path
            own.write(json.dumps(asked).encode("utf-8", "surrogateescape"))
            own.seek(0)
            prctl(SUBREAPER, 1)  # the fork's parent ends at once: so the child becomes this process's own
            try:
                socket.send_fds(self.door, [b"x"], [own.fileno(), *fds])
                said = json.loads(self.door.recv(4096) or '[5, "the Python that forks has ended"]')
            finally:
                prctl(SUBREAPER, 0)
        if isinstance(said, int):
            return said
        raise OSError(*said)


@cache
def server(of: int, kind: str, libraries: str) -> Server:
    """Return the server of this kind for this process: a fork of it starts its own."""
    del of
    return Server(kind, libraries)


def prctl(option: int, value: int) -> None:
    """Set an option of this process."""
    if ctypes.CDLL(None).prctl(option, value, 0, 0, 0):
        raise OSError


def main(kind: str, door: socket.socket) -> None:
    """Import what is used, and fork for each request."""
    sys.path[:] = [entry for entry in sys.path if entry and Path(entry) != Path(__file__).parent]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for room in ROOMS if kind != "probes" else ():
        package = import_module(f"gpustack.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # what an extra brings
                import_module(module.name)
    for name in PROBING if kind == "probes" else (*USED, *(MEASURING if kind == "bench" else ())):
        with suppress(ImportError):
            import_module(name)
    if kind != "probes":
        rehearse()
    gc.collect()
    gc.freeze()
    while True:
        said, fds, _, _ = socket.recv_fds(door, 1, 64)
        if not said:
            return
        wait, go = os.pipe()
        between = os.fork()
        if not between:
            if not os.fork():
                os.close(go)
                begin(door, wait, fds)
            os._exit(0)
        os.waitpid(between, 0)
        for fd in (wait, go, *fds):  # which lets the child begin
            os.close(fd)


def rehearse() -> None:
    """Judge a recorded machine: what a process makes once, and no table, is then there before it forks."""
    from gpustack.diagnose.engine import judge  # noqa: PLC0415 - by the server alone, which then counts no line of it
    from gpustack.imports import load_texts  # noqa: PLC0415
    from gpustack.matrix import Matrix  # noqa: PLC0415
    from gpustack.report import renderer  # noqa: PLC0415

    example, matrix = Path(__file__).parents[1] / "examples/driver-too-old.json", Matrix()
    report = judge(load_texts({example.name: example.read_bytes()}, matrix), matrix)
    for form in ("text", "json"):
        renderer(form)(report)


def begin(door: socket.socket, wait: int, fds: Sequence[int]) -> NoReturn:
    """In a fork, become the requested program once the caller is its parent; never return."""
    os.read(wait, 1)
    with open(fds[0]) as file:  # noqa: PTH123 - a file without a path
        asked = json.load(file)
    try:
        if asked["session"]:
            os.setsid()
        os.chdir(asked["cwd"])
    except OSError as error:
        door.sendall(json.dumps([error.errno, error.strerror, asked["cwd"]]).encode())
        os._exit(127)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    door.sendall(str(os.getpid()).encode())
    place(fds[1:], asked["fds"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    globals().update(inside=True)
    subprocess.Popen = Popen  # type: ignore[misc]
    code = ran(asked["argv"])
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def place(fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Move these files to the numbers that they have where they come from, and close all others."""
    held = [fcntl.fcntl(fd, fcntl.F_DUPFD, BEYOND) for fd in fds]
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if fd not in held:
            with suppress(OSError):  # that of the listing itself
                os.close(fd)
    for fd, number in zip(held, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        as_started = getattr(sys, f"__{name}__")
        settings = {"encoding": as_started.encoding, "errors": as_started.errors, "closefd": False}
        file = open(number, "w" if number else "r", **settings)  # noqa: PTH123, SIM115 - as Python opens it
        if number:
            file.reconfigure(line_buffering=number == 2 or file.isatty())
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def ran(argv: Sequence[str]) -> int:
    """Run a module or a program as Python would, to the end of its threads, and return the exit code."""
    sys.orig_argv[:] = argv
    code = 0
    try:
        if argv[1] == "-m":
            sys.path.insert(0, str(Path.cwd()))
            sys.argv[:] = argv[2:]
            runpy.run_module(argv[2], run_name="__main__", alter_sys=True)
        elif argv[1:3] == PROBES[1:3]:
            sys.argv[:] = argv[3:]
            runpy.run_path(argv[3], run_name="__main__")
        else:
            sys.argv[:] = argv[2::2]
            exec(compile(argv[3], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own program
    except SystemExit as error:
        code = error.code & 255 if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException:  # noqa: BLE001 - as Python does
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what Python does as it ends
    atexit._run_exitfuncs()  # noqa: SLF001 - the same
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return FLUSHED
    return code


if __name__ == "__main__":
    main(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
