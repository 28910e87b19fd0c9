"""How a lasting load goes, on standard error: a line that moves on a terminal, else one line now and then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from gpustack.bench.progress import ERASE

EVERY = 10.0  # seconds between two lines of a log


class Ticker:
    """Shows round by round what each GPU does, and how much time is left."""

    def __init__(self, stream: TextIO | None, seconds: float) -> None:
        """Write to this stream, or nowhere, of a load of so many seconds."""
        self._stream, self._seconds = stream, seconds
        self._live = bool(stream and stream.isatty())
        self._next = 0.0
        self._wrong: dict[int, int] = {}
        self._now: dict[int, str] = {}

    def told(self, gpu: int, state: Mapping[str, Any]) -> None:
        """Show one round of one GPU, the others beside it; a line that is malformed is shown as far as it goes."""
        spent = float(state.get("spent") or 0.0)
        wrong = state.get("wrong") or (0,)
        self._wrong[gpu] = self._wrong.get(gpu, 0) + int(wrong[0])
        self._now[gpu] = f"GPU {gpu}: {_rate(state)}, {self._errors(gpu)}"
        if self._stream and (self._live or spent >= self._next or wrong[0]):
            left = f"{spent:.0f} of {self._seconds:.0f} s, {max(0.0, self._seconds - spent):.0f} s left"
            text = f"{left}; {'; '.join(self._now.values())}"
            self._stream.write(f"{ERASE}{text}" if self._live else f"{text}\n")
            self._stream.flush()
            self._next = (spent // EVERY + 1) * EVERY

    def close(self) -> None:
        """Take the moving line away."""
        if self._stream and self._live:
            self._stream.write(ERASE)
            self._stream.flush()

    def _errors(self, gpu: int) -> str:
        wrong = self._wrong[gpu]
        return f"{wrong} WRONG BITS" if wrong else "no errors"


def _rate(state: Mapping[str, Any]) -> str:
    """Give the rate, clock, power and temperature of one round."""
    readings = state.get("readings") or ()
    last: Mapping[str, Any] = readings[-1] if readings else {}
    told = (
        f"{state['amount'] / state['each'] / 1e12:.4g} TFLOP/s" if state.get("amount") and state.get("each") else "",
        f"{state['clock']:.0f} MHz" if state.get("clock") else "",
        f"{last['watts']:.0f} W" if last.get("watts") else "",
        f"{last['gpu_c']:.0f} °C" if last.get("gpu_c") else "",
    )
    return ", ".join(filter(None, told))
