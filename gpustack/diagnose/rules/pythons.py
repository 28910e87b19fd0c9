"""For which versions of Python the releases of a framework have wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.matrix.subjects import frameworks, torch
from gpustack.matrix.subjects.ranges import is_version, minor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix

TENSORFLOW = frozenset({"tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel"})
JAX = frozenset({"jaxlib"})


def pythons_of(matrix: Matrix, package: str, version: str) -> tuple[str, ...]:
    """Give the Pythons with a wheel of this release, oldest first; empty where no row knows it."""
    if not is_version(version):
        return ()
    return next((pythons for release, pythons in _releases(matrix, package) if _same(release, version)), ())


def releases_for(matrix: Matrix, package: str, python: str) -> tuple[str, ...]:
    """Give the releases that have a wheel for this Python, oldest first."""
    return tuple(release for release, pythons in _releases(matrix, package) if python in pythons)


def _releases(matrix: Matrix, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if package == "torch":
        yield from ((one.version, one.pythons) for one in torch.releases(matrix))
    if package in {"torchvision", "torchaudio"}:
        for one in torch.releases(matrix):
            beside = torch.companions(matrix, one.version)
            named = beside and (beside.torchvision if package == "torchvision" else beside.torchaudio)
            if named:
                yield named, one.pythons
    if package in TENSORFLOW:
        yield from ((one.version, one.pythons) for one in frameworks.tensorflow_releases(matrix))
    if package == "onnxruntime-gpu":
        yield from ((one.version, one.pythons) for one in frameworks.onnxruntime_releases(matrix) if one.pythons)
    if package in JAX:
        yield from ((one.version, one.pythons) for one in frameworks.jax_releases(matrix) if one.pythons)


def _same(release: str, version: str) -> bool:
    """Tell whether a version is this release; a release of two numbers stands for all of its patches."""
    return release == version or (release.count(".") == 1 and minor(version) == release)
