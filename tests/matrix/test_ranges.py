"""A range of versions contains exactly what its text says, whether a component's versions are PEP 440 or not."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpustack.matrix.subjects.ranges import (
    VersionRange,
    is_specifier,
    is_version,
    minor,
    numbers,
    specifiers,
    version_of,
    within,
)

COMPARES = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
RELEASE = some.lists(some.integers(0, 30), min_size=1, max_size=4).map(tuple)
BOUND = some.tuples(some.sampled_from(sorted(COMPARES)), RELEASE)
RANGE = some.lists(BOUND, max_size=4)


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def text_of(bounds: list[tuple[str, tuple[int, ...]]]) -> str:
    return ",".join(f"{sign}{dotted(release)}" for sign, release in bounds)


def padded(release: tuple[int, ...]) -> tuple[int, ...]:
    return (*release, 0, 0, 0, 0)[:4]


@given(RANGE, RELEASE)
def test_a_range_holds_exactly_the_versions_that_each_of_its_bounds_allows(
    bounds: list[tuple[str, tuple[int, ...]]], release: tuple[int, ...]
) -> None:
    allowed = all(COMPARES[sign](padded(release), padded(bound)) for sign, bound in bounds)
    span = VersionRange.parse(text_of(bounds))
    assert span.holds(dotted(release)) is allowed
    assert within(dotted(release), text_of(bounds)) is allowed


@given(RANGE, RELEASE, some.sampled_from(["+cu128", "+rocm6.3", "-300.fc43.x86_64", "-55-generic"]))
def test_what_a_build_adds_to_its_version_moves_it_into_no_other_range(
    bounds: list[tuple[str, tuple[int, ...]]], release: tuple[int, ...], more: str
) -> None:
    span = VersionRange.parse(text_of(bounds))
    assert span.holds(dotted(release) + more) is span.holds(dotted(release))


@given(RANGE)
def test_a_range_that_is_written_and_read_again_is_the_same(bounds: list[tuple[str, tuple[int, ...]]]) -> None:
    span = VersionRange.parse(text_of(bounds))
    assert str(span) == (text_of(bounds) or "any version")
    assert VersionRange.parse(span.text) == span
    assert VersionRange.parse(str(specifiers(span.text))).text == str(specifiers(span.text))


@given(some.text(max_size=20))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    if is_specifier(text):
        assert VersionRange.parse(text).text == text
    else:
        with pytest.raises(ValueError, match=r"nvalid|digits"):
            VersionRange.parse(text)


@pytest.mark.parametrize(
    ("text", "version", "held"),
    [
        (">=535.43,<535.98", "535.54.03", True),
        (">=535.43,<535.98", "535.98", False),
        ("==2.11.0", "2.11.0+cu130", True),
        (">=2.6,<2.8", "2.7.1+cu126", True),
        (">=9.7.0,<9.10.3", "9.10.2.21", True),
        (">=6.17", "6.17.9-300.fc43.x86_64", True),
        (">=6.17", "6.8.0-55-generic", False),
        ("==5.14.0", "5.14.0-570.el9.x86_64", True),
        ("<2.14", "2.13.0rc1", True),
        ("==2.9.*", "2.9.1", True),
        ("~=1.4", "1.9", True),
        ("", "anything 1", False),
        ("", "1.0", True),
        (">=1", "", False),
        (">=1", "unknown", False),
    ],
)
def test_a_range_holds_a_version(text: str, version: str, *, held: bool) -> None:
    assert VersionRange.parse(text).holds(version) is held


@pytest.mark.parametrize("version", ["9" * 5000, "9" * 5000 + ".1", "²", "٣.٤", "2.8.0+" + "9" * 5000])
def test_a_number_without_an_end_is_not_a_version(version: str) -> None:
    assert VersionRange.parse(">=1").holds(version) is version.startswith("2.8.0")
    assert not is_specifier(f"=={version}") or len(version) < 1000


@pytest.mark.parametrize("text", ["570 and later", "~1.0", ">=", "2.0"])
def test_what_is_not_a_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        VersionRange.parse(text)


@pytest.mark.parametrize("version", [None, "", "nightly", "nvidia", "v2.1", "²", "1" * 5000])
def test_what_does_not_begin_with_a_number_has_none(version: str | None) -> None:
    assert numbers(version) == ()
    assert minor(version) == ""


def test_a_version_may_have_a_letter_in_front() -> None:
    assert version_of("v1.27.3.fedora") == version_of("1.27.3")


def test_a_minor_release_is_the_first_two_numbers() -> None:
    assert minor("2.11.0+cu130") == "2.11"
    assert is_version("8.6.1.post1")
    assert not is_version("nightly")
