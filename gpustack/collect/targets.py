"""Which Pythons are looked at: those that were named, else the active one, else the first on PATH, else our own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpustack.collect import isolation
from gpustack.errors import UsageError
from gpustack.model.facts import Environment

WHOLE = frozenset(
    "PATH HOME USER LOGNAME TMPDIR LANG VIRTUAL_ENV LIBRARY_PATH CPATH CC CXX GPU_DEVICE_ORDINAL container".split()  # noqa: SIM905 - words read better than a column of quotes
)
BEGUN = tuple(
    """XDG_ LC_ LD_ CUDA NV CONDA_ PYTHON TORCH PYTORCH TF_ XLA_ JAX_ NCCL_ UCX_ ROCM ROCR_ HIP HSA_ AMD_ MIOPEN_ RCCL_
    ONEAPI_ ZE SYCL_ OCL_ OPENCL_ VK_ WSL OMP_ MKL_ SLURM KUBERNETES_ TRITON_ NUMBA CUPY_ CCCL_""".split()  # noqa: SIM905 - the same
)
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")  # NVIDIA_API_KEY is no setting of a stack


def choose(named: Sequence[str], environ: Mapping[str, str]) -> tuple[Environment, ...]:
    """Give the Pythons to look at, the chosen one first; raises UsageError for a name that is no program."""
    if named:
        return tuple(dict.fromkeys(_named(name) for name in named))
    for variable, kind in (("VIRTUAL_ENV", "venv"), ("CONDA_PREFIX", "conda")):
        python = Path(environ.get(variable) or "/nowhere", "bin", "python")
        if python.is_absolute() and os.access(python, os.X_OK):
            return (Environment(python=str(python), kind=kind, prefix=environ[variable]),)
    found = _command("python3", environ)
    return (_named(found),) if found else (Environment(python=sys.executable, kind="own", prefix=sys.prefix),)


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Give what of our environment a probe gets to see: what changes a GPU stack, and no secret by another name."""
    ours = {name: value for name, value in environ.items() if name in WHOLE or name.startswith(BEGUN)}
    kept = {name: value for name, value in ours.items() if not SECRET.search(name)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1"}


def _command(name: str, environ: Mapping[str, str]) -> str | None:
    """Give where a command is, on PATH but never in the working folder."""
    return shutil.which(name, path=isolation.absolute(environ).get("PATH", os.defpath))


def _program(name: str) -> str | None:
    """Give the program that is meant: a word is a command or a folder with a Python, a path may be a file as well."""
    found = None if os.sep in name else _command(name, os.environ)
    if found or not name:
        return found
    return str(Path(name, "bin", "python")) if Path(name).is_dir() else name if os.sep in name else None


def _named(name: str) -> Environment:
    """Give the environment of a Python named by path or command, or of a folder that holds one."""
    python = _program(name)
    if python is None or not os.access(python, os.X_OK) or Path(python).is_dir():
        message = f"--python {name}: there is no program to run there"
        raise UsageError(message)
    absolute = Path(python).absolute()  # not resolved: the python of a venv is a link that says which venv
    prefix = absolute.parent.parent
    marks = {"venv": prefix / "pyvenv.cfg", "conda": prefix / "conda-meta"}
    kind = next((kind for kind, mark in marks.items() if mark.exists()), "system")
    return Environment(python=str(absolute), kind=kind, prefix=str(prefix))
