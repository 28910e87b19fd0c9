"""The versions of the CUDA libraries that this process has loaded, asked of the very copies that are mapped."""

import ctypes
import os
from typing import Any, List

# By the name between lib and .so: the function to ask, and how it answers.
ASKED = {
    "cuda": ("cuDriverGetVersion", "pointer"),
    "cudart": ("cudaRuntimeGetVersion", "pointer"),
    "cublasLt": ("cublasLtGetVersion", "size"),
    "cudnn": ("cudnnGetVersion", "size"),
    "nccl": ("ncclGetVersion", "pointer"),
    "nvrtc": ("nvrtcVersion", "pair"),
}
CUDNN_9, NCCL_2_9 = 90000, 20900


def versions(paths: List[str]) -> Any:
    """Return the version of each library by its path; one that does not answer is left out."""
    found = {}
    for path in paths:
        name = os.path.basename(path).split(".so")[0][3:]
        if name in ASKED:
            try:
                found[path] = said(name, ctypes.CDLL(path))
            except (OSError, AttributeError, ValueError):
                continue
    return {path: version for path, version in found.items() if version}


def said(name: str, library: Any) -> Any:
    """Return what one library answers, as people write it."""
    function, how = ASKED[name]
    call = getattr(library, function)
    if how == "pair":
        major, minor = ctypes.c_int(), ctypes.c_int()
        return None if call(ctypes.byref(major), ctypes.byref(minor)) else "%d.%d" % (major.value, minor.value)
    if how == "size":
        call.restype = ctypes.c_size_t
        return written(name, call())
    number = ctypes.c_int()
    return None if call(ctypes.byref(number)) else written(name, number.value)


def written(name: str, number: int) -> Any:
    """Return a packed version in words."""
    if name in ("cuda", "cudart"):
        return "CUDA %d.%d" % (number // 1000, number % 1000 // 10)
    if name == "cudnn" and number < CUDNN_9:
        return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)
    if name == "nccl" and number < NCCL_2_9:
        return "%d.%d.%d" % (number // 1000, number // 100 % 10, number % 100)
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)
