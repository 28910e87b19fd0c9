"""Traces to be rendered. Their numbers were made up for the tests; they say nothing about any GPU."""

from __future__ import annotations

from dataclasses import replace

from gpustack.model.bench import Device
from gpustack.model.command import sh
from gpustack.model.difference import BatchTime, Check, Launching, Overlap
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity, Tool
from gpustack.model.trace import (
    Figure,
    Ground,
    KernelLaunch,
    Loaded,
    Moment,
    Processor,
    State,
    Step,
    Stop,
    Trace,
)
from gpustack.trace import NAMES, left_out, needing
from gpustack.trace.beside import crossover
from gpustack.trace.counting import Roof, layers, place, subject
from gpustack.trace.failing import wrong
from gpustack.trace.models import build

TOOL = Tool(name="gpustack", version="0.1.0", matrix_date="2026-11-21")
MODEL = build("transformer", "medium", "bf16")
ROOF = Roof(gigabytes_a_second=4800.0, tflops=900.0, launch_seconds=2e-6)
DEVICE = Device(
    index=0,
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    name="NVIDIA Test 9000 Extra Long Name 141GB HBM3e",
    compute_capability="9.0",
    driver="580.10",
    cuda="13.0",
    multiprocessors=132,
)
RIGHT = Check(
    what="output",
    against="numpy in float64",
    precision="bf16",
    error=0.0041,
    largest=0.0052,
    bound=1e-2,
    compared=512,
    rows=2048,
)
LIBRARY = Loaded(
    layer=Layer.LIBRARY, name="cublasLt", file="/usr/lib/x86_64-linux-gnu/libcublasLt.so.13", version="13.1.0"
)


def _steps() -> tuple[Step, ...]:
    figures = {
        1: (Figure(name="weights", value=12.6, unit="million"),),
        2: (
            Figure(name="pageable", value=9.31, unit="GB/s"),
            Figure(name="pinned", value=54.9, unit="GB/s", ceiling=57.6, ceiling_from="PCIe 5.0 x16"),
        ),
        3: (Figure(name="graph", value=1.4, unit="ms"), Figure(name="kernels compiled", value=310.0, unit="ms")),
        4: (Figure(name="kernels", value=17, unit=""),),
        5: (Figure(name="reached", value=210.0, unit="TFLOP/s", ceiling=900.0),),
        6: (Figure(name="output", value=4.19, unit="MB"),),
        7: (Figure(name="pinned", value=52.1, unit="GB/s", ceiling=57.0),),
    }
    seconds = {1: 0.052, 2: 0.00051, 3: 0.341, 4: 0.00031, 5: 0.00029, 6: 1e-5, 7: 9e-5}
    return tuple(
        Step(
            number=number,
            name=name,
            status=State.DONE,
            seconds=seconds[number],
            figures=figures[number],
            why=("one pass, by events on the device",) if number == 5 else (),
            libraries=(LIBRARY,) if number == 4 else (),
        )
        for number, name in NAMES.items()
    )


def gpu() -> Trace:
    """Return a trace on a GPU with everything in it."""
    seen = tuple(
        place(replace(one, seconds=2e-6 + (one.bytes_read + one.bytes_written) / 3e12 + one.flops / 5e14), ROOF)
        for one in layers(MODEL)
    )
    kernels = tuple(
        KernelLaunch(
            name=f"{one.op.replace(' ', '_')}_bf16",
            layer=one.name,
            made_by="cuBLASLt" if "gemm" in one.op else "NVRTC",
            grid=None if "gemm" in one.op else (8192, 1, 1),
            block=None if "gemm" in one.op else (256, 1, 1),
            registers=None if "gemm" in one.op else 32,
            shared_static=None if "gemm" in one.op else 1024,
            occupancy=None if "gemm" in one.op else 0.875,
            waves=1.94 if "gemm" in one.op else 7.76,
            tensor_cores="gemm" in one.op,
            seconds=one.seconds,
            note="cuBLASLt does not report the grid of its kernels" if "gemm" in one.op else None,
        )
        for one in seen
    )
    points = (
        BatchTime(
            batch=1, cpu_seconds=6e-5, gpu_seconds=1.4e-4, transfer_seconds=2e-5, kernel_seconds=4e-5, kernels=17
        ),
        BatchTime(
            batch=4, cpu_seconds=0.031, gpu_seconds=6.4e-4, transfer_seconds=2e-4, kernel_seconds=3e-4, kernels=17
        ),
    )
    at = 0.3934
    timeline = [Moment(track="host", name="weights made", begin=0.0, seconds=0.052, step=1)]
    timeline.append(Moment(track="link", name="weights to the device", begin=0.0521, seconds=0.0005, step=2))
    for one in seen:
        timeline.append(Moment(track="stream 1", name=one.name, begin=at, seconds=one.seconds or 0.0, step=5))
        at += (one.seconds or 0.0) + 1e-6
    return Trace(
        tool=TOOL,
        ground=Ground.GPU,
        subject=subject(MODEL),
        steps=_steps(),
        device=DEVICE,
        processor=Processor(name="Test CPU", threads=16, library="scipy-openblas 0.3.30", numpy="2.4.0"),
        layers=seen,
        cpu_layers=tuple(replace(one, seconds=(one.seconds or 0) * 90) for one in seen),
        kernels=kernels,
        checks=(RIGHT,),
        launching=Launching(eager_seconds=4.1e-4, graph_seconds=3.1e-4, kernels=17),
        overlap=Overlap(serial_seconds=1.1e-3, overlapped_seconds=7.4e-4, chunks=4, streams=2),
        batches=points,
        crossover=crossover(points, "sequences", 5e-4),
        timeline=tuple(timeline),
        memory_ceiling=Figure(
            name="hbm.copy", value=4210.0, unit="GB/s", ceiling=4800.0, ceiling_from="2 x 3000 MHz x 6400 bit / 8"
        ),
        compute_ceiling=Figure(name="bf16", value=900.0, unit="TFLOP/s"),
        link_ceiling=Figure(name="link", value=57.6, unit="GB/s"),
        wall_seconds=0.396,
        taken="2026-11-21T12:00:00+00:00",
        seconds=3.2,
    )


