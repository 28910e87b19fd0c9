"""A server that comes as a program with its own folder (Triton Inference Server, TGI), or as wheels in a Python.

The row says where: ``programs`` (on PATH), ``root`` (its folder), ``version_file`` and ``libraries`` (in it),
``variables`` (of its images: name and fact), ``asks`` (the arguments that make the program tell its version, where no
file does). Wheels are reported like any distribution.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from probes.host import Answer, Facts, Host

SECONDS = 1.5
VERSION = re.compile(r"\b(\d+\.\d+(?:\.\d+)*(?:[.-]?(?:dev|rc)\d*)?)")


def probe(host: "Host") -> "Answer":
    """Return the program with its version and folder; None if there is neither program nor folder."""
    if host.environment:
        wheels: "Answer" = host.shared("environment/distribution.py")["probe"](host)
        return wheels
    row = host.row
    root = row.get("root", "")
    paths = [host.path(name) for name in row["programs"]]
    paths += [root + "/bin/" + name for name in row["programs"] if root and host.exists(root + "/bin/" + name)]
    program = next((path for path in paths if path), None)
    version = (host.read(root + "/" + row["version_file"], 200) or "").strip() if "version_file" in row else ""
    libraries = [path for pattern in row.get("libraries", ()) for path in host.glob(root + "/" + pattern)]
    if not program and not version and not libraries:
        return None
    facts: "Facts" = {
        "key": program or root,
        "path": program or root,
        "version": version or None,
        "version_from": row.get("version_file") if version else None,
        "program": program,
        "libraries": libraries,
        "backends": backends(host, root),
        **{fact: host.env(name) for name, fact in row.get("variables", {}).items()},
    }
    return ask(host, facts, row["asks"]) if "asks" in row and program and not version else facts


def backends(host: "Host", root: str) -> "List[str]":
    """Return the backends that lie in the server's folder."""
    return host.list(root + "/backends") if root else []


def ask(host: "Host", facts: "Facts", arguments: "List[str]") -> "Facts":
    """Return the facts with the version that the program itself reports."""
    try:
        said = host.run(facts["program"], *arguments, seconds=SECONDS)
    except (OSError, TimeoutError) as error:
        return dict(facts, status="failed", error=str(error))
    match = VERSION.search((said or {"out": ""})["out"])
    if not match:
        return dict(facts, status="failed", error="it does not tell its version")
    return dict(facts, version=match.group(1), version_from="the program")
