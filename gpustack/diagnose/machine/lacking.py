"""Libraries without symbols that others require, as the loader reports, and where a foreign copy may come from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said
from gpustack.diagnose.machine.inventory import Build, builds, on_windows
from gpustack.diagnose.machine.linking import soname_library, symbol_owner
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import table, text, texts, told
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model import record
from gpustack.model.command import VERSION, Command, requirement, sh, step
from gpustack.model.report import Because, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts, Message
    from gpustack.model.versions import CudaVersion


LD_LIBRARY_PATH = "LD_LIBRARY_PATH"
OF_A_FRAMEWORK = re.compile(r"libtorch|/torch/lib/|/nvidia/\w+/lib|^libcu|/libcu|libnv|site-packages/nvidia")
OF_CUDA = re.compile(r"cuda|cudnn|nccl|nvidia|hpc_sdk|tensorrt", re.IGNORECASE)
OWN = re.compile("site-packages|dist-packages|\\$")
FOLDER = re.compile(r"/[\w./+-]{4,200}\w")
BLAMED = "ld-library-path-blamed-said"
FIRST_WHEEL, SINCE_CUDA_12 = 8, (8, 9)  # of cuDNN
NAMED = ("ld-library-path-said", "ld-library-path")


@record
class Lacking:
    """A symbol, or a library version, that a loaded copy lacks; ``owner`` is the library's id.

    ``build`` is the framework whose files were read, with ``path`` and release (``found``) of that copy; None where the
    loader says it.
    """

    owner: str
    symbol: str
    file: str
    because: Because
    soname: str | None = None
    build: Build | None = None
    path: str | None = None
    found: str | None = None

    @property
    def asking(self) -> str:
        """The requiring file or module, without its folder; empty for a word that names neither."""
        name = self.file.rpartition("/")[2]
        return name if name != self.file or "." in name else ""

    @property
    def by_a_framework(self) -> bool:
        """Whether the requiring file is a library that was linked to its partners when released."""
        return bool(self.soname or OF_A_FRAMEWORK.search(self.file))


def loaded(facts: Facts, *names: str) -> tuple[Message, ...]:
    """Return the evidence that a library with these names (libnccl) was loaded from outside the wheels."""
    return tuple(
        one
        for one in holding(facts, "library-loaded", "path", "soname")
        if one.values["soname"].startswith(tuple(f"{name}." for name in names)) and not OWN.search(one.values["path"])
    )


def asker(facts: Facts, soname: str) -> str:
    """Return the wheel's library that requires a library with this name; empty if unknown."""
    files = (one.values["by"] for one in holding(facts, "library-needed-by", "by") if one.values["soname"] == soname)
    return next((file for file in files if "packages/" in file), "")


def lacking(facts: Facts, *owners: str) -> tuple[Lacking, ...]:
    """Return what libraries with these ids lack: from the frameworks' files, else from the loader's messages."""
    read = tuple(one for build in builds(facts) for one in _read(build)) if "nvjitlink" in owners else ()
    found = [_symbol(message) for message in holding(facts, "undefined-symbol", "symbol")]
    found += [_version(message) for message in holding(facts, "symbol-version", "file", "needs")]
    return read or tuple(one for one in found if one and one.owner in owners)


def _read(build: Build) -> Iterator[Lacking]:
    """Yield what the linker that a framework will load lacks for the framework's own libraries."""
    linker = table(build.copy.facts, "linker")
    path = text(linker, "path")
    for symbol in texts(linker, "lacking") if path else ():
        yield Lacking(
            owner="nvjitlink",
            symbol=symbol,
            file=(text(linker, "by") or "a library").rpartition("/")[2],
            because=Because(component=build.component, fact="linker.path", value=path, source="its files"),
            build=build,
            path=path,
            found=text(linker, "newest"),
        )


def _symbol(message: Message) -> Lacking | None:
    symbol, file, soname = message.values["symbol"], message.values.get("file", ""), message.values.get("needs")
    named = soname_library(soname or "")
    inside = soname_library(file) if "cudnn" in file else None
    owner = named[0] if named else symbol_owner(symbol) or (inside[0] if inside else None)
    ground = because_said(message)
    return (
        Lacking(owner=owner, symbol=symbol, file=file, soname=soname if named else None, because=ground)
        if owner
        else None
    )


