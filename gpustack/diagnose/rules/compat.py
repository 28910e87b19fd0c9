"""A compat libcuda that CUDA refuses, or will: what the rules about errors 803 and 804 share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, items, number, text, told
from gpustack.diagnose.rules.seen import driver_release, gpus
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue

PAIR = 803
ELSEWHERE = "known folder"  # not on the loader's way


@dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """The compat libcuda that the loader finds first, and the driver branches that its own note names."""

    path: str
    release: DriverRelease | None
    branches: tuple[int, ...]

    def pairs(self, driver: DriverRelease) -> bool | None:
        """Tell whether it pairs with a kernel driver, by its note; None where it has none that says."""
        if not self.branches:
            return None
        return driver.branch in self.branches and (self.release is None or self.release.branch >= driver.branch)


def winner(facts: Facts) -> Compat | None:
    """Give the compat libcuda that was loaded, or that the loader would take; None where it takes another."""
    libcuda = told(facts, "libcuda")
    on_path = [one for one in items(libcuda, "copies") if text(one, "found_by") != ELSEWHERE]
    path = text(libcuda, "path") or next((text(one, "real") for one in on_path), None) or ""
    copy = next((one for one in items(libcuda, "copies") if text(one, "real") == path), None)
    loaded = text(libcuda, "kind") if text(libcuda, "path") else None
    if "compat" not in {loaded, text(copy, "kind")} and "/compat/" not in path:
        return None
    branches = tuple(one for one in items(copy, "note", "drivers") if isinstance(one, int))
    return Compat(path=path, release=DriverRelease.parse(text(copy, "release")), branches=branches)


def asked(facts: Facts) -> int | None:
    """Give what cuInit answered, or None where nobody asked it."""
    return number(told(facts, "libcuda"), "cu_init")


def refused(finding: str, code: int, what: str, facts: Facts, matrix: Matrix) -> Finding:
    """Give the finding that CUDA refuses the compat libcuda with this code, or will where it was not asked."""
    libcuda, found = told(facts, "libcuda"), winner(facts)
    path, release = found.path if found else text(libcuda, "path") or "", driver_release(facts)
    row = matrix.cuda_codes.get(code)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus(facts)))
    named = (
        f" It says itself that it is for the branches {_listed(found.branches)}." if found and found.branches else ""
    )
    fits = [one.name for one in matrix.compats if release and release.branch in one.bases]
    advice = f" Packages for this driver: {', '.join(fits)}." if code == PAIR and fits else ""
    sure = asked(facts) == code
    return Finding(
        id=finding,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="libcuda",
        title=f"The compat libcuda {path or 'that is found first'} {what} (CUDA error {code})",
        detail=f"Kernel driver {release or 'unknown'}{'; ' + names if names else ''}.{named}{advice}",
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        because=(
            because(facts, "libcuda", "cu_init"),
            Because(component="libcuda", fact="copies", value=path, source="the loader's order"),
            because(facts, "nvidia.ko", "version_loaded"),
        ),
        row=row.row if row else None,
        fix=fixes.off_path(
            _folders(libcuda, path), "the folder of the compat libcuda (or out of ld.so.conf)", fixes.DOCTOR
        ),
    )


def _listed(branches: tuple[int, ...]) -> str:
    return ", ".join(f"R{branch}" for branch in sorted(branches))


def _folders(libcuda: JsonValue, path: str) -> list[str]:
    """Give the folders by which the loader comes to this file, as they are spelled on its path."""
    spelled = [text(copy, "path") or "" for copy in items(libcuda, "copies") if text(copy, "real") == path]
    return list(dict.fromkeys(one.rpartition("/")[0] for one in [*spelled, path] if one))
