"""Tables from NVIDIA's headers and ptxas: supported host compilers, numbers of errors and fields, targets.

How to read the next: ``python -m tools.matrix headers NAME==VERSION...`` of nvidia-cuda-runtime, nvidia-nvml-dev,
nvidia-cuda-nvcc, and the wheels of NCCL, cuBLAS, cuSOLVER, cuSPARSE and cuDNN: only their headers, and ptxas, are
fetched. Parts that no wheel named here gives stay as they are. The meaning of an error, in our words, is written by
hand in codes.toml; tests compare it with these rows.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping

    from gpustack.matrix.subjects.toolkits import HostCompilers

NUMBERS = {  # by header: the part of the table, and the pattern for a name and its number
    "driver_types.h": ("cuda", re.compile(r"^\s*(cudaSuccess|cudaError\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "cuda.h": ("driver", re.compile(r"^\s*(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "nvml.h": ("nvml", re.compile(r"^\s*(NVML_SUCCESS|NVML_ERROR_\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "nccl.h": ("nccl", re.compile(r"(nccl(?!NumResults)\w+) *= *(\d+)(?=[^{}]*} *ncclResult_t)")),
    "cublas_api.h": ("cublas", re.compile(r"(CUBLAS_STATUS_\w+)\s*=\s*(\d+)")),
    "cusolver_common.h": ("cusolver", re.compile(r"(CUSOLVER_STATUS_\w+)\s*=\s*(\d+)")),
    "cusparse.h": ("cusparse", re.compile(r"(CUSPARSE_STATUS_\w+)\s*=\s*(\d+)")),
    "cudnn_graph_v9.h": ("cudnn9", re.compile(r"(CUDNN_STATUS_\w+)\s*=\s*(\d+)")),
}
PARTS = {*(part for part, _ in NUMBERS.values()), "fields", "targets"}
FIELD = re.compile(r"^#define (NVML_FI_DEV_\w+)\s+(\d+)\b", re.MULTILINE)
TARGET = re.compile(r"'sm_(\d+)[af]?'")  # in quotes: a value that the option accepts, not an example
ABOUT = """\
# Numbers and names in NVIDIA's headers, and the targets of ptxas, as they are there.
# Made by: python -m tools.matrix headers NAME==VERSION... Do not edit.
#
# cuda, driver, nvml, nccl, cublas, cusolver, cusparse, cudnn9  errors.   fields  what nvmlDeviceGetFieldValues takes.
# targets  architectures that ptxas compiles for; those with an a or f are left out.
"""

HEADER = re.compile(r"[^\0]*/crt/host_config\.h")
# Each check's condition is followed by its message, which is read only for the compiler that it names.
CHECK = re.compile(
    r"^#if (?P<condition>[^\n]+)\n(?:\s*\n)*#error -- unsupported (?P<whom>GNU|clang|Microsoft) ", re.MULTILINE
)
BOUNDS = {
    "gcc_max": ("GNU", re.compile(r"__GNUC__ > (\d+)"), 0),
    "clang_max": ("clang", re.compile(r"__clang_major__ >= (\d+)"), -1),
    "msc_min": ("Microsoft", re.compile(r"_MSC_VER < (\d+)"), 0),
    "msc_max": ("Microsoft", re.compile(r"_MSC_VER >= (\d+)"), -1),
}


def limits(text: str) -> Mapping[str, int]:
    """Return the bounds that a host_config.h checks, named as in the rows of host_compiler.toml."""
    conditions = {found["whom"]: found["condition"] for found in CHECK.finditer(text)}
    return {
        name: int(found[1]) + more
        for name, (whom, bound, more) in BOUNDS.items()
        if (found := bound.search(conditions.get(whom, "")))
    }


def listed(archive: zipfile.ZipFile) -> Mapping[str, int]:
    """Return the bounds that the header in a wheel checks; raises KeyError if the wheel has no such header."""
    name = next((one for one in archive.namelist() if HEADER.fullmatch(one)), None)
    if name is None:
        raise KeyError("no crt/host_config.h is in it")
    return limits(archive.read(name).decode("utf-8", "replace"))


def differing(found: Mapping[str, int], row: HostCompilers) -> Iterator[str]:
    """Yield the differences between a row and a header."""
    for name, value in found.items():
        stated = getattr(row, name, value)
        if stated is not None and stated != value:
            yield f"{name} is {value}, and the row says {stated}"


def table(name: str, archive: zipfile.ZipFile, date: str, before: Mapping[str, Any]) -> str:
    """Return the table with the parts that a wheel gives in place of older ones; raises ValueError if it gives none."""
    parts = {part: "".join(map(_line, before[part])) for part in PARTS & before.keys()}
    sources = {one.partition(" of ")[0]: one for one in before.get("source", "").split("; ") if one}
    new = {path: dict(_read(path, archive)) for path in archive.namelist()}
    if not any(new.values()):
        raise ValueError("no header of errors, and no ptxas, is in it")
    for path, found in new.items():
        parts |= found
        file = PurePosixPath(path).name
        sources |= {file: f"{file} of {name}"} if found else {}
    rows = "".join(f"\n{part} = [\n{lines}]\n" for part, lines in sorted(parts.items()))
    source = "; ".join(sources[one] for one in sorted(sources))
    head = f'schema = 1\nsubjects = ["nvml", "libcuda", "cuda-runtime"]\nsource = "{source}"\n'
    return f'{ABOUT}{head}checked = "{date}"\n{rows}'


def _read(path: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the parts of the table that a wheel's file gives, as lines; none for a file without any."""
    name = PurePosixPath(path).name
    if name == "ptxas":
        found = sorted(set(map(int, TARGET.findall(_help(archive.read(path))))))
        yield "targets", "".join(_line({"target": f"sm_{one}"}) for one in found)
    elif name in NUMBERS:
        text = archive.read(path).decode("utf-8", "replace")
        part, pattern = NUMBERS[name]
        yield part, _lines(pattern.findall(text))
        if fields := _lines(FIELD.findall(text)):
            yield "fields", fields


def _help(program: bytes) -> str:
    """Return what a program prints of its options."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ptxas"
        path.write_bytes(program)
        path.chmod(0o700)
        return subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def _lines(found: list[tuple[str, str]]) -> str:
    """Return a row for each number, with the first of several names."""
    names = {int(number): name for name, number in reversed(found)}
    return "".join(_line({"code": number, "name": names[number]}) for number in sorted(names))


def _line(row: Mapping[str, object]) -> str:
    """Return a row as TOML."""
    return f"  {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in row.items())} }},\n"
