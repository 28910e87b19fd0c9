"""What is installed for a Python, read from folder names and a few small files: nothing is imported or run.

Sources: PyPA "Recording installed projects" and "Core metadata", PEP 503 (names), PEP 508 (markers), PEP 610
(direct_url.json), PEP 660 with the finder that setuptools writes for editable installs; conda's ``conda-meta``.
"""

import ast
import json
import re
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

    from probes.host import Facts, Host

    Requirement = Tuple[str, List[str], str]  # name, extras, versions

HEAD = 1 << 18
REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s{0,8}(?:\[([^\]]*)\])?\s{0,8}([^;]*)(?:;(.*))?$", re.ASCII)
OLD = re.compile(r"([^-]+)(?:-([^-]+))?(?:-py[\d.]+)?(?:-.*)?\.egg-info$")
ORDER = {ast.Lt: (-1,), ast.LtE: (-1, 0), ast.Gt: (1,), ast.GtE: (0, 1), ast.Eq: (0,), ast.NotEq: (-1, 1)}


def normal(name: str) -> str:
    """Return a project's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(host: "Host") -> "List[Facts]":
    """Return every installed distribution {name, version, path, kind}: in the order of the path, then conda's.

    Read once per process: a dozen probes of one child use it.
    """
    if "installed" not in host.kept:
        known = len(host.log)
        host.kept["installed"] = _find(host), host.log[known:]
        del host.log[known:]
    copies, looks = host.kept["installed"]
    host.log += looks
    return list(copies)


def _find(host: "Host") -> "List[Facts]":
    here = host.interpreter()
    found = []
    known = set()
    for folder in here["path"]:
        real = host.real(folder)
        if real not in known:
            known.add(real)
            names = host.list(folder)
            host.log += [("list", folder, "ok")] if names and folder.endswith("-packages") else []
            found += [copy for name in names for copy in _record(host, folder, name)]
    meta = here["prefix"] + "/conda-meta"
    python = {copy["name"] for copy in found}
    found += [copy for name in host.list(meta) for copy in _conda(meta, name) if copy["name"] not in python]
    return found


def versions(copies: "Sequence[Facts]") -> "Dict[str, Optional[str]]":
    """Return the version of each distribution that an import would find: the first on the path."""
    found: "Dict[str, Optional[str]]" = {}
    for copy in copies:
        found.setdefault(copy["name"], copy["version"])
    return found


def origin(host: "Host", copy: "Facts") -> "Facts":
    """Return who installed a copy, and whether it is a checkout used in place (editable)."""
    if copy["kind"] == "conda":
        return {"installer": "conda", "editable": False}
    try:
        direct = json.loads(host.read(copy["path"] + "/direct_url.json", HEAD) or "{}")
        editable = bool(direct["dir_info"].get("editable"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        editable = False
    installer = (host.read(copy["path"] + "/INSTALLER", 200) or "").strip()
    # setup.py develop leaves the metadata in the checkout, which a .pth file puts on the path
    developed = copy["kind"] == "egg-info" and copy["version_from"] == "file"
    return {"installer": installer or None, "editable": editable or developed}


def places(host: "Host", package: str) -> "List[str]":
    """Return each folder that contains the package, as imports find it: on the path, then by setuptools' finders."""
    folders = host.interpreter()["path"]
    found = [folder + "/" + package for folder in folders if host.exists(folder + "/" + package + "/__init__.py")]
    if found:
        return found
    for folder in folders:
        for finder in host.list(folder):
            if finder.startswith("__editable___") and finder.endswith("_finder.py"):
                mapping = literals(host.read(folder + "/" + finder, HEAD) or "").get("MAPPING")
                if isinstance(mapping, dict) and isinstance(mapping.get(package), str):
                    found.append(mapping[package])
    return found


def literals(text: str) -> "Dict[str, Any]":
    """Return the names that a Python source file assigns literal values to, annotated or not; nothing is run."""
    found: "Dict[str, Any]" = {}
    try:
        with warnings.catch_warnings():  # source with an invalid escape would warn on standard error
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        try:
            held = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        found.update((target.id, held) for target in targets if isinstance(target, ast.Name))
    return found


def headers(text: str) -> "List[Tuple[str, str]]":
    """Return the header fields of a METADATA file, names in lower case, in order."""
    found: "List[Tuple[str, str]]" = []
    for line in text.splitlines():
        if not line:  # one of spaces alone belongs to a field of several lines, as SciPy's licence
            break
        name, colon, value = line.partition(":")
        if line[0] in " \t" and found:
            found[-1] = (found[-1][0], found[-1][1] + " " + line.strip())
        elif colon:
            found.append((name.strip().lower(), value.strip()))
    return found


