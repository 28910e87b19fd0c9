"""The pages of the documentation site, generated from the repository: a mkdocs hook (``mkdocs.yml``, ``nox -s docs``).

Written pages stay where they are in the repository, so that their links work there too; here each gets an address on
the site, and the links between them are adapted. Every finding, table, schema and decision has its own page.
"""

# ruff: noqa: INP001 - a maintainers' program, whose folder is not a package
from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

REPO = Path(__file__).resolve().parents[1]
if str(REPO) not in sys.path:  # mkdocs loads a hook by its path
    sys.path.insert(0, str(REPO))

from gpustack.diagnose import rule  # noqa: E402 - see above
from gpustack.explain import topics  # noqa: E402
from gpustack.matrix import Matrix  # noqa: E402
from gpustack.matrix.subjects import health, messages  # noqa: E402
from gpustack.matrix.subjects.terms import place_of  # noqa: E402
from gpustack.model.facts import Layer  # noqa: E402
from tools.site_tables import HELD, TABLE, plain, schemas, tables  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

# Each written page by its path in the repository: its address on the site and its title in the menu, in menu order.
WRITTEN = {
    "Start": {"README.md": ("index.md", "Start"), "docs/guide.md": ("guide.md", "Commands and formats")},
    "How it judges": {
        "docs/judging.md": ("judging.md", "From facts to a verdict"),
        "docs/faults.md": ("faults.md", "Planted faults"),
        "docs/glossary.md": ("glossary.md", "Words"),
    },
    "Measure": {"docs/benchmarks.md": ("benchmarks.md", "Method and results")},
    "Use": {
        "docs/policy.md": ("policy.md", "Policy"),
        "docs/fleet.md": ("fleet.md", "Many machines"),
        "integrations/README.md": ("integrations.md", "CI and schedulers"),
        "docs/library.md": ("library.md", "In Python"),
        "examples/plugin/README.md": ("plugins.md", "A plugin"),
        "examples/README.md": ("examples.md", "Recorded machines"),
    },
    "Trust": {
        "SECURITY.md": ("security.md", "Security"),
        "docs/redaction.md": ("redaction.md", "What is taken out"),
        "docs/stability.md": ("stability.md", "What is stable"),
        "CHANGELOG.md": ("changelog.md", "Changes"),
    },
    "Contribute": {
        "CONTRIBUTING.md": ("contributing.md", "A probe, a row, a rule, a benchmark"),
        "compat-matrix/README.md": ("tables.md", "The tables"),
    },
}
# Generated pages: the path under which links in the repository refer to them, and their address on the site.
MADE = {f"docs/{name}.md": f"{name}/index.md" for name in ("findings", "matrix", "decisions")}
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)#]+)(?P<anchor>#[^)]*)?\)")


def pages(root: Path) -> Mapping[str, str]:
    """Return every page as Markdown by its address."""
    places = {**{name: at for part in WRITTEN.values() for name, (at, _) in part.items()}, **MADE}
    decided = {f"docs/decisions/{path.name}": f"decisions/{path.name}" for path in root.glob("docs/decisions/*.md")}
    places |= decided
    texts = {name: (root / name).read_text("utf-8") for name in places if (root / name).exists() and name not in MADE}
    written = {places[name]: linked(text, name, places) for name, text in texts.items()}
    titled = (
        (texts[name].partition("\n")[0].lstrip("# "), at.rpartition("/")[2]) for name, at in sorted(decided.items())
    )
    listed = "\n".join(f"- [{title}]({file})" for title, file in titled)
    return {
        **written,
        "decisions/index.md": f"# Decisions\n\nWhy things are as they are, one page each.\n\n{listed}\n",
        **dict(findings()),
        **dict(tables(root)),
        **dict(schemas(root)),
    }


def linked(text: str, name: str, places: Mapping[str, str]) -> str:
    """Return a page with its links adapted to the site; a link to a file that is not a page shows its path instead."""

    def one(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found["path"]))
        here = posixpath.dirname(places[name]) or "."
        if found["picture"]:
            return f"![{found['text']}]({posixpath.relpath(posixpath.basename(path), here)})"
        if path in places:
            return f"[{found['text']}]({posixpath.relpath(places[path], here)}{found['anchor'] or ''})"
        shown = found["text"].strip("`")
        return f"`{path}`" if shown in {path, posixpath.basename(path)} else f"{found['text']} (`{path}`)"

    return LINK.sub(one, text)


