"""Versions and ranges as the rows write them."""

from __future__ import annotations

import pytest

from gpustack.matrix.subjects.spans import is_version, minor, numbers, within


@pytest.mark.parametrize(
    ("version", "span", "held"),
    [
        ("2.7.1+cu126", ">=2.6,<2.8", True),
        ("2.8", ">=2.6,<2.8", False),
        ("2.8.0", "<=2.8", True),
        ("9.10.2.21", ">=9.7.0,<9.10.3", True),
        ("9.9", ">=9.10", False),
        ("1.18.0", "==1.18", True),
        ("1.18.1", "!=1.18", True),
        ("3", ">2.9", True),
        ("1.0", "", True),
    ],
)
def test_a_version_lies_in_a_range_by_its_numbers(version: str, span: str, held: bool) -> None:  # noqa: FBT001
    assert within(version, span) is held


def test_what_is_no_range_is_refused() -> None:
    with pytest.raises(ValueError, match="no bound"):
        within("1.0", "~1.0")


@pytest.mark.parametrize("version", [None, "", "nightly", "nvidia", "v2.1", "²", "1" * 5000])
def test_what_is_no_version_has_no_numbers_and_lies_in_no_range(version: str | None) -> None:
    assert numbers(version) == ()
    assert minor(version) == ""
    assert not within(version or "", "")


def test_a_minor_release_is_the_first_two_numbers() -> None:
    assert minor("2.11.0+cu130") == "2.11"
    assert is_version("8.6.1.post1")
    assert not is_version("nightly")
