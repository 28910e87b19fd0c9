"""The tensor core probe beside the rows: full parts raise no alarm, and reduced ones are believed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.bench import results, suite
from gpustack.matrix import Matrix
from gpustack.model.bench import Mark, Result
from gpustack.model.versions import ComputeCapability
from tests.bench import lines

if TYPE_CHECKING:
    from gpustack.model.rows import Architecture


def architecture(major: int, minor: int) -> Architecture:
    found = Matrix().arch(ComputeCapability(major, minor))
    assert found
    return found


def said(rate: float, instruction: str = "mma", dtype: str = "bf16") -> dict[str, Any]:
    return {dtype: {"rate": rate, "instruction": instruction}}


@pytest.mark.parametrize(
    ("capability", "product", "probe"),
    [
        pytest.param((9, 0), "NVIDIA H200", said(4077.2, "wgmma"), id="as measured on an H200"),
        pytest.param((9, 0), "NVIDIA H200", said(2671.7), id="the same without a compiler: mma.sync reaches less"),
        pytest.param((9, 0), "NVIDIA H200", said(6654.6, dtype="fp8"), id="fp8 by mma.sync"),
        pytest.param((8, 0), "NVIDIA A100-SXM4-80GB", said(1950.0), id="a probe that reaches 95 %"),
        pytest.param((8, 9), "NVIDIA GeForce RTX 4090", said(510.0), id="half the rate, as its row says"),
    ],
)
def test_a_healthy_part_raises_no_alarm(capability: tuple[int, int], product: str, probe: dict[str, Any]) -> None:
    known = architecture(*capability)
    (dtype,) = probe
    part = suite.part(dtype, product, probe, known)
    assert part
    assert (part.rate, part.doubt) == (known.rates_of(product)[dtype], None)


@pytest.mark.parametrize(
    ("capability", "product", "probe", "rate", "says"),
    [
        pytest.param((8, 9), "NVIDIA L41", said(512.0), 512.0, "half-rate or fused part", id="half, no row says so"),
        pytest.param((9, 0), "NVIDIA H20", said(1024.0, "wgmma"), 1024.0, "1024 bf16 operations", id="a quarter"),
        pytest.param((9, 0), "NVIDIA H20", said(1024.0), 1575.4, "mma in the probe, 2662.4 is", id="at most, by mma"),
        pytest.param((8, 6), "GeForce X", said(1020.0), 1020.0, "faster part than its row", id="the name misleads"),
    ],
)
def test_a_part_of_another_rate_is_believed(
    capability: tuple[int, int], product: str, probe: dict[str, Any], rate: float, says: str
) -> None:
    part = suite.part("bf16", product, probe, architecture(*capability))
    assert part
    assert part.rate == pytest.approx(rate, rel=1e-3)
    assert part.doubt
    assert says in part.doubt


def test_where_nothing_can_be_compared_the_row_applies() -> None:
    hopper = architecture(9, 0)
    assert suite.part("bf16", "NVIDIA H200", {}, hopper) is None
    assert suite.part("bf16", "NVIDIA H200", said(9.0), None) is None
    assert suite.part("fp64", "NVIDIA H200", said(9.0, dtype="bf16"), hopper) is None
    assert suite.part("bf16", "NVIDIA H200", said(9.0), replace(hopper, mma={})) is None


def measured(rate: float, tera: float) -> Result:
    """Return the judgement of this many TFLOP/s at the highest clock where the probe measured this rate."""
    (bench,) = suite.chosen(["gemm.bf16"])
    line = lines.measured("gemm.bf16", tera * 1e12, 1.0, probed=said(rate, "wgmma"))
    return results.measured(line, bench, results.opened(lines.OPENED, 0), architecture(9, 0))


def test_a_cut_part_is_checked_against_what_it_can_do() -> None:
    whole, cut, lame = measured(4077.0, 250.0), measured(1024.0, 250.0), measured(1024.0, 60.0)
    assert [whole.verdict, cut.verdict, lame.verdict] == [Mark.LOW, Mark.OK, Mark.LOW]
    assert whole.ceiling == pytest.approx(1070.5, abs=0.1)
    assert cut.ceiling == pytest.approx(267.6, abs=0.1)
    assert not any("fused" in why for why in whole.why)
    assert any("half-rate or fused part: 1024 bf16" in why for why in cut.why)
