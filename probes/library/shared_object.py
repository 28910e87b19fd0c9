"""Every copy of one GPU library: where it is, what found it, which version it says it is, whose package it is.

The catalogue row says all in which libraries differ: ``soname`` (how file names begin; ``names``: a pattern of those
that count alone), ``symbol`` and ``form`` (the function that tells the version, and its C signature; without a symbol
nothing is loaded, and with ``lazy`` only what has no version in its name or its package's record), ``encodings`` (from
which integer on which units are packed in it), ``highest`` (what no part of a version exceeds), ``siblings`` (loaded
first), ``parts`` (how names of sub-libraries begin), ``offers`` (functions that are facts where they are there),
``packages`` (how names of packages begin that may own a copy and have its version), ``bundlers`` (that may own it among
others), ``folders`` and ``inside`` (patterns of further folders of the system, and of a site folder), ``roots``
(variables that name a toolkit), ``naming`` (what the numbers in a file's name are, where they are no plain version).
The machine as a whole has the loader's folders, toolkits and system packages; a target Python has its own prefixes. How
each library responds was measured without a GPU or driver on 2026-11-21.
"""

import ctypes
import os
import re
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host, Library

    Found = Iterator[Tuple[str, str, str]]  # a path, how it was found, and the prefix that it lies in ("": the system)

SYSTEM = (
    "/lib64",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
    "/usr/local/lib64",
    "/usr/local/lib",
)
SECONDS = 3.0  # for all copies together: cuBLASLt 13.1 (541 MB) took 0.07 s warm and 0.44 s from a cold disk
HIGHEST = 100  # no library has a major version of three digits
LONGEST = 256  # a version in words
GIVEN = {"size_t ()": ctypes.c_size_t, "int ()": ctypes.c_int, "int* ()": ctypes.POINTER(ctypes.c_int)}


def probe(host: "Host") -> "Answer":
    """Return every copy, the one that a plain dlopen would take first; each is loaded in a process of its own."""
    copies = gather(host)
    real = [copy for copy in copies if not copy["stub"]]
    asked = [copy for copy in real if questioned(host, copy)]
    works: "List[Callable[[], Any]]" = [partial(answer, host, copy) for copy in asked]
    answers = host.apart_all(works, min(SECONDS, host.seconds)) if works else []
    said = {copy["path"]: answers[number] for number, copy in enumerate(asked)}
    seen = [describe(host, copy, said.get(copy["path"], {"loaded": None})) for copy in real]
    stubs = [dict(told(copy), status="not-applicable", version=None) for copy in copies if copy["stub"]]
    return seen + stubs or None


def questioned(host: "Host", copy: "Facts") -> bool:
    """Return whether a copy is loaded and queried: only if neither its name nor its record gives the answer."""
    row = host.row
    if "symbol" not in row or host.inert or not row.get("lazy"):
        return "symbol" in row and not host.inert
    named = host.shared("naming.py")["version"](row.get("naming", "version"), copy["path"])
    return not named and not any(owner["fits"] for owner in host.shared("owners.py")["own"](host, copy))


# Where copies lie.


def gather(host: "Host") -> "List[Facts]":
    """Return each real file once, with every name and every way by which it was found, in the order of the finding."""
    copies: "Dict[str, Facts]" = {}
    for at, how, prefix in within(host) if host.environment else everywhere(host):
        path = host.real(at)
        if path not in copies and not host.exists(path):
            continue
        stub = "stubs" in (at + path).split("/")
        copy = copies.setdefault(
            path, {"path": path, "at": at, "prefix": prefix, "stub": stub, "names": [], "found_by": []}
        )
        for key, value in (("names", os.path.basename(at)), ("found_by", how)):
            if value not in copy[key]:
                copy[key].append(value)
    return list(copies.values())


def everywhere(host: "Host") -> "Found":
    """Yield what the loader would find, in its order, then copies in toolkits and in the system's folders."""
    for folder in re.split("[:;]", host.env("LD_LIBRARY_PATH") or ""):
        for path in named(host, folder):
            yield path, "LD_LIBRARY_PATH", ""
    wanted = pattern(host.row)
    for name, paths in host.shared("loader.py")["in_cache"](host).items():
        for path in paths if wanted.fullmatch(name) else ():
            yield path, "ld.so.cache", ""
    for folder, how in places(host):
        for path in named(host, folder):
            yield path, how, ""


def places(host: "Host") -> "Iterator[Tuple[str, str]]":
    """Yield the folders of toolkits, those that the row names, and the system's, each with its kind."""
    yield from ((folder, "ld.so.conf") for folder in host.shared("loader.py")["unread"](host))
    for root in toolkits(host):
        for folder in [root + "/lib64", root + "/lib", *host.glob(root + "/targets/*/lib")]:
            yield folder, "toolkit " + root
    for folder in further(host):
        yield folder, "folder " + folder
    for folder in dict.fromkeys(host.real(folder) for folder in SYSTEM):
        yield folder, "system folder"


