"""Tables of the matrix and JSON Schemas as pages of the documentation site (``tools/site.py``)."""

# ruff: noqa: INP001 - a maintainers' program, whose folder is not a package
from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MARKED = re.compile(r"([\\`*_<>\[\]#|~&])")
TABLE = re.compile(r"<!--table (\S+)-->")
LONGEST = 2_000  # characters of a text in a table; longer texts are written by programs for programs
HIDDEN = "---\nsearch:\n  exclude: true\n---\n"
HELD: dict[str, str] = {}  # tables as HTML, inserted after the Markdown was converted, which would be slow with them


def tables(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page for each table of the matrix: how it is measured, and its rows with their sources."""
    names = []
    for path in sorted((root / "compat-matrix").rglob("*.toml")):
        text, name = path.read_text("utf-8"), path.relative_to(root / "compat-matrix").with_suffix("").as_posix()
        names.append(name)
        lines = text.splitlines()
        end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
        head = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
        HELD[name] = "".join(_parts(tomllib.loads(text)))
        yield f"matrix/{name}.md", f"{HIDDEN}# {name}\n\n```text\n{head}\n```\n\n<!--table {name}-->\n"
    listed = "\n".join(f"- [{name}]({name}.md)" for name in names)
    yield (
        "matrix/index.md",
        f"# The compatibility matrix\n\nEvery table, row by row, each with its source.\n\n{listed}\n",
    )


def _parts(held: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a table as HTML, the single values first."""
    lone = {key: value for key, value in held.items() if not _rows(value)}
    if lone:
        yield _html(({"": key, "value": value} for key, value in lone.items()))
    for part, value in held.items():
        if rows := _rows(value):
            yield f'<h2 id="{escape(part)}">{escape(part)}</h2>{_html(rows)}'


def _rows(value: object) -> list[Mapping[str, Any]]:
    """Return a part as rows; none if it is a single value."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return value
    if isinstance(value, dict):
        named = {key: one if isinstance(one, dict) else {"value": one} for key, one in value.items()}
        return [{"": key, **one} for key, one in named.items()]
    return []


def _html(rows: Iterable[Mapping[str, Any]]) -> str:
    held = list(rows)
    keys = list(dict.fromkeys(key for row in held for key in row))
    head = "".join(f"<th>{escape(key)}</th>" for key in keys)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(key))}</td>' for key in keys)}</tr>\n" for row in held)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
    return f'<div class="md-typeset__scrollwrap">{table}</div>\n'


def _cell(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, default=str, ensure_ascii=False)
        if value is not None
        else ""
    )
    return escape(text) if len(text) <= LONGEST else f"{len(text)} letters, made by a program"


def schemas(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page for each JSON Schema: every key with its type and meaning."""
    names = []
    for path in sorted((root / "gpustack/schemas").glob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        names.append(path.stem)
        kinds = {"": schema, **schema.get("$defs", {})}
        HELD[f"json/{path.stem}"] = "".join(
            f'<h2 id="{escape(name)}">{escape(name or "The whole")}</h2>'
            f"<p>{escape(kind.get('description', ''))}</p>{_keys(kind)}"
            for name, kind in kinds.items()
        )
        about = plain(schema.get("description", ""))
        yield f"json/{path.stem}.md", f"# {schema['title']}\n\n{about}\n\n<!--table json/{path.stem}-->\n"
    listed = "\n".join(f"- [{name}]({name}.md)" for name in names)
    yield (
        "json/index.md",
        f"# JSON\n\nEvery output, key by key. The schemas ship as `gpustack/schemas/NAME.json`.\n\n{listed}\n",
    )


def _keys(kind: Mapping[str, Any]) -> str:
    if "enum" in kind:
        return f"<p>{escape(', '.join(map(str, kind['enum'])))}</p>"
    needed = kind.get("required", ())
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{_type(one)}</td><td>{'always' if name in needed else ''}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for name, one in kind.get("properties", {}).items()
    ]
    head = "<tr><th>key</th><th>type</th><th>there</th><th>means</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _type(one: Mapping[str, Any]) -> str:
    """Return a type in words, with links to the types it contains."""
    if "$ref" in one:
        name = escape(one["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "const" in one:
        return f"<code>{escape(json.dumps(one['const']))}</code>"
    if "anyOf" in one:
        return " or ".join(map(_type, one["anyOf"]))
    kind = str(one.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(one.get('items', {}))}"
    if kind == "object" and isinstance(one.get("additionalProperties"), dict):
        return f"object of {_type(one['additionalProperties'])}"
    return escape(kind)


def plain(text: str) -> str:
    """Return a text escaped so that Markdown shows it unchanged."""
    return MARKED.sub(r"\\\1", text)
