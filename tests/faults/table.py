"""Writes docs/faults.md from the rows that the tests hold true: ``python -m tests.faults.table``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.faults.files import Sick, files
from tests.faults.programs import Program, programs
from tests.faults.rows import Row, libraries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
HEAD = """# Faults, and what the report says of them

Made by the tests (`python -m tests.faults.table`), which hold every row true: `tests/faults/test_libraries.py`,
`tests/faults/test_files.py` and `tests/faults/test_programs.py` make the sick machine, look at it in the real way, and
read the report.

- **Libraries** are compiled stand-ins (`tests/fakes/sick.c`, `tests/fakes/libnvidia_ml.c`) that the dynamic loader,
  ctypes and nvidia-ml-py load as they would the real ones. **Files** lie in a folder that is given to the probes as the
  root of the machine, read by children without the right to read what is forbidden. **Programs** lie in that folder.
- Every report is whole (each component that was asked after is in it), valid by its schema, and there within its time
  limit, which a fault never lengthens.
- Every row is held against the same machine with the fault switched off, where what it asserts is not so. The stand-in
  libraries write down each fault that they do. Where a fault costs nothing, the row says *no effect* and why: the
  answer is there all the same, or another file says it, which is then removed as well to see that it was the source.
- The status is that of the component, or of the one copy where there may be many. What is quoted stands in the reason,
  in the facts of the copy, or among what was not seen (`not_seen`).
- In the last column, *never healthy*: the machine is well but for this fault, and the verdict is another. *may be
  healthy*: its one NVIDIA GPU does not rest on what is sick, or the answer stands all the same.
- All error numbers of NVML and CUDA at each stage of the probes that ask them are in `tests/faults/test_every_code.py`
  (and what is made of each, in `tests/faults/test_codes.py`), the command with libraries that take five seconds in
  `tests/faults/test_slow.py`, the same driver below the real cuda.bindings and cuda.core in
  `tests/faults/test_bindings.py`, the command beside sick programs in `tests/faults/test_commands.py`, rights and
  poor places in `tests/faults/test_rights.py`, machines without `/proc`, `/sys`, `/dev`, processes, open files or
  system calls in `tests/faults/test_sandboxes.py`, interruption in `tests/faults/test_interrupting.py`.

"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "\n".join([*_counts(), "", *_libraries(), "", *_files(), "", *_programs(), ""])


def _counts() -> Iterator[str]:
    rows: tuple[Row | Sick | Program, ...] = (*libraries(), *files(), *programs())
    kinds = {"answers error" if row.fault.isdecimal() else row.words for row in rows}
    places = {row.place for row in libraries()} | {row.path for row in files()} | {row.command for row in programs()}
    yield f"{len(rows)} combinations of {len(kinds)} kinds of fault and {len(places)} places."


def _libraries() -> Iterator[str]:
    yield "## Libraries"
    yield ""
    yield "| the fault | at | component | status | the report says | verdict |"
    yield "|---|---|---|---|---|---|"
    for row in sorted(libraries(), key=lambda row: (row.words, row.place, row.component)):
        verdict = "never healthy" if row.decides else "may be healthy"
        none = "no effect: " if row.harmless else ""
        loading = f"loading `{row.place}`" if ".so" in row.place else f"`{row.place}` of {row.library}"
        yield f"| {row.words} | {loading} | {row.component} | {row.status} | {none}{_said(row.says)} | {verdict} |"


def _files() -> Iterator[str]:
    yield "## Files"
    yield ""
    yield "| the fault | file | component | status | the report says |"
    yield "|---|---|---|---|---|"
    for row in sorted(files(), key=lambda row: (row.words, row.path, row.component)):
        says = [_said(row.says)] if row.says else []
        says += [f"`{row.fact}` is " + (f"`{json.dumps(row.left)}`" if row.left else "unknown")] if row.fact else []
        says += [f"no effect on `{row.same}`: `{row.by}` says the same"] if row.same else []
        yield f"| {row.words} | `{row.asked}` | {row.component} | {row.status} | {'; '.join(says)} |"


def _programs() -> Iterator[str]:
    yield "## Programs"
    yield ""
    yield "| the fault | program | component | status | the report says |"
    yield "|---|---|---|---|---|"
    for row in sorted(programs(), key=lambda row: (row.words, row.command)):
        named = f"{_said(row.says)}; " if row.says else ""
        yield f"| {row.words} | `{row.command}` | {row.component} | {row.status} | {named}`{row.fact}` is unknown |"


def _said(says: str) -> str:
    return " … ".join(f'"{part}"' for part in says.split("…")).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
