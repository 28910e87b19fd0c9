"""Write the man pages from the words of ``--help``: ``python docs/man.py``; the wheel installs them."""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from gpustack import cli
from gpustack.cli import terminal

FOLDER = Path(__file__).with_name("man")
EXITS = """0: nothing at or above --fail-on. 1: something. 2: wrong usage, unreadable input, output not writable.
3: nothing could be examined or measured, or an internal error. 130: Ctrl-C."""


def pages() -> Mapping[str, str]:
    """Return each page by the name of its file."""
    return {f"{name.replace(' ', '-')}.1": "\n".join(_page(name, one)) + "\n" for name, one in _commands()}


def _commands(command: Any = None, name: str = terminal.PROGRAM) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - click's
    command = command or get_command(cli.app)
    yield name, command
    for word, one in getattr(command, "commands", {}).items():
        yield from _commands(one, f"{name} {word}")


def _page(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - click's
    below = name.partition(" ")[2]
    yield f'.TH "{name.replace(" ", "-").upper()}" "1" "" "gpustack" "gpustack"'
    yield from (".SH NAME", f"{name.replace(' ', '-')} \\- {_said(terminal.sentence(command.help or ''))}")
    subjects = [one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument"]
    what = "COMMAND [ARGS]..." if hasattr(command, "commands") else " ".join(subjects)
    yield from (".SH SYNOPSIS", f".B {name}", f"[OPTIONS] {_said(what)}".strip())
    yield from (".SH DESCRIPTION", *map(_said, (command.help or "").split("\n\n")))
    options = [one for one in command.params if getattr(one, "help", None)]
    if options:
        yield ".SH OPTIONS"
    for one in options:
        names = ", ".join((*one.opts, *one.secondary_opts)) if one.param_type_name == "option" else one.metavar
        yield from (".TP", f".B {_said(names)}", _said(one.help))
    if commands := getattr(command, "commands", {}):
        yield ".SH COMMANDS"
        for word, one in commands.items():
            yield from (".TP", f".B {word}", _said(terminal.sentence(one.help or "")))
    if tried := terminal.examples(below):
        yield from (".SH EXAMPLES", ".nf", *map(_said, tried), ".fi")
    yield from (".SH EXIT STATUS", *map(_said, EXITS.splitlines()))


def _said(text: str) -> str:
    """Return a text on one line that troff prints letter by letter."""
    shown = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{shown}" if shown.startswith((".", "'")) else shown


if __name__ == "__main__":
    for old in FOLDER.glob("*.1"):
        old.unlink()
    for file, page in pages().items():
        (FOLDER / file).write_text(page, "utf-8")
