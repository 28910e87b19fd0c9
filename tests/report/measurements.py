"""Bench reports made by hand: an H200 as it should be, one that is throttled, and a machine without a GPU."""

from __future__ import annotations

from dataclasses import replace

from gpustack.model.bench import (
    Advice,
    BenchReport,
    Clocks,
    Device,
    Link,
    Mark,
    Power,
    Result,
    Span,
    Sustained,
    Telemetry,
    Temperature,
    Throttle,
)
from gpustack.model.command import sh
from gpustack.model.difference import Change, Comparison, Outcome
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from tests.report.reports import TOOL

H200 = Device(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    compute_capability="9.0",
    pci="0000:00:06.0",
    driver="580.159.04",
    cuda="13.0",
    multiprocessors=132,
    clock_mhz=1980.0,
    memory_clock_mhz=3201.0,
    bus_bits=6016,
    memory_mib=143771,
    l2_mib=60.0,
)
TELEMETRY = Telemetry(
    readings=12,
    clocks=Clocks(held=1905.0, sm=Span(low=1890.0, median=1905.0, high=1980.0), max_sm=1980.0),
    power=Power(watts=Span(low=410.0, median=655.0, high=690.0), limit=700.0),
    temperature=Temperature(gpu=Span(low=44.0, median=52.0, high=57.0)),
    throttle=Throttle(mask=4, reasons=("software power cap",)),
    link=Link(generation=5, width=16, max_generation=5, max_width=16, replays=0),
)


def figure(id_: str, value: float, ceiling: float, unit: str = "GB/s", verdict: Mark = Mark.OK) -> Result:
    """Return one measurement with a spread of one percent."""
    return Result(
        id=id_,
        device=0,
        unit=unit,
        verdict=verdict,
        value=value,
        median=value,
        p05=value * 0.995,
        p95=value * 1.005,
        samples=(value * 0.995, value, value * 1.005),
        steady=True,
        ceiling=ceiling,
        ceiling_from="what the device tells of itself",
        ratio=value / ceiling,
        telemetry=TELEMETRY,
        seconds=0.42,
    )


FIGURES = (
    figure("pcie.h2d.pinned", 55.56, 63.02),
    figure("pcie.d2h.pinned", 55.46, 63.02),
    figure("hbm.read", 4426.0, 4814.3),
    figure("hbm.write", 4634.0, 4814.3),
    figure("hbm.copy", 4260.0, 4814.3),
    figure("gemm.fp32", 50.9, 66.9, "TFLOP/s"),
    figure("gemm.tf32", 388.2, 535.0, "TFLOP/s"),
    figure("gemm.fp16", 808.0, 1070.5, "TFLOP/s"),
    replace(figure("gemm.bf16", 804.6, 1070.5, "TFLOP/s"), ceiling_held=1030.0, ratio_held=0.781),
)


def good() -> BenchReport:
    """Return the measurements of a machine on which everything is as it should be."""
    return BenchReport(tool=TOOL, devices=(H200,), results=FIGURES, taken="2026-11-21T10:02:00+00:00", seconds=7.4)


def low() -> BenchReport:
    """Return one low measurement, one unsteady, one wrong, and some that were skipped."""
    why = ("the link runs at PCIe 5 x8, not x16",)
    results = (
        replace(figure("pcie.h2d.pinned", 25.1, 63.02, verdict=Mark.LOW), why=why),
        figure("hbm.read", 4012.0, 4814.3, verdict=Mark.UNSTEADY),
        Result(
            id="gemm.fp32",
            device=0,
            unit="TFLOP/s",
            verdict=Mark.FAILED,
            why=("the result is wrong",),
            remedy=sh("gpustack bench gemm.fp32"),
        ),
        replace(figure("launch.kernel", 2.43, 1.0, "us"), ceiling=None, ratio=None),
        *(
            Result(id=f"gemm.{kind}", device=0, unit="TFLOP/s", verdict=Mark.SKIPPED, why=("this GPU has none",))
            for kind in ("fp4", "fp8")
        ),
        Result(
            id="nccl.all_reduce",
            device=None,
            unit="GB/s",
            verdict=Mark.SKIPPED,
            why=("NCCL is not installed",),
            remedy=sh("python -m pip install nvidia-nccl-cu13"),
        ),
    )
    finding = Finding(
        id="pcie-link-degraded",
        severity=Severity.WARNING,
        layer=Layer.HARDWARE,
        component="gpu",
        title="the PCIe link runs at width 8 of 16 under load",
        because=(Because(component="gpu", fact="pcie.width", value=8, source="nvmlDeviceGetCurrPcieLinkWidth"),),
        fix=Fix(text="reseat the card."),
    )
    return replace(
        good(), results=results, findings=(finding,), quick=True, interrupted="the time limit of 8 s was reached"
    )


