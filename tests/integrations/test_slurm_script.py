"""What the Slurm hooks do without a Slurm: they drain only for a proven fault, and end in time whatever goes wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import in_time
from tests.wide import one_of, wide

HOOKS = Path(__file__).resolve().parents[2] / "integrations/slurm"
SLURM_ENDS_AT = 60  # slurm.conf(5), HealthCheckProgram
SHELLS = ("dash", "bash", "busybox")
SICK = {"class": "bad-host", "why": "GPU 0 has fallen off the bus"}
FIT = {"class": "ok", "why": "nothing is wrong"}
UNREADABLE = "settings.sh is missing or cannot be read"
ENDED = "settings.sh ended the hook with exit status"
CUT = "settings.sh is no whole shell script; sh -n "
NO_PROGRAM = "settings.sh names no program as gpustack"
# What settings.sh contains instead, where {settings} is what it should contain and gpustack would fault the node.
BAD_SETTINGS = {
    "empty": (b"", NO_PROGRAM),
    "cut in a quote": (b"{settings}drain_on='bad-h", CUT),
    "cut in a command": (b"{settings}if [ -x /bin/true ]; then", CUT),
    "garbage": (bytes(range(256)) * 8, ""),
    "DOS line ends": (b"gpustack=/bin/true\r\ncheck_seconds=40\r\nset -- --no-bench\r\n", NO_PROGRAM),
    "exit 1": (b"{settings}exit 1\n", f"{ENDED} 1 "),
    "exit 0": (b"{settings}exit 0\n", f"{ENDED} 0 "),
    "exit 75, our own word": (b"{settings}exit 75\n", f"{ENDED} 75 "),
    "our words": (b"echo sick\nprintf sick >&2\nexit 0\n", f"{ENDED} 0 "),
    "exec": (b"{settings}exec /bin/false\n", f"{ENDED} 1 "),
    "return before anything is set": (b"return 1\n{settings}", NO_PROGRAM),
    "an unset variable under set -u": (b"set -u\nexport FOO=$BAR\n{settings}", ENDED),
    "a failure under set -e": (b"set -e\nfalse\n{settings}", ENDED),
    "a command under set -n": (b"{settings}set -n\n", f"{ENDED} 0 "),
    "killed": (b"kill -KILL $$\n", ENDED),
    "loop": (b"{settings}while :; do :; done\n", f"{ENDED} 124 "),
    "loop that ignores signals": (b"trap '' TERM\nwhile :; do :; done\n", ENDED),
    "no number": (b"{settings}check_seconds=4O\n", "check_seconds in settings.sh is not a whole number"),
    "no program": (b"{settings}gpustack=/nowhere/gpustack\n", NO_PROGRAM),
    "a folder for a program": (b"{settings}gpustack=/tmp\n", NO_PROGRAM),
}
# What gpustack does instead of responding, on the faulty node.
BAD_GPUSTACK = {
    "hangs": ("exec /bin/sleep 1000", "gpustack ended with exit status 124"),
    "hangs and ignores signals": ("trap '' TERM; /bin/sleep 1000; /bin/sleep 1000", "gpustack "),
    "prints nonsense": ("echo nonsense", "gpustack gave no answer that can be read"),
    "prints nothing": ("exit 0", "gpustack gave no answer that can be read"),
    "prints bytes": ("head -c 4096 /dev/urandom", "gpustack gave no answer that can be read"),
    "prints without end": ("cat /dev/zero", "gpustack gave no answer that can be read"),
    "is cut short": ('echo \'{{"class": "bad-host"\'; exit 1', "gpustack gave no answer that can be read"),
    "names no class of ours": ('echo \'{{"class": "sick", "why": ""}}\'', "gpustack gave no answer that can be read"),
    "2": ("{answer}; exit 2", "gpustack ended with exit status 2"),
    "3": ("{answer}; exit 3", "gpustack ended with exit status 3"),
    "75": ("{answer}; exit 75", "gpustack ended with exit status 75"),
    "crashes": ("{answer}; kill -SEGV $$", "gpustack ended with exit status 139"),
    "is killed": ("{answer}; kill -KILL $$", "gpustack ended with exit status 137"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """A copy of the hooks for one shell, which calls stand-ins for gpustack and for Slurm's scontrol."""

    folder: Path
    settings: str

    def run(self, mode: str) -> subprocess.CompletedProcess[str]:
        """Run a hook as slurmd does, with an empty environment."""
        return subprocess.run(
            [self.folder / f"{mode}.sh"],
            env={"SLURMD_NODENAME": "n1"},
            cwd="/",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )

    def write(self, settings: bytes) -> None:
        """Replace settings.sh."""
        held = settings.replace(b"{settings}", self.settings.encode())
        (self.folder / "settings.sh").write_bytes(held)

    def logged(self) -> list[str]:
        """Return the lines of the hooks' log."""
        log = self.folder.parent / "log"
        return log.read_text("utf-8").splitlines() if log.exists() else []

    def updates(self) -> str:
        """Return what scontrol was asked to change."""
        asked = self.folder.parent / "asked"
        return asked.read_text("utf-8") if asked.exists() else ""


