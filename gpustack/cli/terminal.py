"""The terminal that the user sits at: how wide, in which colours, with which pager, and how gpustack is called."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from gpustack.cli.helping import PROGRAM

DASH = "-"  # standard input, or standard output


def called() -> str:
    """Return how the user calls gpustack, so that a hint can be typed as it is printed."""
    if os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return "uv run gpustack"
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{'python' if shutil.which('python') == sys.executable else sys.executable} -m gpustack"
    found = shutil.which(PROGRAM)
    near = program.name == PROGRAM and program.is_file() and not (found and Path(found).samefile(program))
    return shlex.quote(sys.argv[0]) if near else PROGRAM


def look(output: Path | None) -> dict[str, int | bool | str]:
    """Return how wide, with which letters and whether in colour text may be written, and how gpustack is called."""
    output = None if output is not None and str(output) == DASH else output
    terminal = output is None and sys.stdout.isatty()
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return {
        "width": shutil.get_terminal_size((80, 24)).columns if terminal or "COLUMNS" in os.environ else 80,
        "colour": not os.environ.get("NO_COLOR")
        and (bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")),
        "ascii": not encoding.lower().startswith("utf"),
        "program": called(),
    }


class Counted:
    """How many Pythons are done, on one line of standard error that is written over again."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self.said = ""

    def __call__(self, done: int, every: int) -> None:
        """Say it where it has changed."""
        said = f"gpustack: {done} of {every} Pythons looked at …"
        if said != self.said:
            sys.stderr.write("\r" + said.ljust(len(self.said)))
            sys.stderr.flush()
            self.said = said

    def clear(self) -> None:
        """Leave the line empty."""
        sys.stderr.write("\r" + " " * len(self.said) + "\r")
        sys.stderr.flush()


def standard_input() -> BinaryIO:
    """Return what is piped in; nothing where somebody closed it before we were started. At a terminal, ask for it."""
    if sys.stdin and sys.stdin.isatty():
        sys.stderr.write("gpustack: paste the text, then press Ctrl-D on a line of its own\n")
        sys.stderr.flush()
    return sys.stdin.buffer if sys.stdin else BytesIO()


def long(text: str) -> bool:
    """Tell whether a person reads this at a terminal that cannot show all of it at once."""
    if not (sys.stdout.isatty() and sys.stdin and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    return text.count("\n") >= shutil.get_terminal_size().lines


def paged(text: str) -> bool:
    """Show the text in the user's pager, by default ``less``, and tell whether that could be started."""
    import subprocess

    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": "-FRX", **os.environ})
    except (OSError, ValueError, IndexError):
        return False
    feed = pager.stdin
    with suppress(BrokenPipeError, KeyboardInterrupt):  # who has read enough leaves
        if feed:
            feed.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))
    with suppress(BrokenPipeError, KeyboardInterrupt):
        if feed:
            feed.close()
    while pager.poll() is None:
        with suppress(KeyboardInterrupt):  # Ctrl-C is the pager's while it is open
            pager.wait()
    return True
