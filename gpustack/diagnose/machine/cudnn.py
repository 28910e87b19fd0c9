"""Libraries that lack what others ask of them, as the loader says it, and where a foreign copy may come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.inventory import on_windows
from gpustack.diagnose.machine.linking import soname_library, symbol_owner
from gpustack.diagnose.machine.messages import because_said, grounds, heard, holding, said
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import because, table, text, told
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DISTRIBUTION, Command, Word, requirement, sh
from gpustack.model.report import Because, Fix

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Message
    from gpustack.model.versions import CudaVersion


LD_LIBRARY_PATH = "LD_LIBRARY_PATH"
OLDER_CUDNN = ("cudnn-loaded-older", "cudnn-outdated-jax")
OF_A_FRAMEWORK = re.compile(r"libtorch|/torch/lib/|/nvidia/\w+/lib|^libcu|/libcu|libnv|site-packages/nvidia")
OF_CUDA = re.compile(r"cuda|cudnn|nccl|nvidia|hpc_sdk|tensorrt", re.IGNORECASE)
OWN = re.compile("site-packages|dist-packages|\\$")
FOLDER = re.compile(r"/[\w./+-]{4,200}\w")
BLAMED = "ld-library-path-blamed-said"
FIRST_PACKED, PACKED, LONG_PACKED = 1000, 10_000, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A symbol, or a version of a library, that is not in the copy that was loaded; ``owner`` is the library's id."""

    owner: str
    symbol: str
    file: str
    soname: str | None
    message: Message

    @property
    def asking(self) -> str:
        """The file or module that asks, without its folder; empty for a word that is the name of neither."""
        name = self.file.rpartition("/")[2]
        return name if name != self.file or "." in name else ""

    @property
    def by_a_framework(self) -> bool:
        """Whether the asker is a library that was linked to its partners when it was released."""
        return bool(self.soname or OF_A_FRAMEWORK.search(self.file))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowing:
    """An older cuDNN that is loaded: which, the one that was built with, the one that a wheel brings, and why."""

    built: str
    loaded: str
    own: str
    because: tuple[Because, ...]


def loaded(facts: Facts, *names: str) -> tuple[Message, ...]:
    """Return what says that a library of these names (libnccl) was taken from outside the wheels."""
    return tuple(
        one
        for one in holding(facts, "library-loaded", "path", "soname")
        if one.values["soname"].startswith(tuple(f"{name}." for name in names)) and not OWN.search(one.values["path"])
    )


def asker(facts: Facts, soname: str) -> str:
    """Return the wheel's library that asks for a library of this name; empty where nothing says."""
    files = (one.values["by"] for one in holding(facts, "library-needed-by", "by") if one.values["soname"] == soname)
    return next((file for file in files if "packages/" in file), "")


def lacking(facts: Facts, *owners: str) -> tuple[Lacking, ...]:
    """Return which libraries of these ids were not found."""
    found = [_symbol(message) for message in holding(facts, "undefined-symbol", "symbol")]
    found += [_version(message) for message in holding(facts, "symbol-version", "file", "needs")]
    return tuple(one for one in found if one and one.owner in owners)


def _symbol(message: Message) -> Lacking | None:
    symbol, file, soname = message.values["symbol"], message.values.get("file", ""), message.values.get("needs")
    named = soname_library(soname or "")
    inside = soname_library(file) if "cudnn" in file else None
    owner = named[0] if named else symbol_owner(symbol) or (inside[0] if inside else None)
    if owner is None:
        return None
    return Lacking(owner=owner, symbol=symbol, file=file, soname=soname if named else None, message=message)


def _version(message: Message) -> Lacking | None:
    named = soname_library(message.values["file"])
    if named is None or not message.values["needs"].startswith("lib"):
        return None
    file = message.values.get("by", "")
    soname = message.values["needs"]
    return Lacking(owner=named[0], symbol=soname, file=file, soname=soname, message=message)


def folders(facts: Facts) -> tuple[str, ...]:
    """Return the folders on LD_LIBRARY_PATH that hold libraries of CUDA and are no part of a wheel."""
    path = text(told(facts, "environment"), "variables", LD_LIBRARY_PATH) or ""
    known = [one for one in path.split(":") if one.startswith("/") and OF_CUDA.search(one) and not OWN.search(one)]
    return tuple(dict.fromkeys(known))


def path_grounds(facts: Facts) -> tuple[Because, ...]:
    """Return the grounds on which LD_LIBRARY_PATH is to blame, none where nothing speaks of it."""
    held = folders(facts)
    if held:
        source = one.source if (one := facts.find("environment")) else ""
        return (Because(component="environment", fact=LD_LIBRARY_PATH, value=":".join(held), source=source),)
    return grounds(facts, "ld-library-path-said", "cudnn-path-blamed", most=1)


