"""Which compilers nvcc accepts, which Triton each torch needs, and which CUDA CuPy and Numba require."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import toolkits, training

MATRIX = Matrix()


@pytest.mark.parametrize(
    ("torch", "triton", "other"),
    [
        ("2.6.0+cu124", "3.2.0", "3.3.0"),
        ("2.7.0", "3.3.0", "3.3.1"),
        ("2.7.1", "3.3.1", "3.3.0"),
        ("2.8.0", "3.4.0", "3.5.0"),
        ("2.10.0", "3.6.0", "3.1.0"),
    ],
)
def test_the_triton_of_a_torch(torch: str, triton: str, other: str) -> None:
    found = training.triton_pin_of(MATRIX, torch)
    assert found is not None
    assert found.triton.holds(triton)
    assert not found.triton.holds(other)


def test_a_torch_that_no_row_states() -> None:
    assert training.triton_pin_of(MATRIX, "1.4.0") is None
    assert len({one.torch for one in training.triton_pins(MATRIX)}) == len(training.triton_pins(MATRIX))


def test_every_cuda_version_occurs_once_oldest_first_and_never_takes_less() -> None:
    found = toolkits.compilers(MATRIX)
    assert all(old.cuda < new.cuda for old, new in pairwise(found))
    assert all(old.gcc_max <= new.gcc_max and old.clang_max <= new.clang_max for old, new in pairwise(found))
    assert all((one.gcc_min or 0) < one.gcc_max for one in found)
    assert all(one.msc_max is None or (one.msc_min or 0) < one.msc_max for one in found)


@pytest.mark.parametrize(
    ("cuda", "gcc"), [("11.8", 11), ("12.4.131", 13), ("12.9", 14), ("13.0.88", 15), ("11.4.0", 10), ("11.4", 11)]
)
def test_the_newest_gcc_of_a_cuda_version(cuda: str, gcc: int) -> None:
    found = toolkits.compilers_of(MATRIX, cuda)
    assert found is not None
    assert found.gcc_max == gcc


@pytest.mark.parametrize("cuda", ["12.7", "14.0", "8.0", "x"])
def test_a_cuda_version_without_a_row_is_not_judged(cuda: str) -> None:
    assert toolkits.compilers_of(MATRIX, cuda) is None


def test_ubuntus_gcc_13_needs_cuda_12_4_or_newer() -> None:
    found = toolkits.first_cuda(MATRIX, 13)
    assert found is not None
    assert found.cuda == (12, 4)
    assert not found.takes_gcc(14)
    assert not found.takes_gcc(4)
    assert toolkits.first_cuda(MATRIX, 99) is None


def test_the_distributions_of_cuda_13_have_a_gcc_that_cuda_13_takes() -> None:
    thirteen = toolkits.compilers_of(MATRIX, "13.0")
    assert thirteen is not None
    for row in MATRIX.table("host_compiler")["distributions"]:
        assert thirteen.takes_gcc(int(row["gcc"].split(".")[0])), row
