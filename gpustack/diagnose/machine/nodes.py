"""The driver's device nodes and who may open them: what the rules about permissions share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.values import at, flag, items, number, text, told
from gpustack.model.facts import once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts, JsonValue


MODULES = ("nvidia.ko", "nvidia-uvm.ko")
TOOLS = "-tools"
CONTROL, OF_GPU = "/dev/nvidiactl", re.compile(r"/dev/nvidia\d+")
ALL = 0o006  # everybody may read and write
NONE = "NoDevFiles"  # what a scheduler sets for a job without a GPU


def refused(facts: Facts) -> Iterator[tuple[str, bool]]:
    """Return each node that cannot be opened, and whether its mode is what refuses; tools' own nodes left out."""
    for module in MODULES:
        for node in items(told(facts, module), "nodes"):
            path, opened = text(node, "path"), text(node, "open")
            if not path or path.endswith(TOOLS) or not flag(node, "exists"):
                continue
            shut = flag(node, "readable") is False or flag(node, "writable") is False
            if shut or opened not in {None, "ok"}:
                yield path, shut and not _for_all(node)


@once
def withheld(facts: Facts) -> bool:
    """Tell whether a scheduler gave this process no GPU: the driver answers and counts none, and their nodes are shut.

    Rules about devices, as control groups have them, refuse whatever the mode is; the driver's own node stays open.
    """
    if number(told(facts, "nvml"), "gpu_count") != 0:
        return False
    shut = {path for path, by_mode in refused(facts) if not by_mode}
    held = (text(node, "path") or "" for node in items(told(facts, MODULES[0]), "nodes") if flag(node, "exists"))
    own = {path for path in held if OF_GPU.fullmatch(path)}
    return at(told(facts, "libcuda"), "visible") == NONE or (bool(own) and own <= shut and CONTROL not in shut)


@once
def left_out(facts: Facts) -> bool:
    """Return whether this container was started without the driver's nodes, and nothing in it finds a GPU."""
    module = told(facts, MODULES[0])
    held = any(flag(node, "exists") for node in items(module, "nodes"))
    found = number(told(facts, "nvml"), "gpu_count") or items(told(facts, "libcuda"), "devices")
    return bool(facts.host.container) and "nodes" in module and not (held or found)


def _for_all(node: JsonValue) -> bool:
    """Return whether the mode lets everybody in, so that something else refuses."""
    mode = text(node, "mode") or ""
    return bool(re.fullmatch(r"0o[0-7]{1,6}", mode)) and int(mode, 8) & ALL == ALL
