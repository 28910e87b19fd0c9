"""The command line in a fork of a Python that has imported it: what it says, without the time of a start.

What a start itself does (its options, its locale, closed outputs, where modules come from) is tried by real starts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COVERAGE = "COVERAGE_PROCESS_CONFIG"
SERVER = """
import gc, json, os, pkgutil, socket, sys
from contextlib import suppress
from importlib import import_module
sys.argv = ["gpustack"]
import gpustack.__main__
rooms = "ask cli collect compare diagnose explain imports matrix model policy report trace"
for room in rooms.split():
    package = import_module("gpustack." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        with suppress(ImportError):  # what an extra brings
            import_module(module.name)
gc.freeze()
door = socket.socket(fileno=int(sys.stdin.readline()))
while True:
    said, got, _, _ = socket.recv_fds(door, 1, 4)
    if not said:  # who asked has ended
        break
    own, *fds = got
    with open(own) as file:
        asked = json.load(file)
    child = os.fork()
    if not child:
        door.close()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(3, 256)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environ"])
        sys.argv[1:] = asked["argv"]
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", errors="backslashreplace")
        code = 1
        try:
            gpustack.__main__.main()
            code = 0
        except SystemExit as error:
            code = error.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for fd in fds:
        os.close(fd)
    _, status = os.waitpid(child, 0)
    door.sendall(b"%d\\n" % os.waitstatus_to_exitcode(status))
"""


@cache
def server(of: int) -> tuple[subprocess.Popen[str], socket.socket]:
    """Return the Python that waits for what this process asks, and the way to it."""
    del of  # a fork of this process starts its own
    here, there = socket.socketpair()
    environ = {name: value for name, value in os.environ.items() if name != COVERAGE}
    running = subprocess.Popen(
        [sys.executable, "-P", "-c", SERVER] if sys.version_info >= (3, 11) else [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        pass_fds=[there.fileno()],
        env=environ,
        text=True,
    )
    assert running.stdin
    running.stdin.write(f"{there.fileno()}\n")
    running.stdin.flush()
    there.close()
    return running, here


def run(
    argv: Sequence[str], *, cwd: Path | str, environ: Mapping[str, str], given: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run ``gpustack`` with these arguments there, and give what ``subprocess.run`` would."""
    _, door = server(os.getpid())
    with (
        tempfile.TemporaryFile() as own,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        own.write(json.dumps({"argv": list(argv), "cwd": str(cwd), "environ": dict(environ)}).encode())
        stdin.write(given.encode())
        for file in (own, stdin):
            file.seek(0)
        door.settimeout(timeout)
        socket.send_fds(door, [b"x"], [file.fileno() for file in (own, stdin, out, err)])
        code = int(door.recv(16))
        for file in (out, err):
            file.seek(0)
        said, complained = (file.read().decode("utf-8", "replace") for file in (out, err))
    return subprocess.CompletedProcess(list(argv), code, said, complained)
