"""What the tests of the forms share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """Give a tab of this machine's Chromium."""
    if chromium.program() is None:
        pytest.skip("no Chromium here (chromium, chromium-browser, google-chrome): how the page looks cannot be seen")
    with chromium.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page
