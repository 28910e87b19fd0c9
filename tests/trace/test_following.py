"""The model on this machine's processor: steps 1, 5 and 6 are really done, and a wrong answer fails."""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from gpustack.bench import numa
from gpustack.errors import NothingSeenError
from gpustack.model.difference import BatchTime
from gpustack.model.trace import Figure, Ground, State
from gpustack.trace import Asked, Live, Progress, beside, following, reference
from gpustack.trace.counting import Roof
from gpustack.trace.models import MODELS
from tests.patience import in_time

np = pytest.importorskip("numpy")


class Heard(Progress):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.closed = 0

    def step(self, number: int, name: str) -> None:
        assert name
        self.steps.append(number)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("model", MODELS)
def test_what_a_processor_can_do_is_done_and_the_rest_needs_a_gpu(model: str) -> None:
    heard = Heard()
    trace = following.follow(Asked(model=model), heard)
    states = {step.number: step.status for step in trace.steps}
    assert [number for number, one in states.items() if one is State.DONE] == [1, 5, 6]
    assert [number for number, one in states.items() if one is State.NEEDS_GPU] == [2, 3, 4, 7]
    assert (heard.steps, heard.closed) == ([1, 5, 6], 1)
    assert (trace.ground, trace.subject.precision, trace.findings) == (Ground.CPU, "fp32", ())
    assert all(check.passed and check.bound == 1e-5 for check in trace.checks)
    assert trace.processor is not None
    assert trace.processor.threads >= 1
    assert trace.processor.numpy == np.__version__


@in_time
def test_the_steps_are_the_wall_time_and_the_layers_are_step_five() -> None:
    trace = following.follow(Asked(model="mlp", size="medium"), Progress())
    assert trace.wall_seconds is not None
    spent = sum(step.seconds or 0.0 for step in trace.steps)
    assert spent == pytest.approx(trace.wall_seconds, rel=0.1, abs=0.05)
    fifth = trace.steps[4].seconds
    assert fifth is not None
    assert sum(one.seconds or 0.0 for one in trace.layers) == pytest.approx(fifth, rel=0.1, abs=0.05)
    assert all(one.bound is not None and one.seconds for one in trace.layers)
    products = [one for one in trace.layers if one.op == "gemm"]
    assert all(one.intensity > 100 for one in products)
    ends = [(one.begin, one.begin + one.seconds) for one in trace.timeline]
    assert all(later[0] >= earlier[1] - 1e-6 for earlier, later in pairwise(ends))
    assert ends[-1][1] == pytest.approx(trace.wall_seconds, rel=0.1, abs=0.05)


def test_a_wrong_answer_fails_the_step_and_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reference.truth

    monkeypatch.setattr(reference, "truth", lambda *given: real(*given) + 1.0)
    trace = following.follow(Asked(), Progress())
    assert trace.failed == 6
    assert [one.id for one in trace.findings] == ["trace-wrong-answer"]
    assert "is wrong" in trace.steps[5].why[0]


def test_narrow_numbers_are_computed_in_float32_and_held_to_their_own_bound() -> None:
    trace = following.follow(Asked(precision="bf16"), Progress())
    (check,) = trace.checks
    assert (check.precision, check.bound) == ("bf16", 1e-2)
    assert trace.layers[0].bytes_written == 4 * 64 * 512
    assert trace.subject.weight_bytes == 2 * trace.subject.parameters


class Stopping(Heard):
    """Presses Ctrl-C when a step begins."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def step(self, number: int, name: str) -> None:
        super().step(number, name)
        if number == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("at", "done"), [(1, []), (5, [1]), (6, [1, 5])])
def test_ctrl_c_reports_what_was_known_by_then(at: int, done: list[int]) -> None:
    heard = Stopping(at)
    trace = following.follow(Asked(), heard)
    assert (trace.interrupted, heard.closed) == ("Ctrl-C", 1)
    assert [step.number for step in trace.steps if step.status is State.DONE] == done
    assert {step.why for step in trace.steps if step.status is State.SKIPPED} == {("stopped by Ctrl-C",)}
    assert (trace.failed, trace.findings, trace.checks) == (None, (), ())
    assert len(trace.timeline) == {1: 0, 5: 1, 6: 1 + 6}[at]


def test_ctrl_c_between_batches_keeps_those_that_were_timed() -> None:
    seen: list[float] = []

    def clock() -> float:
        seen.append(float(len(seen)))
        if len(seen) > 70:
            raise KeyboardInterrupt
        return seen[-1] / 1e3

    told = following.batches(Asked(), (1, 64), clock)
    assert [one.batch for one in told] == [1]


def test_a_model_that_takes_longer_than_there_is_time_is_not_begun() -> None:
    with pytest.raises(NothingSeenError, match=r"would need about .* --timeout SECONDS"):
        following.follow(Asked(size="large", timeout=1.5), Progress())


class Clock:
    """A clock that advances by this much at each reading."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_each_batch_is_timed_and_a_larger_one_takes_longer() -> None:
    told = following.batches(Asked(model="mlp", size="medium", timeout=600.0), (256, 1))  # asked for: both
    assert [one.batch for one in told] == [1, 256]
    assert all(one.cpu_seconds and one.gpu_seconds is None for one in told)
    assert (told[1].cpu_seconds or 0) > (told[0].cpu_seconds or 0)


