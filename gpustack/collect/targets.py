"""The Pythons of a machine: those that the user names, and all that can be discovered."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from gpustack import assets
from gpustack.collect import isolation
from gpustack.collect.catalogue import question
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door, ended
from gpustack.collect.workers import Task, ask
from gpustack.errors import UsageError
from gpustack.model import field, record, replace
from gpustack.model.facts import Component, Environment, Instance, Unseen

MOST = 64
OURS = (sys.executable, "-I", "-S", str(assets.RUNNER))  # runs the probes in our own Python, which starts bare
OLDEST = (3, 8)
SECONDS = 2.0  # for one place, whose folders may hang
PLACES = (
    ("given", "the Pythons to examine"),
    ("here", "environments in this folder"),
    ("home", "environments in the home folder"),
    ("conda", "environments of conda"),
    ("pipx", "environments of pipx"),
    ("uv", "tools of uv"),
    ("managed", "Pythons of uv and pyenv"),
    ("jupyter", "kernels of Jupyter"),
    ("system", "Pythons of the system"),
)
# Variables that show where tools keep their environments, besides those that every probe receives.
TELLING = """WORKON_HOME PIPX_HOME UV_TOOL_DIR UV_PYTHON_INSTALL_DIR PYENV_ROOT MAMBA_ROOT_PREFIX JUPYTER_PATH HOME PATH
CONDA_EXE CONDA_ENVS_PATH CONDA_ENVS_DIRS XDG_DATA_HOME""".split()  # noqa: SIM905 - words read better than a column of quotes
GUESS = re.compile(r"(?:/\.?venv)?/(?:pyvenv\.cfg|conda-meta)$|/\.?venv$")
AGAIN = {
    "pipx": "pipx reinstall-all",
    "uv tool": "uv tool install --reinstall NAME",
    "conda": "conda install --prefix {prefix} python",
}
WHOLE = frozenset(
    "PATH HOME USER LOGNAME TMPDIR LANG VIRTUAL_ENV LIBRARY_PATH CPATH CC CXX GPU_DEVICE_ORDINAL container".split()  # noqa: SIM905 - words read better than a column of quotes
)
BEGUN = tuple(
    """XDG_ LC_ LD_ CUDA NV CONDA_ PYTHON TORCH PYTORCH TF_ XLA_ JAX_ NCCL_ UCX_ ROCM ROCR_ HIP HSA_ AMD_ MIOPEN_ RCCL_
    ONEAPI_ ZE SYCL_ OCL_ OPENCL_ VK_ WSL OMP_ MKL_ SLURM KUBERNETES_ TRITON_ NUMBA CUPY_ CCCL_""".split()  # noqa: SIM905 - the same
)
WHICH = "import sys; print(sys.executable)"
MOST_PATH = 4096
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")  # NVIDIA_API_KEY is not a setting of the stack


@record
class Surroundings:
    """What was discovered: environments, unreadable places, and the Jupyter kernels of each Python."""

    environments: tuple[Environment, ...] = ()
    not_seen: tuple[Unseen, ...] = ()
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def look(
    chosen: Sequence[Environment], environ: Mapping[str, str], folder: str | None, door: Door, deadline: float
) -> Surroundings:
    """Return every Python but the chosen ones, each once; ``folder`` is the working folder, None if it is deleted."""
    pythons = [one.python for one in chosen]
    systems = tuple(
        question(name, SECONDS, probe="pythons.py", place=place, folder=folder, pythons=list(pythons))
        for place, name in PLACES
        if folder or place != "here"
    )
    told = {name: environ[name] for name in TELLING if name in environ}
    components, unseen = parse(tuple(ask([Task(argv=OURS, environ=told, systems=systems)], door, deadline)))
    given, *others = components
    known = {copy.key for copy in given.instances}
    copies = [copy for component in others for copy in component.instances]
    first = {copy.key: copy for copy in reversed(copies) if copy.key not in known}
    kept, not_seen = sort_out([first[key] for key in dict.fromkeys(copy.key for copy in copies) if key in first])
    more = kept[MOST:]
    return Surroundings(
        environments=tuple(replace(one, found=True) for one in kept[:MOST]),
        not_seen=(*denied(unseen), *not_seen, *_left_out(more)),
        kernels=_kernels([*given.instances, *copies], {copy.key: copy.path or "" for copy in given.instances}),
    )


def sort_out(copies: Sequence[Instance]) -> tuple[list[Environment], list[Unseen]]:
    """Return the Pythons that can be examined, and why the others cannot, each once."""
    environments, not_seen = [], []
    for copy in copies:
        why = _why_not(copy)
        if why:
            not_seen.append(why)
        else:
            kind, prefix = str(copy.facts.get("kind")), str(copy.facts.get("prefix"))
            environments.append(
                Environment(python=copy.path or copy.key, kind=kind, version=copy.version, prefix=prefix)
            )
    return environments, not_seen


def doubles(components: Sequence[Component], found: AbstractSet[str]) -> set[str]:
    """Return the discovered Pythons that are really a chosen one, which a script such as pyenv's started."""
    python = next((one for one in components if one.id == "python"), None)
    copies = python.instances if python else ()
    marks = {copy.environment or "": (copy.facts.get("prefix"), copy.version) for copy in copies}
    chosen = {mark for environment, mark in marks.items() if environment not in found}
    return {environment for environment, mark in marks.items() if environment in found and mark in chosen}


