"""A GPU's PCI Express link runs on fewer lanes, or under load slower, than both of its ends can.

Copies between the machine's memory and the GPU take longer by that factor. The number of lanes is set when the link
starts, so it says nothing of load: a card or riser that sits badly, a damaged slot, or a setting of the firmware.
Laptops and desktop boards may wire half of the lanes, which is only told. (The speed of a link does fall when it is
idle: it counts only where it was seen under load.) Seat the card again, and look at riser and firmware.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd_faults
from gpustack.diagnose.rules.reading import because_of, items, number, text
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import gpus, ours
from gpustack.diagnose.rules.told_machine import machine, more, whole
from gpustack.matrix.subjects import gpus as products
from gpustack.model.command import PCI, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Gpu
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance, Message

WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})  # what is not among these is made up, as in some virtual machines


STAYS = "link-stays-down"
OUTSIDE = "gpu-outside-said"  # a cable of four lanes
SLOT, SUFFERS = "link-slow-said", ("work-stops-said", "machine-gone-said", "gpus-fail-together", "link-complaint")
SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}  # GT/s of the generations of PCI Express
BUSY = re.compile(
    r"under (?:full |heavy )?load|(?:during|while|when) (?:\w+ )?(?:training|running|busy|inference|load)"
    r"|100 ?%|\bbusy\b|\bP0\b",
    re.IGNORECASE,
)
IDLE = re.compile(r"\bidle\b|\bidling\b|\bP8\b", re.IGNORECASE)
LOW = 2  # a generation that no link of today stays at under load
FEW = 4  # a link on this many times fewer lanes is no board's design


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose link is narrower than the narrowest end on its way to the processor."""
    yield from _seen(facts, matrix)
    yield from amd_faults.link(facts)
    designed = heard(facts, OUTSIDE) and not heard(facts, "link-complaint")
    slow, narrow = _slow(facts), None if designed else _narrow(facts)
    if slow or narrow:
        yield _told(slow, narrow, facts, matrix)
    elif stays := _stays(facts):
        yield _down(stays, facts, matrix)
    elif heard(facts, SLOT) and heard(facts, *SUFFERS):
        yield _slot(facts, matrix)


def _told(slow: tuple[int, int] | None, narrow: tuple[int, int] | None, facts: Facts, matrix: Matrix) -> Finding:
    speeds = {generation: speed for speed, generation in SPEEDS.items()}
    ways = [f"at Gen{slow[0]} ({speeds[slow[0]]} GT/s) of Gen{slow[1]} ({speeds[slow[1]]} GT/s)"] if slow else []
    ways += [f"on {narrow[0]} of {narrow[1]} lanes (x{narrow[0]} of x{narrow[1]})"] if narrow else []
    shown = (*said(facts, "link-told", "link-downgraded", "link-complaint"),)
    return Finding(
        id="pcie-link-degraded",
        severity=Severity.WARNING,
        layer=Layer.HARDWARE,
        component="pci-display",
        title=f"A GPU's PCI Express link runs {' and '.join(ways)}{' under load' if slow else ''}",
        detail=machine(facts, matrix),
        because=(*{one.line: because_said(one) for one in shown}.values(), *more(facts)),
        fix=Fix(
            text="Switch the machine off, seat the card, its riser and cables again, and look at the slot's setting in "
            "the firmware (generation: automatic or the card's); retraining it under load shows whether it holds.",
            commands=(sh("sudo lspci -vv -d 10de: | grep -i lnk"),),
            needs_root=True,
            verify=sh("nvidia-smi -q -d PCI"),
        ),
        confidence=Confidence.LIKELY,
    )


