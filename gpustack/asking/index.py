"""The package index, asked through the user's own pip: with the index, proxies and credentials that pip is set to."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from gpustack.door import Door
from gpustack.errors import NothingSeenError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from typing import IO

QUIET = ("--disable-pip-version-check", "--no-input", "--no-color")
LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the wheel of one release says: its file, the Pythons it takes and what it requires."""

    file: str
    requires_python: str | None
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The index; every question takes ``seconds`` at most, and nothing is installed or kept."""

    seconds: float = 60.0
    door: Door = field(default_factory=Door)

    def versions(self, name: str) -> tuple[Version, ...]:
        """Give the final releases of a distribution, oldest first; raises NothingSeenError where nobody answers."""
        said = LISTED.search(self._ask("index", "versions", name))
        found = []
        for text in (said[1] if said else "").split(","):
            with suppress(InvalidVersion):
                found.append(Version(text.strip()))
        return tuple(sorted(one for one in found if not one.is_prerelease))

    def metadata(self, name: str, version: str) -> Metadata:
        """Give what the wheel of a release says; raises NothingSeenError where none can be had here."""
        dry = ("--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--quiet", "--report", "-")
        said = self._ask("install", *dry, f"{name}=={version}")
        try:
            found = json.loads(said[said.index("{") :])["install"][0]
            metadata, address = found["metadata"], found["download_info"]["url"]
            return Metadata(
                file=str(address).rpartition("/")[2],
                requires_python=metadata.get("requires_python"),
                requires=tuple(metadata.get("requires_dist", ())),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise NothingSeenError(f"pip's report on {name} {version} could not be read: {error}") from error

    def _ask(self, *words: str) -> str:
        """Give what pip prints; raises NothingSeenError with its last line where it fails or takes too long."""
        try:
            child = self.door.start((sys.executable, "-m", "pip", *words, *QUIET), _loud(os.environ))
        except OSError as error:
            raise NothingSeenError(f"pip cannot be started: {error}") from error
        told = _both(child, self.seconds)
        if told is None:
            self.door.kill(child)
            self.door.release(child)
            raise NothingSeenError(f"the package index did not answer within {self.seconds:.0f} s")
        out, err = told
        if child.returncode:
            raise NothingSeenError(f"the package index could not be asked: {_last(err) or _last(out)}")
        return out


def _loud(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Give the user's settings of pip without those that change how much it prints."""
    return {name: value for name, value in environ.items() if name not in {"PIP_QUIET", "PIP_VERBOSE"}}


def _both(child: subprocess.Popen[bytes], seconds: float) -> tuple[str, str] | None:
    """Give all that a child prints on both outputs until it ends, or None where that takes too long."""
    held: dict[str, bytes] = {}
    readers = [
        threading.Thread(target=_drain, args=(name, stream, held), daemon=True)
        for name, stream in (("out", child.stdout), ("err", child.stderr))
        if stream
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(seconds)
    if any(reader.is_alive() for reader in readers):
        return None
    child.wait(seconds)
    return held.get("out", b"").decode("utf-8", "replace"), held.get("err", b"").decode("utf-8", "replace")


def _drain(name: str, stream: IO[bytes], held: dict[str, bytes]) -> None:
    os.set_blocking(stream.fileno(), True)
    with stream:
        held[name] = stream.read()


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "").removeprefix("ERROR: ")
