"""The catalogue of findings matches the rules: each finding at its own anchor, every word as in the rule."""

from __future__ import annotations

import re
import runpy
from html import unescape
from pathlib import Path

from markdown_it import MarkdownIt

from gpustack.explain import topics
from tests.counting import each

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs/findings.md").read_text("utf-8")
SECTIONS = dict(re.findall(r'^<a id="([^"]+)"></a>\n(.*?)(?=^<a id|\Z)', PAGE, re.DOTALL | re.MULTILINE))


def test_the_page_is_what_the_rules_say_today() -> None:
    written = runpy.run_path(str(REPO / "docs/findings.py"))["page"]()
    assert written == PAGE, "the rules have changed: python docs/findings.py"


def test_every_finding_has_one_anchor_and_the_index_leads_to_it() -> None:
    assert list(SECTIONS) == list(topics.ids())
    index = PAGE.partition('<a id="')[0]
    assert sorted(re.findall(r"\]\(#([^)]+)\)", index)) == sorted(topics.ids())


@each("finding", topics.ids())
def test_a_reader_sees_the_rules_own_words(finding: str) -> None:
    html = MarkdownIt("commonmark", {"html": False}).render(SECTIONS[finding])
    shown = [unescape(re.sub(r"<[^>]+>", "", part)) for part in re.findall(r"<p>(.*?)</p>", html, re.DOTALL)]
    assert tuple(shown[:-1]) == topics.text(finding)
    assert f"<h2>{finding}</h2>" in html
    (rule,) = re.findall(r'href="\.\./([^"]+)"', html)
    assert (REPO / rule).is_file()
