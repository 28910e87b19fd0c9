"""The rows on CUDA's libraries: names, wheels, toolkits, and how a library reports its version."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import libraries
from gpustack.matrix.subjects.ranges import is_version, numbers

MATRIX = Matrix()


def test_a_name_occurs_once_and_its_wheels_are_for_its_majors() -> None:
    names = [one.soname for one in libraries.sonames(MATRIX)]
    assert len(set(names)) == len(names)
    for one in libraries.sonames(MATRIX):
        assert one.soname.startswith("lib")
        assert one.majors == tuple(sorted(one.majors))
        for wheel in one.wheels:
            assert any(wheel in libraries.wheel_of_soname(MATRIX, one.soname, major) for major in one.majors), wheel


@pytest.mark.parametrize(
    ("name", "majors"),
    [
        ("libcublasLt.so.11", (11,)),
        ("libcublasLt.so.12.4.5.8", (12,)),
        ("libcudart.so.11.0", (11,)),
        ("libcudart.so.10.2", (10,)),
        ("libcupti.so.11.7", (11,)),
        ("libcufft.so.12", (13,)),
        ("libcusparse.so.12", (12, 13)),
        ("libcurand.so.10", (11, 12, 13)),
        ("libcudnn.so.9", (11, 12, 13)),
        ("libnvinfer.so.11", (12, 13)),
        ("libnothing.so.1", ()),
    ],
)
def test_the_cuda_of_a_name(name: str, majors: tuple[int, ...]) -> None:
    assert libraries.cuda_of_soname(MATRIX, name) == majors


def test_wheels_that_bring_a_name() -> None:
    assert libraries.wheel_of_soname(MATRIX, "libcublasLt.so.12") == ("nvidia-cublas-cu12",)
    assert libraries.wheel_of_soname(MATRIX, "libcudart.so.13") == ("nvidia-cuda-runtime",)
    assert libraries.wheel_of_soname(MATRIX, "libcudnn.so.9", 13) == ("nvidia-cudnn-cu13",)
    assert libraries.wheel_of_soname(MATRIX, "libcurand.so.10", 13) == ("nvidia-curand",)
    assert libraries.wheel_of_soname(MATRIX, "libnothing.so.1") == ()


def test_toolkits_go_from_old_to_new_and_their_parts_never_back() -> None:
    found = libraries.toolkits(MATRIX)
    assert len(found) == 42
    assert all(numbers(old.toolkit) < numbers(new.toolkit) for old, new in pairwise(found))
    for old, new in pairwise(found):
        assert all(is_version(version) for version in new.parts.values())
        for part in ("cublas", "cudart", "nvrtc"):
            assert numbers(old.parts[part]) <= numbers(new.parts[part]), (new.toolkit, part)


def test_each_library_is_queried_for_its_version_in_one_way() -> None:
    names = [line["library"] for line in MATRIX.table("libraries")["queries"]]
    assert len(set(names)) == len(names)
