"""The contracts between the layers: drawn where both ends were seen, with what is needed and what was found."""

from __future__ import annotations

from gpustack.model.report import Kept
from tests.build import (
    PYTHON,
    driver,
    healthy,
    libcuda,
    machine,
    module,
    nvml,
    nvml_error,
    python,
    report,
    seen,
    torch,
)


def test_contracts_are_drawn_between_what_was_seen() -> None:
    kinds = {(one.from_, one.to, one.kind) for one in report(healthy(torch())).contracts}
    assert kinds == {
        ("nvidia-uvm.ko", "nvidia.ko", "release"),
        ("libcuda", "nvidia.ko", "release"),
        ("libnvidia-ml", "nvidia.ko", "release"),
        ("gpu", "nvidia-driver", "branch"),
        ("gpu", "nvidia.ko", "flavour"),
        ("pytorch", "nvidia-driver", "cuda"),
        ("pytorch", "gpu", "architecture"),
        ("pytorch", "python", "python"),
        ("pytorch", "python", "glibc"),
    }
    assert report(machine()).contracts == ()


def test_contracts_that_are_broken_say_what_is_needed_and_what_was_found() -> None:
    headers = seen("kernel-headers")
    dkms = seen("dkms", {"key": "nvidia", "module": "nvidia", "state": "added"})
    made = report(healthy(dkms, headers, module(vermagic="6.5.0-1 SMP"), python("3.9.1", "2.17"), torch()))
    broken = {one.kind: (one.needs, one.found) for one in made.contracts if one.status is not Kept.OK}
    assert broken["headers"] == ("6.8.0-50-generic", "none")
    assert broken["vermagic"] == ("6.5.0-1", "6.8.0-50-generic")
    assert broken["glibc"] == ("glibc 2.28 or newer", "glibc 2.17")
    assert broken["python"][1] == "Python 3.9.1"


def test_libraries_of_another_release_than_the_module_break_their_contract() -> None:
    facts = healthy(module("570.133.07"), nvml_error(18, "MISMATCH"), seen("gpu"))
    found = {one.from_: one.status for one in report(facts).contracts if one.kind == "release"}
    assert found["libcuda"] is Kept.BROKEN
    working = {
        one.from_: one.status for one in report(healthy(module("570.133.07"))).contracts if one.kind == "release"
    }
    assert working["libcuda"] is Kept.OK


def test_toolkit_and_bindings_have_contracts_with_the_driver() -> None:
    toolkit = seen("cuda-toolkit", {"key": "/usr/local/cuda", "version": "13.2", "in_use": True})
    bindings = seen("cuda-bindings", {"key": "cuda-bindings", "version": "13.3.1", "environment": PYTHON})
    old = (module("535.183.01"), driver("535.183.01"), nvml("535.183.01", 12020), libcuda(12020, "535.183.01"))
    found = {(one.from_, one.to): one.status for one in report(healthy(toolkit, bindings, *old)).contracts}
    assert found["cuda-toolkit", "nvidia-driver"] is Kept.BROKEN
    assert found["cuda-toolkit", "gpu"] is Kept.OK
    assert found["cuda-bindings", "nvidia-driver"] is Kept.LIMITED
    assert "cuda-toolkit" not in {one.from_ for one in report(machine(seen("pci-display"), toolkit)).contracts}
