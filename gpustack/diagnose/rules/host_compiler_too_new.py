"""The host's compiler is newer than this CUDA toolkit accepts.

nvcc gives the host's part of the code to gcc, clang or Visual Studio, and its header host_config.h refuses compilers
that are newer than the toolkit ("unsupported GNU version! gcc versions later than 12 are not supported"). Where the
check is switched off, the newer C++ library fails instead, in /usr/include/c++. Build with an older compiler beside the
system's (-ccbin, NVCC_CCBIN, CUDAHOSTCXX, CMAKE_CUDA_HOST_COMPILER), or with a newer toolkit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.fixes import manager
from gpustack.diagnose.rules.reading import because, version
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.toolchain import used
from gpustack.matrix.subjects import toolkits
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DOTTED, NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Row

REFUSED = ("gcc-too-new", "clang-too-new", "msvc-unsupported", "torch-compiler-bounds", "msvc-needs-cuda")
SAID, HEADER, FAILED = "compiler-too-new-said", "gcc-header-error", "extension-build-failed"
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*$", re.ASCII)
CLANG, MSVC = "clang", "Visual Studio"
# What nvcc makes of a C++ library that it cannot read.
UNREADABLE = (
    *("parameter packs not expanded", "is undefined", "expected a", "not a template"),
    *("__is_", "__builtin", "type name is not allowed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The compiler that is refused: its version, the newest major that is accepted, and the toolkit."""

    name: str
    found: str | None
    newest: int | None
    cuda: str | None
    row: Row | None

    @property
    def title(self) -> str:
        """What is wrong, in one line."""
        toolkit = f"CUDA {self.cuda}" if self.cuda else "this CUDA toolkit"
        most = f" ({self.name} {self.newest} at most)" if self.newest else ""
        return f"{self.name}{f' {self.found}' if self.found else ''} is newer than {toolkit} accepts{most}"


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the compiler that a build refused, or whose C++ library nvcc could not read."""
    one = _compiler(facts, matrix)
    plain = heard(facts, *REFUSED)
    if not (plain or _said_so(facts, one) or _unreadable(facts, one) or _failed(facts, one)):
        return
    toolkit = used(facts)
    yield Finding(
        id="host-compiler-too-new",
        severity=Severity.ERROR,
        layer=Layer.COMPILER,
        component="cuda-toolkit",
        title=one.title,
        detail=_detail(facts, one, matrix),
        confidence=Confidence.CERTAIN if plain else Confidence.LIKELY,
        because=(
            *grounds(facts, *REFUSED, SAID, HEADER, FAILED),
            *([because(facts, one.name.lower(), "version")] if version(facts, one.name.lower()) else []),
            *([toolkit.because] if toolkit else []),
        ),
        row=one.row,
        fix=_fix(facts, one),
    )


def _compiler(facts: Facts, matrix: Matrix) -> Compiler:
    name = _name(facts)
    cuda = value(facts, "torch-compiler-bounds", "cuda") or (toolkit.version if (toolkit := used(facts)) else None)
    row = toolkits.compilers_of(matrix, cuda) if cuda and VERSION.match(cuda) else None
    known = (row.clang_max if name == CLANG else row.gcc_max if name == "GCC" else None) if row else None
    found = value(facts, "torch-compiler-bounds", "found") or version(facts, name.lower())
    found = found or value(facts, HEADER, "gcc")
    return Compiler(name=name, found=found, newest=_limit(facts) or known, cuda=cuda, row=row.row if row else None)


def _name(facts: Facts) -> str:
    named = (value(facts, SAID, "compiler", "compiler2") or "").lower()
    if heard(facts, "clang-too-new") or named == CLANG:
        return CLANG
    return MSVC if heard(facts, "msvc-unsupported", "msvc-needs-cuda") or named in {"msvc", "visual studio"} else "GCC"


def _limit(facts: Facts) -> int | None:
    """Give the newest major that the message itself names."""
    newest = (
        value(facts, "gcc-too-new", "newest") or value(facts, SAID, "newest") or value(facts, "clang-too-new", "most")
    )
    below = value(facts, "clang-too-new", "below") or value(facts, "gcc-too-new", "and")
    if numbers(newest):
        return numbers(newest)[0]
    return numbers(below)[0] - 1 if numbers(below) else None


def _said_so(facts: Facts, one: Compiler) -> bool:
    """Tell whether somebody says that a compiler is not supported, and nothing known speaks against it."""
    if not heard(facts, SAID):
        return False
    return not one.found or one.newest is None or numbers(one.found)[:1] > (one.newest,)


def _unreadable(facts: Facts, one: Compiler) -> bool:
    """Tell whether nvcc failed in the headers of a C++ library that is newer than it knows."""
    marks = (".cu", "std_function.h")  # g++ alone reads its own std_function.h
    cuda_code = used(facts) is not None or any(mark in one.line for one in facts.messages for mark in marks)
    words = [message.values.get("error", "") for message in said(facts, HEADER)]
    newer = bool(one.newest and one.found and numbers(one.found)[:1] > (one.newest,))
    packs = any(UNREADABLE[0] in word for word in words)
    return cuda_code and (packs or (newer and any(mark in word for word in words for mark in UNREADABLE)))


def _failed(facts: Facts, one: Compiler) -> bool:
    """Tell whether a build failed with a compiler that is known to be newer than the toolkit accepts."""
    newer = bool(one.newest and one.found and numbers(one.found)[:1] > (one.newest,))
    return newer and heard(facts, FAILED)


def _detail(facts: Facts, one: Compiler, matrix: Matrix) -> str:
    major = numbers(one.found)[0] if numbers(one.found) and one.name == "GCC" else (one.newest or 0) + 1
    first = toolkits.first_cuda(matrix, major) if one.name == "GCC" and one.newest else None
    needs = value(facts, "msvc-needs-cuda", "needs")
    if needs:
        return f"This Visual Studio needs CUDA {needs} or newer."
    if value(facts, "msvc-unsupported", "needs"):
        return f"Only {value(facts, 'msvc-unsupported', 'needs')} are supported."
    return f"GCC {major} is accepted from CUDA {'.'.join(map(str, first.cuda[:2]))} on." if first else ""


INSTALL = {
    "apt": "sudo apt-get install gcc-{number} g++-{number}",
    "zypper": "sudo zypper install gcc{number} gcc{number}-c++",
    "pacman": "sudo pacman -S gcc{number}",
}


def _fix(facts: Facts, one: Compiler) -> Fix:
    newest = one.newest
    if one.name != "GCC" or newest is None:
        return Fix(
            text=f"Build with an older {one.name} that this toolkit accepts, or with a newer CUDA toolkit.",
            commands=(
                sh(
                    "# name the older {name} to nvcc: -ccbin, NVCC_CCBIN, CMAKE_CUDA_HOST_COMPILER", name=NAME(one.name)
                ),
            ),
            verify=sh("nvcc --version"),
        )
    number = DOTTED(newest)
    install = sh(INSTALL.get(manager(facts) or "", "# install g++-{number} beside the system's"), number=number)
    compiler = sh("/usr/bin/g++-{number}", number=number)
    return Fix(
        text=f"Build with g++ {newest} as the host compiler, or with a CUDA toolkit that accepts this one.",
        commands=(install, sh("export NVCC_CCBIN={compiler} CUDAHOSTCXX={compiler} CXX={compiler}", compiler=compiler)),
        needs_root="sudo " in install,
        verify=sh("{compiler} --version", compiler=compiler),
    )
