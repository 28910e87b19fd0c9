"""What users are used to: help in whole sentences, suggested names, a pager, a prompt, and hints that can be typed."""

from __future__ import annotations

import os
import pty
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.main import get_command

from gpustack import cli
from gpustack.cli import terminal
from tests.cli.test_cli import gpustack

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "examples" / "driver-too-old.json"
ROOT = get_command(cli.app)


def named(command: object, before: str = "") -> Iterator[str]:
    """Yield the name of each command below this one."""
    for name, one in getattr(command, "commands", {}).items():
        yield f"{before}{name}"
        yield from named(one, f"{before}{name} ")


@pytest.mark.parametrize("name", list(named(ROOT)))
def test_each_help_has_whole_sentences_and_two_examples(name: str) -> None:
    text = gpustack(*name.split(), "--help").stdout
    assert "..." not in text.replace("]...", "").replace("SUBJECT...", "").replace("WORDS...", "")
    shown = [line.strip() for line in text.partition("Examples:")[2].splitlines() if line.strip()]
    assert len(shown) == 2
    assert all(f"gpustack {name} " in f"{line} " for line in shown)


def test_the_list_of_commands_cuts_no_sentence() -> None:
    text = " ".join(gpustack("--help").stdout.split())
    assert "..." not in text.replace("[ARGS]...", "")
    for name, command in ROOT.commands.items():  # type: ignore[attr-defined]
        assert f"{name} {terminal.sentence(command.help)}" in text


@pytest.mark.parametrize("typed", [["help"], ["-h"], []])
def test_help_has_many_names(typed: list[str]) -> None:
    assert gpustack(*typed).stdout == gpustack("--help").stdout


def test_help_of_a_command_and_a_group_alone_show_its_help() -> None:
    assert gpustack("help", "matrix", "why").stdout == gpustack("matrix", "why", "--help").stdout
    assert gpustack("matrix").stdout == gpustack("matrix", "-h").stdout
    assert gpustack("matrix").returncode == 0
    assert gpustack("version").stdout == gpustack("-V").stdout == gpustack("--version").stdout


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (["doctr"], "doctor"),
        (["help", "explian"], "explain"),
        (["matrix", "sho"], "show"),
        (["matrix", "show", "pytroch"], "pytorch"),
        (["bench", "hbm.raed"], "hbm.read"),
        (["doctor", "--from", str(EXAMPLE), "--only", "gpu-ecc-eror"], "gpu-ecc-error"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(typed: list[str], near: str) -> None:
    done = gpustack(*typed)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert near in done.stderr


@pytest.mark.parametrize(
    ("complete", "begun", "found"),
    [
        (terminal.benchmarks, "hbm.r", ["hbm.read"]),
        (terminal.findings, "driver-too", ["driver-too-old-for-cuda-build", "driver-too-old-for-gpu"]),
        (terminal.systems, "pytor", ["pytorch"]),
        (terminal.words, "pytor", ["pytorch"]),
    ],
)
def test_the_shell_completes_values(complete: object, begun: str, found: list[str]) -> None:
    assert callable(complete)
    assert complete(begun) == found


def test_the_shell_is_given_them() -> None:
    asked = {"_GPUSTACK_COMPLETE": "complete_bash", "COMP_WORDS": "gpustack bench hbm.r", "COMP_CWORD": "2"}
    assert gpustack(environ={**os.environ, **asked}).stdout.split() == ["hbm.read"]


def test_one_check_alone_is_reported_and_the_others_are_called_unchecked() -> None:
    well = gpustack("doctor", "--from", EXAMPLE, "--only", "glibc-too-old")
    ill = gpustack("doctor", "--from", EXAMPLE, "--only", "driver-too-old-for-cuda-build", "--only", "glibc-too-old")
    assert (well.returncode, ill.returncode) == (0, 1)
    assert "all other checks (--only was given)" in well.stdout
    assert "no problem was found" not in well.stdout  # of a machine that was not fully checked
    assert "the checks asked for found no problem" in well.stdout
    assert "BROKEN" in ill.stdout


def test_all_checks_are_listed_with_what_they_mean() -> None:
    lines = gpustack("doctor", "--list-checks").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == terminal.findings()
    assert all(line.endswith(".") for line in lines)


@pytest.mark.parametrize(("environ", "coloured"), [({"FORCE_COLOR": "1"}, True), ({}, False)])
def test_colour_can_be_forced_into_a_pipe(environ: dict[str, str], *, coloured: bool) -> None:
    held = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}}
    done = gpustack("doctor", "--from", EXAMPLE, environ={**held, **environ})
    assert ("\x1b[" in done.stdout) is coloured
    assert "\x1b[" not in gpustack("doctor", "--from", EXAMPLE, environ={**held, **environ, "NO_COLOR": "1"}).stdout


