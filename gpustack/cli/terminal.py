"""How the command line talks to its user: help, examples, nearest names, and the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from typer.core import TyperCommand, TyperGroup

from gpustack.assets import toml
from gpustack.errors import UsageError

if TYPE_CHECKING:
    import typer

ORDER = "gpustack.order"
PROGRAM = "gpustack"
SENTENCE = ". "


def examples(name: str, program: str = PROGRAM) -> list[str]:
    """Return examples of the command with this name, such as "matrix why"."""
    table = toml(Path(__file__).with_name("examples.toml").read_text("utf-8"))
    return [f"{program} {one}" for one in table.get(name, ())]


def sentence(text: str) -> str:
    """Return the first sentence, whole."""
    first = " ".join(text.split("\f", 1)[0].split("\n\n", 1)[0].split())
    return first.split(SENTENCE, 1)[0].rstrip(".") + "." if first else ""


def _write_examples(context: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, which typer hides
    program = context.find_root().command_path
    held = examples(context.command_path[len(program) :].strip(), program)
    if held:
        with formatter.section("Examples"):
            for one in held:
                formatter.write(f"{' ' * formatter.current_indent}{one}\n")


class Command(TyperCommand):
    """A command that remembers the order in which its options were typed, and whose help ends with examples."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's, which typer hides
        """Parse the arguments, and keep the names of the options in their order."""
        typed = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        ctx.meta[ORDER] = tuple(option.name for option in self.make_parser(ctx).parse_args(typed)[2])
        return rest

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - however much room there is
        """Return the first sentence of the help, whole."""
        return sentence(self.help or "")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, which typer hides
        """Write the examples."""
        _write_examples(ctx, formatter)


class Group(TyperGroup):
    """A group of commands: each is listed with a whole sentence, and examples come last."""

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - however much room there is
        """Return the first sentence of the help, whole."""
        return sentence(self.help or "")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, which typer hides
        """Write the examples."""
        _write_examples(ctx, formatter)


def helped(app: typer.Typer) -> tuple[str, ...]:
    """Give each command and group of this one the help above, and return the names of its groups."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance]
    for one in groups:
        helped(one)
    return tuple(str(one.info.name) for one in groups)


def meant(arguments: Sequence[str], groups: Iterable[str]) -> list[str]:
    """Return the arguments, with ``help CMD``, ``version`` and a lone group as their equivalent options."""
    first = arguments[0] if arguments else "help"
    if first == "help":
        return [*arguments[1:], "--help"]
    if first == "version":
        return ["--version"]
    return [first, "--help"] if list(arguments) == [first] and first in groups else list(arguments)


def known(name: str, among: Iterable[str], what: str) -> str:
    """Return the name; raises UsageError with the nearest ones for an unknown name."""
    from difflib import get_close_matches

    held = list(among)
    if name in held:
        return name
    near = get_close_matches(name, held, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f"there is no {what} {shlex.quote(name)}{hint}")


def findings(incomplete: str = "") -> list[str]:
    """Return the ids of findings with this prefix, for the shell to complete."""
    from gpustack.diagnose.rule import ids

    return sorted(one for one in ids() if one.startswith(incomplete))


def benchmarks(incomplete: str = "") -> list[str]:
    """Return the ids of benchmarks with this prefix, for the shell to complete."""
    from gpustack.bench.suite import listed

    return [one.id for one in listed() if one.id.startswith(incomplete)]


def systems(incomplete: str = "") -> list[str]:
    """Return the ids of systems with this prefix, for the shell to complete."""
    from gpustack.matrix import Matrix

    return sorted(one for one in Matrix().systems if one.startswith(incomplete))


def words(incomplete: str = "") -> list[str]:
    """Return the explainable words with this prefix, for the shell to complete."""
    return [*findings(incomplete), *systems(incomplete)]


DASH = "-"  # standard input, or standard output


def called() -> str:
    """Return how the user called gpustack, so that hints can be typed as printed."""
    if os.environ.get("UV_RUN_RECURSION_DEPTH"):
        return "uv run gpustack"
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{'python' if shutil.which('python') == sys.executable else sys.executable} -m gpustack"
    if program.suffix == ".pyz":
        return f"python3 {shlex.quote(sys.argv[0])}"
    found = shutil.which(PROGRAM)
    near = program.name == PROGRAM and program.is_file() and not (found and Path(found).samefile(program))
    return shlex.quote(sys.argv[0]) if near else PROGRAM


def look(output: Path | None) -> dict[str, int | bool | str]:
    """Return the width, character set and colours available, and how gpustack was called."""
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
    """The number of finished Pythons, on one line of standard error that is overwritten."""

    def __init__(self) -> None:
        """Start without any output."""
        self.said = ""

    def __call__(self, done: int, every: int) -> None:
        """Print the number if it has changed."""
        said = f"gpustack: {done} of {every} Pythons examined …"
        if said != self.said:
            sys.stderr.write("\r" + said.ljust(len(self.said)))
            sys.stderr.flush()
            self.said = said

    def clear(self) -> None:
        """Clear the line."""
        sys.stderr.write("\r" + " " * len(self.said) + "\r")
        sys.stderr.flush()


def standard_input(origins: Sequence[str]) -> BinaryIO:
    """Return what is piped in; nothing if it was closed before we started. At a terminal, ask for it if it is read."""
    if "-" in origins and sys.stdin and sys.stdin.isatty():
        sys.stderr.write("gpustack: paste the text, then press Ctrl-D on a line of its own\n")
        sys.stderr.flush()
    return sys.stdin.buffer if sys.stdin else BytesIO()


def long(text: str) -> bool:
    """Return whether a person reads this at a terminal that cannot show all of it at once."""
    if not (sys.stdout.isatty() and sys.stdin and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    return text.count("\n") >= shutil.get_terminal_size().lines


def paged(text: str) -> bool:
    """Show the text in the user's pager, by default ``less``, and return whether it could be started."""
    import subprocess

    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": "-FRX", **os.environ})
    except (OSError, ValueError, IndexError):
        return False
    feed = pager.stdin
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the user has read enough and quit
        if feed:
            feed.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))
    with suppress(BrokenPipeError, KeyboardInterrupt):
        if feed:
            feed.close()
    while pager.poll() is None:
        with suppress(KeyboardInterrupt):  # Ctrl-C is the pager's while it is open
            pager.wait()
    return True
