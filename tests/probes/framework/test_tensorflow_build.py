"""TensorFlow as installed: what its build says about itself, read as text and never run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

TENSORFLOW = load("framework/tensorflow.py")
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env"}
INFO = """# Licensed
import collections
build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('cuda_compute_capabilities', ['sm_60', 'compute_90']),
 ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)])
"""
CPU = "import collections\nbuild_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])\n"


def told(info: str | OSError | None, *records: str) -> Any:  # noqa: ANN401 - as the probe gives
    files: dict[str, str | bytes | OSError] = {f"{SITE}/{record}.dist-info/METADATA": "" for record in records}
    if info is not None:
        files[f"{SITE}/tensorflow/__init__.py"] = ""
        files[f"{SITE}/tensorflow/python/platform/build_info.py"] = info
    return TENSORFLOW["probe"](ToldHost(files, python=PYTHON))


def test_without_it_it_is_absent_and_a_folder_of_that_name_is_not_it() -> None:
    assert told(None) is None
    files: dict[str, str | bytes | OSError] = {f"{SITE}/tensorflow/__init__.py": ""}
    assert TENSORFLOW["probe"](ToldHost(files, python=PYTHON)) is None


def test_a_cuda_build_tells_its_cuda_cudnn_and_code() -> None:
    seen = told(INFO, "tensorflow-2.21.0")
    assert (seen["version"], seen["build"], seen["cuda"], seen["cudnn"]) == ("2.21.0", "cuda12", "12.5.1", "9")
    assert seen["archs"] == ["sm_60", "compute_90"]
    assert seen["accelerator"] == "cuda"


def test_a_build_for_the_cpu_is_one() -> None:
    seen = told(CPU, "tensorflow_cpu-2.21.0")
    assert (seen["build"], seen["accelerator"], seen["cuda"]) == ("cpu", "cpu", None)
    assert seen["distributions"] == {"tensorflow-cpu": "2.21.0"}


def test_an_info_that_cannot_be_read_leaves_the_build_open() -> None:
    seen = told(PermissionError(13, "denied"), "tensorflow-2.21.0")
    assert (seen["version"], seen["build"], seen["info_read"]) == ("2.21.0", None, False)


def test_a_record_without_its_package_has_failed() -> None:
    assert told(None, "tensorflow-2.21.0")["status"] == "failed"


@pytest.mark.parametrize(
    "text", ["build_info = f()", "build_info = OrderedDict(x)", "build_info = [1]", "build_info =", "other = 1"]
)
def test_odd_sources_say_nothing(text: str) -> None:
    assert TENSORFLOW["pairs"](text) == {}


@given(st.text(max_size=200))
def test_no_text_makes_it_crash(text: str) -> None:
    assert isinstance(TENSORFLOW["pairs"]("build_info = " + text), dict)