def test_a_dash_is_standard_output() -> None:
    assert gpustack("explain", "warp", "-o", "-").stdout == gpustack("explain", "warp").stdout


def at_a_terminal(*arguments: str, typed: bytes = b"", **environ: str) -> str:
    """Return what a terminal of 24 lines shows."""
    mine, theirs = pty.openpty()
    held = {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "80", **environ}
    command = [sys.executable, "-m", "gpustack", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=held, cwd=REPO) as running:
        os.close(theirs)
        os.write(mine, typed)
        shown = bytearray()
        with suppress(OSError):  # the program has closed its end
            while part := os.read(mine, 65536):
                shown += part
        running.wait(30)
    os.close(mine)
    return shown.decode("utf-8", "replace")


def test_a_terminal_is_asked_for_what_from_dash_waits_for() -> None:
    shown = at_a_terminal("doctor", "--from", "-", typed=b"RuntimeError: CUDA error 803\n\x04")
    assert "paste the text, then press Ctrl-D" in shown
    assert "press Ctrl-D" not in gpustack("doctor", "--from", "-", given="RuntimeError: CUDA error 803\n").stderr
    assert "press Ctrl-D" not in at_a_terminal("doctor", "--from", str(EXAMPLE))


def test_long_text_at_a_terminal_goes_through_the_pager_and_nothing_else_does(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!{sys.executable}\nimport sys\nprint('paged', len(sys.stdin.read().splitlines()))\n")
    pager.chmod(0o755)
    assert "paged " in at_a_terminal("doctor", "--from", str(EXAMPLE), "-vv", PAGER=str(pager))
    assert "paged " not in at_a_terminal("doctor", "--from", str(EXAMPLE), PAGER=str(pager))
    assert "ROOT CAUSE" in at_a_terminal("doctor", "--from", str(EXAMPLE), "-vv", PAGER=str(tmp_path / "none"))
    assert (
        "paged" not in gpustack("doctor", "--from", EXAMPLE, "-vv", environ={**os.environ, "PAGER": str(pager)}).stdout
    )


def test_hints_call_the_program_as_the_user_did() -> None:
    done = gpustack("doctor", "--from", EXAMPLE, environ={**os.environ, "UV_RUN_RECURSION_DEPTH": "1"})
    assert "\nuv run gpustack explain driver-too-old-for-cuda-build says why.\n" in done.stdout
    module = gpustack("doctor", "--from", EXAMPLE, environ=dict(os.environ)).stdout
    assert "python -m gpustack explain" in module or f"{sys.executable} -m gpustack explain" in module


def test_nothing_recommends_more_time_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpustack import interrupting  # noqa: PLC0415 - beside what it changes
    from gpustack.collect import probe_results  # noqa: PLC0415

    late = type("Reply", (), {"asked": False})
    assert probe_results._more_time(late) == "a longer --timeout"  # type: ignore[arg-type] # noqa: SLF001
    monkeypatch.setattr(interrupting, "HEARD", [2])
    assert probe_results._more_time(late) is None  # type: ignore[arg-type] # noqa: SLF001


def test_the_man_pages_say_what_help_says() -> None:
    folder = REPO / "docs/man"
    made = runpy.run_path(str(REPO / "docs/man.py"))["pages"]()
    assert set(made) == {"gpustack.1", *(f"gpustack-{name.replace(' ', '-')}.1" for name in named(ROOT))}
    held = {path.name: path.read_text("utf-8") for path in folder.glob("*.1")}
    assert held == made, "the help has changed: python docs/man.py"
    assert "gpustack explain Xid 79" in held["gpustack-explain.1"]
