"""The Pythons of a machine or of an unpacked image, by the folders that tools keep them in. None is run.

A row names one ``place`` of ``PLACES``, so that a folder that hangs costs that place alone; ``pythons`` and ``folder``
are what that place needs to know. A venv or a conda prefix is known by its real folder, any other Python by its real
program (``key``): a venv's program is a link to the one that it was made from. Sources: PEP 405 (pyvenv.cfg); the
manuals of virtualenvwrapper, pipenv, Poetry, conda, mamba, pipx, uv, pyenv and Jupyter for where each keeps its own.
"""

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

    Found = Iterator[Tuple[str, str]]  # the folder of an environment, or the program of a Python, and its kind

MOST_NAMES = 500  # of one folder; an endless one is read no further
MOST_TEXT = 1 << 16
CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
SYSTEM_CONDAS = ("/opt/conda", "/opt/miniconda3", "/opt/anaconda3", "/opt/miniforge3")
PROGRAM = re.compile(r"python3(?:\.\d+)?t?")
MARKED = frozenset({"venv", "conda", "system"})  # kinds that a mark in the folder may correct
BARE = frozenset({"uv", "pyenv"})  # Pythons of their own, without a mark
KERNEL = "jupyter kernel "
KERNELS = "/share/jupyter/kernels"


def probe(host: "Host") -> "Answer":
    """Yield each Python of the place once: its program, folder, kind, version, kernels, and whether it is broken."""
    found: "Dict[str, Facts]" = {}
    for path, kind in PLACES[host.row["place"]](host):
        one = described(host, path, kind)
        if one and one["key"] not in found:
            found[one["key"]] = dict(one, kernels=[name for name, _ in kernels(host, one["prefix"] + KERNELS)])
    host.kept.setdefault("prefixes", []).extend(one["prefix"] for one in found.values())
    return list(found.values()) or None


# What one path is.


def described(host: "Host", path: str, kind: str) -> "Optional[Facts]":
    """Return the Python of a folder, or of a program; None if there is none, or a script in its place."""
    by_program = host.row["place"] in BY_PROGRAM
    prefix = path.rsplit("/", 2)[0] if by_program else path.rstrip("/")
    own = mark(host, prefix)
    if own is None and not by_program and kind not in BARE:
        return None
    kind = own or kind if kind in MARKED else kind
    programs = [path] if by_program else [prefix + "/bin/python", prefix + "/bin/python3"]
    for program in programs:
        seen = host.stat(program)
        if seen and seen["kind"] == "file" and int(seen["mode"], 8) & 0o111 and host.bytes(program, 2) != b"#!":
            return facts(host, program, prefix, kind, host.real(prefix if own else program))
    for program in programs if own or kind.startswith(KERNEL) else ():
        named = kind.startswith(KERNEL) or host.link(program) is not None
        if named and not host.exists(program) and host.why(program) == "missing":
            key = host.real(prefix if own else program)
            return dict(facts(host, program, prefix, kind, key), broken=host.real(program), status="failed")
    return None


def mark(host: "Host", prefix: str) -> "Optional[str]":
    """Return what kind of environment a folder is, by the mark that its creator left in it; None if it is not one."""
    if host.exists(prefix + "/pyvenv.cfg"):
        return "venv"
    return "conda" if host.exists(prefix + "/conda-meta") else None


def facts(host: "Host", program: str, prefix: str, kind: str, key: str) -> "Facts":
    """Return one Python; a ``broken`` one is a link to a program that is not there."""
    said = version(host, program, prefix)
    return {"key": key, "path": program, "prefix": prefix, "kind": kind, "version": said, "broken": None}


def version(host: "Host", program: str, prefix: str) -> "Optional[str]":
    """Return the version by pyvenv.cfg, by conda's record, by the program's name, or by the folder of its library."""
    said = settings(host.read(prefix + "/pyvenv.cfg", MOST_TEXT) or "")
    names = [said.get("version") or said.get("version_info") or ""]
    names += [name[len("python-") :] for name in listed(host, prefix + "/conda-meta") if name.startswith("python-3")]
    names += [host.real(program).rpartition("/python")[2]]
    if not prefix.endswith(("/usr", "/local")):
        names += [name[len("python") :] for name in listed(host, prefix + "/lib") if name.startswith("python3.")]
    found = (re.match(r"\d{1,9}\.\d{1,9}(?:\.\d{1,9})?(?!\d)", name) for name in names)
    return next((match.group() for match in found if match), None)


def settings(text: str) -> "Dict[str, str]":
    """Return the settings of a pyvenv.cfg, names in lower case."""
    rows = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, equals, value in rows if equals}


def listed(host: "Host", folder: str) -> "List[str]":
    """Return the first names of a folder."""
    return host.list(folder, MOST_NAMES)


def inside(host: "Host", folder: str, tail: str = "") -> "List[str]":
    """Return the entries of a folder, each with the tail."""
    return ["%s/%s%s" % (folder.rstrip("/"), name, tail) for name in listed(host, folder)]


# The places.


def given(host: "Host") -> "Found":
    """Return the Pythons that are examined in any case."""
    return ((python, "system") for python in host.row["pythons"])


