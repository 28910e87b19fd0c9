"""Xids of the kernel's log as events: what the rules about faults of a GPU share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.report import Because
from gpustack.rules.reading import items, number, text, told

if TYPE_CHECKING:
    from gpustack.model.facts import Facts


@dataclass(frozen=True, slots=True)
class Event:
    """One Xid of a GPU: the driver's own number for what went wrong."""

    pci: str
    code: int
    words: str

    @property
    def because(self) -> Because:
        """The event as the ground of a finding."""
        value = f"Xid {self.code} at {self.pci}: {self.words}".rstrip(": ")
        return Because(component="kernel-log", fact="xids", value=value, source="kernel log")


def xids(facts: Facts, *codes: int) -> Iterator[Event]:
    """Give the last event of each GPU that has one of these numbers."""
    last: dict[tuple[str, int], Event] = {}
    for said in items(told(facts, "kernel-log"), "xids"):
        pci, code = text(said, "pci"), number(said, "code")
        if pci and code in codes:
            last[pci, code] = Event(pci, code, text(said, "text") or "")
    yield from last.values()