def program(path: Path, script: str) -> Path:
    """Write an executable shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)
    return path


def answer(said: Mapping[str, str]) -> str:
    """Return a command that prints this as gpustack does."""
    return f"printf %s {shlex.quote(json.dumps(said))}"


def hooks(folder: Path, gpustack: str, shell: str = "dash") -> Hooks:
    """Return the hooks for a shell, with a time limit of seconds instead of a minute."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here")
    copy = shutil.copytree(HOOKS, folder / "hooks")
    (folder / "bin").mkdir()
    (folder / "bin/sh").symlink_to(found)
    replaced = {
        "#!/bin/sh": f"#!{folder}/bin/sh",
        "log=/var/log/gpustack-slurm.log": f"log={folder}/log",
        "limit=55 ": "limit=5 ",
        "(check_seconds + 4)": "(check_seconds)",
        "timeout -k 2": "timeout -k 1",
    }
    for path in copy.glob("*.sh"):
        text = path.read_text("utf-8")
        for old, new in replaced.items():
            assert old in text or path.name != "node.sh", old
            text = text.replace(old, new)
        path.write_text(text, "utf-8")
    stand_in = program(folder / "gpustack", gpustack)
    program(folder / "bin/scontrol", f'[ "$1" = show ] && echo "   State=IDLE" || echo "$@" >>{folder}/asked')
    settings = (HOOKS / "settings.sh").read_text("utf-8")
    settings += f"gpustack={stand_in}\ncheck_seconds=1\nPATH={folder}/bin:$PATH\n"
    made = Hooks(folder=copy, settings=settings)
    made.write(b"{settings}")
    return made


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("gres", "settings", "wanted"),
    [
        ("gpu:h200:8(S:0-1)", "", "--gpus 8"),
        ("gpu:a100:4(S:0),shard:a100:16(S:0),gpu:l4:2(S:1)", "", "--gpus 6"),
        ("gpu:2", "", "--gpus 2"),
        ("(null)", "", "--gpus 0"),
        ("craynetwork:4", "", "--gpus 0"),
        ("gpu:1g.10gb:7(S:0)", "", ""),
        ("gpu:8", "set -- --no-bench --gpus 4", "--gpus 4"),
        (None, "", ""),
    ],
)
def test_the_node_must_have_the_gpus_that_its_gres_names(
    gres: str | None, settings: str, wanted: str, shell: str, tmp_path: Path
) -> None:
    made = hooks(tmp_path, f'echo "$*" >{tmp_path}/given; {answer(FIT)}', shell)
    line = "" if gres is None else f'; echo "   Gres={gres}"'
    program(tmp_path / "bin/scontrol", f'[ "$1" = show ] && {{ echo "   State=IDLE"{line}; }}')
    made.write(b"{settings}" + settings.encode() + b"\n")
    assert made.run("health").returncode == 0
    given = (tmp_path / "given").read_text("utf-8")
    assert re.findall(r"--gpus \d+", given) == ([wanted] if wanted else [])
    assert made.logged() == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_proven_fault_drains_in_every_mode_and_fails_the_prolog_alone(shell: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, f"{answer(SICK)}; exit 1", shell)
    assert {mode: made.run(mode).returncode for mode in ("prolog", "epilog", "health")} == {
        "prolog": 1,
        "epilog": 0,
        "health": 0,
    }
    drain = "update NodeName=n1 State=DRAIN Reason=gpustack bad-host: GPU 0 has fallen off the bus\n"
    assert (made.updates(), made.logged()) == (drain * 3, [])


