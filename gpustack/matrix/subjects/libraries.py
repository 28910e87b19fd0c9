"""CUDA's libraries: which CUDA a name belongs to, which wheel brings it, and the versions that a toolkit has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import numbers
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

_NO_LIBRARY = frozenset({"cuda", "source", "checked"})
_FIRST_FAMILY = 11
_OWN_MINOR = re.compile(r"lib\w+\.so\.(?:[789]|10)\.\d+|libcupti\.so\.11\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Soname:
    """The name that a library is loaded under, the CUDA majors whose builds have it, and the wheels that bring it."""

    soname: str
    library: str
    majors: tuple[int, ...]
    wheels: tuple[str, ...]
    row: Row
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitParts:
    """The versions of the libraries in one release of the toolkit, by library (cublas, cufft, nvrtc …)."""

    toolkit: str
    cuda: CudaVersion
    parts: Mapping[str, str]
    row: Row


def sonames(matrix: Matrix) -> tuple[Soname, ...]:
    """Give every name that is known."""
    return matrix.rows("libraries", "sonames", _soname)


def soname_of(matrix: Matrix, name: str) -> Soname | None:
    """Give what is known of a name such as libcublasLt.so.11; further numbers (libcublasLt.so.11.11.3) do not count."""
    known = {one.soname: one for one in sonames(matrix)}
    while name not in known and re.search(r"\.so\.\d+\.", name):
        name = name.rpartition(".")[0]
    return known.get(name)


def cuda_of_soname(matrix: Matrix, name: str) -> tuple[int, ...]:
    """Give the CUDA majors that a name may belong to, none where it is not known.

    Up to CUDA 10 the name itself carries major and minor (libcudart.so.10.2), as CUPTI's does in CUDA 11.
    """
    known = soname_of(matrix, name)
    if known:
        return known.majors
    return (numbers(name.partition(".so.")[2])[0],) if _OWN_MINOR.fullmatch(name) else ()


def wheel_of_soname(matrix: Matrix, name: str, cuda: int | None = None) -> tuple[str, ...]:
    """Give the wheels that bring a library, for one CUDA major or for all."""
    known = soname_of(matrix, name)
    if known is None:
        return ()
    return tuple(wheel for wheel in known.wheels if cuda is None or _for(wheel, cuda))


def sonames_of(matrix: Matrix, cuda: int, *libraries: str) -> tuple[str, ...]:
    """Give the names that these libraries have in builds for a CUDA major, the newest where there are several."""
    held = {one.library: one.soname for one in sonames(matrix) if cuda in one.majors}
    return tuple(held[library] for library in libraries if library in held)


def toolkits(matrix: Matrix) -> tuple[ToolkitParts, ...]:
    """Give the parts of every release of the toolkit, oldest first."""
    return matrix.rows("libraries", "toolkits", _toolkit)


def _for(wheel: str, cuda: int) -> bool:
    """Tell whether a wheel is made for this major; without a suffix it is for CUDA 13."""
    match = re.search(r"-cu(\d+)\b", wheel)
    return int(match.group(1)) == cuda if match else cuda > _FIRST_FAMILY + 1


def _soname(line: Line) -> Soname:
    text = f"{line['soname']} belongs to CUDA {' or '.join(str(major) for major in line['cuda'])}"
    return Soname(
        soname=line["soname"],
        library=line["library"],
        majors=tuple(line["cuda"]),
        wheels=tuple(line.get("wheels", ())),
        row=tables.row("libraries", text, line),
        note=line.get("note"),
    )


def _toolkit(line: Line) -> ToolkitParts:
    parts = {key: value for key, value in line.items() if key not in _NO_LIBRARY}
    cublas = f" with cuBLAS {parts['cublas']}" if "cublas" in parts else ""
    return ToolkitParts(
        toolkit=line["cuda"],
        cuda=tables.needed(CudaVersion.parse(line["cuda"])),
        parts=parts,
        row=tables.row("libraries", f"CUDA {line['cuda']} comes{cublas}", line),
    )
