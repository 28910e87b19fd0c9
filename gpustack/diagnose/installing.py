"""What to type to install packages into one Python, and the release that fits: by pip, uv, Poetry or Pixi.

What is here stays as it is where it can: a JAX for the CPU gets its plugin in its own release, an onnxruntime the GPU
package of its own minor. No clause: no row says which release fits, or nobody knows the Python that it would be for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.change_sets import FAMILY, place, release_for
from gpustack.diagnose.machine.values import version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.matrix.subjects import frameworks, generated, torch
from gpustack.matrix.subjects.ranges import minor, numbers
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    NOTHING,
    PYTHON,
    SOME_PYTHON,
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

    from gpustack.diagnose.change_sets import ChangeSet, Place
    from gpustack.matrix import Matrix
    from gpustack.model.command import Word
    from gpustack.model.facts import Facts

TORCH_INDEX = "https://download.pytorch.org/whl"
ON_INDEX = ("torch", "torchvision", "torchaudio", "xformers")  # what PyTorch's own index has
# Packages that the index has as source, or as wheels of no torch in particular: without --no-build-isolation their
# build does not find the torch that is here ("No module named 'torch'").
FROM_SOURCE = frozenset({"flash-attn", "mamba-ssm", "causal-conv1d", "deepspeed", "natten", "gsplat"})
INDEX = sh("--index-url")
# By a part of the path of its Python: who manages an environment.
MANAGERS = (("/.pixi/envs/", "pixi"), ("/pypoetry/virtualenvs/", "poetry"))


def manager(facts: Facts, environment: str | None) -> str:
    """Return who installs into a Python: pip, uv, poetry or pixi."""
    found = next((one for part, one in MANAGERS if part in (environment or "").replace("\\", "/")), None)
    kind = next((one.kind for one in facts.environments if one.python == environment), "")
    return found or ("uv" if kind in {"uv", "uv tool"} else "pip")


def install(facts: Facts, environment: str | None, wanted: Sequence[Word], *more: Word | Command) -> Command:
    """Return the command that installs distributions into a Python, in one go; ``more`` are options for pip and uv."""
    python = PYTHON(environment)
    program = manager(facts, environment)
    if program == "uv":
        at = sh("--python {python}", python=python) if python != SOME_PYTHON else NOTHING
        return sh("uv pip install {at} {wanted} {more}", at=at, wanted=wanted, more=more)
    if program == "poetry" and not any(more):
        return sh("poetry add {wanted}", wanted=wanted)
    if program == "pixi" and not any(more):
        return sh("pixi add --pypi {wanted}", wanted=wanted)
    return sh("{python} -m pip install {wanted} {more}", python=python, wanted=wanted, more=more)


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
    kind = sh("--extra-index-url") if other else INDEX
    page = (index(change.tag, kind),) if local else ()
    built = tuple(
        build(facts, environment, requirement(name, f"=={change.pins[name]}"))
        for name in change.pins
        if name in FROM_SOURCE
    )
    kept = manager(facts, environment) in {"poetry", "pixi"}
    note = (step("write the same releases into the project's own file, or its next lock undoes this"),) if kept else ()
    return (install(facts, environment, wanted, *page), *built, *(note if page else ()))


def index(tag: str | None, option: Command = INDEX) -> Command:
    """Return the option that names PyTorch's own index of a build."""
    return sh("{option} {index}/{tag}", option=option, index=ADDRESS(TORCH_INDEX), tag=BUILD_TAG(tag))


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
