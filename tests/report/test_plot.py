"""The plot of a bench report, the roofline in letters, and the README's pictures, which load nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from gpustack.model import writing
from gpustack.model.bench import Mark, Result, Sustained
from gpustack.report import plot
from gpustack.report.bench_charts import roofline
from gpustack.report.bench_text import render
from tests.report import measurements, reports

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue

SHAPE: Mapping[str, JsonValue] = {"m": 8448, "n": 4096, "k": 8192, "d": "bf16"}
INTENSITY = 2 * 8448 * 4096 * 8192 / (2 * (8448 * 8192 + 4096 * 8192 + 8448 * 4096))
TRIAD = measurements.figure("hbm.triad", 4400.0, 4814.3)


def shaped() -> tuple[Result, ...]:
    """Return measurements in which the bf16 product states its shape, and its rate without pauses."""
    held = Sustained(value=700.0, interval=(699.0, 701.0), steady=True, samples=(700.0,), seconds=5.0)
    return (
        *(one for one in measurements.FIGURES if one.id != "gemm.bf16"),
        TRIAD,
        replace(measurements.FIGURES[-1], method=SHAPE, sustained=held),
    )


REPORT = replace(measurements.good(), results=shaped())


def elements(text: str, name: str) -> list[ET.Element]:
    return list(ET.fromstring(text).iter(f"{{http://www.w3.org/2000/svg}}{name}"))  # noqa: S314 - we wrote it


def test_a_product_lies_where_its_operations_and_bytes_put_it() -> None:
    seen = roofline(shaped())
    assert seen
    assert seen.bandwidth == pytest.approx(4.8143)
    assert seen.reached == pytest.approx(4.634)
    assert ("bf16", 1070.5) in seen.roofs
    points = {point.name: point for point in seen.points}
    assert points["gemm.bf16"].intensity == pytest.approx(INTENSITY)
    assert points["gemm.bf16 without rest"].rate == 700.0
    assert points["hbm.triad"].rate == pytest.approx(4.4 / 12)  # two operations for three numbers of eight bytes


def test_without_a_product_of_known_shape_or_a_memory_limit_there_is_no_roofline() -> None:
    assert roofline(measurements.FIGURES) is None
    assert roofline([one for one in shaped() if not one.id.startswith("hbm.")]) is None
    assert roofline(()) is None


def test_the_svg_is_valid_and_has_a_bar_for_each_figure_and_a_point_for_each_product() -> None:
    text = plot.svg(REPORT)
    said = [element.text for element in elements(text, "text")]
    for one in shaped():
        assert one.id in said
    assert "804.6 of 1070 TFLOP/s (75%), ok" in said
    circles, rects = ([one for one in elements(text, kind) if one.get("class") != "key"] for kind in ("circle", "rect"))
    assert len(circles) == 3
    assert len(rects) == 1 + 2 * len(shaped())
    assert {"bars: share of the limit", "ok", "without rest (under sustained load)"} <= set(said)
    assert {"TFLOP/s", "operations per byte moved (FLOP/byte)"} <= set(said)
    wide = {float(bar.get("width", 0)) for bar in rects[1:]}
    assert max(wide) == plot.TRACK
    assert "memory 4.814 TB/s, 4.634 reached" in said


@pytest.mark.parametrize("make", [plot.svg, plot.html])
def test_nothing_is_loaded_from_elsewhere_and_no_name_becomes_markup(make: type) -> None:
    evil = replace(measurements.H200, name='<script src="https://x">"&\x1b[31m')
    text = make(replace(REPORT, devices=(evil,)))
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script" in text
    assert re.findall(r"(?:src|href|url)\s*[=(]", text.replace("src=&quot;", "")) == []
    assert set(re.findall(r"https?://[^\"&<]*", text)) <= {"http://www.w3.org/2000/svg", "https://x"}


def test_low_figures_have_another_colour_and_none_are_said() -> None:
    low = replace(REPORT, results=(measurements.figure("hbm.read", 2000.0, 4814.3, verdict=Mark.LOW),))
    assert plot.COLOURS[Mark.LOW] in plot.svg(low)
    assert "No figures." in plot.svg(replace(REPORT, results=()))
    assert "No figures." in plot.svg(measurements.nothing())


def test_a_time_without_a_limit_has_its_figure_and_no_bar() -> None:
    latency = replace(measurements.figure("launch.kernel", 2.43, 1.0, "µs"), ceiling=None, ratio=None)
    text = plot.svg(replace(REPORT, results=(latency,)))
    assert "2.43 µs, ok" in [element.text for element in elements(text, "text")]
    assert len(elements(text, "rect")) == 1


def test_the_ending_of_a_name_says_which_picture_it_is() -> None:
    assert [plot.kind(name) for name in ("a.svg", "B.HTML", "c.png", "d.gif", "svg")] == [
        ".svg",
        ".html",
        ".png",
        None,
        None,
    ]
    assert plot.picture(REPORT, ".svg").startswith(b"<svg ")
    assert plot.picture(REPORT, ".html").startswith(b"<!DOCTYPE html>")


@pytest.mark.skipif(find_spec("cairosvg") is not None, reason="the library is here")
def test_a_png_without_a_library_is_one_clear_line() -> None:
    with pytest.raises(plot.CannotError, match="needs CairoSVG") as seen:
        plot.check(".png")
    assert "\n" not in str(seen.value)
    plot.check(".svg")


def test_a_wide_terminal_shows_the_roofline_and_a_narrow_one_does_not() -> None:
    wide = render(REPORT, width=100, ascii=True)
    (slope,) = [line for line in wide.splitlines() if line.startswith("/ memory")]
    assert slope.startswith("/ memory 4.814 TB/s; roofs in TFLOP/s: fp16 1070, bf16 1070")
    assert "a hbm.triad 0.3667, b gemm.bf16 804.6, b gemm.bf16 without rest 700" in wide  # b: too near to be told apart
    drawn = wide[wide.index("TFLOP/s\n") : wide.index("/ memory")]
    assert {"a", "b", "/", "."} <= set(drawn.replace("FLOP per byte", ""))
    assert "/ memory" not in render(REPORT, width=80)


def test_roofs_of_one_height_share_a_name_and_names_of_near_figures_do_not_meet() -> None:
    texts = elements(plot.svg(REPORT), "text")
    assert "fp16, bf16 1070 TFLOP/s" in [one.text for one in texts]
    near = [float(one.get("y", 0)) for one in texts if one.text in {"gemm.bf16", "gemm.bf16 without rest"}]
    burst, held, *_ = sorted(near)
    assert held - burst >= plot.LABEL


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
    record.write_text(writing.render(made), "utf-8")
    subprocess.run([sys.executable, REPO / "docs" / "picture.py", record, picture], check=True)
    svg = picture.read_text("utf-8")
    said = "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314 - made here, by us
    assert all(word in said for word in words)
    assert not any(loads in svg for loads in ("@font-face", "url(http", "href=", "src=", "@import"))