def path_blamed(facts: Facts, *files: str) -> bool:
    """Return whether LD_LIBRARY_PATH is said to be to blame, or to name a folder above one of these files."""
    named = [part for one in said(facts, "ld-library-path-said") for part in FOLDER.findall(one.line)]
    return heard(facts, BLAMED) or any(file.startswith(f"{folder}/") for file in files for folder in named)


def place(facts: Facts, library: str, older_than: CudaVersion | None = None) -> str:
    """Return in words where a foreign copy of a library (cublas) lies, as far as the texts tell."""
    lying = [
        one.values["path"] for one in holding(facts, "library-file", "path") if library in one.values["path"].lower()
    ]
    foreign = [path for path in lying if not OWN.search(path)]
    if foreign:
        return foreign[0]
    if folders(facts):
        return folders(facts)[0]
    other = [one for one in toolchain_toolkits(facts) if older_than is None or one.cuda < older_than]
    return f"CUDA {other[0].version} of this machine" if other else ""


def off_path(facts: Facts, what: str, verify: Command) -> Fix:
    """Return how to take a foreign copy out of the loader's way."""
    held = folders(facts)
    if held:
        return fixes.off_path(held, " and ".join(held), verify)
    if on_windows(facts):
        return Fix(
            text=f"Take the folder of the other {what} off PATH.", commands=(sh("where cudnn*.dll"),), verify=verify
        )
    return Fix(
        text=f"Take the folder of the other {what} off LD_LIBRARY_PATH (a profile, a module, an image or sudo may set "
        "it): wheels bring what they need.",
        commands=(sh("echo $LD_LIBRARY_PATH"), sh("unset LD_LIBRARY_PATH")),
        verify=verify,
    )


def removed(python: Word, *wheels: str, keep: str, version: str) -> Fix:
    """Return how to remove wheels that write over each other, and to reinstall one of them."""
    return Fix(
        text=f"Remove {' and '.join(wheels)}, then install {keep}=={version} alone: removing one of them deletes files"
        " of both.",
        commands=(
            sh("{python} -m pip uninstall -y {wheels}", python=python, wheels=tuple(map(DISTRIBUTION, wheels))),
            sh(
                "{python} -m pip install --force-reinstall --no-deps {keep}",
                python=python,
                keep=requirement(keep, f"=={version}"),
            ),
        ),
        verify=sh("gpustack doctor --deep"),
    )


def cudnn_number(said_: str | None) -> str | None:
    """Return a version of cuDNN as people write it: of "8, 7, 0", of 8907 (8.9.7) and of 90100 (9.1.0)."""
    spelled = ".".join(re.findall(r"\d+", said_ or ""))
    if "." in spelled or not spelled or len(spelled) < len("1000"):
        return spelled or None
    number = int(spelled)
    if number >= PACKED:
        return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def cuda_number(said_: str, library: str = "cuda") -> str:
    """Return a version of a library of CUDA as people write it: 12020 is CUDA 12.2, 120205 cuBLAS 12.2.5."""
    number = int(said_) if said_.isascii() and said_.isdecimal() else 0
    if number >= LONG_PACKED:
        return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"
    if number < FIRST_PACKED:
        return said_
    if library == "cuda":
        return f"{number // 1000}.{number % 1000 // 10}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def shadowing(facts: Facts) -> Shadowing | None:
    """Return the older cuDNN that was loaded where LD_LIBRARY_PATH is set and a wheel brings a fitting one."""
    message = next((one for kind in OLDER_CUDNN for one in holding(facts, kind, "built", "found")), None)
    if message is None:
        return None
    built, loaded = cudnn_number(message.values["built"]), cudnn_number(message.values["found"])
    held = table(told(facts, "packages"), "distributions")
    wheel = next((name for name in held if name.startswith("nvidia-cudnn")), None)
    own = text(held, wheel) if wheel else None
    path = text(told(facts, "environment"), "variables", LD_LIBRARY_PATH)
    spoken = path or grounds(facts, "ld-library-path-said", "ld-library-path")
    if not (built and loaded and wheel and own and spoken) or older(own, built) or not older(loaded, built):
        return None
    grounds_ = [because_said(message), because(facts, "packages", "distributions", wheel)]
    if path:
        grounds_.append(because(facts, "environment", "variables", LD_LIBRARY_PATH))
    return Shadowing(built=built, loaded=loaded, own=own, because=(*grounds_, *path_grounds(facts)))


def older(found: str | None, built: str | None) -> bool:
    """Return whether a version is older than another."""
    return bool(found and built and numbers(found) < numbers(built))
