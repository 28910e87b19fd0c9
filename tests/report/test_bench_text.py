"""The bench's text: the table, the bars, why a figure is low, and what is measured beside a burst."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpustack.model.bench import (
    BenchReport,
    Clocks,
    Device,
    Mark,
    Power,
    Result,
    Span,
    Sustained,
    Telemetry,
    Temperature,
    Zeros,
)
from gpustack.report import bench_html
from gpustack.report.bench_many import number
from gpustack.report.bench_text import bar, render
from gpustack.report.page import Page
from tests.report import measurements
from tests.report.snapshots import compare

PAGES: dict[str, dict[str, Any]] = {
    "bench-good-80": {},
    "bench-good-verbose": {"width": 100, "verbose": True},
    "bench-low-80": {},
    "bench-low-40-ascii": {"width": 40, "ascii": True},
    "bench-nothing-verbose": {"verbose": True},
    "bench-later-80": {"verbose": True},
    "bench-several-80": {},
}


@pytest.mark.parametrize("name", PAGES)
def test_the_text_is_the_one_agreed_on(name: str) -> None:
    made = next(make for known, make in measurements.ALL.items() if name.startswith(known))
    compare(f"{name}.txt", render(made(), **PAGES[name]))


def test_a_report_without_figures_says_so() -> None:
    assert render(replace(measurements.good(), results=())).startswith("· No figures.\n")


def test_the_columns_of_all_rows_are_aligned() -> None:
    rows = [line for line in render(measurements.good()).splitlines() if " of " in line and "%" in line]
    assert len(rows) == len(measurements.FIGURES)
    assert len({line.index(" of ") for line in rows}) == len({line.index("%") for line in rows}) == 1
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize(
    ("ratio", "drawn"), [(None, " " * 16), (0.0, "." * 16), (0.5, "#" * 8 + "." * 8), (1.0, "#" * 16), (7.0, "#" * 16)]
)
def test_the_bar_is_the_part_of_the_limit(ratio: float | None, drawn: str) -> None:
    assert "".join(bar(ratio, Page(ascii_only=True))) == drawn


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "none"),
        (55.5612, "55.56"),
        (4814.31, "4814"),
        (0.00123456, "0.001235"),
        (2.43, "2.430"),
        (0.0, "0"),
        (12345678.0, "1.235e+07"),
    ],
)
def test_a_figure_has_four_digits(value: float | None, said: str) -> None:
    assert number(value) == said


NUMBER = st.none() | st.floats() | st.floats(0, 2e5)
SPAN = st.none() | st.builds(Span)
SEEN = st.builds(
    Telemetry,
    clocks=st.builds(Clocks, held=NUMBER, sm=st.none(), memory=st.none()),
    power=st.builds(Power, watts=SPAN),
    temperature=st.builds(Temperature, gpu=SPAN, memory=st.none()),
    processes=st.just(()),
)
FIGURE = st.builds(
    Result,
    id=st.sampled_from(["hbm.read", "pcie.h2d.pageable"]),
    unit=st.sampled_from(["GB/s", "TFLOP/s", "µs"]),
    device=st.none() | st.integers(0, 1),
    value=NUMBER,
    p05=NUMBER,
    ceiling=NUMBER,
    ratio=NUMBER,
    samples=st.just((1.0,)),
    method=st.just({}),
    remedy=st.none(),
    telemetry=st.none() | SEEN,
)
REPORTS = st.builds(
    BenchReport,
    devices=st.lists(st.builds(Device, index=st.integers(0, 1)), max_size=2).map(tuple),
    results=st.lists(FIGURE, max_size=3).map(tuple),
    findings=st.just(()),
)


@given(report=REPORTS, width=st.integers(20, 120), verbose=st.booleans())
def test_any_report_can_be_drawn(report: BenchReport, width: int, *, verbose: bool) -> None:
    text = render(report, width=width, verbose=verbose)
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert all(cell_len(line) <= width for line in text.splitlines())


def test_the_page_has_the_gpus_as_columns_and_no_exponents_or_empty_headings() -> None:
    page = bench_html.figures(measurements.several())
    assert page.count("<th>GPU ") == 4
    assert "10,070" in page
    assert not re.search(r"\de[+-]\d", page)
    assert '<td data-name="GPU 2" class="tone-warn">2410 <span class="word">low</span></td>' in page
    one = replace(measurements.several(), results=measurements.FIGURES)
    assert bench_html.figures(one).count("<h3>") == 1


def test_of_several_gpus_only_those_that_fall_short_are_unfolded() -> None:
    page = bench_html.figures(measurements.several())
    folded = re.findall(r"<details><summary><h3>(GPU \d)", page)
    assert folded == ["GPU 0", "GPU 1", "GPU 3"]
    assert "<h3>GPU 2: " in page
    assert page.count('<span class="word">varies</span>') == 4  # what the headline calls the host's measurements
    assert '<span class="word">unsteady</span>' not in page


def test_the_clock_that_a_sentence_names_is_within_the_chart() -> None:
    fell = replace(measurements.TELEMETRY, clocks=replace(measurements.TELEMETRY.clocks, held=1601.0))
    page = bench_html.figures(replace(measurements.good(), results=(replace(measurements.FIGURES[0], telemetry=fell),)))
    assert "1601 to 1980" in page


def test_what_the_host_decides_makes_no_headline_and_shows_its_range() -> None:
    waver = replace(measurements.figure("launch.kernel", 2.4, 1.0, "µs", Mark.UNSTEADY), ceiling=None, ratio=None)
    text = render(replace(measurements.good(), results=(measurements.FIGURES[0], waver)))
    assert text.startswith("✓ 2 figures: all ok; 1 varies with the host.")
    assert "2.388 to 2.412" in text


HELD = Telemetry(clocks=Clocks(held=1310.0), power=Power(watts=Span(low=589.0, median=686.0, high=744.0)))
BURST = measurements.figure("gemm.bf16", 837.0, 1071.0, "TFLOP/s")
SUSTAINED = Sustained(value=690.0, interval=(687.0, 706.0), steady=False, samples=(690.0,), seconds=5.0, telemetry=HELD)
ZEROS = Zeros(value=948.0, interval=(947.0, 949.0), samples=(948.0,), sensitivity=0.1326)


def text(**beside: object) -> str:
    result = replace(BURST, **beside)  # type: ignore[arg-type] # fields by their names
    return " ".join(render(replace(measurements.good(), results=(result,)), width=120).split())


def test_the_figure_without_rest_is_next_to_the_burst_with_clock_and_watts() -> None:
    wanted = "without rest for 5 s: 690.0 TFLOP/s (82% of the burst) at 1310 MHz, 686 W, not steady"
    assert wanted in text(sustained=SUSTAINED)
    assert "not steady" not in text(sustained=replace(SUSTAINED, steady=True))


def test_zeros_tell_the_power_sensitivity() -> None:
    assert "with zeros: 948.0 TFLOP/s; power sensitivity +13.3%" in text(zeros=ZEROS)


def test_without_them_nothing_is_said() -> None:
    assert "without rest" not in text()
    assert "with zeros" not in text()
