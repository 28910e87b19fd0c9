"""Host memory: its NUMA node, pageable or pinned, and what is written to it.

Only the measuring process is moved, and only while it measures. Anything unsupported is reported, never an error:
containers refuse memory policies, and many virtual machines have no nodes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory

DEFAULT, PREFERRED = 0, 1  # include/uapi/linux/mempolicy.h
# Numbers of set_mempolicy: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h (both of Linux 6).
SYSCALLS = {"x86_64": 238, "aarch64": 237}
MOST_NODES = 1024
UNPINNED = "NUMA: not pinned, {}"
STATUS, POINTER, EXPRESS, CONTROL = 0x06, 0x34, 0x10, 0x08  # PCI Express Base Specification 6.0, section 7.5
HAS_LIST = 0x10
LEGAL = range(6)


class RefusedError(Exception):
    """The kernel does not let a process choose its memory here: the reason."""


Policy = Callable[[int | None], None]


@contextmanager
def near(pci: str, root: str = "/sys", policy: Policy | None = None) -> Iterator[str]:
    """Run on the processors of a GPU's node until the end; yields in words what was done, or why nothing was."""
    node = _number(Path(root, "bus/pci/devices", pci, "numa_node"))
    if node is None or node < 0:
        yield UNPINNED.format(f"the kernel reports no node for {pci}")
        return
    try:
        before = os.sched_getaffinity(0)
        allowed = before & processors(node, root)
        if not allowed:
            yield UNPINNED.format(f"no processor of node {node} is available here")
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


@contextmanager
def far(pci: str, root: str = "/sys", policy: Policy | None = None) -> Iterator[str]:
    """Allocate new memory on the node furthest from a GPU's; raises RefusedError if none is visible."""
    own = _number(Path(root, "bus/pci/devices", pci, "numa_node"))
    if own is None or own < 0:
        raise RefusedError(f"the kernel reports no node for {pci}")
    node = furthest(own, root)
    if node is None:
        raise RefusedError(f"only node {own} has memory")
    prefer = policy or prefer_node
    try:
        prefer(node)
    except (OSError, AttributeError, IndexError) as error:
        raise RefusedError(_reason(error)) from error
    try:
        yield f"NUMA: memory from node {node}, the GPU is on node {own}"
    finally:
        _memory(prefer, own)


def furthest(own: int, root: str = "/sys") -> int | None:
    """Return the node with memory that is furthest from a node, by the kernel's distances; None if there is none."""
    nodes = Path(root, "devices/system/node")
    try:
        told = (nodes / f"node{own}/distance").read_text("ascii").split()
        away = dict(zip(sorted(_listed((nodes / "online").read_text("ascii"))), map(int, told), strict=True))
        kept = _listed((nodes / "has_memory").read_text("ascii"))
    except (OSError, ValueError):
        return None
    others = {node: distance for node, distance in away.items() if node in kept and node != own}
    return max(others, key=lambda node: others[node]) if others else None


def _listed(text: str) -> set[int]:
    """Return the numbers in a kernel list: 0-1,3."""
    ends = [[int(end) for end in part.split("-")] for part in text.strip().split(",") if part]
    return {number for each in ends for number in range(each[0], each[-1] + 1)}


def processors(node: int, root: str = "/sys") -> set[int]:
    """Return the processors of a node; none if unknown."""
    try:
        return _listed(Path(root, f"devices/system/node/node{node}/cpulist").read_text("ascii"))
    except (OSError, ValueError):
        return set()


def prefer_node(node: int | None) -> None:
    """Allocate this thread's new memory on a node while it has some free, or anywhere again (None)."""
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
    """Return the name of the host's processor, according to the kernel."""
    try:
        lines = Path(root, "cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, named), platform.machine())


def _memory(prefer: Policy, node: int | None) -> str:
    """Set where memory comes from; return why that fails, or nothing."""
    try:
        prefer(node)
    except (RefusedError, OSError, AttributeError, IndexError) as error:
        return f"; memory wherever the kernel places it ({_reason(error)})"
    return ", memory from there too"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None


def payload(pci: str, root: str = "/sys") -> int | None:
    """Return the bytes, or None if unreadable: the kernel shows those beyond 64 bytes only to root."""
    try:
        space = Path(root, "bus/pci/devices", pci, "config").read_bytes()
    except OSError:
        return None
    if len(space) <= POINTER or not space[STATUS] & HAS_LIST:
        return None
    at, seen = space[POINTER], set[int]()
    while at and at not in seen and at + CONTROL + 1 < len(space):
        seen.add(at)
        if space[at] == EXPRESS:
            code = space[at + CONTROL] >> 5
            return 128 << code if code in LEGAL else None
        at = space[at + 1]
    return None


@dataclass(frozen=True, slots=True)
class Pageable:
    """Ordinary host memory; both copies return when the host's part in them is over."""

    card: Card
    address: int
    size: int

    def to_device(self, device: Memory) -> None:
        """Enqueue the copy to a device memory of this size."""
        self.card.to_device(device.address, self.address, self.size)

    def to_host(self, device: Memory) -> None:
        """Enqueue the copy from a device memory of this size."""
        self.card.to_host(self.address, device.address, self.size)


@contextmanager
def held(card: Card, size: int) -> Iterator[Pageable]:
    """Yield this many bytes, first touched here so that they are where this thread wants its memory."""
    with mmap.mmap(-1, size) as pages:
        first = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(first)
        ctypes.memset(address, 0xFF, size)
        try:
            yield Pageable(card, address, size)
        finally:
            card.settle()
            del first  # the pages cannot be given back while something points at them
