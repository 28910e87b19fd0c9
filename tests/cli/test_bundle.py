"""The support bundle: it contains everything that support asks for, and identifies nobody."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from gpustack.imports import load
from gpustack.model import writing
from tests.build import MATRIX
from tests.cli.test_cli import EXAMPLE, gpustack
from tests.report import measurements

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """jane@srv-secret-77:~$ dmesg | tail -1
[ 81.2] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
host srv-secret-77, user jane, /home/jane/train.py, GPU-4a7bd2a4-9b3e-4a43-8f77-0a1b2c3d4e5f, 10.20.30.40
"""


def test_a_bundle_holds_facts_report_figures_and_log_and_no_name(tmp_path: Path) -> None:
    (tmp_path / "issue.txt").write_text(TEXT)
    (tmp_path / "bench.json").write_text(writing.render(measurements.good()))
    given = ("--from", tmp_path / "issue.txt", "--bench", tmp_path / "bench.json")
    done = gpustack("report", *given, "-o", tmp_path / "bundle.zip")
    assert (done.returncode, done.stdout) == (0, "")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        files = {name: bundle.read(name).decode() for name in bundle.namelist()}
    named = {"README.txt", "report.txt", "report.md", "report.json", "snapshot.json", "log.txt"}
    assert set(files) == named | {"bench.json"}
    assert "79" in files["log.txt"]
    assert json.loads(files["report.json"])["verdict"]["root_causes"] == ["gpu-fell-off-bus"]
    for secret in ("jane", "srv-secret-77", "4a7bd2a4", "10.20.30.40"):
        assert not [name for name, text in files.items() if secret in text], secret
    for name in {*files} - {"README.txt"}:
        assert name in files["README.txt"]


def test_the_snapshot_in_it_is_judged_as_the_machine_is(tmp_path: Path) -> None:
    gpustack("report", "--from", EXAMPLE, "-o", tmp_path / "bundle.zip")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        bundle.extract("snapshot.json", tmp_path)
        assert "log.txt" not in {*bundle.namelist(), *bundle.read("README.txt").decode().split()}  # nothing to show
    facts = load([str(tmp_path / "snapshot.json")], io.BytesIO(), MATRIX)
    assert facts.find("nvidia-driver")
    again = gpustack("doctor", "--from", tmp_path / "snapshot.json", "--format", "json")
    assert json.loads(again.stdout)["verdict"]["root_causes"] == ["driver-too-old-for-cuda-build"]


@pytest.mark.parametrize("typed", [["-o", "-"], ["-o", "/nowhere/bundle.zip"], ["--bench", "/nowhere/bench.json"]])
def test_what_cannot_be_written_or_read_is_one_line(typed: list[str], tmp_path: Path) -> None:
    done = gpustack("report", "--from", EXAMPLE, *typed)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert not list(tmp_path.iterdir())
