"""Rules about libraries that a framework was not built with, and files written by two wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Confidence, Health, Severity
from tests.build import PYTHON, found, healthy, ids, libcuda, on, onnxruntime, report, roots, seen, torch

if TYPE_CHECKING:
    from gpustack.model.facts import Component

SITE = "/opt/venv/lib/python3.12/site-packages"
RAN = {"ran": True, "ok": True, "device": "cuda:0"}
NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
OLD, NEW = "nvidia-nccl-cu11", "nvidia-nccl-cu12"
PINS = {NEW: "2.27.3", "nvidia-cublas-cu12": "12.4.5.8", "nvidia-cufft-cu12": "11.2.1.3"}
TOOLKIT = "/usr/local/cuda-12.2/lib64"


def both(
    path: str = NCCL, fits: str | None = OLD, *, there: bool = True, names: tuple[str, str] = (OLD, NEW)
) -> object:
    """Return a Python in which two wheels claim a file."""
    versions = ("2.14.3", "2.27.3")
    owners = [{"name": name, "version": version} for name, version in zip(names, versions, strict=True)]
    entry = {"path": path, "owners": owners, "fits": fits, "checked": "size", "there": there}
    return {"key": PYTHON, "environment": PYTHON, "distributions": {}, "overwritten": [entry]}


@pytest.mark.parametrize(
    ("fits", "there", "severity", "whose"),
    [
        (OLD, True, Severity.ERROR, "it is the one of nvidia-nccl-cu11 2.14.3"),
        (NEW, True, Severity.INFO, "it is the one of nvidia-nccl-cu12 2.27.3"),
        (None, True, Severity.WARNING, "it fits neither"),
        (None, False, Severity.ERROR, "it is gone"),
    ],
)
def test_an_nccl_that_two_wheels_have_written(fits: str | None, there: bool, severity: Severity, whose: str) -> None:  # noqa: FBT001 - a row
    facts = healthy(torch(pins=PINS), seen("packages", both(fits=fits, there=there)))  # type: ignore[arg-type]  # a copy
    finding = found(facts, "nccl-version-clash")
    assert finding is not None
    assert finding.severity is severity
    assert finding.instance == f"pytorch:{PYTHON}"
    assert "nvidia-nccl-cu11 2.14.3 and nvidia-nccl-cu12 2.27.3 both write libnccl.so.2" in finding.title
    assert whose in finding.title
    assert finding.fix is not None
    assert finding.fix.commands == (
        f"{PYTHON} -m pip uninstall -y nvidia-nccl-cu11 nvidia-nccl-cu12",
        f"{PYTHON} -m pip install --no-deps nvidia-nccl-cu12==2.27.3",
    )
    assert "wheel-files-overwritten" not in ids(facts)


def test_a_framework_that_ran_anyway_or_that_needs_neither_makes_it_a_warning() -> None:
    ran = found(healthy(torch(pins=PINS, exercise=RAN), seen("packages", both())), "nccl-version-clash")  # type: ignore[arg-type]  # a copy
    assert ran is not None
    assert ran.severity is Severity.WARNING
    alone = found(healthy(seen("packages", both())), "nccl-version-clash")  # type: ignore[arg-type]  # a copy
    assert alone is not None
    assert (alone.severity, alone.instance) == (Severity.WARNING, f"packages:{PYTHON}")


def test_other_files_that_two_wheels_have_written() -> None:
    names, path = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"), f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"
    packages = seen("packages", both(path, names[0], names=names))  # type: ignore[arg-type]  # a copy
    failed = {"ran": False, "ok": False, "device": None, "error": "ImportError: libcublas.so.13"}
    facts = healthy(torch(pins={"nvidia-cudnn-cu12": "2.27.3"}, exercise=failed), packages)
    assert roots(facts) == ("wheel-files-overwritten",)
    finding = found(facts, "wheel-files-overwritten")
    assert finding is not None
    assert "PyTorch 2.11.0+cu130 requires nvidia-cudnn-cu12 2.27.3" in finding.detail
    consequence = found(facts, "framework-fails-on-gpu")
    assert consequence is not None
    assert consequence.caused_by == finding.key


def test_flavours_of_one_package_are_mentioned_once() -> None:
    path = f"{SITE}/onnxruntime/capi/libonnxruntime_providers_shared.so"
    pair = both(path, "onnxruntime", names=("onnxruntime", "onnxruntime-gpu"))
    held = {"onnxruntime": "2.14.3", "onnxruntime-gpu": "2.27.3"}
    facts = healthy(onnxruntime(distributions=held), seen("packages", pair))  # type: ignore[arg-type]  # a copy
    assert roots(facts) == ("ort-cpu-and-gpu-installed",)
    other = both(path, "onnxruntime", names=("onnxruntime", "onnxruntime-openvino"))
    assert "wheel-files-overwritten" in ids(healthy(onnxruntime(), seen("packages", other)))  # type: ignore[arg-type]  # a copy


@pytest.mark.parametrize(
    ("held", "several"),
    [
        ({"cupy-cuda12x": "13.6.0", "cupy-cuda13x": "14.2.0"}, True),
        ({"cupy": "13.6.0", "cupy-cuda12x": "13.6.0"}, True),
        ({"cupy-cuda13x": "14.2.0", "cupy-xarray": "0.1.4", "cupyx": "1"}, False),
        ({}, False),
    ],
)
def test_more_than_one_cupy(held: dict[str, str], several: bool) -> None:  # noqa: FBT001 - a row
    copy = {"key": PYTHON, "environment": PYTHON, "distributions": held}
    assert ("multiple-cupy" in ids(healthy(seen("packages", copy)))) is several


def library(component: str, path: str, version: str | None) -> dict[str, object]:
    return {"key": path, "path": path, "version": version, "environment": None, "found_by": [component]}


def search(name: str, path: str, step: str = "LD_LIBRARY_PATH") -> dict[str, object]:
    return {name: [{"step": step, "path": path, "real": path, "folder": path.rpartition("/")[0]}]}


@pytest.mark.parametrize(
    ("version", "step", "severity"),
    [
        ("2.18.1", "LD_LIBRARY_PATH", Severity.ERROR),
        ("2.18.1", "ld.so.cache", Severity.ERROR),
        ("2.27.3", "LD_LIBRARY_PATH", None),
        ("2.27.7", "ld.so.cache", None),
        (None, "LD_LIBRARY_PATH", None),
    ],
)
def test_an_older_nccl_than_the_one_built_with(version: str | None, step: str, severity: Severity | None) -> None:
    path = "/opt/nccl/lib/libnccl.so.2"
    facts = healthy(
        seen("nccl", library("nccl", path, version)), torch(search=search("libnccl.so.2", path, step), pins=PINS)
    )
    finding = found(facts, "nccl-version-clash")
    assert (finding.severity if finding else None) is severity
    if finding:
        assert "will load NCCL 2.18.1 and was built with 2.27.3" in finding.title
        assert finding.confidence is Confidence.LIKELY
        assert finding.fix is not None
        assert ("/opt/nccl/lib" in finding.fix.commands[0]) is (step == "LD_LIBRARY_PATH")
        assert roots(facts) == ("nccl-version-clash",)
    newer = healthy(
        seen("nccl", library("nccl", path, "2.30.1")), torch(search=search("libnccl.so.2", path), pins=PINS)
    )
    assert report(newer).verdict.status is Health.HEALTHY


@pytest.mark.parametrize(
    ("name", "component", "version", "severity"),
    [
        ("libcublas.so.12", "cublas", "12.2.5", Severity.ERROR),
        ("libcublas.so.12", "cublas", "12.4.5", None),
        ("libcublas.so.12", "cublas", "12.9.1", Severity.INFO),
        ("libcufft.so.11", "cufft", None, Severity.WARNING),
    ],
)
def test_another_cuda_library_instead_of_the_wheels(
    name: str, component: str, version: str | None, severity: Severity | None
) -> None:
    path = f"{TOOLKIT}/libcufft.so.11.0.8.103" if component == "cufft" else f"{TOOLKIT}/{name}"
    facts = healthy(seen(component, library(component, path, version)), torch(search=search(name, path), pins=PINS))
    finding = found(facts, "cuda-lib-shadowed")
    assert (finding.severity if finding else None) is severity
    if finding:
        assert finding.fix is not None
        assert TOOLKIT in finding.fix.commands[0]
    ran = found(
        healthy(
            seen(component, library(component, path, version)),
            torch(search=search(name, path), pins=PINS, exercise=RAN),
        ),
        "cuda-lib-shadowed",
    )
    assert ran is None or ran.severity in {Severity.WARNING, Severity.INFO}


def test_several_libraries_of_one_toolkit_are_one_finding() -> None:
    paths = {
        "libcublas.so.12": f"{TOOLKIT}/libcublas.so.12.2.5.6",
        "libcufft.so.11": f"{TOOLKIT}/libcufft.so.11.0.8.103",
    }
    looked = {name: one for name, path in paths.items() for one in search(name, path).values()}
    finding = found(healthy(torch(search=looked, pins=PINS)), "cuda-lib-shadowed")
    assert finding is not None
    assert "libcublas 12.2.5.6 instead of its own 12.4.5.8, and 1 more" in finding.title
    assert "libcufft 11.0.8.103" in finding.detail


def linked(lacking: list[str], step: str = "LD_LIBRARY_PATH", **more: object) -> Component:
    """Return a PyTorch whose libcusparse finds an nvJitLink that lacks these names."""
    path = f"{TOOLKIT}/libnvJitLink.so.12"
    linker = {"by": "/v/libcusparse.so.12", "path": path, "newest": "12.2", "wanted": lacking, "lacking": lacking}
    looked = {
        **search("libnvJitLink.so.12", path, step),
        **search("libcublas.so.12", f"{TOOLKIT}/libcublas.so.12.2.5.6"),
    }
    return torch(linker=linker, search=looked, **more)  # type: ignore[arg-type]  # facts of any name


def test_a_linker_older_than_what_asks_for_it() -> None:
    """pytorch/pytorch#144244."""
    failed = {"ran": False, "ok": False, "error": "ImportError: undefined symbol: __nvJitLinkComplete_12_4"}
    facts = healthy(linked(["__nvJitLinkComplete_12_4"], pins=PINS, exercise=failed))
    assert roots(facts) == ("nvjitlink-clash",)
    finding = found(facts, "nvjitlink-clash")
    assert finding is not None
    assert "libcusparse.so.12 needs libnvJitLink of CUDA 12.4" in finding.title
    assert f"12.2 from {TOOLKIT}" in finding.title
    assert finding.fix is not None
    assert "LD_LIBRARY_PATH" in finding.fix.commands[0]
    assert "nvjitlink-clash" not in ids(healthy(linked([])))


