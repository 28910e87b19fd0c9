"""Installed distributions of one system, in the order in which an import would find them; the row has all the data.

``distributions``: their names, with a star for any ending. ``beside``: others whose versions are also relevant. The
rest is read from the package itself, in the folder of the first copy: ``holds`` (a file that it must contain, or
several of which it must contain one), ``said`` (fact: file, name assigned in it), ``tag`` (a pattern whose groups are
facts about the build, in the version's local part or in the address that it was installed from), ``links`` (extension
files whose dependencies reveal the majors of the libraries that they are built for).
"""

import fnmatch
import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

    from probes.host import Answer, Facts, Host

TEXT = 1 << 16
MOST_LINKS = 4
MAJORS = (
    ("cuda", re.compile(r"lib(?:cudart|cublas|cublasLt)\.so\.(\d+)")),
    ("cudnn", re.compile(r"libcudnn\.so\.(\d+)")),
    ("tensorrt", re.compile(r"libnvinfer\.so\.(\d+)")),
    ("hip", re.compile(r"libamdhip64\.so\.(\d+)")),
    ("sycl", re.compile(r"libsycl\.so\.(\d+)")),
)


def probe(host: "Host") -> "Answer":
    """Return each copy: version, location of its metadata, who installed it, and what the row reads from its files."""
    installed = host.shared("installed.py")
    everything = installed["find"](host)
    copies = chosen(everything, host.row["distributions"], installed)
    first = {copy["name"]: copy["path"] for copy in reversed(copies)}
    more = beside(installed["versions"](everything), host.row.get("beside", ()))
    return [
        {
            "key": copy["name"] if first[copy["name"]] == copy["path"] else "%s in %s" % (copy["name"], copy["path"]),
            "version": copy["version"],
            "build": copy.get("build"),
            "path": copy["path"],
            "kind": copy["kind"],
            "shadowed_by": None if first[copy["name"]] == copy["path"] else first[copy["name"]],
            **installed["origin"](host, copy),
            **more,
            **told(host, copy),
        }
        for copy in copies
        if whole(host, copy)
    ]


def chosen(copies: "List[Facts]", names: "List[str]", installed: "Facts") -> "List[Facts]":
    """Return the copies of the named distributions, in the order of the names, then of the path."""
    wanted = [installed["normal"](name.rstrip("*")) + ("*" if name.endswith("*") else "") for name in names]
    ranks = [(rank(copy["name"], wanted), place, copy) for place, copy in enumerate(copies)]
    return [copy for place, _, copy in sorted(ranks, key=lambda row: row[:2]) if place < len(wanted)]


def rank(name: str, wanted: "List[str]") -> int:
    """Return the index of the first pattern that a name matches; the number of patterns if it matches none."""
    fitting = (place for place, pattern in enumerate(wanted) if fnmatch.fnmatchcase(name, pattern))
    return next(fitting, len(wanted))


def beside(versions: "Dict[str, Optional[str]]", names: "List[str]") -> "Facts":
    """Return the versions of the other relevant distributions."""
    return {"beside": {name: versions[name] for name in names if name in versions}} if names else {}


def whole(host: "Host", copy: "Facts") -> bool:
    """Return whether the copy's folder contains a required file."""
    held = host.row.get("holds", ())
    names = [held] if isinstance(held, str) else held
    return not names or any(host.exists(site(host, copy) + "/" + name) for name in names)


def site(host: "Host", copy: "Facts") -> str:
    """Return the folder of a copy's package; conda keeps its records elsewhere."""
    if copy["kind"] != "conda":
        return os.path.dirname(str(copy["path"]))
    entries = [entry for entry in host.interpreter()["path"] if entry.rstrip("/").endswith("/site-packages")]
    return str(entries[0]) if entries else ""


def told(host: "Host", copy: "Facts") -> "Facts":
    """Return what the package's own files state."""
    found: "Facts" = {}
    for fact, (name, assigned) in host.row.get("said", {}).items():
        literals = host.shared("installed.py")["literals"]
        found[fact] = literals(host.read(site(host, copy) + "/" + name, TEXT) or "").get(assigned)
    if "tag" in host.row:
        match = re.search(host.row["tag"], "%s %s" % (copy["version"], address(host, copy)))
        found.update(match.groupdict() if match else {})
    if "links" in host.row:
        found["built_for"] = majors(host, [site(host, copy) + "/" + pattern for pattern in host.row["links"]])
    return found


def address(host: "Host", copy: "Facts") -> str:
    """Return the name of the file that a copy was installed from, if pip recorded it."""
    try:
        url = json.loads(host.read(copy["path"] + "/direct_url.json", TEXT) or "{}")["url"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return os.path.basename(url) if isinstance(url, str) else ""


def majors(host: "Host", patterns: "List[str]") -> "Dict[str, List[str]]":
    """Return the majors of CUDA, cuDNN, HIP … that extension files are linked to."""
    found: "Dict[str, List[str]]" = {}
    for path in [path for pattern in patterns for path in host.glob(pattern)][:MOST_LINKS]:
        for needed in (host.elf(path) or {"needed": []})["needed"]:
            for name, pattern in MAJORS:
                match = pattern.match(needed)
                if match and match.group(1) not in found.setdefault(name, []):
                    found[name].append(match.group(1))
    return found
