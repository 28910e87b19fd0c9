"""Triton as installed: distributions, backends, and the versions in its assemblers' constants."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

TRITON = load("compiler/triton.py")
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env"}
ROW = {"id": "triton", "distributions": ["triton", "pytorch-triton-rocm"]}
HEAD: dict[str, str | bytes | OSError] = {f"{SITE}/triton/__init__.py": "__version__ = '3.6.0'\n"}
TEXT = 'const char said[] = "Cuda compilation tools, release 12.9, V12.9.86"; int main(void) { return !said[0]; }'


def test_without_triton_it_is_absent() -> None:
    assert TRITON["probe"](ToldHost(python=PYTHON, row=ROW)) == []


def test_a_package_with_its_record_tells_backends_and_who_installed_it() -> None:
    files = {
        **HEAD,
        f"{SITE}/triton-3.6.0.dist-info/INSTALLER": "uv\n",
        f"{SITE}/triton/backends/nvidia/driver.py": "",
        f"{SITE}/triton/backends/amd/driver.py": "",
        f"{SITE}/triton/backends/readme.txt": "",
        f"{SITE}/triton/backends/nvidia/lib/libdevice.10.bc": "",
    }
    host = ToldHost(files, python=PYTHON, row=ROW, environ={"TRITON_PTXAS_PATH": "/gone/ptxas"})
    (seen,) = TRITON["probe"](host)
    assert (seen["version"], seen["installer"], seen["distribution"]) == ("3.6.0", "uv", "triton")
    assert seen["devices"] == ["rocm", "cuda"]
    assert seen["libdevice"] is True
    assert (seen["ptxas_path"], seen["ptxas_path_exists"]) == ("/gone/ptxas", False)


def test_a_checkout_without_a_record_is_there_too_and_a_record_without_a_package_has_failed() -> None:
    (bare,) = TRITON["probe"](ToldHost(HEAD, python=PYTHON, row=ROW))
    assert (bare["key"], bare["version"]) == ("triton", "3.6.0")
    files: dict[str, str | bytes | OSError] = {f"{SITE}/pytorch_triton_rocm-3.1.0.dist-info/METADATA": ""}
    (hollow,) = TRITON["probe"](ToldHost(files, python=PYTHON, row=ROW))
    assert (hollow["status"], hollow["version"]) == ("failed", "3.1.0")


def test_two_distributions_are_two_instances_of_which_the_first_tells_of_the_package() -> None:
    files = {
        **HEAD,
        f"{SITE}/triton-3.6.0.dist-info/METADATA": "",
        f"{SITE}/pytorch_triton_rocm-3.1.0.dist-info/METADATA": "",
    }
    seen = TRITON["probe"](ToldHost(files, python=PYTHON, row=ROW))
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
