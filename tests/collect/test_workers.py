"""Children that crash, hang, print garbage, or cannot be killed: each loses its own answer and no other."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack import assets
from gpustack.collect import workers
from gpustack.collect.catalogue import System, load
from gpustack.collect.probing import begin, look, plan
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Reply, Task, ask
from gpustack.model.facts import Layer
from tests.patience import in_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = in_time

PROGRAM = """
import json, os, signal, sys, time
asked = json.loads(sys.argv[1])
def say(line):
    os.write(1, line.encode() + b"\\n")
def answer(row):
    say(json.dumps({{"at": row["id"]}}))
    if "do" in row:
        exec(row["do"])
    say(json.dumps({{"id": row["id"], "status": "present", "instances": [{{"version": "1"}}]}}))
for row in asked["rows"]:
    answer(row)
{end}
"""


def system(name: str, do: str | None = None, seconds: float = 5.0) -> System:
    data = {"id": name, "layer": "driver"} | ({"do": do} if do else {})
    return System(
        id=name, layer=Layer.DRIVER, vendor="any", here=True, target=False, alone=False, deep=False, group="",
        seconds=seconds, data=data,
    )  # fmt: skip


def run(
    tmp_path: Path, *groups: tuple[System, ...], door: Door | None = None, seconds: float = 8.0, end: str = ""
) -> tuple[dict[str, Reply], float]:
    """Return the replies by id, and how long all of them took."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(end=end))
    tasks = [Task(argv=(sys.executable, "-I", "-S", str(program)), environ={}, systems=group) for group in groups]
    door = door or Door()
    begun = time.monotonic()
    replies = {reply.system.id: reply for reply in ask(tasks, door, door.now() + seconds)}
    return replies, time.monotonic() - begun


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("os.abort()", "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os._exit(0)", "exit code 0 before it answered"),
        ("os._exit(7)", "exit code 7"),
        ("sys.exit('the library says no')", "the library says no"),
        ("say('[1, 2')", "not an answer: b'[1, 2'"),
        ('say(\'{"id": "somebody-else"}\')', "not an answer"),
        ("say('[' * 100000)", "not an answer"),
        ("os.write(1, b'\\xff\\x00\\xfe\\n')", "not an answer"),
        ("os.write(1, bytes(1 << 20)); [os.write(1, bytes(1 << 20)) for _ in range(20)]", "over 16 MiB"),
        ("os.close(1); time.sleep(60)", "closed its output but keeps running"),
    ],
)
def test_a_faulty_probe_loses_only_its_own_answer(tmp_path: Path, do: str, says: str) -> None:
    replies, seconds = run(tmp_path, (system("first"), system("sick", do), system("third")), (system("beside"),))
    assert says in (replies["sick"].failure or "")
    assert [name for name, reply in replies.items() if reply.answer] == ["first", "third", "beside"]
    assert seconds < 4


def test_a_hang_is_ended_and_told_with_its_state(tmp_path: Path) -> None:
    replies, seconds = run(tmp_path, (system("hung", "time.sleep(60)", 0.4), system("next")))
    assert (replies["hung"].failure or "").startswith("gave no answer in 0.4 s (state S")
    assert replies["next"].answer
    assert seconds < 3


def test_the_last_step_is_reported_and_gives_no_more_time(tmp_path: Path) -> None:
    say = "say(json.dumps({'at': 'tried', 'step': '%s'}))"
    do = f"{say % 'import'}\nfor n in range(40): time.sleep(0.25); {say % 'compile'}"
    replies, seconds = run(tmp_path, (system("tried", do, 1.0), system("next", "os._exit(3)")))
    assert (replies["tried"].failure or "").startswith("gave no answer in 1.")
    assert replies["tried"].step == "compile"
    assert replies["next"].step is None
    assert seconds < 3


