"""Rules about trials of libraries beside the frameworks: which failed, how serious that is, and its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.model.facts import Component, Facts, Layer
from gpustack.model.report import Finding, Severity
from tests.build import PYTHON, found, healthy, ids, kernel, machine, report, roots, seen, torch

FAILS, IMPORT = "framework-fails-on-gpu", "framework-import-fails"
RAN: dict[str, object] = {"ran": True, "ok": True, "device": "cuda:0", "error": None, "failed_at": None}
WRONG = {**RAN, "ok": False, "failed_at": "result"}
IDLE: dict[str, object] = {
    "ran": False,
    "ok": False,
    "device": None,
    "error": None,
    "unavailable": "libcuda.so.1: cannot open",
}
COMPILERS = {"triton", "torch-compile", "torchscript"}


def ran(component: str, exercise: dict[str, object], version: str = "1.2.0", **facts: object) -> Component:
    """Return a component that was tried in the selected Python."""
    layer = Layer.COMPILER if component in COMPILERS else Layer.LIBRARY if component == "cupy" else Layer.RUNTIME
    copy = {"key": component, "version": version, "environment": PYTHON, "exercise": exercise, **facts}
    return replace(seen(component, copy), layer=layer)


def failing(error: str, at: str = "compile", **more: object) -> dict[str, object]:
    return {"ran": at in {"launch", "result"}, "ok": False, "device": "cuda:0", "error": error, "failed_at": at, **more}


def finding_of(facts: Facts, component: str) -> Finding | None:
    return next(
        (one for one in report(facts).findings if one.component == component and one.id in {FAILS, IMPORT}), None
    )


@pytest.mark.parametrize(
    ("exercise", "which", "words"),
    [
        (RAN, None, ""),
        (IDLE, None, ""),
        (WRONG, FAILS, "CuPy 1.2.0 gave a wrong answer on cuda:0"),
        (failing("RuntimeError: x", "launch"), FAILS, "CuPy 1.2.0 failed on cuda:0"),
        (failing("RuntimeError: x"), FAILS, "CuPy 1.2.0 cannot compile for cuda:0"),
        (failing("ImportError: x", "import", device=None), IMPORT, "CuPy 1.2.0 cannot be imported"),
        (
            {"ran": False, "reason": "was killed by SIGSEGV", "failed_at": "compile"},
            FAILS,
            "cannot compile for the GPU",
        ),
        ({"ran": False, "reason": "was killed by SIGSEGV", "failed_at": "import"}, IMPORT, "cannot be imported"),
        ({"ran": False, "reason": "was killed by SIGSEGV"}, FAILS, "could not be run"),
    ],
)
def test_what_was_run_without_success_is_a_warning_where_no_framework_rests_on_it(
    exercise: dict[str, object], which: str | None, words: str
) -> None:
    facts = healthy(torch(exercise=RAN), ran("cupy", exercise))
    finding = finding_of(facts, "cupy")
    assert (finding.id if finding else None) == which
    if finding:
        assert words in finding.title
        assert finding.severity is Severity.WARNING
        assert finding.instance == f"cupy:{PYTHON}"
        assert finding.because
        assert finding.detail or not exercise.get("error")
        assert finding.fix is not None
        assert finding.fix.commands == (f"gpustack doctor --deep --python {PYTHON}",)
    assert report(facts).verdict.works == {"pytorch": True}


def test_running_out_of_time_is_not_knowing() -> None:
    late = {"ran": False, "reason": "gave no answer in 55.0 s (state S)", "failed_at": "compile"}
    finding = finding_of(healthy(ran("cupy", late)), "cupy")
    assert finding is not None
    assert (finding.severity, finding.title) == (Severity.UNKNOWN, "CuPy 1.2.0 did not finish in time")
    at_import = finding_of(healthy(ran("cupy", {**late, "failed_at": "import"})), "cupy")
    assert at_import is not None
    assert at_import.severity is Severity.UNKNOWN


def test_what_a_framework_requires_weighs_as_much_as_the_framework() -> None:
    wrong = ran("cuda-bindings", WRONG, "13.3.1")
    rests = healthy(torch(requires={"cuda-bindings": ">=13"}, exercise=RAN), wrong)
    other = healthy(torch(requires={"numpy": ""}, exercise=RAN), wrong)
    severities = [finding.severity for facts in (rests, other) if (finding := finding_of(facts, "cuda-bindings"))]
    assert severities == [Severity.ERROR, Severity.WARNING]
    runtime = finding_of(healthy(ran("cuda-runtime", WRONG)), "cuda-runtime")
    assert runtime is not None
    assert runtime.severity is Severity.ERROR
    compiler = finding_of(healthy(torch(requires={"triton": "==3.6.0"}, exercise=RAN), ran("triton", WRONG)), "triton")
    assert compiler is not None
    assert compiler.severity is Severity.WARNING  # torch computes without it


def test_tensorflow_that_leaves_the_gpu_alone_is_reported_if_it_is_built_for_it() -> None:
    idle: dict[str, object] = {**RAN, "device": "cpu"}
    finding = finding_of(healthy(ran("tensorflow", idle, accelerator="cuda")), "tensorflow")
    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert "computed on the CPU" in finding.title
    assert finding_of(healthy(ran("tensorflow", idle, accelerator="cpu")), "tensorflow") is None
    none = machine(kernel(), seen("pci-display"), ran("tensorflow", idle, accelerator="cuda"), pythons=[PYTHON])
    assert ids(none) == set()


def test_without_a_gpu_only_what_cannot_be_imported_is_reported() -> None:
    bare = (kernel(), seen("pci-display"))
    assert ids(machine(*bare, ran("cupy", IDLE), pythons=[PYTHON])) == set()
    facts = machine(*bare, ran("cupy", failing("ImportError: no", "import", device=None)), pythons=[PYTHON])
    assert ids(facts) == {IMPORT}


def test_what_is_made_of_something_that_failed_follows_from_it() -> None:
    error = failing("AttributeError: module 'numpy' has no attribute 'x'")
    facts = healthy(ran("numba-cuda", error), ran("cuda-coop", error), ran("cupy", error))
    coop = finding_of(facts, "cuda-coop")
    assert coop is not None
    assert (coop.caused_by, coop.fix) == (f"{FAILS}@numba-cuda:{PYTHON}", None)
    assert report(facts).verdict.root_keys == (f"{FAILS}@numba-cuda:{PYTHON}", f"{FAILS}@cupy:{PYTHON}")
    elsewhere = healthy(ran("cuda-coop", error), ran("numba-cuda", error, environment="/another/python"))
    other = finding_of(elsewhere, "cuda-coop")
    assert other is not None
    assert other.caused_by is None


def test_a_compiler_of_a_torch_that_cannot_use_the_gpu_follows_from_torch_and_that_from_its_cause() -> None:
    told = {"ran": True, "ok": False, "device": "cuda:0", "error": "RuntimeError: CUDA error: no kernel image"}
    old = torch(archs=["sm_50", "sm_60"], exercise={**told, "failed_at": "launch"})
    facts = healthy(old, ran("torchscript", failing("RuntimeError: CUDA error: no kernel image", "launch")))
    assert roots(facts) == ("arch-not-in-build",)
    script = finding_of(facts, "torchscript")
    assert script is not None
    assert script.caused_by == f"{FAILS}@pytorch:{PYTHON}"


MISSING = "OSError: libcudart.so.13: cannot open shared object file: No such file or directory"


def test_what_it_says_is_read_like_a_pasted_text_and_names_the_cause() -> None:
    facts = healthy(torch(exercise=RAN), ran("cupy", failing(f"ImportError: {MISSING}", "import", words=MISSING)))
    cause = found(facts, "cuda-runtime-missing")
    assert cause is not None
    assert cause.severity is Severity.WARNING  # no framework depends on cupy
    assert "libcudart.so.13" in cause.title
    consequence = finding_of(facts, "cupy")
    assert consequence is not None
    assert consequence.caused_by == cause.key
    assert roots(facts) == ("cuda-runtime-missing",)
    assert report(facts).verdict.works == {"pytorch": True}


def test_words_of_one_are_no_cause_of_what_another_suffers() -> None:
    facts = healthy(
        ran("cupy", failing(MISSING, "import", words=MISSING)), ran("nvmath-python", failing("ValueError: y", "launch"))
    )
    other = finding_of(facts, "nvmath-python")
    assert other is not None
    assert other.caused_by is None


def test_a_cause_that_a_framework_named_is_an_error() -> None:
    told = {"ran": False, "ok": False, "error": f"ImportError: {MISSING}", "words": MISSING, "failed_at": "import"}
    facts = healthy(torch(exercise=told), ran("cupy", failing(MISSING, "import", words=MISSING)))
    cause = found(facts, "cuda-runtime-missing")
    assert cause is not None
    assert cause.severity is Severity.ERROR
    assert roots(facts) == ("cuda-runtime-missing",)


def test_what_those_say_that_ran_well_is_not_read() -> None:
    well = {**RAN, "said": [MISSING], "printed": [MISSING]}
    assert ids(healthy(torch(exercise=well), ran("cupy", well))) == ids(healthy(torch(exercise=RAN)))


def test_a_known_bad_pair_explains_only_the_one_that_it_is_about() -> None:
    error = failing("AttributeError: module 'numpy' has no attribute 'row_stack'")
    packages = seen("packages", {"distributions": {"numpy": "2.5.2", "numba-cuda": "0.30.4"}, "environment": PYTHON})
    facts = healthy(packages, ran("numba-cuda", error, "0.30.4"), ran("cuda-coop", error), ran("cupy", error))
    assert roots(facts) == ("known-bad-combination", FAILS)
    causes = [finding.caused_by for name in ("numba-cuda", "cupy") if (finding := finding_of(facts, name))]
    assert causes == ["known-bad-combination@numba-cuda-numpy-2-5", None]
