"""A GPU's PCI Express link runs on fewer lanes than both of its ends have.

Copies between the machine's memory and the GPU take longer by that factor. The number of lanes is set when the link
starts, so it says nothing of load: a card or riser that sits badly, a damaged slot, or a setting of the firmware. (The
speed of a link does fall when it is idle, and is not judged.) Seat the card again, and look at riser and firmware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.rules.reading import because_of, items, number, text
from gpustack.rules.seen import ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance

WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})  # what is not among these is made up, as in some virtual machines


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose link is narrower than the narrowest end on its way to the processor."""
    for copy in ours(facts):
        width, most = number(copy.facts, "link", "width"), widest(copy)
        if width not in WIDTHS or most is None or width >= most:
            continue
        yield Finding(
            id="pcie-link-degraded",
            instance=copy.key,
            severity=Severity.WARNING,
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
                commands=(f"sudo lspci -vv -s {copy.key} | grep -i lnk",),
                needs_root=True,
                verify="gpustack doctor",
            ),
        )


def widest(copy: Instance) -> int | None:
    """Give the lanes that the way from the GPU to the processor could have: its narrowest end; None if unknown."""
    bridges = [number(bridge, "max_width") for bridge in items(copy.facts, "bridges")]
    ends = [end for end in [number(copy.facts, "link", "max_width"), *bridges] if end in WIDTHS]
    return min((end for end in ends if end), default=None) if number(copy.facts, "link", "max_width") else None


def _bridges(copy: Instance) -> str:
    ends = [(text(one, "pci"), number(one, "max_width")) for one in items(copy.facts, "bridges")]
    return ", ".join(f"{pci}: {width}" for pci, width in ends) or "none seen"
