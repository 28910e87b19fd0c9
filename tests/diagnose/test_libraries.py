"""Rules about copies of libraries and about cuda-python: which copy is loaded, and which versions are incompatible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Confidence, Kept, Severity
from tests.build import (
    PYTHON,
    driver,
    found,
    healthy,
    ids,
    libcuda,
    machine,
    module,
    nvml,
    pci,
    report,
    roots,
    seen,
    torch,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Component

WHEEL = "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0"
LOCAL = "/opt/cudnn/lib/libcudnn.so.9.1.0"
PINS = {"nvidia-cudnn-cu13": "9.19.0.56"}


def copy(path: str, version: str | None, **facts: object) -> dict[str, object]:
    owner = {"kind": "wheel", "name": "nvidia-cudnn-cu13", "version": "9.19.0.56"} if path == WHEEL else None
    where = PYTHON if path == WHEEL else None
    return {
        "key": path,
        "path": path,
        "version": version,
        "environment": where,
        "owner": owner,
        "found_by": ["x"],
        **facts,
    }


def search(*steps: tuple[str, str]) -> dict[str, object]:
    return {"libcudnn.so.9": [{"step": step, "path": path, "real": path} for step, path in steps]}


BOTH = seen("cudnn", copy(WHEEL, "9.19.0"), copy(SYSTEM, "9.14.0"), copy(LOCAL, "9.1.0"))
IN_ORDER = search(("RPATH", WHEEL), ("ld.so.cache", SYSTEM))


def test_of_several_copies_the_one_that_counts_is_named() -> None:
    facts = healthy(BOTH, torch(search=IN_ORDER, pins=PINS))
    finding = found(facts, "several-cudnn-copies")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "will load cuDNN 9.19.0, not 9.1.0 or 9.14.0" in finding.title
    assert WHEEL in finding.detail
    assert roots(facts) == ()


def test_what_was_seen_loaded_counts_before_what_follows_from_an_order() -> None:
    ran = {
        "ran": True,
        "ok": True,
        "device": "cuda:0",
        "loaded": {"libcudnn": [SYSTEM, SYSTEM.replace("cudnn", "cudnn_ops")]},
    }
    finding = found(healthy(BOTH, torch(search=IN_ORDER, exercise=ran)), "several-cudnn-copies")
    assert finding is not None
    assert "really loads cuDNN 9.14.0" in finding.title
    assert finding.because[0].source == "memory map"


@pytest.mark.parametrize(
    ("cudnn", "found_at"),
    [
        (seen("cudnn", copy(WHEEL, "9.19.0")), IN_ORDER),
        (seen("cudnn", copy(WHEEL, "9.19.0"), copy("/lib/libcudnn.so.9", "9.19.0")), IN_ORDER),
        (seen("cudnn", copy(WHEEL, "9.19.0"), copy(SYSTEM, None, stub=True)), IN_ORDER),
        (BOTH, {}),
        (BOTH, {"libcudnn.so.9": []}),
        (BOTH, {"libcudnn.so.9": "garbage"}),
    ],
)
def test_copies_of_one_version_and_searches_without_an_answer_are_nothing(
    cudnn: Component, found_at: dict[str, object]
) -> None:
    assert "several-cudnn-copies" not in ids(healthy(cudnn, torch(search=found_at)))


def test_a_cudnn_of_an_unread_version_is_reported_as_such() -> None:
    cudnn = seen("cudnn", copy(WHEEL, None), copy(SYSTEM, "9.14.0"))
    finding = found(healthy(cudnn, torch(search=IN_ORDER)), "several-cudnn-copies")
    assert finding is not None
    assert "of an unknown version" in finding.title


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("9.1.0", Severity.ERROR),
        ("8.9.7", Severity.ERROR),
        ("9.20.0", Severity.WARNING),
        ("9.19.0", None),
        (None, Severity.ERROR),  # then the file's name shows it
    ],
)
def test_another_cudnn_before_the_frameworks_own(version: str | None, severity: Severity | None) -> None:
    cudnn = seen("cudnn", copy(WHEEL, "9.19.0"), copy(LOCAL, version))
    found_at = search(("LD_LIBRARY_PATH", LOCAL), ("RUNPATH", WHEEL))
    for pins in (PINS, {}):
        finding = found(healthy(cudnn, torch(search=found_at, pins=pins)), "cudnn-shadowed-by-ld-library-path")
        assert (finding.severity if finding else None) is severity
        if finding:
            assert "LD_LIBRARY_PATH" in finding.title
            assert (version or "9.1.0") in finding.title
            assert "9.19.0" in finding.title


def test_the_version_of_a_library_is_that_of_the_copy_in_use() -> None:
    cudnn = seen("cudnn", copy(WHEEL, "9.19.0"), copy(LOCAL, "9.1.0"))
    found_at = search(("LD_LIBRARY_PATH", LOCAL), ("RUNPATH", WHEEL))
    for where, version in ((found_at, "9.1.0"), (search(("RUNPATH", WHEEL)), "9.19.0"), ({}, "9.19.0")):
        told = report(healthy(cudnn, torch(search=where, pins=PINS)))
        assert [one.version for one in told.components if one.id == "cudnn"] == [version]


def test_what_is_known_of_the_wrong_copy_follows_from_it() -> None:
    cudnn = seen("cudnn", copy(WHEEL, "9.19.0"), copy(LOCAL, "9.1.0"))
    shadowed = torch(search=search(("LD_LIBRARY_PATH", LOCAL), ("RUNPATH", WHEEL)), pins=PINS)
    told = report(healthy(cudnn, shadowed))
    known = [one for one in told.findings if one.id in {"known-bad-combination", "several-cudnn-copies"}]
    assert len(known) > 1
    assert {one.caused_by for one in known} == set(told.verdict.root_keys)  # its fix removes what they are about
    bare = report(healthy(seen("cudnn", copy(LOCAL, "9.1.0")), torch(search={})))
    known = [one for one in bare.findings if one.id == "known-bad-combination"]
    assert known
    assert {one.caused_by for one in known} == {None}


def test_what_works_anyway_is_only_a_warning() -> None:
    cudnn = seen("cudnn", copy(WHEEL, "9.19.0"), copy(LOCAL, "9.1.0"))
    ran = {"ran": True, "ok": True, "device": "cuda:0", "loaded": {"libcudnn": [LOCAL]}}
    facts = healthy(
        cudnn, torch(search=search(("LD_LIBRARY_PATH", LOCAL), ("RUNPATH", WHEEL)), pins=PINS, exercise=ran)
    )
    finding = found(facts, "cudnn-shadowed-by-ld-library-path")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_an_older_cudnn_than_the_one_built_with_is_too_old() -> None:
    facts = healthy(seen("cudnn", copy(SYSTEM, "9.14.0")), torch(search=search(("ld.so.cache", SYSTEM)), pins=PINS))
    assert roots(facts) == ("cudnn-too-old",)
    finding = found(facts, "cudnn-too-old")
    assert finding is not None
    assert finding.fix is not None
    assert "nvidia-cudnn-cu13==9.19.0.56" in finding.fix.commands[0]
    contract = next(one for one in report(facts).contracts if one.kind == "library")
    assert contract.status is Kept.BROKEN
    newer = healthy(seen("cudnn", copy(SYSTEM, "9.20.1")), torch(search=search(("ld.so.cache", SYSTEM)), pins=PINS))
    assert "cudnn-too-old" not in ids(newer)


def test_parts_of_two_versions_are_mixed() -> None:
    mixed = seen("cudnn", copy(WHEEL, "9.19.0", mixed=True, parts={"libcudnn_ops": "9.14.0"}))
    facts = healthy(mixed, torch(search=IN_ORDER))
    assert roots(facts) == ("cudnn-two-copies",)
    finding = found(facts, "cudnn-two-copies")
    assert finding is not None
    assert finding.fix is not None
    assert "nvidia-cudnn-cu13==9.19.0.*" in finding.fix.commands[0]


def test_parts_that_the_loader_would_take_from_another_folder_are_mixed_before_anything_was_run() -> None:
    """Seen on a real H200 host: LD_LIBRARY_PATH named the system's folder, and torch refused the mixture."""
    part = "libcudnn_graph.so.9"
    own, other = WHEEL.rpartition("/")[0], SYSTEM.rpartition("/")[0]
    parts = {
        "libcudnn.so.9": [{"step": "preload", "folder": own, "path": WHEEL}],
        part: [
            {"step": "LD_LIBRARY_PATH", "folder": f"{other}/", "path": f"{other}/{part}"},
            {"step": "RUNPATH", "folder": own, "path": f"{own}/{part}"},
        ],
    }
    two = seen("cudnn", copy(WHEEL, "9.19.0"), copy(SYSTEM, "9.14.0"))
    facts = healthy(two, torch(search=parts))
    assert roots(facts) == ("cudnn-two-copies",)
    finding = found(facts, "cudnn-two-copies")
    assert finding is not None
    assert finding.confidence is Confidence.LIKELY
    assert finding.fix is not None
    assert f"{other}/ " in finding.fix.commands[0]
    assert finding.fix.verify == f"gpustack doctor --deep --python {PYTHON}"  # a tensor alone would load no cuDNN
    same = seen("cudnn", copy(WHEEL, "9.19.0"), copy(SYSTEM, "9.19.0"))
    assert "cudnn-two-copies" not in ids(healthy(same, torch(search=parts)))


