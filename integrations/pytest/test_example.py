"""Tests that declare their need for a GPU stack: if it is not fit, they are skipped with the reason.

pytest integrations/pytest                     # skips what cannot work here
pytest integrations/pytest --gpustack=fail     # fails it, with the diagnosis and the fix
"""

import pytest


@pytest.mark.gpustack
def test_there_is_a_gpu() -> None:
    """Run only if a GPU is usable."""


@pytest.mark.gpustack(needs="pytorch")
def test_torch_multiplies() -> None:
    """Run only if PyTorch can use the GPU."""
    torch = pytest.importorskip("torch")
    assert torch.ones(2, 2, device="cuda").sum().item() == 4


@pytest.mark.gpustack(needs=("jax", "cudnn"))
def test_jax_has_cudnn() -> None:
    """Run only if JAX can use the GPU and cuDNN is installed."""


def test_nothing_is_needed() -> None:
    """Run everywhere."""
