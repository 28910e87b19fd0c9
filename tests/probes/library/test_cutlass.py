"""CUTLASS on fake machines: headers from a checkout, the system or packages, and its distributions."""

from __future__ import annotations

import errno
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect.catalogue import load as catalogue
from tests.told import ToldHost, load

PROBE = load("library/cutlass.py")
ROW = dict(next(one.data for one in catalogue() if one.id == "cutlass"))
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": ["/usr/lib/python3.12", SITE], "prefix": "/env", "base_prefix": "/usr"}
VERSION = "#pragma once\n#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n"


def look(files: dict[str, Any], environment: str | None = None, **said: Any) -> Any:  # noqa: ANN401 - a probe's answer
    host = ToldHost(files, row=ROW, python=PYTHON, **said)
    host.environment = environment
    return PROBE["probe"](host)


def test_absent() -> None:
    assert look({}) is None
    assert look({f"{SITE}/torch/__init__.py": ""}, "/env/bin/python") is None


def test_a_checkout_that_a_variable_names_and_the_systems_headers() -> None:
    files = {
        "/src/cutlass/include/cutlass/version.h": VERSION,
        "/usr/include/cutlass/version.h": VERSION.replace("4", "3"),
    }
    seen = look(files, environ={"CUTLASS_PATH": "/src/cutlass/"})
    assert [(one["version"], one["found_by"]) for one in seen] == [
        ("4.2.0", "CUTLASS_PATH"),
        ("3.2.0", "folder /usr/include"),
    ]
    assert look(files, environ={"CUTLASS_PATH": "relative"})[0]["version"] == "3.2.0"


def test_one_toolkit_by_two_names_is_one() -> None:
    files = {"/usr/local/cuda-13.0/include/cutlass/version.h": VERSION}
    assert len(look(files, links={"/usr/local/cuda": "/usr/local/cuda-13.0"})) == 1


def test_distributions_and_bundled_headers_of_a_python() -> None:
    files = {
        f"{SITE}/nvidia_cutlass-4.2.0.0.dist-info/METADATA": "Name: nvidia-cutlass\nVersion: 4.2.0.0\n",
        f"{SITE}/cutlass_library/source/include/cutlass/version.h": VERSION,
        f"{SITE}/flashinfer/data/cutlass/include/cutlass/version.h": "no version here",
        "/env/conda-meta/history": "",
        "/env/include/cutlass/version.h": VERSION,
        "/usr/include/cutlass/version.h": VERSION,
    }
    seen = look(files, "/env/bin/python")
    assert [(one["kind"], one["version"], one["found_by"]) for one in seen] == [
        ("distribution", "4.2.0.0", "dist-info"),
        ("headers", "4.2.0", "bundled in cutlass_library"),
        ("headers", None, "bundled in flashinfer"),
        ("headers", "4.2.0", "conda"),
    ]


def test_a_header_that_may_not_be_read_is_left_out() -> None:
    assert look({"/usr/include/cutlass/version.h": OSError(errno.EACCES, "Permission denied")}) is None


@given(st.text(max_size=200))
def test_whatever_the_header_holds(text: str) -> None:
    assert PROBE["version"](VERSION + text) == "4.2.0"
    PROBE["version"](text)
