"""A trace in the words that all formats share: the summary, the model, the ground, and figures with units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.trace import CHECKED, LINK, Bound, Ground, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.difference import BatchTime
    from gpustack.model.trace import Figure, KernelLaunch, Loaded, Step, TensorLayer, Trace

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
WORK = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP"))
LEAST = 1e-3  # of a limit or the total: less is shown as "less than" this
FLAT = 0.999  # of the peak of the arithmetic: under the flat part of the roof
RATES = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s"))
SCALES = {
    "s": (1.0, UNITS),
    "MB": (1e6, SIZES),
    "GFLOP": (1e9, WORK),
    "GFLOP/s": (1e9, RATES),
    "TFLOP/s": (1e12, RATES),
}
STATES = {
    State.DONE: ("ok", "done", "good"),
    State.SKIPPED: ("none", "skipped", "dim"),
    State.FAILED: ("bad", "failed", "error"),
    State.NEEDS_GPU: ("none", "needs a GPU", "dim"),
}
GROUNDS = {
    Ground.GPU: "on the GPU",
    Ground.CPU: "on the CPU",
    Ground.FRAMEWORK: "in a framework",
    Ground.RECORDED: "recorded facts, nothing run",
}
BOUND = {Bound.MEMORY: "memory", Bound.COMPUTE: "compute", Bound.LAUNCH: "launch"}
TERMS = ("kernel", "grid", "block", "warp", "stream", "event", "occupancy", "wave", "tensor core", "roofline")


def state(trace: Trace) -> State:
    """Return the overall outcome: failed, done, or not run."""
    if trace.failed is not None or trace.findings:
        limited = trace.failed is None and trace.stop is not None and not trace.stop.fails
        return State.SKIPPED if limited else State.FAILED
    return State.DONE if any(step.status is State.DONE for step in trace.steps) else State.SKIPPED


def headline(trace: Trace) -> str:
    """Return the summary sentence without its full stop."""
    if trace.says:
        return trace.says
    failed = next((step for step in trace.steps if step.status is State.FAILED), None)
    if failed:
        return f"step {failed.number} failed, {failed.name}" + (f": {failed.why[0]}" if failed.why else "")
    if trace.findings:
        return trace.findings[0].title
    done = [step.number for step in trace.steps if step.status is State.DONE]
    right = ", and the answer is right" if trace.checks and all(one.passed for one in trace.checks) else ""
    if len(done) == len(trace.steps):
        return f"all {len(done)} steps are done{right}"
    if not done:
        return "no step was done"
    rest = [step for step in trace.steps if step.number not in done]
    why = "need a GPU" if all(step.status is State.NEEDS_GPU for step in rest) else "were not done"
    steps = "step 1 is" if done == [1] else f"steps {_listed(done)} are"
    return f"{steps} done{right}; {_listed([step.number for step in rest])} {why}"


def model(trace: Trace) -> str:
    """Return the model in a line."""
    one = trace.subject
    named = one.file or f"{one.name}, {one.size}"
    shapes = f"{shape(one.input_shape)} in, {shape(one.output_shape)} out"
    told = [f"{named}, {one.precision}", shapes]
    if one.parameters:
        told.append(f"{one.parameters:,} weights ({scaled(one.weight_bytes, SIZES)})")
    if one.flops:
        told.append(f"{scaled(one.flops, WORK)} per pass")
    return ", ".join(told)


def ground(trace: Trace) -> str:
    """Return in a line what it was run on."""
    device, cpu = trace.device, trace.processor
    told = []
    if device:
        made = device.compute_capability.replace(".", "")
        known = (made and f"sm_{made}", device.driver and f"driver {device.driver}")
        told.append(f"GPU {device.index}: {', '.join(filter(None, (device.name, *known)))}")
    if cpu:
        library = f", {cpu.library}" if cpu.library else ""
        told.append(f"CPU: {cpu.name}, {cpu.threads} thread{'s' * (cpu.threads != 1)}{library}")
    if trace.framework:
        told.insert(0, f"by {trace.framework}")
    return "; ".join(told) or GROUNDS.get(trace.ground, "")


def duration(seconds: float | None) -> str:
    """Return a time with three digits in a suitable unit."""
    if seconds is None:
        return ""
    return scaled(seconds, UNITS) if seconds > 0 else "0 s"


def scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """Return a value with three digits in the largest unit that leaves it above one."""
    size, unit = next((pair for pair in units if abs(value) >= pair[0]), units[-1])
    return f"{three(value / size)} {unit}"


def three(value: float) -> str:
    """Return a number with three digits, without an exponent if people would not write one."""
    if value != value or value - value != 0:  # noqa: PLR0124 - not a number, or infinite
        return "none"
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):  # noqa: PLR2004 - where exponents begin to help
        return f"{value:.3g}"
    digits = max(0, 2 - len(f"{abs(value):.0f}") + 1) if abs(value) >= 1 else 3
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(value: float, unit: str) -> str:
    """Return a value with its unit: scaled if the unit has larger and smaller ones, whole if it is a count."""
    if unit in SCALES and value > 0:
        size, units_ = SCALES[unit]
        return scaled(value * size, units_)
    return f"{int(value):,}" if not unit and value >= 1 and value == int(value) else f"{three(value)} {unit}".rstrip()


def figure(one: Figure) -> str:
    """Return a figure with its unit, its limit and the share of it reached."""
    said = f"{one.name} {amount(one.value, one.unit)}"
    return said if one.ceiling is None else f"{said}, {percent(one.ratio)} of {three(one.ceiling)}"


def limit(one: Figure | None) -> float | None:
    """Return a ceiling: the physical limit if it is known, else the measured maximum."""
    return one.limit if one else None


def percent(ratio: float | None) -> str:
    """Return a share in percent; nothing for nan."""
    if ratio is None or ratio - ratio != 0:
        return ""
    if 0 < ratio < LEAST:
        return f"<{LEAST:.1%}"
    if ratio > 10:  # noqa: PLR2004 - where digits say nothing any more
        return f"{100 * ratio:.3g}%"
    return f"{ratio:.0%}" if ratio >= 0.0995 or not ratio else f"{ratio:.1%}"  # noqa: PLR2004 - below ten a digit more


def copying(trace: Trace, number: int) -> float | None:
    """Return the time of a step's copy over the link, without its other work: allocating, checking."""
    over = [one.seconds for one in trace.timeline if one.track == LINK and one.step == number]
    step = next((one for one in trace.steps if one.number == number), None)
    if over or step is None or step.seconds is None:
        return over[-1] if over else None
    return max(0.0, step.seconds - (checking(step) or 0.0))


