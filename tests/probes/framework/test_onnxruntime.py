"""ONNX Runtime: described from its files, and tried with a stand-in that reads our model as protobuf."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import PROBES, compiled, distribution, python
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = load("framework/onnxruntime.py")
probe, exercise, model = NAMES["probe"], NAMES["exercise"], NAMES["model"]
SITE = "/env/lib/python3.12/site-packages"
CAPI = f"{SITE}/onnxruntime/capi"
PYTHON = {"path": [SITE], "prefix": "/env", "machine": "x86_64", "executable": "/env/bin/python"}
INFO = "package_name = 'onnxruntime-gpu'\n__version__ = '1.30.0'\ncuda_version = '12.8'\n"


def told(files: dict[str, Any]) -> dict[str, Any]:
    return dict(probe(ToldHost(files={f"{SITE}/onnxruntime/__init__.py": "", **files}, python=PYTHON)))


def test_nothing_installed_is_absent_and_its_relatives_are_others() -> None:
    names = ("onnxruntime_extensions-0.14", "onnxruntime_genai_cuda-0.9", "onnxruntime_tools-1.7", "onnx-1.23")
    assert probe(ToldHost(files={f"{SITE}/{name}.dist-info/METADATA": "" for name in names}, python=PYTHON)) is None


def test_a_record_without_a_package_has_failed() -> None:
    facts = probe(ToldHost(files={f"{SITE}/onnxruntime_gpu-1.30.0.dist-info/METADATA": ""}, python=PYTHON))
    assert (facts["status"], facts["distributions"]) == ("failed", {"onnxruntime-gpu": "1.30.0"})


def test_every_distribution_that_brings_the_package_is_reported() -> None:
    names = (
        "onnxruntime-1.31.1",
        "onnxruntime_gpu-1.30.0",
        "ort_nightly_gpu-1.32.0.dev1",
        "onnxruntime_openvino-1.24.1",
    )
    facts = told({f"{SITE}/{name}.dist-info/METADATA": "" for name in names})
    assert facts["distributions"] == {
        "onnxruntime": "1.31.1",
        "onnxruntime-gpu": "1.30.0",
        "onnxruntime-openvino": "1.24.1",
        "ort-nightly-gpu": "1.32.0.dev1",
    }


@pytest.mark.parametrize(
    ("info", "libraries", "build", "cuda", "providers"),
    [
        (INFO, ["cuda", "shared", "tensorrt"], "cuda12", "12.8", ["cuda", "tensorrt"]),
        ("package_name = 'onnxruntime'\n__version__ = '1.31.1'\n", ["shared"], "cpu", None, []),
        (
            "package_name = 'onnxruntime-migraphx'\n__version__ = '1.27.1'\n",
            ["migraphx", "shared"],
            "migraphx",
            None,
            ["migraphx"],
        ),
        ("package_name = 'onnxruntime-openvino'\n", ["openvino"], "openvino", None, ["openvino"]),
        ("", [], "cpu", None, []),
    ],
)
def test_builds(info: str, libraries: list[str], build: str, cuda: str | None, providers: list[str]) -> None:
    files = {f"{CAPI}/libonnxruntime_providers_{name}.so": b"" for name in libraries}
    facts = told({f"{CAPI}/build_and_package_info.py": info, **files})
    assert (facts["build"], facts["cuda"], facts["providers"]) == (build, cuda, providers)


def test_a_version_before_1_21_says_it_elsewhere() -> None:
    facts = told({f"{SITE}/onnxruntime/__init__.py": "import x\n__version__ = '1.20.1'\n"})
    assert (facts["version"], facts["package"]) == ("1.20.1", None)
    facts = told({f"{SITE}/onnxruntime-1.19.2.dist-info/METADATA": ""})
    assert facts["version"] == "1.19.2"
    assert told({f"{CAPI}/build_and_package_info.py": PermissionError(13, "denied")})["version"] is None


@given(st.text(max_size=100), st.binary(max_size=100))
def test_nothing_written_there_makes_it_raise(text: str, data: bytes) -> None:
    files = {f"{CAPI}/build_and_package_info.py": text, f"{CAPI}/libonnxruntime_providers_cuda.so": data}
    assert told(files)["providers"] == ["cuda"]
    told({f"{CAPI}/build_and_package_info.py": f"cuda_version = {text!r}"})


def test_the_majors_are_what_the_provider_is_linked_to(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    capi = site / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    (site / "onnxruntime" / "__init__.py").write_text("raise RuntimeError('a stand-in: nobody is to import this')\n")
    distribution(site, "onnxruntime-gpu", "1.20.0")
    cudnn = compiled(tmp_path / "system" / "libcudnn.so.9")
    needs = [compiled(tmp_path / "lib" / name) for name in ("libcublasLt.so.12", "libcublas.so.12")]
    compiled(capi / "libonnxruntime_providers_cuda.so", needs=[*needs, cudnn], runpath="$ORIGIN")
    row = {"id": "onnxruntime", "probe": "framework/onnxruntime.py"}
    command = [str(program), str(PROBES), json.dumps({"rows": [row]})]
    environ = {"LD_LIBRARY_PATH": str(cudnn.parent)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    (seen,) = json.loads(done.stdout.splitlines()[1])["instances"]
    assert (seen["version"], seen["build"], seen["cuda"], seen["cudnn"]) == ("1.20.0", "cuda12", "12", "9")
    assert seen["search"]["libcudnn.so.9"][0]["path"] == str(cudnn)
    assert set(seen["search"]) == {"libcublasLt.so.12", "libcublas.so.12", "libcudnn.so.9"}


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and content of each field of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
    assert at == len(data)


def held(data: bytes | int, *path: int) -> list[Any]:
    """Return the content at a path of field numbers."""
    if not path:
        return [data]
    assert isinstance(data, bytes)
    return [found for number, content in fields(data) if number == path[0] for found in held(content, *path[1:])]


def test_the_model_is_a_product_of_two_matrices() -> None:
    said = model()
    assert held(said, 1) == [7]
    assert held(said, 8, 2) == [13]
    assert held(said, 7, 1, 4) == [b"MatMul"]
    assert held(said, 7, 1, 1) == held(said, 7, 11, 1) == [b"a", b"b"]
    assert held(said, 7, 1, 2) == held(said, 7, 12, 1) == [b"c"]
    assert held(said, 7, 11, 2, 1, 2, 1, 1) == [2, 3, 3, 2]
    assert held(said, 7, 12, 2, 1, 2, 1, 1) == [2, 2]
    assert held(said, 7, 11, 2, 1, 1) == [1, 1]


@given(st.integers(0, 1 << 40))
def test_numbers_of_any_size_are_written_as_protobuf_reads_them(value: int) -> None:
    assert list(fields(NAMES["_number"](3, value))) == [(3, value)]


def test_a_field_of_any_size_is_written_as_protobuf_reads_it() -> None:
    assert list(fields(NAMES["_field"](2, b"x" * 300))) == [(2, b"x" * 300)]


class Rows(list[list[int]]):
    """Rows that look like an array."""

    def tolist(self) -> list[list[int]]:
        """Return them."""
        return [*self]


def stand_in(available: list[str], used: list[str], answer: list[list[int]]) -> dict[str, Any]:
    """Return modules that look like ONNX Runtime and numpy; a provider that does not load says so on standard error."""

    class InferenceSession:
        def __init__(self, data: bytes, providers: list[str]) -> None:
            assert held(data, 7, 1, 4) == [b"MatMul"]
            self.asked = providers
            if used != providers:
                os.write(2, b"Failed to load libonnxruntime_providers_cuda.so: libcublasLt.so.12: cannot open\n")

        def get_providers(self) -> list[str]:
            return used

        def run(self, _names: None, given: dict[str, Rows]) -> list[Rows]:
            assert (given["a"][1], given["b"][2]) == ([4, 5, 6], [11, 12])
            return [Rows(answer)]

    runtime = {
        "__version__": "1.30.0",
        "get_available_providers": lambda: available,
        "InferenceSession": InferenceSession,
    }
    return {"onnxruntime": runtime, "numpy": {"asarray": lambda rows, _kind: Rows(rows)}}


CUDA, CPU, TENSORRT = "CUDAExecutionProvider", "CPUExecutionProvider", "TensorrtExecutionProvider"
RIGHT = [[58, 64], [139, 154]]


@pytest.mark.parametrize(
    ("available", "used", "answer", "device", "ok"),
    [
        ([TENSORRT, CUDA, CPU], [CUDA, CPU], RIGHT, "cuda", True),
        ([CUDA, CPU], [CPU], RIGHT, "cpu", True),
        (["AzureExecutionProvider", CPU], [CPU], RIGHT, "cpu", True),
        ([CUDA, CPU], [CUDA, CPU], [[58, 64], [139, 155]], "cuda", False),
    ],
)
def test_a_trial(available: list[str], used: list[str], answer: list[list[int]], device: str, *, ok: bool) -> None:
    facts = exercise(ToldHost(modules=stand_in(available, used, answer)))
    assert (facts["ran"], facts["ok"], facts["device"], facts["error"]) == (True, ok, device, None)
    assert (facts["providers_available"], facts["providers_used"]) == (available, used)
    fell_back = CUDA in available and CUDA not in used
    assert any("libcublasLt.so.12: cannot open" in line for line in facts["printed"]) == fell_back
    assert len(facts["printed"]) == fell_back


SPEAKS = """
import os
__version__ = "1.30.0"
def get_available_providers():
    return ["CPUExecutionProvider"]
