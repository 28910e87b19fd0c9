"""PyTorch is described exactly as its files are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import PRELOADS, VERSION
from tests.told import Host, ToldHost, load

NAMES = load("framework/pytorch.py")
probe = NAMES["probe"]
SITE = "/env/lib/python3.12/site-packages"
TORCH = f"{SITE}/torch"
PYTHON = {
    "executable": "/env/bin/python",
    "path": [SITE],
    "prefix": "/env",
    "machine": "x86_64",
    "version": "3.12.3",
    "implementation": "cpython",
}
OLDER = """
def _preload_cuda_deps(err=None):
    raise NotImplementedError

def _load_global_deps():
    try:
        if "nvidia/cuda_runtime/lib/libcudart.so" not in _maps:
            return
        _preload_cuda_lib("cuda_nvrtc", "libnvrtc.so.*[0-9]")
    except OSError as err:
        _preload_cuda_deps(err)
"""


def told(files: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - as the told host takes it
    (facts,) = probe(ToldHost(files={f"{TORCH}/__init__.py": "", **files}, python=PYTHON, **more))
    return dict(facts)


def test_nothing_installed_is_absent() -> None:
    assert probe(ToldHost(python=PYTHON)) == []


def test_a_record_without_a_package_has_failed() -> None:
    (seen,) = probe(ToldHost(files={f"{SITE}/torch-2.11.0.dist-info/METADATA": ""}, python=PYTHON))
    assert (seen["status"], seen["version"]) == ("failed", "2.11.0")
    assert "no folder on the path holds the package" in seen["error"]


@pytest.mark.parametrize("version_file", [None, PermissionError(13, "denied")])
def test_a_package_without_a_readable_version_file_has_failed(version_file: OSError | None) -> None:
    files: dict[str, Any] = {f"{SITE}/torch-2.11.0.dist-info/METADATA": ""}
    facts = told(files | ({f"{TORCH}/version.py": version_file} if version_file else {}))
    assert (facts["status"], facts["version"]) == ("failed", "2.11.0")
    assert facts["error"] == "version.py: " + ("denied" if version_file else "missing")


def test_a_cuda_build_is_told_from_its_files() -> None:
    requires = "".join(
        f"Requires-Dist: {wanted}\n"
        for wanted in (
            "filelock",
            'cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"',
            'nvidia-cudnn-cu13==9.19.0.56; platform_system == "Linux"',
            'triton==3.6.0; platform_system == "Windows"',
            "cuda-bindings<14,>=13.0.3",
            'optree>=0.13.0; extra == "optree"',
        )
    )
    parts = ("nvidia-cublas==13.1.0.3.*; extra == 'cublas'", "nvidia-cufft==12.0.0.61.*; extra == 'cufft'")
    toolkit = "".join(f"Requires-Dist: {part}\n" for part in parts)
    facts = told(
        {
            f"{TORCH}/version.py": VERSION,
            f"{TORCH}/lib/libtorch_cuda.so": b"",
            f"{TORCH}/lib/libtorch_python.so": b"x" * 3000 + b"sm_carveout\0junk_sm_75 sm_90 sm_90a compute_120\0more",
            f"{TORCH}/_C.cpython-312-x86_64-linux-gnu.so": b"",
            f"{SITE}/torch-2.11.0.dist-info/METADATA": requires,
            f"{SITE}/cuda_toolkit-13.0.2.dist-info/METADATA": toolkit,
            f"{SITE}/nvidia_cudnn_cu13-9.14.0.64.dist-info/METADATA": "",
            f"{SITE}/nvidia_cublas-13.1.0.3.dist-info/METADATA": "",
        }
    )
    assert "status" not in facts
    assert (facts["version"], facts["build"], facts["path"]) == ("2.11.0+cu130", "cu130", TORCH)
    assert (facts["cuda"], facts["hip"], facts["xpu"], facts["accelerator"]) == ("13.0", None, None, "cuda")
    assert facts["git"] == "70d99e998b4955e0049d13a98d77ae1b14db1f45"
    assert facts["extensions"] == ["_C.cpython-312-x86_64-linux-gnu.so"]
    assert (facts["archs"], facts["archs_unread"]) == (["sm_75", "sm_90", "sm_90a", "compute_120"], None)
    assert facts["metadata_version"] == "2.11.0"
    assert facts["pins"] == {
        "cuda-toolkit": "13.0.2",
        "nvidia-cublas": "13.1.0.3",
        "nvidia-cudnn-cu13": "9.19.0.56",
    }
    assert facts["requires"]["cuda-bindings"] == "<14,>=13.0.3"
    assert facts["installed"] == {
        "cuda-toolkit": "13.0.2",
        "nvidia-cudnn-cu13": "9.14.0.64",
        "nvidia-cublas": "13.1.0.3",
    }


@pytest.mark.parametrize(
    ("version", "library", "accelerator", "build"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda = None", "libtorch_cpu.so", "cpu", "cpu"),
        ("__version__ = '2.13.0+cpu'\ncuda = None", None, "cpu", "cpu"),
        ("__version__ = '2.9.0+rocm7.2'\nhip = '7.2.53'", "libtorch_hip.so", "rocm", "rocm7.2"),
        ("__version__ = '2.9.0'\nhip = '6.3.42133-1b9c17779'", None, "rocm", "rocm6.3"),
        ("__version__ = '2.8.0+xpu'\nxpu = '20250101'", "libtorch_xpu.so", "xpu", "xpu"),
        ("__version__ = '2.1.0'\ncuda = '12.1'", "libtorch_cuda.so", "cuda", "cu121"),
        ("__version__ = '1.13.1+cu117.with.pypi.cudnn'\ncuda = '11.7'", None, "cuda", "cu117"),
        ("__version__ = '2.5.0a0+872d972e41.nv24.08'\ncuda = '12.6'", "libtorch_cuda.so", "cuda", "cu126"),
        ("__version__ = '2.9.0+cudev'\ncuda = 13", "libtorch_cuda.so", "cuda", "cu13"),
    ],
)
def test_builds(version: str, library: str | None, accelerator: str, build: str) -> None:
    facts = told({f"{TORCH}/version.py": version} | ({f"{TORCH}/lib/{library}": b""} if library else {}))
    assert (facts["accelerator"], facts["build"]) == (accelerator, build)


def test_libraries_of_conda_lie_in_its_prefix() -> None:
    files = {"/env/lib/libtorch_cuda.so": b"", "/env/lib/libtorch_python.so": b"\0sm_80 sm_90\0"}
    facts = told({f"{TORCH}/version.py": "__version__ = '2.9.0'\ncuda = '12.9'", **files})
    assert (facts["build"], facts["archs"]) == ("cu129", ["sm_80", "sm_90"])


@pytest.mark.parametrize(
    ("library", "content", "why"),
    [
        ("libtorch_cuda.so", None, "missing"),
        ("libtorch_cuda.so", b"no sm_ here", "no list of architectures in it"),
        ("libtorch_cuda.so", PermissionError(13, "denied"), "denied"),
        ("libtorch_xpu.so", None, "not known"),
        ("libtorch_cpu.so", None, None),
    ],
)
def test_architectures_that_cannot_be_read_say_why(library: str, content: object, why: str | None) -> None:
    files: dict[str, Any] = {f"{TORCH}/version.py": "cuda = '13.0'", f"{TORCH}/lib/{library}": b""}
    facts = told(files | ({f"{TORCH}/lib/libtorch_python.so": content} if content is not None else {}))
    assert facts["archs"] == []
    assert (facts["archs_unread"] is None) if why is None else (why in facts["archs_unread"])


def test_architectures_of_rocm_have_their_own_names_and_a_list_may_lie_over_the_border_of_a_block() -> None:
    text = b"gfx90a gfx942 gfx1100\0"
    for place in (0, (1 << 20) - 5, 1 << 20):
        content = bytes(place) + text + bytes((2 << 20) - place - len(text) + 5)
        files = {f"{TORCH}/lib/libtorch_hip.so": b"", f"{TORCH}/lib/libtorch_python.so": content}
        assert told({f"{TORCH}/version.py": "hip = '7.2'", **files})["archs"] == ["gfx90a", "gfx942", "gfx1100"]


def test_architectures_of_rocm_are_recognised_by_rocblas_where_torch_has_no_list() -> None:
    names = ("TensileLibrary_Type_HH_gfx90a.co", "Kernels.so-000-gfx1100.hsaco", "TensileLibrary_lazy_gfx90a.dat", "x")
    files = dict.fromkeys([f"{TORCH}/lib/rocblas/library/{name}" for name in names], b"")
    facts = told({f"{TORCH}/version.py": "hip = '6.3.42134'", f"{TORCH}/lib/libtorch_hip.so": b"", **files})
    assert (facts["archs"], facts["archs_unread"]) == (["gfx1100", "gfx90a"], None)


def test_two_packages_on_the_path_are_two_copies_each_with_its_own_record() -> None:
    other = "/user/site-packages"
    files: dict[str, Any] = {}
    for site, version in ((other, "2.10.0"), (SITE, "2.11.0")):
        files[f"{site}/torch/__init__.py"] = ""
        files[f"{site}/torch/version.py"] = f"__version__ = '{version}+cu128'"
        files[f"{site}/torch-{version}.dist-info/METADATA"] = f"Requires-Dist: triton=={version}"
    found = probe(ToldHost(files=files, python={**PYTHON, "path": [other, SITE]}))
    assert [(seen["version"], seen["pins"]["triton"]) for seen in found] == [
        ("2.10.0+cu128", "2.10.0"),
        ("2.11.0+cu128", "2.11.0"),
    ]


@given(st.text(max_size=100), st.binary(max_size=100))
def test_no_version_file_and_no_library_makes_it_raise(text: str, data: bytes) -> None:
    lib = f"{TORCH}/lib"
    files = {
        f"{lib}/libtorch_cuda.so": data,
        f"{lib}/libtorch_python.so": b"sm_" + data,
        f"{lib}/{NAMES['FIRST']}": data,
    }
    facts = told({f"{TORCH}/version.py": text, **files})
    assert facts["accelerator"] == "cuda"
    told({f"{TORCH}/version.py": f"__version__ = {text!r}\ncuda = {text!r}\nhip = {text!r}", **files})


def preloads(files: dict[str, Any], text: str, cudart: str) -> list[str]:
    host = ToldHost(files={f"{TORCH}/__init__.py": text, **files}, python=PYTHON)
    return list(NAMES["_preloaded"](host, TORCH, {"cuda": "13.0"}, {"libcudart.so.13": [{"path": cudart}]}))


def test_which_libraries_torch_loads_by_path_is_read_from_its_own_text() -> None:
    cudnn, nccl = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", f"{SITE}/nvidia/cu13/lib/libnccl.so.2"
    nvtx = f"{SITE}/nvtx/lib/libnvToolsExt.so.1"
    everything = {cudnn: b"", nccl: b"", nvtx: b""}
    here = f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.13"
    assert preloads(everything, PRELOADS, here) == [cudnn, nccl, nvtx]
    assert preloads({cudnn: b"", nccl: b""}, PRELOADS, here) == [cudnn, nccl]
    assert preloads({nccl: b"", nvtx: b""}, PRELOADS, here) == []  # the first one that is required but missing ends it
    assert preloads(everything, PRELOADS, "/static") == []
    nvrtc = {f"{SITE}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12": b""}
    assert preloads(nvrtc, OLDER, here) == list(nvrtc)
    assert preloads(nvrtc, OLDER, "/usr/local/cuda/lib64/libcudart.so.12") == []
    assert preloads(everything, "", here) == []


@pytest.mark.parametrize("number", [8902, 8500, 90100, 91900])
def test_cudnns_number_is_its_version(number: int) -> None:
    said = NAMES["_decode"](number)
    assert said == {8902: "8.9.2", 8500: "8.5.0", 90100: "9.1.0", 91900: "9.19.0"}[number]
    assert re.fullmatch(r"\d+\.\d+\.\d+", said)


def test_the_pieces_of_a_file_come_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"sm_1" + bytes(3 << 20) + b"sm_2" + bytes(5000) + b"sm_3")
    host = Host()
    assert [piece.strip(b"\0") for piece in host.pieces(str(path), b"sm_", 64)] == [b"sm_3", b"sm_2", b"sm_1"]
    assert len(host.log) == 1
    assert list(host.pieces(str(tmp_path / "none"), b"sm_")) == []
