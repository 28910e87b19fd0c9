"""Compilers that a Python has: torch.compile, Triton, and MLIR, also from LLVM's packages on the system."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

PROBE = load("compiler/torch_compile.py")["probe"]
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/usr", "version": "3.12.3", "gil": True}
TORCH: dict[str, str | bytes | OSError] = {
    f"{SITE}/torch/__init__.py": "",
    f"{SITE}/torch/version.py": "__version__ = '2.11.0+cu130'\n",
    f"{SITE}/torch/_inductor/__init__.py": "",
    f"{SITE}/torch/_dynamo/device_interface.py": "return get_device_properties(device).major >= 7\n",
}
HEADERS = "/usr/include/python3.12/Python.h"


def told(files: dict[str, str | bytes | OSError] | None = None, **more: Any) -> Any:  # noqa: ANN401 - as the probe gives
    return PROBE(ToldHost({**TORCH, **(files or {})}, python={**PYTHON, **more.pop("python", {})}, **more))


def test_without_torch_or_with_one_that_has_no_compiler_it_is_absent() -> None:
    assert PROBE(ToldHost(python=PYTHON)) is None
    old: dict[str, str | bytes | OSError] = {f"{SITE}/torch/__init__.py": ""}
    assert PROBE(ToldHost(old, python=PYTHON)) is None


def test_all_that_it_needs_is_found() -> None:
    files: dict[str, str | bytes | OSError] = {
        HEADERS: "",
        f"{SITE}/triton/__init__.py": "",
        f"{SITE}/triton/backends/nvidia/bin/ptxas": b"",
        f"{SITE}/triton-3.6.0.dist-info/METADATA": "",
    }
    seen = told(files, commands={"gcc --version": "", "clang --version": "", "g++ --version": ""})
    assert (seen["version"], seen["triton"], seen["assembler"], seen["floor"]) == ("2.11.0+cu130", "3.6.0", True, "7.0")
    assert seen["c"] == {"name": "gcc", "path": "/usr/bin/gcc", "named_by": "PATH"}
    assert seen["cxx"]["name"] == "g++"
    assert seen["headers"] == {"path": HEADERS, "exists": True}


def test_what_is_missing_is_reported_as_missing() -> None:
    seen = told()
    assert seen["c"]["path"] is None
    assert seen["triton"] is None
    assert seen["assembler"] is False
    assert seen["headers"] == {"path": HEADERS, "exists": False}


@pytest.mark.parametrize(
    ("variable", "path"),
    [("/opt/cc", "/opt/cc"), ("/gone/cc", None), ("clang -O2", "/usr/bin/clang"), ("gone", None)],
)
def test_a_compiler_that_a_variable_names_is_taken_or_not_found(variable: str, path: str | None) -> None:
    commands: dict[str, Any] = {"gcc -v": "", "clang -v": ""}
    seen = told({"/opt/cc": ""}, environ={"CC": variable}, commands=commands)
    assert (seen["c"]["path"], seen["c"]["named_by"]) == (path, "CC")


def test_a_python_without_the_gil_has_headers_of_its_own() -> None:
    assert told(python={"gil": False})["headers"]["path"] == "/usr/include/python3.12t/Python.h"


TRITON = load("compiler/triton.py")
TRITON_PYTHON = {"path": [SITE], "prefix": "/env"}
ROW = {"id": "triton", "distributions": ["triton", "pytorch-triton-rocm"]}
HEAD: dict[str, str | bytes | OSError] = {f"{SITE}/triton/__init__.py": "__version__ = '3.6.0'\n"}
TEXT = 'const char said[] = "Cuda compilation tools, release 12.9, V12.9.86"; int main(void) { return !said[0]; }'


def test_without_triton_it_is_absent() -> None:
    assert TRITON["probe"](ToldHost(python=TRITON_PYTHON, row=ROW)) == []


def test_a_package_with_its_record_tells_backends_and_who_installed_it() -> None:
    files = {
        **HEAD,
        f"{SITE}/triton-3.6.0.dist-info/INSTALLER": "uv\n",
        f"{SITE}/triton/backends/nvidia/driver.py": "",
        f"{SITE}/triton/backends/amd/driver.py": "",
        f"{SITE}/triton/backends/readme.txt": "",
        f"{SITE}/triton/backends/nvidia/lib/libdevice.10.bc": "",
    }
    host = ToldHost(files, python=TRITON_PYTHON, row=ROW, environ={"TRITON_PTXAS_PATH": "/gone/ptxas"})
    (seen,) = TRITON["probe"](host)
    assert (seen["version"], seen["installer"], seen["distribution"]) == ("3.6.0", "uv", "triton")
    assert seen["devices"] == ["rocm", "cuda"]
    assert seen["libdevice"] is True
    assert (seen["ptxas_path"], seen["ptxas_path_exists"]) == ("/gone/ptxas", False)


def test_a_checkout_without_a_record_is_there_too_and_a_record_without_a_package_has_failed() -> None:
    (bare,) = TRITON["probe"](ToldHost(HEAD, python=TRITON_PYTHON, row=ROW))
    assert (bare["key"], bare["version"]) == ("triton", "3.6.0")
    files: dict[str, str | bytes | OSError] = {f"{SITE}/pytorch_triton_rocm-3.1.0.dist-info/METADATA": ""}
    (hollow,) = TRITON["probe"](ToldHost(files, python=TRITON_PYTHON, row=ROW))
    assert (hollow["status"], hollow["version"]) == ("failed", "3.1.0")


def test_two_distributions_are_two_instances_of_which_the_first_tells_of_the_package() -> None:
    files = {
        **HEAD,
        f"{SITE}/triton-3.6.0.dist-info/METADATA": "",
        f"{SITE}/pytorch_triton_rocm-3.1.0.dist-info/METADATA": "",
    }
    seen = TRITON["probe"](ToldHost(files, python=TRITON_PYTHON, row=ROW))
    assert {one["distribution"] for one in seen} == {"triton", "pytorch-triton-rocm"}
    assert ["backends" in one for one in seen] == [True, False]


def test_the_version_of_a_real_program_is_read_from_its_constants(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    folder.mkdir(parents=True)
    for name, text in (("ptxas", TEXT), ("ptxas-blackwell", TEXT.replace("Cuda compilation", "Some other"))):
        command = [compiler, "-O0", "-xc", "-", "-o", str(folder / name)]
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    (folder / "ptxas-script").write_text("#!/bin/sh\n")
    found = TRITON["assemblers"](Host(), str(tmp_path / "triton"))
    assert found == {"ptxas": "12.9.86", "ptxas-blackwell": None, "ptxas-script": None}


@given(st.binary(max_size=300))
def test_no_bytes_in_an_assembler_make_it_crash(data: bytes) -> None:
    assert TRITON["release"](ToldHost({"/ptxas": data}), "/ptxas") is None


MLIR_PROBE = load("compiler/mlir.py")["probe"]
MLIR_ROW = {"id": "mlir", "distributions": ["mlir-python-bindings"]}


def test_nothing_is_there() -> None:
    assert MLIR_PROBE(ToldHost(row=MLIR_ROW)) is None
    inside = ToldHost(row=MLIR_ROW, python={"path": [SITE], "prefix": "/env"})
    inside.environment = "/env/bin/python"
    assert MLIR_PROBE(inside) == []


def test_a_library_of_debians_is_one_copy_with_all_its_names() -> None:
    host = ToldHost(
        {"/usr/lib/x86_64-linux-gnu/libMLIR.so.19.1": b"", "/usr/lib/x86_64-linux-gnu/libMLIRfoo.a": b""},
        links={"/usr/lib/llvm-19/lib/libMLIR.so": "../../x86_64-linux-gnu/libMLIR.so.19.1"},
        row=MLIR_ROW,
    )
    (seen,) = MLIR_PROBE(host)
    assert (seen["version"], seen["path"]) == ("19.1", "/usr/lib/x86_64-linux-gnu/libMLIR.so.19.1")
    assert len(seen["names"]) == 2


def test_bindings_are_those_of_the_python_that_is_asked_about() -> None:
    files: dict[str, str | bytes | OSError] = {f"{SITE}/mlir_python_bindings-20.0.0.dist-info/INSTALLER": "pip"}
    host = ToldHost(files, row=MLIR_ROW, python={"path": [SITE], "prefix": "/env"})
    host.environment = "/env/bin/python"
    (seen,) = MLIR_PROBE(host)
    assert (seen["key"], seen["version"], seen["installer"]) == ("mlir-python-bindings", "20.0.0", "pip")
