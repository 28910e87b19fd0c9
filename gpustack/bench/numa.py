"""Where the host's part of a measurement runs: on the processors next to the GPU, with memory next to it too.

Only the process that measures is moved, and only while it measures. What cannot be had is told, and never an error:
containers refuse to set a memory policy, and many virtual machines know nothing of nodes.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DEFAULT, PREFERRED = 0, 1  # include/uapi/linux/mempolicy.h
# Numbers of set_mempolicy: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h (both of Linux 6).
SYSCALLS = {"x86_64": 238, "aarch64": 237}
MOST_NODES = 1024
UNPINNED = "NUMA: not pinned, {}"


class RefusedError(Exception):
    """The kernel does not let a process choose its memory here: why."""


Policy = Callable[[int | None], None]


@contextmanager
def near(pci: str, root: str = "/sys", policy: Policy | None = None) -> Iterator[str]:
    """Run on the processors of a GPU's node until the end; gives in words what was done, or why nothing was."""
    node = _number(Path(root, "bus/pci/devices", pci, "numa_node"))
    if node is None or node < 0:
        yield UNPINNED.format(f"the kernel tells no node of {pci}")
        return
    try:
        before = os.sched_getaffinity(0)
        allowed = before & processors(node, root)
        if not allowed:
            yield UNPINNED.format(f"no processor of node {node} may be used here")
            return
        os.sched_setaffinity(0, allowed)
    except (OSError, AttributeError) as error:
        yield UNPINNED.format(f"choosing processors was refused: {_reason(error)}")
        return
    prefer = policy or prefer_node
    try:
        yield f"NUMA: node {node}, {len(allowed)} of {len(before)} processors{_memory(prefer, node)}"
    finally:
        os.sched_setaffinity(0, before)
        _memory(prefer, None)


def processors(node: int, root: str = "/sys") -> set[int]:
    """Give the processors of a node; none where nobody tells."""
    try:
        text = Path(root, f"devices/system/node/node{node}/cpulist").read_text("ascii").strip()
        ends = [[int(end) for end in part.split("-")] for part in text.split(",") if part]
    except (OSError, ValueError):
        return set()
    return {processor for each in ends for processor in range(each[0], each[-1] + 1)}


def prefer_node(node: int | None) -> None:
    """Have this thread's new memory come from a node where it has some left, or from anywhere again (None)."""
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise RefusedError(f"the number of the call is not known for {platform.machine()}")
    mask = (ctypes.c_ulong * (MOST_NODES // 64))()
    if node is not None:
        mask[node // 64] = 1 << node % 64
    mode = DEFAULT if node is None else PREFERRED
    given = (ctypes.c_long(number), ctypes.c_int(mode), mask, ctypes.c_ulong(MOST_NODES + 1))
    if ctypes.CDLL(None, use_errno=True).syscall(*given):
        raise RefusedError(os.strerror(ctypes.get_errno()))


def processor(root: str = "/proc") -> str:
    """Give the name of the host's processor, as the kernel tells it."""
    try:
        lines = Path(root, "cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, named), platform.machine())


def _memory(prefer: Policy, node: int | None) -> str:
    """Choose where memory comes from; give in words why that cannot be done, or nothing."""
    try:
        prefer(node)
    except (RefusedError, OSError, AttributeError, IndexError) as error:
        return f"; memory from where the kernel likes ({_reason(error)})"
    return ", memory from there too"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None