def cpu() -> Trace:
    """Return a trace on the CPU only."""
    whole = gpu()
    steps = tuple(one if one.number in {1, 5, 6} else needing(one.number) for one in whole.steps)
    few = Check(
        what="output",
        against="numpy in float64",
        precision="fp32",
        error=4e-7,
        largest=5e-7,
        bound=1e-5,
        compared=2048,
        rows=2048,
    )
    return replace(
        whole,
        ground=Ground.CPU,
        steps=tuple(replace(one, figures=(), libraries=()) for one in steps),
        device=None,
        kernels=(),
        cpu_layers=(),
        launching=None,
        overlap=None,
        crossover=None,
        batches=(),
        link_ceiling=None,
        checks=(few,),
        timeline=(),
    )


FINDING = Finding(
    id="driver-too-old-for-cuda-build",
    severity=Severity.ERROR,
    layer=Layer.DRIVER,
    component="nvidia-driver",
    title="The driver is too old for the CUDA of this build",
    fix=Fix(text="Install a newer driver.", commands=(sh("sudo apt install nvidia-driver-580"),), needs_root=True),
)


def broken() -> Trace:
    """Return the trace of recorded facts that would fail at the second step."""
    where = Stop(
        step=2,
        name=NAMES[2],
        finding=FINDING.key,
        says=FINDING.title,
        why="the first copy is the first call into the driver",
        explain=f"gpustack explain {FINDING.id}",
    )
    steps = (
        left_out(1, "nothing is known against it"),
        Step(number=2, name=NAMES[2], status=State.FAILED, why=(FINDING.title,)),
        *(left_out(number, "not reached") for number in range(3, 8)),
    )
    return Trace(
        tool=TOOL,
        ground=Ground.RECORDED,
        subject=subject(MODEL),
        steps=steps,
        findings=(FINDING,),
        stop=where,
        says=f"it would fail at step 2, {NAMES[2]}: {FINDING.title}",
        taken="2026-11-21T12:00:00+00:00",
    )


def mistaken() -> Trace:
    """Return a trace whose answer is wrong."""
    check = replace(RIGHT, error=0.31, largest=0.6)
    steps = (*_steps()[:6], Step(number=7, name=NAMES[7], status=State.FAILED, seconds=9e-5, why=("error 0.6",)))
    return replace(gpu(), steps=steps, checks=(check,), findings=(wrong(check),))


def framework() -> Trace:
    """Return a trace of a framework with the chain down to the kernel, interrupted at cuDNN."""
    chain = (
        Loaded(layer=Layer.APPLICATION, name="script"),
        Loaded(layer=Layer.FRAMEWORK, name="torch", version="2.11.0+cu130", file="/opt/venv/lib/python3.12/torch"),
        Loaded(layer=Layer.LIBRARY, name="libcudnn", missing="libcudnn.so.9: cannot open shared object file"),
    )
    return replace(gpu(), ground=Ground.FRAMEWORK, framework="torch 2.11.0", kernels=(), chain=chain)


def hostile() -> Trace:
    """Return a trace whose names try to be markup, commands and endless."""
    bad = '<script>alert(1)</script>\x1b[31m::error::"&'
    whole = gpu()
    first = replace(whole.layers[0], name=bad * 3, shape_in=(), flops=1e300, seconds=1e-300)
    return replace(
        whole,
        device=replace(DEVICE, name=bad),
        layers=(first, *whole.layers[1:]),
        kernels=(replace(whole.kernels[0], name=bad, note=bad, grid=None, block=None), *whole.kernels[1:]),
        steps=(replace(whole.steps[0], why=(bad,)), *whole.steps[1:]),
        timeline=(*whole.timeline, Moment(track=bad, name=bad, begin=-1.0, seconds=-2.0)),
        chain=(Loaded(layer=Layer.LIBRARY, name=bad, file=bad),),
        interrupted="Ctrl-C",
    )


ALL = {
    "gpu": gpu,
    "cpu": cpu,
    "broken": broken,
    "mistaken": mistaken,
    "framework": framework,
    "hostile": hostile,
}
