"""Wheels by their tags: a release has one row per processor, and a Python without the GIL gets its own wheels."""

from __future__ import annotations

from itertools import combinations

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, torch, wheel_tags
from gpustack.matrix.subjects.ranges import numbers

MATRIX = Matrix()
TAGS = wheel_tags.tags(MATRIX)


def _tags(package: str, version: str, machine: str = "x86_64") -> wheel_tags.WheelTags | None:
    found = [one for one in wheel_tags.tags_of(MATRIX, package, version) if machine in one.machines]
    return found[0] if found else None


def test_no_release_occurs_twice_for_a_processor() -> None:
    for one, other in combinations(TAGS, 2):
        if one.package == other.package and set(one.machines) & set(other.machines):
            ends = [bound.lstrip("<>=") for bound in one.versions.text.split(",")]
            assert not any(other.versions.holds(end) for end in ends), (one.row.text, other.row.text)


def test_pythons_are_versions_or_any() -> None:
    for one in TAGS:
        assert set(one.machines) <= {"x86_64", "aarch64"}
        for python in one.pythons:
            assert python == wheel_tags.EVERY or numbers(python)[:1] == (3,)


@pytest.mark.parametrize(
    ("package", "version", "python", "takes"),
    [
        ("jaxlib", "0.7.0", "3.14", False),
        ("jaxlib", "0.7.1", "3.14t", True),
        ("jaxlib", "0.11.0", "3.13t", False),
        ("vllm", "0.19.0", "3.13", True),
        ("vllm", "0.19.0", "3.13t", False),
        ("vllm", "0.19.0", "3.14", False),
        ("bitsandbytes", "0.49.2", "3.13t", True),
        ("bitsandbytes", "0.49.2", "3.9", False),
        ("torch", "2.9.0+cu128", "3.14", True),
        ("flash-attn", "2.8.3.post1", "3.13", True),
    ],
)
def test_which_python_a_release_has_a_wheel_for(package: str, version: str, python: str, *, takes: bool | None) -> None:
    found = _tags(package, version)
    assert (found.takes(python) if found else None) is takes


def test_they_agree_with_the_rows_of_the_releases() -> None:
    """Two tables list the Pythons that a JAX has x86-64 wheels for; PyTorch's list is only in its releases."""
    for one in frameworks.jax_releases(MATRIX):
        found = _tags("jaxlib", one.version)
        if found and one.pythons:
            assert set(one.pythons) == {python for python in found.pythons if not python.endswith("t")}, one.version
    for build in torch.releases(MATRIX):
        assert (_tags("torch", build.version, "aarch64") is not None) <= ("linux-aarch64" in build.wheels)
