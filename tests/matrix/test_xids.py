"""An Xid says whose fault it is and what to do, and which of several was first."""

from __future__ import annotations

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import codes
from gpustack.model.facts import Layer

MATRIX = Matrix()
XID, SXID = (next(one for one in codes.FAMILIES if one.id == name) for name in ("xid", "sxid"))


def test_every_xid_occurs_once_and_says_what_to_do_in_known_words() -> None:
    found = codes.numbers(MATRIX, XID)
    assert len({one.number for one in found}) == len(found)
    assert len(found) > 100
    for one in found:
        assert one.bucket is None or codes.bucket_of(MATRIX, one.bucket), one.number
    assert set(MATRIX.xids) <= {one.number for one in found}


def test_a_page_fault_is_the_programs_and_a_lost_gpu_is_not() -> None:
    known = {one.number: one for one in codes.numbers(MATRIX, XID)}
    fault, lost, engine = (known[number] for number in (31, 79, 76))
    assert (fault.layer, fault.bucket) == (Layer.APPLICATION, "RESTART_APP")
    assert (lost.layer, lost.bucket) == (Layer.HARDWARE, "RESTART_BM")
    assert engine.name.startswith("Copy engine")
    assert codes.bucket_of(MATRIX, "RESTART_BM") == "reboot the bare-metal host"


def test_what_the_matrix_does_not_know_is_none() -> None:
    assert codes.bucket_of(MATRIX, "NOTHING") is None


def test_cascades_name_known_xids_and_never_go_in_a_circle() -> None:
    numbers = {one.number for one in codes.numbers(MATRIX, XID)}
    for one in codes.cascades(MATRIX):
        assert set(one.first) | set(one.then) <= numbers
        assert one.first or one.sxid
    follows = {(first, then) for one in codes.cascades(MATRIX) for first in one.first for then in one.then}
    assert not {(one, other) for one, other in follows if one != other and (other, one) in follows}


def test_a_fatal_switch_error_brings_xid_74() -> None:
    assert [one.then for one in codes.cascades(MATRIX) if one.sxid == "fatal"] == [(74,)]


def test_every_sxid_occurs_once() -> None:
    numbers = [one.number for one in codes.numbers(MATRIX, SXID)]
    assert len(numbers) == len(set(numbers)) == 93


def test_clock_reasons_are_the_bits_of_the_mask() -> None:
    words = {one.bit: one.words for one in codes.clock_reasons(MATRIX)}
    assert (words[0x4], words[0x40]) == ("SW Power Cap", "HW Thermal Slowdown")
    bits = [one.bit for one in codes.clock_reasons(MATRIX)]
    assert bits == [1 << place for place in range(len(bits))]
    assert {one.weight for one in codes.clock_reasons(MATRIX)} == {"ok", "info", "warn", "bad"}
