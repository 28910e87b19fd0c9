"""Data that is never read cannot affect a verdict: the program reads each table of the matrix, or a reason is given."""

from __future__ import annotations

from pathlib import Path

import gpustack
from gpustack import assets
from gpustack.matrix import Matrix

MATRIX = Matrix()
# Shown only by `gpustack matrix show`: table and part, with the reason.
SHOWN = {
    ("arch", "rules"): "sentences for people; CodeArch.runs_on is the same as code",
    ("compilers", "cuda_python"): "METADATA of what is installed says it itself",
    ("compilers", "cupy"): "the generated table of cupy-cuda12x decides",
    ("compilers", "cupy_packages"): "CuPy's own table of releases decides",
    ("compilers", "numba"): "the generated table of numba decides",
    ("compilers", "numba_cuda"): "one line of a documentation page, whose releases were not read",
    ("compilers", "others"): "single releases of compilers that nobody probes",
    ("compilers", "triton"): "the generated table of triton decides",
    ("cuda_driver", "rules"): "sentences for people; the producer of requirements is the same as code",
    ("cudnn", "sublibraries"): "the probe finds the parts by what lies beside the library",
    ("driver_branches", "modules"): "flavours by architecture decide; a GH200 is a Hopper",
    ("host_compiler", "distributions"): "the compiler that is there is probed; packaged GCCs are in packaged",
    ("host_compiler", "rules"): "a sentence for people",
    ("intel", "compute_runtime"): "what a release was built with, which is no lower limit",
    ("intel", "loaders"): "the specification of a loader limits nothing by itself",
    ("distributions", "documented"): "what commands may name on a distribution: the tests of fixes hold them to it",
    ("intel", "sonames"): "names of oneAPI's libraries: for who writes a probe",
    ("jax", "checks"): "what JAX itself compares at its start; its message says so",
    ("libraries", "headers"): "macros that hold versions: for who writes a probe",
    ("libraries", "layout"): "where wheels put their files: for who writes a probe",
    ("libraries", "queries"): "how a library is asked for its version: for who writes a probe",
    ("nccl", "results"): "codes.nccl has the same numbers",
    ("onnx", "consumers"): "three programs that nobody probes",
    ("onnxruntime", "extras"): "what extras bring, which METADATA of what is installed says itself",
    ("onnxruntime", "notes"): "sentences for people",
    ("opencl_vulkan", "directml"): "Windows alone, where no probe looks",
    ("opencl_vulkan", "drivers"): "names of drivers: for who writes a probe",
    ("opencl_vulkan", "loaders"): "names by system: for who writes a probe",
    ("opencl_vulkan", "search"): "where loaders look: for who writes a probe",
    ("rocm", "driver_needs"): "the same windows as driver_windows, by GPU",
    ("rocm", "sonames"): "names of ROCm's libraries: for who writes a probe",
    ("serving", "others"): "servers that pin nothing of the stack",
    ("tensorflow", "drivers"): "the floor of the CUDA that a release is made with decides",
    ("tensorflow", "notes"): "sentences for people",
    ("training", "deepspeed"): "the generated table of deepspeed decides",
    ("vllm", "binaries"): "the CUDA of the torch that a release pins decides",
    ("vllm", "wheels"): "builds that no index has",
}


def test_each_table_is_read_or_says_why_not() -> None:
    """Some file must name both the table and the part: the part's name alone is often a plain word."""
    sources = [path.read_text("utf-8") for path in Path(gpustack.__file__).parent.rglob("*.py")]
    tables = {path.stem: MATRIX.table(path.stem) for path in assets.MATRIX.glob("*.toml")}
    parts = {(name, part) for name, table in tables.items() for part, rows in table.items() if isinstance(rows, list)}
    unread = {
        (name, part)
        for name, part in parts
        if part != "subjects" and not any(f'"{name}"' in one and f'"{part}"' in one for one in sources)
    }
    assert unread == set(SHOWN)
