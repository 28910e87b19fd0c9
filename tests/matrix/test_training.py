"""Training libraries have wheels for some torch and CUDA versions, and a minimum GPU."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import generated, training
from gpustack.matrix.subjects.ranges import version_of
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


def test_every_release_occurs_once_oldest_first() -> None:
    for found in (training.flash_wheels(MATRIX), training.xformers(MATRIX), training.bitsandbytes(MATRIX)):
        versions = [version_of(one.version) for one in found]
        assert all(old and new and old < new for old, new in pairwise(versions))
        assert len({one.row.text for one in found}) == len(found) > 5


def test_flash_attention_has_wheels_for_some_torches() -> None:
    for version in ("2.8.3", "2.8.3.post2"):
        found = training.flash_wheels_of(MATRIX, version)
        assert found is not None
        assert found.serves("2.8.0+cu128", CudaVersion(12, 8))
        assert not found.serves("2.9.1", CudaVersion(12, 8))
        assert not found.serves("2.8.0", CudaVersion(13, 0))
    assert training.flash_wheels_of(MATRIX, "1.0.0") is None


def test_xformers_asks_for_one_torch() -> None:
    found = training.xformers_of(MATRIX, "0.0.30")
    assert found is not None
    assert found.torch.holds("2.7.0")
    assert not found.torch.holds("2.7.1")
    assert training.xformers_of(MATRIX, "99") is None


def test_bitsandbytes_ships_a_library_for_each_cuda() -> None:
    newest = training.bitsandbytes(MATRIX)[-1]
    assert {CudaVersion(11, 8), CudaVersion(12, 8), CudaVersion(13, 0)} <= set(newest.cudas)
    assert all(list(one.cudas) == sorted(one.cudas) for one in training.bitsandbytes(MATRIX))
    for one in training.bitsandbytes_builds(MATRIX):
        assert one.archs
        assert any(one.versions.holds(release.version) for release in training.bitsandbytes(MATRIX))


def test_transformer_engine_states_cuda_and_cudnn() -> None:
    found = training.transformer_engine(MATRIX)
    assert found
    assert all(one.cuda.text and one.cudnn.text for one in found)
    assert len({one.row.text for one in found}) == len(found)


@pytest.mark.parametrize("version", ["2.0.4", "2.8.3"])
def test_flash_attention_2_begins_at_8_0(version: str) -> None:
    found = training.floors_of(MATRIX, "flash-attention", version)
    assert ComputeCapability(8, 0) in {one.capability for one in found}
    assert training.floors_of(MATRIX, "nothing", "1.0") == ()


def test_a_floor_without_versions_holds_for_all() -> None:
    (found,) = training.floors_of(MATRIX, "flash-attn-4", "4.0.0b1")
    assert found.capability == ComputeCapability(9, 0)
    assert found.row.text == "flash-attn-4, all of it: compute capability 9.0 or newer"


def test_every_release_of_flash_attn_that_is_offered_is_one_that_the_index_has() -> None:
    there = [one.version for one in generated.releases(MATRIX, "flash-attn")]
    offered = [one.version for one in training.flash_wheels(MATRIX)]
    assert set(offered) <= set(there)
    assert "2.7.4.post1" in offered  # there is no 2.7.4
    after = there[there.index("2.0.4") :]
    assert [one for one in after if training.flash_wheels_of(MATRIX, one) is None] == []