def within(host: "Host") -> "Found":
    """Yield the copies in this Python's own prefixes: NVIDIA's wheels, copies bundled in others, a conda prefix."""
    here = host.interpreter()
    for site in dict.fromkeys(entry.rstrip("/") for entry in here["path"] if entry.startswith("/")):
        folders = [(folder, "wheel") for folder in host.glob(site + "/nvidia/*/lib")]
        folders += [(site + "/torch/lib", "bundled in torch")]
        folders += [(folder, "wheel") for more in host.row.get("inside", ()) for folder in host.glob(site + "/" + more)]
        bundles = [name for name in host.list(site) if name.endswith(".libs")]
        folders += [(site + "/" + name, "bundled in " + name[: -len(".libs")]) for name in bundles]
        for folder, how in folders:
            for path in named(host, folder):
                yield path, how, site
    for prefix in dict.fromkeys([here["prefix"], here["base_prefix"]]):
        if host.exists(prefix + "/conda-meta"):
            for folder in [prefix + "/lib", *host.glob(prefix + "/targets/*/lib")]:
                for path in named(host, folder):
                    yield path, "conda", prefix


def toolkits(host: "Host") -> "List[str]":
    """Return the folders that may be roots of CUDA toolkits, each once, links followed."""
    nvcc = host.path("nvcc")
    roots = [host.env("CUDA_HOME"), host.env("CUDA_PATH"), *host.glob("/usr/local/cuda*"), "/opt/cuda"]
    roots += [os.path.dirname(os.path.dirname(host.real(nvcc)))] if nvcc else []
    real = [host.real(root.rstrip("/")) for root in roots if root and root.startswith("/")]
    return [root for root in dict.fromkeys(real) if root not in {"", "/", "/usr", "/usr/local"}]


def further(host: "Host") -> "List[str]":
    """Return the folders of the system that the row names, by variables that name a root first, links followed."""
    roots = [root.rstrip("/") for root in map(host.env, host.row.get("roots", ())) if root and root.startswith("/")]
    folders = [root + tail for root in roots for tail in ("/lib", "/lib64")]
    folders += [folder for pattern in host.row.get("folders", ()) for folder in host.glob(pattern)]
    return list(dict.fromkeys(host.real(folder) for folder in folders))


def named(host: "Host", folder: str) -> "List[str]":
    """Return the files in a folder whose names are the library's."""
    if not folder.startswith("/"):
        return []
    wanted = pattern(host.row)
    return [os.path.join(folder, name) for name in host.list(folder) if wanted.fullmatch(name)]


def pattern(row: "Facts") -> "re.Pattern[str]":
    """Return what the library's file names are: bundled copies have a hash in theirs (libcudart-80664282.so.10.2)."""
    if "names" in row:
        return re.compile(row["names"])
    return re.compile(re.escape(row["soname"][: -len(".so")]) + r"(?:[-.][0-9a-f]{8})?\.so(?:\.\d+)*")


# What a copy says of itself.


def answer(host: "Host", copy: "Facts") -> "Facts":
    """Load a copy and ask its version; runs in a fork, since loading runs the copy's own code.

    Siblings come first, from the copy's own folder: cuBLAS needs cuBLASLt, and cuDNN 9 lets libcudnn_graph answer,
    which LD_LIBRARY_PATH could take from another cuDNN.
    """
    suffix = soname(copy).partition(".so")[2]
    for stem in host.row.get("siblings", ()):
        sibling = os.path.join(os.path.dirname(copy["at"]), stem + suffix)
        try:
            if host.exists(sibling):
                host.library(sibling)
        except OSError:
            continue  # what the copy itself misses its own loading says
    try:
        library = host.library(copy["at"])
    except OSError as error:
        return {"loaded": False, "error": str(error)}
    offers = {name: library.has(symbol) for name, symbol in host.row.get("offers", {}).items()}
    return dict(ask(library, host.row), loaded=True, offers=offers)


