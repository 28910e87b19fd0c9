"""Write the catalogue of findings from the rules' own words: ``python docs/findings.py``, or ``--check`` to compare.

Each finding has an anchor of its id, so that ``docs/findings.md#gpu-ecc-error`` leads to it.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from gpustack.diagnose import rule
from gpustack.explain import topics
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.terms import place_of
from gpustack.model.facts import Layer

PAGE = Path(__file__).with_name("findings.md")
HEAD = """# Findings

Every finding that gpustack can come to: what was seen, why it hurts, what to do. `gpustack explain ID` prints the same
text, with how to see it on this machine. An id never changes its meaning. Made by `python docs/findings.py` from the
rules' own docstrings.
"""
MARKED = re.compile(r"([\\`*_<>\[\]#|~&])")


def page() -> str:
    """Return the catalogue as Markdown: an index by layer, then each finding in the order in which rules are asked."""
    matrix = Matrix()
    places = {finding: place_of(matrix, finding) for finding in topics.ids()}
    layers = {finding: place.layer if place else None for finding, place in places.items()}
    index = "\n".join(filter(None, (row(layer, layers) for layer in (*Layer, None))))
    return "\n".join((HEAD, "| layer | findings |", "|---|---|", index, "", *map(entry, topics.ids())))


def row(layer: Layer | None, layers: Mapping[str, Layer | None]) -> str:
    """Return the index of one layer (None: of any), by name; empty if no finding is of it."""
    names = sorted(finding for finding, its in layers.items() if its is layer)
    links = ", ".join(f"[{name}](#{name})" for name in names)
    return f"| {layer.value if layer else 'any'} | {links} |" if names else ""


def entry(finding: str) -> str:
    """Return one finding: its anchor, its title, its paragraphs, and where its rule stands."""
    title, *rest = topics.text(finding)
    ruled = finding in rule.ids()
    file = rule.file_of(finding) if ruled else topics.__name__.replace(".", "/") + ".py"
    said = "\n\n".join((f"**{plain(title)}**", *map(plain, rest)))
    return f'<a id="{finding}"></a>\n\n## {finding}\n\n{said}\n\n[its {"rule" if ruled else "text"}](../{file})\n'


def plain(text: str) -> str:
    """Return a text that Markdown shows letter by letter."""
    return MARKED.sub(r"\\\1", text)


def main() -> int:
    """Write the page, or with --check tell whether it is as it would be written."""
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