def test_batches_that_would_take_too_long_are_left_out() -> None:
    told = following.batches(Asked(timeout=150.0), (1, 64), Clock(1.0))
    assert [one.batch for one in told] == [1]


def test_a_slow_first_run_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    real = following.run

    def counted(*given: object) -> following.Pass:
        runs.append(1)
        return real(*given)  # type: ignore[arg-type] # handed on as they came

    monkeypatch.setattr(following, "run", counted)
    following.follow(Asked(), Progress(), Clock(1.0))
    assert len(runs) == 1


def test_a_processor_without_a_name_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = partial(numa.processor, "/nowhere")
    monkeypatch.setattr(numa, "processor", nameless)
    assert following.processor().name == platform.machine()


def test_the_processor_alone_says_why_there_is_no_gpu() -> None:
    alone = beside.alone(following.follow(Asked(), Progress()), "there is no NVIDIA driver here")
    assert "there is no NVIDIA driver here" in alone.steps[1].why
    assert "there is no NVIDIA driver here" not in alone.steps[2].why


def test_beside_a_gpu_both_times_are_joined_and_the_crossing_is_reported() -> None:
    base = following.follow(Asked(precision="bf16"), Progress())
    speed = Figure(name="copied from pinned memory", value=base.subject.weight_bytes / 1e-4 / 1e9, unit="GB/s")
    copied = replace(base.steps[1], status=State.DONE, seconds=1.0, figures=(speed,))
    times = tuple(BatchTime(batch=one, gpu_seconds=1e-5, transfer_seconds=2e-6, kernel_seconds=5e-6) for one in (1, 64))
    seen = replace(
        base, ground=Ground.GPU, steps=(base.steps[0], copied, *base.steps[2:]), batches=times, processor=None
    )
    whole = beside.beside_joined(seen, Asked(), Progress())
    assert whole.crossover is not None
    assert [one.batch for one in whole.crossover.points if one.cpu_seconds and one.gpu_seconds] == [1, 64]
    assert whole.processor is not None
    assert len(whole.cpu_layers) == len(whole.layers)
    assert [one.what for one in whole.checks] == ["output", "output on the CPU"]
    assert any("copying the weights takes 100 µs" in why for why in whole.crossover.why)
    assert "row" in whole.crossover.says


def test_beside_a_gpu_a_processor_that_is_too_slow_is_reported() -> None:
    base = following.follow(Asked(), Progress())
    whole = beside.beside_joined(base, Asked(size="large", timeout=1.5), Progress())
    assert whole.crossover is not None
    assert "would need about" in whole.crossover.says
    assert whole.layers == base.layers


def test_a_terminal_shows_the_step_and_is_cleared() -> None:
    import io  # noqa: PLC0415

    stream = io.StringIO()
    live = Live(stream)
    live.step(5, "tensors flow through the layers")
    live.close()
    assert "step 5 of 7: tensors flow" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_two_traces_have_the_same_answer() -> None:
    one, other = (following.follow(Asked(), Progress()) for _ in range(2))
    assert one.checks == other.checks
    assert [layer.name for layer in one.layers] == [layer.name for layer in other.layers]


def test_no_layer_is_faster_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"index0": "32K", "index3": "33792K", "index9": "much"}
    for name, size in sizes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(size, "ascii")
    monkeypatch.setattr(reference, "CACHES", tmp_path)
    assert reference.cache_bytes() == 33792 << 10
    monkeypatch.setattr(reference, "CACHES", tmp_path / "nowhere")
    assert reference.cache_bytes() == 2 << 20
    monkeypatch.setattr(
        reference, "measured_roof", lambda _: Roof(gigabytes_a_second=1e-3, tflops=1e-6, cache_bytes=1e9)
    )
    trace = following.follow(Asked(), Progress())
    assert trace.layers
    assert max(one.ratio or 0.0 for one in trace.layers) == pytest.approx(1.0)
