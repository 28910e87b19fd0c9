"""How a result is written: its format, its destination, and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpustack.cli import terminal
from gpustack.cli.options import Format, Shape, Threshold, writable
from gpustack.cli.terminal import DASH, ORDER
from gpustack.collect import isolation
from gpustack.errors import OutputError, UsageError
from gpustack.model import record, replace, writing
from gpustack.report import renderer

if TYPE_CHECKING:
    import typer

    from gpustack.cli.tracing import Traced
    from gpustack.model.bench import BenchReport
    from gpustack.model.report import Finding, Report
    from gpustack.report.parts import Told

INTERRUPTED = 130
OTHERS_UNKNOWN = {"nagios": 3, "npd": 2}  # what these protocols call UNKNOWN
Made = TypeVar("Made", bound="Report | BenchReport")
FOR_OTHERS = frozenset({"html", "markdown", "github", "sarif", "junit"})  # redacted unless the user says otherwise
SUMMARY = "GITHUB_STEP_SUMMARY"
MOST_SUMMARY = 1_000_000  # bytes; GitHub refuses more than 1 MiB


def shown(
    report: Report | BenchReport, written: Format, output: Path | None, *, verbose: int, quiet: bool = False
) -> str:
    """Return a report as text or JSON, with the width and colours of its destination."""
    if hasattr(report, "results"):
        return rendered(report, written, "bench", output, verbose=verbose)
    if hasattr(report, "policy"):
        return rendered(report, written, "check", output, verbose=verbose, quiet=quiet)
    return rendered(report, written, "text", output, verbose=verbose, quiet=quiet, example=example())


def rendered(made: object, written: Format, form: str, output: Path | None, *, verbose: int, **more: object) -> str:
    """Return a result as JSON, or as text of this form for its destination."""
    if written == "json":
        return renderer("json")(made)
    return renderer(form)(made, verbose=verbose, **terminal.look(output), **more)


def example() -> str:
    """Return a recorded broken machine, as a path that works from here."""
    from gpustack.assets import EXAMPLES

    near = Path("examples", "driver-too-old.json")
    return str(near if near.is_file() else EXAMPLES / near.name)


def counts(fail_on: Threshold, verdict: str | None, findings: Sequence[Finding]) -> bool:
    """Return whether anything is at or above the threshold; info never counts."""
    order = ("error", "warning", "unknown")
    counted = order[: order.index(fail_on) + 1] if fail_on in order else ()
    return verdict in counted or any(finding.severity.value in counted for finding in findings)


def give_up_output() -> None:
    """Discard pending standard output; Python would otherwise fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str, output: Path | None) -> None:
    """Write the result to its destination; a reader that has gone away is not an error, a full disk is."""
    if output is not None and str(output) != DASH:
        writing.write(output, text)
        return
    try:
        if not (terminal.long(text) and terminal.paged(text)):
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        give_up_output()
    except OSError as error:
        give_up_output()
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


@record
class Place:
    """One result: its format, and the file it goes to, or None for standard output."""

    written: str
    output: Path | None = None


@record
class How:
    """How results are written, whatever their format; with ``redacted`` None the format decides."""

    redacted: bool | None = None
    verbose: int = 0
    quiet: bool = False
    fail_on: Threshold = "error"
    origins: Sequence[str] = ()


def places(
    context: typer.Context, written: Sequence[Shape | Traced] | None, outputs: Sequence[Path] | None
) -> list[Place]:
    """Return the requested results: an -o belongs to the --format before it, otherwise the first to the next."""
    forms, files = iter(written or ()), iter(outputs or ())
    found: list[Place] = []
    early: Path | None = None
    for option in context.meta[ORDER]:
        if option == "written":
            found.append(Place(written=next(forms).value, output=early))
            early = None
        elif option == "outputs":
            file = next(files)
            held = found[-1].output if found else early
            if held is not None:
                raise UsageError(f"{held} and {file} are for the same result: put a --format before each -o")
            if found:
                found[-1] = replace(found[-1], output=file)
            else:
                early = file
    wanted = _apart([_standard(one) for one in found or [Place(written="text", output=early)]])
    if len(wanted) == 1:  # of several, those that can be written are
        writable(wanted[0].output)
    return wanted


