"""What is displayed while a benchmark runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from gpustack.model.bench import Result

BAR = 24
ERASE = "\r\x1b[K"
EVERY = 10.0  # seconds between two lines of a log


class Progress:
    """The display while benchmarks run; this one shows nothing."""

    def started(self, bench: str, number: int, of: int) -> None:
        """Show the start of this benchmark, with its number and the total."""

    def moved(self, part: float) -> None:
        """Show its progress, from 0 to 1."""

    def finished(self, result: Result, number: int, of: int) -> None:
        """Show its result."""

    def close(self) -> None:
        """Stop displaying."""


class Lines(Progress):
    """One line for each finished benchmark: for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this stream."""
        self._stream = stream

    def finished(self, result: Result, number: int, of: int) -> None:
        """Write the line."""
        self._stream.write(f"[{number}/{of}] {said(result)}\n")
        self._stream.flush()


class Live(Lines):
    """The same lines, with a moving one below that shows the remaining time; for terminals."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this terminal."""
        super().__init__(stream)
        self._begun = time.monotonic()
        self._at = ("", 0, 1)

    def started(self, bench: str, number: int, of: int) -> None:
        """Draw the line of a benchmark that begins."""
        self._at = (bench, number, of)
        self.moved(0.0)

    def moved(self, part: float) -> None:
        """Redraw the line."""
        bench, number, of = self._at
        done = (number - 1 + part) / of
        full = round(BAR * done)
        self._stream.write(f"{ERASE}{'#' * full}{'-' * (BAR - full)} [{number}/{of}] {bench}{self._left(done)}")
        self._stream.flush()

    def finished(self, result: Result, number: int, of: int) -> None:
        """Put the result above the moving line."""
        self._stream.write(ERASE)
        super().finished(result, number, of)

    def close(self) -> None:
        """Remove the moving line."""
        self._stream.write(ERASE)
        self._stream.flush()

    def _left(self, done: float) -> str:
        spent = time.monotonic() - self._begun
        return f", about {spent / done - spent:.0f} s left" if done > 0 else ""


def shown_on(stream: TextIO) -> Progress:
    """Return the display that suits a stream."""
    return Live(stream) if stream.isatty() else Lines(stream)


def said(result: Result) -> str:
    """Return a result in one line: figure, share of the limit, rating and the first reason."""
    figure = "" if result.value is None else f" {result.value:.4g} {result.unit}"
    part = "" if result.ratio is None else f", {result.ratio:.0%} of the limit"
    why = f" ({result.why[0]})" if result.why else ""
    where = result.place() if result.device or result.gpus else ""
    return f"{result.id}{where}{figure}{part}: {result.verdict.value}{why}"


class Ticker:
    """Shows round by round what each GPU does, and the remaining time."""

    def __init__(self, stream: TextIO | None, seconds: float) -> None:
        """Write to this stream, or nowhere, for a load of this many seconds."""
        self._stream, self._seconds = stream, seconds
        self._live = bool(stream and stream.isatty())
        self._next = 0.0
        self._wrong: dict[int, int] = {}
        self._now: dict[int, str] = {}

    def told(self, gpu: int, state: Mapping[str, Any]) -> None:
        """Show one round of one GPU beside the others; a malformed line is shown as far as possible."""
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
        """Remove the moving line."""
        if self._stream and self._live:
            self._stream.write(ERASE)
            self._stream.flush()

    def _errors(self, gpu: int) -> str:
        wrong = self._wrong[gpu]
        return f"{wrong} WRONG BITS" if wrong else "no errors"


def _rate(state: Mapping[str, Any]) -> str:
    """Return the rate, clock, power and temperature of one round."""
    readings = state.get("readings") or ()
    last: Mapping[str, Any] = readings[-1] if readings else {}
    told = (
        f"{state['amount'] / state['each'] / 1e12:.4g} TFLOP/s" if state.get("amount") and state.get("each") else "",
        f"{state['clock']:.0f} MHz" if state.get("clock") else "",
        f"{last['watts']:.0f} W" if last.get("watts") else "",
        f"{last['gpu_c']:.0f} °C" if last.get("gpu_c") else "",
    )
    return ", ".join(filter(None, told))
