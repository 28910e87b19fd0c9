"""Which copy of a library a framework uses, and which others there are: what the rules about libraries share."""

from __future__ import annotations

import re

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import grounds, heard
from gpustack.diagnose.machine.inventory import Build, builds
from gpustack.diagnose.machine.lacking import LD_LIBRARY_PATH, blamed, newer_cudnn, off_path, path_grounds
from gpustack.diagnose.machine.values import because, because_of, copies, items, table, text, texts, told, version
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model import record
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Facts, Instance, JsonValue, once, product
from gpustack.model.report import Because, Confidence, Fix, Severity

UP_TO_MINOR, UP_TO_PATCH = 2, 3
REINSTALL = "{python} -m pip install --force-reinstall --no-deps {wanted}"
IN_NAME = re.compile(r"\.so\.(\d+\.\d+\.\d+(?:\.\d+)*)$", re.ASCII)


@record
class Used:
    """The copy that a framework uses: its file, and whether it was found loaded or follows from the loader's order.

    ``step`` is the loader's step that finds it, ``passed_over`` the other files with that name.
    """

    path: str
    loaded: bool
    step: str | None
    folder: str | None
    passed_over: tuple[str, ...]
    copy: Instance | None

    @property
    def version(self) -> str | None:
        """The version of the copy, if it was read."""
        return self.copy.version if self.copy else None

    @property
    def named(self) -> str | None:
        """The version in its file's name, for libraries that are not queried."""
        found = IN_NAME.search(self.path)
        return found[1] if found else None

    @property
    def how(self) -> str:
        """How certain it is, in words."""
        return "really loads" if self.loaded else "will load"


@record
class Library:
    """One library of CUDA: its file, the component that tells its version, its wheel and its name.

    ``decisive``: an older one breaks what was built with a newer one, not only here and there.
    """

    file: str
    component: str
    wheel: str
    name: str
    decisive: bool = False


CUDNN = Library(file="libcudnn", component="cudnn", wheel="nvidia-cudnn", name="cuDNN", decisive=True)
NCCL = Library(file="libnccl", component="nccl", wheel="nvidia-nccl", name="NCCL", decisive=True)
OF_CUDA = (
    Library(file="libcublas", component="cublas", wheel="nvidia-cublas", name="libcublas", decisive=True),
    Library(file="libcublasLt", component="cublaslt", wheel="nvidia-cublas", name="libcublasLt", decisive=True),
    Library(file="libcudart", component="cuda-runtime", wheel="nvidia-cuda-runtime", name="libcudart"),
    Library(file="libnvrtc", component="nvrtc", wheel="nvidia-cuda-nvrtc", name="libnvrtc"),
    Library(file="libcufft", component="cufft", wheel="nvidia-cufft", name="libcufft"),
    Library(file="libcurand", component="curand", wheel="nvidia-curand", name="libcurand"),
    Library(file="libcusolver", component="cusolver", wheel="nvidia-cusolver", name="libcusolver"),
    Library(file="libcusparse", component="cusparse", wheel="nvidia-cusparse", name="libcusparse"),
    Library(file="libcupti", component="cupti", wheel="nvidia-cuda-cupti", name="libcupti"),
)
# What programs print, or people write, of the copy that was loaded and the one that was built with.
SAID = (
    "cudnn-incompatible",
    "cudnn-loaded-older",
    "cudnn-sample",
    "cudnn-outdated-jax",
    "jax-library-older",
    "nccl-too-old",
)


@record
class Clash:
    """A program uses a copy of a library that is not of the version that it was built with; ``own`` is that one.

    ``build`` and ``one`` are what was seen of them, ``copy`` what the program said itself. ``foreign``: a copy from
    elsewhere is found before its own.
    """

    library: Library
    who: str
    found: str
    own: str
    least: str
    foreign: bool
    because: tuple[Because, ...]
    fix: Fix
    build: Build | None = None
    one: Used | None = None

    @property
    def mark(self) -> str | None:
        """Its name in findings."""
        return self.build.mark if self.build else None

    @property
    def older(self) -> bool:
        """Whether the copy is older than the program expects, so that it may lack functions."""
        least = numbers(self.least)
        return numbers(self.found)[: len(least)] < least

    @property
    def how(self) -> str:
        """How certain it is that it is loaded, in words."""
        return self.one.how if self.one else "loads"

    @property
    def severity(self) -> Severity:
        """The severity: rejected copies, and decisive older ones, break the program; a newer one usually works."""
        if self.build and not self.older:
            return Severity.INFO
        breaks = self.build is None or (self.library.decisive and not self.build.ran_on_gpu)
        return Severity.ERROR if breaks else Severity.WARNING

    @property
    def confidence(self) -> Confidence:
        """The confidence: it was found or reported as loaded, or only follows from the loader's order."""
        return Confidence.CERTAIN if self.one is None or self.one.loaded else Confidence.LIKELY


@once
def clashes(facts: Facts, *libraries: Library) -> tuple[Clash, ...]:
    """Return the copies of these libraries that are not their programs' own: as observed, else as reported."""
    seen = [one for build in builds(facts) for library in libraries if (one := _seen(build, library, facts))]
    said = [
        one
        for library in libraries
        for copy in copies(facts, library.component)
        if (one := _said(copy, library, facts))
    ]
    return tuple(seen or said)


