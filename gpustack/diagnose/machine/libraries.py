"""Which copy of a library a framework uses, and which others there are: what the rules about libraries share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.values import copies, items, table, text, texts
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import requirement, sh
from gpustack.model.report import Because, Fix

if TYPE_CHECKING:
    from gpustack.diagnose.machine.inventory import Build
    from gpustack.model.facts import Facts, Instance, JsonValue


LD_LIBRARY_PATH = "LD_LIBRARY_PATH"
UP_TO_MINOR, UP_TO_PATCH = 2, 3
IN_NAME = re.compile(r"\.so\.(\d+\.\d+\.\d+(?:\.\d+)*)$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The copy that a framework uses: its file, and whether it was seen loaded or follows from the loader's order.

    ``step`` is the loader's step that finds it, ``passed_over`` the files that answer to the name as well.
    """

    path: str
    loaded: bool
    step: str | None
    folder: str | None
    passed_over: tuple[str, ...]
    copy: Instance | None

    @property
    def version(self) -> str | None:
        """The version of the copy, where it was seen."""
        return self.copy.version if self.copy else None

    @property
    def named(self) -> str | None:
        """The version in its file's name, for libraries that nobody asks for theirs."""
        found = IN_NAME.search(self.path)
        return found[1] if found else None

    @property
    def how(self) -> str:
        """How sure it is, in words."""
        return "really loads" if self.loaded else "will load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A framework uses a copy of a library that is not of the version that it was built with; ``own`` is that one."""

    build: Build
    library: str
    component: str
    one: Used
    found: str
    own: str
    wheel: str | None

    @property
    def older(self) -> bool:
        """Whether the copy is of an older minor release, so that it may lack what the framework calls."""
        return numbers(self.found)[:UP_TO_MINOR] < numbers(self.own)[:UP_TO_MINOR]

    @property
    def because(self) -> tuple[Because, Because]:
        """The grounds: which copy, and which version it should be."""
        fact = f"pins.{self.wheel}" if self.wheel else f"search.{self.library}"
        wanted = Because(component=self.build.component, fact=fact, value=self.own, source="metadata")
        return evidence(self.build, self.library, self.one), wanted

    @property
    def fix(self) -> Fix | None:
        """What to type so that the right copy is found."""
        verify = fixes.verify_loaded(self.build)
        if self.one.step == LD_LIBRARY_PATH:
            folder = self.one.path.rpartition("/")[0]
            return fixes.off_path([self.one.folder or folder], folder, verify)
        command = sh(
            "{python} -m pip install --force-reinstall --no-deps {wanted}",
            python=self.build.python,
            wanted=requirement(self.wheel, f"=={self.own}"),
        )
        return Fix(text="Reinstall the version that it requires.", commands=(command,), verify=verify)


def clash(build: Build, library: str, component: str, wheel: str, facts: Facts) -> Clash | None:
    """Return how the copy that a framework uses differs from its own: that of its pin, else the next in the order."""
    one = used(build, library, component, facts)
    if one is None:
        return None
    name = next((pin for pin in sorted(table(build.copy.facts, "pins")) if pin.startswith(wheel)), None)
    own = own_version(build, one, component, wheel, facts)
    version = one.version or one.named
    if not version or not own or not (name or one.step == LD_LIBRARY_PATH):
        return None
    found, wanted = numbers(version)[:UP_TO_PATCH], numbers(own)[:UP_TO_PATCH]
    size = min(len(found), len(wanted))
    if not size or found[:size] == wanted[:size]:
        return None
    return Clash(build=build, library=library, component=component, one=one, found=version, own=own, wheel=name)


def own_version(build: Build, one: Used, component: str, wheel: str, facts: Facts) -> str | None:
    """Return the version that the framework would have: that of its pin, else of the next copy in the order."""
    next_ = (copy_at(path, component, facts) for path in one.passed_over)
    return pinned(build, wheel) or next((copy.version for copy in next_ if copy and copy.version), None)


def used(build: Build, library: str, component: str, facts: Facts) -> Used | None:
    """Return the copy of a library (libcudnn) that a framework uses; None where nothing says which."""
    candidates = _candidates(build, library)
    if not candidates and not table(build.exercise, "loaded"):
        return None
    real = [text(one, "real") or text(one, "path") or "" for one in candidates]
    seen = [path for path in texts(build.exercise, "loaded", library) if _is_main(path, library)]
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
    """Return the copy of a component that lies at a path."""
    return next((copy for copy in copies(facts, component) if path in {copy.path, copy.key}), None)


def pinned(build: Build, *names: str) -> str | None:
    """Return the version that a framework was built and released with, by the requirement on one of these wheels."""
    pins = table(build.copy.facts, "pins")
    return next((text(pins, pin) for pin in pins if pin.startswith(names)), None)


def owner(copy: Instance) -> str:
    """Return who brought a copy, in words."""
    name = text(copy.facts, "owner", "name")
    return f"{text(copy.facts, 'owner', 'kind')} {name}" if name else ", ".join(texts(copy.facts, "found_by"))


def evidence(build: Build, library: str, one: Used) -> Because:
    """Return the ground on which a copy counts as the one in use."""
    fact = f"exercise.loaded.{library}" if one.loaded else f"search.{library}"
    return Because(
        component=build.component, fact=fact, value=one.path, source="memory map" if one.loaded else one.step or ""
    )


def _candidates(build: Build, library: str) -> tuple[JsonValue, ...]:
    """Return what the loader would find for the library's main file, in its order."""
    search = table(build.copy.facts, "search")
    names = [name for name in search if name.startswith(f"{library}.so")]
    return items(search, min(names)) if names else ()


def _is_main(path: str, library: str) -> bool:
    return path.rpartition("/")[2].startswith(f"{library}.so")
