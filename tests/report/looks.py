"""How a page looks in a browser: words that overlap other words, and how light it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.report import chromium

if TYPE_CHECKING:
    from tests.report.chromium import Page

PHONE, DESK = 375, 1280  # pixels
TOUCH = 2  # pixels that the boxes of two lines may share: letters do not fill theirs
LEAST_VARIANCE = 100
UNFOLDED = "document.querySelectorAll('details').forEach(one => { one.open = true; }) || 1"
# The boxes of all words and drawings as [left, top, right, bottom, text], clipped where a scrolling command clips them.
BOXES = """(() => {
  const boxes = [], add = (rect, said, node) => {
    const pre = node.closest('pre'), edge = pre ? pre.getBoundingClientRect().right : Infinity;
    if (rect.width && rect.height) boxes.push([rect.left, rect.top, Math.min(rect.right, edge), rect.bottom, said]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const holder = node.parentElement;
    if (holder.tagName === 'title' || !node.data.trim() || !holder.checkVisibility()) continue;
    for (const rect of range.getClientRects()) add(rect, node.data.trim(), node.parentElement);
  }
  for (const svg of document.querySelectorAll('svg:not(:has(text))'))
    if (svg.checkVisibility())
    add(svg.getBoundingClientRect(), '[drawing]', svg);
  return boxes;
})()"""


def overlapping(boxes: list[tuple[float, float, float, float, str]]) -> list[tuple[str, str]]:
    """Return the words that overlap other words."""
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


def light(browser: Page, width: int) -> tuple[float, float]:
    """Return how light the page is (0 to 255) and the variance of that: a blank page has none."""
    values = chromium.pixels(browser.shot(width, 1600, scale=0.25))
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / len(values)
