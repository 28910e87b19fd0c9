"""The interface between a probe and the outside: bounded, never waiting, honest about the outcome of each access."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.patience import in_time
from tests.told import Host, ToldHost, load

PROBES = Path(__file__).resolve().parents[2] / "probes"


def host_at(root: Path, **environ: str) -> Host:
    return Host(root=str(root), environ=environ, seconds=1.0)


def test_a_file_is_read_and_what_became_of_the_look_is_logged(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("text\n")
    host = host_at(tmp_path)
    assert host.read("/there") == "text\n"
    assert host.read("/gone") is None
    assert host.read("/there/below") is None
    assert host.read("/") is None
    assert [host.why(path) for path in ("/there", "/gone", "/there/below", "/never")] == [
        "ok",
        "missing",
        "missing",
        "not asked",
    ]
    assert "is a folder" in host.why("/")


def test_what_is_denied_is_not_missing() -> None:
    host = ToldHost({"/secret": PermissionError(13, "Permission denied"), "/bad": OSError(5, "Input/output error")})
    assert host.read("/secret") is None
    assert host.read("/bad") is None
    assert (host.why("/secret"), host.why("/bad")) == ("denied", "[Errno 5] Input/output error")


@in_time
def test_no_file_is_read_beyond_its_limit_or_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    host = host_at(tmp_path)
    begun = time.monotonic()
    assert host.read("/pipe") is None
    assert "is a pipe" in host.why("/pipe")
    assert host.read("/loop") is None
    assert len(Host().bytes("/dev/zero", 3_000_000) or b"") == 3_000_000
    assert time.monotonic() - begun < 1
    assert host.read("/no\0such") is None


@given(st.binary(max_size=200), st.integers(0, 50), st.integers(0, 250))
def test_any_bytes_are_text_and_offsets_hold(data: bytes, offset: int, limit: int) -> None:
    host = ToldHost({"/x": data})
    assert host.bytes("/x", limit, offset) == data[offset : offset + limit]
    assert isinstance(host.read("/x"), str)


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcuda.so.580").write_text("")
    (tmp_path / "lib" / "libcuda.so.1").symlink_to("libcuda.so.580")
    (tmp_path / "libcuda.so").symlink_to("/lib/libcuda.so.1")
    host = host_at(tmp_path)
    assert host.real("/libcuda.so") == "/lib/libcuda.so.580"
    assert host.glob("/lib/libcuda.so.*") == ["/lib/libcuda.so.1", "/lib/libcuda.so.580"]
    assert host.list("/lib") == ["libcuda.so.1", "libcuda.so.580"]
    assert host.list("/gone") == []
    assert (host.exists("/lib"), host.exists("/gone")) == (True, False)
    found = host.stat("/lib")
    assert found
    assert found["kind"] == "dir"


def tool(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@in_time
def test_a_command_is_found_bounded_and_ended(tmp_path: Path) -> None:
    tool(tmp_path, "says", "echo out; echo err >&2; exit 3")
    tool(tmp_path, "hangs", f"echo $$ > {tmp_path}/pid; exec sleep 60")
    tool(tmp_path, "floods", "head -c 3000000 /dev/zero; head -c 9000 /dev/zero >&2")
    host = Host(environ={"PATH": f"relative:{tmp_path}:/bin:/usr/bin"}, seconds=0.5)
    assert host.run("says") == {"code": 3, "out": "out\n", "err": "err\n"}
    assert host.run("no-such-command") is None
    said = host.run("floods") or {}
    assert (len(said["out"]), len(said["err"])) == (1 << 20, 4096)
    (tmp_path / "text").write_text("no program")
    assert host.run(str(tmp_path / "text")) is None
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="hangs gave no answer"):
        host.run("hangs")
    assert time.monotonic() - begun < 2
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert [(name, outcome) for name, _, outcome in host.calls] == [
        ("says", "exit 3"),
        ("floods", "exit 0"),
        ("hangs", "no answer"),
    ]


def test_what_cannot_be_checked_is_nothing_and_raises_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    host = host_at(tmp_path)
    for path, why in (("/loop/x", "[Errno 40] Too many levels of symbolic links"), ("/no\0path", "embedded null byte")):
        assert (host.read(path), host.why(path)) == (None, why)
        assert (host.stat(path), host.list(path), host.link(path), host.exists(path)) == (None, [], None, False)
        assert [outcome for _, asked, outcome in host.log if asked == path] == [why] * 4
    assert host.link("/folder") is None


def test_of_a_log_that_was_overwritten_while_it_was_read_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's log reports "broken pipe" once where records were lost, and the next read continues after them."""
    said: list[bytes | Exception] = [b"first ", BrokenPipeError(), b"last", BlockingIOError()]

    def read(_handle: int, _most: int) -> bytes:
        part = said.pop(0)
        if isinstance(part, Exception):
            raise part
        return part

    monkeypatch.setattr(os, "read", read)
    assert load("host.py")["_held"](0, 1 << 20) == b"first last"


def test_a_child_that_cannot_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", lambda _process, _number: None)
        begun = time.monotonic()
        assert load("children.py")["collect"](child.pid, kill=True) is None
    child.kill()
    child.wait()
    assert time.monotonic() - begun < 5


