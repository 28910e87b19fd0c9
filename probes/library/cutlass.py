"""CUTLASS: its headers, wherever their version.h is, and its Python distributions; there is no library to load.

The row names ``roots`` (variables that name a checkout), ``folders`` (patterns of the system's include folders),
``inside`` (those in a Python's packages, where others bundle the headers) and ``distributions``.
"""

import fnmatch
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

HEADER = "/cutlass/version.h"
# NVIDIA/cutlass: include/cutlass/version.h, the same from 1.3 to 4.2.
NUMBERS = [re.compile(r"^#define CUTLASS_%s (\d{1,4})\b" % part, re.MULTILINE) for part in ("MAJOR", "MINOR", "PATCH")]


def probe(host: "Host") -> "Answer":
    """Return the distributions in a target Python, then every copy of the headers; None if there are neither."""
    installed = list(distributions(host)) if host.environment else []
    places = inside(host) if host.environment else around(host)
    seen = {}
    for folder, how in places:
        path = host.real(folder + HEADER)
        text = host.read(path, 1 << 16) if path not in seen else None
        if text is not None:
            seen[path] = {"key": path, "path": path, "version": version(text), "kind": "headers", "found_by": how}
    return installed + list(seen.values()) or None


def distributions(host: "Host") -> "Iterator[Facts]":
    """Yield the Python distributions, each from where an import would find it."""
    names = set()
    for copy in host.shared("installed.py")["find"](host):
        wanted = any(fnmatch.fnmatchcase(copy["name"], pattern) for pattern in host.row["distributions"])
        if wanted and copy["name"] not in names:
            names.add(copy["name"])
            facts = {name: copy[name] for name in ("version", "path")}
            yield dict(facts, key=copy["name"], kind="distribution", found_by=copy["kind"])


def around(host: "Host") -> "Iterator[Tuple[str, str]]":
    """Yield the system's include folders, and how each was found."""
    for name in host.row["roots"]:
        root = (host.env(name) or "").rstrip("/")
        if root.startswith("/"):
            yield root + "/include", name
    for pattern in host.row["folders"]:
        for folder in host.glob(pattern):
            yield folder, "folder " + folder


def inside(host: "Host") -> "Iterator[Tuple[str, str]]":
    """Yield the include folders within this Python's packages and its conda prefix."""
    here = host.interpreter()
    for site in dict.fromkeys(entry.rstrip("/") for entry in here["path"] if entry.endswith("-packages")):
        for pattern in host.row["inside"]:
            for folder in host.glob(site + "/" + pattern):
                yield folder, "bundled in " + folder[len(site) + 1 :].split("/")[0]
    if host.exists(here["prefix"] + "/conda-meta"):
        yield here["prefix"] + "/include", "conda"


def version(text: str) -> "Optional[str]":
    """Return the version that a version.h defines, or None if part of it is missing."""
    found: "List[Optional[re.Match[str]]]" = [pattern.search(text) for pattern in NUMBERS]
    return ".".join(match.group(1) for match in found if match) if all(found) else None
