"""How a result leaves: its form, its place, and the exit code that goes with it."""

from __future__ import annotations

import os
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gpustack.errors import OutputError
from gpustack.model import writing
from gpustack.report import renderer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpustack.cli.options import Format, Threshold
    from gpustack.model.bench import BenchReport
    from gpustack.model.report import Finding, Report

INTERRUPTED = 130
OTHERS_UNKNOWN = {"nagios": 3, "npd": 2}  # what these protocols call UNKNOWN


def shown(report: Report | BenchReport, written: Format, output: Path | None, *, verbose: bool) -> str:
    """Return a report as text or JSON, as wide and as coloured as its place can be."""
    measured = hasattr(report, "results")
    more = {} if measured else {"example": example()}
    form = "bench" if measured else "check" if hasattr(report, "policy") else "text"
    return rendered(report, written, form, output, verbose=verbose, **more)


def rendered(made: object, written: Format, form: str, output: Path | None, *, verbose: bool, **more: str) -> str:
    """Return a result as JSON, or as text of this form for its place."""
    if written == "json":
        return renderer("json")(made)
    return renderer(form)(made, verbose=verbose, **look(output), **more)


def example() -> str:
    """Return a recorded broken machine, by the path that can be typed here."""
    from gpustack.assets import EXAMPLES

    near = Path("examples", "driver-too-old.json")
    return str(near if near.is_file() else EXAMPLES / near.name)


def look(output: Path | None) -> dict[str, int | bool]:
    """Return how wide, with which letters and whether in colour text may be written."""
    import shutil

    terminal = output is None and sys.stdout.isatty()
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return {
        "width": shutil.get_terminal_size((80, 24)).columns if terminal or "COLUMNS" in os.environ else 80,
        "colour": terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        "ascii": not encoding.lower().startswith("utf"),
    }


def counts(fail_on: Threshold, verdict: str | None, findings: Sequence[Finding]) -> bool:
    """Tell whether anything stands at or above the threshold; info never counts."""
    order = ("error", "warning", "unknown")
    counted = order[: order.index(fail_on) + 1] if fail_on in order else ()
    return verdict in counted or any(finding.severity.value in counted for finding in findings)


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
    """Return what is piped in; nothing where somebody closed it before we were started."""
    return sys.stdin.buffer if sys.stdin else BytesIO()


def give_up_output() -> None:
    """Let what is still to be written to standard output go nowhere; Python would fail on it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str, output: Path | None) -> None:
    """Write the result where it was asked for; a reader that has gone away is no error, a full disk is."""
    if output is not None:
        writing.write(output, text)
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()
    except OSError as error:
        give_up_output()
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error
