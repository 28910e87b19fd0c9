"""Which component a symbol or a shared library belongs to, by its name in the loader's errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import libraries
from gpustack.model.versions import CudaVersion

TORCH = "torch-abi"
CAPITALS = re.compile(r"p?(?P<library>nccl|cuda|cu|mlx5dv_|ibv_)(?=[A-Z_]|(?<=_)\w)")
OWNERS = {"nccl": "nccl", "cuda": "cuda-runtime", "cu": "libcuda", "ibv_": "rdma", "mlx5dv_": "rdma"}
MANGLED = re.compile(r"_?_Z(?:G[RV]|T[VTISC])?N?[KRVO]*(?P<rest>(?:\d+|S[tabsiod]).*)")
LENGTH = re.compile(r"(\d+)(?=[A-Za-z_])")
WINDOWS = re.compile(r"^\?.*@(?P<namespace>\w+)@@")
SONAME = re.compile(r"(?:.*/)?lib(?P<name>[\w+-]+?)\.so(?:\.(?P<version>\d[\d.]*))?$")
DLL = re.compile(r"(?:.*[\\/])?(?P<name>[A-Za-z]\w*?)(?:64)?_(?P<version>\d{1,3})(?:_\d+)?\.dll$", re.IGNORECASE)
CUDNN = re.compile(r"cudnn_\w+")
TORCH_FILE = re.compile(r"(?:torch|c10)(?:_\w+)?")
OWN_MAJOR = frozenset({"cuda-runtime", "cublas", "cublaslt", "nvrtc", "nvjitlink", "cupti", "npp"})


@cache
def table_of(part: str, name: str = "") -> Mapping[str, Any]:
    """Return what names say of their owners, as compat-matrix/libraries.toml has it."""
    held = Matrix().table("libraries")[part]
    return held[name] if name else held  # type: ignore[no-any-return]  # as the table has it


def symbol_owner(symbol: str) -> str | None:
    """Return the library or framework that a symbol belongs to (torch-abi, nccl, cudnn, …), or None."""
    mangled = MANGLED.match(symbol)
    windows = WINDOWS.match(symbol)
    if mangled:
        return _namespace(mangled["rest"])
    if windows:
        return _of(windows["namespace"])
    if "::" in symbol:
        return next((owner for name in symbol.split("::") if (owner := _of(name.split(" ")[-1]))), None)
    capital = CAPITALS.match(symbol)
    found = next((owner for start, owner in table_of("symbols", "plain").items() if symbol.startswith(start)), None)
    return found or (OWNERS[capital["library"]] if capital else None)


def soname_library(soname: str) -> tuple[str, str] | None:
    """Return component id and major number of a shared library by its name; None if it is not of the stack.

    The number is the name's own, mostly not CUDA's: ``libcufft.so.10`` belongs to CUDA 11 (see ``cuda_majors``).
    """
    match = SONAME.match(soname.strip()) or DLL.match(soname.strip())
    if not match:
        return None
    name, version = match["name"], match["version"] or ""
    files = table_of("files")
    library = files.get(name) or ("cudnn" if CUDNN.fullmatch(name) else None)
    library = library or next((id_ for known, id_ in files.items() if known.lower() == name.lower()), None)
    if library is None and TORCH_FILE.fullmatch(name):
        library = "pytorch"
    if library is None:
        return None
    whole = version if "." in version or len(version) < len("100") else version[:-1]  # cudart64_110.dll is CUDA 11.0
    return library, whole.partition(".")[0]


def cuda_majors(soname: str, matrix: Matrix) -> tuple[int, ...]:
    """Return the CUDA majors whose builds use a library of this name; empty if unknown."""
    named = soname_library(soname)
    found = libraries.cuda_of_soname(matrix, soname.strip().rpartition("/")[2])
    if found or named is None:
        return found
    return (int(named[1]),) if named[0] in OWN_MAJOR and named[1] else ()


def cuda_named(soname: str) -> CudaVersion | None:
    """Return the CUDA version in a library's name: libcudart.so.10.2 is 10.2, libcudart.so.12 is 12.0."""
    match, named = SONAME.match(soname.strip()), soname_library(soname)
    if match is None or named is None or named[0] not in OWN_MAJOR or not match["version"]:
        return None
    parts = match["version"].split(".")
    return CudaVersion(int(parts[0]), int(parts[1]) if len(parts) > 1 else 0)


def demangled(symbol: str) -> str:
    """Return the first names in a mangled symbol, such as c10::cuda::SetDevice; an unmangled symbol unchanged."""
    match = MANGLED.match(symbol)
    names = list(_names(match["rest"]))[:4] if match else []
    return "::".join(names) if names else symbol


def _names(rest: str) -> list[str]:
    """Return the names at the start of a mangled symbol, each of which follows its length."""
    names: list[str] = []
    match = LENGTH.match(rest)
    while match:
        end = match.end() + int(match[1])
        names.append(rest[match.end() : end])
        rest = rest[end:]
        match = LENGTH.match(rest)
    return [name for name in names if name]


def _namespace(rest: str) -> str | None:
    """Return the owner of a mangled name: by its first namespace, else by the namespaces of its parameters."""
    names = _names(rest)
    owner = _of(names[0]) if names else None
    if owner:
        return owner
    inside = re.search(r"(?:3c10|2at|5torch|6caffe2)(?=[\dKN_A-Z])", rest)
    if inside:
        return TORCH
    if "10tensorflow" in rest:
        return "tensorflow"
    return "libstdc++" if rest.startswith("S") else None


def _of(name: str) -> str | None:
    return next(
        (
            owner
            for owner, names in table_of("symbols", "namespaces").items()
            if name in names or name.startswith("THPVar")
        ),
        None,
    )
