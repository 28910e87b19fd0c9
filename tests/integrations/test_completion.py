"""Shell completion, in real shells that have installed it for themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user whose home is empty, with gpustack on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "gpustack"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpustack "$@"\n')
    command.chmod(0o755)
    return {"HOME": str(tmp_path), "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def install(shell: str, environ: dict[str, str]) -> None:
    command = [shell, "-c", "gpustack --install-completion; true"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert "completion installed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gpustack doc", {"doctor"}),
        ("gpustack doctor --fail-on wa", {"warning"}),
        ("gpustack matrix wh", {"why"}),
        ("gpustack no-such-thing", set()),
    ],
)
def test_bash_completes_what_was_typed(typed: str, offered: set[str], environ: dict[str, str]) -> None:
    bash = shell("bash")
    install(bash, environ)
    words = " ".join(f"'{word}'" for word in typed.split())
    set_up = f"source ~/.bashrc; COMP_WORDS=({words}) COMP_CWORD={len(typed.split()) - 1}"
    ask = set_up + '; _gpustack_completion gpustack; echo "${COMPREPLY[@]}"'
    done = subprocess.run([bash, "--norc", "-c", ask], env=environ, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


def test_zsh_completes_what_was_typed(environ: dict[str, str]) -> None:
    zsh = shell("zsh")
    install(zsh, environ)
    terminal, inside = pty.openpty()
    command = [zsh, "-i"]
    child = subprocess.Popen(
        command, stdin=inside, stdout=inside, stderr=inside, env={**environ, "PS1": "> "}, start_new_session=True
    )
    os.close(inside)
    try:
        said = until(terminal, "> ")
        os.write(terminal, b"gpustack doc\t")  # the first only loads the function, as typer wrote it
        said += until(terminal, "\a")
        os.write(terminal, b"\t")
        said += until(terminal, "tor ")
        assert said.endswith("gpustack doc\ator "), said
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def until(terminal: int, wanted: str, seconds: float = 30) -> str:
    """Return what a terminal shows until it contains the wanted text, or the time is up."""
    said, end = "", time.monotonic() + seconds
    while wanted not in said and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            said += os.read(terminal, 4096).decode("utf-8", "replace")
    return said
