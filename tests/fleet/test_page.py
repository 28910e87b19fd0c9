"""The page of a fleet in a real Chromium: at phone and desktop width, in light and dark mode, accessible to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.fleet import judging, nodes
from gpustack.report import renderer
from tests.report import chromium, looks
from tests.report.conftest import axe, browser
from tests.report.test_pages_in_chromium import FOUND
from tools.fleet.__main__ import fleet

__all__ = ["axe", "browser"]  # fixtures
NODES = 60


@pytest.fixture(scope="module", name="page")
def _page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a fleet in racks of sixteen, with slow cards, drift and a missing node."""
    folder = tmp_path_factory.mktemp("page")
    fleet(folder, NODES, seed=4)
    report = judging.judge(folder, labels=nodes.labels(folder / "labels"), workers=1).report
    path = folder / "fleet.html"
    path.write_text(renderer("fleet-html")(report), "utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_inaccessible(page: Path, browser: chromium.Page, axe: str, *, dark: bool) -> None:
    browser.show(page, looks.DESK, dark=dark)
    browser.ask(axe)
    assert browser.promised(FOUND) == []


@pytest.mark.parametrize("width", [looks.PHONE, looks.DESK])
def test_everything_is_on_the_page_and_nothing_is_wider_than_the_screen(
    page: Path, browser: chromium.Page, width: int
) -> None:
    browser.show(page, width)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("performance.getEntriesByType('resource').length") == 0
    assert browser.ask("document.querySelectorAll('.rack i').length") == NODES
    assert browser.ask("document.querySelectorAll('.rack').length") == -(-NODES // 16)
    assert browser.ask("document.querySelectorAll('.rack i.missing').length") == 1
    assert (
        browser.ask("[...document.querySelectorAll('.figure svg')].filter(one => !one.querySelector('.bar')).length")
        == 0
    )
    assert browser.ask("document.querySelectorAll('.figure .bad').length") > 0
    heads = "[...document.querySelectorAll('h2')].map(one => one.textContent)"
    assert browser.ask(heads) == ["Verdicts", "Figures", "Drift", "Missing", "Map"]