def requirements(
    host: "Host", copy: "Facts", extras: "Sequence[str]" = (), only: "Optional[re.Pattern[str]]" = None
) -> "Iterator[Requirement]":
    """Yield name, extras and versions of what a copy requires here, with these of its own extras.

    ``only`` skips other names before their markers are read, which takes most of the time.
    """
    if copy["kind"] != "dist-info":
        return
    here = _markers(host)
    for name, value in headers(host.read(copy["path"] + "/METADATA", HEAD) or ""):
        match = REQUIREMENT.match(value) if name == "requires-dist" else None
        if match and only and not only.fullmatch(normal(match.group(1))):
            continue
        if not match or not any(applies(match.group(4) or "", dict(here, extra=extra)) for extra in ["", *extras]):
            continue
        wanted = match.group(3).strip().strip("()").replace(" ", "")
        asked = [normal(extra.strip()) for extra in (match.group(2) or "").split(",") if extra.strip()]
        yield normal(match.group(1)), asked, "" if wanted.startswith("@") else wanted


def applies(marker: str, here: "Dict[str, str]") -> bool:
    """Return whether a marker is true; one that is not understood counts as true, so that no requirement is lost."""
    try:
        return not marker.strip() or _holds(ast.parse(marker.strip(), mode="eval").body, here)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        return True


def _holds(node: ast.AST, here: "Dict[str, str]") -> bool:
    """Evaluate a marker, which has the form of a Python expression (except for ~= and ===)."""
    if isinstance(node, ast.BoolOp):
        joined = all if isinstance(node.op, ast.And) else any
        return joined([_holds(part, here) for part in node.values])
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise ValueError("no comparison")
    sides = [node.left, node.comparators[0]]
    left, right = (_value(side, here) for side in sides)
    if any(isinstance(side, ast.Name) and side.id == "extra" for side in sides):
        left, right = normal(left), normal(right)
    kind = type(node.ops[0])
    if kind in (ast.In, ast.NotIn):
        return (left in right) is (kind is ast.In)
    if _number(left) and _number(right):
        return (_number(left) > _number(right)) - (_number(left) < _number(right)) in ORDER[kind]
    if kind not in (ast.Eq, ast.NotEq):
        raise ValueError("texts have no order")
    return (left == right) is (kind is ast.Eq)


def _number(text: str) -> "List[int]":
    """Return a version of digits and dots as numbers, the same for 3.12 and 3.12.0; nothing for any other text."""
    if not re.match(r"\d+(\.\d+)*$", text, re.ASCII):
        return []
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return numbers


def _value(node: ast.AST, here: "Dict[str, str]") -> str:
    held = here[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)
    if not isinstance(held, str):
        raise TypeError("no text")
    return held


def _markers(host: "Host") -> "Dict[str, str]":
    here = host.interpreter()
    return {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": here["machine"],
        "python_version": ".".join(here["version"].split(".")[:2]),
        "python_full_version": here["version"],
        "implementation_name": here["implementation"],
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(here["implementation"], ""),
    }


def _record(host: "Host", folder: str, name: str) -> "Iterator[Facts]":
    """Yield the distribution that an entry of a folder on the path represents, if any."""
    path = folder + "/" + name
    if name.endswith(".dist-info") and not name.startswith("~"):
        project, _, version = name[: -len(".dist-info")].rpartition("-")
        if project:
            yield _copy(project, version, path, "dist-info", "name")
    elif name.endswith(".egg-info"):
        match = OLD.match(name)
        if match and match.group(2):
            yield _copy(match.group(1), match.group(2), path, "egg-info", "name")
        elif match:
            fields = dict(headers(host.read(path + "/PKG-INFO", HEAD) or ""))
            yield _copy(match.group(1), fields.get("version"), path, "egg-info", "file")


def _conda(meta: str, name: str) -> "Iterator[Facts]":
    """Yield the package that a conda file NAME-VERSION-BUILD.json describes."""
    parts = name[: -len(".json")].rsplit("-", 2) if name.endswith(".json") else []
    if len(parts) == 3:  # noqa: PLR2004 - name, version, build
        yield dict(_copy(parts[0], parts[1], meta + "/" + name, "conda", "name"), build=parts[2])


def _copy(project: str, version: "Optional[str]", path: str, kind: str, version_from: str) -> "Facts":
    return {"name": normal(project), "version": version, "path": path, "kind": kind, "version_from": version_from}
