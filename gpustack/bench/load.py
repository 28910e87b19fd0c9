"""What a lasting load brought to light, as a pure function of what the child said round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpustack.bench import results
from gpustack.bench.suite import listed
from gpustack.model.bench import Mark, Stress

if TYPE_CHECKING:
    from gpustack.bench.results import Opened
    from gpustack.bench.suite import Bench
    from gpustack.model.bench import Device, Result, Telemetry
    from gpustack.model.rows import Architecture

TITLE = "load over most of the memory"
GIB = 1 << 30
METHOD = ("way", "dtype", "m", "n", "k", "d", "library", "library_version", "waves", "workspace_mib")


def bench(dtype: str = "bf16") -> Bench:
    """Give the load as a benchmark: it is the product of that type, and has its limit."""
    product = next(one for one in listed() if one.id == f"gemm.{dtype}")
    return replace(product, id="stress", title=TITLE)


def concluded(
    states: Sequence[Mapping[str, Any]], asked: float, seen: Opened, architecture: Architecture | None
) -> Result:
    """Give the result of the rounds, of which there must be at least one; malformed ones make it a failed one."""
    try:
        return _concluded(states, asked, seen, architecture)
    except results.MALFORMED as error:
        reason = f"the child's answer is malformed: {type(error).__name__}: {error}"
        return results.failed(bench(), seen.device.index, reason)


def _concluded(
    states: Sequence[Mapping[str, Any]], asked: float, seen: Opened, architecture: Architecture | None
) -> Result:
    last, held = states[-1], bench(str(states[0]["dtype"]))
    said = {
        "amount": last["amount"],
        "runs": last["products"],
        "seconds": [state["each"] for state in states],
        "clocks": [state["clock"] for state in states if state["clock"]],
        "gated": True,
        "method": {name: last[name] for name in METHOD if name in last},
        "tried": {},
        "readings": [reading for state in states for reading in state["readings"]],
        "before": states[0]["before"],
        "after": last["after"],
        "wall": last["spent"],
    }
    measured, stress = results.measured(said, held, seen, architecture), _summed(states, asked)
    if measured.value is None:
        return measured
    wrong, ecc = _wrong(stress, seen.device), measured.telemetry.ecc.uncorrected if measured.telemetry else None
    mark = Mark.FAILED if wrong or ecc else Mark.LOW if measured.verdict is Mark.LOW else Mark.OK
    kept = tuple(reason for reason in measured.why if not reason.startswith("not steady"))
    what = wrong or f"{stress.products} products over {stress.memory_gib:.1f} GiB compared bit by bit: all alike"
    did = tuple(filter(None, (_did(measured.telemetry),)))
    return replace(measured, verdict=mark, why=(what, *kept, *did), stress=stress)


def _summed(states: Sequence[Mapping[str, Any]], asked: float) -> Stress:
    wrong = [tuple(state["wrong"]) for state in states]
    places = [int(first) for _, _, first in wrong if first is not None]
    size = int(states[-1]["memory"])
    each = int(states[-1]["result"])
    products = sum(int(state["products"]) for state in states)
    return Stress(
        asked=asked,
        seconds=float(states[-1]["spent"]),
        memory_gib=round(size / GIB, 3),
        rounds=len(states),
        products=products,
        compared_gib=round(products * each / GIB, 3),
        wrong_bits=sum(int(bits) for bits, _, _ in wrong),
        wrong_words=sum(int(words) for _, words, _ in wrong),
        first_wrong=f"byte {places[0]} of the {size} that were filled" if places else None,
        operands_changed=any(bool(state["changed"]) for state in states),
    )


def _wrong(stress: Stress, device: Device) -> str:
    """Say what was wrong, and on which GPU; nothing where nothing was."""
    if not stress.wrong_bits and not stress.operands_changed:
        return ""
    where = f"GPU {device.index} ({', '.join(filter(None, (device.name, device.pci)))})"
    if stress.operands_changed:
        too = f", and {stress.wrong_bits} bits of the results differ" if stress.wrong_bits else ""
        return f"{where} does not keep what is written to its memory: operands or reference changed{too}"
    many = f"wrong bits: {stress.wrong_bits}, in {stress.wrong_words} words of {stress.products} products"
    return f"{where} computes or keeps wrong; {many}, the first at {stress.first_wrong}"


def _did(seen: Telemetry | None) -> str:
    """Say at which clock, power and temperatures the card worked."""
    if seen is None:
        return ""
    watts, gpu, memory = seen.power.watts, seen.temperature.gpu, seen.temperature.memory
    told = (
        f"clock held {seen.clocks.held:.0f} MHz" if seen.clocks.held is not None else "",
        f"{watts.median:.0f} W" if watts else "",
        f"up to {gpu.high:.0f} °C" if gpu else "",
        f"memory up to {memory.high:.0f} °C" if memory else "",
        f"held back by {', '.join(seen.throttle.reasons)}" if seen.throttle.reasons else "",
    )
    return ", ".join(filter(None, told))