@pytest.mark.parametrize("shell", SHELLS)
def test_a_fit_node_changes_nothing_and_logs_nothing(shell: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, answer(FIT), shell)
    assert {made.run(mode).returncode for mode in ("prolog", "epilog", "health")} == {0}
    assert (made.updates(), made.logged()) == ("", [])


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "last", ["set -eu", "set -f; IFS=/", "trap 'exit 1' EXIT", "echo noise; exec >&- 2>&-", "return 1"]
)
def test_settings_that_end_well_may_change_the_shell_that_reads_them(shell: str, last: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, f"{answer(SICK)}; exit 1", shell)
    made.write(b"{settings}" + last.encode())
    assert (made.run("prolog").returncode, made.logged()) == (1, [])


@in_time
@wide
@pytest.mark.parametrize(("name", "shell"), [(one, shell) for one in BAD_SETTINGS for shell in one_of(SHELLS, one)])
def test_settings_that_are_broken_drain_nothing_and_are_logged_once(name: str, shell: str, tmp_path: Path) -> None:
    """In CI each in one shell, with ``GPUSTACK_WIDE=1`` in all of them."""
    made = hooks(tmp_path, f"{answer(SICK)}; exit 1", shell)
    settings, cause = BAD_SETTINGS[name]
    made.write(settings)
    if "loop" in name:
        node = made.folder / "node.sh"
        node.write_text(node.read_text("utf-8").replace("limit=5 ", "limit=1 "), "utf-8")
    fails_open(made, cause, modes=("prolog",) if "loop" in name else ("prolog", "epilog"))


@in_time
@wide
@pytest.mark.parametrize(("name", "shell"), [(one, shell) for one in BAD_GPUSTACK for shell in one_of(SHELLS, one)])
def test_a_gpustack_that_breaks_drains_nothing_and_is_logged_once(name: str, shell: str, tmp_path: Path) -> None:
    """In CI each in one shell, with ``GPUSTACK_WIDE=1`` in all of them."""
    script, cause = BAD_GPUSTACK[name]
    modes = ("prolog",) if "hangs" in name else ("prolog", "epilog")
    fails_open(hooks(tmp_path, script.format(answer=answer(SICK)), shell), cause, modes)


def fails_open(made: Hooks, cause: str, modes: Iterable[str] = ("prolog", "epilog")) -> None:
    """Assert that a job starts and ends, that nothing is changed, and that one line says why."""
    begun = time.monotonic()
    assert {made.run(mode).returncode for mode in modes} == {0}
    assert time.monotonic() - begun < 20
    assert made.updates() == ""
    (line,) = made.logged()
    assert re.fullmatch(rf"\S+ n1: .*{re.escape(cause)}.*; nothing is changed", line), line


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("broken", ["missing", "a folder", "a dangling link", "not readable"])
def test_settings_that_are_not_a_file_drain_nothing(broken: str, shell: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, f"{answer(SICK)}; exit 1", shell)
    settings = made.folder / "settings.sh"
    if broken == "not readable":
        settings.chmod(0)
        if os.access(settings, os.R_OK):
            pytest.skip("root reads every file")
    else:
        settings.unlink()
    if broken == "a folder":
        settings.mkdir()
    elif broken == "a dangling link":
        settings.symlink_to("nowhere")
    fails_open(made, UNREADABLE)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("broken", ["missing", "cut short", "no program"])
