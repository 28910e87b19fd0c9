"""A real headless Chromium, driven through a pipe in its own protocol: what a page really looks like."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-sandbox",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--no-first-run",
)
CHANNELS = {0: 1, 2: 3, 6: 4}  # by a PNG's colour type


def program() -> str | None:
    """Return the browser of this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = count(1)
        self._rest = b""
        self._session: str | None = None
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self("Page.enable")

    def __call__(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        number = next(self._numbers)
        said = {"id": number, "method": method, "params": parameters}
        more = {"sessionId": self._session} if self._session else {}
        os.write(self._commands, json.dumps({**said, **more}).encode() + b"\0")
        answer = next(one for one in self._messages() if one.get("id") == number)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def show(self, path: Path, width: int, height: int = 900, *, dark: bool = False, media: str = "") -> None:
        """Load a file on a screen of this width, and wait until it has loaded."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self("Page.navigate", url=path.as_uri())
        next(one for one in self._messages() if one.get("method") == "Page.loadEventFired")

    def ask(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page answers
        """Return the value of an expression in the page."""
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def promised(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page answers
        """Return the result of an expression that promises a JSON string."""
        said = self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return json.loads(said["result"]["value"])

    def shot(self, width: int, height: int, scale: float = 1.0) -> bytes:
        """Return a PNG of the upper part of the page."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        said = self("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(said["data"])

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._rest:
                message, _, self._rest = self._rest.partition(b"\0")
                yield json.loads(message)
            read = os.read(self._answers, 1 << 16)
            assert read, "the browser has gone"
            self._rest += read


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """Return a tab of a browser that keeps its profile in this folder."""
    there, commands = os.pipe()
    answers, back = os.pipe()
    name = program()
    assert name is not None

    def placed() -> None:
        spare = fcntl.fcntl(there, fcntl.F_DUPFD, 10), fcntl.fcntl(back, fcntl.F_DUPFD, 10)
        for number, held in enumerate(spare, start=3):
            os.dup2(held, number)
            os.close(held)

    browser = subprocess.Popen(
        [name, *FLAGS, f"--user-data-dir={folder}"],
        preexec_fn=placed,  # noqa: PLW1509 - the browser reads from 3 and writes to 4; no thread runs here yet
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(there)
    os.close(back)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        browser.terminate()
        browser.wait(20)


def pixels(png: bytes) -> list[int]:
    """Return the values of a PNG's pixels, all its channels."""
    at, packed, width, channels = 8, b"", 0, 3
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, _, _, colours = struct.unpack(">IIBB", data[:10])
            channels = CHANNELS[colours]
        packed += data if kind == b"IDAT" else b""
        at += size + 12
    return _unfiltered(zlib.decompress(packed), width * channels, channels)


def _unfiltered(raw: bytes, row: int, channels: int) -> list[int]:
    """Undo PNG's row filter: a value is stored as its difference from those to its left and above it."""
    made: list[int] = []
    above = [0] * row
    for start in range(0, len(raw), row + 1):
        kind, line = raw[start], list(raw[start + 1 : start + 1 + row])
        for at in range(row):
            left = line[at - channels] if at >= channels else 0
            corner = above[at - channels] if at >= channels else 0
            guesses = (0, left, above[at], (left + above[at]) // 2, _nearest(left, above[at], corner))
            line[at] = (line[at] + guesses[kind]) % 256
        made += line
        above = line
    return made


def _nearest(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))
