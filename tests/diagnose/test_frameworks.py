"""Rules about frameworks: builds that use no GPU, wheels that clash, and the results of running them."""

from __future__ import annotations

import pytest

from gpustack.model.report import Purpose, Severity
from tests.build import (
    PYTHON,
    found,
    healthy,
    ids,
    jax,
    kernel,
    libcuda,
    machine,
    merged,
    on,
    onnxruntime,
    pci,
    python,
    report,
    roots,
    seen,
    torch,
)

BEFORE = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


def test_a_cpu_build_beside_a_gpu_is_a_warning_with_the_wheel_to_install() -> None:
    facts = healthy(torch("2.11.0", "cpu", None))
    finding = found(facts, "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "CPU-only" in finding.title
    assert finding.fix is not None
    assert "torch==2.11.0+cu130 --index-url https://download.pytorch.org/whl/cu130" in finding.fix.commands[0]
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
    assert alone.fix.commands[-1].endswith('pip install "onnxruntime-gpu==1.30.*"')  # of the installed minor version


def test_a_cpu_build_is_not_a_fault_where_there_is_no_gpu_or_cuda_does_not_start() -> None:
    none = machine(seen("pci-display"), torch("2.11.0", "cpu", None), onnxruntime())
    assert ids(none) == set()
    finding = found(healthy(torch("2.11.0", "cpu", None), libcuda(init=802)), "cpu-only-build")
    assert finding is not None
    assert finding.severity is Severity.INFO


def test_a_cpu_build_without_a_known_wheel_says_so() -> None:
    finding = found(on("340.108", 6050, jax("cpu")), "cpu-only-build")
    assert finding is not None
    assert finding.fix is not None
    assert "update the driver first" in finding.fix.text


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
        ({"ran": False, "status": "failed", "reason": "gave no answer in 8.0 s"}, Severity.UNKNOWN, "did not finish"),
    ],
)
def test_a_framework_that_was_run_without_success(
    exercise: dict[str, object], severity: Severity | None, words: str
) -> None:
    facts = healthy(torch(exercise=exercise))
    finding = found(facts, "framework-fails-on-gpu")
    assert (finding.severity if finding else None) is severity
    if finding:
        assert words in finding.title
        assert finding.detail or severity is None or exercise["ran"]
    assert report(facts).verdict.works == {"pytorch": severity is None}


@pytest.mark.parametrize(
    ("exercise", "severity"),
    [
        ({"ran": False, "ok": False, "error": "ImportError: libcudnn.so.9"}, Severity.ERROR),
        ({"ran": False, "status": "failed", "reason": "gave no answer in 8.0 s"}, Severity.UNKNOWN),
        ({"ran": True, "ok": True, "device": "cpu"}, None),
    ],
)
def test_an_import_that_fails_is_reported_where_there_is_no_gpu(
    exercise: dict[str, object], severity: Severity | None
) -> None:
    facts = machine(kernel(), seen("pci-display"), torch(exercise=exercise))
    finding = found(facts, "framework-import-fails")
    assert (finding.severity if finding else None) is severity
    assert "framework-fails-on-gpu" not in ids(facts)


def test_an_import_that_fails_beside_a_gpu_is_reported_once() -> None:
    failed = {"ran": False, "ok": False, "error": "ImportError: x"}
    assert "framework-import-fails" not in ids(healthy(torch(exercise=failed)))
    assert "framework-import-fails" in ids(healthy(onnxruntime(exercise=failed)))


def test_a_failure_with_a_deeper_cause_is_a_consequence() -> None:
    said = "CUDA error: no kernel image is available for execution on the device"
    failed = {"ran": True, "ok": False, "device": "cuda:0", "error": said}
    facts = on("570.124.04", 12080, torch("2.6.0", "cu126", "12.6", archs=BEFORE, exercise=failed), cc="12.0")
    assert roots(facts) == ("arch-not-in-build",)
    finding = found(facts, "framework-fails-on-gpu")
    assert finding is not None
    assert finding.caused_by == f"arch-not-in-build@pytorch:{PYTHON}"
    unread = on("570.124.04", 12080, torch("2.6.0", "cu126", "12.6", archs=[], exercise=failed), cc="12.0")
    assert roots(unread) == ("arch-not-in-build",)
    unready = {**failed, "error": "system not yet initialized"}
    stopped = merged(healthy(torch(exercise=unready)), libcuda(init=802))
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
    assert " torch==2.7.0+cu128 " in finding.fix.commands[0]  # the nearest release that has wheels for Python 3.9
