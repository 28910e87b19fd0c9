"""The documentation site: a page with its own address for everything there is to look up, and no broken link."""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpustack.diagnose import rule
from tools import site

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return site.pages(REPO)


def test_every_finding_table_schema_and_decision_has_its_address(pages: Mapping[str, str]) -> None:
    tables = [path.relative_to(REPO / "compat-matrix") for path in (REPO / "compat-matrix").rglob("*.toml")]
    wanted = {
        *(f"findings/{one}.md" for one in rule.ids()),
        *(f"matrix/{path.with_suffix('.md')}" for path in tables),
        *(f"json/{path.stem}.md" for path in (REPO / "gpustack/schemas").glob("*.json")),
        *(f"decisions/{path.name}" for path in (REPO / "docs/decisions").glob("*.md")),
    }
    assert len(wanted) > 200
    assert wanted <= set(pages)


def test_every_written_page_is_on_the_site() -> None:
    written = {name for part in site.WRITTEN.values() for name in part} | set(site.MADE)
    there = {f"docs/{path.name}" for path in (REPO / "docs").glob("*.md")}
    assert there <= written, "a page that nobody finds: name it in tools/site.py"
    assert all((REPO / name).exists() for name in written - set(site.MADE))


def test_no_page_leads_to_one_that_is_not_there(pages: Mapping[str, str]) -> None:
    lost = [
        (at, link)
        for at, text in pages.items()
        for link in re.findall(
            r"(?<!!)\]\((?![a-z]+:|#)([^)#]+)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        )
        if posixpath.normpath(posixpath.join(posixpath.dirname(at), link)) not in {*pages, "bench.svg", "doctor.svg"}
    ]
    assert lost == []


def test_a_finding_says_what_it_means_what_is_behind_it_and_where_it_is_seen(pages: Mapping[str, str]) -> None:
    page = pages["findings/gpu-ecc-error.md"]
    assert page.startswith("# gpu-ecc-error\n\n**")
    assert "Layer: hardware." in page
    assert "## Requirements\n\n- `gpu " in page
    assert "[driver-library-mismatch](driver-library-mismatch.md)" in pages["findings/driver-too-old-for-cuda-build.md"]
    assert (
        "[driver-too-old-for-cuda-build](driver-too-old-for-cuda-build.md)"
        in pages["findings/driver-library-mismatch.md"]
    )


def test_tables_and_schemas_are_shown_row_by_row_and_harmless(pages: Mapping[str, str]) -> None:
    assert "<!--table xid-->" in pages["matrix/xid.md"]
    assert "<td>79</td>" in site.on_page_content("<!--table xid-->")
    assert '<a href="#Finding">Finding</a>' in site.on_page_content("<!--table json/report-->")
    messages = site.on_page_content("<!--table messages_container-->")
    assert "(?P&lt;needs&gt;" in messages
    assert "(?P<needs>" not in messages


@pytest.mark.slow
def test_it_is_built_strictly_finds_words_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed: nox -s docs installs it")
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path))
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=REPO, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    found = json.loads((tmp_path / "search/search_index.json").read_text("utf-8"))["docs"]
    assert "findings/arch-not-in-build/" in {one["location"] for one in found}
    page = (tmp_path / "findings/arch-not-in-build/index.html").read_text("utf-8")
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"?([^\s\">]+)", page)
    assert len(loaded) > 3
    assert [one for one in loaded if one.startswith(("http", "//"))] == []
    styles = "".join(path.read_text("utf-8") for path in (tmp_path / "assets").rglob("*.css"))
    assert re.findall(r"@import|url\([\"']?(?:https?:)?//", styles) == []
