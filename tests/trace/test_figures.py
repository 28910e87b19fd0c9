"""The pure parts: when an answer is right, where a layer is under the roofline, and from which batch the GPU wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.matrix import Matrix
from gpustack.model.bench import Device
from gpustack.model.difference import BatchTime, Check, Launching, Overlap
from gpustack.model.trace import Bound, Figure, KernelLaunch, TensorLayer
from gpustack.trace import NAMES, failing, short
from gpustack.trace.beside import batches, crossover, joined
from gpustack.trace.counting import Roof, cache, layers, place, raised, under
from gpustack.trace.failing import step_failed, wrong
from gpustack.trace.models import build

np = pytest.importorskip("numpy")
TRUE = np.linspace(-2.0, 2.0, 400).reshape(20, 20)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_an_answer_within_its_bound_is_right_and_one_beyond_is_not(precision: str) -> None:
    bound = failing.BOUNDS[precision]
    assert bound == {"fp32": 1e-5}.get(precision, 1e-2)
    near = failing.compare(TRUE * (1 + 0.9 * bound), TRUE, precision, what="output")
    far = failing.compare(TRUE * (1 + 1.1 * bound), TRUE, precision, what="output")
    assert (near.passed, far.passed) == (True, False)
    assert near.error == pytest.approx(0.9 * bound)
    assert "within" in failing.said(near)
    assert "is wrong" in failing.said(far)


def test_one_wrong_number_among_many_is_found() -> None:
    answer = TRUE.copy()
    answer[7, 7] += 0.5
    check = failing.compare(answer, TRUE, "bf16", what="output")
    assert check.error < 0.03 < check.largest
    assert not check.passed
    wide = np.ones((1000, 100))
    spoilt = wide.copy()
    spoilt[3, 3] = 2.0
    seen = failing.compare(spoilt, wide, "bf16", what="output")
    assert seen.error < seen.bound < seen.largest
    assert not seen.passed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_never_right(bad: float) -> None:
    answer = TRUE.copy()
    answer[0, 0] = bad
    check = failing.compare(answer, TRUE, "fp16", what="output", rows=40)
    assert not check.passed
    assert check.error == check.error
    assert "NaN or infinity" in failing.said(check)
    assert "20 of 40 rows" in failing.said(check)


def test_nothing_compared_is_not_right() -> None:
    none = failing.compare(np.zeros((0, 4)), np.zeros((0, 4)), "fp32", what="output")
    assert not none.passed
    assert failing.said(none) == "nothing was compared"


def test_a_truth_of_zeros_is_compared_as_it_is() -> None:
    zeros = np.zeros((2, 2))
    assert failing.compare(zeros, zeros, "fp32", what="output").passed
    assert not failing.compare(zeros + 1e-3, zeros, "fp32", what="output").passed


def test_another_shape_is_not_an_answer() -> None:
    with pytest.raises(ValueError, match="shape"):
        failing.compare(TRUE[:3], TRUE, "fp32", what="output")


def test_a_wrong_answer_is_an_error_and_takes_the_figures_with_it() -> None:
    check = failing.compare(TRUE * 1.5, TRUE, "fp32", what="output")
    finding = wrong(check)
    assert (finding.id, finding.severity.value) == ("trace-wrong-answer", "error")
    assert "do not count" in finding.detail
    assert finding.because[0].value == pytest.approx(0.5)
    assert step_failed(3, "CUDA_ERROR_NO_BINARY_FOR_GPU").title == "Step 3 failed: CUDA_ERROR_NO_BINARY_FOR_GPU"


def layer(flops: float, moved: int) -> TensorLayer:
    return TensorLayer(
        name="one", op="gemm", shape_in=(1,), shape_out=(1,), flops=flops, bytes_read=moved, bytes_written=0
    )


@pytest.mark.parametrize(
    ("flops", "moved", "bound", "attainable"),
    [
        (1e9, 1_000_000_000, Bound.MEMORY, 1.0),  # one operation per byte, at 1000 GB/s
        (1e12, 1_000_000_000, Bound.COMPUTE, 100.0),
        (0.0, 1_000_000_000, Bound.MEMORY, None),
        (1e3, 1_000, Bound.LAUNCH, 1.0),
    ],
)
def test_the_roofline_is_the_lesser_of_memory_and_arithmetic(
    flops: float, moved: int, bound: Bound, attainable: float | None
) -> None:
    seen = place(layer(flops, moved), Roof(gigabytes_a_second=1000.0, tflops=100.0, launch_seconds=1e-6))
    assert seen.bound is bound
    assert seen.attainable == (attainable and pytest.approx(attainable))


def test_without_ceilings_nothing_is_said() -> None:
    assert place(layer(1e9, 10), Roof()) == layer(1e9, 10)
    assert place(layer(1e9, 0), Roof(gigabytes_a_second=1.0)).bound is None
    memory_alone = place(layer(1e9, 1_000_000_000), Roof(gigabytes_a_second=1000.0))
    assert memory_alone.bound is Bound.MEMORY
    assert memory_alone.attainable == pytest.approx(1.0)


def test_a_layer_that_fits_into_the_cache_is_checked_against_the_cache() -> None:
    roof = Roof(gigabytes_a_second=1000.0, tflops=100.0, cache_bytes=50e6, cache_gigabytes_a_second=4000.0)
    near, far = (
        replace(place(layer(0.0, moved), roof), seconds=moved / 2.43e12) for moved in (10_000_000, 100_000_000)
    )
    assert near.ratio == pytest.approx(2430 / 4000)  # of the memory's limit it would be 243%
    assert far.least_seconds == pytest.approx(1e-4)
    assert layer(0.0, 1).ratio is None


def test_a_measured_roof_is_never_below_what_a_layer_reached() -> None:
    fast = replace(layer(2e9, 1_000_000), seconds=1e-3)
    low = Roof(gigabytes_a_second=3.0, tflops=0.5, cache_bytes=2e6, cache_gigabytes_a_second=0.5)
    roof = raised(low, [fast])
    assert (roof.tflops, roof.gigabytes_a_second, roof.cache_gigabytes_a_second) == (2.0, 3.0, 1.0)
    assert place(fast, roof).ratio == pytest.approx(1.0)
    assert raised(Roof(), [fast]) == Roof()


def test_the_cache_of_a_gpu_comes_from_its_row_and_its_clock() -> None:
    card = Device(index=0, uuid="", name="H200", compute_capability="9.0", multiprocessors=132, clock_mhz=1980.0)
    found = cache(replace(card, l2_mib=50.0), Matrix())
    assert found
    assert found.value == pytest.approx(10138, rel=0.01)
    roof = under(None, None, found, replace(card, l2_mib=50.0), 1e-6)
    assert (roof.cache_bytes, roof.cache_gigabytes_a_second) == (50 * 2**20, found.value)
    assert cache(None, Matrix()) is None


def test_a_layer_tells_what_it_reached() -> None:
    seen = replace(layer(2e9, 500_000_000), seconds=1e-3)
    assert (seen.intensity, seen.tflops, seen.gigabytes_a_second) == (4.0, 2.0, 500.0)
    assert (layer(1.0, 0).intensity, layer(1.0, 1).tflops, layer(1.0, 1).gigabytes_a_second) == (0.0, None, None)


def test_operations_are_counted_by_hand() -> None:
    block = {one.name: one for one in layers(build("transformer", "small", "bf16"))}
    tokens, width = 128, 128
    assert block["mlp.up"].flops == 2 * tokens * width * 4 * width
    assert block["mlp.up"].bytes_read == 2 * (tokens * width + 4 * width * width)
    assert block["mlp.up"].bytes_written == 2 * tokens * 4 * width
    assert block["mlp.up.bias+gelu"].flops == 9 * tokens * 4 * width
    assert block["norm1"].flops == 8 * tokens * width
    assert block["attention.softmax"].flops == 6 * 8 * 64 * 64
    assert (block["attention.split"].flops, block["add1"].flops) == (0, tokens * width)
    images = {one.name: one for one in layers(build("convnet", "small", "fp32"))}
    assert images["conv2"].flops == 2 * 8 * 16 * 16 * 32 * 9 * 16
    assert images["pool1"].flops == 8 * 32 * 32 * 16


def test_a_kernel_counts_blocks_threads_and_warps() -> None:
    one = KernelLaunch(name="k", layer="l", made_by="NVRTC", grid=(3, 2, 1), block=(33, 2, 1))
    assert (one.blocks, one.threads, one.warps) == (6, 66, 3)
    unknown = KernelLaunch(name="k", layer="l", made_by="cuBLASLt")
    assert (unknown.blocks, unknown.threads, unknown.warps) == (None, None, None)


def test_gains_and_ratios() -> None:
    assert Launching(eager_seconds=3.0, graph_seconds=2.0, kernels=4).gain == 1.5
    assert Launching(eager_seconds=3.0, graph_seconds=0.0, kernels=4).gain == 0.0
    assert Overlap(serial_seconds=3.0, overlapped_seconds=2.0, chunks=4, streams=2).gain == 1.5
    assert Overlap(serial_seconds=3.0, overlapped_seconds=0.0, chunks=4, streams=2).gain == 0.0
    assert Figure(name="f", value=3.0, unit="GB/s", ceiling=4.0).ratio == 0.75
    assert Figure(name="f", value=3.0, unit="GB/s").ratio is None


def test_batches_grow_by_four_up_to_that_of_the_size() -> None:
    assert batches(64) == (1, 4, 16, 64)
    assert batches(1) == (1,)
    assert batches(8) == (1, 2, 8)
    assert batches(8192)[0] == 1
    assert batches(8192)[-1] == 8192
    assert len(batches(8192)) <= 5


def at(batch: int, cpu: float | None, gpu: float | None, **more: float) -> BatchTime:
    return BatchTime(
        batch=batch,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        transfer_seconds=more.get("copies"),
        kernel_seconds=more.get("kernels"),
    )


def test_the_crossing_lies_where_both_take_the_same_time() -> None:
    # CPU: 1 ms per input; GPU: 8 ms whatever the batch. They meet at 8.
    found = crossover([at(one, one * 1e-3, 8e-3) for one in (1, 4, 16, 64)], "rows")
    assert found.at == pytest.approx(8.0)
    assert found.says == "from about 8 rows on the GPU is faster: 8 times as fast at 64"


def test_where_the_gpu_wins_at_once_that_is_said() -> None:
    found = crossover([at(1, 2e-3, 1e-3), at(4, 8e-3, 1e-3)], "images")
    assert found.at == 1.0
    assert found.says.startswith("the GPU is faster from 1 image on")
    later = crossover([at(2, 2e-3, 1e-3)], "images")
    assert later.says.startswith("the GPU is faster from 2 images on")
    assert later.why == ()


def test_where_the_cpu_stays_ahead_that_is_said() -> None:
    found = crossover([at(1, 1e-5, 1e-3), at(64, 5e-4, 1e-3)])
    assert found.at is None
    assert "the CPU is faster up to 64 inputs" in found.says


def test_what_falls_back_again_counts_from_where_the_gpu_wins_for_good() -> None:
    found = crossover([at(1, 2.0, 1.0), at(4, 1.0, 2.0), at(16, 8.0, 2.0)])
    assert found.at is not None
    assert 4 < found.at < 16


def test_why_names_launches_copies_and_room_for_parallel_work() -> None:
    found = crossover(
        [
            at(1, 20e-6, 100e-6, copies=15e-6, kernels=15e-6),
            at(64, 1280e-6, 130e-6, copies=70e-6, kernels=30e-6),
        ],
        "rows",
        weights_seconds=3e-3,
    )
    first, *rest = found.why
    assert "starting kernels and waiting 70 µs" in first
    assert "is most of it" in first
    assert any("64 times the inputs its kernels take 2 times as long" in one and "in parallel" in one for one in rest)
    assert any("the CPU takes 64 times as long" in one for one in rest)
    assert any("54%" in one and "the link limits it" in one for one in rest)
    assert any("3 ms, once: paid back after 3 batches of 64" in one for one in rest)


def test_why_blames_no_room_where_kernels_grow_with_the_work() -> None:
    found = crossover([at(1, 1.0, 1.0, copies=0.2, kernels=0.4), at(4, 8.0, 2.0, copies=0.5, kernels=1.6)], "rows", 1.0)
    assert not any("in parallel" in one for one in found.why)
    assert not any("is most of it" in one for one in found.why)
    assert any("paid back after one batch of 4" in one for one in found.why)
    assert any("1 s" in one for one in found.why)


def test_nothing_timed_on_both_is_not_a_crossing() -> None:
    found = crossover([at(1, None, 1.0), at(4, 1.0, None)])
    assert (found.at, found.why) == (None, ())
    assert "no batch was timed on both" in found.says


def test_the_two_halves_are_joined_by_batch() -> None:
    whole = joined([at(4, 4.0, None), at(1, 1.0, None)], [at(1, None, 10.0, kernels=3.0), at(16, None, 12.0)])
    assert [(one.batch, one.cpu_seconds, one.gpu_seconds) for one in whole] == [
        (1, 1.0, 10.0),
        (4, 4.0, None),
        (16, None, 12.0),
    ]
    assert whole[0].kernel_seconds == 3.0


def test_a_very_large_gain_has_no_digits_behind_the_point() -> None:
    found = crossover([at(1, 500.0, 1.0)])
    assert "500 times as fast" in found.says


def test_the_check_passes_only_as_a_whole() -> None:
    good = Check(
        what="o", against="t", precision="fp32", error=0.0, largest=0.0, bound=1e-5, compared=1, rows=1, finite=True
    )
    assert good.passed
    for change in ({"error": 1.0}, {"largest": 1.0}, {"finite": False}, {"compared": 0}):
        assert not replace(good, **change).passed


def test_counts_of_inputs_are_whole_and_without_exponents() -> None:
    found = crossover([at(one, one * 1e-3, 0.1373) for one in (1, 64, 256)], "rows")
    assert found.at == pytest.approx(137.3)
    assert found.says == "from about 138 rows on the GPU is faster: 1.9 times as fast at 256"
    assert "100 times as fast" in crossover([at(1, 99.7, 1.0)]).says


@pytest.mark.parametrize(("size", "short_"), [("small", (2, 7)), ("large", ())])
def test_a_copy_of_few_bytes_is_said_to_tell_little_of_the_link(size: str, short_: tuple[int, ...]) -> None:
    model = build("mlp", size, "bf16")
    assert tuple(number for number in NAMES if short(number, model)) == short_
