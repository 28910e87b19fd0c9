"""What to type to install packages into one Python, and the release that fits: by pip, uv, Poetry or Pixi.

What is here stays as it is where it can: a JAX for the CPU gets its plugin in its own release, an onnxruntime the GPU
package of its own minor. No clause: no row says which release fits, or nobody knows the Python that it would be for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.change_sets import FAMILY, ChangeSet, Place, place, release_for
from gpustack.diagnose.machine.frameworks import jetpack
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.diagnose.machine.values import version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.matrix.subjects import frameworks, generated, torch
from gpustack.matrix.subjects.gpus import jetson_torches
from gpustack.matrix.subjects.ranges import minor, numbers
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
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.command import Word
    from gpustack.model.facts import Facts

TORCH_INDEX = "https://download.pytorch.org/whl"
ON_INDEX = ("torch", "torchvision", "torchaudio", "xformers")  # what PyTorch's own index has
# Packages that the index has as source, or as wheels of no torch in particular: without --no-build-isolation their
# build does not find the torch that is here ("No module named 'torch'").
FROM_SOURCE = frozenset({"flash-attn", "mamba-ssm", "causal-conv1d", "deepspeed", "natten", "gsplat"}) | {
    f"torch-{name}" for name in ("scatter", "sparse", "cluster")
}
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
        by_hand = step("download the wheel of torch {release} for Python {python} from that page, and install it", **of)
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


RUNS = frozenset({Kept.OK, Kept.LIMITED, Kept.UNKNOWN})
AND_CUDA = (2, 14)  # the first TensorFlow with the extra and-cuda


def pinned(
    name: str, facts: Facts, matrix: Matrix, environment: str | None = None, *, python: str | None = None
) -> Word:
    """Return a distribution, with its extras, in the release that fits what is here, as pip is to be asked for it.

    ``python`` is another Python that it is for.
    """
    return requirement(name, clause(name, facts, matrix, environment, python=python))


def clause(
    name: str, facts: Facts, matrix: Matrix, environment: str | None = None, *, python: str | None = None
) -> str:
    """Return the clause that pins a distribution to what fits here, such as ==0.10.2; empty where none is known."""
    plain, _, extra = name.partition("[")
    here = place(facts, environment)
    here = replace(here, python=python) if python else here
    if plain in FAMILY:
        found = release_for(plain, here, here.release, matrix) if here.release else None
        return f"=={found}" if found else ""
    if plain.startswith("nvidia-"):
        return _of_torch(plain, here, matrix)
    find = FIND.get(plain)
    return next(find(here, extra.rstrip("]"), facts, matrix), "") if find and here.python else ""


def _of_torch(name: str, here: Place, matrix: Matrix) -> str:
    """Return what the torch that is here asks of one of NVIDIA's wheels."""
    release = generated.release_of(matrix, "torch", here.release) if here.release else None
    span = release.pin(name, here.system, here.python) if release else None
    return span.text if span and here.system in generated.MACHINES else ""


def _torch(here: Place, _extra: str, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """Yield the releases of torch whose build of the package index runs on the driver here, newest first."""
    for one in reversed(torch.releases(matrix)):
        usual = torch.default_build(matrix, one.version, here.system)
        if here.python in one.pythons and (usual is None or usual.cuda is None or _runs(usual.cuda, facts, matrix)):
            yield f"=={one.version}"


def _jax(here: Place, extra: str, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """Yield the releases of JAX with a plugin for the CUDA of the extra: that which is here, then the newest first."""
    major = extra.removeprefix("cuda")
    own = (version(facts, "jax") or "").partition("+")[0]
    releases = sorted(frameworks.jax_releases(matrix), key=lambda one: (one.version == own, numbers(one.version)))
    for one in reversed(releases):
        fits = here.python in one.pythons and (not major.isdecimal() or int(major) in one.cuda)
        if fits and (not major.isdecimal() or _runs(CudaVersion(int(major)), facts, matrix)):
            yield f"=={one.version}"


def _tensorflow(here: Place, extra: str, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """Yield the minor releases of TensorFlow for the Python here: that which is here, then the newest first."""
    own = _minor(version(facts, "tensorflow"))
    releases = sorted(
        frameworks.tensorflow_releases(matrix), key=lambda one: (one.version == own, numbers(one.version))
    )
    for one in reversed(releases):
        offered = not extra or numbers(one.version) >= AND_CUDA
        if here.python in one.pythons and offered and _runs(CudaVersion(one.cuda.major), facts, matrix):
            yield f"=={one.version}.*"


def _onnxruntime(here: Place, _extra: str, facts: Facts, matrix: Matrix) -> Iterator[str]:
    """Yield the minor releases of onnxruntime-gpu that run here: that which is here, then the newest first."""
    own = _minor(version(facts, "onnxruntime"))
    known = frameworks.onnxruntime_releases(matrix)
    for one in sorted(known, key=lambda one: (one.version == own, numbers(one.version)), reverse=True):
        if here.python in one.pythons and _runs(CudaVersion(one.cuda), facts, matrix):
            yield f"=={one.version}.*"


def _minor(release: str | None) -> str | None:
    return minor(release) if numbers(release) else None


def _runs(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> bool:
    return driver_fit(cuda, facts, matrix).kept in RUNS


FIND: Mapping[str, Callable[[Place, str, Facts, Matrix], Iterator[str]]] = {
    "torch": _torch,
    "jax": _jax,
    "tensorflow": _tensorflow,
    "onnxruntime-gpu": _onnxruntime,
}
