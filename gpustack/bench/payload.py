"""The largest payload of a PCIe packet that the GPU was set to, from its configuration space."""

from __future__ import annotations

from pathlib import Path

STATUS, POINTER, EXPRESS, CONTROL = 0x06, 0x34, 0x10, 0x08  # PCI Express Base Specification 6.0, section 7.5
HAS_LIST = 0x10
LEGAL = range(6)


def payload(pci: str, root: str = "/sys") -> int | None:
    """Give the bytes, or None where nobody may read them: beyond 64 bytes the kernel shows the space to root alone."""
    try:
        space = Path(root, "bus/pci/devices", pci, "config").read_bytes()
    except OSError:
        return None
    return _payload(space)


def _payload(space: bytes) -> int | None:
    """Walk the list of capabilities to PCI Express, whose device control register holds the size as a power of two."""
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
