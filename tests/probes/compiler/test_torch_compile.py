"""What torch.compile finds beside torch: compilers, headers, Triton; reported, never judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.told import ToldHost, load

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