def test_parts_loaded_from_two_folders_are_mixed_and_a_warning_where_they_work() -> None:
    parts = [WHEEL, "/usr/lib/x86_64-linux-gnu/libcudnn_engines_tensor_ir.so.9"]
    ran = {"ran": True, "ok": True, "device": "cuda:0", "loaded": {"libcudnn": parts}}
    finding = found(healthy(torch(exercise=ran)), "cudnn-two-copies")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "/usr/lib/x86_64-linux-gnu" in finding.title


def cuda_python(core: str | None, bindings: str | None, where: str = PYTHON) -> tuple[Component, Component]:
    first = [{"key": "cuda-core", "version": core, "environment": PYTHON}]
    return seen("cuda-core", *first), seen(
        "cuda-bindings", {"key": "cuda-bindings", "version": bindings, "environment": where}
    )


@pytest.mark.parametrize(
    ("core", "bindings", "fails"),
    [
        ("1.0.0", "13.0.3", True),
        ("1.0.0", "13.1.0", True),
        ("1.0.0", "13.1.1", False),
        ("1.0.0", "12.9.4", False),
        ("1.0.1", "13.0.3", False),
        ("1.2.2", "13.0.3", False),
        (None, "13.0.3", False),
        ("1.0.0", None, False),
    ],
)
def test_a_pair_that_fails_is_named(core: str | None, bindings: str | None, fails: bool) -> None:  # noqa: FBT001 - a row
    assert ("cuda-core-bindings-mismatch" in ids(healthy(*cuda_python(core, bindings)))) is fails