def findings() -> Iterator[tuple[str, str]]:
    """Yield a page for each finding, and a list of all findings by layer."""
    matrix = Matrix()
    ids = topics.ids()
    places = {one: place.layer if (place := place_of(matrix, one)) else None for one in ids}
    by_layer = {layer: sorted(one for one in ids if places[one] is layer) for layer in (*Layer, None)}
    rows = "\n".join(
        f"| {layer.value if layer else 'any'} | {', '.join(f'[{one}]({one}.md)' for one in held)} |"
        for layer, held in by_layer.items()
        if held
    )
    about = (
        "Every finding that gpustack can come to. `gpustack explain ID` prints the same text, with how to see it here."
    )
    yield "findings/index.md", f"# Findings\n\n{about}\n\n| layer | findings |\n|---|---|\n{rows}\n"
    leads = _leads(matrix)
    behind = {one: [cause for cause in rule.explained_by(one) if cause in ids] for one in ids}
    for one in ids:
        first, *rest = topics.text(one)
        layer = places[one]
        parts = [
            f"# {one}",
            f"**{plain(first)}**",
            *map(plain, rest),
            f"Layer: {layer.value}." if layer else "",
            _listed("It may follow from", behind[one]),
            _listed("It may be behind", [other for other, causes in behind.items() if one in causes]),
            *leads.get(one, ()),
        ]
        yield f"findings/{one}.md", "\n\n".join(filter(None, parts)) + "\n"


def _leads(matrix: Matrix) -> Mapping[str, list[str]]:
    """Return what leads to each finding: the states and limits behind it, and the messages of programs."""
    found: dict[str, dict[str, list[str]]] = {}
    for duty in (*health.states(matrix), *health.limits(matrix), *health.alikes(matrix)):
        rows = found.setdefault(duty.finding, {})
        line = f"`{duty.of} {duty.path.text}` {plain(duty.wanted)}. Source: {plain(duty.source)}"
        rows.setdefault("Requirements", []).append(line)
    for one in messages.patterns(matrix):
        if one.finding:
            rows = found.setdefault(one.finding, {})
            rows.setdefault("Messages", []).append(f"{plain(one.says)} Source: {plain(one.source)}")
    return {
        name: [
            "\n".join((f"## {head}\n", *(f"- {line}" for line in dict.fromkeys(lines)))) for head, lines in rows.items()
        ]
        for name, rows in found.items()
    }


def _listed(words: str, ids: Iterable[str]) -> str:
    links = ", ".join(f"[{one}]({one}.md)" for one in ids)
    return f"{words}: {links}." if links else ""


def menu(made: Iterable[str]) -> list[dict[str, Any]]:
    """Return the menu: the written pages in their order, and the generated ones."""
    held: dict[str, list[Any]] = {
        part: [{name: at} for at, name in pages_.values()] for part, pages_ in WRITTEN.items()
    }
    for part, folder in (("Findings", "findings"), ("Matrix", "matrix"), ("JSON", "json")):
        index = f"{folder}/index.md"
        held[part] = [index, *sorted(one for one in made if one.startswith(f"{folder}/") and one != index)]
    held["Contribute"].append({"Decisions": "decisions/index.md"})
    order = ("Start", "How it judges", "Findings", "Matrix", "Measure", "Use", "JSON", "Trust", "Contribute")
    return [{part: held[part]} for part in order]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Use the generated pages instead of what mkdocs found (a hook)."""
    from mkdocs.structure.files import File, Files  # noqa: PLC0415 - whoever wants the pages alone has no mkdocs

    made = pages(REPO)
    pictures = [REPO / "docs" / name for name in ("bench.svg", "doctor.svg")]
    config.nav = menu(made)
    return Files(
        [
            *(one for one in files if one.src_dir != config.docs_dir),  # the theme's
            *(File.generated(config, name, content=text) for name, text in made.items()),
            *(File.generated(config, one.name, abs_src_path=str(one)) for one in pictures),
        ]
    )


def on_page_content(html: str, **_more: object) -> str:
    """Insert the tables (a hook)."""
    return TABLE.sub(lambda found: HELD[found[1]], html)
