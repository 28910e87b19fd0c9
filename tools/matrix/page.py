"""The whole matrix as one page: every row of every table with its own address, source and date."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.matrix.coverage import table

LEFT_OUT = frozenset({"meta", "candidates", "prose", "facts"})  # for programs: words to recognise, types of facts
LAST = ("source", "checked")
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color-scheme:light dark}"
    "table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #8884;padding:.2rem .5rem;text-align:left;"
    "vertical-align:top}th{position:sticky;top:0;background:Canvas}tr:target{outline:2px solid}"
    "pre{white-space:pre-wrap;opacity:.8}nav{columns:16rem}.scroll{overflow-x:auto}"
)


def page(folder: Path) -> str:
    """Return the page, which loads nothing else."""
    paths = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.toml"))}
    paths = {name: path for name, path in paths.items() if name not in LEFT_OUT and not name.startswith("messages_")}
    links = "".join(f'<a href="#{name}">{name}</a><br>' for name in paths)
    body = "".join(_table(name, path) for name, path in paths.items())
    title = f"The compatibility matrix of gpustack, {table(folder / 'meta.toml')['date']}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1><p>The number of a row is a link to it: cite it by table, part and row.</p>"
        f"<nav>{links}</nav>{body}</html>\n"
    )


def _table(name: str, path: Path) -> str:
    head = "\n".join(
        line.lstrip("# ") for line in path.read_text("utf-8").partition("\nschema")[0].splitlines() if line[:1] == "#"
    )
    held = table(path)
    shared = {key: held[key] for key in LAST if key in held}
    parts = "".join(
        _part(name, part, [{**shared, **row} for row in rows])
        for part, rows in held.items()
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    )
    return f'<h2 id="{name}">{name}</h2><pre>{html.escape(head)}</pre>{parts}'


def _part(name: str, part: str, rows: list[Mapping[str, Any]]) -> str:
    columns = sorted(dict.fromkeys(key for row in rows for key in row), key=lambda key: key in LAST)
    heads = "".join(f"<th>{html.escape(column)}" for column in columns)
    seen: Counter[str] = Counter()
    return (
        f'<h3 id="{name}.{part}">{part}</h3><div class="scroll"><table><tr><th>{heads}'
        f"{''.join(_row(f'{name}.{part}', row, columns, seen) for row in rows)}</table></div>"
    )


def _row(place: str, row: Mapping[str, Any], columns: list[str], seen: Counter[str]) -> str:
    """Return a row whose address is its first value, such as generated/vllm.releases.0.9.2; it outlasts new rows."""
    key = re.sub(r"[^\w.+-]+", "-", str(next(iter(one for name, one in row.items() if name not in LAST))))[:60]
    seen[key] += 1
    anchor = html.escape(f"{place}.{key}" + (f".{seen[key]}" if seen[key] > 1 else ""))
    cells = "".join(f"<td>{html.escape(', '.join(_said(row.get(column))))}" for column in columns)
    return f'<tr id="{anchor}"><td><a href="#{anchor}">#</a>{cells}'


def _said(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{key}: {', '.join(_said(one))}" for key, one in value.items())
    elif isinstance(value, list):
        yield from (one for held in value for one in _said(held))
    elif value is not None:
        yield str(value)
