"""An Xid tells whose fault it is and what to do, and which of several was first."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.subjects import xids

MATRIX = Matrix()


def test_every_xid_stands_once_and_says_what_to_do_in_known_words() -> None:
    found = xids.xids(MATRIX)
    numbers = [one.number for one in found]
    assert numbers == sorted(set(numbers))
    assert len(found) > 100
    for one in found:
        assert one.bucket is None or xids.bucket_of(MATRIX, one.bucket), one.number
    assert set(MATRIX.xids) <= set(numbers)
    assert len({one.row.text for one in found}) == len(found)


def test_a_page_fault_is_the_programs_and_a_lost_gpu_is_not() -> None:
    fault, lost, engine = (xids.xid_of(MATRIX, number) for number in (31, 79, 76))
    assert fault is not None
    assert lost is not None
    assert engine is not None
    assert (fault.layer, fault.bucket) == ("app", "RESTART_APP")
    assert (lost.layer, lost.bucket) == ("pcie", "RESTART_BM")
    assert engine.name.startswith("Copy engine")
    assert xids.bucket_of(MATRIX, "RESTART_BM") == "reboot the bare-metal host"


def test_what_the_matrix_does_not_know_is_none() -> None:
    assert xids.xid_of(MATRIX, 9999) is None
    assert xids.sxid_of(MATRIX, 9999) is None
    assert xids.bucket_of(MATRIX, "NOTHING") is None


@pytest.mark.parametrize(
    ("number", "seen", "causes"),
    [
        (45, [45, 31], (31,)),
        (64, [48, 64, 154], (48,)),
        (154, [154, 79], (79,)),
        (79, [79, 154], ()),
        (45, [45], ()),
        (45, [94, 48, 45, 13], (13, 48, 94)),
    ],
)
def test_a_consequence_is_known_by_what_was_seen_beside_it(
    number: int, seen: list[int], causes: tuple[int, ...]
) -> None:
    assert xids.causes_of(MATRIX, number, seen) == causes


def test_cascades_name_known_xids_and_never_go_in_a_circle() -> None:
    numbers = {one.number for one in xids.xids(MATRIX)}
    for one in xids.cascades(MATRIX):
        assert set(one.first) | set(one.then) <= numbers
        assert one.first or one.sxid
    for number in numbers:
        direct = xids.causes_of(MATRIX, number, numbers)
        assert all(number not in xids.causes_of(MATRIX, cause, numbers) for cause in direct)


def test_a_fatal_switch_error_brings_xid_74() -> None:
    found = xids.sxid_of(MATRIX, 20034)
    assert found is not None
    assert found.kind == "fatal"
    assert [one.then for one in xids.cascades(MATRIX) if one.sxid == "fatal"] == [(74,)]
    whole = xids.sxid_of(MATRIX, 23001)
    assert whole is not None
    assert whole.kind == "always-fatal"


def test_every_sxid_stands_once() -> None:
    numbers = [number for one in xids.sxids(MATRIX) for number in one.numbers]
    assert len(numbers) == len(set(numbers)) == 93


def test_clock_reasons_are_the_bits_of_the_mask() -> None:
    assert [one.words for one in xids.reasons_of(MATRIX, 0x44)] == ["SW Power Cap", "HW Thermal Slowdown"]
    assert xids.reasons_of(MATRIX, 0) == ()
    bits = [one.bit for one in xids.clock_reasons(MATRIX)]
    assert bits == [1 << place for place in range(len(bits))]
    assert {one.weight for one in xids.clock_reasons(MATRIX)} == {"ok", "info", "warn", "bad"}
