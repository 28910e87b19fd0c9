"""What an image requires of the machine: alternatives and conjunctions, as the container runtime reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.machine.containers import cuda_of_image, refused_by_image
from tests.build import MATRIX, gpu, healthy, ids, machine, merged, on, seen

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

# As in NVIDIA's images, shortened to a few of its alternatives.
USUAL = "cuda>=12.8 brand=tesla,driver>=535,driver<536 brand=geforcertx,driver>=550,driver<551"


def wanting(facts: Facts, wanted: str, **more: str) -> str | None:
    image = seen("image", {"variables": {"NVIDIA_REQUIRE_CUDA": wanted, **more}})
    return refused_by_image(merged(facts, image), MATRIX)


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ("cuda>=12.2", True),
        ("cuda>=12.0", True),
        ("cuda>=12", True),
        ("cuda>=12.3", False),
        ("cuda>12.2", False),
        ("cuda=12.2", True),
        ("cuda!=12.2", False),
        ("cuda>=12.3 driver>=535", True),
        ("cuda>=12.3 driver>=535,driver<535", False),
        ("cuda>=12.2,driver>=550", False),
        ("arch>=8.0", True),
        ("arch>=9.0", False),
        ("driver<=535.183.01", True),
        ("brand=geforce", True),  # an RTX A6000 has another; its name alone does not show that
        ("colour=green", True),
        ("", True),
        (",  ,", True),
        ("cuda>=", True),
    ],
)
def test_a_requirement_is_checked_against_the_machine(wanted: str, *, met: bool) -> None:
    assert (wanting(on("535.183.01", 12020), wanted) is None) == met


def test_the_usual_requirement_accepts_older_drivers_of_data_centre_gpus() -> None:
    assert wanting(on("570.86.10", 12080), USUAL) is None
    assert wanting(on("535.183.01", 12020, seen("gpu", gpu("Tesla T4", "7.5"))), USUAL) is None
    assert wanting(on("525.147.05", 12000), USUAL) == USUAL
    consumer = on("535.183.01", 12020, seen("gpu", gpu("NVIDIA GeForce RTX 3090")))
    assert wanting(consumer, USUAL) == USUAL


def test_a_requirement_can_be_switched_off_and_unknown_machines_are_not_refused() -> None:
    assert wanting(on("525.147.05", 12000), USUAL, NVIDIA_DISABLE_REQUIRE="1") is None
    assert wanting(on("525.147.05", 12000), USUAL, NVIDIA_DISABLE_REQUIRE="0") == USUAL
    assert wanting(machine(), USUAL) is None
    assert refused_by_image(healthy(), MATRIX) is None
    assert "container-requires-newer-driver" not in ids(healthy(seen("image", {"variables": {}})))


def test_the_cuda_version_that_is_asked_for_first_is_named() -> None:
    assert [cuda_of_image(wanted) for wanted in (USUAL, "brand=x,cuda>=11.0", "driver>=5", "xcuda>=1.0")] == [
        "12.8", "11.0", None, None,
    ]  # fmt: skip