def _version(message: Message) -> Lacking | None:
    soname, named = message.values["needs"], soname_library(message.values["file"])
    if named is None or not soname.startswith("lib"):
        return None
    file, ground = message.values.get("by", ""), because_said(message)
    return Lacking(owner=named[0], symbol=soname, file=file, soname=soname, because=ground)


def folders(facts: Facts) -> tuple[str, ...]:
    """Return the folders on LD_LIBRARY_PATH that contain CUDA libraries and are not part of a wheel."""
    path = text(told(facts, "environment"), "variables", LD_LIBRARY_PATH) or ""
    known = [one for one in path.split(":") if one.startswith("/") and OF_CUDA.search(one) and not OWN.search(one)]
    return tuple(dict.fromkeys(known))


def path_grounds(facts: Facts) -> tuple[Because, ...]:
    """Return the evidence that LD_LIBRARY_PATH is to blame; none without any."""
    held = folders(facts)
    if held:
        source = one.source if (one := facts.find("environment")) else ""
        return (Because(component="environment", fact=LD_LIBRARY_PATH, value=":".join(held), source=source),)
    return grounds(facts, "ld-library-path-said", "cudnn-path-blamed", most=1)


def blamed(facts: Facts) -> bool:
    """Return whether LD_LIBRARY_PATH is known to be set, or mentioned."""
    return bool(text(told(facts, "environment"), "variables", LD_LIBRARY_PATH)) or heard(facts, *NAMED)


def path_blamed(facts: Facts, *files: str) -> bool:
    """Return whether a text blames LD_LIBRARY_PATH, or it names a folder above one of these files."""
    named = [part for one in said(facts, "ld-library-path-said") for part in FOLDER.findall(one.line)]
    return heard(facts, BLAMED) or any(file.startswith(f"{folder}/") for file in files for folder in named)


def place(facts: Facts, library: str, older_than: CudaVersion | None = None) -> str:
    """Return in words where a foreign copy of a library (cublas) is, as far as the texts say."""
    lying = [
        one.values["path"] for one in holding(facts, "library-file", "path") if library in one.values["path"].lower()
    ]
    foreign = [path for path in lying if not OWN.search(path)]
    if foreign:
        return foreign[0]
    if folders(facts):
        return folders(facts)[0]
    other = [one for one in toolchain_toolkits(facts) if older_than is None or one.cuda < older_than]
    return f"this machine's CUDA {other[0].version}" if other else ""


def off_path(facts: Facts, what: str, verify: Command) -> Fix:
    """Return how to remove a foreign copy from the loader's path."""
    held = folders(facts)
    if held:
        return fixes.off_path(held, " and ".join(held), verify)
    if on_windows(facts):
        return Fix(
            text=f"Remove the folder of the other {what} from PATH.", commands=(sh("where cudnn*.dll"),), verify=verify
        )
    return Fix(
        text=f"Remove the folder of the other {what} from LD_LIBRARY_PATH (a profile, module, image or sudo may set "
        "it): wheels bring what they need.",
        commands=(sh("echo $LD_LIBRARY_PATH"), sh("unset LD_LIBRARY_PATH")),
        verify=verify,
    )


def newer_cudnn(least: str, facts: Facts) -> Fix:
    """Return how to install a newer cuDNN."""
    cuda = next((toolkit.cuda.major for toolkit in toolchain_toolkits(facts)), None)
    cuda = cuda or (11 if numbers(least)[:2] < SINCE_CUDA_12 else 12)
    major = numbers(least)[0]
    wheel = requirement(f"nvidia-cudnn-cu{cuda}", f">={least},<{major + 1}")
    return Fix(
        text=f"Install cuDNN {least} or newer of major {major}, for the same CUDA, and remove older ones from the "
        "loader's path; or install a release of the framework that was built with this one.",
        commands=(sh("python -m pip install --upgrade {wheel}", wheel=wheel),)
        if major >= FIRST_WHEEL
        else (step("install cuDNN {least} for the CUDA of the program", least=VERSION(least)),),
        verify=fixes.DOCTOR_DEEP,
    )
