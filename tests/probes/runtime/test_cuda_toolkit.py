"""The CUDA toolkit probe, on fake machines and on the toolkit that this machine may have."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

PROBE = load("runtime/cuda_toolkit.py")
ROOT = "/usr/local/cuda-13.0"
NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:58:59_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""
GCC = """gcc (Ubuntu 13.3.0-6ubuntu2~24.04.1) 13.3.0
Copyright (C) 2023 Free Software Foundation, Inc.
"""
LINKS = {"/usr/local/cuda": "/etc/alternatives/cuda", "/etc/alternatives/cuda": ROOT}


def probe(**said: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as ToldHost takes it
    """Return the toolkits that the probe sees on a fake machine."""
    return PROBE["probe"](ToldHost(**said)) or []


def test_no_toolkit_is_absent() -> None:
    assert PROBE["probe"](ToldHost(files={"/usr/local/bin/x": "", "/usr/local/cuda-old/README": ""})) is None


def test_links_to_one_root_are_one_toolkit() -> None:
    (toolkit,) = probe(
        files={f"{ROOT}/bin/nvcc": "\x7fELF"},
        links={**LINKS, "/usr/bin/nvcc": "/usr/local/cuda/bin/nvcc"},
        commands={"nvcc": "", f"{ROOT}/bin/nvcc --version": NVCC, "gcc": "", "/usr/bin/gcc --version": GCC},
        environ={"CUDA_HOME": "/usr/local/cuda/"},
    )
    assert toolkit == {
        "key": ROOT,
        "path": ROOT,
        "version": "13.0.88",
        "version_from": "nvcc",
        "status": "present",
        "nvcc": f"{ROOT}/bin/nvcc",
        "nvcc_version": "13.0.88",
        "found_by": ["nvcc on PATH", "CUDA_HOME", "/usr/local/cuda", ROOT],
        "in_use": True,
        "error": None,
        "host_compiler": {
            "path": "/usr/bin/gcc",
            "version": "13.3.0",
            "kind": "gcc",
            "banner": "gcc (Ubuntu 13.3.0-6ubuntu2~24.04.1) 13.3.0",
            "named_by": "PATH",
            "error": None,
        },
    }


def test_the_toolkit_in_use_comes_first_and_others_follow() -> None:
    seen = probe(
        files={
            "/usr/local/cuda-11.8/version.json": '{"cuda": {"name": "CUDA SDK", "version": "11.8.20220929"}}',
            "/usr/local/cuda-10.0/version.txt": "CUDA Version 10.0.130\n",
            "/usr/local/cuda-12.4/bin/nvcc": "",
            "/env/bin/nvcc": "",
            "/opt/cuda/include/cuda.h": "/* */\n#define CUDA_VERSION 12060\n",
        },
        links={"/usr/bin/nvcc": "/usr/local/cuda-12.4/bin/nvcc"},
        commands={"nvcc": "", "/usr/local/cuda-12.4/bin/nvcc --version": "release 12.4, V12.4.131"},
        environ={"CONDA_PREFIX": "/env"},
    )
    assert [(kit["path"], kit["version"], kit["version_from"], kit["in_use"], kit["status"]) for kit in seen] == [
        ("/usr/local/cuda-12.4", "12.4.131", "nvcc", True, "present"),
        ("/env", None, None, False, "failed"),
        ("/usr/local/cuda-10.0", "10.0.130", "version.txt", False, "present"),
        ("/usr/local/cuda-11.8", "11.8.20220929", "version.json", False, "present"),
        ("/opt/cuda", "12.6", "cuda.h", False, "present"),
    ]
    assert (seen[1]["found_by"], seen[1]["error"]) == (["conda prefix"], "it may not be run")
    assert seen[4]["nvcc"] is None
    assert all(kit["host_compiler"] is None for kit in seen)


def test_a_variable_that_leads_to_no_toolkit_is_reported() -> None:
    seen = probe(files={"/srv/data": ""}, environ={"CUDA_HOME": "/usr/local/cuda-9.9", "CUDA_PATH": "/srv"})
    assert [(kit["path"], kit["status"], kit["found_by"], kit["error"]) for kit in seen] == [
        ("/usr/local/cuda-9.9", "absent", ["CUDA_HOME"], "there is no such folder"),
        ("/srv", "absent", ["CUDA_PATH"], "there is no toolkit"),
    ]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (TimeoutError("nvcc gave no answer in 1.5 s"), "nvcc gave no answer in 1.5 s"),
        (OSError(8, "Exec format error"), "[Errno 8] Exec format error"),
        ((127, "nvcc: not found\n"), "exit 127: nvcc: not found"),
    ],
)
def test_a_nvcc_that_does_not_answer_has_failed_unless_a_file_says_the_version(
    said: str | tuple[int, str] | Exception, error: str
) -> None:
    files = {f"{ROOT}/bin/nvcc": ""}
    commands = {f"{ROOT}/bin/nvcc --version": said}
    (mute,) = probe(files=files, commands=commands)
    assert (mute["status"], mute["version"], mute["error"]) == ("failed", None, error)
    stated = {f"{ROOT}/version.json": json.dumps({"cuda": {"version": "13.0.2"}})}
    (toolkit,) = probe(files={**files, **stated}, commands=commands)
    assert (toolkit["status"], toolkit["version"], toolkit["error"]) == ("present", "13.0.2", error)


@pytest.mark.parametrize(
    ("said", "root"),
    [
        ((1, "#$ _SPACE_= \n#$ _HERE_=/usr/lib/nvidia-cuda-toolkit/bin\n"), "/usr/lib/nvidia-cuda-toolkit"),
        ((1, "nothing of use"), "/usr"),
        (TimeoutError("no answer"), "/usr"),
        (OSError(8, "Exec format error"), "/usr"),
    ],
)
def test_a_script_is_asked_which_nvcc_it_starts(said: str | tuple[int, str] | Exception, root: str) -> None:
    class Shell(ToldHost):
        """A fake machine whose commands print to standard error."""

        def run(self, *argv: str, seconds: float | None = None) -> dict[str, Any] | None:
            told = super().run(*argv, seconds=seconds)
            return told and {"code": told["code"], "out": told["out"], "err": told["out"]}

    host = Shell(
        files={"/usr/bin/nvcc": "#!/bin/sh\nexec …", "/usr/lib/nvidia-cuda-toolkit/bin/nvcc": ""},
        commands={"nvcc": "", f"/usr/bin/nvcc -v {PROBE['NOWHERE']}": said, f"{root}/bin/nvcc --version": NVCC},
    )
    seen = PROBE["probe"](host)
    assert [kit["path"] for kit in seen if kit["in_use"]] == [root]
    assert seen[0]["version"] == "13.0.88"


@pytest.mark.parametrize(
    ("environ", "path", "named_by"),
    [
        ({}, "/usr/bin/gcc", "PATH"),
        ({"CUDAHOSTCXX": "/opt/gcc/bin/g++"}, "/opt/gcc/bin/g++", "CUDAHOSTCXX"),
        ({"CUDAHOSTCXX": "/opt/gcc/bin/g++", "NVCC_CCBIN": "/opt/gcc/bin"}, "/opt/gcc/bin/g++", "NVCC_CCBIN"),
        ({"NVCC_CCBIN": "clang++"}, "/usr/bin/clang++", "NVCC_CCBIN"),
        ({"NVCC_PREPEND_FLAGS": " -ccbin=/opt/gcc/bin/g++"}, "/opt/gcc/bin/g++", "NVCC_PREPEND_FLAGS"),
        ({"NVCC_APPEND_FLAGS": "-O2 --compiler-bindir clang++"}, "/usr/bin/clang++", "NVCC_APPEND_FLAGS"),
    ],
)
def test_the_host_compiler_is_the_one_that_nvcc_would_take(environ: dict[str, str], path: str, named_by: str) -> None:
    clang = "Ubuntu clang version 18.1.3 (1ubuntu1)\nTarget: x86_64-pc-linux-gnu\n"
    host = ToldHost(
        files={"/opt/gcc/bin/g++": ""},
        commands={
            "gcc": "",
            "clang++": "",
            "/usr/bin/gcc --version": GCC,
            "/opt/gcc/bin/g++ --version": GCC,
            "/usr/bin/clang++ --version": clang,
        },
        environ=environ,
    )
    compiler = PROBE["host_compiler"](host)
    assert (compiler["path"], compiler["named_by"]) == (path, named_by)
    expected = ("18.1.3", "clang") if "clang" in path else ("13.3.0", "gcc")
    assert (compiler["version"], compiler["kind"]) == expected


@pytest.mark.parametrize(
    ("name", "said", "error"),
    [
        ("/opt/none/g++", None, "there is no program to run there"),
        ("/opt/slow/g++", TimeoutError("no answer in 1.5 s"), "no answer in 1.5 s"),
    ],
)
def test_a_named_compiler_that_cannot_be_asked_is_reported(name: str, said: Exception | None, error: str) -> None:
    commands = {} if said is None else {f"{name} --version": said}
    compiler = PROBE["host_compiler"](
        ToldHost(files={} if said is None else {name: ""}, commands=commands, environ={"NVCC_CCBIN": name})
    )
    assert compiler == {"path": name, "version": None, "kind": None, "named_by": "NVCC_CCBIN", "error": error}


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"),
        ("g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-28)", "8.5.0"),
        ("x86_64-conda-linux-gnu-c++ (conda-forge gcc 13.3.0-1) 13.3.0", "13.3.0"),
        ("Debian clang version 14.0.6", "14.0.6"),
        ("nvc++ 24.5-1 64-bit target on x86-64 Linux -tp zen3", "24.5"),
        ("Intel(R) oneAPI DPC++/C++ Compiler 2025.0.4 (2025.0.4.20241205)", "2025.0.4"),
        ("", None),
    ],
)
def test_the_version_of_a_compiler_is_not_its_distributions(banner: str, version: str | None) -> None:
    assert PROBE["banner_version"](banner) == version


@given(
    text=st.text() | st.sampled_from(['{"cuda": 1}', '{"cuda": {"version": "x"}}', "[]", "#define CUDA_VERSION 13000"])
)
def test_no_text_breaks_the_reading_of_versions(text: str) -> None:
    for read in ("in_json", "in_header", "banner_version"):
        version = PROBE[read](text)
        assert version is None or re.match(r"\d+\.\d+", version)
    PROBE["first"](PROBE["CCBIN"], text)


def test_the_toolkit_of_this_machine_says_its_version() -> None:
    seen = [kit for kit in PROBE["probe"](Host()) or [] if kit.get("nvcc") and os.access(kit["nvcc"], os.X_OK)]
    if not seen:
        pytest.skip("no CUDA toolkit with nvcc is installed on this machine")
    for kit in seen:
        assert kit["status"] == "present", kit
        assert kit["version"].split(".")[:2] == kit["nvcc_version"].split(".")[:2]
        assert Path(kit["path"], "bin", "nvcc").exists()
    assert len({kit["path"] for kit in seen}) == len(seen)