def here(host: "Host") -> "Found":
    """Yield the venvs in the folder where gpustack was started, and one level below."""
    folder = host.row["folder"].rstrip("/")
    for path in [*(folder + "/" + name for name in (".venv", "venv", "env")), *inside(host, folder)]:
        yield path, "venv"


def home(host: "Host") -> "Found":
    """Return the venvs in the usual folders of the user, and those of the projects there."""
    own, data = homes(host)
    kept = [own + "/.virtualenvs", host.env("WORKON_HOME"), data + "/virtualenvs", own + "/.cache/pypoetry/virtualenvs"]
    paths = [own + "/.venv", own + "/venv", *(path for folder in kept if folder for path in inside(host, folder))]
    paths += [path for tail in ("/.venv", "/venv") for path in inside(host, own, tail)]
    return ((path, "venv") for path in paths)


def conda(host: "Host") -> "Found":
    """Return the prefixes that conda and mamba know of, and those in their usual folders."""
    own, data = homes(host)
    program = host.env("CONDA_EXE") or ""
    roots = [program.rsplit("/", 2)[0] if program.count("/") > 1 else None, host.env("MAMBA_ROOT_PREFIX")]
    roots += [*(own + "/" + name for name in CONDAS), data + "/mamba", *SYSTEM_CONDAS]
    folders = [folder for name in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS") for folder in split(host.env(name))]
    folders += [own + "/.conda/envs", *(root + "/envs" for root in roots if root)]
    known = (host.read(own + "/.conda/environments.txt", MOST_TEXT) or "").split("\n")
    paths = [*(root for root in roots if root), *known, *(path for folder in folders for path in inside(host, folder))]
    return ((path.strip(), "conda") for path in paths if path.startswith("/"))


def pipx(host: "Host") -> "Found":
    """Return the environments of pipx, one for each program."""
    own, data = homes(host)
    folders = [host.env("PIPX_HOME"), data + "/pipx", own + "/.local/pipx", "/opt/pipx"]
    return ((path, "pipx") for folder in folders if folder for path in inside(host, folder + "/venvs"))


def uv(host: "Host") -> "Found":
    """Return the environments of uv's tools."""
    folders = [host.env("UV_TOOL_DIR"), homes(host)[1] + "/uv/tools"]
    return ((path, "uv tool") for folder in folders if folder for path in inside(host, folder))


def managed(host: "Host") -> "Found":
    """Yield the Pythons that uv and pyenv have installed."""
    own, data = homes(host)
    for folder in (host.env("UV_PYTHON_INSTALL_DIR"), data + "/uv/python"):
        yield from ((path, "uv") for path in (inside(host, folder) if folder else ()))
    yield from ((path, "pyenv") for path in inside(host, (host.env("PYENV_ROOT") or own + "/.pyenv") + "/versions"))


def jupyter(host: "Host") -> "Found":
    """Yield the Pythons of Jupyter's kernels; those of the environments found before it are looked for there too."""
    shares = [*(folder + "/kernels" for folder in split(host.env("JUPYTER_PATH"))), homes(host)[1] + "/jupyter/kernels"]
    shares += ["/usr/local" + KERNELS, "/usr" + KERNELS, *(one + KERNELS for one in host.kept.get("prefixes", ()))]
    for share in dict.fromkeys(shares):
        for name, program in kernels(host, share):
            if program.startswith("/") and re.match(r"(?:python|pypy)[\d.]*$", program.rpartition("/")[2]):
                yield program, KERNEL + name


def system(host: "Host") -> "Found":
    """Yield the Pythons of the system and those on PATH."""
    for folder in ("/usr/bin", "/usr/local/bin"):
        names = host.list(folder, MOST_NAMES * 20)  # a system has thousands of programs
        yield from ((folder + "/" + name, "system") for name in names if PROGRAM.fullmatch(name))
    for folder in split(host.env("PATH")):
        yield folder + "/python3", "system"


def kernels(host: "Host", share: str) -> "Found":
    """Yield name and program of each kernel in a folder of kernels."""
    for folder in inside(host, share):
        try:
            first = json.loads(host.read(folder + "/kernel.json", MOST_TEXT) or "")["argv"][0]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            continue
        if isinstance(first, str):
            yield folder.rpartition("/")[2], first


def homes(host: "Host") -> "Tuple[str, str]":
    """Return the user's folder, and the one for programs' data; without HOME nothing is below it."""
    own = (host.env("HOME") or "/nonexistent").rstrip("/")
    return own, (host.env("XDG_DATA_HOME") or own + "/.local/share").rstrip("/")


def split(text: "Optional[str]") -> "List[str]":
    """Return the folders of a list such as PATH."""
    return [folder.rstrip("/") for folder in (text or "").split(":") if folder.startswith("/")]


PLACES: "Dict[str, Callable[[Host], Found]]" = {
    "given": given,
    "here": here,
    "home": home,
    "conda": conda,
    "pipx": pipx,
    "uv": uv,
    "jupyter": jupyter,
    "managed": managed,
    "system": system,
}
BY_PROGRAM = frozenset({"given", "jupyter", "system"})
