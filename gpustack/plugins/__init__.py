"""Plugins: extensions by a site or a vendor, installed beside gpustack or as a folder, each under its own name.

A plugin is a folder with ``plugin.toml``: systems with their probes, facts, rows, messages, findings; ``rules.py`` for
what no row can say, and ``policies/``. An installed one names its package as an entry point ``gpustack.plugins``.
Everything in it is called ``NAME/…``, so that it adds and never replaces. An invalid plugin is skipped entirely and
reported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Unseen
    from gpustack.plugins.reading import Plugin

GROUP, FILE, VARIABLE = "gpustack.plugins", "plugin.toml", "GPUSTACK_PLUGINS"


@dataclass(slots=True)
class Loaded:
    """The plugins in use in this process, and why others are not."""

    plugins: list[Plugin] = field(default_factory=list)
    faults: list[Unseen] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


LOADED = Loaded()


def load(folders: Sequence[str | os.PathLike[str]] | None = None) -> Sequence[str | os.PathLike[str]] | None:
    """Load the plugins in these folders, those that the variable names, and all installed ones, each once.

    Return the folders. Raises UsageError for a folder that is not a plugin; any other problem is among the faults.
    """
    named = [os.fspath(one) for one in folders or ()]
    for one in named:
        if not Path(one, FILE).is_file():
            raise UsageError(f"--plugins {one}: a plugin is a folder with {FILE}, which is missing")
    named += [one for one in os.environ.get(VARIABLE, "").split(os.pathsep) if one]
    found = [*((one, Path(one).absolute()) for one in named), *_installed()]
    new = [(origin, folder) for origin, folder in found if str(folder) not in LOADED.places]
    if new:
        from gpustack.model.facts import Unseen  # noqa: PLC0415 - nobody pays for plugins who has none
        from gpustack.plugins.reading import take  # noqa: PLC0415

        for origin, folder in new:
            LOADED.places.append(str(folder))
            plugin, why = take(folder, origin, LOADED.plugins)
            if plugin:
                LOADED.plugins.append(plugin)
            else:
                remedy = f"correct {folder / FILE}, or remove the plugin"
                LOADED.faults.append(Unseen(what=f"plugin {origin}", why=why, enable_by=remedy))
    return folders


def folders() -> tuple[str, ...]:
    """Return the folders of the plugins in use, so that another process can load them."""
    return tuple(one for one in LOADED.places if Path(one, FILE).is_file())


def noted(facts: Facts) -> Facts:
    """Return the facts with a "not checked" entry for each plugin that could not be loaded."""
    return replace(facts, not_seen=(*facts.not_seen, *LOADED.faults)) if LOADED.faults else facts


def policy(path: Path) -> Path:
    """Return the policy file that a plugin provides under this name (``site/strict``), else the path unchanged."""
    found = (one.policies.get(str(path)) for one in LOADED.plugins)
    return path if path.exists() else next(filter(None, found), path)


def listed() -> Iterator[str]:
    """Yield a line for each plugin, with its contents, and for each that was skipped."""
    for one in LOADED.plugins:
        brings = ", ".join(one.brings) or "it provides nothing"
        yield f"plugin {one.name} {one.version} ({one.origin}): {one.summary}; {brings}"
    for fault in LOADED.faults:
        yield f"{fault.what} is left out: {fault.why}"


def _installed() -> Iterator[tuple[str, Path]]:
    """Yield the installed plugins by the names of their entry points; none is imported."""
    if not any(_names_some(entry) for entry in dict.fromkeys(sys.path)):
        return
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes longer than a look at the files
    from importlib.util import find_spec  # noqa: PLC0415

    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            spec = find_spec(point.value)
            places: Iterable[str] = (spec.submodule_search_locations if spec else None) or ()
        except Exception:  # noqa: BLE001 - a package of someone else, whose parent is imported to find it
            places = ()
        yield point.name, next(map(Path, places), Path(point.value))


def _names_some(entry: str) -> bool:
    """Return whether anything installed in a folder declares plugins."""
    try:
        with os.scandir(entry or ".") as held:
            about = [one.path for one in held if one.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    return any(_names(f"{one}/entry_points.txt") for one in about)


def _names(file: str) -> bool:
    try:
        with open(file, "rb") as text:  # noqa: PTH123 - a hundred of them are opened at each start
            return f"[{GROUP}]".encode() in text.read(100_000)
    except OSError:
        return False
