"""The contracts of wheels with the Python and the C library that they are installed into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit
from gpustack.diagnose.rules.contracts.edges import asked, edge, release
from gpustack.diagnose.rules.reading import copies, text
from gpustack.matrix.subjects import jax, onnxruntime, ranges, serving, tensorflow, torch, training, vllm
from gpustack.matrix.subjects.spans import minor, numbers
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Contract, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheels:
    """The Pythons that a release has wheels for, as minors or as the range that it states; its oldest glibc."""

    row: Row
    pythons: tuple[str, ...] = ()
    span: str | None = None
    glibc: str | None = None


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how each component that has wheels goes with the Python that it is in, and with that one's glibc."""
    for component, find in WHEELS.items():
        for copy in copies(facts, component):
            wheels = find(copy, matrix) if release(copy) else None
            python = next((one for one in copies(facts, "python") if one.environment == copy.environment), None)
            if wheels and python:
                yield from _python(component, copy, wheels, python)
                yield from _glibc(component, copy, wheels, python)


def _python(component: str, copy: Instance, wheels: Wheels, python: Instance) -> Iterator[Contract]:
    """Give how a release goes with a Python; one without a wheel may have come from elsewhere, if it is here."""
    if not python.version or not (wheels.pythons or wheels.span):
        return
    fits = (
        minor(python.version) in wheels.pythons
        if wheels.pythons
        else ranges.VersionRange.parse(wheels.span or "").holds(python.version)
    )
    kept = Kept.OK if fits else Kept.BROKEN if asked(copy) else Kept.UNKNOWN
    needs = f"Python {wheels.pythons[0]} to {wheels.pythons[-1]}" if wheels.pythons else f"Python {wheels.span}"
    fit = Fit(kept=kept, needs=needs, found=f"Python {python.version}", row=wheels.row)
    yield edge(component, "python", "python", fit, copy.environment)


def _glibc(component: str, copy: Instance, wheels: Wheels, python: Instance) -> Iterator[Contract]:
    glibc = text(python.facts, "glibc")
    if glibc and wheels.glibc and numbers(glibc):
        kept = Kept.OK if numbers(glibc) >= numbers(wheels.glibc) else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"glibc {wheels.glibc} or newer", found=f"glibc {glibc}", row=wheels.row)
        yield edge(component, "python", "glibc", fit, copy.environment)


def _torch(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = torch.release_of(matrix, copy.version or "")
    rough = matrix.torch_releases.get(minor(copy.version))
    if known and (known.glibc or rough is None):
        return Wheels(pythons=known.pythons, glibc=known.glibc, row=known.row)
    return Wheels(pythons=rough.pythons, glibc=rough.glibc, row=rough.row) if rough else None


def _onnxruntime(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = onnxruntime.release_of(matrix, copy.version or "")
    return Wheels(pythons=known.pythons, glibc=known.glibc, row=known.row) if known else None


def _tensorflow(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = tensorflow.release_of(matrix, copy.version or "")
    return Wheels(pythons=known.pythons, glibc=known.glibc, row=known.row) if known else None


def _jax(copy: Instance, matrix: Matrix) -> Wheels | None:
    """Give the Pythons of the newest known JAX that is not newer; those between two rows were not read one by one."""
    known = jax.release_of(matrix, copy.version or "")
    return Wheels(span=known.requires_python, glibc=known.glibc, row=known.row) if known else None


def _vllm(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = vllm.release_of(matrix, copy.version or "")
    return Wheels(span=str(known.python), glibc=known.glibc, row=known.row) if known and known.python.text else None


def _xformers(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = training.xformers_of(matrix, copy.version or "")
    return Wheels(span=known.python.text, row=known.row) if known and known.python.text else None


def _server(component: str) -> Callable[[Instance, Matrix], Wheels | None]:
    def find(copy: Instance, matrix: Matrix) -> Wheels | None:
        known = serving.release_of(matrix, component, copy.version or "")
        return Wheels(span=known.python.text, row=known.row) if known and known.python.text else None

    return find


WHEELS: Mapping[str, Callable[[Instance, Matrix], Wheels | None]] = {
    "pytorch": _torch,
    "tensorflow": _tensorflow,
    "jax": _jax,
    "onnxruntime": _onnxruntime,
    "vllm": _vllm,
    "xformers": _xformers,
    "sglang": _server("sglang"),
    "tgi": _server("tgi"),
    "tensorrt-llm": _server("tensorrt-llm"),
}
