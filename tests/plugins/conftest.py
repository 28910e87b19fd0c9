"""A plugin to be changed; what a test loads is unloaded after it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack import matrix as tables
from gpustack import plugins
from gpustack.collect import catalogue
from gpustack.diagnose import rule
from gpustack.diagnose.requirements.records import by_id
from gpustack.matrix import facts as schema

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/plugin/gpustack_example"


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unload what a test loads after it."""
    monkeypatch.setattr(plugins, "LOADED", plugins.Loaded())
    for module, empty in ((catalogue, []), (rule, {}), (tables, {})):
        monkeypatch.setattr(module, "ADDED", empty)
    schema.schema.cache_clear()
    yield
    by_id.cache_clear()
    schema.schema.cache_clear()


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Return a copy of the example, to be changed."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "plugin"))
