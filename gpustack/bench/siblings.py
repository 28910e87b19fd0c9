"""What the figures of a run mean together: GPUs that differ from their siblings, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from gpustack.bench import suite
from gpustack.bench.ceilings import WITHOUT
from gpustack.model.bench import Advice, Device, Mark, Result
from gpustack.model.command import NAME, NUMBER, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

SEVERITIES = {
    Mark.FAILED: Severity.ERROR,
    Mark.LOW: Severity.WARNING,
    Mark.UNSTEADY: Severity.INFO,
    Mark.SKIPPED: Severity.INFO,
}
TITLES = {
    Mark.FAILED: "{name} failed",
    Mark.LOW: "{name} is low",
    Mark.UNSTEADY: "{name} is not steady",
    Mark.SKIPPED: "{name} was skipped",
}
# Cards of one kind differ by 5 % through their silicon and their cooling; more than 10 % is no such difference.
# Source: stas00/ml-engineering, compute/accelerator; huggingface/gpu-fryer marks the same 10 %. Memory and links have
# no such difference: those of four H200 agreed within 0.2 % (2026-11-22).
APART, APART_TIGHT = 0.10, 0.05
TIGHT = ("hbm.", "pcie.", "p2p.bandwidth")
FEW = 2
WHOLE = {"pcie.h2d.pinned": "pcie.h2d.all", "pcie.d2h.pinned": "pcie.d2h.all"}  # by what each GPU does alone
WIDE = 5 * 1.4826  # median deviations: five standard deviations of a normal distribution
MOST_NAMED = 4
GOOD = (Mark.OK, Mark.LOW)  # an unsteady measurement flags nobody, and is not a reference for others
WARMER, SLOWER, WATTS = 8.0, 0.95, 0.9
SWAP = Advice(
    "Measure it alone, then swap it with a sibling: what stays with the slot is caused by slot, power or airflow.",
    (sh("gpustack bench --gpu N -v"), sh("nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE,CLOCK")),
)
PAIR = Advice(
    "See which links this pair uses that others do not, and whether one of them shows errors.",
    (sh("nvidia-smi topo -m"), sh("nvidia-smi nvlink -s"), sh("nvidia-smi nvlink -e")),
)


def found(results: Sequence[Result]) -> tuple[Finding, ...]:
    """Return a finding for every result that is not good."""
    return tuple(_finding(result) for result in results if result.verdict is not Mark.OK)


def _finding(result: Result) -> Finding:
    where = result.place()
    return Finding(
        id=f"bench-{result.verdict.value}",
        instance=f"{result.id}{where}",
        severity=SEVERITIES[result.verdict],
        layer=Layer.HARDWARE,
        component="gpu",
        title=TITLES[result.verdict].format(name=f"{result.id}{where}"),
        detail="; ".join(result.why),
        because=tuple(_because(result)),
        fix=_fix(result),
        confidence=Confidence.LIKELY if result.verdict is Mark.LOW else Confidence.CERTAIN,
    )


def _fix(result: Result) -> Fix | None:
    """Return the remedy: for the reasons, or for a missing figure."""
    if result.remedy:
        return Fix(text="This lets it run.", commands=(result.remedy,))
    if not result.advice:
        return None
    commands = dict.fromkeys(command for advice in result.advice for command in advice.commands)
    gpus = result.gpus or ((result.device,) if result.device else ())
    again = sh(
        "gpustack bench {bench} {gpus}",
        bench=NAME(result.id),
        gpus=[sh("--gpu {gpu}", gpu=NUMBER(gpu)) for gpu in gpus],
    )
    said = " ".join(advice.text for advice in result.advice)
    root = any(command.startswith("sudo ") for command in commands)
    return Fix(text=said, commands=tuple(commands), needs_root=root, verify=again)


def _because(result: Result) -> Iterable[Because]:
    if result.value is not None:
        yield Because(
            component="gpu", fact=result.id, value=f"{result.value:.4g} {result.unit}", source="gpustack bench"
        )
    if result.ceiling is not None:
        source = result.ceiling_from or ""
        yield Because(component="gpu", fact="limit", value=f"{result.ceiling:.4g} {result.unit}", source=source)
    if result.value is None and result.why:
        yield Because(component="gpu", fact=result.id, value=result.why[0], source="gpustack bench")


def compared(results: Sequence[Result], devices: Sequence[Device]) -> tuple[Result, ...]:
    """Return the results, marking each GPU as low that is far below GPUs of the same name."""
    names: dict[int | None, str] = {device.index: device.name for device in devices}
    hosts = {bench.id for bench in suite.listed() if bench.limit in WITHOUT}
    fit = [one for one in results if one.device in names and one.id not in hosts and _fit(one)]
    found = []
    for result in results:
        others = [
            one
            for one in fit
            if one.id == result.id
            and one is not result
            and names.get(one.device) == names.get(result.device)
            and _alike(one, result)
        ]
        found.append(_judged(result, others) if others and result in fit else result)
    return tuple(found)


def _fit(result: Result) -> bool:
    """Return whether a figure is steady and the GPU's own: host-dependent ones vary with place and time."""
    return bool(result.value) and result.verdict in GOOD and not result.method.get("refused")