def ask(library: "Library", row: "Facts") -> "Facts":
    """Return the integers that the library returns, or how it fails to."""
    symbol, form = row["symbol"], row["form"]
    if not library.has(symbol):
        return {"error": "it has no symbol " + symbol}
    if form in GIVEN:
        library.value(symbol).restype = GIVEN[form]
        given = library.call(symbol)
        return {"numbers": [given] if isinstance(given, int) else list(given[:3])}  # a structure begins with three
    if form == "(char*, size_t)":
        words = ctypes.create_string_buffer(LONGEST)
        status = library.call(symbol, words, ctypes.c_size_t(LONGEST))
        said = re.match(r"\d{1,4}(?:\.\d{1,6}){1,2}", words.value.decode("ascii", "replace"))
        return (
            {"numbers": [int(part) for part in said.group().split(".")]} if said and not status else {"error": symbol}
        )
    each = form == "(type, int*)"  # types 0, 1 and 2 ask for major, minor and patch
    kind = ctypes.c_size_t if "size_t*" in form else ctypes.c_int
    cells = [kind() for _ in range(3 if each else form.count("t*"))]
    pointers = [ctypes.byref(cell) for cell in cells]
    for arguments in list(enumerate(pointers)) if each else [tuple(pointers)]:
        status = library.call(symbol, *arguments)
        if status:
            return {"error": "%s answered error %d" % (symbol, status)}
    return {"numbers": [cell.value for cell in cells]}


def decode(numbers: "List[int]", encodings: "List[Any]", highest: int = HIGHEST * 10) -> "Optional[str]":
    """Return the version that a library's integers mean, or None if they mean none."""
    if encodings and numbers:
        left = numbers[0]
        units: "List[int]" = next((units for least, units in encodings if left >= least), [])
        numbers = []
        for unit in units:
            numbers.append(left // unit)
            left %= unit
    sane = any(numbers) and numbers[0] < HIGHEST and min(numbers) >= 0 and max(numbers) < highest
    return ".".join(str(number) for number in numbers) if sane else None


# What is reported of a copy.


def describe(host: "Host", copy: "Facts", said: "Any") -> "Facts":
    """Return one copy: its version as the library reports it, else by its file's name, else by its own package."""
    if isinstance(said, OSError):
        said = {"loaded": False, "error": str(said)}
    numbers = said.get("numbers", [])
    naming, written = host.shared("naming.py"), host.row.get("naming", "version")
    owning = host.shared("owners.py")
    owners, likeliest = owning["claims"](host, copy), next(iter(owning["own"](host, copy)), None)
    versions = {
        "library": decode(numbers, host.row.get("encodings", []), host.row.get("highest", HIGHEST * 10)),
        "file name": naming["version"](written, copy["path"]),
        "package": plain(likeliest["version"]) if likeliest else None,
    }
    source = next((source for source, version in versions.items() if version), None)
    odd = "it answered %s, which is no version" % numbers if numbers and not versions["library"] else None
    facts = dict(told(copy), version=versions[source] if source else None, version_from=source)
    facts.update(status="failed" if said["loaded"] is False else "present", error=said.get("error") or odd)
    facts.update(said.get("offers", {}), **naming["facts"](written, copy["path"]))
    facts.update(code=numbers[0] if len(numbers) == 1 else None, file_version=versions["file name"])
    facts.update(owner=owners[0] if owners else None)
    if len(owners) > 1:
        facts["claimed_by"] = ["%(name)s %(version)s" % owner for owner in owners]
    return dict(facts, **parts(host, copy, facts["version"])) if "parts" in host.row else facts


def told(copy: "Facts") -> "Facts":
    """Return what is known about a copy without loading it."""
    return {
        "key": copy["path"],
        "path": copy["path"],
        "soname": soname(copy),
        "found_by": copy["found_by"],
        "stub": copy["stub"],
    }


def soname(copy: "Facts") -> str:
    """Return the name that programs ask for: the shortest numbered one that leads to the file."""
    numbered = [name for name in copy["names"] if name[-1].isdecimal()]
    return str(min(numbered or copy["names"], key=len))


def plain(version: "Optional[str]") -> "Optional[str]":
    """Return a package's version without epoch, revision and tags: 2.28.3-1+cuda13.0 is 2.28.3."""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version or "")
    return found.group(1) if found else None


def parts(host: "Host", copy: "Facts", version: "Optional[str]") -> "Facts":
    """Return the sub-libraries beside a copy with their versions, and whether these are mixed.

    A part's version is that in its file's name, else that of the package whose record of its size fits. To ask the
    parts themselves (cudnnOpsVersionCheck …) would load 150 MB and cover four of seven.
    """
    folder, tail = os.path.dirname(copy["at"]), ".so" + soname(copy).partition(".so")[2]
    plain_name = host.shared("naming.py")["plain"]
    found: "Dict[str, Optional[str]]" = {}
    for name in host.list(folder):
        if name.startswith(host.row["parts"]) and name.endswith(tail):
            part = {"at": folder + "/" + name, "path": host.real(folder + "/" + name), "prefix": copy["prefix"]}
            numbered = plain_name(part["path"])
            fitting = (
                [] if numbered else [owner for owner in host.shared("owners.py")["claims"](host, part) if owner["fits"]]
            )
            found[name[: -len(tail)]] = numbered or plain(fitting[0]["version"] if fitting else None)
    known = {tuple(text.split(".")[:3]) for text in [version, *found.values()] if text}
    return {"parts": found, "mixed": len(known) > 1}
