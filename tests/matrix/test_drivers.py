"""Driver branches begin, drop architectures, list GPUs and end when NVIDIA says so."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import drivers, gpus
from gpustack.model.versions import DriverRelease

MATRIX = Matrix()


@pytest.mark.parametrize(
    ("said", "shown"),
    [("540.4.0", "540.4.0"), ("546.01", "546.01"), ("470.182.3", "470.182.03"), ("580.95.05", "580.95.05")],
)
def test_a_release_is_written_as_its_makers_do(said: str, shown: str) -> None:
    assert str(DriverRelease.parse(said)) == shown
    assert DriverRelease.parse("540.4.0") == DriverRelease(540, 4, 0)


@pytest.mark.parametrize(("number", "branch"), [(581, 580), (572, 570), (591, 590), (391, 390)])
def test_a_release_for_windows_is_of_the_branch_below_its_number(number: int, branch: int) -> None:
    assert drivers.series_of(MATRIX, number) == branch


@pytest.mark.parametrize("number", [580, 470, 435, 387, 368])
def test_a_branch_that_no_row_has_is_not_taken_for_an_older_one(number: int) -> None:
    assert drivers.series_of(MATRIX, number) == number


def test_every_branch_is_typed_in_order_and_its_last_release_is_its_own() -> None:
    found = drivers.branches(MATRIX)
    assert [one.number for one in found] == list(MATRIX.branches)
    assert all(old.number < new.number for old, new in pairwise(found))
    assert all(one.last is None or one.last.branch == one.number for one in found)
    assert all(one.kind in {"LTS", "PB", "NFB", "DEV", "LEGACY", None} for one in found)
    windows = [number for one in found for number in one.windows]
    assert len(windows) == len(set(windows))


def test_what_a_branch_gains_and_drops_agrees_with_the_ends_of_the_architectures() -> None:
    before: list[str] = []
    for one in drivers.branches(MATRIX):
        for arch in one.gained:
            span = MATRIX.span(arch)
            assert span is not None
            assert span.first == one.number
        for arch in one.dropped:
            span = MATRIX.span(arch)
            assert span is not None
            assert span.last is not None
            assert span.last < one.number
        before.extend(one.dropped)
    assert set(before) == {arch for arch, span in MATRIX.spans.items() if span.last}


@pytest.mark.parametrize(
    ("number", "day", "over"),
    [(470, "2026-11-21", True), (535, "2026-06-15", False), (535, "2026-07-01", True), (580, "2026-11-21", False)],
)
def test_support_of_a_branch_ends_on_its_day(number: int, day: str, *, over: bool) -> None:
    branch = drivers.branch_of(MATRIX, number)
    assert branch is not None
    assert drivers.ended(branch, day) is over


def test_a_branch_without_an_end_or_unknown_is_not_judged() -> None:
    newest = drivers.branch_of(MATRIX, 620)
    assert newest is not None
    assert drivers.ended(newest, "2030-01-01") is None
    assert drivers.branch_of(MATRIX, 999) is None


def test_a_windows_driver_has_the_cuda_version_of_its_linux_branch() -> None:
    found = drivers.for_windows(MATRIX, 537)
    assert found is not None
    assert (found.number, str(found.cuda)) == (535, "12.2")
    assert drivers.for_windows(MATRIX, 999) is None


def test_listed_products_are_products_and_their_driver_is_of_a_branch_that_runs_them() -> None:
    for one in drivers.listings(MATRIX):
        capability = gpus.capability_of(MATRIX, one.product)
        arch = MATRIX.arch(capability) if capability else None
        span = MATRIX.span(arch.name) if arch else None
        assert span is not None, one.product
        assert one.driver.branch >= (span.first or 0)


@pytest.mark.parametrize(
    ("product", "driver"),
    [
        ("NVIDIA H100 NVL", "535.104.05"),
        ("NVIDIA GB300", "580.82.07"),
        ("NVIDIA H100 CNX", None),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "570.86.16"),
        ("NVIDIA L40S", "535.104.05"),
        ("Tesla T4", None),
    ],
)
def test_since_when_the_driver_lists_a_gpu(product: str, driver: str | None) -> None:
    found = drivers.listed_since(MATRIX, product)
    assert (found.driver if found else None) == DriverRelease.parse(driver)


@pytest.mark.parametrize(
    ("driver", "kernel", "fails"),
    [
        ("580.119.02", "7.0.9", True),
        ("580.105.08", "7.1.2", True),
        ("580.159.04", "7.1.0", False),
        ("580.119.02", "6.18.1", False),
        ("570.195.03", "6.17.1", False),
        ("575.57.08", "5.14.0-600.el9", False),
    ],
)
def test_a_release_that_does_not_build_with_a_kernel_is_known(driver: str, kernel: str, *, fails: bool) -> None:
    release = DriverRelease.parse(driver)
    assert release is not None
    assert (drivers.fails_with(MATRIX, release, kernel) is not None) is fails


def test_no_release_both_builds_and_does_not_build_with_a_kernel() -> None:
    for one in drivers.builds(MATRIX) + drivers.named(MATRIX):
        assert not (one.builds and drivers.fails_with(MATRIX, one.driver, one.kernel))