def _alike(one: Result, other: Result) -> bool:
    """Return whether two figures are comparable: those of pairs only if their connection is the same."""
    return not one.gpus or one.ceiling == other.ceiling


def _judged(result: Result, others: Sequence[Result]) -> Result:
    """Compare a figure with the median of its siblings' and its own; of two with the other, so that one is worse."""
    values = [one.value for one in others if one.value]
    every = [*values, result.value or 0.0]
    usual = median(every) if len(values) >= FEW else values[0]
    value = result.value or 0.0
    reached = (usual / value if value else 0.0) if result.lower_is_better else value / usual
    if not _apart(result.id, result.value or 0.0, every, usual) or reached >= 1:
        return result
    text = f"{reached:.0%} of what its siblings reach ({usual:.4g} {result.unit}; {_where(others)})"
    text = f"outlier among siblings: {text}" if result.gpus else text
    differs = "; ".join(_differences(result, others))
    why = f"{text}: {differs}" if differs else text
    advice = PAIR if result.gpus else SWAP
    return replace(result, verdict=Mark.LOW, why=(*result.why, why), advice=(*result.advice, advice))


def stands_out(results: Sequence[Result], name: str, gpu: int) -> bool:
    """Return whether a GPU fell short of the others when all ran concurrently, or this is unknown."""
    whole = next((one for one in results if one.id == WHOLE.get(name)), None)
    return whole is None or gpu in odd(whole)


def odd(whole: Result) -> frozenset[int]:
    """Return the GPUs whose part of a shared figure is clearly below the others'."""
    cards = whole.method.get("cards")
    rows = [one for one in cards if isinstance(one, Mapping)] if isinstance(cards, Sequence) else []
    parts = {one["gpu"]: one["gb_s"] for one in rows}
    known = {gpu: part for gpu, part in parts.items() if isinstance(gpu, int) and isinstance(part, float | int)}
    usual = median(known.values()) if known else 0.0
    every = list(known.values())
    return frozenset(gpu for gpu, part in known.items() if part < usual and _apart(whole.id, part, every, usual))


def _apart(name: str, value: float, every: Sequence[float], usual: float) -> bool:
    """Return whether a figure deviates more than its siblings' figures do, and more than healthy cards may."""
    floor = (APART_TIGHT if name.startswith(TIGHT) and len(every) > FEW else APART) * usual
    spread = median(abs(one - usual) for one in every) if len(every) > FEW else 0.0
    return abs(value - usual) > max(floor, WIDE * spread)


def _where(others: Sequence[Result]) -> str:
    """Return in words which GPUs or pairs it is compared with."""
    if others[0].gpus:
        named = ", ".join(one.name().rpartition(" ")[2] for one in others[:MOST_NAMED])
        return f"GPUs {named}" + (f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else "")
    return f"GPU {', '.join(str(one.device) for one in others)}"


def _differences(result: Result, others: Sequence[Result]) -> Iterator[str]:
    """Return which clock, temperature or link differs from theirs."""
    mine, theirs = result.telemetry, [one.telemetry for one in others if one.telemetry]
    if mine is None or not theirs:
        return
    clocks = [one.clocks.held for one in theirs if one.clocks.held]
    if mine.clocks.held and clocks and mine.clocks.held < SLOWER * median(clocks):
        yield f"its clock held {mine.clocks.held:.0f} MHz, theirs {median(clocks):.0f}"
    heat = [one.temperature.gpu.high for one in theirs if one.temperature.gpu]
    if mine.temperature.gpu and heat and mine.temperature.gpu.high >= median(heat) + WARMER:
        yield f"it was at {mine.temperature.gpu.high:.0f} °C, they at {median(heat):.0f}"
    watts = [one.power.limit for one in theirs if one.power.limit]
    if mine.power.limit and watts and mine.power.limit < WATTS * median(watts):
        yield f"its power limit is {mine.power.limit:.0f} W, theirs {median(watts):.0f}"
    widths = [one.link.width for one in theirs if one.link.width]
    if mine.link.width and widths and mine.link.width < median(widths):
        yield f"its link has {mine.link.width} lanes, theirs {median(widths):.0f}"
    if mine.processes and not any(one.processes for one in theirs):
        yield f"others are on it: {', '.join(mine.processes[:2])}"
