"""Why a figure is low: links and clocks."""

from __future__ import annotations

from gpustack.bench import ceilings
from gpustack.bench.case import SLOWER, Case, Reason, Weight
from gpustack.bench.ceilings import USUAL_PAYLOAD, WRITE_OVERHEAD
from gpustack.model.bench import Advice, Hop
from gpustack.model.command import NUMBER, sh

FAR = 0.9  # of the near processor's figure: below that the far one makes a difference
BETWEEN_GPUS = frozenset({"p2p", "nccl", "nvlink"})
SEAT = Advice(
    "Reseat the card; check riser, cable and slot, then the slot's setting in the firmware.",
    (sh("sudo lspci -vv | grep -E 'LnkCap|LnkSta'"), sh("nvidia-smi -q | grep -A 12 'GPU Link Info'")),
)
REPEATS = Advice(
    "Reseat the card, and check riser and cable.", (sh("nvidia-smi -q | grep Replay"), sh("sudo dmesg | grep -i aer"))
)
BIGGER = Advice(
    "The firmware sets the payload for the whole path; the kernel parameter pci=pcie_bus_perf asks for the largest.",
    (sh("sudo lspci -vv | grep MaxPayload"),),
)
NEAR = Advice(
    "Keep the process on the GPU's own NUMA node.", (sh("nvidia-smi topo -m"), sh("numactl --cpunodebind=N COMMAND"))
)
PEERS = Advice(
    "Products without NVLink may not offer it; otherwise check whether the IOMMU or the bridges' ACS forbids it.",
    (sh("nvidia-smi topo -p2p r"), sh("sudo lspci -vv | grep ACSCtl")),
)
FABRIC = Advice(
    "See which link is down; on machines with NVSwitch, check that the fabric manager runs.",
    (sh("nvidia-smi nvlink -s"), sh("nvidia-smi nvlink -e"), sh("systemctl status nvidia-fabricmanager")),
)
LOADED = 0.97  # of the power limit: above that the power was the limit
LOWERED = 0.99  # of the card's own power limit: below that somebody has lowered it
P2 = 2
POWER_CAP, APPLICATION, HARDWARE, THERMAL, BRAKE = 0x4, 0x2, 0x8, 0x60, 0x80
COOL = Advice(
    "Check its fans, airflow and neighbours; the card lowers its clock to stay within its temperature limit.",
    (sh("nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),),
)
BOARD = Advice(
    "Check the power supply, the card's cables, and the log of the machine's management controller (BMC).",
    (sh("nvidia-smi -q -d PERFORMANCE,POWER"),),
)
RELEASE = Advice(
    "See which clocks were set, and release them.",
    (sh("nvidia-smi -q -d CLOCK,PERFORMANCE"), sh("sudo nvidia-smi -rac"), sh("sudo nvidia-smi -rgc")),
)
MEMORY = Advice(
    "See which memory clock was set, and release it.", (sh("nvidia-smi -q -d CLOCK"), sh("sudo nvidia-smi -rmc"))
)


def link(case: Case) -> Reason | None:
    """The link is narrower or slower under load than card and slot allow."""
    seen = case.telemetry.link
    if case.kind != "pcie":
        return None
    narrow = seen.width and seen.max_width and seen.width < seen.max_width
    slow = seen.generation and seen.max_generation and seen.generation < seen.max_generation
    if not narrow and not slow:
        return _above(case)
    have = f"PCIe {seen.generation}.0 x{seen.width} under load"
    where = f", below the bridge {seen.hops[1].address}" if len(seen.hops) > 1 and _trained_down(seen.hops[1]) else ""
    return Reason(f"{have}, {seen.max_generation}.0 x{seen.max_width} is possible{where}", Weight.FAULT, SEAT)


def _above(case: Case) -> Reason | None:
    """The GPU's own link is whole, and one above it is slower than it could be, and slower than the GPU's."""
    seen = case.telemetry.link
    own = _speed(seen.generation, seen.width)
    if not seen.hops or _speed(seen.hops[0].generation, seen.hops[0].width) < own:
        return None  # the bridges were read while the link was idle
    for hop in seen.hops[1:]:
        if own and _trained_down(hop) and _speed(hop.generation, hop.width) < own:
            have = f"PCIe {hop.generation}.0 x{hop.width} under load at the bridge {hop.address}"
            return Reason(f"{have}, {hop.max_generation}.0 x{hop.max_width} is possible there", Weight.FAULT, SEAT)
    return None


def _trained_down(hop: Hop) -> bool:
    have, can = _speed(hop.generation, hop.width), _speed(hop.max_generation, hop.max_width)
    return bool(have and can and have < can)


def _speed(generation: int | None, width: int | None) -> float:
    """Return a comparable measure of links: each generation has twice the rate of the one before."""
    return (width or 0) * 2.0 ** (generation or 0) if generation and width else 0.0


def slot(case: Case) -> Reason | None:
    """The slot has fewer lanes or an older generation than the GPU: no fault, and the limit is that of the slot."""
    hops = case.telemetry.link.hops
    if case.kind != "pcie" or len(hops) < 2:  # noqa: PLR2004 - the GPU and the bridge above it
        return None
    own, above = hops[0], hops[1]
    can, gives = _speed(own.max_generation, own.max_width), _speed(above.max_generation, above.max_width)
    if not gives or gives >= can:
        return None
    here = f"PCIe {above.max_generation}.0 x{above.max_width}"
    text = f"the slot (bridge {above.address}) has {here}, the GPU {own.max_generation}.0 x{own.max_width}"
    return Reason(text, Weight.NOTE)


def payload(case: Case) -> Reason | None:
    """The packets are smaller than usual, so more of the link carries headers."""
    size = case.telemetry.link.payload
    if case.kind != "pcie" or not size or size >= USUAL_PAYLOAD:
        return None
    part, usual = (bytes_ / (bytes_ + WRITE_OVERHEAD) for bytes_ in (size, USUAL_PAYLOAD))
    text = (
        f"payloads of {size} bytes: {part:.0%} of the link carries data, with {USUAL_PAYLOAD} bytes it is {usual:.0%}"
    )
    return Reason(text, Weight.NOTE, BIGGER)


def replays(case: Case) -> Reason | None:
    """Packets had to be sent again: the slot, the riser or the cable."""
    again = case.telemetry.link.replays
    return Reason(f"{again} PCIe packets had to be resent", Weight.NOTE, REPEATS) if again else None


def numa(case: Case) -> Reason | None:
    """The host's memory is on another processor than the GPU: it was not kept near, or the far one is clearly worse."""
    told, far, near = case.method.get("numa"), case.method.get("far_node"), case.figures.median
    if case.kind != "pcie":
        return None
    if isinstance(far, float | int) and near and far < FAR * near:
        text = f"from the far NUMA node {far:.4g} {case.unit}, {far / near:.0%} of the near one"
        return Reason(text, Weight.NOTE, NEAR)
    return Reason(told, Weight.NOTE, NEAR) if case.low and isinstance(told, str) and "not pinned" in told else None


def nvlinks(case: Case) -> Reason | None:
    """Not all links to other GPUs are up; where they go straight to another GPU, only some need be in use."""
    seen = case.telemetry.nvlink
    if case.kind not in BETWEEN_GPUS:
        return None
    known = ceilings.ends(case.method)
    down = [end for end in known if end.up < end.links and end.up and not any(one.straight for one in known)]
    if down:
        each = ", ".join(f"{end.up} of {end.links} NVLinks of GPU {end.gpu}" for end in down)
        return Reason(f"NVLink links down: {each} are up", Weight.FAULT, FABRIC)
    if known or not seen or seen.active >= seen.total:
        return None
    return Reason(f"{seen.active} of {seen.total} NVLinks are up", Weight.FAULT, FABRIC)


def refused(case: Case) -> Reason | None:
    """The driver does not let two GPUs access each other's memory, so that all goes through the host's."""
    why = case.method.get("refused")
    if case.kind not in BETWEEN_GPUS or not isinstance(why, str):
        return None
    return Reason(f"no peer access: {why}; the driver copies through the host's memory", Weight.NOTE, PEERS)


def nvlink_errors(case: Case) -> Reason | None:
    """The links to other GPUs made errors meanwhile."""
    seen = case.telemetry.nvlink
    if case.kind not in BETWEEN_GPUS or not seen or not seen.errors:
        return None
    return Reason(f"{seen.errors} errors and replays on NVLinks during the measurement", Weight.NOTE, FABRIC)


def power(case: Case) -> Reason | None:
    """The power limit holds the clock down: as it should, unless somebody lowered the limit."""
    if not case.clock_held_back or not _capped(case):
        return None
    drawn, limit, own = case.telemetry.power.watts, case.telemetry.power.limit, case.telemetry.power.default_limit
    watts = f", {drawn.high:.0f} of {limit:.0f} W" if drawn and limit and drawn.high >= LOADED * limit else ""
    if not own or not limit or limit >= LOWERED * own:
        return Reason(f"power-bound: {case.at_clock}{watts}", Weight.EXPLAINS)
    advice = Advice(
        f"The power limit was lowered to {limit:.0f} W; if that is not intended, restore the card's default.",
        (sh("nvidia-smi -q -d POWER"), sh("sudo nvidia-smi -pl {watts}", watts=NUMBER(round(own)))),
    )
    return Reason(f"power-bound: {case.at_clock}{watts} (the card's own limit is {own:.0f} W)", Weight.EXPLAINS, advice)


def _capped(case: Case) -> bool:
    """Return whether power limited the clock.

    A short burst is over before NVML sees the cap. But a clock that NVML reads as high between the bursts, and that no
    other reason limits, is not locked: it dropped under the load.
    """
    mask, read = case.telemetry.throttle.mask, case.telemetry.clocks.sm
    drawn, limit = case.telemetry.power.watts, case.telemetry.power.limit
    if mask & POWER_CAP or (drawn and limit and drawn.high >= LOADED * limit):
        return True
    high = bool(read and case.device.clock_mhz and read.high >= SLOWER * case.device.clock_mhz)
    return high and not mask & (APPLICATION | THERMAL | HARDWARE | BRAKE)


def thermal(case: Case) -> Reason | None:
    """The card is too hot for its clock."""
    if not case.telemetry.throttle.mask & THERMAL:
        return None
    seen = case.telemetry.temperature
    heat = f"{seen.gpu.high:.0f} °C" if seen.gpu else "temperature unknown"
    memory = f", memory {seen.memory.high:.0f} °C" if seen.memory else ""
    until = f", slows down from {seen.slowdown:.0f} °C" if seen.slowdown else ""
    clock = f", {case.at_clock}" if case.clock_held_back else ""
    return Reason(f"thermal slowdown: {heat}{memory}{until}{clock}", Weight.FAULT, COOL)


def hardware(case: Case) -> Reason | None:
    """The board asks for a lower clock: its power supply or its cooling."""
    mask, clock = case.telemetry.throttle.mask, f" ({case.at_clock})" if case.clock_held_back else ""
    if mask & BRAKE:
        return Reason(f"power brake: the board or its power supply requests a lower clock{clock}", Weight.FAULT, BOARD)
    if mask & HARDWARE and not mask & THERMAL:
        return Reason(f"hardware slowdown: the board requests a lower clock{clock}", Weight.FAULT, BOARD)
    return None


def locked(case: Case) -> Reason | None:
    """Somebody has set the clocks, or the card gives no reason for a low one."""
    mask = case.telemetry.throttle.mask
    if not case.clock_held_back or _capped(case) or mask & (THERMAL | HARDWARE | BRAKE):
        return None
    if mask & APPLICATION:
        return Reason(f"the clocks were set lower: {case.at_clock}", Weight.EXPLAINS, RELEASE)
    text = f"the card names no reason for its clock, which may be locked: {case.at_clock}"
    return Reason(text, Weight.FAULT, RELEASE)


def memory_clock(case: Case) -> Reason | None:
    """The memory ran slower than it can: a little is the usual state of GeForce cards under CUDA, much is not."""
    loaded, best = case.telemetry.clocks.memory, case.device.memory_clock_mhz
    if case.kind != "hbm" or not loaded or not best or loaded.median >= 0.99 * best:
        return None
    text, part = f"memory clock {loaded.median:.0f} of {best:.0f} MHz under load", loaded.median / best - 1
    if loaded.median < SLOWER * best:
        return Reason(text, Weight.FAULT, MEMORY)
    state = case.telemetry.performance_state
    usual = f" ({part:+.1%}): state P2, as is usual for CUDA on GeForce cards" if state == P2 else f" ({part:+.1%})"
    return Reason(f"{text}{usual}", Weight.NOTE)
