"""No file is lost or half written: on a full disk, through links and pipes, and on Ctrl-C."""

from __future__ import annotations

import ast
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from gpustack import cli
from gpustack.bench import compiling
from gpustack.cli import examining, measuring
from gpustack.cli.options import Shape
from gpustack.cli.results import summarise
from gpustack.collect.updates import save
from gpustack.errors import OutputError
from gpustack.model import writing
from gpustack.model.matrix_answer import MatrixUpdate, RowChange
from tests import warm
from tests.report import measurements, reports

REPO = Path(__file__).resolve().parents[2]
OLD = "what was there before\n"
BROKEN = REPO / "examples/driver-too-old.json"
HEALTHY = REPO / "tests/snapshots/snapshot-1.json"
FORMS = [word for form in Shape for word in ("--format", form.value, "-o", form.value)]
COMMANDS = (
    ("doctor", "--from", BROKEN, "-o"),
    ("snapshot", "--from", BROKEN, "-o"),
    ("stack", "--from", BROKEN, "-o"),
    ("stack", "--from", BROKEN, "--format", "html", "-o"),
    ("diff", BROKEN, BROKEN, "-o"),
    ("check", "--from", BROKEN, "--format", "json", "-o"),
    ("check", "--from", BROKEN, "--init", "--force", "--policy"),
    ("explain", "xid 79", "-o"),
    ("matrix", "show", "pytorch", "-o"),
    ("matrix", "why", "torch==2.11.0", "--driver", "550.54.15", "-o"),
    ("matrix", "plan", "torch>=2.6", "--driver", "550.54.15", "-o"),
    ("selftest", "-o"),
    ("trace", "--from", BROKEN, "--format", "perfetto", "-o"),
)


def gpustack(*arguments: str | Path, at: Path = REPO) -> subprocess.CompletedProcess[str]:
    return warm.run([*map(str, arguments)], cwd=at, environ=os.environ, timeout=90)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(map(str, command[:2])))
def test_on_a_full_disk_every_command_leaves_the_old_file_and_says_so(
    command: tuple[str | Path, ...], full: Path
) -> None:
    done = gpustack(*command, full / "old")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpustack: {full}/old cannot be written: No space left on device\n"
    assert (full / "old").read_text() == OLD
    assert {path.name for path in full.iterdir()} == {"old", "filler"}
    if command[0] == "selftest":
        return  # it takes a second, and ends in the same function
    done = gpustack(*command, full / "new")
    assert done.returncode == 2
    assert {path.name for path in full.iterdir()} == {"old", "filler"}
    done = gpustack(*command, "/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "/dev/full cannot be written: No space left on device" in done.stderr


@pytest.mark.parametrize("command", ["doctor", "snapshot", "stack"])
def test_what_cannot_be_written_is_refused_before_the_machine_is_examined(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(examining, "taken", lambda *_, **__: pytest.fail("it was examined"))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for output, says in (
        ("/nowhere/out", "no writable folder /nowhere"),
        ("out", "the working folder no longer exists"),
    ):
        monkeypatch.setattr(sys, "argv", ["gpustack", command, "-o", output])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert (ended.value.code, capsys.readouterr().err) == (2, f"gpustack: {output} cannot be written: {says}\n")


def test_every_form_is_whole_or_old_on_a_full_disk(full: Path) -> None:
    for form in Shape:
        (full / form.value).symlink_to("old")  # a short link takes no space
    done = gpustack("doctor", "--from", BROKEN, *FORMS, at=full)
    assert (done.returncode, done.stderr.count("No space left on device")) == (2, len(Shape))
    assert (full / "old").read_text() == OLD


def test_what_a_bench_saves_and_draws_is_whole_or_old_on_a_full_disk(full: Path) -> None:
    for asked in ("save", "plot"):
        (full / f"{asked}.svg").symlink_to("old")
        where = {"save": None, "plot": None, asked: full / f"{asked}.svg"}
        with pytest.raises(OutputError, match="No space left on device"):
            measuring.kept(measurements.good(), measuring.Wanted(older=None, tolerance=0.03, **where))
        assert (full / "old").read_text() == OLD


def test_rows_kernels_and_summaries_are_whole_or_old_on_a_full_disk(full: Path) -> None:
    (full / "vllm.releases.toml").symlink_to("old")
    row = RowChange(table="vllm", part="releases", key="1", now='version = "1"', was=None)
    with pytest.raises(OutputError, match="No space left on device"):
        save(MatrixUpdate(asked=(), same=0, changes=(row,), unread=()), full)
    compiling.keep(full / "old", b"code")
    with pytest.raises(OutputError, match="No space left on device"):
        summarise(reports.h200(), full / "filler")
    assert (full / "old").read_text() == OLD
    assert set((full / "filler").read_bytes()) == {0}
    assert {path.name for path in full.iterdir()} == {"old", "filler", "vllm.releases.toml"}


def test_a_summary_is_added_to_whole_or_not_at_all(tmp_path: Path, full: Path) -> None:
    (full / "filler").write_bytes(b"")
    (full / "old").write_text("# Before\n")
    with pytest.raises(OutputError, match="No space left on device"):
        writing.append(full / "old", b"x" * 200_000)
    assert (full / "old").read_text() == "# Before\n"
    writing.append(tmp_path / "new", b"# First\n")
    writing.append(tmp_path / "new", b"# Second\n")
    assert (tmp_path / "new").read_text() == "# First\n# Second\n"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_mode_and_owner_of_the_old_file_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "report"
    path.write_text(OLD)
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    elif mode == 0o444:
        with pytest.raises(OutputError, match="Permission denied"):
            writing.write(path, "new")
        return
    before = path.stat()
    with path.open() as reading:
        writing.write(path, "new")
        assert reading.read() == OLD  # a reader of the old file can read it to the end
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])