class InferenceSession:
    def __init__(self, data, providers):
        os.write(2, b"from below\\n")
        print("EP Error: a stand-in falls back")
    def get_providers(self):
        return ["CPUExecutionProvider"]
    def run(self, names, given):
        raise ValueError("a stand-in computes nothing")
"""


def test_what_a_real_python_prints_meanwhile_is_heard_and_reaches_no_answer(tmp_path: Path) -> None:
    program, site = python(tmp_path / "env")
    for name, text in {"onnxruntime": SPEAKS, "numpy": "def asarray(rows, kind):\n    return rows\n"}.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(text)
    row = {"id": "onnxruntime", "probe": "framework/onnxruntime.py"}
    command = [str(program), "-B", str(PROBES), json.dumps({"rows": [row], "deep": True})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (seen,) = json.loads(done.stdout.splitlines()[1])["instances"]
    assert seen["printed"] == ["from below", "EP Error: a stand-in falls back"]
    assert (seen["ran"], seen["ok"], seen["error"]) == (True, False, "ValueError: a stand-in computes nothing")
    assert done.stderr == ""


def test_what_is_printed_before_an_error_is_kept_and_output_goes_on_where_it_went(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def session(_data: bytes, providers: list[str]) -> None:
        os.write(1, b"one\n\ntwo\n")
        raise RuntimeError(f"no session for {providers[0]}")

    modules = stand_in([CPU], [CPU], RIGHT)
    modules["onnxruntime"]["InferenceSession"] = session
    facts = exercise(ToldHost(modules=modules))
    assert (facts["ran"], facts["error"]) == (False, f"RuntimeError: no session for {CPU}")
    assert facts["printed"] == ["one", "two"]
    sys.stdout.flush()
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


def test_where_nothing_can_be_written_it_is_tried_unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    facts = exercise(ToldHost(modules=stand_in([CPU], [CPU], RIGHT)))
    assert (facts["ok"], facts["printed"]) == (True, [])


def test_a_runtime_that_is_not_there_is_reported_in_pythons_words() -> None:
    assert exercise(ToldHost())["error"] == "ModuleNotFoundError: No module named 'onnxruntime'"
