"""Every other Python of this machine: found by a child that lists the usual folders, each place with a time limit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpustack import assets
from gpustack.collect.catalogue import question
from gpustack.collect.probe_results import parse
from gpustack.collect.workers import Task, ask
from gpustack.matrix.subjects.spans import numbers
from gpustack.model.facts import Environment, Unseen

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from gpustack.collect.subprocesses import Door
    from gpustack.model.facts import Component, Instance

MOST = 64
OLDEST = (3, 8)
SECONDS = 2.0  # for one place, whose folders may hang
PLACES = (
    ("given", "the Pythons to look at"),
    ("here", "environments in this folder"),
    ("home", "environments in the home folder"),
    ("conda", "environments of conda"),
    ("pipx", "environments of pipx"),
    ("uv", "tools of uv"),
    ("managed", "Pythons of uv and pyenv"),
    ("jupyter", "kernels of Jupyter"),
    ("system", "Pythons of the system"),
)
# What tells where tools keep their environments, beside what every probe may see.
TELLING = """WORKON_HOME PIPX_HOME UV_TOOL_DIR UV_PYTHON_INSTALL_DIR PYENV_ROOT MAMBA_ROOT_PREFIX JUPYTER_PATH HOME PATH
CONDA_EXE CONDA_ENVS_PATH CONDA_ENVS_DIRS XDG_DATA_HOME""".split()  # noqa: SIM905 - words read better than a column of quotes
GUESS = re.compile(r"(?:/\.?venv)?/(?:pyvenv\.cfg|conda-meta)$|/\.?venv$")
ANEW = {
    "pipx": "pipx reinstall-all",
    "uv tool": "uv tool install --reinstall NAME",
    "conda": "conda install --prefix {prefix} python",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What was found: environments to look at, what could not be looked at, and the Jupyter kernels of each Python."""

    environments: tuple[Environment, ...] = ()
    not_seen: tuple[Unseen, ...] = ()
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look(
    chosen: Sequence[Environment], environ: Mapping[str, str], folder: str | None, door: Door, deadline: float
) -> Surroundings:
    """Give every Python but the chosen ones, each once; ``folder`` is where somebody is, None where it is deleted."""
    pythons = [one.python for one in chosen]
    systems = tuple(
        question(name, SECONDS, probe="pythons.py", place=place, folder=folder, pythons=list(pythons))
        for place, name in PLACES
        if folder or place != "here"
    )
    told = {name: environ[name] for name in TELLING if name in environ}
    argv = (sys.executable, "-I", "-S", str(assets.RUNNER))
    components, unseen = parse(tuple(ask([Task(argv=argv, environ=told, systems=systems)], door, deadline)))
    given, *others = components
    known = {copy.key for copy in given.instances}
    copies = [copy for component in others for copy in component.instances]
    first = {copy.key: copy for copy in reversed(copies) if copy.key not in known}
    kept, not_seen = sort_out([first[key] for key in dict.fromkeys(copy.key for copy in copies) if key in first])
    more = kept[MOST:]
    return Surroundings(
        environments=tuple(replace(one, found=True) for one in kept[:MOST]),
        not_seen=(*denied(unseen), *not_seen, *_left_out(more)),
        kernels=_kernels([*given.instances, *copies], {copy.key: copy.path or "" for copy in given.instances}),
    )


def sort_out(copies: Sequence[Instance]) -> tuple[list[Environment], list[Unseen]]:
    """Give the Pythons that can be looked at, and why the others cannot, each once."""
    environments, not_seen = [], []
    for copy in copies:
        why = _why_not(copy)
        if why:
            not_seen.append(why)
        else:
            kind, prefix = str(copy.facts.get("kind")), str(copy.facts.get("prefix"))
            environments.append(
                Environment(python=copy.path or copy.key, kind=kind, version=copy.version, prefix=prefix)
            )
    return environments, not_seen


def doubles(components: Sequence[Component], found: AbstractSet[str]) -> set[str]:
    """Give those of the Pythons found that turn out to be a chosen one, which a script such as pyenv's started."""
    python = next((one for one in components if one.id == "python"), None)
    copies = python.instances if python else ()
    marks = {copy.environment or "": (copy.facts.get("prefix"), copy.version) for copy in copies}
    chosen = {mark for environment, mark in marks.items() if environment not in found}
    return {environment for environment, mark in marks.items() if environment in found and mark in chosen}


def noted(components: Sequence[Component], kernels: Mapping[str, tuple[str, ...]]) -> tuple[Component, ...]:
    """Give the components with the Jupyter kernels of each Python among what is known of it."""
    return tuple(
        replace(one, instances=tuple(_with_kernels(copy, kernels) for copy in one.instances))
        if one.id == "python" and kernels
        else one
        for one in components
    )


def _why_not(copy: Instance) -> Unseen | None:
    """Give why a Python cannot be looked at: its base is gone, or it is too old for our probes."""
    kind, broken = str(copy.facts.get("kind")), copy.facts.get("broken")
    python, prefix = copy.path or copy.key, str(copy.facts.get("prefix"))
    if broken and kind.startswith("jupyter kernel"):
        name = kind.removeprefix("jupyter kernel ")
        again = f"install the kernel anew: python3 -m ipykernel install --user --name {name}"
        return Unseen(what=kind, why=f"there is no Python at {broken}", enable_by=again)
    if broken:
        again = ANEW.get(kind, "python3 -m venv --clear {prefix}").format(prefix=prefix)
        return Unseen(
            what=python, why=f"the Python it was made from, {broken}, is gone", enable_by=f"make it anew: {again}"
        )
    release = numbers(copy.version)[:2]
    if release and release < OLDEST:
        return Unseen(what=python, why=f"it is Python {copy.version}, and the probes need 3.8 or newer")
    return None


def denied(unseen: Sequence[Unseen]) -> Iterator[Unseen]:
    """Give what could not be seen, each folder once: what was guessed to lie in it is not told."""
    told = (replace(one, what=GUESS.sub("", one.what) or "/") for one in unseen)
    yield from dict.fromkeys(told)


def _left_out(more: Sequence[Environment]) -> Iterator[Unseen]:
    if more:
        what = (
            f"{len(more)} further Pythons, {more[0].python} first"
            if more[1:]
            else f"one further Python, {more[0].python}"
        )
        yield Unseen(what=what, why=f"no more than {MOST} are looked at", enable_by="name them: --python PATH")


def _kernels(copies: Sequence[Instance], chosen: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Give the kernels of each Python: those in its own folder, and those elsewhere that start it."""
    programs: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for copy in copies:
        python = programs.setdefault(copy.key, chosen.get(copy.key) or copy.path or copy.key)
        kind, own = str(copy.facts.get("kind")), copy.facts.get("kernels")
        names = [kind.removeprefix("jupyter kernel ")] if kind.startswith("jupyter kernel ") else []
        names += [name for name in own if isinstance(name, str)] if isinstance(own, tuple) else []
        found.setdefault(python, []).extend(name for name in names if name not in found.get(python, ()))
    return {python: tuple(names) for python, names in found.items() if names}


def _with_kernels(copy: Instance, kernels: Mapping[str, tuple[str, ...]]) -> Instance:
    names = kernels.get(copy.environment or "")
    return replace(copy, facts={**copy.facts, "jupyter_kernels": names}) if names else copy
