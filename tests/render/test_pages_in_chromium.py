"""The page in a real Chromium, as wide as a phone and as a desk: not blank, nothing cut, nothing on other words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.render import report_html
from tests.render import checks, chromium, measurements, reports

if TYPE_CHECKING:
    from gpustack.render.parts import Reported

PAGES: dict[str, Callable[[], Reported]] = {
    "healthy": reports.healthy,
    "driver-too-old": reports.driver_too_old,
    "eight": reports.eight,
    "no-gpu": reports.no_gpu,
    "hostile": checks.hostile,
    "check-bad-host": checks.bad_host,
    "check-passes": checks.passes,
    "bench-later": measurements.later,
    "bench-nothing": measurements.nothing,
}
PHONE, DESK = 390, 1280
TOUCH = 2  # pixels that the boxes of two lines may share: letters do not fill theirs
LEAST_VARIANCE = 100
# The boxes of all words and drawings as [left, top, right, bottom, text], cut where a scrolling command cuts them.
BOXES = """(() => {
  const boxes = [], add = (rect, said, node) => {
    const pre = node.closest('pre'), edge = pre ? pre.getBoundingClientRect().right : Infinity;
    if (rect.width && rect.height) boxes.push([rect.left, rect.top, Math.min(rect.right, edge), rect.bottom, said]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const range = document.createRange();
    range.selectNodeContents(node);
    if (node.data.trim()) for (const rect of range.getClientRects()) add(rect, node.data.trim(), node.parentElement);
  }
  for (const svg of document.querySelectorAll('svg')) add(svg.getBoundingClientRect(), '[drawing]', svg);
  return boxes;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """Give a tab of this machine's Chromium."""
    if chromium.program() is None:
        pytest.skip("no Chromium here (chromium, chromium-browser, google-chrome): how the page looks cannot be seen")
    with chromium.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


def shown(browser: chromium.Page, folder: Path, name: str, width: int, *, dark: bool = False, media: str = "") -> None:
    path = folder / f"{name}.html"
    path.write_text(report_html.render(PAGES[name]()), "utf-8")
    browser.show(path, width, dark=dark, media=media)


def overlapping(boxes: list[tuple[float, float, float, float, str]]) -> list[tuple[str, str]]:
    """Give the words that lie on other words."""
    boxes = sorted(boxes, key=lambda box: box[1])
    found = []
    for number, (left, _, right, bottom, said) in enumerate(boxes):
        for other in boxes[number + 1 :]:
            if other[1] >= bottom - TOUCH:
                break
            across = min(right, other[2]) - max(left, other[0])
            if across > TOUCH and min(bottom, other[3]) - other[1] > TOUCH:
                found.append((said, other[4]))
    return found


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_lies_on_something_else(
    browser: chromium.Page, tmp_path: Path, name: str, width: int
) -> None:
    shown(browser, tmp_path, name, width)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    boxes = [tuple(box) for box in browser.ask(BOXES)]
    assert len(boxes) > 5
    assert [said for left, _, right, _, said in boxes if left < 0 or right > width] == []
    assert overlapping(boxes) == []
    assert browser.ask("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_is_not_blank_and_follows_light_and_dark(
    browser: chromium.Page, tmp_path: Path, width: int, *, dark: bool
) -> None:
    shown(browser, tmp_path, "check-bad-host", width, dark=dark)
    values = chromium.pixels(browser.shot(width, 1600, scale=0.25))
    mean = sum(values) / len(values)
    assert sum((value - mean) ** 2 for value in values) / len(values) > LEAST_VARIANCE
    assert (mean < 128) is dark


def test_on_paper_commands_are_whole(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "driver-too-old", PHONE, media="print")
    wide = "[...document.querySelectorAll('pre')].filter(pre => pre.scrollWidth > pre.clientWidth + 1).length"
    assert browser.ask("document.querySelectorAll('pre').length") > 0
    assert browser.ask(wide) == 0


def test_words_on_words_would_be_noticed(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "healthy", DESK)
    browser.ask("document.querySelector('h1').style.marginBottom = '-2rem'")
    assert overlapping([tuple(box) for box in browser.ask(BOXES)]) != []
