"""What the numbers in a library's file name mean if they are not a plain version: each vendor has its own scheme.

Standard library and Python 3.8 syntax; loaded by path through the host.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from probes.host import Facts

ONEAPI = re.compile(r"/oneapi/[^/]+/(20\d\d\.\d{1,2}(?:\.\d{1,3})?)/")
# ROCm 6.3.3 is 60303: major, minor and patch with two digits each; the last number of its libraries' names.
RELEASE = re.compile(r"\.so\.(?:\d+\.)+(\d{1,2})(\d{2})(\d{2})$")


def version(naming: str, path: str) -> "Optional[str]":
    """Return the version in a file name, read according to its vendor's scheme, which the row names."""
    return WAYS[naming](path)


def facts(naming: str, path: str) -> "Facts":
    """Return what else the name reveals: the ROCm release that the file is from."""
    found = RELEASE.search(path) if naming in {"rocm", "packed"} else None
    return {"rocm": ".".join(str(int(part)) for part in found.groups())} if found else {}


def plain(path: str) -> "Optional[str]":
    """Return three or more numbers; fewer belong to a soname (CUDA 11.8 has libcudart.so.11.0)."""
    found = re.search(r"\.so\.(\d+\.\d+\.\d+(?:\.\d+)*)$", path)
    return found.group(1) if found else None


def by_release(path: str) -> "Optional[str]":
    """Return what precedes the release: librocblas.so.4.3.60303 is 4.3 of ROCm 6.3.3."""
    found = re.search(r"\.so\.(\d+\.\d+)\.\d{5,6}$", path)
    return found.group(1) if found else plain(path)


def packed(path: str) -> "Optional[str]":
    """Return the version packed into the first number: libmigraphx.so.2012000.0.60403 is 2.12.0."""
    found = re.search(r"\.so\.(\d{1,3})(\d{3})(\d{3})(?:\.\d+)*$", path)
    return ".".join(str(int(part)) for part in found.groups()) if found else None


def by_folder(path: str) -> "Optional[str]":
    """Return the release whose folder it is in: oneapi/mkl/2025.1/lib/libmkl_core.so.2 is 2025.1."""
    found = ONEAPI.search(path)
    return found.group(1) if found else None


def soname(path: str) -> None:
    """Return None: the numbers are only the soname's (libdrm_amdgpu.so.1.0.0 is from libdrm 2.4.x)."""


WAYS = {"version": plain, "rocm": by_release, "packed": packed, "soname": soname, "oneapi": by_folder}
