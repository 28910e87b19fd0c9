"""Which release of a distribution to install here: the one that the matrix knows to fit what is here, for the command.

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
from gpustack.model.command import requirement
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpustack.diagnose.change_sets import Place
    from gpustack.matrix import Matrix
    from gpustack.model.command import Word
    from gpustack.model.facts import Facts

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
