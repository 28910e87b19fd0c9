"""Each finding of the plugin, on recorded facts: what is seen, and what follows."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpustack
from gpustack import plugins

FOLDER = Path(__file__).resolve().parents[1] / "gpustack_example"


def machine(component: str, layer: str, version: str | None = None, **facts: object) -> dict[str, object]:
    """Return a snapshot of a machine with one component."""
    common = {"id": component, "layer": layer, "vendor": "any", "status": "present", "source": "a test"}
    copy = {"key": "0", "status": "present", "version": version, "facts": facts}
    held = {**common, "version": version, "facts": facts, "instances": [copy]}
    about = {"schema": "gpustack.snapshot/1", "taken": "2026-11-23T00:00:00+00:00", "host": {"hostname": "n1"}}
    return {**about, "components": [held], "environments": [], "not_seen": []}


@pytest.fixture(autouse=True)
def _plugin() -> None:
    plugins.load([FOLDER])
    assert not plugins.LOADED.faults


def ids(snapshot: object) -> set[str]:
    return {one.id for one in gpustack.judge(snapshot).findings}  # type: ignore[arg-type]  # as JSON gives it


def test_scratch_that_is_not_mounted_is_an_error() -> None:
    assert "example/scratch-missing" in ids(machine("example/scratch", "environment", mounted=False))
    assert "example/scratch-missing" not in ids(machine("example/scratch", "environment", mounted=True, kind="lustre"))


def test_a_driver_that_is_not_approved_is_a_warning() -> None:
    assert "example/driver-not-approved" in ids(machine("nvidia-driver", "driver", "580.65.06"))
    assert "example/driver-not-approved" not in ids(machine("nvidia-driver", "driver", "580.95.05"))


def test_the_line_of_the_launcher_is_understood(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("example-launch: rack feed B has no power\n", "utf-8")
    assert ids(log) == {"example/power-lost"}
