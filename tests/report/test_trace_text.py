"""A trace as people read it: every step with its bar, eighty columns, no colour in a pipe, and nothing invented."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpustack.model.trace import Bound, Figure, State, TensorLayer
from gpustack.report.trace_text import render
from gpustack.report.trace_words import (
    SIZES,
    amount,
    duration,
    extent,
    figure,
    headline,
    kernel,
    limit,
    link,
    percent,
    rate,
    scaled,
    shape,
    state,
    three,
    whole,
)
from gpustack.trace import NAMES, left_out
from tests.report import traces

WHOLE = re.compile(r"^ {4,}\S")  # a command, which must not be broken


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 120])
@pytest.mark.parametrize("name", traces.ALL)
def test_no_line_is_wider_than_the_page(name: str, width: int) -> None:
    text = render(traces.ALL[name](), width=width)
    assert "\x1b" not in text
    most = width if width >= 76 else None  # narrower tables are lists, whose words wrap
    for line in text.splitlines():
        assert line == line.rstrip()
        if most and not WHOLE.match(line):
            assert len(line) <= most, line
    for step in NAMES.values():
        assert step in " ".join(text.split())


def test_in_a_terminal_it_is_coloured_and_says_the_same() -> None:
    plain = render(traces.gpu())
    coloured = render(traces.gpu(), colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_letters_that_the_output_lacks_are_spelt() -> None:
    text = render(traces.gpu(), ascii=True)
    assert text.isascii()
    assert "us" in text
    assert render(traces.hostile(), ascii=True).isascii()


def test_a_step_has_its_time_its_part_and_its_figures() -> None:
    text = render(traces.gpu())
    assert "✓ 3 kernels, graph and memory prepared       341 ms ━━━━━━━━━━━━━━──   86%" in text
    assert "- pinned 54.9 GB/s, 95% of 57.6" in text
    assert "cublasLt 13.1.0, /usr/lib/x86_64-linux-gnu/libcublasLt.so.13" in text
    assert "all 7 steps are done, and the answer is right." in text


def test_layers_tell_what_bounds_them_and_kernels_what_is_unknown() -> None:
    text = render(traces.gpu())
    assert re.search(r"^attention\.qkv +35\.5 µs +559 +363 TFLOP/s +40% compute$", text, re.MULTILINE)
    assert re.search(r"^attention\.split .* GB/s +\d+% memory$", text, re.MULTILINE)
    assert re.search(r"^gemm_bf16 +\? +\? +\? +\? +\? +1\.94 tensor$", text, re.MULTILINE)
    assert re.search(r"^layernorm_bf16 +8192 +256 +32 +1024 +88% +7\.76 CUDA$", text, re.MULTILINE)
    assert "?: cuBLASLt does not say" in text
    assert "mlp.up: cuBLASLt does not report the grid of its kernels" in render(traces.gpu(), verbose=True)


def test_many_kernels_are_shown_with_v() -> None:
    many = replace(traces.gpu(), kernels=traces.gpu().kernels * 3)
    assert "and 27 more: -v shows them" in render(many)
    assert "more: -v shows them" not in render(many, verbose=True)
    assert "on the CPU, 90 times as long" in render(traces.gpu(), verbose=True)


def test_what_is_compared_is_reported_with_its_gain() -> None:
    text = " ".join(render(traces.gpu()).split())
    assert "17 kernels started one by one (eager): 410 µs; as one CUDA graph: 310 µs, 1.32 times as fast" in text
    assert "in 4 chunks over 2 streams: 740 µs, 1.49 times as fast" in text
    assert "error 0.0052, within 0.01, over 512 of 2048 rows" in text
    assert "From about 2 sequences on the GPU is faster: 48 times as fast at 4." in text


def test_a_processor_alone_needs_no_more_than_it_has() -> None:
    text = render(traces.cpu())
    assert "steps 1, 5 and 6 are done, and the answer is right; 2, 3, 4 and 7 need a GPU." in " ".join(text.split())
    assert "· 4 kernels run in parallel: grids, blocks and warps need a GPU" in text
    assert "KERNELS" not in text


def test_a_broken_stack_names_the_step_the_reason_and_what_to_type() -> None:
    text = render(traces.broken())
    assert text.startswith("✗ FAILED: it would fail at step 2, copied to the device: The driver is too old")
    assert "What it means: gpustack explain driver-too-old-for-cuda-build" in text
    assert "sudo apt install nvidia-driver-580" in text
    assert text.count("not reached") == 5


def test_several_causes_are_all_told_and_limits_say_where_they_are_from() -> None:
    other = replace(traces.FINDING, id="nouveau-loaded", title="Another module has the GPU")
    text = render(replace(traces.broken(), findings=(traces.FINDING, other)))
    assert "error: Another module has the GPU" in text
    said = " ".join(render(traces.gpu()).split())
    assert "hbm.copy 4800 GB/s (2 x 3000 MHz x 6400 bit / 8; measured 4210)" in said
    assert "CPU OR GPU" not in render(replace(traces.gpu(), crossover=None))


def test_a_wrong_answer_is_said_first_and_is_not_a_figure() -> None:
    text = " ".join(render(traces.mistaken()).split())
    assert text.startswith("✗ FAILED: step 7 failed, copied back and checked: error 0.6.")
    assert "not within 0.01" in text
    assert "The figures of this run do not count" in text


def test_the_chain_ends_where_it_ends() -> None:
    text = render(traces.framework())
    assert "framework     torch 2.11.0+cu130, /opt/venv/lib/python3.12/torch" in text
    assert "libcudnn: libcudnn.so.9: cannot open shared object file" in text
    assert "by torch 2.11.0" in text


def test_the_headline_of_what_was_not_done() -> None:
    none = replace(traces.cpu(), steps=tuple(left_out(number, "why not") for number in NAMES), checks=())
    assert headline(none) == "no step was done"
    assert state(none) is State.SKIPPED
    one = replace(none, steps=(replace(traces.gpu().steps[0]), *none.steps[1:]))
    assert headline(one) == "step 1 is done; 2, 3, 4, 5, 6 and 7 were not done"
    assert headline(replace(traces.gpu(), findings=traces.broken().findings)) == traces.FINDING.title


def test_a_stack_with_limits_has_not_failed() -> None:
    broken = traces.broken()
    assert broken.stop is not None
    limited = replace(broken, stop=replace(broken.stop, fails=False), steps=traces.gpu().steps)
    assert state(limited) is State.SKIPPED
    assert state(broken) is State.FAILED


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0.0, "0 s"),
        (1.5, "1.5 s"),
        (0.0123, "12.3 ms"),
        (4.56e-5, "45.6 µs"),
        (7e-9, "7 ns"),
        (123.4, "123 s"),
    ],
)
def test_times_have_three_digits_and_their_unit(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (1234.5, "1234"),
        (12.34, "12.3"),
        (1.0, "1"),
        (0.12345, "0.123"),
        (1e-5, "1e-05"),
        (2e7, "2e+07"),
        (float("nan"), "none"),
        (float("inf"), "none"),
    ],
)
def test_numbers_have_three_digits(value: float, said: str) -> None:
    assert three(value) == said


def test_words_of_small_things() -> None:
    assert (extent(None), extent((4, 1, 1)), extent((4, 1, 2))) == ("?", "4", "4x1x2")
    assert (shape((2, 3)), shape(())) == ("2 x 3", "one number")
    assert (percent(None), percent(float("nan")), percent(0.0), percent(0.05), percent(0.5)) == (
        "",
        "",
        "0%",
        "5.0%",
        "50%",
    )
    assert scaled(0.5, SIZES) == "0.5 B"
    assert figure(Figure(name="kernels", value=17, unit="")) == "kernels 17"
    assert figure(Figure(name="compiled", value=0.31, unit="s")) == "compiled 310 ms"
    assert link(traces.LIBRARY).startswith("cublasLt 13.1.0, /usr")
    assert (limit(None), limit(Figure(name="f", value=2.0, unit="", ceiling=3.0))) == (None, 3.0)
    assert limit(Figure(name="f", value=2.0, unit="")) == 2.0


def test_a_layer_without_a_time_or_a_limit_says_nothing_of_it() -> None:
    bare = TensorLayer(name="l", op="gemm", shape_in=(1,), shape_out=(1,), flops=1.0, bytes_read=1, bytes_written=1)
    assert rate(bare, traces.broken()) == ("", "")
    timed = replace(bare, seconds=1.0)
    assert rate(timed, traces.broken())[1] == ""


def test_the_whole_is_never_less_than_its_steps() -> None:
    assert whole(traces.gpu()) == 0.396
    assert whole(replace(traces.gpu(), wall_seconds=None)) == pytest.approx(0.39421)
    assert whole(traces.broken()) is None


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.033, "MB", "33 kB"),
        (3221.0, "MB", "3.22 GB"),
        (0.059, "GFLOP", "59 MFLOP"),
        (0.045, "TFLOP/s", "45 GFLOP/s"),
        (13107200.0, "", "13,107,200"),
        (0.5, "", "0.5"),
        (54.9, "GB/s", "54.9 GB/s"),
    ],
)
def test_an_amount_has_the_unit_that_suits_it(value: float, unit: str, said: str) -> None:
    assert amount(value, unit) == said


def test_what_is_hardly_anything_is_not_nothing() -> None:
    assert (percent(0.0004), percent(0.0), percent(0.0996)) == ("<0.1%", "0%", "10%")
    assert kernel(replace(traces.gpu().kernels[0], waves=0.000947))[6] == "0.001"


def test_a_part_of_the_peak_is_next_to_operations_whatever_bounds_the_layer() -> None:
    trace = traces.gpu()
    wide = next(one for one in trace.layers if one.bound is Bound.COMPUTE)
    assert rate(replace(wide, bound=Bound.LAUNCH), trace) == rate(wide, trace)
    assert rate(wide, trace)[0].endswith("FLOP/s")


def test_the_last_column_of_the_layers_is_explained_where_it_is() -> None:
    assert "of limit: of what memory and arithmetic allow; bound by: which of the two is the limit" in " ".join(
        render(traces.gpu()).split()
    )
    assert "bound by" not in render(replace(traces.gpu(), layers=()))


def test_of_a_users_model_no_operations_are_reported() -> None:
    trace = traces.gpu()
    users = replace(trace, subject=replace(trace.subject, flops=0.0, file="model.onnx"))
    assert "FLOP/byte" not in render(users)
    assert "FLOP/byte" in render(trace)


def test_notes_are_shown_with_v_and_the_whole_at_the_end_of_the_steps() -> None:
    noted = Figure(name="copied", value=1.0, unit="GB/s", note="this once")
    trace = traces.gpu()
    first = replace(trace.steps[0], figures=(noted,))
    trace = replace(trace, steps=(first, *trace.steps[1:]))
    assert "copied 1 GB/s (this once)" in render(trace, verbose=True)
    assert "this once" not in render(trace)
    assert "all seven steps: 396 ms" in render(trace)