def test_another_user_s_process_is_there_though_it_may_not_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(process: int, _number: int) -> None:
        raise {1: PermissionError, 2: ProcessLookupError}[process]

    monkeypatch.setattr(os, "kill", kill)
    assert [load("children.py")["_lives"](process) for process in (1, 2)] == [True, False]


def test_a_command_is_found_without_a_path() -> None:
    assert (Host(environ={}).path("sh") or "").endswith("/sh")
    assert Host(environ={}).path("no-such-command") is None


def test_a_library_and_a_module_are_asked_by_name_and_timed() -> None:
    host = Host()
    libc = host.library("libc.so.6")
    assert libc.has("getpid")
    assert not libc.has("no_such_function")
    assert libc.call("getpid") == os.getpid()
    with pytest.raises(OSError, match="cannot open shared object"):
        host.library("libno-such.so.1")
    math = host.module("math")
    assert math.value("pi") > 3
    assert math.value("tau_of_another_version", 6) == 6
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        math.call("sqrt", -1.0)
    names = [name for name, _, _ in host.calls]
    assert names[:3] == ["dlopen libc.so.6", "getpid", "dlopen libno-such.so.1"]
    assert host.mapped("libc")


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (os.abort, "killed by signal 6"),
        (lambda: os.kill(os.getpid(), 11), "killed by signal 11"),
        (lambda: os._exit(3), "ended with code 3 and no answer"),
        (lambda: sys.exit(4), "SystemExit: 4"),
        (lambda: time.sleep(60), "no answer in 0.3 s"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (object, "ended with code 0 and no answer"),
    ],
)
def test_work_done_apart_cannot_hurt(work: object, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match=says):
        Host().apart(work, seconds=0.3 if says.startswith("no answer") else 10)  # type: ignore[arg-type]  # whatever hurts
    assert capfd.readouterr().out == ""


def test_work_done_apart_answers_and_its_noise_is_not_heard(capfd: pytest.CaptureFixture[str]) -> None:
    assert Host().apart(lambda: [os.write(1, b"noise"), {"version": "9.19"}][1]) == {"version": "9.19"}
    assert len(Host().apart(lambda: "x" * 500_000)) == 500_000
    assert capfd.readouterr().out == ""


def test_of_a_flood_of_output_the_last_words_are_kept() -> None:
    lines: list[str] = []
    load("hearing.py")["heard"](lambda: [os.write(2, b"noise\n" * 50_000), os.write(2, b"the reason\n")], lines)
    assert (len(lines), lines[-1]) == (20, "the reason")


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_the_probes_run_in_other_pythons_without_gpustack(version: str) -> None:
    found = Host().path(f"python{version}")
    if found is None or subprocess.run([found, "-c", "pass"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no working python{version} here")
    done = subprocess.run([found, "-I", PROBES, "linux-kernel", "python"], capture_output=True, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("at", line.get("status")) for line in said] == ["linux-kernel", "present", "python", "present"]
    assert said[3]["instances"][0]["version"].startswith(version + ".")
    assert done.stderr == ""


def deep() -> list[object]:
    sys.setrecursionlimit(50_000)  # in the fork, so that it can report what nothing else can read
    nested: list[object] = []
    for _ in range(3000):
        nested = [nested]
    return nested


def test_an_answer_from_apart_that_cannot_be_read_affects_no_other() -> None:
    said, other = Host().apart_all([deep, lambda: 7])
    assert other == 7
    assert isinstance(said, list) or "an answer that is none" in str(said)  # Python 3.12 can read it


def test_noise_of_a_probe_does_not_reach_its_answers() -> None:
    asked = {"rows": [{"id": "x", "probe": "../tests/probes/noisy.py"}]}
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROBES, json.dumps(asked)], capture_output=True, text=True, check=False
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[1]["instances"] == [{"loud": True}]
    assert "printed by python" in done.stderr
    assert "printed by the system" in done.stderr


def test_a_probe_that_raises_has_failed_with_its_reason() -> None:
    asked = {"rows": [{"id": "x", "probe": "no/such.py"}, {"id": "linux-kernel", "probe": "kernel/linux_kernel.py"}]}
    done = subprocess.run([sys.executable, PROBES, json.dumps(asked)], capture_output=True, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert (said[1]["status"], said[3]["status"]) == ("failed", "present")
    assert "FileNotFoundError" in said[1]["reason"]


def test_whatever_a_probe_raises_and_however_much_it_read_is_one_answer(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "def probe(host):\n    host.log += [('read', '/x', 'ok')] * 999\n"
        "    host.calls += [('call', 0.0, 'ok')] * 999\n    raise ZeroDivisionError('odd')\n"
    )
    row = {"id": "x", "probe": os.path.relpath(tmp_path / "loud.py", PROBES)}
    said = load("__main__.py")["ask"](row, Host, "probe")
    assert (said["status"], said["reason"]) == ("failed", "ZeroDivisionError: odd")
    assert (len(said["log"]), len(said["calls"])) == (400, 400)
