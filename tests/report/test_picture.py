"""The README's pictures are made by the program: a recording goes in, an SVG that loads nothing comes out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gpustack.model.writing import render
from tests.report import measurements, reports

REPO = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (reports.driver_too_old(), ["gpustack doctor", "BROKEN", "sudo apt-get install -y nvidia-driver-580-open"]),
        (measurements.low(), ["gpustack bench", "pcie.h2d.pinned", "the link runs at PCIe 5 x8, not x16"]),
    ],
)
def test_a_record_becomes_a_picture(tmp_path: Path, made: object, words: list[str]) -> None:
    record, picture = tmp_path / "record.json", tmp_path / "picture.svg"
    record.write_text(render(made), "utf-8")
    subprocess.run([sys.executable, REPO / "docs" / "picture.py", record, picture], check=True)
    svg = picture.read_text("utf-8")
    said = "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314 - made here, by us
    assert all(word in said for word in words)
    assert not any(loads in svg for loads in ("@font-face", "url(http", "href=", "src=", "@import"))
