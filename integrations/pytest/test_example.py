"""Tests that need a GPU stack, and say so: they are skipped where it is not fit, with the reason.

pytest integrations/pytest                     # skips what cannot work here
pytest integrations/pytest --gpustack=fail     # fails it, with the diagnosis and what to type
"""

import pytest


@pytest.mark.gpustack
def test_there_is_a_gpu() -> None:
    """Run only where a GPU is usable."""


@pytest.mark.gpustack(needs="pytorch")
def test_torch_multiplies() -> None:
    """Run only where PyTorch reaches the GPU."""
    torch = pytest.importorskip("torch")
    assert torch.ones(2, 2, device="cuda").sum().item() == 4


@pytest.mark.gpustack(needs=("jax", "cudnn"))
def test_jax_has_cudnn() -> None:
    """Run only where JAX reaches the GPU and cuDNN is here."""


def test_nothing_is_needed() -> None:
    """Run everywhere."""
