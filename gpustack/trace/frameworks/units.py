"""Which units of a multiprocessor a library's kernel computes on, as its name tells.

Kernels of CUTLASS, and those of cuBLAS and cuDNN that are made of it, name the class of their instructions: simt, or
tensorop and wmma_tensorop (CUTLASS documentation, "Functionality"); older ones name the shape of the instruction, such
as s16816; nvjet is the family of cuBLAS for the tensor cores of Hopper and later. What tells neither stays unknown.
"""

from __future__ import annotations

import re

TENSOR = re.compile(
    r"nvjet_|tensorop|_tensor\d+x\d+x\d+|wgmma|hmma|imma|[_:](?:[shi]|bf)(?:884|1688|16816|16832|161616)(?:gemm|fprop|cudnn|_)"
)
PLAIN = re.compile("simt|sgemm|dgemm|ffma")
MATRICES = re.compile("gemm|flash|attention")


def units(name: str) -> bool | None:
    """Tell whether a kernel of this name computes on the tensor cores; None where its name does not say so."""
    if TENSOR.search(name):
        return True
    _, native, rest = name.rpartition("at::native::")
    return False if PLAIN.search(name) or (native and not MATRICES.search(rest)) else None
