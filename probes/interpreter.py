"""What the Python that runs this reports about itself, and the C library that it uses."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.host import Facts


def describe() -> "Facts":
    """Return its program, version, prefixes, implementation, import paths, the machine type and the glibc."""
    try:
        libc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (ValueError, OSError):  # a C library that is not glibc has no such name
        libc = []
    return {
        "executable": sys.executable,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "implementation": sys.implementation.name,
        "tag": sys.implementation.cache_tag,
        "path": [entry for entry in sys.path if entry],
        "machine": os.uname().machine,
        "bits": 64 if sys.maxsize > 1 << 32 else 32,
        "glibc": libc[1] if libc[:1] == ["glibc"] else None,
        # Of the build, which wheels and headers are for: an extension may have switched the GIL back on.
        "gil": "t" not in getattr(sys, "abiflags", ""),
    }