def nothing() -> BenchReport:
    """Return what a machine without a GPU yields."""
    skipped = Result(id="hbm.read", device=None, unit="GB/s", verdict=Mark.SKIPPED, why=("there is no GPU",))
    unseen = Telemetry(unavailable="NVML is not there")
    failed = Result(id="x", device=None, unit="", verdict=Mark.FAILED, telemetry=unseen)
    return BenchReport(tool=TOOL, devices=(), results=(skipped, failed))


def later() -> BenchReport:
    """Return measurements from several runs, next to an older report from a machine with another driver."""
    held = Sustained(
        value=700.0,
        interval=(699.0, 701.0),
        steady=True,
        samples=(700.0,),
        seconds=5.0,
        telemetry=TELEMETRY,
        why=("power-bound: 1410 of 1980 MHz held, 699 of 700 W",),
    )
    lowered = Advice(
        "The power limit was lowered to 500 W.", (sh("nvidia-smi -q -d POWER"), sh("sudo nvidia-smi -pl 700"))
    )
    product = replace(FIGURES[-1], sustained=held, why=("power-bound: 1300 of 1980 MHz held",), advice=(lowered,))
    copy = replace(FIGURES[0], runs=(55.50, 55.56, 55.61))
    same = Change(
        id="pcie.h2d.pinned",
        device=0,
        unit="GB/s",
        outcome=Outcome.SAME,
        before=55.5,
        after=55.56,
        before_interval=(55.4, 55.6),
        after_interval=(55.5, 55.6),
        change=0.0011,
    )
    worse = replace(
        same, id="gemm.bf16", unit="TFLOP/s", outcome=Outcome.WORSE, before=860.0, after=804.6, change=-0.064
    )
    gone = Change(id="hbm.copy", device=0, unit="GB/s", outcome=Outcome.GONE, before=4260.0, note="skipped; no room")
    comparison = Comparison(
        path="then.json",
        taken="2026-11-20T09:00:00+00:00",
        tolerance=0.03,
        differences=("GPU 0 has the driver 580.159.04 now, 575.57.08 then",),
        changes=(same, replace(worse, before_interval=(858.0, 862.0), after_interval=(803.9, 805.2)), gone),
    )
    return replace(good(), results=(copy, product), repeat=3, comparison=comparison)


def several() -> BenchReport:
    """Return four GPUs of one model, one of which is slow with its reason, and what they share."""
    devices = tuple(replace(H200, index=gpu, uuid=f"GPU-{gpu}") for gpu in range(4))
    short = ("52% of the limit, 87% is the usual minimum", "also computing on this GPU: 4711 python3, 12.0 GiB")
    names = (("hbm.read", 4633.0, 4814.3), ("l2.read", 10070.0, 10140.0), ("gemm.bf16", 835.0, 1070.5))
    units = {"gemm.bf16": "TFLOP/s"}
    results = [
        replace(figure(name, value * (1 - gpu / 1000), limit, units.get(name, "GB/s")), device=gpu)
        for gpu in range(4)
        for name, value, limit in names
    ]
    results[6] = replace(results[6], value=2410.0, ratio=0.5, verdict=Mark.LOW, why=short)
    results[8] = replace(results[8], value=402.0, ratio=0.4, verdict=Mark.LOW, why=("39% of the limit", short[1]))
    host = [
        replace(figure("launch.kernel", 2.4 + gpu / 10, 1.0, "µs", Mark.UNSTEADY), device=gpu, ceiling=None, ratio=None)
        for gpu in range(4)
    ]
    whole = replace(figure("pcie.h2d.all", 161.5, 233.8), device=None, gpus=(0, 1, 2, 3))
    findings = tuple(
        Finding(
            id="bench-low",
            instance=f"{name} on GPU 2",
            severity=Severity.WARNING,
            layer=Layer.HARDWARE,
            component="gpu",
            title=f"{name} on GPU 2 is low",
            detail="; ".join(short),
            fix=Fix(text="Measure again when they are done.", commands=(sh("nvidia-smi pmon -c 1"),)),
        )
        for name in ("hbm.read", "gemm.bf16")
    )
    return replace(good(), devices=devices, results=(*results, *host, whole), findings=findings, seconds=8.4)


ALL = {
    "bench-good": good,
    "bench-low": low,
    "bench-nothing": nothing,
    "bench-later": later,
    "bench-several": several,
}
