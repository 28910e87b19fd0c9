"""What to type to install packages into one Python: with pip, uv, Poetry or Pixi, as the environment is managed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import jetpack
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.matrix.subjects.gpus import jetson_torches
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    DOTTED,
    NAME,
    NOTHING,
    PYTHON,
    SOME_PYTHON,
    VERSION,
    Command,
    Word,
    requirement,
    sh,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpustack.diagnose.change_sets import ChangeSet
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

TORCH_INDEX = "https://download.pytorch.org/whl"
ON_INDEX = ("torch", "torchvision", "torchaudio", "xformers")  # what PyTorch's own index has
# Packages that the index has as source, or as wheels of no torch in particular: without --no-build-isolation their
# build does not find the torch that is here ("No module named 'torch'").
FROM_SOURCE = frozenset({"flash-attn", "mamba-ssm", "causal-conv1d", "deepspeed", "natten", "gsplat"})
# By a part of the path of its Python, or by what it was found to be: who manages an environment.
MANAGERS = (("/.pixi/envs/", "pixi"), ("/pypoetry/virtualenvs/", "poetry"))
KINDS = {"uv": "uv", "uv tool": "uv", "poetry": "poetry", "pixi": "pixi"}


def manager(facts: Facts, environment: str | None) -> str:
    """Return who installs into a Python: pip, uv, poetry or pixi."""
    found = next((one for part, one in MANAGERS if part in (environment or "").replace("\\", "/")), None)
    kind = next((one.kind for one in facts.environments if one.python == environment), "")
    return found or KINDS.get(kind, "pip")


def install(
    facts: Facts,
    environment: str | None,
    wanted: Sequence[Word],
    *more: Word | Command,
    at: Word = NOTHING,
    beside: bool = False,
) -> Command:
    """Return the command that installs distributions into a Python, in one go; ``more`` are options for pip and uv.

    ``at`` is the address of an index that has all of them, or some of them ``beside`` the package index.
    """
    python, program = PYTHON(environment), manager(facts, environment)
    name = NAME(at.rpartition("/")[2])
    if program == "poetry" and not any(more):
        if not at:
            return sh("poetry add {wanted}", wanted=wanted)
        if beside:
            some = "poetry source add --priority=supplemental {name} {at} && poetry add {wanted}"
            return sh(some, name=name, at=at, wanted=wanted)
        whole = "poetry source add --priority=explicit {name} {at} && poetry add --source {name} {wanted}"
        return sh(whole, name=name, at=at, wanted=wanted)
    if program == "pixi" and not any(more) and not beside:
        from_ = sh("--index {at}", at=at) if at else NOTHING
        return sh("pixi add --pypi {from_} {wanted}", from_=from_, wanted=wanted)
    options = (sh("--extra-index-url {at}" if beside else "--index-url {at}", at=at), *more) if at else more
    if program == "uv":
        there = sh("--python {python}", python=python) if python not in {SOME_PYTHON, PYTHON("python")} else NOTHING
        return sh("uv pip install {there} {wanted} {more}", there=there, wanted=wanted, more=options)
    return sh("{python} -m pip install {wanted} {more}", python=python, wanted=wanted, more=options)


def build(facts: Facts, environment: str | None, wanted: Word) -> Command:
    """Return the command that builds a package from source against the torch that is here, though it is installed."""
    there = install(facts, environment, (wanted,))
    return sh("{install} --force-reinstall --no-deps --no-build-isolation", install=there)


def commands(change: ChangeSet, facts: Facts, environment: str | None) -> tuple[Command, ...]:
    """Return the commands that make a set of changes: all its wheels in one, then what is built against them."""
    wheels = {name: version for name, version in change.pins.items() if name not in FROM_SOURCE}
    other = any(name not in ON_INDEX for name in wheels)
    plain = change.usual and "torch" in change.moves
    local = "" if plain else f"+{change.tag}"
    wanted = tuple(
        requirement(name, f"=={version}{local if name in ON_INDEX[:3] else ''}") for name, version in wheels.items()
    )
    page = address(change.tag) if local else NOTHING
    built = tuple(
        build(facts, environment, requirement(name, f"=={change.pins[name]}"))
        for name in change.pins
        if name in FROM_SOURCE
    )
    typed = install(facts, environment, wanted, at=page, beside=other and bool(page))
    kept = manager(facts, environment) in {"poetry", "pixi"} and " -m pip " in typed
    note = (step("write the same releases into the project's own file, or its next lock undoes this"),) if kept else ()
    return (typed, *built, *note)


def index(tag: str | None) -> Command:
    """Return the option that names PyTorch's own index of a build."""
    return sh("--index-url {at}", at=address(tag))


def address(tag: str | None) -> Word:
    """Return the address of PyTorch's own index of a build."""
    return ADDRESS(f"{TORCH_INDEX}/{BUILD_TAG(tag)}")


def jetson(
    facts: Facts, matrix: Matrix, environment: str | None, release: str | None
) -> tuple[str, tuple[Command, ...]]:
    """Return the PyTorch that NVIDIA builds for this Jetson: its release and how it is installed; none where none is.

    The release is that which is wanted, else the newest; where the JetPack is not known, a command shows it first.
    """
    here = jetpack(facts)
    known = [row for gpu in capabilities(facts) for row in jetson_torches(matrix, gpu, here)]
    row = next((one for one in known if release in one.torch), known[0] if known else None)
    if row is None:
        return "", ()
    found = release if release in row.torch else row.torch[-1]
    first = () if here else (sh("cat /etc/nv_tegra_release"),)
    least, end = map(DOTTED, re.findall(r"[\d.]+", row.jetpacks.text))
    of = {"python": DOTTED(row.python), "release": VERSION(found), "page": ADDRESS(row.page)}
    of |= {"least": least, "end": end}
    note = step("it is built for JetPack from {least} on and before {end}, and its Python {python} ({page})", **of)
    if row.index is None:
        by_hand = step(
            "download the wheel of torch {release} for Python {python} from that page, and install it",
            **of,
        )
        return found, (*first, note, by_hand)
    wanted = (requirement("torch", f"=={found}"),)
    return found, (*first, install(facts, environment, wanted, at=ADDRESS(row.index)), note)


def words(change: ChangeSet, held: Mapping[str, str]) -> str:
    """Return in words what a set of changes changes, and what it leaves as it is."""
    moved = [f"{name} {held[name]} to {change.pins[name]}" for name in change.moves if name in held]
    kept = [f"{name} {version}" for name, version in change.pins.items() if name not in change.moves]
    stay = f" {listed(kept)} {'stays' if len(kept) == 1 else 'stay'}." if kept else ""
    new = listed([f"{name} {version}" for name, version in change.pins.items()])
    return f"Change {listed(moved)} in one command.{stay}" if moved else f"Install {new} in one command."


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    return ", ".join(names[:-1]) + (" and " if names[1:] else "") + names[-1] if names else ""