def _standard(place: Place) -> Place:
    return replace(place, output=None) if place.output == Path(DASH) else place


def _apart(found: list[Place]) -> list[Place]:
    """Return the places; raises if two are the same."""
    for number, one in enumerate(found):
        for other in found[:number]:
            if one.output == other.output:
                where = f"go to {one.output}" if one.output else "go to standard output: give one of them an -o FILE"
                raise UsageError(f"--format {other.written} and --format {one.written} both {where}")
    return found


def prepare(wanted: Iterable[Place]) -> None:
    """Import what will write these results, which is most of the work, while waiting for something else."""
    for place in wanted:
        renderer(place.written)


def deliver(wanted: Iterable[Place], make: Callable[[bool], Made], how: How) -> Made:
    """Write each result and return the report; what cannot be written is reported after the others are.

    ``make`` returns the report, without names, serial numbers and addresses if its argument is true.
    """
    reports: dict[bool, Made] = {}
    failed: list[OutputError] = []
    for place in wanted:
        hidden = hides(place, how)
        reported = reports[hidden] if hidden in reports else reports.setdefault(hidden, make(hidden))
        text = _rendered(reported, place, how)
        try:
            _write(text, place)
            if place.written == "github" and (summary := os.environ.get(SUMMARY)):
                summarise(reported, Path(summary))
        except OutputError as error:
            failed.append(error)
    if failed:
        raise OutputError("; ".join(map(str, failed)))
    return next(iter(reports.values()))


def hides(place: Place, how: How) -> bool:
    """Return whether names, serial numbers and addresses are removed from this result."""
    return place.written in FOR_OTHERS if how.redacted is None else how.redacted


def summarise(reported: Report | BenchReport, summary: Path) -> None:
    """Append the Markdown of a report to the summary of a step of GitHub Actions."""
    from gpustack.report.report_markdown import render

    said = render(reported).encode("utf-8", "replace")
    if len(said) > MOST_SUMMARY:
        said = said[: said.rindex(b"\n\n", 0, MOST_SUMMARY)] + b"\n\nThe rest is left out: GitHub takes no more.\n"
    writing.append(summary, said + b"\n")


def _rendered(reported: Report | BenchReport, place: Place, how: How) -> str:
    if place.written in {"text", "json"}:
        return shown(
            reported, "json" if place.written == "json" else "text", place.output, verbose=how.verbose, quiet=how.quiet
        )
    return renderer(place.written)(reported, _told(reported, place, how))


def _told(reported: Report | BenchReport, place: Place, how: How) -> Told:
    """Return the additional inputs of a format."""
    from gpustack.model.report import Severity
    from gpustack.report.parts import Told, every

    order = (Severity.ERROR, Severity.WARNING, Severity.UNKNOWN)
    failing = next((order[: number + 1] for number, one in enumerate(order) if one.value == how.fail_on), order[:1])
    texts: dict[str, str] = {}
    if place.written == "sarif":
        from gpustack.diagnose.rule import explain

        ids = {one.id for one in every(reported)}
        texts = {id_: text for id_ in ids if (text := explain(id_))}
    hidden = hides(place, how)
    origins = {known: shown for origin in how.origins for known, shown in _near(origin, hidden=hidden)}
    return Told(origins=origins, texts=texts, failing=frozenset(failing))


def _near(origin: str, *, hidden: bool) -> Iterator[tuple[str, str]]:
    """Yield a report's spelling of a given path, and the readers' spelling: relative to here if possible."""
    path, here, home = Path(origin), isolation.here(), str(Path.home())
    outside = path.is_absolute() and not (here and path.is_relative_to(here))
    shown = path.name if outside and hidden else origin if outside or not here else os.path.relpath(path, here)
    yield origin, origin if origin == DASH else shown
    if origin.startswith(f"{home}/"):
        yield origin.replace(home, "~", 1), shown


def _write(text: str, place: Place) -> None:
    """Write one result; to standard output in UTF-8 if its form declares that encoding."""
    change = getattr(sys.stdout, "reconfigure", None)
    if change and place.output is None and place.written != "text" and not text.isascii():
        change(encoding="utf-8")
    write(text, place.output)
