"""Make a picture of the program's own output from a recorded result.

    python docs/picture.py docs/evidence/doctor.json docs/doctor.svg
    python docs/picture.py docs/evidence/bench.json docs/bench.svg

The record is what ``gpustack doctor --format json`` or ``gpustack bench --format json`` wrote. Needs the extra ``dev``:
pydantic reads the record back into our types, and rich, which draws on the terminal, draws the SVG.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console

from gpustack.model.bench import BenchReport
from gpustack.model.report import Report
from gpustack.report import bench_text, text
from gpustack.report.lines import Line, paint
from gpustack.report.page import Page

PAGE = Page(width=100, colour=True)
COLUMN = 12.2  # the width of a letter in rich's SVG
FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
LEADING = re.compile(r'x="([\d.]+)"( y="[\d.]+" )textLength="([\d.]+)"([^>]*)>((?:&#160;)+)(?=[^&<]|&#(?!160))')


def shown(record: str) -> tuple[str, list[Line]]:
    """Return the command that made the record, and the lines that show it."""
    data = json.loads(record, object_hook=_named)
    if data["schema"].startswith("gpustack.bench/"):
        return "gpustack bench", list(bench_text.lines(TypeAdapter(BenchReport).validate_python(data), PAGE))
    return "gpustack doctor", list(text.lines(TypeAdapter(Report).validate_python(data), PAGE))


def draw(command: str, lines: list[Line]) -> str:
    """Return the SVG of a terminal that shows the lines; it loads nothing, not even a font, from elsewhere."""
    width = max(PAGE.width, *(line.lead.cell_len + line.body.cell_len for line in lines if line.whole), 0)
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    paint(lines, PAGE, console)
    svg = FONT_FACE.sub("", console.export_svg(title=command, unique_id="gpustack")).replace("Fira Code", "monospace")
    return LEADING.sub(_moved, "\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def _named(held: dict[str, object]) -> dict[str, object]:
    """Return back the names of our fields, where JSON has others."""
    return {"from_" if name == "from" and "to" in held else name: value for name, value in held.items()}


def _moved(match: re.Match[str]) -> str:
    """Start a text after its leading spaces: some viewers drop them, and all to their left moves with them."""
    columns = match[5].count("&#160;") * COLUMN
    return f'x="{float(match[1]) + columns:.1f}"{match[2]}textLength="{float(match[3]) - columns:.1f}"{match[4]}>'


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(draw(*shown(source.read_text("utf-8"))), "utf-8")
