"""The texts of the findings that rows of the health table yield: one record a finding, and nothing of it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from gpustack.model.command import Command
    from gpustack.model.facts import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a finding is: its layer, its component, its remedy, and what ``gpustack explain ID`` prints.

    ``commands`` and ``verify`` take the PCI address of the GPU, or None where it is the whole machine's. ``doc`` is
    None where a rule of the same id has the text already. What a command with sudo or a restart does not show already
    may be said by ``needs_root``. ``explained_by``: the findings that it may follow from.
    """

    layer: Layer
    component: str
    remedy: str
    commands: Callable[[str | None], tuple[Command, ...]]
    verify: Callable[[str | None], Command]
    needs_root: bool = False
    needs_reboot: bool = False
    confidence: Confidence = Confidence.CERTAIN
    doc: str | None = None
    explained_by: tuple[str, ...] = ()