def test_a_linker_of_its_own_that_is_too_old_is_reinstalled() -> None:
    pins = {"nvidia-nvjitlink-cu12": "12.4.127"}
    finding = found(healthy(linked(["__nvJitLinkComplete_12_4"], "RUNPATH", pins=pins)), "nvjitlink-clash")
    assert finding is not None
    assert finding.fix is not None
    assert "nvidia-nvjitlink-cu12==12.4.127" in finding.fix.commands[0]


COMPAT = "/usr/local/cuda-13.1/compat/libcuda.so.590.44.01"


def compat(branches: list[int], *, init: int | None = None, how: str = "LD_LIBRARY_PATH") -> dict[str, object]:
    note = {"format": 1, "cuda": "13.1", "drivers": branches, "devices": [1]}
    copy = {"path": COMPAT, "real": COMPAT, "release": "590.44.01", "kind": "compat", "found_by": how, "note": note}
    driver = {
        "path": "/usr/lib/libcuda.so.1",
        "real": "/usr/lib/libcuda.so.550.54.15",
        "kind": "driver",
        "found_by": "default",
    }
    return {
        "cu_init": init,
        "path": COMPAT if init else None,
        "kind": None,
        "copies": [copy, driver],
        "status": "failed",
    }


@pytest.mark.parametrize(
    ("branches", "init", "how", "fires"),
    [
        ([535, 570, 580, 590], None, "LD_LIBRARY_PATH", True),
        ([535, 550, 570, 580, 590], None, "LD_LIBRARY_PATH", False),
        ([], None, "LD_LIBRARY_PATH", False),
        ([535, 570, 580, 590], None, "known folder", False),
        ([535, 570, 580, 590], 803, "LD_LIBRARY_PATH", True),
        ([535, 570, 580, 590], 3, "LD_LIBRARY_PATH", False),
    ],
)
def test_a_compat_librarys_own_note_foretells_error_803(
    branches: list[int],
    init: int | None,
    how: str,
    fires: bool,  # noqa: FBT001 - a row
) -> None:
    facts = on("550.54.15", 12040, seen("libcuda", compat(branches, init=init, how=how)))
    finding = found(facts, "compat-libs-803")
    assert (finding is not None) is fires
    if finding:
        assert finding.confidence is (Confidence.CERTAIN if init else Confidence.LIKELY)
        assert "for branches R535, R570, R580, R590" in finding.detail