def noted(components: Sequence[Component], kernels: Mapping[str, tuple[str, ...]]) -> tuple[Component, ...]:
    """Return the components with each Python's Jupyter kernels added to its facts."""
    return tuple(
        replace(one, instances=tuple(_with_kernels(copy, kernels) for copy in one.instances))
        if one.id == "python" and kernels
        else one
        for one in components
    )


def _why_not(copy: Instance) -> Unseen | None:
    """Return why a Python cannot be examined: its base is gone, or it is too old for our probes."""
    kind, broken = str(copy.facts.get("kind")), copy.facts.get("broken")
    python, prefix = copy.path or copy.key, str(copy.facts.get("prefix"))
    if broken and kind.startswith("jupyter kernel"):
        name = kind.removeprefix("jupyter kernel ")
        again = f"reinstall the kernel: python3 -m ipykernel install --user --name {name}"
        return Unseen(what=kind, why=f"there is no Python at {broken}", enable_by=again)
    if broken:
        again = AGAIN.get(kind, "python3 -m venv --clear {prefix}").format(prefix=prefix)
        return Unseen(
            what=python, why=f"the Python it was created from, {broken}, is gone", enable_by=f"make it again: {again}"
        )
    release = tuple(int(part) for part in re.findall(r"\d{1,4}", copy.version or "")[:2])
    if release and release < OLDEST:
        return Unseen(what=python, why=f"it is Python {copy.version}, but the probes need 3.8 or newer")
    return None


def denied(unseen: Sequence[Unseen]) -> Iterator[Unseen]:
    """Yield what could not be checked, each folder once; guesses at its contents are not reported."""
    told = (replace(one, what=GUESS.sub("", one.what) or "/") for one in unseen)
    yield from dict.fromkeys(told)


def _left_out(more: Sequence[Environment]) -> Iterator[Unseen]:
    if more:
        what = (
            f"{len(more)} further Pythons, {more[0].python} first"
            if more[1:]
            else f"one further Python, {more[0].python}"
        )
        yield Unseen(what=what, why=f"at most {MOST} are examined", enable_by="name them: --python PATH")


