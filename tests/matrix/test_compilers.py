"""Each torch asks for one Triton, and CuPy and Numba for their CUDA."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import training

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
