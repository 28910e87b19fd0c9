"""The options that commands share, and the pseudonyms that one of them asks for."""

from __future__ import annotations

import math
import os
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

import typer

from gpustack import plugins
from gpustack.errors import InputError, OutputError, UsageError

Thing = TypeVar("Thing")
LEAST_KEY, MOST_KEY = 16, 4096  # bytes of a key for pseudonyms
Format: TypeAlias = Literal["text", "json"]
Tabled: TypeAlias = Literal["text", "json", "csv"]
Drawn: TypeAlias = Literal["text", "json", "html"]
Threshold: TypeAlias = Literal["error", "warning", "unknown", "never"]


class Shape(str, Enum):
    """The formats of a report: for people, for programs, and for tools that collect results."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    PROMETHEUS = "prometheus"
    NAGIOS = "nagios"


def finite(value: float | None) -> float | None:
    """Return the number; raises for nan, which passes every bound."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


def writable(path: Path | None) -> Path | None:
    """Return the path of a result; raises before any work is done if it cannot be written."""
    if path is None or str(path) == "-":
        return path
    if path.is_dir():
        raise OutputError(f"{path} cannot be written: it is a folder")
    if path.exists() and not os.access(path, os.W_OK):
        raise OutputError(f"{path} cannot be written: permission denied")
    try:
        folder = path.absolute().parent
    except FileNotFoundError as error:
        raise OutputError(f"{path} cannot be written: the working folder no longer exists") from error
    if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{path} cannot be written: no writable folder {path.parent}")
    return path


def named(origins: list[str] | None) -> list[str] | None:
    """Return the paths to read; raises for an empty one, which comes from an unset variable."""
    if "" in (origins or ()):
        raise UsageError("--from was given an empty path: name a file, a folder, or - for standard input")
    return origins


Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="A recording or pasted output to judge; - is standard input (repeatable).",
        callback=named,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugins",
        metavar="DIR",
        help="A plugin of your site, in addition to installed ones (repeatable).",
        callback=plugins.load,
    ),
]
Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="A Python to examine, or its folder (repeatable).",
        show_default="the active one",
    ),
]
Formats = Annotated[Format, typer.Option("--format", help="Format of the result.")]
Tables = Annotated[Tabled, typer.Option("--format", help="Format of the result.")]
Drawings = Annotated[Drawn, typer.Option("--format", help="Format of the result.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File for the result.", show_default="standard output", callback=writable
    ),
]
Shapes = Annotated[
    list[Shape] | None,
    typer.Option("--format", help="Format of the result (repeatable, each with its own -o).", show_default="text"),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File for the result of the --format before it.",
        show_default="standard output",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=1.5, max=86400, metavar="SECONDS", help="Time limit for the whole command.", callback=finite
    ),
]
Fail = Annotated[Threshold, typer.Option("--fail-on", help="Exit with 1 at this severity or above.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show where each fact comes from and how long it took.")]
Detail = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, show_default=False, help="Add the stack and all evidence; -vv: everything."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict, on one line.")]
RedactedBy = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact",
        help="Remove names, serial numbers, UUIDs and addresses.",
        show_default="redacted in html, markdown, github, sarif and junit",
    ),
]
Redacted = Annotated[
    bool, typer.Option("--redact/--no-redact", help="Remove names, serial numbers, UUIDs and addresses.")
]
Everywhere = Annotated[
    bool, typer.Option("--all-envs", help="Judge every Python of this machine: venvs, conda, pipx, uv, Jupyter.")
]
Image = Annotated[
    Path | None,
    typer.Option(
        "--container", metavar="DIR", help="An unpacked image, judged against this machine's driver; not run."
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--container-env", metavar="KEY=VALUE", help="A variable of the image's configuration (repeatable)."),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Also import and run frameworks and GPU libraries, in child processes.")
]
Pseudonyms = Annotated[
    Path | None,
    typer.Option(
        "--pseudonyms", metavar="KEYFILE", help="Replace names with keyed hashes: a machine keeps its pseudonym."
    ),
]


def read_key(path: Path) -> bytes:
    """Return the key in a file; raises InputError if it cannot be read, or is too short to keep a secret."""
    try:
        with path.open("rb") as file:
            key = file.read(MOST_KEY).strip()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise InputError(f"{path} holds {len(key)} bytes: a key needs {LEAST_KEY} or more (head -c 32 /dev/urandom)")
    return key


class Hidden:
    """Removes names from a fleet's files and reports, with the key in a file."""

    def __init__(self, keyfile: Path) -> None:
        from gpustack.redaction import pseudonyms

        self.key, self.hosts = read_key(keyfile), list[str]()
        self.called = pseudonyms(self.key)

    def know(self, *folders: Path) -> None:
        """Learn the names of the nodes whose files are in folders."""
        from gpustack.fleet import nodes

        for there, missing in map(nodes.look, folders):
            self.hosts += [*(one.name for one in there), *missing]

    def out_of(self, thing: Thing) -> Thing:
        """Return JSON or a report without serials, UUIDs, addresses and the names of nodes."""
        from gpustack.redaction import redact

        return redact(thing, key=self.key, hosts=self.hosts)
