"""The driver's device nodes and who may open them: what the rules about permissions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.rules.reading import flag, items, text, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts

MODULES = ("nvidia.ko", "nvidia-uvm.ko")
TOOLS = "-tools"


def refused(facts: Facts) -> Iterator[tuple[str, bool]]:
    """Give each node that cannot be opened, and whether its mode is what refuses; tools' own nodes left out."""
    for module in MODULES:
        for node in items(told(facts, module), "nodes"):
            path, opened = text(node, "path"), text(node, "open")
            if not path or path.endswith(TOOLS) or not flag(node, "exists"):
                continue
            by_mode = flag(node, "readable") is False or flag(node, "writable") is False
            if by_mode or opened not in {None, "ok"}:
                yield path, by_mode
