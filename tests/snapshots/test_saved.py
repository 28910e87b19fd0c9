"""A saved bench report is read back as it was, even one from an older gpustack; anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpustack.bench import read
from gpustack.errors import InputError
from gpustack.model.writing import render
from tests.report import measurements

EVIDENCE = Path(__file__).resolve().parents[2] / "docs/evidence"


@pytest.mark.parametrize("name", measurements.ALL)
def test_what_was_written_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(render(measurements.ALL[name]()))
    assert read(path) == measurements.ALL[name]()


def test_the_recorded_reports_of_older_versions_are_read() -> None:
    for path in (EVIDENCE / "2026-11-21-h200/bench.json", EVIDENCE / "2026-11-21-h200-bench/sustain.json"):
        said = json.loads(path.read_text("utf-8"))
        made = read(path)
        assert [one.value for one in made.results] == [row["value"] for row in said["results"]]
        assert made.devices[0].name == "NVIDIA H200"


def changed(said: dict[str, Any], *keys: str | int, to: object) -> str:
    """Return the text of a report with one value changed."""
    held: Any = said
    for key in keys[:-1]:
        held = held[key]
    held[keys[-1]] = to
    return json.dumps(said)


@pytest.mark.parametrize(
    ("keys", "to", "says"),
    [
        (("schema",), "gpustack.bench/2", "its schema is gpustack.bench/2"),
        (("results",), {}, "is damaged: results is not a list"),
        (("results", 0, "value"), "fast", "is damaged: results[0].value is not a number"),
        (("results", 0, "verdict"), "fine", "is damaged: results[0].verdict is wrong: 'fine' is not a valid"),
        (("results", 0, "interval"), [1.0], "is damaged: results[0].interval has 1 values, not 2"),
        (("results", 0), {"id": "hbm.read"}, "is damaged: results[0].device is missing"),
        (("devices", 0, "index"), True, "is damaged: devices[0].index is not a whole number"),
        (("tool",), None, "is damaged: tool is not an object"),
    ],
)
def test_a_damaged_report_is_refused_by_name(
    keys: tuple[str | int, ...], to: object, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "bench.json"
    path.write_text(changed(json.loads(render(measurements.good())), *keys, to=to))
    with pytest.raises(InputError, match=r"bench\.json") as error:
        read(path)
    assert says in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "hbm.read 4812"])
def test_what_is_not_a_report_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is not a gpustack bench report"):
        read(path)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "gone.json")
