"""Tables from NVIDIA's headers and ptxas: supported host compilers, numbers of errors and fields, targets.

How to read the next: ``pip install --no-deps --target FOLDER`` nvidia-cuda-runtime, nvidia-nvml-dev, nvidia-cuda-nvcc
and the wheels of NCCL, cuBLAS and cuDNN, then ``python -m tools.matrix headers FOLDER``. Wheels not in the folder give
no rows. The meaning of an error, in our words, is written by hand in codes.toml; tests compare it with these rows.
"""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PathDistribution, distributions
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpustack.matrix.subjects.toolkits import HostCompilers

NUMBERS = {  # by header: the part of the table, and the pattern for a name and its number
    "driver_types.h": ("cuda", re.compile(r"^\s*(cudaSuccess|cudaError\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "cuda.h": ("driver", re.compile(r"^\s*(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "nvml.h": ("nvml", re.compile(r"^\s*(NVML_SUCCESS|NVML_ERROR_\w+)\s*=\s*(\d+)", re.MULTILINE)),
    "nccl.h": ("nccl", re.compile(r"(nccl(?:Success|\w+Error|InvalidArgument|InvalidUsage|InProgress))\s*=\s*(\d+)")),
    "cublas_api.h": ("cublas", re.compile(r"(CUBLAS_STATUS_\w+)\s*=\s*(\d+)")),
    "cudnn_graph.h": ("cudnn9", re.compile(r"(CUDNN_STATUS_\w+)\s*=\s*(\d+)")),
}
FIELD = re.compile(r"^#define (NVML_FI_DEV_\w+)\s+(\d+)\b", re.MULTILINE)
TARGET = re.compile(r"'sm_(\d+)[af]?'")  # in quotes: a value that the option accepts, not an example
ABOUT = """\
# Numbers and names in NVIDIA's headers, and the targets of ptxas, as they are there.
# Made by: python -m tools.matrix headers FOLDER (wheels installed by pip into it). Do not edit.
#
# cuda, driver, nvml, nccl, cublas, cudnn9  errors.   fields  what nvmlDeviceGetFieldValues takes.
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


def table(folder: Path, date: str) -> str:
    """Return the table made from the wheels in a folder, reproducibly; raises ValueError if they state nothing."""
    parts: dict[str, list[str]] = {}
    sources = []
    for held in sorted(distributions(path=[str(folder)]), key=lambda one: one.name):
        for path in sorted(held.files or (), key=str) if isinstance(held, PathDistribution) else ():
            there = dict(_read(path.name, folder / path))
            if there:
                parts.update(there)
                sources.append(f"{path.name} of {held.name} {held.version}")
    if not parts:
        raise ValueError("no wheel in it has a header of errors, or ptxas")
    rows = "".join(f"\n{part} = [\n{''.join(lines)}]\n" for part, lines in sorted(parts.items()))
    head = f'schema = 1\nsubjects = ["nvml", "libcuda", "cuda-runtime"]\nsource = "{"; ".join(sources)}"\n'
    return f'{ABOUT}{head}checked = "{date}"\n{rows}'


def _read(name: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of the table that a wheel's file gives, as lines; none for a file without any."""
    if name == "ptxas":
        said = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        yield "targets", [f'  {{ target = "sm_{one}" }},\n' for one in sorted(set(map(int, TARGET.findall(said))))]
    elif name in NUMBERS:
        text = path.read_text("utf-8", "replace")
        part, pattern = NUMBERS[name]
        yield part, _lines(pattern.findall(text))
        if fields := _lines(FIELD.findall(text)):
            yield "fields", fields


def _lines(found: list[tuple[str, str]]) -> list[str]:
    """Return a row for each number, with the first of several names."""
    names = {int(number): name for name, number in reversed(found)}
    return [f'  {{ code = {number}, name = "{names[number]}" }},\n' for number in sorted(names)]
