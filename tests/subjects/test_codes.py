"""A number or a name that a library answered with is found, whichever library it was."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.subjects import codes

MATRIX = Matrix()


@pytest.mark.parametrize("library", codes.LIBRARIES)
def test_every_answer_has_a_number_and_a_name_of_its_own(library: str) -> None:
    found = codes.answers(MATRIX, library)
    assert found
    assert len({one.number for one in found}) == len({one.name for one in found}) == len(found)
    assert [one.number for one in found] == sorted(one.number for one in found)
    assert all(one.meaning and one.row.text for one in found)


@pytest.mark.parametrize(
    ("library", "number", "name"),
    [
        ("cuda-runtime", 35, "cudaErrorInsufficientDriver"),
        ("cuda-runtime", 209, "cudaErrorNoKernelImageForDevice"),
        ("nvml", 18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        ("cudnn", 1001, "CUDNN_STATUS_NOT_INITIALIZED"),
        ("cudnn8", 1, "CUDNN_STATUS_NOT_INITIALIZED"),
        ("nccl", 2, "ncclSystemError"),
        ("cublas", 13, "CUBLAS_STATUS_EXECUTION_FAILED"),
    ],
)
def test_a_number_is_what_its_library_means(library: str, number: int, name: str) -> None:
    found = codes.answer_of(MATRIX, library, number)
    assert found is not None
    assert found.name == name


def test_a_name_is_found_in_any_library_and_by_the_drivers_spelling() -> None:
    assert [one.number for one in codes.named(MATRIX, "CUDA_ERROR_NO_BINARY_FOR_GPU")] == [209]
    assert [one.number for one in codes.named(MATRIX, "cudaerrormemoryallocation")] == [2]
    both = codes.named(MATRIX, "CUDNN_STATUS_NOT_INITIALIZED")
    assert [(one.library, one.number) for one in both] == [("cudnn", 1001), ("cudnn8", 1)]
    assert codes.named(MATRIX, "") == ()
    assert codes.named(MATRIX, "NOTHING_OF_THE_KIND") == ()


def test_a_bare_number_is_given_for_each_library_the_runtime_first() -> None:
    found = codes.numbered(MATRIX, 999)
    assert [one.library for one in found] == ["cuda-runtime", "nvml"]
    assert codes.numbered(MATRIX, 123456) == ()


def test_a_library_that_is_not_in_the_table_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        codes.answers(MATRIX, "cufft")
