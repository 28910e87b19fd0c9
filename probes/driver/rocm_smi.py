"""ROCm SMI and AMD SMI, the libraries that report on AMD's GPUs: whether each loads, starts, and how many it lists.

Each copy that the loader would find, or that lies under a root of ROCm, is asked in a process of its own. Functions and
numbers: rocm_smi.h and amdsmi.h of ROCm/rocm-systems. AMD SMI's structures change between releases: it is only started.
"""

import ctypes
import os
import re
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Tuple

    from probes.host import Answer, Facts, Host, Library

LIBRARIES = ("librocm_smi64", "libamd_smi")
FOLDERS = ("/opt/rocm/lib", "/opt/rocm-*/lib", "/opt/rocm/core-*/lib", "/usr/lib", "/usr/lib64")
PACKAGES = ("rocm-smi-lib", "librocm-smi64", "amd-smi-lib", "libamd-smi", "amdrocm")
SECONDS = 3.0
MOST = 6
AMD_GPUS = 2  # AMDSMI_INIT_AMD_GPUS
DRIVER = 0  # RSMI_SW_COMP_DRIVER
LENGTH = 256
# What both libraries return where there is no driver or no GPU. Source: rsmi_status_t and amdsmi_status_t.
NAMES = {
    "librocm_smi64": {2: "NOT_SUPPORTED", 4: "PERMISSION", 6: "INTERNAL_EXCEPTION", 8: "INIT_ERROR"},
    "libamd_smi": {2: "NOT_SUPPORTED", 10: "NO_PERM", 18: "INIT_ERROR", 32: "NOT_INIT", 34: "DRIVER_NOT_LOADED"},
}


class Version(ctypes.Structure):
    """rsmi_version_t."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("patch", ctypes.c_uint32),
        ("build", ctypes.c_char_p),
    )


def probe(host: "Host") -> "Answer":
    """Return each copy of both libraries with the result of starting it; None if there is none."""
    found = copies(host)[:MOST]
    works: "List[Callable[[], Any]]" = [partial(ask, host, stem, path) for stem, path in found]
    answers = host.apart_all(works, min(SECONDS, host.seconds)) if works else []
    return [told(host, stem, path, said) for (stem, path), said in zip(found, answers)] or None


def copies(host: "Host") -> "List[Tuple[str, str]]":
    """Return stem and real path of each file, the loader's choice first."""
    seen: "Dict[str, str]" = {}
    for stem in LIBRARIES:
        for path in places(host, stem):
            real = host.real(path)
            if host.exists(real):
                seen.setdefault(real, stem)
    return [(stem, path) for path, stem in seen.items()]


def places(host: "Host", stem: str) -> "Iterator[str]":
    """Yield where the files of one library lie, in the loader's order, then in ROCm's and the system's folders."""
    wanted = re.compile(re.escape(stem) + r"\.so(?:\.\d+)*")
    for folder in re.split("[:;]", host.env("LD_LIBRARY_PATH") or ""):
        names = host.list(folder) if folder.startswith("/") else ()
        yield from (os.path.join(folder, name) for name in names if wanted.fullmatch(name))
    for name, paths in host.shared("loader.py")["in_cache"](host).items():
        if wanted.fullmatch(name):
            yield from paths
    for pattern in (*host.row.get("folders", ()), *FOLDERS):
        for folder in host.glob(pattern):
            yield from (os.path.join(folder, name) for name in host.list(folder) if wanted.fullmatch(name))


def ask(host: "Host", stem: str, path: str) -> "Facts":
    """Load and start one copy; runs in a fork. A library that does not load says why by raising."""
    library = host.library(path)
    return rocm_smi(library) if stem == LIBRARIES[0] else amd_smi(library)


def rocm_smi(library: "Library") -> "Facts":
    """Return version, code of the start, number of GPUs and the driver's version, by ROCm SMI."""
    version = Version()
    known = library.has("rsmi_version_get") and library.call("rsmi_version_get", ctypes.byref(version)) == 0
    said: "Facts" = {"version": "%d.%d.%d" % (version.major, version.minor, version.patch) if known else None}
    said["code"] = library.call("rsmi_init", ctypes.c_uint64(0))
    if said["code"] == 0:
        count, words = ctypes.c_uint32(), ctypes.create_string_buffer(LENGTH)
        if library.call("rsmi_num_monitor_devices", ctypes.byref(count)) == 0:
            said["gpus"] = count.value
        if library.call("rsmi_version_str_get", DRIVER, words, LENGTH) == 0:
            said["driver"] = words.value.decode("utf-8", "replace")
        library.call("rsmi_shut_down")
    return said


def amd_smi(library: "Library") -> "Facts":
    """Return the code of the start, and the number of sockets with GPUs, by AMD SMI."""
    said: "Facts" = {"code": library.call("amdsmi_init", ctypes.c_uint64(AMD_GPUS))}
    if said["code"] == 0:
        count = ctypes.c_uint32()
        if library.call("amdsmi_get_socket_handles", ctypes.byref(count), None) == 0:
            said["sockets"] = count.value
        library.call("amdsmi_shut_down")
    return said


def told(host: "Host", stem: str, path: str, said: "Any") -> "Facts":
    """Return one copy: its version as it reports it, else by its file's name or package; failed if it did not load."""
    failed = isinstance(said, OSError)
    answer: "Facts" = {"loaded": False, "error": str(said)} if failed else dict(said, loaded=True)
    owners = host.shared("owners.py")["of_system"](host, path, PACKAGES)
    naming = host.shared("naming.py")
    package = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", (owners[0]["version"] or "") if owners else "")
    own = answer.pop("version", None)
    versions = {
        "library": own if own not in {None, "0.0.0", "1.0.0"} else None,  # what Debian's build says whatever it is
        "file name": naming["version"]("rocm", path),
        "package": package.group(1) if package else None,
    }
    source = next((name for name, version in versions.items() if version), None)
    answer.update(naming["facts"]("rocm", path), key=path, path=path, library=stem, version_from=source)
    answer.update(version=versions[source] if source else None, owner=owners[0] if owners else None)
    if answer.get("code"):
        answer["code_name"] = NAMES[stem].get(answer["code"])
    return dict(answer, status="failed" if failed else "present")
