"""Children that finish, die, hang, or print nonsense: the parent reads what there is, and finishes on time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from gpustack.bench.listening import Line, start
from gpustack.collect.subprocesses import Door
from gpustack.errors import NothingSeenError
from tests.patience import in_time

if TYPE_CHECKING:
    import subprocess

pytestmark = in_time

PREFACE = """
import json, os, signal, sys, time
asked = json.loads(sys.argv[1])
def say(kind, what=None):
    os.write(1, json.dumps({kind: what}).encode() + b"\\n")
"""


class Scripted(Door):
    """A subprocess starter that runs scripts instead of the child, one after the other if there are several."""

    def __init__(self, *scripts: str) -> None:
        self.scripts = list(scripts)
        self.started: list[str] = []

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        self.started.append(argv[-1])
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return super().start([sys.executable, "-I", "-S", "-c", PREFACE + script, argv[-1]], environ, stdin)


def heard(script: str, *, door: Door | None = None, patience: float = 5.0, seconds: float = 8.0) -> list[Line]:
    door = door or Scripted(script)
    ear = start({"names": []}, dict(os.environ), door, patience, door.now() + seconds)
    try:
        return list(ear.lines())
    finally:
        ear.close()


def test_what_is_said_is_heard_until_it_is_done() -> None:
    said = heard("say('at', 'hbm.read'); say('part', 0.5); say('done'); say('at', 'late')")
    assert said == [Line(kind="at", what="hbm.read"), Line(kind="part", what=0.5), Line(kind="done", what=None)]


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("sys.stderr.write('one\\nno memory'); sys.exit(3)", "ended with exit code 3 before it answered (no memory)"),
        ("pass", "ended with exit code 0 before it answered"),
        ("os.close(1); time.sleep(60)", "closed its output but keeps running"),
        ("print('Hello from a library', flush=True)", "printed an unexpected line: b'Hello from a library'"),
        ("os.write(1, b'[' * 100000 + b'\\n')", "printed an unexpected line"),
        ("os.write(1, b'{\"what\": 1}\\n')", "printed an unexpected line"),
        ("os.write(1, b'\\xff\\xfe\\n')", "printed an unexpected line"),
        ("exec('while True: os.write(1, b\"x\" * 65536)')", "printed a line of over 4 MiB"),
    ],
)
def test_every_other_end_is_reported(script: str, how: str) -> None:
    last = heard(script)[-1]
    assert last.kind == "died"
    assert last.what.startswith(how)


def test_a_child_that_is_silent_for_too_long_is_ended() -> None:
    begun = time.monotonic()
    last = heard("say('at', 'x'); signal.pause()", patience=0.5)[-1]
    assert last.kind == "died"
    assert "printed nothing for 0." in last.what
    assert "state S" in last.what
    assert time.monotonic() - begun < 4


def test_a_child_that_talks_on_is_ended_at_the_deadline() -> None:
    last = heard("\nwhile True: say('part', 0.1); time.sleep(0.05)", seconds=0.6)[-1]
    assert last.kind == "died"


class Powerless(Scripted):
    """A subprocess starter that cannot kill a child, as the kernel cannot while a process sleeps in a driver."""

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        self.child = super().start(argv, environ, stdin)
        return self.child

    def kill(self, child: subprocess.Popen[bytes]) -> None:
        pass


def test_a_child_that_cannot_be_ended_is_left_behind() -> None:
    door, begun = Powerless("signal.pause()"), time.monotonic()
    try:
        last = heard("", door=door, patience=0.3)[-1]
    finally:
        os.killpg(door.child.pid, signal.SIGKILL)
    assert last.what.endswith("it could not be ended and is left behind")
    assert time.monotonic() - begun < 4


def test_a_child_that_cannot_be_started_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(NothingSeenError, match="the benchmarks could not be started: No such file"):
        start({}, {}, Door(), 1.0, 1.0)


def test_the_child_of_ours_is_told_where_the_package_lies() -> None:
    door = Scripted("say('done')")
    ear = start({"gpu": 3}, dict(os.environ), door, 5.0, door.now() + 5)
    list(ear.lines())
    ear.close()
    assert '"gpu": 3' in door.started[0]
    assert all(entry in door.started[0] for entry in sys.path if entry and "\\" not in entry)
