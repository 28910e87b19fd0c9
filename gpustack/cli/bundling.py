"""The commands on recordings: diff compares two machines, report packs what a vendor's support asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli.examining import alone, read, taken, without_secrets
from gpustack.cli.options import Deep, Formats, Origins, Output, Plugins, Pythons, Redacted, Timeout, Verbose, writable
from gpustack.cli.results import rendered, write
from gpustack.errors import UsageError
from gpustack.model import writing
from gpustack.report import renderer

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts, JsonValue
    from gpustack.model.report import Report

LOG = "kernel-log"
EVENTS = {"xids": "Xid", "sxids": "SXid"}
ABOUT = """What gpustack recorded about one machine, for whoever helps with it.

Host and user names, addresses, serial numbers, UUIDs and secrets were removed from every file.

report.txt     the report in full: the verdict, the fix, the stack, all evidence
report.md      the same in 40 lines, for an issue
report.json    the same for programs
snapshot.json  the recorded facts; `gpustack doctor --from snapshot.json` judges them again
"""
MORE = {
    "log.txt": "log.txt        the lines that matter from the kernel log and pasted texts\n",
    "bench.json": "bench.json     the figures of gpustack bench\n",
}


def report(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the bundle goes.")] = Path(
        "gpustack-report.zip"
    ),
    origins: Origins = None,
    bench: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="Add this saved report of gpustack bench.")
    ] = None,
    deep: Deep = False,
    pythons: Pythons = None,
    _plugins: Plugins = None,
    timeout: Timeout = None,
) -> None:
    """Pack a redacted snapshot, the report, and the lines of the log that matter into one file for support."""
    from gpustack.bench import read as saved
    from gpustack.diagnose.engine import judge
    from gpustack.matrix import Matrix

    if str(output) == "-":
        raise UsageError("a bundle is a zip file: name it, such as -o bundle.zip")
    writable(output)
    alone({"--from": origins, "--python": pythons, "--deep": deep})
    matrix = Matrix()
    measured = without_secrets(saved(bench), wanted=True) if bench else None
    facts = read(origins, matrix, timeout) if origins else taken(pythons, timeout, deep=deep)
    hidden = without_secrets(facts, wanted=True, here=not origins)
    writing.write(output, _packed(_files(hidden, judge(hidden, matrix), measured)))
    typer.echo(f"gpustack: {output} was written: names, serial numbers, UUIDs and addresses were removed", err=True)


def _files(facts: Facts, judged: Report, bench: BenchReport | None) -> Mapping[str, str]:
    """Return each file of the bundle by its name."""
    more = {
        "log.txt": "".join(f"{line}\n" for line in dict.fromkeys(_log(facts))),
        "bench.json": renderer("json")(bench) if bench else "",
    }
    more = {name: text for name, text in more.items() if text}
    return {
        "README.txt": ABOUT + "".join(MORE[name] for name in more),
        "report.txt": renderer("text")(judged, verbose=2, width=120),
        "report.md": renderer("markdown")(judged),
        "report.json": renderer("json")(judged),
        "snapshot.json": renderer("json")(facts),
        **more,
    }


def _log(facts: Facts) -> Iterator[str]:
    """Yield the recognised lines of the kernel's log and of the given texts."""
    found = facts.find(LOG)
    for name, held in (found.facts if found else {}).items():
        yield from _lines(name, held if isinstance(held, tuple) else ())
    yield from (one.line for one in facts.messages if one.line)


def _lines(name: str, held: tuple[JsonValue, ...]) -> Iterator[str]:
    for one in held:
        if isinstance(one, Mapping) and name in EVENTS:
            yield f"{EVENTS[name]} ({one.get('pci')}): {one.get('code')}, {one.get('text')}"
        elif isinstance(one, str):
            yield one


def _packed(files: Mapping[str, str]) -> bytes:
    import zipfile

    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in files.items():
            bundle.writestr(name, text.encode("utf-8", "replace"))
    return packed.getvalue()


def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="The earlier state: a snapshot, or anything that --from reads.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="The later state, or another machine.")],
    *,
    _plugins: Plugins = None,
    written: Formats = "text",
    output: Output = None,
    redacted: Redacted = False,
    verbose: Verbose = False,
) -> None:
    """Say what changed between two recorded machines, and which change matters, by judging both."""
    from gpustack.compare import compare
    from gpustack.diagnose.engine import judge
    from gpustack.matrix import Matrix

    if before == after == "-":
        raise UsageError("standard input is one machine: name a file for the other")
    matrix = Matrix()
    seen = (without_secrets(read([one], matrix), wanted=redacted, here=False) for one in (before, after))
    then, now = (judge(facts, matrix) for facts in seen)
    found = compare(then, now, (before, after))
    write(rendered(found, written, "diff", output, verbose=verbose), output)