def _kernels(copies: Sequence[Instance], chosen: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the kernels of each Python: those in its own folder, and those elsewhere that start it."""
    programs: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for copy in copies:
        python = programs.setdefault(copy.key, chosen.get(copy.key) or copy.path or copy.key)
        kind, own = str(copy.facts.get("kind")), copy.facts.get("kernels")
        names = [kind.removeprefix("jupyter kernel ")] if kind.startswith("jupyter kernel ") else []
        names += [name for name in own if isinstance(name, str)] if isinstance(own, tuple) else []
        found.setdefault(python, []).extend(name for name in names if name not in found.get(python, ()))
    return {python: tuple(names) for python, names in found.items() if names}


def _with_kernels(copy: Instance, kernels: Mapping[str, tuple[str, ...]]) -> Instance:
    names = kernels.get(copy.environment or "")
    return replace(copy, facts={**copy.facts, "jupyter_kernels": names}) if names else copy


def choose(named: Sequence[str], environ: Mapping[str, str]) -> tuple[Environment, ...]:
    """Return the Pythons to examine, the chosen one first; raises UsageError for a name that is not a program."""
    if named:
        return tuple(dict.fromkeys(_named(name) for name in named))
    for variable, kind in (("VIRTUAL_ENV", "venv"), ("CONDA_PREFIX", "conda")):
        python = Path(environ.get(variable) or "/nowhere", "bin", "python")
        if python.is_absolute() and os.access(python, os.X_OK):
            return (Environment(python=str(python), kind=kind, prefix=environ[variable]),)
    found = _command("python3", environ)
    return (_named(found),) if found else (Environment(python=sys.executable, kind="own", prefix=sys.prefix),)


def programs(
    environments: Sequence[Environment], environ: Mapping[str, str], door: Door, seconds: float = SECONDS
) -> Mapping[str, str]:
    """Return the program that each shim starts, if it reports one in time.

    A shim of pyenv, asdf or mise is a script that finds the Python for this folder; starting it takes longer than
    starting that Python five times, and eight or more children are started.
    """
    shims = [one.python for one in environments if Path(one.python).parent.name == "shims"]
    said = {shim: _said((shim, "-I", "-S", "-c", WHICH), environ, door, seconds) for shim in shims}
    paths = {shim: python for shim, python in said.items() if python.startswith("/") and python.isprintable()}
    return {shim: python for shim, python in paths.items() if os.access(python, os.X_OK)}


def _said(argv: Sequence[str], environ: Mapping[str, str], door: Door, seconds: float) -> str:
    """Return a short program's output; nothing if it cannot be started, fails or takes too long."""
    try:
        child = door.start(argv, environ)
    except OSError:
        return ""
    code = ended(child, seconds)
    door.kill(child)
    data = child.stdout.read(MOST_PATH) if child.stdout and code == 0 else None
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
    door.release(child)
    return os.fsdecode(data or b"").strip()


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of our environment that a probe receives: what changes a GPU stack, without secrets."""
    ours = {name: value for name, value in environ.items() if name in WHOLE or name.startswith(BEGUN)}
    kept = {name: value for name, value in ours.items() if not SECRET.search(name)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1"}


def _command(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a command, found on PATH but never in the working folder."""
    return shutil.which(name, path=isolation.absolute(environ).get("PATH", os.defpath))


def _program(name: str) -> str | None:
    """Return the program that is meant: a word is a command or a folder with a Python; a path may also be a file."""
    found = None if os.sep in name else _command(name, os.environ)
    if found or not name:
        return found
    return str(Path(name, "bin", "python")) if Path(name).is_dir() else name if os.sep in name else None


def _named(name: str) -> Environment:
    """Return the environment of a Python named by path or command, or by a folder that contains one."""
    python = _program(name)
    if python is None or not os.access(python, os.X_OK) or Path(python).is_dir():
        raise UsageError(f"--python {name}: there is no program to run there")
    absolute = Path(python).absolute()  # not resolved: a venv's python is a link that identifies the venv
    prefix = absolute.parent.parent
    marks = {"venv": prefix / "pyvenv.cfg", "conda": prefix / "conda-meta"}
    kind = next((kind for kind, mark in marks.items() if mark.exists()), "system")
    return Environment(python=str(absolute), kind=kind, prefix=str(prefix))
