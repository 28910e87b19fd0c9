"""The package index, asked through the user's own pip: with the index, proxies and credentials that pip is set to."""

from __future__ import annotations

import json
import os
import re
import selectors
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from gpustack.collect import isolation
from gpustack.collect.subprocesses import Door, ended
from gpustack.errors import NothingSeenError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

PATIENCE = 60.0  # seconds for one question
MOST_OUTPUT = 16 << 20
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
    """The index; all questions together end at ``deadline`` (of the door's clock), and nothing is installed or kept."""

    deadline: float
    door: Door = field(default_factory=Door)

    def versions(self, name: str) -> tuple[Version, ...]:
        """Return the final releases of a distribution, oldest first; raises NothingSeenError where nobody answers."""
        said = LISTED.search(self._ask("index", "versions", name))
        found = []
        for text in (said[1] if said else "").split(","):
            with suppress(InvalidVersion):
                found.append(Version(text.strip()))
        return tuple(sorted(one for one in found if not one.is_prerelease))

    def metadata(self, name: str, version: str) -> Metadata:
        """Return what the wheel of a release says; raises NothingSeenError where none can be had here."""
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
        """Return what pip prints; raises NothingSeenError with its last line where it fails or takes too long."""
        until = min(self.deadline, self.door.now() + PATIENCE)
        if self.door.now() >= until:
            raise NothingSeenError("the time was up before the package index was asked")
        try:
            child = self.door.start((*isolation.argv("pip"), *words, *QUIET), _loud(os.environ))
        except OSError as error:
            raise NothingSeenError(f"pip cannot be started: {error}") from error
        try:
            out, err = self._hear(child, until)
        finally:
            if child.poll() is None:
                self.door.kill(child)
            for pipe in filter(None, (child.stdout, child.stderr)):
                pipe.close()
            self.door.release(child)
        if child.returncode:
            raise NothingSeenError(f"the package index could not be asked: {_last(err) or _last(out)}")
        return out

    def _hear(self, child: subprocess.Popen[bytes], until: float) -> tuple[str, str]:
        """Return what a child prints on both outputs; raises NothingSeenError for what is too slow or too much."""
        begun = self.door.now()
        said: dict[IO[bytes], bytearray] = {pipe: bytearray() for pipe in (child.stdout, child.stderr) if pipe}
        with selectors.DefaultSelector() as selector:
            for pipe in said:
                selector.register(pipe, selectors.EVENT_READ, pipe)
            while selector.get_map() and self.door.now() < until:
                for key, _ in selector.select(until - self.door.now()):
                    part = key.data.read(1 << 16)
                    said[key.data] += part or b""
                    if part == b"":
                        selector.unregister(key.data)
                if sum(map(len, said.values())) > MOST_OUTPUT:
                    raise NothingSeenError(f"pip printed over {MOST_OUTPUT >> 20} MiB and was stopped")
            if selector.get_map() or ended(child, max(0.0, until - self.door.now())) is None:
                raise NothingSeenError(f"the package index did not answer within {until - begun:.0f} s")
        out, err = (held.decode("utf-8", "replace") for held in said.values())
        return out, err


def _loud(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the user's settings of pip without those that change how much it prints."""
    return {name: value for name, value in environ.items() if name not in {"PIP_QUIET", "PIP_VERBOSE"}}


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "").removeprefix("ERROR: ")