def _down(generation: int, facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding where a link fell to its lowest speeds and is said not to come back."""
    speed = next(speed for speed, one in SPEEDS.items() if one == generation)
    return Finding(
        id="pcie-link-degraded",
        severity=Severity.WARNING,
        layer=Layer.HARDWARE,
        component="pci-display",
        title=f"A GPU's PCI Express link falls to Gen{generation} ({speed} GT/s) and does not train back up",
        detail=machine(facts, matrix, "An idle link is slow on purpose; one that stays so under load is not."),
        because=(*grounds(facts, STAYS, "link-told", "link-complaint"), *more(facts)),
        fix=Fix(
            text="Install the newest driver and the newest firmware (BIOS) of the board, and set the slot's generation "
            "there to the card's or one lower; seat the card and its riser again.",
            commands=(sh("sudo lspci -vv -d 10de: | grep -i lnk"),),
            needs_root=True,
            verify=sh("nvidia-smi -q -d PCI"),
        ),
        confidence=Confidence.LIKELY,
    )


def _stays(facts: Facts) -> int | None:
    """Give the lowest generation that is told of a link which does not come back to its speed."""
    low = [found for one in said(facts, "link-told") if (found := _generation(one)) and not IDLE.search(one.line)]
    return min(low) if low and min(low) <= LOW and heard(facts, STAYS) else None


def _slot(facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding where a GPU is said to be in a slow slot or on a riser, and work on it suffers."""
    return Finding(
        id="pcie-link-degraded",
        severity=Severity.WARNING,
        layer=Layer.HARDWARE,
        component="pci-display",
        title="A GPU's PCI Express link is slower than the others: a slow slot, or a riser",
        detail=machine(facts, matrix),
        because=(*grounds(facts, SLOT, *SUFFERS), *more(facts)),
        fix=Fix(
            text="Put the card into a slot with more lanes, without the riser, and compare the links.",
            commands=(sh("sudo lspci -vv -d 10de: | grep -i lnk"),),
            needs_root=True,
            verify=sh("nvidia-smi -q -d PCI"),
        ),
        confidence=Confidence.POSSIBLE,
    )


def _slow(facts: Facts) -> tuple[int, int] | None:
    """Give the generation under load and the one that there should be, where a text tells both."""
    told = [(one, generation) for one in said(facts, "link-told") if (generation := _generation(one))]
    complaint = heard(facts, "link-complaint")
    low = [generation for one, generation in told if not IDLE.search(one.line) and (complaint or BUSY.search(one.line))]
    if not low:
        return None
    most = max(generation for _, generation in told)
    enough = 1 if complaint else 2
    return (min(low), most) if most - min(low) >= enough else None


def _generation(one: Message) -> int | None:
    said_ = one.values.get("generation")
    return whole(said_) or None if said_ else SPEEDS.get(one.values.get("speed", ""))


def _narrow(facts: Facts) -> tuple[int, int] | None:
    """Give lanes and most lanes of a link that is much narrower than its card, or narrower where copies are slow."""
    pairs = [
        (width, most)
        for gpu in gpus(facts)
        if (width := number(gpu.copy.facts, "pcie", "width")) and (most := number(gpu.copy.facts, "pcie", "max_width"))
    ]
    pairs += [
        (
            whole(one.values.get("width") or one.values.get("width2")),
            whole(one.values.get("most") or one.values.get("most2")),
        )
        for one in said(facts, "link-lanes-said")
    ]
    wide = max((whole(one.values.get("width")) for one in said(facts, "link-capability")), default=16)
    noted = [one for one in said(facts, "link-downgraded") if one.values.get("width_note") == "downgraded"]
    pairs += [(whole(one.values.get("width")), wide) for one in noted]
    few = 2 if heard(facts, "link-complaint") else FEW
    return next((pair for pair in pairs if {*pair} <= WIDTHS and pair[0] * few <= pair[1]), None)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU of a machine that was looked at; laptops and desktop boards may wire half of a slot's lanes."""
    for copy in ours(facts):
        width, most = number(copy.facts, "link", "width"), widest(copy)
        if width not in WIDTHS or most is None or width >= most:
            continue
        server = any(gpu.mark == copy.key and _for_servers(gpu, matrix) for gpu in gpus(facts))
        yield Finding(
            id="pcie-link-degraded",
            instance=copy.key,
            severity=Severity.WARNING if server or width * FEW <= most else Severity.INFO,
            layer=Layer.HARDWARE,
            component="pci-display",
            title=f"The GPU at {copy.key} runs on {width} of {most} PCI Express lanes",
            because=(
                because_of(facts, "pci-display", copy, "link", "width"),
                because_of(facts, "pci-display", copy, "link", "max_width"),
                Because(component="pci-display", fact="bridges", value=_bridges(copy), source="sysfs"),
            ),
            fix=Fix(
                text="Switch the machine off, seat the card and its riser again, and look at the slot's setting in the "
                "firmware.",
                commands=(sh("sudo lspci -vv -s {place} | grep -i lnk", place=PCI(copy.key)),),
                needs_root=True,
                verify=sh("gpustack doctor"),
            ),
        )


def _for_servers(gpu: Gpu, matrix: Matrix) -> bool:
    return products.class_of(matrix, gpu.name) == "datacenter"


def widest(copy: Instance) -> int | None:
    """Give the lanes that the way from the GPU to the processor could have: its narrowest end; None if unknown."""
    bridges = [number(bridge, "max_width") for bridge in items(copy.facts, "bridges")]
    ends = [end for end in [number(copy.facts, "link", "max_width"), *bridges] if end in WIDTHS]
    return min((end for end in ends if end), default=None) if number(copy.facts, "link", "max_width") else None


def _bridges(copy: Instance) -> str:
    ends = [(text(one, "pci"), number(one, "max_width")) for one in items(copy.facts, "bridges")]
    return ", ".join(f"{pci}: {width}" for pci, width in ends) or "none seen"