def checking(step: Step | None) -> float | None:
    """Return how long the result was checked in a step; None if it was not."""
    return next((one.value for one in (step.figures if step else ()) if one.name == CHECKED), None)


def bounds(trace: Trace) -> str:
    """Return what the last columns of the layers mean, or nothing if they are empty."""
    if not any(one.bound for one in trace.layers):
        return ""
    launch = "; launch: at that limit the work takes less time than a kernel launch"
    cache = " (the cache, for a layer that fits in it)" * (trace.cache_ceiling is not None)
    said = f"of limit: of what memory{cache} and arithmetic allow; bound by: which of the two is the limit"
    return said + launch * any(one.bound is Bound.LAUNCH for one in trace.layers)


def rate(one: TensorLayer, trace: Trace) -> tuple[str, str]:
    """Return a layer's rate and its share of the roofline: operations, or bytes if it has few operations."""
    part = percent(one.ratio)
    compute = limit(trace.compute_ceiling)
    flat = one.attainable is not None and compute is not None and one.attainable >= compute * FLAT
    if (one.bound is Bound.COMPUTE or flat) and one.tflops is not None:
        return scaled(one.tflops * 1e12, RATES), part
    return (f"{three(one.gigabytes_a_second)} GB/s" if one.gigabytes_a_second is not None else "", part)


def intensity(one: TensorLayer, trace: Trace) -> str:
    """Return the operations per byte of a layer; nothing if unknown, as for a user's model."""
    return three(one.intensity) if trace.subject.flops else ""


def layer(one: TensorLayer, trace: Trace) -> tuple[str, ...]:
    """Return a layer's name, time, intensity, rate, share of the roofline, and limit."""
    bound = BOUND[one.bound] if one.bound else ""
    return one.name, duration(one.seconds), intensity(one, trace), *rate(one, trace), bound


def kernel(one: KernelLaunch) -> tuple[str, ...]:
    """Return a kernel's name, grid, block, registers, shared memory in bytes, occupancy, waves and units.

    A question mark means unknown. Waves are how many times a grid fills the GPU, to a thousandth.
    """
    shared = None if one.shared_static is None else one.shared_static + (one.shared_dynamic or 0)
    waves = "?" if one.waves is None else three(max(round(one.waves, 3), 0.001))
    units = {True: "tensor", False: "CUDA", None: "not told"}[one.tensor_cores]
    known = (count(one.registers), count(shared), percent(one.occupancy) or "?", waves, units)
    return one.name, extent(one.grid), extent(one.block), *known


def batch(one: BatchTime) -> tuple[str, ...]:
    """Return a batch, its times on the CPU and on the GPU, those of its kernels and copies, and the speedup."""
    gain = one.cpu_seconds / one.gpu_seconds if one.cpu_seconds and one.gpu_seconds else None
    times = (one.cpu_seconds, one.gpu_seconds, one.kernel_seconds, one.transfer_seconds)
    return str(one.batch), *map(duration, times), "" if gain is None else f"{three(gain)} times"


def checks(trace: Trace) -> Iterator[str]:
    """Yield how accurate each result is."""
    for one in trace.checks:
        rows = f"{one.compared} of {one.rows}" if one.compared < one.rows else f"all {one.rows}"
        error = f"error {max(one.error, one.largest):.2g}, {'within' if one.passed else 'not within'} {one.bound:g}"
        yield f"{one.what} against {one.against}: {error}, over {rows} rows"


def count(value: int | None) -> str:
    """Return a whole number; a question mark if unknown."""
    return "?" if value is None else str(value)


def extent(three_: tuple[int, int, int] | None) -> str:
    """Return a grid or block without trailing ones; a question mark if unknown."""
    if three_ is None:
        return "?"
    kept = list(three_)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))


def shape(one: tuple[int, ...]) -> str:
    """Return the shape of a tensor."""
    return " x ".join(map(str, one)) or "one number"


def link(one: Loaded) -> str:
    """Return one link of the chain."""
    version = f" {one.version}" if one.version else ""
    where = f", {one.file}" if one.file else ""
    gone = f": {one.missing}" if one.missing else ""
    return f"{one.name}{version}{where}{gone}"


def share(seconds: float | None, whole: float | None) -> float | None:
    """Return a time's share of the total; None if either is nan."""
    part = seconds / whole if seconds is not None and whole else None
    return part if part is None or part - part == 0 else None


def whole(trace: Trace) -> float | None:
    """Return the time of all seven steps: by the clock, or as their sum."""
    summed = sum(step.seconds for step in trace.steps if step.seconds is not None)
    return max(trace.wall_seconds or 0.0, summed) or None


def _listed(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
