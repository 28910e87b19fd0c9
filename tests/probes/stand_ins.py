"""Stand-ins made on the spot: tiny shared libraries, and Pythons with packages that only look like frameworks."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.leaving import leave_out

PROBES = Path(__file__).resolve().parent.parent.parent / "probes"
VERSION = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '70d99e998b4955e0049d13a98d77ae1b14db1f45'
hip: Optional[str] = None
xpu: Optional[str] = None
"""
# The shape of torch/__init__.py of 2.11.0 where it loads libraries by path, in our own words
PRELOADS = """
def _preload_cuda_deps(err=None):
    cuda_libs = [
        ("cudnn", "libcudnn.so.*[0-9]"),
        ("nccl", "libnccl.so.*[0-9]"),
    ]
    _preload_cuda_lib("nvtx", "libnvToolsExt.so.*[0-9]", required=False)

def _load_global_deps():
    try:
        if "libcudart.so" not in _maps:
            return
        _preload_cuda_deps()
    except OSError as err:
        _preload_cuda_deps(err)
"""


def compiled(
    path: Path,
    *,
    soname: str = "",
    needs: Sequence[Path] = (),
    text: str = "",
    opens: str = "",
    flags: Sequence[str] = (),
    **places: str,
) -> Path:
    """Compile a shared library that searches ``places`` (rpath or runpath) and contains a text.

    It opens another by name when it is loaded, as cuDNN opens its parts.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        leave_out("no C compiler here: stand-in libraries cannot be built")
    path.parent.mkdir(parents=True, exist_ok=True)
    named = path.name.partition(".")[0].replace("-", "_")
    source = f'const char text_{named}[] = "{text}"; int {named}(void) {{ return 1; }}'
    if opens:
        load = f'__attribute__((constructor)) static void open_(void) {{ dlopen("{opens}", 2); }}'
        source = f"void *dlopen(const char *, int); {source} {load}"
    tags = "-Wl,--disable-new-dtags" if "rpath" in places else "-Wl,--enable-new-dtags"
    command = [compiler, "-shared", "-fPIC", "-xc", "-", "-o", str(path), f"-Wl,-soname,{soname or path.name}", tags]
    command += [
        *(f"-Wl,-rpath,{place}" for place in places.values()),
        *flags,
        "-Wl,--no-as-needed",
        "-Wl,--allow-shlib-undefined",
        "-xnone",
        *map(str, needs),
    ]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return path


def built(path: Path, source: str, *flags: str) -> Path:
    """Compile C to a shared library, whatever it calls."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        leave_out("no C compiler here: stand-in libraries cannot be built")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-xc", "-", "-o", str(path), "-Wl,--allow-shlib-undefined", *flags]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return path


def python(folder: Path) -> tuple[Path, Path]:
    """Create a Python environment without pip; return its program and its site-packages."""
    venv.create(folder, symlinks=True, with_pip=False)
    major, minor = sys.version_info[:2]
    return folder / "bin" / "python", folder / "lib" / f"python{major}.{minor}" / "site-packages"


def distribution(site: Path, name: str, version: str, *requires: str, **files: str) -> Path:
    """Write the metadata of a distribution, with further files by name (``_`` stands for the dot)."""
    record = site / f"{name.replace('-', '_')}-{version}.dist-info"
    record.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {wanted}" for wanted in requires]
    (record / "METADATA").write_text("\n".join([*lines, "", "A stand-in of gpustack's tests.", ""]))
    for file, text in files.items():
        (record / file.replace("_txt", ".txt").replace("_json", ".json")).write_text(text)
    return record
