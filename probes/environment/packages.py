"""All that is installed for a Python: names and versions, what is there twice, and files that two wheels both claim.

Wheels of one family are installed into the same folders (nvidia-nccl-cu11 and nvidia-nccl-cu12 both bring
nvidia/nccl/lib/libnccl.so.2), and the last one installed silently overwrites the other. Each wheel's RECORD says size
and sha256 of its files, which identifies whose file is on disk. Source: PyPA "Recording installed projects".
"""

import base64
import hashlib
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

    Claim = Tuple[Facts, str, Optional[int]]  # who claims a file, and the sha256 and the size that it should have

MOST_RECORD = 16 << 20
MOST_FILES = 100
MOST_BYTES = 256 << 20
SECONDS = 0.5  # for all sums together; sizes tell most copies apart and cost nothing
BLOCK = 4 << 20
LINE = re.compile(r'^"?([^"\n]*\.so(?:\.\d+)*)"?,sha256=([\w-]+)=*,(\d*)\s*$', re.MULTILINE)
# Distributions that share import folders with others of their kind.
FAMILIES = (
    (re.compile(r"(nvidia-[a-z0-9-]{1,60}?)-cu\d{1,4}$"), r"\1"),
    (re.compile(r"(?:onnxruntime(?:-(?:gpu|rocm|migraphx|openvino|directml|qnn|training))?|ort-.*)$"), "onnxruntime"),
    (re.compile(r"cupy(?:-cuda\d+x?|-rocm.*)?$"), "cupy"),
    (re.compile(r"(?:intel-)?(?:tensorflow|tf-nightly)(?:-(?:cpu|gpu|rocm|intel|cpu-aws))?$"), "tensorflow"),
)


def probe(host: "Host") -> "Answer":
    """Return everything that is installed; ``overwritten`` has the library files whose wheels do not agree on them."""
    installed = host.shared("installed.py")
    copies = installed["find"](host)
    twice: "Dict[str, List[Optional[str]]]" = {}
    for copy in copies:
        twice.setdefault(copy["name"], []).append(copy["version"])
    return {
        "key": host.interpreter()["executable"],
        "distributions": installed["versions"](copies),
        "duplicates": {name: found for name, found in twice.items() if len(found) > 1},
        "overwritten": overwritten(host, copies),
        "pins": pins(host, copies),
    }


def pins(host: "Host", copies: "List[Facts]") -> "Dict[str, Dict[str, str]]":
    """Return what distributions of the GPU stack require of others of it that are installed, as their METADATA says.

    The row names both sides (``pinning``, ``pinned``): to read what every distribution requires takes too long.
    """
    installed = host.shared("installed.py")
    first = {copy["name"]: copy for copy in reversed(copies)}
    only = re.compile(host.row.get("pinned", "(?!)"))
    found: "Dict[str, Dict[str, str]]" = {}
    for name in host.row.get("pinning", ()):
        for required, _, versions in installed["requirements"](host, first[name], (), only) if name in first else ():
            if versions and required in first:
                found.setdefault(name, {})[required] = versions
    return found


def overwritten(host: "Host", copies: "List[Facts]") -> "List[Facts]":
    """Return each library file that wheels of one family claim with different contents, and whose the one there is."""
    found: "List[Facts]" = []
    ends, left = time.monotonic() + SECONDS, MOST_BYTES
    for path, claims in sorted(claimed(host, copies).items()):
        if len({sha for _, sha, _ in claims}) > 1 and len(found) < MOST_FILES:
            size = (host.stat(path) or {"size": None})["size"]
            fitting = [claim for claim in claims if size is not None and claim[2] in (size, None)]
            checked = "size"
            if len({sha for _, sha, _ in fitting}) > 1 or any(claim[2] is None for claim in fitting):
                there = sha256(host, path, size, ends) if size is not None and size <= left else None
                left -= size or 0
                fitting = [claim for claim in fitting if claim[1] == there]
                checked = "sha256" if there else "not"
            owners = [{"name": owner["name"], "version": owner["version"]} for owner, _, _ in claims]
            fits = fitting[0][0]["name"] if fitting else None
            found.append({"path": path, "owners": owners, "fits": fits, "checked": checked, "there": size is not None})
    return found


def claimed(host: "Host", copies: "List[Facts]") -> "Dict[str, List[Claim]]":
    """Return who claims each library file that wheels of a family may share."""
    families: "Dict[Tuple[str, str], Dict[str, Facts]]" = {}
    for copy in copies:
        name = family(copy["name"])
        if name and copy["kind"] == "dist-info":
            families.setdefault((os.path.dirname(copy["path"]), name), {}).setdefault(copy["name"], copy)
    claims: "Dict[str, List[Claim]]" = {}
    for (folder, _), members in families.items():
        for copy in members.values() if len(members) > 1 else ():
            for path, sha, size in recorded(host, copy):
                claims.setdefault(os.path.normpath(folder + "/" + path), []).append((copy, sha, size))
    return {path: found for path, found in claims.items() if len(found) > 1}


def family(name: str) -> "Optional[str]":
    """Return what distributions that share folders have in common, or None for one that shares none."""
    matches = ((pattern.match(name), common) for pattern, common in FAMILIES)
    return next((match.expand(common) for match, common in matches if match), None)


def recorded(host: "Host", copy: "Facts") -> "Iterator[Tuple[str, str, Optional[int]]]":
    """Yield path, sha256 and size of each library file in a wheel's RECORD."""
    for path, sha, size in LINE.findall(host.read(copy["path"] + "/RECORD", MOST_RECORD) or ""):
        yield path, sha, int(size) if size else None


def sha256(host: "Host", path: str, size: int, ends: float) -> "Optional[str]":
    """Return the sum of a file as RECORD writes it, or None if it cannot be read in time."""
    take = host.shared("elf.py")["reader"](host, path)
    summed = hashlib.sha256()
    for offset in range(0, size, BLOCK):
        part = take(offset, BLOCK)
        if part is None or time.monotonic() > ends:
            return None
        summed.update(part)
    return base64.urlsafe_b64encode(summed.digest()).decode("ascii").rstrip("=")
