"""Rules about what frameworks are built for: the driver's CUDA, the GPU's architecture, or no GPU at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.model.report import Kept, Purpose, Severity
from gpustack.model.versions import CudaVersion
from tests.build import (
    MATRIX,
    PYTHON,
    driver,
    found,
    ids,
    jax,
    libcuda,
    machine,
    module,
    nvml,
    on,
    onnxruntime,
    pci,
    report,
    roots,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component

OLD = "driver-too-old-for-cuda-build"
BLACKWELL = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
BEFORE = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.mark.parametrize(
    ("cuda", "release", "highest", "kept"),
    [
        ("13.0", "580.95.05", 13000, Kept.OK),
        ("12.8", "580.95.05", 13000, Kept.OK),
        ("13.2", "580.65.06", 13000, Kept.LIMITED),
        ("12.8", "535.183.01", 12020, Kept.LIMITED),
        ("12.9", "525.60.13", 12000, Kept.LIMITED),
        ("12.8", "525.53", 12000, Kept.BROKEN),
        ("13.0", "575.64.05", 12090, Kept.BROKEN),
        ("12.1", "470.256.02", 11040, Kept.BROKEN),
        ("11.8", "450.80.02", 11000, Kept.LIMITED),
        ("11.8", "450.51.06", 11000, Kept.BROKEN),
        ("10.2", "418.67", 10010, Kept.BROKEN),
        ("10.1", "418.67", 10010, Kept.OK),
        ("10.1", "410.104", 10000, Kept.BROKEN),
        ("14.0", "620.70.06", 13050, Kept.UNKNOWN),
        ("14.0", "700.10", 14000, Kept.OK),
        ("13.0", "700.10", 14000, Kept.OK),
        ("8.0", "384.81", 9000, Kept.OK),
        ("8.5", "367.44", 8000, Kept.UNKNOWN),
    ],
)
def test_a_build_works_with_a_driver(cuda: str, release: str, highest: int, kept: Kept) -> None:
    wanted = CudaVersion.parse(cuda)
    assert wanted is not None
    assert driver_fit(wanted, on(release, highest), MATRIX).kept is kept


def test_without_the_drivers_own_word_its_branch_says_what_it_runs() -> None:
    facts = machine(seen("pci-display", pci()), module("535.183.01"), driver("535.183.01"))
    assert driver_fit(CudaVersion(12, 8), facts, MATRIX).kept is Kept.LIMITED
    assert driver_fit(CudaVersion(13, 0), facts, MATRIX).kept is Kept.BROKEN
    unheard = machine(seen("pci-display", pci()), module("999.10"), driver("999.10"))
    assert driver_fit(CudaVersion(13, 0), unheard, MATRIX).kept is Kept.UNKNOWN
    assert driver_fit(CudaVersion(13, 0), machine(), MATRIX).kept is Kept.UNKNOWN


def test_in_wsl_windows_driver_counts_by_its_cuda_version() -> None:
    facts = machine(libcuda(12060, "566.36"), nvml("566.36", 12060), wsl=True)
    assert driver_fit(CudaVersion(12, 8), facts, MATRIX).kept is Kept.LIMITED
    assert driver_fit(CudaVersion(13, 0), facts, MATRIX).kept is Kept.BROKEN


def test_a_build_within_the_same_major_is_not_a_fault() -> None:
    facts = on("535.183.01", 12020, torch("2.10.0", "cu128", "12.8"))
    assert roots(facts) == ()
    contract = next(one for one in report(facts).contracts if one.kind == "cuda")
    assert contract.status is Kept.LIMITED
    assert contract.row is not None


def test_a_driver_that_is_too_old_names_both_versions_and_offers_the_smaller_change() -> None:
    facts = on("570.86.10", 12080, torch("2.11.0", "cu130", "13.0"), name="NVIDIA A100-SXM4-80GB", cc="8.0")
    finding = found(facts, OLD)
    assert finding is not None
    text = f"{finding.title} {finding.detail}"
    assert all(word in text for word in ("570.86.10", "12.8", "13.0", "580.65.06", "cuda-compat-13-0"))
    assert finding.fix is not None
    assert finding.fix.commands == (
        f"{PYTHON} -m pip install torch==2.11.0+cu128 --index-url https://download.pytorch.org/whl/cu128",
    )
    assert not finding.fix.needs_root
    assert finding.row is not None
    assert roots(facts) == (OLD,)


def test_compat_packages_are_for_data_centre_gpus() -> None:
    finding = found(on("570.86.10", 12080, torch(), name="NVIDIA GeForce RTX 3090"), OLD)
    assert finding is not None
    assert "compat" not in finding.detail


def test_where_no_build_is_known_the_driver_has_to_be_upgraded() -> None:
    facts = on("390.157", 9010, torch("1.3.0", "cu101", "10.1"), cc="6.1", name="NVIDIA GeForce GTX 1080")
    finding = found(facts, OLD)
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.needs_reboot
    assert "418" in finding.fix.text


@pytest.mark.parametrize(
    ("framework", "release", "cuda", "command"),
    [
        (jax("cuda13"), "535.183.01", 12020, 'pip install --upgrade "jax[cuda12]=='),
        (onnxruntime("cuda13", cuda="13.0"), "535.183.01", 12020, 'pip install "onnxruntime-gpu==1.26.*"'),
        (onnxruntime("cuda12", cuda="12"), "470.256.02", 11040, 'pip install "onnxruntime-gpu==1.18.*"'),
        (jax("cuda12"), "470.256.02", 11040, "sudo apt-get install nvidia-driver-580"),
    ],
)
def test_other_frameworks_have_wheels_for_older_drivers(
    framework: Component, release: str, cuda: int, command: str
) -> None:
    finding = found(on(release, cuda, framework), OLD)
    assert finding is not None
    assert finding.fix is not None
    assert any(command in one for one in finding.fix.commands)


def test_a_framework_that_ran_on_the_gpu_is_not_argued_with() -> None:
    ran = {"ran": True, "ok": True, "device": "cuda:0"}
    assert OLD not in ids(on("535.183.01", 12020, torch(exercise=ran)))


def test_a_toolkit_is_a_remark_unless_one_builds() -> None:
    toolkit = seen("cuda-toolkit", {"key": "/usr/local/cuda-13.0", "version": "13.0.2", "in_use": True})
    facts = on("535.183.01", 12020, toolkit)
    assert roots(facts) == ()
    finding = found(facts, OLD)
    assert finding is not None
    assert finding.severity is Severity.INFO
    built = found(facts, OLD, Purpose.BUILD)
    assert built is not None
    assert built.severity is Severity.WARNING
    unused = seen("cuda-toolkit", {"key": "/usr/local/cuda-13.0", "version": "13.0.2", "in_use": False})
    assert OLD not in ids(on("535.183.01", 12020, unused))


def test_a_gpu_that_is_newer_than_the_build_needs_another() -> None:
    facts = on(
        "570.124.04", 12080, torch("2.6.0", "cu126", "12.6", archs=BEFORE), cc="12.0", name="NVIDIA GeForce RTX 5090"
    )
    finding = found(facts, "arch-not-in-build")
    assert finding is not None
    text = f"{finding.title} {finding.detail} {finding.fix}"
    assert all(word in text for word in ("sm_120", "2.6.0+cu126", "12.8", "whl/cu128"))
    assert roots(facts) == ("arch-not-in-build",)
    assert report(facts).verdict.works == {"pytorch": False}


def test_a_gpu_that_a_build_has_dropped_gets_the_build_that_kept_it() -> None:
    facts = on(
        "580.95.05", 13000, torch("2.11.0", "cu130", "13.0", archs=BLACKWELL), cc="6.1", name="NVIDIA GeForce GTX 1080"
    )
    finding = found(facts, "arch-not-in-build")
    assert finding is not None
    assert finding.fix is not None
    assert "torch==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126" in finding.fix.commands[0]


def test_a_gpu_that_no_build_knows_is_built_for() -> None:
    facts = on("390.157", 9010, torch("1.13.1", "cu117", "11.7", archs=["sm_37"]), cc="2.0", name="Fermi")
    finding = found(facts, "arch-not-in-build")
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.commands == ("export TORCH_CUDA_ARCH_LIST=2.0",)


def test_of_two_gpus_one_without_code_is_a_warning() -> None:
    devices = [{"ordinal": 0, "cc": "8.6"}, {"ordinal": 1, "cc": "6.1"}]
    finding = found(on("580.95.05", 13000, torch(), libcuda(devices=devices)), "arch-not-in-build")
    assert finding is not None
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("archs", [[], ["garbage"], ["sm_80"], ["sm_86"], ["sm_75", "compute_86"]])
def test_code_of_the_same_major_or_no_list_at_all_is_not_a_fault(archs: list[str]) -> None:
    assert not {"arch-not-in-build", "ptx-newer-than-driver"} & ids(on("580.95.05", 13000, torch(archs=archs)))


def test_ptx_alone_is_slow_and_ptx_of_a_newer_cuda_is_refused() -> None:
    slow = on("580.95.05", 13000, torch("2.7.1", "cu128", "12.8", archs=["sm_75", "compute_80"]))
    assert roots(slow) == ("arch-by-ptx-only",)
    assert report(slow).verdict.works == {"pytorch": True}
    refused = on("535.183.01", 12020, torch("2.7.1", "cu128", "12.8", archs=["sm_75", "compute_80"]))
    assert roots(refused) == ("ptx-newer-than-driver",)
    assert report(refused).verdict.works == {"pytorch": False}
    own = on("535.183.01", 12020, torch("1.0", None, "12.8", archs=["sm_75", "compute_80"]), cc="7.0")
    assert roots(own) == ("arch-not-in-build",)


def test_ptx_without_a_better_build_is_left_to_the_driver() -> None:
    facts = on("999.10", 14000, torch("9.9", "cu140", "14.0", archs=["compute_90"]), cc="15.0", name="NVIDIA X900")
    finding = found(facts, "arch-by-ptx-only")
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.commands
