"""A host made of given files, links, commands and libraries. The fake that probes get in tests."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests import schema

REPO = Path(__file__).resolve().parent.parent


def load(name: str) -> dict[str, Any]:
    """Return the names that a file under ``probes/`` defines, run as the probe runner runs it."""
    path = REPO / "probes" / name
    names: dict[str, Any] = {"__name__": "gpustack_probe", "__file__": str(path)}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)  # noqa: S102 - our own probe, as the runner runs it
    names.update({one: schema.answering(name, one, names[one]) for one in ("probe", "exercise") if one in names})
    return names


if TYPE_CHECKING:
    import builtins

    from probes.host import Host as Host  # noqa: PLC0414 - given on to the tests
    from probes.host import Library
else:
    _NAMES = load("host.py")
    Host, Library = _NAMES["Host"], _NAMES["Library"]


class ToldHost(Host):
    """A machine made of dictionaries.

    ``files`` maps a path to text, bytes, or an OSError to raise; ``links`` a path to the link's target; ``devices`` a
    path to what ``stat`` returns, as a dictionary; ``commands`` a command line to output, (code, output) or a timeout;
    ``libraries`` and ``modules`` a name to an object with the functions called, or the exception to raise;
    ``python`` what this Python reports about itself where that differs from the one running the test.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes | OSError] | None = None,
        *,
        links: Mapping[str, str] | None = None,
        devices: Mapping[str, dict[str, Any]] | None = None,
        commands: Mapping[str, str | tuple[int, str] | Exception] | None = None,
        environ: Mapping[str, str] | None = None,
        libraries: Mapping[str, object] | None = None,
        modules: Mapping[str, object] | None = None,
        maps: Iterable[str] = (),
        row: dict[str, Any] | None = None,
        python: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(root="/", environ=dict(environ or {}))
        self.files = dict(files or {})
        self.links = dict(links or {})
        self.devices = dict(devices or {})
        self.commands = dict(commands or {})
        self.libraries = dict(libraries or {})
        self.modules = dict(modules or {})
        self.maps = tuple(maps)
        self.row = row or {}
        self.python = dict(python or {})

    def _names(self) -> set[str]:
        names = {*self.files, *self.links, *self.devices}
        return names | {str(parent) for name in names for parent in Path(name).parents}

    def real(self, path: str) -> str:
        """Follow the given links, folder by folder."""
        for _ in range(40):
            hit = next((p for p in [Path(path), *Path(path).parents] if str(p) in self.links), None)
            if hit is None:
                return path
            said = self.links[str(hit)]
            path = os.path.normpath(hit.parent / said / os.path.relpath(path, hit))
        return path

    def link(self, path: str) -> str | None:
        """Return the given link."""
        return self.links.get(path)

    def bytes(self, path: str, limit: int = 1 << 20, offset: int = 0) -> bytes | None:
        """Return the given content."""
        held = self.files.get(self.real(path), OSError(errno.ENOENT, "No such file or directory"))
        if isinstance(held, OSError):
            self._note("read", path, held)
            return None
        self.log.append(("read", path, "ok"))
        data = held.encode() if isinstance(held, str) else held
        return data[offset : offset + limit]

    def stat(self, path: str) -> dict[str, Any] | None:
        """Return the given data of a device, or what follows from a given file or folder."""
        real = self.real(path)
        if real not in self._names():
            self._note("stat", path, OSError(errno.ENOENT, "No such file or directory"))
            return None
        held = self.files.get(real, "")
        kind = "file" if real in self.files else "dir"
        plain = {"mode": "0o644", "kind": kind, "uid": 0, "gid": 0, "major": 0, "minor": 0}
        size = 0 if isinstance(held, OSError) else len(held)
        open_ = not isinstance(held, OSError)
        return {**plain, "size": size, "readable": open_, "writable": open_, **self.devices.get(real, {})}

    def exists(self, path: str) -> bool:
        """Return whether it was given."""
        return self.stat(path) is not None

    def glob(self, pattern: str) -> builtins.list[str]:
        """Return the given names, links included, that match; a star stops at a slash."""
        star = re.compile(fnmatch.translate(pattern).replace(".*", "[^/]*"))
        return sorted(name for name in self._names() if star.fullmatch(name))

    def list(self, folder: str, most: int | None = None) -> builtins.list[str]:
        """Return the given names in a folder."""
        real = self.real(folder)
        inside = {Path(name).name for name in self._names() if str(Path(name).parent) == real and name != "/"}
        return sorted(inside)[:most]

    def path(self, tool: str) -> str | None:
        """Return a path for every given command."""
        found = f"/usr/bin/{tool}"
        return found if any(line.split()[0] in {tool, found} for line in self.commands) else None

    def run(self, *argv: str, seconds: float | None = None) -> dict[str, Any] | None:  # noqa: ARG002 - told at once
        """Return the given output of a command line."""
        said = self.commands.get(" ".join(argv))
        if said is None:
            self.log.append(("run", " ".join(argv), "missing"))
            return None
        if isinstance(said, Exception):
            raise said
        code, out = said if isinstance(said, tuple) else (0, said)
        self.log.append(("run", " ".join(argv), f"exit {code}"))
        return {"code": code, "out": out, "err": ""}

    def _told(self, held: Mapping[str, object], name: str, missing: Exception) -> Any:  # noqa: ANN401 - a vendor's library
        found = held.get(name, missing)
        if isinstance(found, Exception):
            raise found
        loaded = SimpleNamespace(**found) if isinstance(found, dict) else found
        return Library(self, loaded)

    def library(self, name: str) -> Any:  # noqa: ANN401 - a vendor's library
        """Return the given library."""
        return self._told(self.libraries, name, OSError(f"{name}: cannot open shared object file"))

    def module(self, name: str) -> Any:  # noqa: ANN401 - a vendor's module
        """Return the given module."""
        return self._told(self.modules, name, ModuleNotFoundError(f"No module named {name!r}"))

    def interpreter(self) -> dict[str, Any]:
        """Return what this Python reports about itself, with the given values in its place."""
        return {**super().interpreter(), **self.python}

    def mapped(self, word: str) -> builtins.list[str]:
        """Return the given mapped files."""
        return sorted(path for path in self.maps if word in Path(path).name)

    def apart_all(self, works: Iterable[Callable[[], Any]], seconds: float | None = None) -> builtins.list[Any]:  # noqa: ARG002 - told at once
        """Run them in this process: an exception becomes what a fork would have reported."""
        answers: builtins.list[Any] = []
        for work in works:
            try:
                answers.append(work())
            except Exception as error:  # noqa: BLE001, PERF203 - a fork reports whatever ended its work
                answers.append(OSError(f"{type(error).__name__}: {error}"))
        return answers