def test_a_broken_copy_of_the_hooks_themselves_drains_nothing(broken: str, shell: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, f"{answer(SICK)}; exit 1", shell)
    node = made.folder / "node.sh"
    text = node.read_text("utf-8")
    if broken == "missing":
        node.unlink()
    elif broken == "cut short":
        node.write_text(text[: len(text) // 2], "utf-8")
    else:
        node.chmod(0o644)
    assert {made.run(mode).returncode for mode in ("prolog", "epilog", "health")} == {0}
    assert made.updates() == ""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("broken", ["full", "read-only", "a folder", "nowhere"])
def test_a_log_that_cannot_be_written_drains_nothing(broken: str, shell: str, tmp_path: Path) -> None:
    made = hooks(tmp_path, "exit 3", shell)
    disk = tmp_path / "disk"
    disk.mkdir()
    log = {"a folder": disk, "nowhere": tmp_path / "nowhere/log"}.get(broken, disk / "log")
    node = made.folder / "node.sh"
    node.write_text(node.read_text("utf-8").replace(f"log={tmp_path}/log", f"log={log}"), "utf-8")
    mount = f"mount -t tmpfs -o size=4k none {disk} && "
    prepared = {"full": f"{mount}cat /dev/zero >{disk}/zeros", "read-only": f"{mount}mount -o remount,ro {disk}"}
    command = [str(made.folder / "prolog.sh")]
    if broken in prepared:
        apart = [shutil.which("unshare") or "unshare", "-m", "sh", "-c"]
        if subprocess.run([*apart, f"{mount}:"], capture_output=True, check=False).returncode:
            pytest.skip("mounting a file system needs rights that are missing here")
        command = [*apart, f"{prepared[broken]}; exec {command[0]}"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0
    assert "gpustack ended with exit status 3; nothing is changed, and" in done.stderr


def test_another_cause_and_another_node_are_logged_of_their_own(tmp_path: Path) -> None:
    made = hooks(tmp_path, "exit 3")
    made.run("prolog")
    program(tmp_path / "gpustack", "exit 2")
    made.run("prolog")
    subprocess.run([made.folder / "prolog.sh"], env={"SLURMD_NODENAME": "n11"}, check=True)
    assert [line.partition(" ")[2].partition(";")[0] for line in made.logged()] == [
        "n1: gpustack ended with exit status 3",
        "n1: gpustack ended with exit status 2",
        "n11: gpustack ended with exit status 2",
    ]


def test_the_hooks_end_before_slurm_ends_them() -> None:
    node = (HOOKS / "node.sh").read_text("utf-8")
    (limit,) = re.findall(r"^limit=(\d+)", node, re.MULTILINE)
    (last,) = re.findall(r'timeout -k (\d+) "\$limit"', node)
    assert int(limit) + int(last) < SLURM_ENDS_AT
    (seconds,) = re.findall(r"^check_seconds=(\d+)", (HOOKS / "settings.sh").read_text("utf-8"), re.MULTILINE)
    (kill, more) = re.findall(r'timeout -k (\d+) "\$\(\(check_seconds \+ (\d+)', node)[0]
    scontrol = re.findall(r"timeout -k (\d+) (\d+) scontrol", node)
    slowest = sorted(int(kill) + int(seconds) for kill, seconds in scontrol)[-2:]
    assert int(seconds) + int(more) + int(kill) + sum(slowest) < int(limit)


def test_slurm_may_run_what_it_runs_and_nothing_else_is_a_program() -> None:
    programs = {path.name for path in HOOKS.glob("*.sh") if os.access(path, os.X_OK)}
    named = set(re.findall(r"/(\w+\.sh)$", (HOOKS / "slurm.conf.part").read_text("utf-8"), re.MULTILINE))
    assert programs == {*named, "node.sh", "fleet.sh"}


def test_the_log_is_where_the_documentation_says() -> None:
    (log,) = re.findall(r"^log=(\S+)", (HOOKS / "node.sh").read_text("utf-8"), re.MULTILINE)
    assert f"`{log}`" in (HOOKS.parent / "README.md").read_text("utf-8")
