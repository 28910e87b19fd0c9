"""Malformed inputs: texts, JSON, bytes and whole machines, derived from real ones or made up."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.told import ToldHost, load
from tools import cases

if TYPE_CHECKING:
    import builtins
    import random

REPO = Path(__file__).resolve().parent.parent
MOST_TEXT = 20_000
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    float("inf"),
    2**63,
    10**400,
    -(10**400),
    "",
    "\x00",
    "\ud800",
    "9" * 400,
    [],
    {},
    [[]],
    {"": None},
    "present",
    "[" * 300,
)
BITS = (
    "\x1b[2J",
    "\u202e",
    "\x00",
    "\r\n",
    "Xid (PCI:0000:65:00): 79",
    "::error::",
    "%s%n",
    "\ufffd",
    "=" * 50,
    "(" * 60,
    "9" * 400,
    "0x" + "f" * 80,
    "1e999",
    "²٣",
    "../" * 40,
)
ERRORS = (errno.EACCES, errno.EIO, errno.ELOOP, errno.ESTALE, errno.ENAMETOOLONG)
NAMES = (
    *("0000:01:00.0", "nvidia", "nvidia0", "card0", "renderD128", "1", "70", "node0", "mem_banks", "0", "eth0", "x"),
    *("libcuda.so.1", "libcudart.so.13", "libcudnn.so.9.10.2", "libnccl.so.2", "cuda-13.0", "cuda", "rocm-6.4.0"),
    *("torch-2.9.0+cu128.dist-info", "jax-0.8.0.dist-info", "torch", "python3.12", "site-packages", "pyvenv.cfg"),
    *("nvidia.json", "nvidia.yaml", "nvidia.icd", "kernel.json", "x.conf", "initstate", "version", "\ud800", "\x1b[2J"),
)
LIBRARY = load("host.py")["Library"]
PROGRAM = (REPO / "benchmarks" / "odd_inputs.py").read_bytes()[:2048]


TEXTS = [text[:MOST_TEXT] for case in cases.every() for text in case.inputs.values()]
SNAPSHOTS = [json.loads(path.read_text("utf-8")) for path in sorted((REPO / "examples").glob("*.json"))]


def spoilt(dice: random.Random, text: str) -> str:
    """Return a text that was truncated, doubled, joined with another or sprinkled with odd characters."""
    for _ in range(dice.randint(1, 4)):
        at, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        text = dice.choice((
            text[:at] + text[end:],
            text[:at] + text[at:end] * 2 + text[end:],
            text[:at] + dice.choice(BITS) + text[at:],
            text[:at] + dice.choice(TEXTS)[:2000],
            "".join(map(chr, dice.choices(range(1, 0x2FF), k=40))) + text[at:end],
        ))[:MOST_TEXT]  # fmt: skip
    return text


def swapped(dice: random.Random, value: Any, often: float) -> Any:  # noqa: ANN401 - JSON
    """Return JSON with some values left out or replaced by others."""
    if dice.random() < often:
        return dice.choice(ODD)
    if isinstance(value, dict):
        kept = {name: swapped(dice, held, often) for name, held in value.items() if dice.random() > often / 2}
        return kept if dice.random() > often else {**kept, dice.choice(BITS): dice.choice(ODD)}
    return [swapped(dice, held, often) for held in value] if isinstance(value, list) else value


def bent(dice: random.Random, data: bytes) -> bytes:
    """Return bytes of which some are changed, and the end perhaps missing."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 12)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)[: dice.randint(0, len(changed) * 2)]