def test_a_compat_library_for_this_driver_is_named_where_another_is_refused() -> None:
    facts = on("570.86.10", 12080, seen("libcuda", compat([535, 580, 590], init=803)))
    finding = found(facts, "compat-libs-803")
    assert finding is not None
    assert "Packages for this driver: cuda-compat-13-4" in finding.detail


@pytest.mark.parametrize(
    ("name", "init", "fires"),
    [
        ("NVIDIA GeForce RTX 4090", None, True),
        ("NVIDIA GeForce RTX 4090", 0, False),
        ("NVIDIA H200", None, False),
        ("NVIDIA RTX A6000", None, False),
    ],
)
def test_a_newer_compat_library_on_a_consumer_gpu_foretells_error_804(name: str, init: int | None, fires: bool) -> None:  # noqa: FBT001 - a row
    facts = on("550.54.15", 12040, seen("libcuda", compat([535, 550], init=init)), cc="8.9", name=name)
    assert ("forward-compat-804" in ids(facts)) is fires


def test_a_libcuda_in_use_with_a_note_is_nothing_to_report() -> None:
    """The driver's own libcuda has the note as well: seen on an H200 host."""
    note = {"drivers": [535, 550], "cuda": "13.0", "format": 1, "devices": []}
    copies = [
        {"path": "/x/libcuda.so.1", "real": "/x/libcuda.so.580", "kind": "driver", "note": note, "found_by": "default"}
    ]
    assert ids(healthy(libcuda(copies=copies))) == set()