def test_halves_in_two_pythons_are_not_a_pair() -> None:
    assert "cuda-core-bindings-mismatch" not in ids(healthy(*cuda_python("1.0.0", "13.0.3", "/other/python")))


@pytest.mark.parametrize(
    ("bindings", "release", "cuda", "severity"),
    [
        ("13.3.1", "580.95.05", 13000, None),
        ("13.3.1", "575.64.05", 12090, Severity.INFO),
        ("13.3.1", "570.86.10", 12080, Severity.INFO),
        ("13.3.1", "535.183.01", 12020, Severity.WARNING),
        ("12.9.4", "535.183.01", 12020, None),
        ("12.9.4", "520.61.05", 11080, Severity.WARNING),
        ("odd", "535.183.01", 12020, None),
        ("²", "535.183.01", 12020, None),
    ],
)
def test_bindings_of_a_newer_cuda_lose_functions(
    bindings: str, release: str, cuda: int, severity: Severity | None
) -> None:
    parts = (module(release, release), driver(release), nvml(release, cuda), libcuda(cuda, release))
    facts = healthy(*parts, cuda_python("1.2.2", bindings)[1])
    finding = found(facts, "cuda-bindings-newer-than-driver")
    assert (finding.severity if finding else None) is severity


def test_bindings_without_a_driver_are_nothing_to_report() -> None:
    assert ids(machine(seen("pci-display"), *cuda_python("1.2.2", "13.3.1"))) == set()
    bare = machine(seen("pci-display", pci(None)), seen("libcuda"), *cuda_python("1.2.2", "13.3.1"))
    assert "cuda-bindings-newer-than-driver" not in ids(bare)
