"""Ordinary memory of the host, as programs have it that pin nothing: the driver copies it through its own buffers."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory


@dataclass(frozen=True, slots=True)
class Pageable:
    """Some bytes of ordinary memory; both copies return when the host's part in them is over."""

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
    """Give so many bytes, touched here first, so that they lie where this thread wants its memory."""
    with mmap.mmap(-1, size) as pages:
        first = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(first)
        ctypes.memset(address, 0xFF, size)
        try:
            yield Pageable(card, address, size)
        finally:
            card.settle()
            del first  # the pages cannot be given back while something points at them
