"""Which step is being done, on one line of a terminal that is written over again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.trace.asked import Silent

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["Live", "Silent"]

ERASE = "\r\x1b[K"
LAST = 7


class Live:
    """One line that moves, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this terminal."""
        self._stream = stream

    def step(self, number: int, name: str) -> None:
        """Say that this step has begun."""
        self._stream.write(f"{ERASE}gpustack: step {number} of {LAST}: {name} …")
        self._stream.flush()

    def close(self) -> None:
        """Leave the line empty."""
        self._stream.write(ERASE)
        self._stream.flush()
