"""Whatever a child prints affects its step at most: an invalid answer is refused where it is read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.bench import results
from gpustack.matrix import Matrix
from gpustack.model import writing
from gpustack.model.trace import State
from gpustack.report import trace_charts, trace_html, trace_text
from gpustack.trace import Asked
from gpustack.trace.frameworks.heard import Heard as FromFramework
from gpustack.trace.gpu.heard import Heard as FromGpu
from gpustack.trace.models import build
from tests.trace.judging import judged

MODEL, MATRIX = build("mlp", "small", "bf16"), Matrix()
FIGURE = {"name": "a", "value": 1.0, "unit": "GB/s", "note": None}
STEP = {"number": 1, "seconds": 1.0, "figures": [FIGURE], "why": ["x"]}
KERNEL = {"name": "k", "layer": "linear1", "grid": [1, 1, 1], "block": [32, 1, 1], "occupancy": 0.5, "seconds": 1e-6}
TIMES = {"eager_seconds": 1.0, "graph_seconds": 0.5, "kernels": 3}
LAYER = {"name": "l", "op": "gemm", "shape_in": [1], "shape_out": [1], "flops": 1.0, "seconds": 1e-6}
BYTES = {"bytes_read": 1, "bytes_written": 1}
NODE = {"name": "a", "op": "Relu", "shapes_in": [[1]], "shapes_out": [[1]], "seconds": 1.0}
CHECK = {"what": "o", "against": "t", "precision": "bf16", "error": 0.0, "largest": 0.0, "bound": 0.01}
LIBRARY = {"layer": "driver", "name": "libcuda", "file": "/x", "version": "1"}
GPU = (
    {"what": "subject", "model": "mlp", "size": "small", "precision": "bf16"},
    {"what": "step", **STEP, "name": "n", "libraries": [LIBRARY]},
    {"what": "moment", "track": "t", "name": "n", "begin": 0.0, "seconds": 1.0, "step": 1},
    {"what": "kernels", "rows": [{**KERNEL, "made_by": "NVRTC"}]},
    {"what": "layers", "rows": [{**LAYER, **BYTES}], "works": [{"layer": "l", "seconds": 1e-6}], "gated": True},
    {"what": "figure", "step": 1, "row": FIGURE},
    {"what": "check", "row": {**CHECK, "compared": 1, "rows": 1}},
    {"what": "launching", **TIMES},
    {"what": "overlap", "serial_seconds": 1.0, "overlapped_seconds": 0.5, "chunks": 2, "streams": 2},
    {"what": "batch", "batch": 1, "gpu_seconds": 1.0},
)
FRAMEWORK = (
    {"what": "framework", "name": "torch", "version": "2", "file": "/x"},
    {"what": "gpu", "name": "H", "capability": [9, 0]},
    {"what": "step", **STEP, "status": "done", "begin": 0.0},
    {"what": "layers", "rows": [{"name": "linear1", "seconds": 1e-5}]},
    {"what": "kernels", "rows": [KERNEL]},
    {"what": "launching", **TIMES},
    {"what": "nodes", "rows": [{**NODE, **BYTES}]},
    {"what": "loaded", "paths": ["/lib/libcuda.so.1"], "versions": {"/lib/libcuda.so.1": "1"}},
)
BAD: tuple[object, ...] = (None, "x", -1, float("inf"), float("nan"), [], {}, [[]], True, {"a": 1}, "\x1b[31m", 99)


def fresh(ground: str) -> FromGpu | FromFramework:
    asked = Asked(framework="torch" if ground == "framework" else None)
    if ground == "gpu":
        return FromGpu(clock=lambda: 0.0, asked=asked, matrix=MATRIX, model=MODEL)
    output = Path("/nowhere")
    told = {"asked": asked, "matrix": MATRIX, "judge": judged, "model": MODEL}
    return FromFramework(clock=lambda: 0.0, script="s", output=output, **told)  # type: ignore[arg-type]  # by name


def places(held: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    for place in list(held) if isinstance(held, dict) else range(len(held)):
        if place != "what":
            yield held, place
        if isinstance(held[place], (dict, list)):
            yield from places(held[place])


def spoilt(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a line with each of its values in turn made wrong, or left out."""
    for number in range(len(list(places(line)))):
        for bad in (*BAD, "gone"):
            other = copy.deepcopy(line)
            inside, place = list(places(other))[number]
            if bad == "gone":
                del inside[place]
            else:
                inside[place] = copy.deepcopy(bad)
            yield other


@pytest.mark.parametrize(("ground", "lines"), [("gpu", GPU), ("framework", FRAMEWORK)])
def test_no_line_of_a_child_breaks_what_is_shown(ground: str, lines: tuple[dict[str, Any], ...]) -> None:
    taken = refused = 0
    for line in lines:
        for other in spoilt(line):
            heard = fresh(ground)
            heard.begins(1)
            try:
                heard.take("measured", other)
            except results.MALFORMED:
                refused += 1
                continue
            taken += 1
            trace = heard.trace(1.0)
            for render in (trace_text.render, trace_html.render, trace_charts.perfetto, writing.render):
                assert render(trace)
    assert min(taken, refused) > 100


@pytest.mark.parametrize(("ground", "lines"), [("gpu", GPU), ("framework", FRAMEWORK)])
def test_what_it_ought_to_say_is_taken(ground: str, lines: tuple[dict[str, Any], ...]) -> None:
    heard = fresh(ground)
    heard.begins(1)
    for line in lines:
        heard.take("measured", line)
    trace = heard.trace(1.0)
    assert trace.steps[0].status is State.DONE
    assert trace.launching
    assert trace.launching.kernels == 1
    assert trace.kernels[0].warps == 1
    assert trace_text.render(trace)
