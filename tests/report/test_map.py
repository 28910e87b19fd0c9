"""The map of the stack as text and as a page: how it looks, on any page, and that nothing in it can do harm."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpustack.diagnose.engine import chart
from gpustack.matrix import Matrix
from gpustack.model.facts import Component, Facts, Host, Layer, Status
from gpustack.model.matrix_answer import StackMap
from gpustack.report import stack_html, stack_text
from tests.report import reports
from tests.report.snapshots import compare

if TYPE_CHECKING:
    from gpustack.model.report import Report

MATRIX = Matrix()
PAGES: dict[str, dict[str, Any]] = {
    "map-h200-80": {},
    "map-h200-verbose": {"width": 100, "verbose": True},
    "map-driver-40-ascii": {"width": 40, "ascii": True},
    "map-driver-60-ascii": {"width": 60, "ascii": True},
    "map-hostile-80": {},
}
REPORTS = {"map-h200": reports.h200, "map-driver": reports.driver_too_old, "map-hostile": reports.hostile}
VOID = {"meta", "br"}


def map_of(report: Report) -> StackMap:
    """Return the map of a handmade report's machine, with the contracts and the matrix of that report."""
    drawn = chart(Facts(taken=report.taken, host=report.host, components=report.components, seconds=0.5), MATRIX)
    return replace(drawn, contracts=report.contracts, tool=report.tool)


def drawn(name: str) -> StackMap:
    return next(map_of(make()) for known, make in REPORTS.items() if name.startswith(known))


class Reader(HTMLParser):
    """Reads a page as a browser would: its tags in pairs, its text, and whatever it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [value or "" for name, value in attrs if name in {"src", "href"} or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("name", PAGES)
def test_the_map_is_the_one_agreed_on(name: str) -> None:
    compare(f"{name}.txt", stack_text.render_map(drawn(name), **PAGES[name]))


def test_the_page_holds_what_the_text_holds() -> None:
    page = " ".join(read(stack_html.render(drawn("map-driver"))).text)
    for one in drawn("map-driver").known:
        assert one in page
    assert "broken" in page


def test_the_page_loads_nothing_and_hostile_words_stay_words() -> None:
    reader = read(stack_html.render(drawn("map-hostile")))
    assert reader.loads == []
    assert reader.tags <= {
        *("html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "b", "ul", "li"),
        *("h1", "h2", "p", "details", "summary", "script"),
    }


@given(
    width=st.integers(0, 200),
    ascii_only=st.booleans(),
    words=st.text(max_size=40),
    status=st.sampled_from(Status),
    layer=st.sampled_from(Layer),
)
def test_any_map_can_be_drawn_on_any_page(
    *, width: int, ascii_only: bool, words: str, status: Status, layer: Layer
) -> None:
    strange = Component(
        id=words or "x", layer=layer, vendor=words, status=status, version=words, reason=words, path=words
    )
    made = StackMap(tool=reports.TOOL, host=Host(hostname=words), components=(strange,), contracts=())
    text = stack_text.render_map(made, width=width, ascii=ascii_only, verbose=True)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text) is None
    assert text.isascii() or not ascii_only
    longest = max((cell_len(word) for word in re.split(r"\s", words)), default=0) * 10
    assert max(cell_len(line) for line in text.splitlines()) <= max(width, 20, 48, longest + 20)
    read(stack_html.render(made))