class OddHost(ToldHost):
    """A machine where any file may exist or be unreadable, with any content; so may folders, programs and libraries."""

    def __init__(self, dice: random.Random, row: dict[str, Any], real: Iterable[str]) -> None:
        super().__init__(row=row, environ={"PATH": "/usr/bin", "HOME": "/root", "LD_LIBRARY_PATH": "/x:/y"})
        self.dice, self.known = dice, tuple(real)
        self.environment = dice.choice((None, "/env/bin/python"))
        self.folders: dict[str, builtins.list[str]] = {}

    def _held(self, path: str) -> bytes | OSError:
        """Return the content of a file, the same each time."""
        if path not in self.files:
            kind = self.dice.random()
            missing = OSError(errno.ENOENT, "No such file or directory")
            closed = OSError(self.dice.choice(ERRORS), "so it is")
            self.files[path] = missing if kind < 0.4 else closed if kind < 0.5 else self._content(path)  # noqa: PLR2004
        held = self.files[path]
        return held.encode("utf-8", "replace") if isinstance(held, str) else held

    def _content(self, path: str) -> bytes | str:
        if path.endswith(".json"):
            return json.dumps(swapped(self.dice, self.dice.choice(SNAPSHOTS)["components"][:2], 0.1))
        return self.dice.choice((
            lambda: spoilt(self.dice, self.dice.choice(self.known)),
            lambda: spoilt(self.dice, self.dice.choice(TEXTS)),
            lambda: bent(self.dice, PROGRAM),
            lambda: self.dice.choice(BITS),
        ))()  # fmt: skip

    def bytes(self, path: str, limit: int = 1 << 20, offset: int = 0) -> bytes | None:
        """Return the content of the file."""
        held = self._held(path)
        if isinstance(held, OSError):
            self._note("read", path, held)
            return None
        self.log.append(("read", path, "ok"))
        return held[offset : offset + limit]

    def stat(self, path: str) -> dict[str, Any] | None:
        """Return what the file may be."""
        held = self._held(path)
        if isinstance(held, OSError) and held.errno == errno.ENOENT and path not in self.folders:
            self._note("stat", path, held)
            return None
        size = 0 if isinstance(held, OSError) else len(held)
        kind = self.dice.choice(("file", "dir", "char", None))
        return {"mode": "0o644", "kind": kind, "uid": 0, "gid": self.dice.choice((0, 2**32)), "major": 195, "minor": 0,
                "size": size, "readable": True, "writable": False}  # fmt: skip

    def list(self, folder: str, most: int | None = None) -> builtins.list[str]:
        """Return any names, the same each time."""
        if folder not in self.folders:
            count = self.dice.choice((0, 0, 1, 3, 9)) if folder.count("/") < 12 else 0  # noqa: PLR2004 - no tree is endless
            self.folders[folder] = sorted({self.dice.choice(NAMES) for _ in range(count)})
        return self.folders[folder][:most]

    def glob(self, pattern: str) -> builtins.list[str]:
        """Return paths that match, sometimes."""
        made = (re.sub(r"\[[^]]*\]|\*+|\?", lambda _: self.dice.choice(NAMES), pattern) for _ in range(3))
        return sorted(set(made)) if self.dice.random() < 0.5 else []  # noqa: PLR2004

    def link(self, path: str) -> str | None:
        """Return the target of a link, which may be anything."""
        return self.dice.choice((None, path, "../x", self.dice.choice(BITS)))

    def real(self, path: str) -> str:
        """Return the path unchanged."""
        return path

    def path(self, tool: str) -> str | None:
        """Return the path of a command, if it is installed."""
        return self.dice.choice((None, f"/usr/bin/{tool}"))

    def run(self, *argv: str, seconds: float | None = None) -> dict[str, Any] | None:  # noqa: ARG002 - told at once
        """Return anything that a command may print, or time out."""
        if self.dice.random() < 0.2:  # noqa: PLR2004
            raise TimeoutError(argv[0])
        if self.dice.random() < 0.2:  # noqa: PLR2004
            return None
        out = spoilt(self.dice, self.dice.choice((*self.known, *TEXTS)))
        return {"code": self.dice.choice((0, 1, -11)), "out": out, "err": self.dice.choice(BITS)}

    def library(self, name: str) -> Any:  # noqa: ANN401 - a vendor's library
        """Return a library, or report that there is none."""
        if self.dice.random() < 0.5:  # noqa: PLR2004
            raise OSError(f"{name}: {self.dice.choice(BITS)}")
        return LIBRARY(self, OddLibrary(self.dice))

    def mapped(self, word: str) -> builtins.list[str]:
        """Return files that may be mapped."""
        return [f"/usr/lib/{word}.so.1", f"/x/{word}.so.{self.dice.choice(BITS)}"][: self.dice.randrange(3)]


class OddLibrary:
    """A library that has some functions and lacks others; each returns any number."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.missing: dict[str, bool] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function, or what a module is asked for
        if self.missing.setdefault(name, self.dice.random() < 0.2):  # noqa: PLR2004
            raise AttributeError(name)
        return _Function(lambda *_: self.dice.choice((0, 0, 0, 1, 3, 100, 999, -1, 2**31)))


class _Function(SimpleNamespace):
    """A function of a library, whose type can be set."""

    def __init__(self, answer: Callable[..., int]) -> None:
        super().__init__(answer=answer)

    def __call__(self, *args: object) -> int:
        return int(self.answer(*args))
