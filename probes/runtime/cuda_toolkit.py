"""Every CUDA toolkit: its root, what leads there, its version and its nvcc's, and the host compiler that nvcc takes.

A root is a folder with nvcc, version.json (CUDA 11.1 and later), version.txt (earlier) or cuda.h; links that lead to
one folder are one root. Sources: nvcc's manual (``-ccbin``, NVCC_CCBIN, NVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS), CMake's
manual (CUDAHOSTCXX), and ``nvcc -v`` and ``--dryrun`` of CUDA 13.0.88 (2026-11-21), which compiles with ``gcc``.
"""

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

DEBIAN = "/usr/lib/nvidia-cuda-toolkit"  # Debian's own package
SECONDS = 1.5  # a cold nvcc took 0.04 s
CCBIN = re.compile(r"(?:^|\s)--?(?:ccbin|compiler-bindir)[=\s]\s*(\S+)")
NOWHERE = "no-such-file.gpustack"


def probe(host: "Host") -> "Answer":
    """Return every toolkit, the one whose nvcc is on PATH first; a variable without one is reported as absent."""
    compiler = host_compiler(host)
    seen = [look(host, root, found_by) for root, found_by in roots(host).items()]
    return [dict(toolkit, host_compiler=compiler) for toolkit in seen if toolkit] or None


def roots(host: "Host") -> "Dict[str, List[str]]":
    """Return each folder that may be a toolkit, links followed, with all that leads there."""
    places: "List[Tuple[str, str]]" = []
    nvcc = host.path("nvcc")
    if nvcc:
        places.append((home(host, host.real(nvcc)), "nvcc on PATH"))
    places += [(host.env(name) or "", name) for name in ("CUDA_HOME", "CUDA_PATH")]
    if host.exists((host.env("CONDA_PREFIX") or "") + "/bin/nvcc"):
        places.append((host.env("CONDA_PREFIX") or "", "conda prefix"))
    places += [(path, path) for path in [*host.glob("/usr/local/cuda*"), "/opt/cuda", DEBIAN]]
    found: "Dict[str, List[str]]" = {}
    for path, how in places:
        if path.startswith("/"):
            found.setdefault(host.real(path.rstrip("/") or "/"), []).append(how)
    return found


def home(host: "Host", nvcc: str) -> str:
    """Return the root that an nvcc belongs to; a script (Debian's, a wrapper) is asked where its own nvcc is."""
    if host.bytes(nvcc, 2) == b"#!":
        try:
            said = host.run(nvcc, "-v", NOWHERE, seconds=SECONDS) or {"err": ""}
        except (OSError, TimeoutError):
            said = {"err": ""}
        here = first(r"_HERE_=(/\S+)", said["err"])
        nvcc = host.real(here + "/nvcc") if here else nvcc
    return os.path.dirname(os.path.dirname(nvcc))


def look(host: "Host", root: str, found_by: "List[str]") -> "Optional[Facts]":
    """Return one toolkit; None for a folder that is not one and that no variable names."""
    variables = [how for how in found_by if how in {"CUDA_HOME", "CUDA_PATH"}]
    compiler = root + "/bin/nvcc"
    nvcc, error = compiler_version(host, compiler) if host.exists(compiler) else (None, None)
    versions = {
        "version.json": in_json(host.read(root + "/version.json") or ""),
        "version.txt": first(r"CUDA Version (\d+\.\d+(?:\.\d+)*)", host.read(root + "/version.txt")),
        "nvcc": nvcc,
        "cuda.h": in_header(host.read(root + "/include/cuda.h", 1 << 20) or ""),
    }
    source = next((source for source, version in versions.items() if version), None)
    facts: "Facts" = {"key": root, "path": root, "found_by": found_by, "in_use": "nvcc on PATH" in found_by}
    if source is None and not host.exists(compiler):
        missing = "there is no toolkit" if host.exists(root) else "there is no such folder"
        return dict(facts, status="absent", error=missing) if variables else None
    facts.update(version=versions[source] if source else None, version_from=source, error=error)
    facts["status"] = "present" if source else "unknown" if host.inert else "failed"
    facts.update(nvcc=compiler if host.exists(compiler) else None, nvcc_version=nvcc)
    return facts


def compiler_version(host: "Host", nvcc: str) -> "Tuple[Optional[str], Optional[str]]":
    """Return the version that nvcc reports, or why it reports none."""
    try:
        said = host.run(nvcc, "--version", seconds=SECONDS)
    except (OSError, TimeoutError) as error:
        return None, str(error)
    if said is None:
        return None, "it is not run: this file system is only read" if host.inert else "it may not be run"
    version = first(r"\bV(\d+\.\d+\.\d+)", said["out"])
    return version, None if version else "exit %d: %s" % (said["code"], (said["err"] or said["out"]).strip()[:200])


def host_compiler(host: "Host") -> "Optional[Facts]":
    """Return path, version and kind of the C++ compiler that nvcc would take, and what names it (``named_by``)."""
    names = [(flags, first(CCBIN, host.env(flags))) for flags in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")]
    names += [(name, host.env(name)) for name in ("NVCC_CCBIN", "CUDAHOSTCXX")]
    for named_by, name in [*names, ("PATH", "gcc"), ("PATH", "g++")]:
        path = compiler_at(host, name) if name else None
        if path or (name and named_by != "PATH"):  # a variable that leads nowhere is what nvcc fails at
            return dict(identity(host, path), path=path or name, named_by=named_by)
    return None


def compiler_at(host: "Host", name: str) -> "Optional[str]":
    """Return the program that a name, a path or a folder (with g++ in it) stands for."""
    if not name.startswith("/"):
        return host.path(name)
    for path in (name + "/g++", name + "/gcc", name):
        if host.exists(path) and (host.stat(path) or {}).get("kind") != "dir":
            return path
    return None


def identity(host: "Host", path: "Optional[str]") -> "Facts":
    """Return version, kind and first line of what a compiler says of itself."""
    try:
        said = host.run(path, "--version", seconds=SECONDS) if path else None
    except (OSError, TimeoutError) as error:
        return {"version": None, "kind": None, "error": str(error)}
    if not said:
        return {"version": None, "kind": None, "error": "there is no program to run there"}
    banner = said["out"].strip().partition("\n")[0][:200]
    text = said["out"].lower()
    kind = "clang" if "clang" in text else "gcc" if "free software foundation" in text else None
    return {"version": banner_version(banner), "kind": kind, "banner": banner, "error": None}


def banner_version(banner: str) -> "Optional[str]":
    """Return the version in a compiler's first line; distributions put versions of their own in brackets."""
    return first(r"(?:^|\s)v?(\d+\.\d+(?:\.\d+)*)", re.sub(r"\([^()]*\)", " ", banner))


def in_json(text: str) -> "Optional[str]":
    """Return the toolkit's version in a version.json."""
    try:
        version = json.loads(text)["cuda"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, str) and re.match(r"\d+\.\d+", version) else None


def in_header(text: str) -> "Optional[str]":
    """Return the version that cuda.h defines: 13000 is 13.0."""
    number = int(first(r"#define\s+CUDA_VERSION\s+(\d{4,6})\b", text) or 0)
    return "%d.%d" % (number // 1000, number % 1000 // 10) if number else None


def first(wanted: "str | re.Pattern[str]", text: "Optional[str]") -> "Optional[str]":
    """Return what the first group of a pattern matches."""
    found = re.search(wanted, text or "")
    return found.group(1) if found else None