def test_what_a_child_says_of_its_steps_and_its_errors_is_kept_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "last_line", lambda errors: f"{len(errors)} bytes")
    do = "say(json.dumps({'at': 'x', 'step': 's' * 9999})); os.write(2, b'e' * 50_000); os._exit(1)"
    replies, _ = run(tmp_path, (system("x", do),))
    assert replies["x"].step == "s" * workers.MOST_STEP
    assert f"{workers.MOST_STDERR} bytes" in (replies["x"].failure or "")


def test_a_hang_that_ignores_the_terminal_and_has_children_of_its_own_leaves_none(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    do = f"p = os.fork(); (open({str(mark)!r}, 'w').write(str(p or os.getpid()))); time.sleep(60)"
    run(tmp_path, (system("hung", do, 0.6),))
    pid = mark.read_text()
    deadline = time.monotonic() + 2
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        text = Path(f"/proc/{pid}/stat").read_text() if Path(f"/proc/{pid}").exists() else ""
        if text.rpartition(")")[2].split()[:1] == ["Z"]:
            break
        time.sleep(0.01)
    else:
        assert not Path(f"/proc/{pid}").exists()


class Refusing(Door):
    """A subprocess starter that cannot kill anything, as if the child were in uninterruptible sleep."""

    def __init__(self) -> None:
        self.children: list[subprocess.Popen[bytes]] = []

    def kill(self, child: subprocess.Popen[bytes]) -> None:
        self.children.append(child)


def test_a_child_that_cannot_be_killed_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    door = Refusing()
    replies, seconds = run(tmp_path, (system("stuck", "time.sleep(30)", 0.4), system("next")), door=door)
    for child in door.children:
        Door().kill(child)
    assert "could not be ended and is left behind" in (replies["stuck"].failure or "")
    assert replies["next"].answer
    assert seconds < 3


def test_the_deadline_ends_all_and_says_what_was_not_queried(tmp_path: Path) -> None:
    slow = tuple(system(f"slow-{n}", "time.sleep(30)", 20) for n in range(2))
    replies, seconds = run(tmp_path, slow, (system("also", "time.sleep(30)", 20),), (system("well"),), seconds=1.0)
    assert seconds < 2
    assert replies["well"].answer
    assert "gave no answer" in (replies["slow-0"].failure or "")
    assert "gave no answer" in (replies["also"].failure or "")
    assert not replies["slow-1"].asked


def test_a_child_that_has_answered_and_stays_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    do = f"open({str(mark)!r}, 'w').write(str(os.getpid()))"
    door = Door()
    replies, _ = run(tmp_path, (system("x", do),), end="time.sleep(60)", door=door)
    assert replies["x"].answer
    deadline = time.monotonic() + 5
    while (there := Path(f"/proc/{mark.read_text()}").exists()) and time.monotonic() < deadline:
        door.collect()
        time.sleep(0.01)
    assert not there


def test_where_the_user_has_already_pressed_ctrl_c_nothing_is_queried(tmp_path: Path) -> None:
    door = Door()
    door.interrupted = True
    replies, seconds = run(tmp_path, (system("x"),), door=door)
    assert (replies["x"].asked, replies["x"].failure) == (False, workers.CUT)
    assert seconds < 1


def test_a_deadline_with_children_that_cannot_be_killed_is_kept(tmp_path: Path) -> None:
    door = Refusing()
    groups = [(system(f"stuck-{n}", "time.sleep(30)", 20),) for n in range(6)]
    replies, seconds = run(tmp_path, *groups, door=door, seconds=1.0)
    for child in door.children:
        Door().kill(child)
    assert all("left behind" in (reply.failure or "") for reply in replies.values())
    assert seconds < 2


def test_what_a_child_says_after_its_last_answer_is_not_listened_to(tmp_path: Path) -> None:
    both = """os.write(1, b'{"id": "well", "status": "present"}\\nand more\\n')"""
    replies, _ = run(tmp_path, (system("well", both),), end="time.sleep(30)")
    assert replies["well"].answer == {"id": "well", "status": "present"}


def test_a_child_that_dawdles_on_its_way_out_is_not_waited_for(tmp_path: Path) -> None:
    replies, seconds = run(tmp_path, (system("well"),), end="time.sleep(30)")
    assert replies["well"].answer
    assert seconds < 3


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("/nowhere/python",), "could not be started"),
        (("/bin/false",), "exit code 1 before it answered"),
        (("/bin/true",), "exit code 0 before it answered"),
        (("/usr/bin/yes",), "not an answer"),
        (("/etc/passwd",), "could not be started: Permission denied"),
    ],
)
def test_a_program_that_is_not_a_python_is_an_answer_to_all_that_was_asked_of_it(
    argv: tuple[str, ...], says: str
) -> None:
    door = Door()
    task = Task(argv=argv, environ={}, systems=(system("one"), system("two")))
    replies = list(ask([task], door, door.now() + 5))
    assert [reply.system.id for reply in replies] == ["one", "two"]
    assert all(says in (reply.failure or "") for reply in replies)


