"""What the matrix knows and does not know: known-bad combinations, things newer than it, and its own age."""

from __future__ import annotations

from dataclasses import replace

from gpustack.model.facts import Facts, Host
from gpustack.model.report import Health, Purpose, Severity
from tests.build import PYTHON, found, healthy, ids, on, report, seen, torch


def packages(**versions: str) -> Facts:
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return healthy(torch("2.2.2", "cu121", "12.1"), seen("packages", {"key": PYTHON, "distributions": named}))


def test_a_combination_that_its_makers_call_bad_is_a_warning_with_the_advice_and_the_source() -> None:
    finding = found(packages(numpy="2.1.0"), "known-bad-combination")
    assert finding is not None
    assert finding.instance == "torch-numpy-2"
    assert finding.severity is Severity.WARNING
    assert "NumPy 2.1.0" in finding.title
    assert finding.fix
    assert "numpy below 2" in finding.fix.text
    assert finding.row
    assert finding.row.source


def test_the_same_pasted_is_a_remark_since_no_failure_was_reported() -> None:
    finding = found(replace(packages(numpy="2.1.0"), taken=""), "known-bad-combination")
    assert finding is not None
    assert finding.severity is Severity.INFO


def test_what_goes_wrong_only_under_a_condition_is_a_remark_that_names_it() -> None:
    finding = found(healthy(seen("cudnn", {"version": "9.14.0"})), "known-bad-combination")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "when attention over more than 1024 keys" in finding.title


def test_versions_outside_the_range_and_other_gpus_are_left_alone() -> None:
    assert "known-bad-combination" not in ids(packages(numpy="1.26.4"))
    assert "known-bad-combination" not in ids(healthy(seen("cublas", {"version": "12.9.1.4"})))


def test_a_driver_and_a_torch_that_the_matrix_does_not_know_are_neither_fine_nor_broken() -> None:
    facts = on("998.10", 99000, torch("9.1.0", "cu140", "14.0"))
    told = {one.component for one in report(facts).findings if one.id == "newer-than-matrix"}
    assert told == {"nvidia-driver", "pytorch"}
    assert report(facts).verdict.root_causes == ()


def test_an_old_matrix_says_so_and_a_young_one_does_not() -> None:
    later = replace(healthy(), taken="2028-02-03T04:05:06Z")
    finding = found(later, "matrix-old")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert report(later).verdict.status is Health.HEALTHY
    assert "matrix-old" not in ids(healthy())
    assert "matrix-old" not in ids(Facts(taken="", host=Host()))


def test_a_missing_nvcc_matters_only_to_users_who_build() -> None:
    facts = healthy(torch(), seen("cuda-toolkit"))
    remark, wanted = found(facts, "cuda-toolkit-missing"), found(facts, "cuda-toolkit-missing", Purpose.BUILD)
    assert remark
    assert wanted
    assert (remark.severity, wanted.severity) == (Severity.INFO, Severity.WARNING)
    assert wanted.fix
    assert "CUDA 13.0" in wanted.fix.text
    assert report(facts, Purpose.TRAIN).verdict.status is Health.HEALTHY
