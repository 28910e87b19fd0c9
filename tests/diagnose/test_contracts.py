"""The contracts between the layers: drawn where both ends were seen, with what is required and what was found."""

from __future__ import annotations

from dataclasses import replace

from gpustack.model.report import Kept, Report, Severity
from tests.build import (
    PYTHON,
    driver,
    healthy,
    libcuda,
    machine,
    module,
    nvml,
    nvml_error,
    on,
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
    assert working["libcuda"] is Kept.LIMITED


def test_toolkit_and_bindings_have_contracts_with_the_driver() -> None:
    toolkit = seen("cuda-toolkit", {"key": "/usr/local/cuda", "version": "13.2", "in_use": True})
    bindings = seen("cuda-bindings", {"key": "cuda-bindings", "version": "13.3.1", "environment": PYTHON})
    old = (module("535.183.01"), driver("535.183.01"), nvml("535.183.01", 12020), libcuda(12020, "535.183.01"))
    found = {(one.from_, one.to): one.status for one in report(healthy(toolkit, bindings, *old)).contracts}
    assert found["cuda-toolkit", "nvidia-driver"] is Kept.LIMITED  # programs not compiled with it still run
    assert found["cuda-toolkit", "gpu"] is Kept.OK
    assert found["cuda-bindings", "nvidia-driver"] is Kept.LIMITED
    assert "cuda-toolkit" not in {one.from_ for one in report(machine(seen("pci-display"), toolkit)).contracts}


def _beside(*distributions: tuple[str, str], build: str = "cu130", cuda: str = "13.0") -> Report:
    listed = seen("packages", {"environment": PYTHON, "distributions": dict(distributions)})
    return report(healthy(torch("2.9.0", build, cuda), listed))


def test_bitsandbytes_needs_a_library_for_the_cuda_of_torch() -> None:
    made = _beside(("bitsandbytes", "0.45.5"))
    kept = {one.found: one.status for one in made.contracts if one.from_ == "bitsandbytes" and one.to == "pytorch"}
    assert kept["torch 2.9.0+cu130 for CUDA 13.0"] is Kept.BROKEN
    assert [one.severity for one in made.findings if one.id == "bnb-binary-missing-for-cuda"] == [Severity.ERROR]
    well = _beside(("bitsandbytes", "0.45.5"), build="cu128", cuda="12.8")
    assert "bnb-binary-missing-for-cuda" not in {one.id for one in well.findings}


def test_from_0_50_on_bitsandbytes_takes_the_nearest_library_of_the_same_major() -> None:
    made = _beside(("bitsandbytes", "0.50.2"), build="cu129", cuda="12.9")
    kept = {one.status for one in made.contracts if one.from_ == "bitsandbytes" and one.to == "pytorch"}
    assert Kept.LIMITED in kept
    assert Kept.BROKEN not in kept
    assert "bnb-binary-missing-for-cuda" not in {one.id for one in made.findings}


def test_versions_that_are_known_to_fail_together_break_a_contract_and_have_their_finding() -> None:
    numpy = seen("packages", {"environment": PYTHON, "distributions": {"numpy": "2.1.0"}})
    made = report(healthy(torch("2.2.0", "cu121", "12.1"), numpy))
    broken = [(one.from_, one.to) for one in made.contracts if one.kind == "combination"]
    assert broken == [("pytorch", "numpy")]
    assert "torch-numpy-2" in {one.instance for one in made.findings}
    newer = report(healthy(torch("2.3.0", "cu121", "12.1"), numpy))
    assert not [one for one in newer.contracts if one.kind == "combination"]


def test_a_chip_younger_than_its_architecture_needs_its_own_branch() -> None:
    def branches(name: str, cc: str, release: str, cuda: int) -> list[Kept]:
        contracts = report(on(release, cuda, cc=cc, name=name)).contracts
        return [one.status for one in contracts if one.kind == "branch" and "5" in one.needs and "450" not in one.needs]

    assert branches("NVIDIA B300", "10.3", "570.195.03", 12080) == [Kept.LIMITED]  # the driver lists it
    assert branches("NVIDIA B300", "10.3", "580.95.05", 13000) == [Kept.OK]
    assert branches("NVIDIA B200", "10.0", "570.195.03", 12080) == [Kept.OK]


def test_a_driver_of_windows_is_judged_by_the_branch_that_it_is_of() -> None:
    facts = replace(on("551.61", 12040, cc="12.0", name="RTX 5090"), messages=())
    wsl = replace(facts, host=replace(facts.host, wsl=True))
    found = {(one.found, one.status) for one in report(wsl).contracts if one.kind == "branch"}
    assert ("branch 550", Kept.LIMITED) in found  # NVML lists it anyway


def test_a_python_without_the_gil_has_no_wheel_where_there_is_one_with_it() -> None:
    ours = report(healthy(torch("2.12.1"), python("3.14.0"))).contracts
    assert [one.status for one in ours if (one.from_, one.kind) == ("pytorch", "python")] == [Kept.OK]
    copy = {"key": PYTHON, "version": "3.13.1", "environment": PYTHON, "gil": False}
    without = report(healthy(torch("2.12.1"), seen("python", copy))).contracts
    assert [one.found for one in without if one.kind == "python"] == ["Python 3.13.1t"]
    assert [one.status for one in without if one.kind == "python"] == [Kept.UNKNOWN]


def test_a_broken_contract_names_the_finding_that_says_so() -> None:
    made = report(on("470.256.02", 11040, torch()))
    (broken,) = (one for one in made.contracts if (one.to, one.status) == ("nvidia-driver", Kept.BROKEN))
    assert broken.finding in {one.key for one in made.findings if one.id == "driver-too-old-for-cuda-build"}
    assert {one.finding for one in made.contracts if one.status is Kept.OK} == {None}
