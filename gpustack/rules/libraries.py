"""Which copy of a library a framework uses, and which others there are: what the rules about libraries share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.report import Because
from gpustack.rules.reading import copies, items, table, text, texts

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Instance, JsonValue
    from gpustack.rules.seen import Build

LD_LIBRARY_PATH = "LD_LIBRARY_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The copy that a framework uses: its file, and whether it was seen loaded or follows from the loader's order.

    ``step`` is the loader's step that finds it, ``passed_over`` the files that answer to the name as well.
    """

    path: str
    loaded: bool
    step: str | None
    passed_over: tuple[str, ...]
    copy: Instance | None

    @property
    def version(self) -> str | None:
        """The version of the copy, where it was seen."""
        return self.copy.version if self.copy else None

    @property
    def how(self) -> str:
        """How sure it is, in words."""
        return "really loads" if self.loaded else "will load"


def used(build: Build, library: str, component: str, facts: Facts) -> Used | None:
    """Give the copy of a library (libcudnn) that a framework uses; None where nothing says which."""
    candidates = _candidates(build, library)
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
        passed_over=tuple(at for at in dict.fromkeys(real) if at and at != path),
        copy=copy_at(path, component, facts),
    )


def copy_at(path: str, component: str, facts: Facts) -> Instance | None:
    """Give the copy of a component that lies at a path."""
    return next((copy for copy in copies(facts, component) if path in {copy.path, copy.key}), None)


def pinned(build: Build, *names: str) -> str | None:
    """Give the version that a framework was built and released with, by the requirement on one of these wheels."""
    pins = table(build.copy.facts, "pins")
    return next((text(pins, pin) for pin in pins if pin.startswith(names)), None)


def owner(copy: Instance) -> str:
    """Give who brought a copy, in words."""
    name = text(copy.facts, "owner", "name")
    return f"{text(copy.facts, 'owner', 'kind')} {name}" if name else ", ".join(texts(copy.facts, "found_by"))


def evidence(build: Build, library: str, one: Used) -> Because:
    """Give the ground on which a copy counts as the one in use."""
    fact = f"exercise.loaded.{library}" if one.loaded else f"search.{library}"
    return Because(
        component=build.component, fact=fact, value=one.path, source="memory map" if one.loaded else one.step or ""
    )


def _candidates(build: Build, library: str) -> tuple[JsonValue, ...]:
    """Give what the loader would find for the library's main file, in its order."""
    search = table(build.copy.facts, "search")
    return next((items(search, name) for name in sorted(search) if name.startswith(f"{library}.so")), ())


def _is_main(path: str, library: str) -> bool:
    return path.rpartition("/")[2].startswith(f"{library}.so")
