"""A range of versions holds what its component calls its version, whether that is PEP 440 or not."""

from __future__ import annotations

import pytest

from gpustack.matrix.subjects.pep440 import is_specifier
from gpustack.matrix.subjects.ranges import VersionRange, version_of


@pytest.mark.parametrize(
    ("text", "version", "held"),
    [
        (">=535.43,<535.98", "535.54.03", True),
        (">=535.43,<535.98", "535.98", False),
        ("==2.11.0", "2.11.0+cu130", True),
        (">=6.17", "6.17.9-300.fc43.x86_64", True),
        (">=6.17", "6.8.0-55-generic", False),
        ("==5.14.0", "5.14.0-570.el9.x86_64", True),
        ("<2.14", "2.13.0rc1", True),
        ("", "anything 1", False),
        ("", "1.0", True),
        (">=1", "", False),
        (">=1", "unknown", False),
    ],
)
def test_a_range_holds_a_version(text: str, version: str, *, held: bool) -> None:
    assert VersionRange.parse(text).holds(version) is held


@pytest.mark.parametrize("version", ["9" * 5000, "9" * 5000 + ".1", "²", "٣.٤", "2.8.0+" + "9" * 5000])
def test_a_number_without_an_end_is_no_version(version: str) -> None:
    assert VersionRange.parse(">=1").holds(version) is version.startswith("2.8.0")
    assert not is_specifier(f"=={version}") or len(version) < 1000


def test_what_is_no_range_is_refused() -> None:
    with pytest.raises(ValueError, match="570 and later"):
        VersionRange.parse("570 and later")


def test_a_range_says_itself() -> None:
    assert str(VersionRange.parse(">=2,<3")) == ">=2,<3"
    assert str(VersionRange.parse("")) == "any version"
    assert version_of("v1.27.3.fedora") == version_of("1.27.3")