def _seen(build: Build, library: Library, facts: Facts) -> Clash | None:
    """Return how the copy that a framework uses differs from its own: that of its pin, else the next in the order."""
    one = used(build, library.file, library.component, facts)
    if one is None:
        return None
    wheel = next((pin for pin in sorted(table(build.copy.facts, "pins")) if pin.startswith(library.wheel)), None)
    own, version, by_path = (
        own_version(build, one, library, facts),
        one.version or one.named,
        one.step == LD_LIBRARY_PATH,
    )
    if not version or not own or not (wheel or by_path):
        return None
    found, wanted = numbers(version)[:UP_TO_PATCH], numbers(own)[:UP_TO_PATCH]
    size = min(len(found), len(wanted))
    if not size or found[:size] == wanted[:size]:
        return None
    verify, folder = fixes.verify_loaded(build), one.path.rpartition("/")[0]
    return Clash(
        library=library,
        who=build.name,
        found=version,
        own=own,
        least=".".join(map(str, numbers(own)[:UP_TO_MINOR])),
        foreign=by_path,
        build=build,
        one=one,
        because=(
            evidence(build, library.file, one),
            *((because_of(facts, library.component, one.copy, "version"),) if one.copy else ()),
            Because(
                component=build.component,
                fact=f"pins.{wheel}" if wheel else f"search.{library.file}",
                value=own,
                source="metadata",
            ),
        ),
        fix=fixes.off_path([one.folder or folder], folder, verify)
        if by_path
        else Fix(
            text="Reinstall the version that it requires.",
            commands=(sh(REINSTALL, python=build.python, wanted=requirement(wheel, f"=={own}")),),
            verify=verify,
        ),
    )


def _said(copy: Instance, library: Library, facts: Facts) -> Clash | None:
    """Return a copy that the program which loaded it reports with the release it was built with."""
    built, found = text(copy.facts, "built_with"), copy.version
    if not built or not found:
        return None
    by = text(copy.facts, "loaded_by") or next((name for name in ("tensorflow", "jax") if facts.find(name)), None)
    who = f"{product(by)} {version(facts, by) or ''}".strip() if by else "The program"
    held = table(told(facts, "packages"), "distributions")
    wheel = next((name for name in held if name.startswith(library.wheel)), None)
    own = text(held, wheel) if wheel else None
    beside = bool(own and numbers(own) >= numbers(built) and blamed(facts))
    foreign = by == "pytorch" or beside or heard(facts, "path-off-helps-said")
    return Clash(
        library=library,
        who=who,
        found=found,
        own=(own if beside else None) or built,
        least=text(copy.facts, "least") or built,
        foreign=foreign,
        because=(
            *grounds(facts, *SAID, most=2),
            *((because(facts, "packages", "distributions", wheel),) if beside and wheel else ()),
            *path_grounds(facts),
        ),
        fix=off_path(facts, library.name, fixes.DOCTOR_DEEP)
        if foreign or library is not CUDNN
        else newer_cudnn(text(copy.facts, "least") or built, facts),
    )


def own_version(build: Build, one: Used, library: Library, facts: Facts) -> str | None:
    """Return the version that the framework would have: its pin's, else that of the next copy in the order."""
    next_ = (copy_at(path, library.component, facts) for path in one.passed_over)
    return pinned(build, library.wheel) or next((copy.version for copy in next_ if copy and copy.version), None)


def used(build: Build, library: str, component: str, facts: Facts) -> Used | None:
    """Return the copy of a library (libcudnn) that a framework uses; None if unknown."""
    candidates = _candidates(build, library, facts)
    if not candidates and not table(build.exercise, "loaded"):
        return None
    real = [text(one, "real") or text(one, "path") or "" for one in candidates]
    names = texts(build.exercise, "loaded", library)
    seen = [path for path in names if path.rpartition("/")[2].startswith(f"{library}.so")]
    path = seen[0] if seen else next(iter(real), None)
    if not path:
        return None
    found = next((one for one, at in zip(candidates, real, strict=True) if at == path), None)
    return Used(
        path=path,
        loaded=bool(seen),
        step=text(found, "step"),
        folder=text(found, "folder"),
        passed_over=tuple(at for at in dict.fromkeys(real) if at and at != path),
        copy=copy_at(path, component, facts),
    )


def copy_at(path: str, component: str, facts: Facts) -> Instance | None:
    """Return the copy of a component at a path."""
    return next((copy for copy in copies(facts, component) if path in {copy.path, copy.key}), None)


def pinned(build: Build, wheel: str) -> str | None:
    """Return the version that a framework was built and released with, from its requirement on this wheel."""
    pins = table(build.copy.facts, "pins")
    return next((text(pins, pin) for pin in pins if pin.startswith(wheel)), None)


def evidence(build: Build, library: str, one: Used) -> Because:
    """Return the evidence that a copy is the one in use."""
    fact = f"exercise.loaded.{library}" if one.loaded else f"search.{library}"
    return Because(
        component=build.component, fact=fact, value=one.path, source="memory map" if one.loaded else one.step or ""
    )


def _candidates(build: Build, library: str, facts: Facts) -> tuple[JsonValue, ...]:
    """Return the files that the loader would find for the library's main file, in its order."""
    return _searched(facts).get((build.component, build.copy.environment, library), ())


@once
def _searched(facts: Facts) -> dict[tuple[str, str | None, str], tuple[JsonValue, ...]]:
    """Return the files that the loader would find for each framework and library; of several names, the first."""
    return {
        (build.component, build.copy.environment, name.partition(".so")[0]): items(search, name)
        for build in builds(facts)
        for search in (table(build.copy.facts, "search"),)
        for name in sorted(search, reverse=True)
        if ".so" in name
    }


def found_by(build: Build, library: str, path: str, facts: Facts) -> tuple[str | None, str | None]:
    """Return the loader's step that finds a library's file, and the folder that the step names."""
    one = next((one for one in _candidates(build, library, facts) if text(one, "path") == path), None)
    return text(one, "step"), text(one, "folder")