def test_replies_come_in_the_order_of_the_question(tmp_path: Path) -> None:
    groups = ((system("slow", "time.sleep(0.3)"),), (system("quick"),))
    assert list(run(tmp_path, *groups)[0]) == ["slow", "quick"]


def test_only_so_many_are_at_work_at_a_time_and_the_rest_wait_for_their_turn(tmp_path: Path) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "at-work"
    program.write_text(PROGRAM.format(end=""))
    folder.mkdir()
    do = f"""
mark = os.path.join({str(folder)!r}, str(os.getpid()))
open(mark, "w").close(); time.sleep(0.2); count = len(os.listdir({str(folder)!r})); os.remove(mark)
row["id"] += "" if count <= 3 else "-too-many"
"""
    tasks = [
        Task(argv=(sys.executable, "-I", "-S", str(program)), environ={}, systems=(system(f"n{n}", do),))
        for n in range(9)
    ]
    door, left = Door(), []
    replies = list(ask(tasks, door, door.now() + 20, most=3, progress=lambda undone: left.append(len(undone))))
    assert [reply.system.id for reply in replies if reply.answer] == [f"n{n}" for n in range(9)]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_what_has_not_had_its_turn_by_the_deadline_is_said(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(end=""))
    tasks = [
        Task(
            argv=(sys.executable, "-I", "-S", str(program)), environ={}, systems=(system(f"n{n}", "time.sleep(9)", 20),)
        )
        for n in range(3)
    ]
    door = Door()
    begun = time.monotonic()
    replies = list(ask(tasks, door, door.now() + 0.5, most=1))
    assert time.monotonic() - begun < 2
    assert [reply.asked for reply in replies] == [True, False, False]
    assert replies[2].failure == "the time was up before it was asked"


def test_more_children_that_cannot_be_started_than_may_be_at_work_all_answer(tmp_path: Path) -> None:
    tasks = [Task(argv=(str(tmp_path / "none"),), environ={}, systems=(system(f"n{n}"),)) for n in range(5)]
    door = Door()
    replies = list(ask(tasks, door, door.now() + 5, most=2))
    assert ["could not be started" in (reply.failure or "") for reply in replies] == [True] * 5


def test_what_else_a_child_is_told_reaches_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(end=""))
    do = "row['id'] += '' if asked['root'] == '/image' else '?'"
    argv = (sys.executable, "-I", "-S", str(program))
    task = Task(argv=argv, environ={}, systems=(system("n", do),), more={"root": "/image"})
    door = Door()
    assert [reply.answer is not None for reply in ask([task], door, door.now() + 5)] == [True]


