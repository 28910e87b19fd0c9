"""What is made once per session, by whichever of the processes running the tests side by side needs it first."""

from __future__ import annotations

import fcntl
import os
import pickle
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

Thing = TypeVar("Thing")


def place(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this session share."""
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def folder(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """Return a folder of this name, filled once; if filling fails, the next caller tries again."""
    made = place(factory) / f"{crc32(name.encode()):08x}"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.mkdir(exist_ok=True)
        if not (whole := made.with_suffix(".whole")).exists():
            fill(made)
            whole.touch()
    return made


def worked_out(factory: pytest.TempPathFactory, name: str, work: Callable[[], Thing]) -> Thing:
    """Return the result of this work, done once."""
    made = folder(factory, name, lambda where: (where / "it").write_bytes(pickle.dumps(work())))
    thing: Thing = pickle.loads((made / "it").read_bytes())  # noqa: S301 - our own, of this session
    return thing
