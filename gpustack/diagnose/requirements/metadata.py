"""What releases that are asked about require of the distributions beside them, by their wheels' METADATA."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.values import copies, number, version
from gpustack.diagnose.requirements.fits import Fit, asked, edge
from gpustack.matrix.subjects import frameworks, generated, training
from gpustack.matrix.subjects.ranges import VersionRange, numbers
from gpustack.model.report import Contract, Kept, Row

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance

TOOLKIT = "cuda-toolkit"
# How a build of these goes with a library of CUDA is judged by what it was made with; what its wheel pins, pip asks.
MAKERS_OF_BUILDS = frozenset({"pytorch", "tensorflow", "jax", "onnxruntime"})
LIBRARIES = frozenset({"cudnn", "nccl", "cublas", "tensorrt"})


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return what releases that are asked about require of what is beside them, by METADATA or hand-made rows."""
    required = tuple(_required(facts, matrix))
    yield from required
    yield from _numpy(facts, matrix)
    yield from _parts({one.to for one in required}, facts, matrix)


def _required(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return what each release that is asked about requires of the distributions beside it, by its METADATA.

    A toolkit is not the distribution cuda-toolkit, whose wheels come with the release.
    """
    here, found = platform(facts) or "", [(one, copy) for one in facts.components for copy in one.instances]
    python = version(facts, "python")
    for (one, copy), (beside, other) in product(found, found):
        apart = beside.id in {one.id, TOOLKIT} or other.environment != copy.environment
        if not asked(copy) or not copy.version or not other.version or apart:
            continue
        loaded = one.id in MAKERS_OF_BUILDS and beside.id in LIBRARIES
        names = _names(beside.id, other, loaded, copy.build or "")
        for mine, name in product(generated.named(matrix, one.id, copy.version), names):
            span = mine.pin(name, here, python, copy.build or "")
            if span is not None:
                refused = _loads(span, other.version) if loaded else Kept.BROKEN
                kept = Kept.OK if span.holds(other.version) else refused
                row, kind = mine.requiring(name, span), "torch" if beside.id == "pytorch" else "requirement"
                fit = Fit(kept=kept, needs=f"{name} {span}", found=f"{name} {other.version}", row=row)
                yield edge(one.id, beside.id, kind, fit, copy.environment)


def _names(component: str, copy: Instance, loaded: bool, build: str) -> tuple[str, ...]:  # noqa: FBT001
    """Return the distributions that a copy may be; of a library that a build loads, the one typed alone.

    An NCCL is that of the build's own CUDA: no row but METADATA states which one a build takes.
    """
    of_build = build.removeprefix("cu")[:2] if component == "nccl" and build.startswith("cu1") else ""
    major = number(copy.facts, "cuda_major") or of_build
    if loaded:
        return (f"nvidia-{component}-cu{major}",) if major else ()
    return generated.DISTRIBUTIONS.get(component, (component,))


def _loads(pinned: VersionRange, found: str) -> Kept:
    """Return the status of a library that pip refuses: a newer one of the same major works, older ones may not."""
    wanted, there = numbers(pinned.text.removeprefix("==")), numbers(found)
    return Kept.LIMITED if wanted and wanted[0] == there[0] and there > wanted else Kept.UNKNOWN


def _numpy(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return which NumPy a TensorFlow or CuPy requires, if no METADATA of its wheels was read."""
    for component, other in product(("tensorflow", "cupy", *generated.DISTRIBUTIONS["cupy"]), copies(facts, "numpy")):
        for copy in filter(asked, copies(facts, component)):
            read = any(one.requires for one in generated.named(matrix, component, copy.version or ""))
            span, row = (None, None) if read else _by_hand(component, copy, facts, matrix)
            if span and other.version:
                kept = Kept.OK if span.holds(other.version) else Kept.BROKEN
                fit = Fit(kept=kept, needs=f"numpy {span}", found=f"numpy {other.version}", row=row)
                yield edge(component, "numpy", "requirement", fit, copy.environment)


def _by_hand(component: str, copy: Instance, facts: Facts, matrix: Matrix) -> tuple[VersionRange | None, Row | None]:
    """Return the range of NumPy that a hand-made row states, and that row."""
    if component == "tensorflow":
        known = frameworks.tensorflow_pins(matrix, copy.version or "")
        return (known.on(version(facts, "python")), known.row) if known else (None, None)
    cap = training.cupy_numpy(matrix, copy.version or "")
    return (cap.numpy, cap.row) if cap else (None, None)


def _parts(required: Container[str], facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether JAX's parts fit where no METADATA says it: same version, and none newer than jax."""
    beside = [one for one in facts.components if generated.parted("jax", one.id) and one.id not in required]
    for copy, one in product(copies(facts, "jax"), beside):
        newer = numbers(one.version)[:3] > numbers(copy.version)[:3]
        if asked(copy) and (newer or numbers(one.version)[:3] == numbers(copy.version)[:3]):
            kept, row = Kept.BROKEN if newer else Kept.OK, generated.together(matrix).row
            fit = Fit(kept=kept, needs=f"{one.id} {copy.version}", found=f"{one.id} {one.version}", row=row)
            yield edge("jax", one.id, "requirement", fit, copy.environment)