def test_a_look_leaves_a_second_of_its_time_for_the_report(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    hangs = replace(system("hung", seconds=20.0), here=False, target=True)
    facts = look(pythons=[str(python)], systems=[hangs], timeout=2.2, environ={"PATH": "/usr/bin:/bin"})
    assert [one.what for one in facts.not_seen] == [f"all in {python}"]
    assert 1.2 <= facts.seconds < 2.2


def test_a_look_that_may_take_less_than_the_report_does_asks_anyway() -> None:
    facts = look(
        systems=(replace(system("linux-kernel"), data={"id": "linux-kernel", "probe": "none.py"}),), timeout=0.1
    )
    assert workers.LATE not in str(facts.components[0].reason)


@pytest.mark.parametrize("kept", ["none", "whole", "damaged", "old"])
def test_probes_run_as_compiled_by_an_installer_or_else_from_their_source_and_nothing_is_written(
    kept: str, tmp_path: Path
) -> None:
    (tmp_path / "host.py").write_text("class Host:\n    def __init__(self, *_): self.log, self.calls = [], []\n")
    (tmp_path / "__main__.py").write_bytes(assets.RUNNER.read_bytes())
    probe = tmp_path / "probe.py"
    probe.write_text("def probe(host): return {'version': 'one'}\n")
    if kept != "none":
        compiled = Path(py_compile.compile(str(probe), doraise=True) or "")
        taken = probe.stat()
        probe.write_text("def probe(host): return {'version': 'two'}\n")  # the same length as before
        os.utime(probe, ns=(0, 0) if kept == "old" else (taken.st_atime_ns, taken.st_mtime_ns))
        if kept == "damaged":
            compiled.write_bytes(compiled.read_bytes()[:16] + b"\xff" * 40)
    there = sorted(tmp_path.rglob("*"))
    asked = json.dumps({"rows": [{"id": "x", "probe": "probe.py"}]})
    done = subprocess.run(
        [sys.executable, "-I", "-S", tmp_path / "__main__.py", asked], capture_output=True, check=True
    )
    (instance,) = json.loads(done.stdout.splitlines()[-1])["instances"]
    assert instance["version"] == {"none": "one", "whole": "one", "damaged": "two", "old": "two"}[kept]
    assert sorted(tmp_path.rglob("*")) == there


def test_cuda_starts_first_and_opencl_after_it_in_the_same_process() -> None:
    first, *others = [[one.id for one in task.systems] for task in plan((), {}, load(), deep=False)]
    assert first == ["libcuda", "opencl"]
    assert ["nvml"] in others
    assert ["gpu"] in others


class Counting(Door):
    """A door that keeps what it starts."""

    def __init__(self) -> None:
        self.started: list[list[str]] = []

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        self.started.append([one["id"] for one in json.loads(argv[-1])["rows"]])
        return super().start(argv, environ, stdin)


def test_the_slowest_probe_starts_ahead_and_the_look_takes_its_child_over_once() -> None:
    cuda = [one for one in load() if one.group == "cuda"]
    begin()
    for asked_again in (False, True):
        door = Counting()
        facts = look(systems=cuda, door=door)
        assert door.started == ([["libcuda", "opencl"]] if asked_again else [])
        assert {one.id for one in facts.components} == {"libcuda", "opencl"}
        assert not facts.not_seen


@pytest.mark.parametrize(
    ("arguments", "ahead"),
    [("doctor -q", True), ("doctor --from nothing", False), ("doctor -h", False), ("explain Xid 79", False)],
)
def test_the_slowest_probe_starts_before_the_command_line_is_imported(arguments: str, *, ahead: bool) -> None:
    program = (
        "import sys; from gpustack.collect import workers; from gpustack import __main__ as it; whole = workers.begin\n"
        "def begin(*a): print('ahead', 'typer' in sys.modules); whole(*a)\n"
        "import gpustack.collect.probing as probing; probing.start = begin\n"
        f"sys.argv = ['gpustack', *{arguments.split()!r}]; it.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ("ahead False" in done.stdout) == ahead
    assert "Traceback" not in done.stderr
