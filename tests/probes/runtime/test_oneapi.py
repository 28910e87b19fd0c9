"""oneAPI, its compiler, its libraries in wheels, and DirectML, on fake machines and in small trees made here."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect import catalogue
from tests.probes.stand_ins import compiled, distribution
from tests.told import Host, ToldHost, load

ONEAPI, DPCPP, DIRECTML = (load(f"runtime/{name}.py") for name in ("oneapi", "dpcpp", "directml"))
LIBRARY = load("library/shared_object.py")
ROWS = {system.id: dict(system.data) for system in catalogue.load()}
ROOT = "/opt/intel/oneapi"
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/usr", "machine": "x86_64"}


def test_a_root_with_its_components_and_the_newest_release_first() -> None:
    files = {
        f"{ROOT}/compiler/2025.1/bin/icpx": "",
        f"{ROOT}/compiler/2025.10/bin/icpx": "",
        f"{ROOT}/compiler/latest/bin/icpx": "",
        f"{ROOT}/mkl/2025.0/lib/libmkl_core.so.2": "",
        f"{ROOT}/2025.1/env/vars.sh": "",
        f"{ROOT}/licensing/x": "",
        f"{ROOT}/setvars.sh": "",
    }
    (found,) = ONEAPI["probe"](ToldHost(files, environ={"HOME": "/home/ann", "MKLROOT": "/x"}))
    assert (found["key"], found["version"], found["script"]) == (ROOT, "2025.10", True)
    assert found["components"] == {"compiler": ["2025.10", "2025.1"], "mkl": ["2025.0"]}
    assert (found["variables"], found["on_library_path"]) == ({"MKLROOT": "/x"}, [])


def test_a_shell_that_was_set_up_says_so() -> None:
    files = {"/x/oneapi/compiler/2026.0/lib/libsycl.so.9": ""}
    path = "/usr/lib:/x/oneapi/compiler/2026.0/lib"
    (found,) = ONEAPI["probe"](ToldHost(files, environ={"ONEAPI_ROOT": "/x/oneapi/", "LD_LIBRARY_PATH": path}))
    assert (found["path"], found["on_library_path"]) == ("/x/oneapi", ["/x/oneapi/compiler/2026.0/lib"])
    assert found["script"] is False


@pytest.mark.parametrize("environ", [{}, {"ONEAPI_ROOT": "relative"}, {"HOME": "", "ONEAPI_ROOT": "/gone"}])
def test_without_a_root_there_is_none(environ: dict[str, str]) -> None:
    assert ONEAPI["probe"](ToldHost(environ=environ)) is None
    assert ONEAPI["probe"](ToldHost({f"{ROOT}/logs/x": ""}, environ=environ)) is None


@given(name=st.text(max_size=20))
def test_only_a_year_and_a_number_are_a_release(name: str) -> None:
    assert ONEAPI["RELEASE"].fullmatch(name) is None or ONEAPI["numbers"](name)[0] >= 2000


def test_compilers_are_recognised_by_their_folders_or_their_own_word() -> None:
    inside = f"{ROOT}/compiler/2025.1/bin/icpx"
    found = DPCPP["probe"](ToldHost({inside: ""}))
    assert found == [{"key": inside, "path": inside, "version": "2025.1", "on_path": False}]
    words = "Intel(R) oneAPI DPC++/C++ Compiler 2025.1.1 (2025.1.1.20250418)\nTarget: x86_64-unknown-linux-gnu\n"
    (found,) = DPCPP["probe"](ToldHost(commands={"/usr/bin/icpx --version": words}))
    assert (found["version"], found["on_path"]) == ("2025.1.1", True)
    assert DPCPP["probe"](ToldHost()) is None


def test_a_target_python_has_the_runtime_as_wheels() -> None:
    host = ToldHost({f"{SITE}/dpcpp_cpp_rt-2025.1.1.dist-info/METADATA": ""}, row=ROWS["dpcpp"], python=PYTHON)
    host.environment = "/env/bin/python"
    (found,) = DPCPP["probe"](host)
    assert (found["key"], found["version"]) == ("dpcpp-cpp-rt", "2025.1.1")


# Libraries, which the probe of all shared objects searches for.


def planted(root: Path, wheel: str, version: str, *libraries: str) -> Host:
    """Return a Python whose wheel has put libraries beside its site folder, as Intel's do; made here, nothing loads."""
    site = root / SITE[1:]
    record = site / f"{wheel}-{version}.dist-info/RECORD"
    record.parent.mkdir(parents=True)
    for name in libraries:
        (root / "env/lib" / name).write_bytes(b"stand-in")
    record.write_text("".join(f"../../{name},sha256=x,8\n" for name in libraries), "utf-8")
    host = Host(root=str(root))
    host.environment = "/env/bin/python"
    host.interpreter = lambda: PYTHON  # type: ignore[method-assign]  # a Python that is only in this folder
    return host


