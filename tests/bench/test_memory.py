"""The memory and cache benchmarks, and the probe, in whole runs on the stand-in driver."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpustack import bench
from gpustack.model.bench import Mark, Result
from tests.bench.test_stand_in import MEASURED, by_id, surroundings

pytestmark = pytest.mark.skipif(
    find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
)


def measured(driver: Path, *names: str, library: str | None = None, **fakes: str) -> dict[str, Result]:
    environ = surroundings(driver, **fakes)
    return dict(by_id(bench.measure(names, quick=True, cublaslt=library, environ=environ, timeout=60)))


def test_memory_and_caches_come_to_what_the_stand_in_does(driver: Path) -> None:
    seen = measured(driver, "hbm.triad", "l2.read", "smem.read")
    assert {one.verdict for one in seen.values()} <= MEASURED, seen
    assert seen["hbm.triad"].value == pytest.approx(4.37, rel=1e-3)
    assert seen["hbm.triad"].ceiling == pytest.approx(4.814, abs=1e-3)
    assert seen["hbm.triad"].method["traffic"] == "2 read + 1 written"
    assert seen["l2.read"].value == pytest.approx(9.7, rel=1e-3)
    assert seen["l2.read"].ratio_held == pytest.approx(9.7 / (5120 * 1.98e-3), rel=1e-3)
    assert seen["smem.read"].ratio_held == pytest.approx(0.98, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("hbm.triad", "triad", "1 of "),
        ("l2.read", "l2", "add up to"),
        ("smem.read", "smem", "add up to"),
    ],
)
def test_a_wrong_sum_is_a_failure_and_no_figure(driver: Path, name: str, wrong: str, says: str) -> None:
    result = measured(driver, name, FAKE_WRONG=wrong)[name]
    assert (result.verdict, result.value) == (Mark.FAILED, None)
    assert says in result.why[0]


def test_what_was_run_is_said_compiled_or_shipped(driver: Path) -> None:
    shipped = measured(driver, "hbm.read", FAKE_MAJOR="99", FAKE_MEMORY="1000000")["hbm.read"]
    assert shipped.verdict in MEASURED
    assert str(shipped.method["kernels"]).startswith("shipped PTX: ")
    own = measured(driver, "hbm.read", FAKE_MEMORY="1000000")["hbm.read"]
    refused = measured(driver, "hbm.read", FAKE_CUBIN="refused", FAKE_MEMORY="1000000")["hbm.read"]
    assert refused.verdict in MEASURED
    if str(own.method["kernels"]).startswith("compiled for sm_90a by NVRTC"):  # a compiler is available here
        assert "shipped PTX: the driver refused what was compiled for sm_90a" in str(refused.method["kernels"])


def test_a_copy_is_the_best_of_the_drivers_ours_and_bulk_copies(driver: Path) -> None:
    result = measured(driver, "hbm.copy")["hbm.copy"]
    tried = result.method["tried"]
    assert isinstance(tried, dict)
    assert result.method["way"] in tried
    assert "the driver's copy" in tried
    kernels = measured(driver, "hbm.read", FAKE_MEMORY="1000000")["hbm.read"].method["kernels"]
    bulk = any(str(way).startswith("bulk copies") for way in tried)
    assert bulk == str(kernels).startswith("compiled")


@pytest.mark.parametrize(("percent", "fused"), [("100", False), ("25", True)])
def test_the_probe_finds_a_part_of_a_lower_rate(driver: Path, products: str, percent: str, *, fused: bool) -> None:
    result = measured(driver, "gemm.bf16", library=products, FAKE_RATE=percent)["gemm.bf16"]
    assert any("half-rate or fused part" in why for why in result.why) == fused
    assert result.ceiling == pytest.approx(0.00811 if fused else 0.03244, rel=0.02)
