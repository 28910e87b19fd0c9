"""What is wrong with an AMD GPU itself, by the kernel's counters and sensors: memory, heat, link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd
from gpustack.diagnose.rules.reading import at, because_of, number, table
from gpustack.diagnose.rules.seen import PASSED_ON, on_bus
from gpustack.model.command import PCI, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.amd import AmdGpu
    from gpustack.model.facts import Facts, Instance, JsonValue

WIDTHS = frozenset({1, 2, 4, 8, 12, 16})
FEW = 4  # a link on this many times fewer lanes is no board's design
SERVERS = "Instinct"
SENSORS = ("junction", "memory", "edge")


def memory(facts: Facts) -> Iterator[Finding]:
    """Give each GPU that counts uncorrectable errors, or has taken pages out of use."""
    told: set[str] = set()
    for gpu in amd.gpus(facts):
        grave, pages = (number(gpu.copy.facts, "ras", name) or 0 for name in ("uncorrected", "bad_pages"))
        place = _device(gpu)
        if (not grave and not pages) or place in told:
            continue
        told.add(place)
        yield Finding(
            id="gpu-ecc-error",
            instance=place,
            severity=Severity.ERROR if grave else Severity.WARNING,
            layer=Layer.HARDWARE,
            component="amd-gpu",
            title=f"{gpu.title} at {place} has {grave} uncorrectable errors (RAS)"
            if grave
            else f"{gpu.title} at {place} has taken {pages} pages of its memory out of use",
            detail=_blocks(table(gpu.copy.facts, "ras", "blocks")),
            because=tuple(
                because_of(facts, "amd-gpu", gpu.copy, "ras", name)
                for name, count in (("uncorrected", grave), ("blocks", grave), ("bad_pages", pages))
                if count
            ),
            fix=Fix(
                text="Stop its programs and reset it, or start the machine anew. If errors come back, have the board "
                "exchanged.",
                commands=(
                    sh("amd-smi list"),
                    sh("# sudo amd-smi reset --gpureset --gpu INDEX, that of the list"),
                    sh("amd-smi bad-pages"),
                ),
                needs_root=True,
                verify=sh("amd-smi metric --ecc"),
            ),
        )


def heat(facts: Facts) -> Iterator[Finding]:
    """Give each GPU that is at the limit where it slows itself down."""
    for gpu in amd.gpus(facts):
        for sensor in SENSORS:
            now, most = (_degrees(gpu, sensor + tail) for tail in ("_c", "_limit_c"))
            if now is None or not most or now < most:
                continue
            yield Finding(
                id="gpu-overheat",
                instance=gpu.mark,
                severity=Severity.WARNING,
                layer=Layer.HARDWARE,
                component="amd-gpu",
                title=f"{gpu.title} at {gpu.mark} is too hot: {sensor} {now:.0f} C, limit {most:.0f} C",
                because=(
                    because_of(facts, "amd-gpu", gpu.copy, "temperature", sensor + "_c"),
                    because_of(facts, "amd-gpu", gpu.copy, "temperature", sensor + "_limit_c"),
                ),
                fix=Fix(
                    text="Cool it: fans, air flow, dust, thermal paste, the room; in a server, the fan profile.",
                    commands=(sh("rocm-smi --showtemp --showfan"),),
                    verify=sh("rocm-smi --showtemp"),
                ),
            )
            break


def link(facts: Facts) -> Iterator[Finding]:
    """Give each card on fewer lanes than both ends of one stretch of its way to the processor have.

    The speed of an idle link falls on purpose and is no fault.
    """
    integrated = {gpu.mark for gpu in amd.gpus(facts) if gpu.integrated}
    servers = {gpu.mark for gpu in amd.gpus(facts) if SERVERS in gpu.name}
    for copy in on_bus(facts, "amd"):
        driver = at(copy.facts, "driver")
        found = None if copy.key in integrated or driver is None or driver in PASSED_ON else _narrow(copy)
        if found:
            place, width, most = found
            yield Finding(
                id="pcie-link-degraded",
                instance=copy.key,
                severity=Severity.WARNING if copy.key in servers or width * FEW <= most else Severity.INFO,
                layer=Layer.HARDWARE,
                component="pci-display",
                title=f"The GPU at {copy.key} runs on {width} of {most} PCI Express lanes",
                because=(Because(component="pci-display", fact="link", value=f"{place}: {width}", source="sysfs"),),
                fix=Fix(
                    text="Switch the machine off, seat the card and its riser again, and look at the slot's setting in "
                    "the firmware.",
                    commands=(sh("sudo lspci -vv -s {place} | grep -i lnk", place=PCI(place)),),
                    needs_root=True,
                    verify=sh("gpustack doctor"),
                ),
            )


def _narrow(copy: Instance) -> tuple[str, int, int] | None:
    """Give place, lanes and most lanes of the first stretch that is narrower than both its ends.

    The way has a stretch for each two devices: the GPU and the port below it, then that port's switch and the next.
    """
    bridges = at(copy.facts, "bridges")
    way: list[tuple[str, JsonValue]] = [(copy.key, at(copy.facts, "link"))]
    way += [(str(at(one, "pci")), one) for one in bridges] if isinstance(bridges, tuple) else []
    for (place, near), (_, far) in zip(way[::2], way[1::2], strict=False):
        width, ends = number(near, "width"), [number(end, "max_width") for end in (near, far)]
        known = [end for end in ends if end in WIDTHS]
        most = min(known) if len(known) == len(ends) else 0
        if width in WIDTHS and width < most:
            return place, width, most
    return None


def _device(gpu: AmdGpu) -> str:
    """Give the device that a partition is of: errors are counted for the whole."""
    return str(at(gpu.copy.facts, "pci") or gpu.mark)


def _degrees(gpu: AmdGpu, name: str) -> float | None:
    value = at(gpu.copy.facts, "temperature", name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _blocks(said: object) -> str:
    held = said if isinstance(said, dict) else {}
    named = [f"{block}: {table(counts).get('ue')}" for block, counts in held.items() if table(counts).get("ue")]
    return f"Counted since the driver was loaded, by block: {', '.join(named)}." if named else ""