def test_a_new_file_has_the_mode_of_the_users_mask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        writing.write(tmp_path / "new", "text \udcff \N{SNOWMAN}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert (tmp_path / "new").read_text("utf-8") == "text ? \N{SNOWMAN}"


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    for folder in ("links", "files"):
        (tmp_path / folder).mkdir()
    (tmp_path / "links/report").symlink_to("../files/latest")
    (tmp_path / "files/latest").symlink_to("one")
    for text in ("first", "second"):  # the first one is created: the link was dangling
        writing.write(tmp_path / "links/report", text)
        assert (tmp_path / "files/one").read_text() == text
    assert (tmp_path / "links/report").is_symlink()
    assert (tmp_path / "files/latest").is_symlink()
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["latest", "one"]
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(OutputError, match="ring cannot be written"):
        writing.write(tmp_path / "ring", "text")
    with pytest.raises(OutputError, match="Is a directory"):
        writing.write(tmp_path, "text")
    with pytest.raises(OutputError, match="No such file"):
        writing.write(tmp_path / "no/where", "text")


def test_a_link_to_nothing_leaves_nothing_on_a_full_disk(full: Path) -> None:
    (full / "link").symlink_to("new")
    with pytest.raises(OutputError, match="No space left on device"):
        writing.write(full / "link", OLD)
    assert {path.name for path in full.iterdir()} == {"old", "filler", "link"}


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_name_is_written_to_as_it_is(tmp_path: Path, name: str) -> None:
    file = tmp_path / "log"
    for number in range(2):
        with file.open("ab") as out:
            before = os.fstat(out.fileno()).st_ino
            out.write(b"begin\n")
            out.flush()
            argv = [sys.executable, "-m", "gpustack", "explain", "xid 79", "-o", name]
            subprocess.run(argv, stdout=out, cwd=REPO, check=True, timeout=60)
        assert (file.stat().st_ino, file.read_text().count("begin\n")) == (before, number + 1)
    through = subprocess.run(argv, stdout=subprocess.PIPE, cwd=REPO, check=True, timeout=60)
    assert file.read_bytes() == 2 * (b"begin\n" + through.stdout)


def test_devices_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    writing.write(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    writing.write(pipe, "text" * 50_000)
    reader.join()
    assert (read, pipe.is_fifo()) == ([b"text" * 50_000], True)
    closing = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)))
    closing.start()
    writing.write(pipe, "text" * 50_000)  # a reader that has gone away is not an error
    closing.join()


def test_a_file_that_is_a_mount_of_its_own_is_written_over_where_there_is_room(tmp_path: Path, full: Path) -> None:
    (full / "filler").unlink()
    place = tmp_path / "report"
    place.touch()
    subprocess.run(["mount", "--bind", full / "old", place], check=True)  # noqa: S607 - as full was mounted
    try:
        writing.write(place, "longer than what was there before, by far\n")
        writing.write(place, "short\n")
        assert (full / "old").read_text() == "short\n"
        with pytest.raises(OutputError, match="No space left on device"):
            writing.write(place, "x" * 200_000)
        assert (full / "old").read_text() == "short\n"
    finally:
        subprocess.run(["umount", place], check=True)  # noqa: S607


def test_a_file_in_a_folder_that_takes_no_new_one_is_written_over() -> None:
    if os.geteuid():
        pytest.skip("another user's folder takes root to make")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "mine").write_text(OLD)
        os.chown(folder / "mine", 12345, 12345)
        program = (
            "import os, sys; from pathlib import Path; from gpustack.model import writing\n"
            "os.setgid(12345); os.setuid(12345)\n"
            "for name in ('mine', 'no'): writing.write(Path(sys.argv[1], name), 'new')"
        )
        argv = [sys.executable, "-c", program, name]
        done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False)
        assert f"{folder}/no cannot be written: Permission denied" in done.stderr
        assert ((folder / "mine").read_text(), list(folder.iterdir())) == ("new", [folder / "mine"])


def test_ctrl_c_in_the_middle_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "report"
    large, kept = b"\0" * 100_000_000, 0
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    try:
        for after in (0.001, 0.005, 0.01, 0.02, 0.03):  # of CPU time: wall-clock time depends on others
            path.write_text(OLD)
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it falls somewhere in here
                signal.setitimer(signal.ITIMER_PROF, after)
                writing.write(path, large)
                while True:
                    pass
            assert path.stat().st_size in {len(OLD), len(large)}
            assert list(tmp_path.iterdir()) == [path]
            kept += path.stat().st_size == len(OLD)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert kept


def test_no_other_place_writes_files() -> None:
    """A private folder holds what children write and an unpacked fleet; the null device keeps nothing."""
    apart = {"gpustack/model/writing.py", "gpustack/cli/__init__.py", "gpustack/fleet/nodes.py"}
    apart |= set(map(str, _children()))
    for path in (REPO / "gpustack").rglob("*.py"):
        name = str(path.relative_to(REPO))
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        found = [node.lineno for node in calls if _writes(node)]
        assert not found or name in apart, f"{name}: lines {found} write a file without gpustack.writing"


def _children() -> list[Path]:
    folder = REPO / "gpustack/trace/frameworks/children"
    return [path.relative_to(REPO) for path in folder.glob("*.py")]


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(one.value for one in call.keywords)]
    modes = [node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    opens = name == "open" and any(re.fullmatch("[rwaxbt+]{1,4}", mode) and set(mode) & set("wax+") for mode in modes)
    return opens or name in {"write_text", "write_bytes", "NamedTemporaryFile", "mkstemp", "touch", "copyfile"}
