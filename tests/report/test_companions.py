"""The measurements next to a burst, as a user reads them: without pauses, and with zeros."""

from __future__ import annotations

from dataclasses import replace

from gpustack.model.bench import Clocks, Power, Span, Sustained, Telemetry, Zeros
from gpustack.report.bench_text import render
from tests.report import measurements

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