@pytest.mark.parametrize(
    ("row", "wheel", "version", "library"),
    [
        ("sycl", "intel_sycl_rt", "2025.3.1", "libsycl.so.8"),
        ("onemkl", "mkl", "2025.3.0", "libmkl_core.so.2"),
    ],
)
def test_a_wheels_library_beside_its_site_folder_has_the_wheels_version(
    row: str, wheel: str, version: str, library: str, tmp_path: Path
) -> None:
    host = planted(tmp_path, wheel, version, library)
    host.row = ROWS[row]
    (found,) = LIBRARY["probe"](host)
    assert (found["version"], found["version_from"], found["soname"]) == (version, "package", library)
    assert found["owner"]["name"] == wheel.replace("_", "-")
    assert found["status"] == "present"


def test_a_systems_library_has_the_release_of_its_folder() -> None:
    files = {f"{ROOT}/mkl/2025.1/lib/libmkl_core.so.2": "", f"{ROOT}/compiler/2025.1/lib/libsycl.so.8": ""}
    for row, version in (("onemkl", "2025.1"), ("sycl", "2025.1")):
        (found,) = LIBRARY["probe"](ToldHost(files, row=ROWS[row], python=PYTHON))
        assert (found["version"], found["version_from"]) == (version, "file name")


def test_onednn_says_its_version_itself() -> None:
    path = "/usr/lib/x86_64-linux-gnu/libdnnl.so.3"
    numbers = (ctypes.c_int * 5)(3, 7, 1, 0, 0)

    def version() -> object:
        return ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int))

    host = ToldHost({path: ""}, libraries={path: {"dnnl_version": version}}, row=ROWS["onednn"], python=PYTHON)
    (found,) = LIBRARY["probe"](host)
    assert (found["version"], found["version_from"]) == ("3.7.1", "library")


def test_a_torch_for_intels_gpus_names_the_sycl_runtime_that_it_would_load(tmp_path: Path) -> None:
    # made here: the libraries contain only what they need of one another, as in torch's own builds for XPU
    site, lib = tmp_path / SITE[1:], tmp_path / "env/lib"
    torch = site / "torch/lib"
    sycl = compiled(lib / "libsycl.so.8")
    home = {"runpath": "$ORIGIN:$ORIGIN/../../../.."}
    kernels = compiled(torch / "libtorch_xpu.so", needs=[sycl], **home)
    whole = compiled(torch / "libtorch.so", needs=[kernels], **home)
    compiled(site / "torch/_C.cpython-312-x86_64-linux-gnu.so", needs=[whole], runpath="$ORIGIN/lib")
    compiled(torch / "libtorch_global_deps.so")
    (site / "torch/__init__.py").write_text("", "utf-8")
    (site / "torch/version.py").write_text("__version__ = '2.11.0+xpu'\nxpu = '20250301'\n", "utf-8")
    distribution(site, "torch", "2.11.0+xpu", "intel-sycl-rt==2025.3.1")
    distribution(site, "intel-sycl-rt", "2025.3.1")
    host = Host(environ={})
    executable = str(Path(sys.executable).resolve())
    host.interpreter = lambda: {  # type: ignore[method-assign]  # a Python that is only in this folder
        **load("interpreter.py")["describe"](),
        "path": [str(site)],
        "prefix": str(tmp_path / "env"),
        "executable": executable,
    }
    (found,) = load("framework/pytorch.py")["probe"](host)
    assert (found["build"], found["accelerator"], found["xpu"]) == ("xpu", "xpu", "20250301")
    assert (found["pins"], found["installed"]) == ({"intel-sycl-rt": "2025.3.1"}, {"intel-sycl-rt": "2025.3.1"})
    assert [copy["real"] for copy in found["search"]["libsycl.so.8"]] == [str(sycl)]
    sycl.unlink()
    (found,) = load("framework/pytorch.py")["probe"](host)
    assert found["search"]["libsycl.so.8"] == []


# DirectML.


def test_directml_is_for_windows_and_wsl_alone() -> None:
    said = DIRECTML["probe"](ToldHost({"/proc/sys/kernel/osrelease": "6.8.0-50-generic\n"}))
    assert isinstance(said, str)
    assert "WSL2" in said


def test_wsl_with_its_device_and_libraries() -> None:
    folder = "/usr/lib/wsl/lib/"
    files = {folder + name: "" for name in ("libdxcore.so", "libd3d12.so")}
    files["/proc/sys/kernel/osrelease"] = "5.15.167.4-microsoft-standard-WSL2\n"
    node = {"kind": "char", "mode": "0o666", "readable": True, "writable": True}
    found = DIRECTML["probe"](ToldHost(files, devices={"/dev/dxg": node}))
    assert found["path"] == folder + "libdxcore.so"
    assert found["device"] == {"mode": "0o666", "readable": True, "writable": True}
    assert found["missing"] == ["libd3d12core.so", "libdirectml.so"]
    without = DIRECTML["probe"](ToldHost(files))
    assert (without["status"], without["device"]) == ("absent", None)


def test_a_python_with_directmls_wheels_has_it_anywhere() -> None:
    host = ToldHost(
        {f"{SITE}/torch_directml-0.2.5.dev240914.dist-info/METADATA": ""}, row=ROWS["directml"], python=PYTHON
    )
    host.environment = "/env/bin/python"
    (found,) = DIRECTML["probe"](host)
    assert (found["key"], found["version"]) == ("torch-directml", "0.2.5.dev240914")
    bare = ToldHost(row=ROWS["directml"], python=PYTHON)
    bare.environment = "/env/bin/python"
    assert "Windows" in DIRECTML["probe"](bare)
