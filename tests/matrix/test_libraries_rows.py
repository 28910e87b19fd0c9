"""The rows on CUDA's libraries: names, wheels, toolkits, how a library reports its version, and cuDNN's releases."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import libraries
from gpustack.matrix.subjects.ranges import is_version, numbers
from gpustack.model.versions import ComputeCapability, DriverRelease

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


SEEN = (
    *("7.6.0", "7.6.3", "7.6.5.32", "8.0.5.39", "8.1.1.33", "8.2.4.15", "8.3.2.44", "8.4.1.50", "8.5.0.96"),
    *("8.6.0.163", "8.7.0.84", "8.8.1.3", "8.9.7.29", "9.1.0.70", "9.5.1.17", "9.10.2.21", "9.11.0.98", "9.26.0.51"),
)


@pytest.mark.parametrize("version", SEEN)
def test_a_version_lies_in_one_range_alone(version: str) -> None:
    assert len([one for one in libraries.cudnn_releases(MATRIX) if one.versions.holds(version)]) == 1


def test_every_range_has_a_known_name_and_its_drivers() -> None:
    for one in libraries.cudnn_releases(MATRIX):
        known = libraries.soname_of(MATRIX, one.soname)
        assert known is not None
        assert set(one.drivers) == set(one.cuda)
        assert {int(cuda.partition(".")[0]) for cuda in one.cuda} <= set(known.majors)


def test_every_cudnn_that_a_torch_wheel_pins_is_known() -> None:
    for line in MATRIX.table("torch_wheels")["patches"]:
        pinned = line.get("pins", {}).get("cudnn")
        assert pinned is None or libraries.cudnn_of(MATRIX, pinned) is not None, line["torch"]


def test_pascal_and_volta_end_with_cudnn_9_10() -> None:
    assert libraries.cudnn_oldest_gpu(MATRIX, "9.10.2.21") == ComputeCapability(5, 0)
    assert libraries.cudnn_oldest_gpu(MATRIX, "9.11.0.98") == ComputeCapability(7, 5)
    assert libraries.cudnn_oldest_gpu(MATRIX, "8.2.0", 11) == ComputeCapability(3, 5)
    assert libraries.cudnn_oldest_gpu(MATRIX, "8.2.0", 10) == ComputeCapability(3, 0)
    assert libraries.cudnn_oldest_gpu(MATRIX, "99.0") is None


def test_cuda_of_a_release() -> None:
    held = [
        libraries.cudnn_of(MATRIX, version) for version in ("7.6.0", "7.6.5", "9.10.2.21", "9.11.0.98", "9.12.0.46")
    ]
    made = [(("10.2" in one.cuda), ("11" in one.cuda), ("13" in one.cuda)) for one in held if one]
    assert made == [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ]
    assert libraries.cudnn_of(MATRIX, "99.0") is None
    newest = libraries.cudnn_of(MATRIX, "9.20.0.48")
    assert newest is not None
    assert newest.drivers["13"] == DriverRelease(580, 65, 6)
