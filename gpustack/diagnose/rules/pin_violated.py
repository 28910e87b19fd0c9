"""An installed package asks for another version of a package of the GPU stack than the one beside it.

Each wheel states which versions it was made and tested with; pip checks that when it installs, and the next
installation may move what an earlier one asked for. Compiled parts then miss what they were built against, or a server
fails at a name that moved. Install both in one command, so that one set of versions suits all; "pip check" lists every
such conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import SERVING
from gpustack.diagnose.rules.reading import copies, number, table, text, texts
from gpustack.matrix.subjects import ranges
from gpustack.model.command import DISTRIBUTION, PYTHON, Word, either, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance

ID = "pin-violated"
# Of these pairs rules of their own speak: torch-torchvision-mismatch, jax-plugin-mismatch.
ELSEWHERE = frozenset({("torchvision", "torch"), ("torchaudio", "torch"), ("torchtext", "torch")})
BOUND_TO_SERVERS, TORCH, EXTENSIONS = "transformers", "torch", "torch-extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one package requires of another, and what is there instead."""

    required: str
    versions: str
    found: str
    hurts: bool

    @property
    def words(self) -> str:
        """It in words."""
        return f"{self.required} {self.versions}"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each package, in each Python, that does not have what it requires of the GPU stack."""
    for listed in copies(facts, "packages"):
        for name in table(listed.facts, "pins"):
            broken = tuple(_broken(name, listed, fits=_fits(name, listed, facts)))
            if broken:
                yield _finding(name, broken, listed)


def _broken(name: str, listed: Instance, *, fits: bool) -> Iterator[Pin]:
    for other, versions in table(listed.facts, "pins", name).items():
        found = text(listed.facts, "distributions", other)
        if found and isinstance(versions, str) and (name, other) not in ELSEWHERE and _concerns(name, other, versions):
            version = ranges.version_of(found)
            if version and not _own(version) and _outside(versions, version):
                hurts = _hurts(other, versions, version) and not (fits and other == TORCH and _near(versions, version))
                yield Pin(required=other, versions=versions, found=found, hurts=hurts)


def _fits(name: str, listed: Instance, facts: Facts) -> bool:
    """Tell whether the compiled files of a package were compared with the torch beside them and miss nothing."""
    files = [one for one in copies(facts, EXTENSIONS) if one.environment == listed.environment]
    own = [one for one in files if text(one.facts, "distribution") == name]
    compared = [one for one in own if number(one.facts, "checked")]
    return bool(compared) and not any(texts(one.facts, "missing") or texts(one.facts, "absent") for one in own)


def _near(versions: str, version: Version) -> bool:
    """Tell whether a version differs from the one that is asked for in the last number alone."""
    wanted = [ranges.version_of(one.version) for one in ranges.specifiers(versions) if one.operator == "=="]
    return bool(wanted) and all(one is not None and one.release[:2] == version.release[:2] for one in wanted)


def _concerns(name: str, other: str, versions: str) -> bool:
    """Tell whether a pin is one that breaks things: NumPy's only below 2, that of transformers in servers alone."""
    if other == "numpy":
        return not ranges.is_specifier(versions) or not ranges.specifiers(versions).contains("2.0", prereleases=True)
    return other != BOUND_TO_SERVERS or name in SERVING or name == "text-generation-server"


def _own(version: Version) -> bool:
    """Tell whether a version is a vendor's or a developer's own build, which is nobody's pin."""
    return version.is_devrelease or version.is_prerelease or "nv" in (version.local or "")


def _outside(versions: str, version: Version) -> bool:
    return ranges.is_specifier(versions) and not ranges.specifiers(versions).contains(version, prereleases=True)


def _hurts(other: str, versions: str, version: Version) -> bool:
    """Tell whether a violation does harm: libraries of NVIDIA and transformers keep to what came before, when newer."""
    if not other.startswith(("nvidia-", "cuda-", "tensorrt")) and other != BOUND_TO_SERVERS:
        return True
    floors = [one for one in ranges.specifiers(versions) if one.operator in {"==", ">=", "~="}]
    known = [found for one in floors if (found := ranges.version_of(one.version.replace(".*", "")))]
    newer = bool(known) and all(version >= one for one in known)
    return not (newer and any(version.major == one.major for one in known))


def _finding(name: str, broken: tuple[Pin, ...], listed: Instance) -> Finding:
    worst = sorted(broken, key=lambda pin: not pin.hurts)
    first, others = worst[0], len(worst) - 1
    version = text(listed.facts, "distributions", name) or ""
    more = f" (and {others} more)" if others else ""
    return Finding(
        id=ID,
        instance=f"{name}:{listed.environment}" if listed.environment else name,
        severity=Severity.WARNING if first.hurts else Severity.INFO,
        layer=Layer.SERVING if name in SERVING else Layer.FRAMEWORK,
        component=name,
        title=f"{name} {version} asks for {first.words}, and {first.required} {first.found} is here{more}",
        detail=_detail(name, worst),
        because=tuple(_because(name, pin) for pin in worst[:4]),
        confidence=Confidence.LIKELY,
        fix=_fix(name, version, worst, PYTHON(listed.environment)),
    )


def _because(name: str, pin: Pin) -> Because:
    said = f"{pin.versions}, found {pin.found}"
    return Because(component="packages", fact=f"pins.{name}.{pin.required}", value=said, source=f"METADATA of {name}")


def _detail(name: str, pins: list[Pin]) -> str:
    said = "; ".join(f"{pin.words} (found {pin.found})" for pin in pins)
    if pins[0].hurts:
        return f"The metadata of {name} requires {said}. What it has compiled, or calls, is made for that."
    if pins[0].required == TORCH:
        return f"The metadata of {name} requires {said}. Its compiled files find all that they call in the torch here."
    return f"The metadata of {name} requires {said}. A newer one of the same major mostly serves as well."


def _fix(name: str, version: str, pins: list[Pin], python: Word) -> Fix | None:
    wanted = [requirement(pin.required, pin.versions) for pin in pins if pin.hurts]
    if not wanted:
        return None
    return Fix(
        text=f"Give {name} what it asks for, or take the release of {name} that is made for what is here.",
        commands=either(
            sh(
                "{python} -m pip install {own} {wanted}",
                python=python,
                own=requirement(name, f"=={version}"),
                wanted=wanted,
            ),
            sh("{python} -m pip install --upgrade {name}", python=python, name=DISTRIBUTION(name)),
        ),
        verify=sh("{python} -m pip check", python=python),
    )
