"""What the tests of the formats share."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

from tests.report import chromium

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    """Yield a tab of this machine's Chromium."""
    if chromium.program() is None:
        pytest.skip("no Chromium here (chromium, chromium-browser, google-chrome): how the page looks cannot be seen")
    with chromium.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script of axe-core, which finds accessibility problems in a page."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip("no npm here, which brings axe-core")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    if packed.returncode:
        pytest.skip(f"npm brings no axe-core: {packed.stderr[-200:]}")
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()
