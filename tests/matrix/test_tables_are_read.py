"""What nobody reads never reaches a verdict: each table of the matrix is read by the program, or says why it is not."""

from __future__ import annotations

from pathlib import Path

import gpustack
from gpustack import assets
from gpustack.matrix import Matrix

MATRIX = Matrix()
# Shown by `gpustack matrix show` alone: table and part, with the reason.
SHOWN = {
    ("compilers", "cupy_packages"): "CuPy's own table of releases decides",
    ("compilers", "numba_cuda"): "one line of a documentation page, whose releases were not read",
    ("cudnn", "sublibraries"): "the probe finds the parts by what lies beside the library",
    ("intel", "compute_runtime"): "what a release was built with, which is no lower limit",
    ("intel", "loaders"): "the specification of a loader limits nothing by itself",
    ("distributions", "documented"): "what commands may name on a distribution: the tests of fixes hold them to it",
    ("driver_branches", "modules"): "flavours by architecture decide; a GH200 is a Hopper",
    ("libraries", "queries"): "how a library is asked for its version: for who writes a probe",
    ("libraries", "layout"): "where wheels put their files: for who writes a probe",
    ("onnx", "consumers"): "three programs that nobody probes",
    ("onnxruntime", "extras"): "what extras bring, which METADATA of what is installed says itself",
    ("opencl_vulkan", "loaders"): "names by system: for who writes a probe",
    ("opencl_vulkan", "directml"): "Windows alone, where no probe looks",
    ("rocm", "driver_needs"): "the same windows as driver_windows, by GPU",
    ("serving", "trtllm_containers"): "images with TensorRT-LLM are of the same months as those with vLLM",
    ("vllm", "binaries"): "the CUDA of the torch that a release pins decides",
}


def test_each_table_is_read_or_says_why_not() -> None:
    source = "\n".join(path.read_text("utf-8") for path in Path(gpustack.__file__).parent.rglob("*.py"))
    tables = {path.stem: MATRIX.table(path.stem) for path in assets.MATRIX.glob("*.toml")}
    parts = {(name, part) for name, table in tables.items() for part, rows in table.items() if isinstance(rows, list)}
    unread = {(name, part) for name, part in parts if part != "subjects" and f'"{part}"' not in source}
    assert unread == set(SHOWN)
