"""The pages in a real Chromium, on a phone, a desktop and at 200 %: nothing blank, cut, overlapping or inaccessible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.report import report_html, trace_html
from tests.report import checks, chromium, looks, measurements, reports, traces
from tests.wide import WIDE, wide

if TYPE_CHECKING:
    from gpustack.report.parts import Reported

REPORTS: dict[str, Callable[[], Reported]] = {
    "healthy": reports.healthy,
    "driver-too-old": reports.driver_too_old,
    "eight": reports.eight,
    "no-gpu": reports.no_gpu,
    "hostile": checks.hostile,
    "check-bad-host": checks.bad_host,
    "check-passes": checks.passes,
    "bench-later": measurements.later,
    "bench-nothing": measurements.nothing,
    "bench-four": measurements.several,
}
PAGES: dict[str, Callable[[], str]] = {
    **{name: lambda made=made: report_html.render(made()) for name, made in REPORTS.items()},  # type: ignore[misc]
    **{f"trace-{name}": lambda made=made: trace_html.render(made()) for name, made in traces.ALL.items()},  # type: ignore[misc]
    "fleet": lambda: report_html.render_fleet(reports.fleet()),
}
# What axe-core finds: the rule, how serious it is, and the first place.
FOUND = """axe.run(document, {resultTypes: ['violations']}).then(said => JSON.stringify(
  said.violations.map(one => [one.id, one.impact, one.nodes[0].html])))"""
ZOOMED = looks.DESK // 2  # what is left of a desktop screen at 200 %


def shown(browser: chromium.Page, folder: Path, name: str, width: int, *, dark: bool = False, media: str = "") -> None:
    path = folder / f"{name}.html"
    path.write_text(PAGES[name](), "utf-8")
    browser.show(path, width, dark=dark, media=media)


@pytest.mark.parametrize("width", [looks.PHONE, ZOOMED, looks.DESK])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_overlaps_something_else(
    browser: chromium.Page, tmp_path: Path, name: str, width: int
) -> None:
    shown(browser, tmp_path, name, width)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    boxes = [tuple(box) for box in browser.ask(looks.BOXES)]
    assert len(boxes) > 5
    assert [said for left, _, right, _, said in boxes if left < 0 or right > width] == []
    assert looks.overlapping(boxes) == []
    assert browser.ask("performance.getEntriesByType('resource').length") == 0


@wide
@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [
        (name, width, dark)
        for at, name in enumerate(PAGES)
        for width in (looks.DESK, ZOOMED)
        for dark in (False, True)
        if WIDE or (dark, width) == (bool(at % 2), (looks.DESK, ZOOMED)[at // 2 % 2])
    ],
)
def test_nothing_is_inaccessible(
    browser: chromium.Page, axe: str, tmp_path: Path, name: str, width: int, *, dark: bool
) -> None:
    """In CI each page in one width, every second one dark; with ``GPUSTACK_WIDE=1`` in both, dark and light."""
    shown(browser, tmp_path, name, width, dark=dark)
    browser.ask(looks.UNFOLDED)
    browser.ask(axe)
    assert browser.promised(FOUND) == []


def test_what_is_inaccessible_would_be_noticed(browser: chromium.Page, axe: str, tmp_path: Path) -> None:
    shown(browser, tmp_path, "healthy", looks.DESK)
    browser.ask("document.documentElement.removeAttribute('lang') || 1")
    browser.ask("document.querySelector('h1').style.color = '#eee'")
    browser.ask(axe)
    assert {rule for rule, _, _ in browser.promised(FOUND)} == {"html-has-lang", "color-contrast"}


def test_on_a_phone_every_command_is_whole_and_has_a_button_that_copies_it(
    browser: chromium.Page, tmp_path: Path
) -> None:
    shown(browser, tmp_path, "driver-too-old", looks.PHONE)
    assert browser.ask("[...document.querySelectorAll('pre')].map(one => one.scrollWidth > one.clientWidth + 1)") == [
        *[False] * browser.ask("document.querySelectorAll('pre').length")
    ]
    assert browser.ask("document.querySelectorAll('pre').length") == 2
    assert browser.ask("[...document.querySelectorAll('button.copy')].map(one => one.nextElementSibling.tagName)") == [
        "PRE",
        "PRE",
    ]
    browser.ask("document.querySelector('button.copy').click() || 1")
    assert browser.ask("document.querySelector('button.copy').textContent") == "Copied"


def test_beside_a_wide_command_its_button_takes_no_row_and_the_headline_occurs_once(
    browser: chromium.Page, tmp_path: Path
) -> None:
    shown(browser, tmp_path, "driver-too-old", looks.DESK)
    top = "[...document.querySelectorAll('.typed')].map(row => [...row.children].map(one => one.offsetLeft))"
    assert all(button > pre for button, pre in browser.ask(top))
    title = browser.ask("document.querySelector('h1').textContent")
    assert browser.ask("document.querySelector('main').textContent").count(title) == 1


def test_what_is_absent_is_folded_and_what_is_at_fault_is_red(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "driver-too-old", looks.DESK)
    folded = browser.ask("[...document.querySelectorAll('.absent')].map(one => one.checkVisibility())")
    assert folded
    assert not any(folded)
    red = browser.ask("getComputedStyle(document.querySelector('.at-fault b')).color")
    assert red == browser.ask("getComputedStyle(document.querySelector('.needs .bad')).color")
    assert red != browser.ask("getComputedStyle(document.querySelector('.present:not(.at-fault) b')).color")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [looks.PHONE, looks.DESK])
def test_it_is_not_blank_and_follows_light_and_dark(
    browser: chromium.Page, tmp_path: Path, width: int, *, dark: bool
) -> None:
    shown(browser, tmp_path, "check-bad-host", width, dark=dark)
    mean, variance = looks.light(browser, width)
    assert variance > looks.LEAST_VARIANCE
    assert (mean < 128) is dark


def test_on_paper_commands_are_whole_and_words_are_dark(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "driver-too-old", looks.PHONE, media="print", dark=True)
    assert browser.ask("getComputedStyle(document.body).color") == "rgb(29, 35, 48)"
    wide = "[...document.querySelectorAll('pre')].filter(pre => pre.scrollWidth > pre.clientWidth + 1).length"
    assert browser.ask("document.querySelectorAll('pre').length") > 0
    assert browser.ask(wide) == 0


def test_overlapping_words_would_be_noticed(browser: chromium.Page, tmp_path: Path) -> None:
    shown(browser, tmp_path, "healthy", looks.DESK)
    browser.ask("document.querySelector('h1').style.marginBottom = '-2rem'")
    assert looks.overlapping([tuple(box) for box in browser.ask(looks.BOXES)]) != []
