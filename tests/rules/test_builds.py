"""Rules about what frameworks are built for: the driver's CUDA, the GPU's architecture, or no GPU at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Kept, Purpose, Severity
from gpustack.model.versions import CudaVersion
from gpustack.rules.compatibility import driver_fit
from tests.build import (
    MATRIX,
    PYTHON,
    driver,
    found,
    gpu,
    healthy,
    ids,
    jax,
    libcuda,
    machine,
    merged,
    module,
    nvml,
    onnxruntime,
    pci,
    python,
    report,
    roots,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts

OLD = "driver-too-old-for-cuda-build"
BLACKWELL = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
BEFORE = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


def on(release: str, cuda: int, *others: Component, cc: str = "8.6", name: str = "NVIDIA RTX A6000") -> Facts:
    """Give a machine on this driver, with this GPU."""
    parts = (module(release, release), driver(release), nvml(release, cuda), libcuda(cuda, release, cc))
    return healthy(*parts, seen("gpu", gpu(name, cc)), seen("pci-display", pci(device="0x2230")), *others)


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
def test_a_build_goes_with_a_driver(cuda: str, release: str, highest: int, kept: Kept) -> None:
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


def test_a_build_within_the_same_major_is_no_fault() -> None:
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
        f"{PYTHON} -m pip install --force-reinstall torch==2.11.0 --index-url https://download.pytorch.org/whl/cu128",
    )
    assert not finding.fix.needs_root
    assert finding.row is not None
    assert roots(facts) == (OLD,)


def test_compat_packages_are_for_data_centre_gpus() -> None:
    finding = found(on("570.86.10", 12080, torch(), name="NVIDIA GeForce RTX 3090"), OLD)
    assert finding is not None
    assert "compat" not in finding.detail


def test_where_no_build_is_known_the_driver_is_to_be_renewed() -> None:
    facts = on("390.157", 9010, torch("1.3.0", "cu101", "10.1"), cc="6.1", name="NVIDIA GeForce GTX 1080")
    finding = found(facts, OLD)
    assert finding is not None
    assert finding.fix is not None
    assert finding.fix.needs_reboot
    assert "418" in finding.fix.text


@pytest.mark.parametrize(
    ("framework", "release", "cuda", "command"),
    [
        (jax("cuda13"), "535.183.01", 12020, 'pip install --upgrade "jax[cuda12]"'),
        (onnxruntime("cuda13", cuda="13.0"), "535.183.01", 12020, 'pip install "onnxruntime-gpu<1.27"'),
        (onnxruntime("cuda12", cuda="12"), "470.256.02", 11040, 'pip install "onnxruntime-gpu<1.19"'),
        (jax("cuda12"), "470.256.02", 11040, "sudo ubuntu-drivers install"),
    ],
)
def test_other_frameworks_have_wheels_for_older_drivers(
    framework: Component, release: str, cuda: int, command: str
) -> None:
    finding = found(on(release, cuda, framework), OLD)
    assert finding is not None
    assert finding.fix is not None
    assert command in finding.fix.commands[-1]


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


def test_a_gpu_that_is_newer_than_the_build_wants_another() -> None:
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
    assert "torch==2.11.0 --index-url https://download.pytorch.org/whl/cu126" in finding.fix.commands[0]


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
def test_code_of_the_same_major_or_no_list_at_all_is_no_fault(archs: list[str]) -> None:
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


def test_a_cpu_build_beside_a_gpu_is_a_warning_with_the_wheel_to_install() -> None:
    facts = healthy(torch("2.11.0", "cpu", None))
    finding = found(facts, "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "CPU-only" in finding.title
    assert finding.fix is not None
    assert "torch==2.11.0 --index-url https://download.pytorch.org/whl/cu130" in finding.fix.commands[0]
    assert report(facts).verdict.works == {"pytorch": False}


def test_a_build_for_another_makers_gpu_does_not_use_this_one() -> None:
    finding = found(healthy(torch("2.11.0", "rocm7.2", None, accelerator="rocm")), "cpu-only-build")
    assert finding is not None
    assert "ROCm" in finding.title
    amd = seen("pci-display", pci(), pci("amdgpu", "0x74a1", "0000:02:00.0", "amd"))
    assert "cpu-only-build" not in ids(healthy(amd, torch("2.11.0", "rocm7.2", None, accelerator="rocm")))


def test_onnxruntime_for_the_cpu_is_a_remark_beside_another_unless_one_infers() -> None:
    beside = healthy(torch(), onnxruntime())
    for purpose, severity in [
        (Purpose.ANY, Severity.INFO),
        (Purpose.TRAIN, Severity.INFO),
        (Purpose.INFER, Severity.WARNING),
    ]:
        finding = found(beside, "cpu-only-build", purpose)
        assert finding is not None
        assert finding.severity is severity
    alone = found(healthy(onnxruntime()), "cpu-only-build")
    assert alone is not None
    assert alone.severity is Severity.WARNING
    assert alone.fix is not None
    assert alone.fix.commands[-1].endswith("pip install onnxruntime-gpu")


def test_a_cpu_build_is_no_fault_where_there_is_no_gpu_or_cuda_does_not_start() -> None:
    none = machine(seen("pci-display"), torch("2.11.0", "cpu", None), onnxruntime())
    assert ids(none) == set()
    finding = found(healthy(torch("2.11.0", "cpu", None), libcuda(init=802)), "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.INFO


def test_a_cpu_build_without_a_known_wheel_says_so() -> None:
    finding = found(on("340.108", 6050, jax("cpu")), "cpu-only-build")
    assert finding is not None
    assert finding.fix is not None
    assert "bring it up to date first" in finding.fix.text


def test_both_flavours_of_onnxruntime_clash() -> None:
    both = {"onnxruntime": "1.20.1", "onnxruntime-gpu": "1.20.1"}
    facts = healthy(onnxruntime(distributions=both))
    assert roots(facts) == ("ort-cpu-and-gpu-installed",)
    finding = found(healthy(onnxruntime("cuda12", cuda="12", distributions=both)), "ort-cpu-and-gpu-installed")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_jaxlib_and_its_plugin_are_of_one_version() -> None:
    plugins = {"jax-cuda12-plugin": "0.9.1", "jax-cuda12-pjrt": "0.9.1"}
    facts = healthy(jax("cuda12", "0.9.2", plugins=plugins))
    finding = found(facts, "jax-plugin-mismatch")
    assert finding is not None
    assert "0.9.2" in finding.title
    assert "0.9.1" in finding.title
    assert roots(facts) == ("jax-plugin-mismatch",)
    assert report(facts).verdict.works == {"jax": False}
    ran = healthy(jax("cuda12", "0.9.2", plugins=plugins, exercise={"ran": True, "ok": True, "device": "cuda:0"}))
    assert "jax-plugin-mismatch" not in ids(ran)
    assert "jax-plugin-mismatch" not in ids(healthy(jax("cuda12", "0.9.2", plugins={"jax-cuda12-plugin": None})))


RAN = {"ran": True, "ok": True, "device": "cuda:0", "error": None}


@pytest.mark.parametrize(
    ("exercise", "severity", "words"),
    [
        (RAN, None, ""),
        ({"ran": True, "ok": False, "device": "cuda:0"}, Severity.ERROR, "gave a wrong answer on cuda:0"),
        (
            {"ran": True, "ok": False, "device": "cuda:0", "error": "RuntimeError: x"},
            Severity.ERROR,
            "failed on cuda:0",
        ),
        ({"ran": True, "ok": True, "device": "cpu", "unavailable": "y"}, Severity.ERROR, "computed on the CPU"),
        ({"ran": False, "ok": False, "error": "ImportError: z"}, Severity.ERROR, "could not be run"),
        ({"ran": False, "status": "failed", "reason": "was killed by signal 11"}, Severity.ERROR, "could not be run"),
        ({"ran": False, "status": "failed", "reason": "gave no answer in 8.0 s"}, Severity.UNKNOWN, "gave no answer"),
    ],
)
def test_a_framework_that_was_run_in_vain(exercise: dict[str, object], severity: Severity | None, words: str) -> None:
    facts = healthy(torch(exercise=exercise))
    finding = found(facts, "framework-fails-on-gpu")
    assert (finding.severity if finding else None) is severity
    if finding:
        assert words in finding.title
        assert finding.detail or severity is None or exercise["ran"]
    assert report(facts).verdict.works == {"pytorch": severity is None}


def test_what_fails_for_a_deeper_reason_is_a_consequence() -> None:
    failed = {"ran": True, "ok": False, "device": "cuda:0", "error": "no kernel image is available"}
    facts = on("570.124.04", 12080, torch("2.6.0", "cu126", "12.6", archs=BEFORE, exercise=failed), cc="12.0")
    assert roots(facts) == ("arch-not-in-build",)
    finding = found(facts, "framework-fails-on-gpu")
    assert finding is not None
    assert finding.caused_by == f"arch-not-in-build@pytorch:{PYTHON}"
    stopped = merged(healthy(torch(exercise=failed)), libcuda(init=802))
    assert roots(stopped) == ("fabric-manager-not-running",)


def test_one_python_does_not_explain_another() -> None:
    other = "/opt/other/bin/python"
    failed = {"ran": True, "ok": False, "device": "cuda:0", "error": "x"}
    good = {**torch().instances[0].facts, "exercise": failed}
    two = seen(
        "pytorch",
        {
            "version": "2.6.0+cu126",
            "build": "cu126",
            "environment": PYTHON,
            "accelerator": "cuda",
            "cuda": "12.6",
            "archs": BEFORE,
        },
        {"version": "2.11.0+cu130", "build": "cu130", "environment": other, **good},
    )
    facts = on("580.95.05", 13000, two, cc="12.0", name="NVIDIA GeForce RTX 5090")
    assert roots(facts) == ("arch-not-in-build", "framework-fails-on-gpu")


def test_the_newest_wheel_is_one_for_this_python() -> None:
    facts = on("570.124.04", 12080, torch("2.6.0", "cu126", "12.6", archs=BEFORE), python("3.9.1"), cc="12.0")
    finding = found(facts, "arch-not-in-build")
    assert finding is not None
    assert finding.fix is not None
    assert '"torch==2.8.*"' in finding.fix.commands[0]
