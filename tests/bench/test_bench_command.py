"""The bench's command line on a stand-in driver: what is saved, compared and plotted, and the exit codes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpustack import assets
from tests.patience import idle

standing_in = pytest.mark.skipif(
    find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
)


def run(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpustack", "bench", *map(str, arguments)],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=idle(120),
    )


def measured(driver: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    paths = f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return run("pcie.d2h.pinned", "--quick", *arguments, LD_LIBRARY_PATH=paths, FAKE_MEMORY="1000000")


def bent(path: Path, factor: float) -> Path:
    """Return the same report with every measurement multiplied by this factor."""
    report = json.loads(path.read_text())
    for result in report["results"]:
        result["value"] *= factor
        result["samples"] = [sample * factor for sample in result["samples"]]
    other = path.with_name(f"times-{factor}.json")
    other.write_text(json.dumps(report))
    return other


@standing_in
def test_on_a_full_disk_the_old_file_stays_and_the_figures_are_shown(driver: Path, full: Path, tmp_path: Path) -> None:
    for option in ("--save", "--plot", "-o"):
        old = full / "old.svg"
        if not old.is_symlink():
            old.symlink_to("old")
        also = ("--save", tmp_path / "also.json") if option == "-o" else ()
        done = measured(driver, option, old, *also)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (
            2, f"gpustack: {old} cannot be written: No space left on device",
        )  # fmt: skip
        assert option == "-o" or "pcie.d2h.pinned" in done.stdout
        assert (full / "old").read_text() == "what was there before\n"
    assert json.loads((tmp_path / "also.json").read_text())["results"]


@standing_in
def test_a_saved_report_is_compared_with_and_a_regression_is_exit_code_1(driver: Path, tmp_path: Path) -> None:
    path, picture = tmp_path / "then.json", tmp_path / "now.svg"
    first = measured(driver, "--repeat", "2", "--save", path, "--plot", picture)
    assert first.returncode == 0, first.stderr
    report: dict[str, Any] = json.loads(path.read_text())
    jsonschema.Draft202012Validator(json.loads((assets.SCHEMAS / "bench.json").read_text())).validate(report)
    (result,) = report["results"]
    assert report["repeat"] == len(result["runs"]) == 2
    assert first.stderr.count("pcie.d2h.pinned") == 2
    assert picture.read_text().startswith("<svg ")

    same = measured(driver, "--compare", path)
    assert (same.returncode, "1 same (tolerance 3.00%)" in same.stdout) == (0, True), same.stdout
    worse = measured(driver, "--compare", bent(path, 1.5))
    assert (worse.returncode, "worse -33" in worse.stdout) == (1, True), worse.stdout
    assert measured(driver, "--compare", bent(path, 1.5), "--tolerance", "50").returncode == 0
    told = json.loads(measured(driver, "--compare", bent(path, 0.5), "--format", "json").stdout)
    assert [change["outcome"] for change in told["comparison"]["changes"]] == ["better"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--plot", "x.gif"), "end with .svg, .html, .png; x.gif does not"),
        (("--save", "/nowhere/x.json"), "/nowhere/x.json cannot be written"),
        (("--compare", "/nowhere/x.json"), "/nowhere/x.json cannot be read"),
        (("--compare", __file__), "is not a gpustack bench report"),
        (("--repeat", "0"), "0"),
        (("--tolerance", "-1"), "-1"),
    ],
)
def test_wrong_files_are_reported_before_anything_is_measured(arguments: tuple[str, ...], says: str) -> None:
    done = run("hbm.read", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert says in line


@pytest.mark.skipif(find_spec("cairosvg") is not None, reason="the library is here")
def test_a_png_without_a_library_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    done = run("hbm.read", "--plot", tmp_path / "x.png")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "pip install cairosvg" in done.stderr
