"""The probe of CUDA's shared libraries on fake machines: where copies are searched, and how their answers are read."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import REPO, ToldHost, load

PROBE = load("library/shared_object.py")
NAMING = load("naming.py")
ROWS = {
    row["id"]: row
    for row in json.loads((REPO / "probes" / "catalogue.json").read_text("utf-8"))["systems"]
    if row["probe"] == "library/shared_object.py"
}
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": ["/usr/lib/python3.12", SITE], "prefix": "/env", "base_prefix": "/usr", "machine": "x86_64"}


def writes(*values: int, status: int = 0) -> Callable[..., int]:
    """Return a function that writes the values through the pointers it gets, as the libraries do."""

    def function(*pointers: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
        for pointer, value in zip(pointers, values, strict=True):
            pointer._obj.value = value  # noqa: SLF001 - what a C function would write to
        return status

    return function


def properties(*values: int) -> Callable[..., int]:
    """Return a function that answers for type 0, 1 and 2."""
    return lambda kind, pointer: writes(values[kind])(pointer)


def gives(number: int) -> Callable[[], int]:
    """Return a function that returns the number."""

    def function() -> int:
        return number

    return function


def cache(*entries: tuple[str, str, int]) -> bytes:
    """Return an ld.so.cache that has these names, paths and flags."""
    texts = b"".join(text.encode() + b"\0" for name, path, _ in entries for text in (name, path))
    at, rows = 48 + 24 * len(entries), b""
    for name, path, flags in entries:
        rows += struct.pack("=iIIIQ", flags, at, at + len(name) + 1, 0, 0)
        at += len(name) + len(path) + 2
    head = b"glibc-ld.so.cache1.1" + struct.pack("=II", len(entries), len(texts))
    return head.ljust(48, b"\0") + rows + texts


def told(row: str, *, environment: str | None = None, **said: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as ToldHost takes it
    """Return the copies that the probe sees on a fake machine."""
    host = ToldHost(**{"python": PYTHON, **said}, row=ROWS[row])
    host.environment = environment
    return PROBE["probe"](host) or []


@given(name=st.text(max_size=40), version=st.none() | st.text(max_size=40))
def test_names_and_package_versions_may_be_anything(name: str, version: str | None) -> None:
    for way in NAMING["WAYS"].values():
        way(name)
    NAMING["facts"]("rocm", name)
    PROBE["plain"](version)
    PROBE["pattern"](ROWS["cudnn"]).fullmatch(name)


@pytest.mark.parametrize(
    ("row", "ours", "others"),
    [
        (
            "cuda-runtime",
            ["libcudart.so", "libcudart.so.11.0", "libcudart.faf08d9a.so.13", "libcudart-80664282.so.10.2"],
            [],
        ),
        ("cublas", ["libcublas.so.13.1.0.3"], ["libcublasLt.so.13", "libnvblas.so.13"]),
        ("nvrtc", ["libnvrtc-672ee683.so.11.2"], ["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"]),
        ("cudnn", ["libcudnn.so.9.14.0"], ["libcudnn_ops.so.9", "libcudnn_ops-1b2c3d4e.so.9", "libcudnn.so.9.debug"]),
    ],
)
def test_a_library_is_recognised_by_its_file_names(row: str, ours: list[str], others: list[str]) -> None:
    pattern = PROBE["pattern"](ROWS[row])
    assert [name for name in [*ours, *others] if pattern.fullmatch(name)] == ours


@pytest.mark.parametrize("environment", [None, "/env/bin/python"])
def test_nothing_installed_is_absent(environment: str | None) -> None:
    assert told("cudnn", environment=environment) == []


def test_the_copy_that_the_loader_takes_comes_first_and_each_way_is_kept() -> None:
    real = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13.0.96"
    copies = told(
        "cuda-runtime",
        files={
            real: "",
            "/mine/libcudart.so.12": "",
            "/usr/lib/x86_64-linux-gnu/libcudart.so.11.5.117": "",
            "/etc/ld.so.cache": cache(
                ("libcudart.so.13", "/usr/local/cuda/targets/x86_64-linux/lib/libcudart.so.13", 0x0303),
                ("libcudart.so.13", "/old/i386/libcudart.so.13", 0x0003),
                ("libcudart.so.13", "/gone/libcudart.so.13", 0x0303),
                ("libcublas.so.13", "/usr/local/cuda/targets/x86_64-linux/lib/libcublas.so.13", 0x0303),
            ),
            "/old/i386/libcudart.so.13": "",
        },
        links={
            "/usr/local/cuda": "/etc/alternatives/cuda",
            "/etc/alternatives/cuda": "/usr/local/cuda-13.0",
            "/usr/local/cuda-13.0/lib64": "targets/x86_64-linux/lib",
            "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13": "libcudart.so.13.0.96",
            "/lib": "usr/lib",
        },
        environ={"LD_LIBRARY_PATH": "/mine:relative::/missing", "CUDA_HOME": "/usr/local/cuda"},
        libraries={
            "/usr/local/cuda/targets/x86_64-linux/lib/libcudart.so.13": {"cudaRuntimeGetVersion": writes(13000)},
            "/mine/libcudart.so.12": {"cudaRuntimeGetVersion": writes(12080)},
        },
    )
    assert [(copy["path"], copy["found_by"], copy["version"]) for copy in copies] == [
        ("/mine/libcudart.so.12", ["LD_LIBRARY_PATH"], "12.8"),
        (real, ["ld.so.cache", "toolkit /usr/local/cuda-13.0"], "13.0"),
        ("/usr/lib/x86_64-linux-gnu/libcudart.so.11.5.117", ["system folder"], "11.5.117"),
    ]
    assert [copy["status"] for copy in copies] == ["present", "present", "failed"]
    assert copies[1]["soname"] == "libcudart.so.13"
    assert copies[1]["file_version"] == "13.0.96"
    assert copies[1]["code"] == 13000
    assert copies[2]["version_from"] == "file name"
    assert "cannot open shared object file" in copies[2]["error"]


def test_the_toolkit_of_the_nvcc_on_path_is_searched() -> None:
    host = ToldHost(
        commands={"nvcc --version": ""},
        links={"/usr/bin/nvcc": "/apps/cuda/12.4/bin/nvcc"},
        files={"/apps/cuda/12.4/bin/nvcc": ""},
        environ={"CUDA_PATH": "relative"},
    )
    assert PROBE["toolkits"](host) == ["/opt/cuda", "/apps/cuda/12.4"]


def test_a_stub_is_marked_last_and_never_loaded() -> None:
    stub = "/usr/local/cuda/lib64/stubs/libcublas.so"
    real = "/opt/lib/libcublas.so.13"
    copies = told(
        "cublas",
        files={stub: "", real: ""},
        environ={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs:/opt/lib"},
        libraries={real: {"cublasGetProperty": properties(13, 1, 0)}, stub: AssertionError("the stub was loaded")},
    )
    assert [(copy["path"], copy["stub"], copy["status"]) for copy in copies] == [
        (real, False, "present"),
        (stub, True, "not-applicable"),
    ]
    assert copies[0]["version"] == "13.1.0"
    assert copies[0]["code"] is None


def test_a_python_has_wheels_bundled_copies_and_no_system_folders() -> None:
    names = {
        f"{SITE}/nvidia/cu13/lib/libcudart.so.13": ("wheel", "nvidia-cuda-runtime 13.0.96"),
        f"{SITE}/torch/lib/libcudart-d0da41ae.so.11.0": ("bundled in torch", "torch 2.0.1+cu117"),
        f"{SITE}/torchvision.libs/libcudart.faf08d9a.so.13": ("bundled in torchvision", "torchvision 0.26.0"),
    }
    copies = told(
        "cuda-runtime",
        environment="/env/bin/python",
        files={
            **dict.fromkeys(names, "1234"),
            "/usr/lib/x86_64-linux-gnu/libcudart.so.12": "",
            f"{SITE}/nvidia_cuda_runtime-13.0.96.dist-info/RECORD": "nvidia/cu13/lib/libcudart.so.13,sha256=x,4\n",
            f"{SITE}/torch-2.0.1+cu117.dist-info/RECORD": "a,,\ntorch/lib/libcudart-d0da41ae.so.11.0,sha256=x,4\n",
            f"{SITE}/torchvision-0.26.0.dist-info/RECORD": "torchvision.libs/libcudart.faf08d9a.so.13,sha256=x,4\n",
            f"{SITE}/nvidia_cuda_runtime_cu12-12.8.90.dist-info/RECORD": OSError(errno.EACCES, "Permission denied"),
        },
        libraries={name: {"cudaRuntimeGetVersion": writes(13000)} for name in names},
    )
    assert {copy["path"] for copy in copies} == set(names)
    for copy in copies:
        owner = copy["owner"]
        assert (copy["found_by"], f"{owner['name']} {owner['version']}") == (
            [names[copy["path"]][0]],
            names[copy["path"]][1],
        )
        assert owner["kind"] == "wheel"
        assert "claimed_by" not in copy


def test_a_conda_prefix_has_its_library_folder_and_its_packages() -> None:
    (copy,) = told(
        "nvrtc",
        environment="/env/bin/python",
        files={
            "/env/lib/libnvrtc.so.12.4.127": "",
            "/env/conda-meta/cuda-nvrtc-12.4.127-h1.json": json.dumps(
                {"name": "cuda-nvrtc", "version": "12.4.127", "files": ["lib/libnvrtc.so.12.4.127"]}
            ),
            "/env/conda-meta/cuda-nvrtc-dev-12.4.127-h1.json": "{damaged",
        },
        links={"/env/lib/libnvrtc.so.12": "libnvrtc.so.12.4.127"},
        libraries={"/env/lib/libnvrtc.so.12": {"nvrtcVersion": writes(12, 4)}},
    )
    assert (copy["version"], copy["found_by"], copy["soname"]) == ("12.4", ["conda"], "libnvrtc.so.12")
    assert (copy["owner"]["kind"], copy["owner"]["version"]) == ("conda", "12.4.127")


def cudnn(parts: Mapping[str, str], **wheels: str) -> dict[str, Any]:
    """Return the one cuDNN of a site folder whose parts have these contents, beside wheels with these records."""
    folder = f"{SITE}/nvidia/cudnn/lib"
    files = {f"{folder}/{name}": text for name, text in {"libcudnn.so.9": "main", **parts}.items()}
    records = {f"{SITE}/nvidia_cudnn_{name}.dist-info/RECORD": record for name, record in wheels.items()}
    libraries = {f"{folder}/libcudnn.so.9": {"cudnnGetVersion": gives(91900)}}
    (copy,) = told("cudnn", environment="/env/bin/python", files={**files, **records}, libraries=libraries)
    return copy


def test_parts_of_cudnn_have_the_version_of_the_wheel_whose_record_fits() -> None:
    lines = [f"nvidia/cudnn/lib/{name}.so.9,x," for name in ("libcudnn", "libcudnn_ops", "libcudnn_adv")]
    record = "{}4\n{}{{}}\n{}{{}}\n".format(*lines)
    wheels = {"cu13-9.19.0.56": record.format(3, 3), "cu12-9.1.0.70": record.format(6, 7)}
    whole = cudnn({"libcudnn_ops.so.9": "ops", "libcudnn_adv.so.9": "adv"}, **wheels)
    assert whole["parts"] == {"libcudnn_adv": "9.19.0.56", "libcudnn_ops": "9.19.0.56"}
    assert whole["mixed"] is False
    assert whole["claimed_by"] == ["nvidia-cudnn-cu12 9.1.0.70", "nvidia-cudnn-cu13 9.19.0.56"]
    mixed = cudnn({"libcudnn_ops.so.9": "ops", "libcudnn_adv.so.9": "adv 9.1"}, **wheels)
    assert mixed["parts"] == {"libcudnn_adv": "9.1.0.70", "libcudnn_ops": "9.19.0.56"}
    assert mixed["mixed"] is True
    strange = cudnn({"libcudnn_ops.so.9": "neither of the two"}, **wheels)
    assert (strange["parts"], strange["mixed"]) == ({"libcudnn_ops": None}, False)


def test_a_system_cudnn_has_versions_in_its_file_names_and_a_debian_package() -> None:
    folder = "/usr/lib/x86_64-linux-gnu"
    (copy,) = told(
        "cudnn",
        files={
            f"{folder}/libcudnn.so.9.14.0": "",
            f"{folder}/libcudnn_graph.so.9.14.0": "",
            f"{folder}/libcudnn_ops.so.9.10.2": "",
            f"{folder}/libcudnn_ops_infer.so.8.9.7": "",
            "/var/lib/dpkg/info/libcudnn9-cuda-13.list": "/.\n/lib/x86_64-linux-gnu/libcudnn.so.9.14.0\n",
            "/var/lib/dpkg/info/libcudnn8:amd64.list": f"{folder}/libcudnn_ops_infer.so.8.9.7\n",
            "/var/lib/dpkg/status": "Package: libcudnn9-cuda-13\nStatus: install ok installed\nVersion: 9.14.0.64-1\n\n"
            "Package: zlib\nVersion: 1\n",
        },
        links={
            **{f"{folder}/lib{name}.so.9": f"lib{name}.so.9.14.0" for name in ("cudnn", "cudnn_graph")},
            f"{folder}/libcudnn_ops.so.9": "libcudnn_ops.so.9.10.2",
            f"{folder}/libcudnn_ops_infer.so.8": "libcudnn_ops_infer.so.8.9.7",
        },
        libraries={
            f"{folder}/libcudnn_graph.so.9": {},
            f"{folder}/libcudnn.so.9": {"cudnnGetVersion": gives(91400)},
        },
    )
    assert copy["owner"] == {"kind": "deb", "name": "libcudnn9-cuda-13", "version": "9.14.0.64-1", "fits": None}
    assert copy["parts"] == {"libcudnn_graph": "9.14.0", "libcudnn_ops": "9.10.2"}
    assert (copy["version"], copy["version_from"], copy["mixed"]) == ("9.14.0", "library", True)


def test_cuda_11_needs_a_driver_to_answer_and_its_wheel_says_the_version() -> None:
    path = f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.11.0"
    (copy,) = told(
        "cuda-runtime",
        environment="/env/bin/python",
        files={
            path: "1",
            f"{SITE}/nvidia_cuda_runtime_cu11-11.8.89.dist-info/RECORD": path[len(SITE) + 1 :] + ",sha256=x,1\n",
        },
        libraries={path: {"cudaRuntimeGetVersion": writes(0, status=35)}},
    )
    assert (copy["status"], copy["version"], copy["version_from"]) == ("present", "11.8.89", "package")
    assert copy["error"] == "cudaRuntimeGetVersion answered error 35"
    assert copy["code"] is None


def test_a_copy_without_the_symbol_and_with_a_damaged_sibling_is_there_anyway() -> None:
    folder = "/usr/lib64"
    (copy,) = told(
        "cudnn",
        files={f"{folder}/libcudnn.so.9": "", f"{folder}/libcudnn_graph.so.9": ""},
        libraries={f"{folder}/libcudnn.so.9": {}, f"{folder}/libcudnn_graph.so.9": OSError("invalid ELF header")},
    )
    assert (copy["status"], copy["version"], copy["version_from"]) == ("present", None, None)
    assert copy["error"] == "it has no symbol cudnnGetVersion"
    assert (copy["parts"], copy["mixed"]) == ({"libcudnn_graph": None}, False)
