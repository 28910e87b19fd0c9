"""Limits computed from attributes, compared with published figures of known cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.bench import ceilings
from gpustack.matrix import Matrix
from gpustack.model.bench import Device, Link
from gpustack.model.versions import ComputeCapability

H200 = Device(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    compute_capability="9.0",
    multiprocessors=132,
    clock_mhz=1980.0,
    memory_clock_mhz=3201.0,
    bus_bits=6016,
)


# What bench-peers computed from the public clocks and bus widths: GB/s.
@pytest.mark.parametrize(
    ("clock", "bits", "wanted"),
    [
        pytest.param(3201, 6016, 4814.3, id="H200"),
        pytest.param(2619, 5120, 3352.3, id="H100"),
        pytest.param(1593, 5120, 2039.0, id="A100-80"),
        pytest.param(6251, 192, 300.0, id="L4"),
        pytest.param(10501, 384, 1008.1, id="RTX 4090"),
        pytest.param(14001, 512, 1792.1, id="RTX 5090"),
    ],
)
def test_memory_is_two_transfers_a_clock_over_the_bus(clock: float, bits: int, wanted: float) -> None:
    ceiling = ceilings.memory(replace(H200, memory_clock_mhz=clock, bus_bits=bits), clock * 0.975)
    assert ceiling.best == pytest.approx(wanted, abs=0.1)
    assert ceiling.held == pytest.approx(0.975 * wanted, rel=1e-3)
    assert f"{bits} bit" in ceiling.source


@pytest.mark.parametrize("device", [replace(H200, bus_bits=0), replace(H200, memory_clock_mhz=None)])
def test_a_card_that_does_not_tell_its_memory_has_no_ceiling(device: Device) -> None:
    ceiling = ceilings.memory(device, None)
    assert (ceiling.best, ceiling.held) == (None, None)
    assert "does not report" in ceiling.source


# Encoded, then with the GPU's own writes in payloads of 256 bytes: bench-peers section 3.
@pytest.mark.parametrize(
    ("generation", "encoded", "usable"), [(3, 15.75, 14.4), (4, 31.51, 28.8), (5, 63.02, 57.6), (6, 118.0, 107.9)]
)
def test_the_link_is_rate_lanes_encoding_and_payload(generation: int, encoded: float, usable: float) -> None:
    link = Link(generation=generation, width=16, max_generation=generation, max_width=16)
    ceiling = ceilings.pcie(link, 256, overhead=ceilings.WRITE_OVERHEAD)
    assert ceiling.best == pytest.approx(usable, abs=0.05)
    assert ceiling.held == ceiling.best
    assert f"{encoded:.1f} GB/s encoded" in ceiling.source
    assert "assumed" not in ceiling.source


def test_a_narrow_link_has_two_ceilings_and_an_unknown_payload_is_said() -> None:
    link = Link(generation=5, width=8, max_generation=5, max_width=16)
    ceiling = ceilings.pcie(link, None, overhead=ceilings.COMPLETION_OVERHEAD)
    assert ceiling.best is not None
    assert ceiling.held == pytest.approx(ceiling.best / 2)
    assert "256 bytes (assumed" in ceiling.source


def test_a_link_that_was_not_reported_has_no_ceiling() -> None:
    for link in (Link(), Link(generation=9, width=16), Link(generation=5)):
        ceiling = ceilings.pcie(link, 256, overhead=24)
        assert (ceiling.best, ceiling.held) == (None, None)
    half = ceilings.pcie(Link(max_generation=5, max_width=16), 256, overhead=24)
    assert half.best is not None
    assert half.held is None


@pytest.mark.parametrize(("dtype", "wanted"), [("bf16", 989.4), ("fp16", 989.4), ("tf32", 494.7)])
def test_products_on_an_h200_reach_the_datasheet_at_its_clock(dtype: str, wanted: float) -> None:
    """The datasheet's tensor figures are for 1830 MHz; the card's highest clock is 1980."""
    architecture = Matrix().arch(ComputeCapability(9, 0))
    assert architecture
    ceiling = ceilings.compute(H200, architecture.rates_of("NVIDIA H200"), dtype, 1830.0)
    assert ceiling.held == pytest.approx(wanted, abs=0.1)
    assert ceiling.best == pytest.approx(wanted * 1980 / 1830, abs=0.1)
    assert "132 multiprocessors" in ceiling.source


def test_products_without_a_rate_or_a_clock_have_no_ceiling() -> None:
    assert "no row states the bf16 rate" in ceilings.compute(H200, {}, "bf16", 1830.0).source
    bare = ceilings.compute(replace(H200, clock_mhz=None), {"bf16": 4096.0}, "bf16", None)
    assert bare.best is None
    assert ceilings.compute(H200, {"bf16": 4096.0}, "bf16", None).held is None


def test_shared_memory_is_its_banks_at_the_clock() -> None:
    ceiling = ceilings.shared(H200, 990.0)
    assert ceiling.best == pytest.approx(33454.1, abs=0.1)
    assert ceiling.held == pytest.approx(33454.1 / 2, abs=0.1)
    assert "32 banks" in ceiling.source
    assert ceilings.shared(replace(H200, multiprocessors=None), 990.0).best is None


def test_the_second_level_is_what_its_row_says_and_an_assumption_without_one() -> None:
    stated = ceilings.level2(H200, 5120, 1755.0)
    assert stated.held == pytest.approx(8985.6, abs=0.1)
    assert stated.best == pytest.approx(10137.6, abs=0.1)
    assumed = ceilings.level2(H200, None, None)
    assert assumed.best == pytest.approx(132 * 64 * 1.98, abs=0.1)
    assert assumed.held is None
    assert "assumed" in assumed.source
