"""What releases require of each other: pins, the halves of cuda-python, and the parts of JAX."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.extensions import SERVING
from gpustack.diagnose.machine.frameworks import because_package, installed, platform
from gpustack.diagnose.machine.inventory import Build, builds, from_text
from gpustack.diagnose.machine.values import because_of, copies, number, table, text, texts, told
from gpustack.diagnose.requirements.extensions import DISTRIBUTIONS as JUDGED
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import generated, ranges
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model import record, replace
from gpustack.model.command import DISTRIBUTION, PYTHON, SOME_PYTHON, Command, Word, either, requirement, sh
from gpustack.model.facts import Facts, Instance, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.version import Version

    from gpustack.matrix import Matrix


# Of these pairs rules of their own speak: torch-torchvision-mismatch, jax-plugin-mismatch.
ELSEWHERE = frozenset({("torchvision", "torch"), ("torchaudio", "torch"), ("torchtext", "torch")})
BOUND_TO_SERVERS, TORCH, EXTENSIONS = "transformers", "torch", "torch-extensions"


@record
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


@rule(
    "pin-violated",
    Layer.FRAMEWORK,
    "python",
    Severity.WARNING,
    in_one_python=True,
    explained_by=("extension-abi-mismatch",),
)
def pin_violated(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An installed package requires another version of a GPU package than the one that is installed.

    Each wheel states which versions it was made and tested with; pip checks that when it installs, and a later
    installation may change what an earlier one required. Compiled parts then lack what they were built against, or a
    server fails on a name that moved. Install both in one command, so that one set of versions suits both; "pip check"
    lists every such conflict.
    """
    for listed in copies(facts, "packages") or map(_alone, _torches(facts)):
        for name, pins in _pins(listed, facts, matrix).items():
            broken = tuple(_broken(name, pins, listed, fits=_fits(name, listed, facts)))
            if broken:
                yield _pin_finding(name, broken, listed)


def _torches(facts: Facts) -> Iterator[Build]:
    return (build for build in builds(facts) if build.component == "pytorch" and not from_text(facts))


def _alone(build: Build) -> Instance:
    """Return the packages that PyTorch alone names, as a list of packages, where no list of them was made."""
    pins = {name: f"=={one}" for name, one in table(build.copy.facts, "pins").items()}
    here = {**table(build.copy.facts, "installed"), TORCH: build.copy.version}
    return replace(build.copy, facts={"pins": {TORCH: pins}, "distributions": here})


def _pins(listed: Instance, facts: Facts, matrix: Matrix) -> Mapping[str, Mapping[str, object]]:
    """Return what the packages here require of each other: as they say, or as the index does of a mere list of them.

    What extensions and servers in such a list require of torch is a requirement of their own; of others, a torch that
    differs in the last number alone is let be, since a list does not show whether that matters.
    """
    if "pins" in listed.facts or not from_text(facts):
        return {name: table(listed.facts, "pins", name) for name in table(listed.facts, "pins")}
    here = table(listed.facts, "distributions")
    python = next((one.version for one in copies(facts, "python") if one.environment == listed.environment), None)
    found: dict[str, dict[str, object]] = {}
    for name, version in here.items():
        known = generated.release_of(matrix, name, str(version))
        for other in sorted(set(known.names) & set(here) - ({TORCH} if name in JUDGED else set())) if known else ():
            span = known.pin(other, platform(facts) or "", python) if known else None
            there = ranges.version_of(str(here[other])) if other == TORCH else None
            if span is not None and span.text and not (there and _pin_near(span.text, there)):
                found.setdefault(name, {})[other] = span.text
    return found


def _broken(name: str, pins: Mapping[str, object], listed: Instance, *, fits: bool) -> Iterator[Pin]:
    for other, versions in pins.items():
        found = text(listed.facts, "distributions", other)
        if found and isinstance(versions, str) and (name, other) not in ELSEWHERE and _concerns(name, other, versions):
            version = ranges.version_of(found)
            if version and not _own(version) and _outside(versions, version):
                hurts = _hurts(other, versions, version) and not (
                    fits and other == TORCH and _pin_near(versions, version)
                )
                yield Pin(required=other, versions=versions, found=found, hurts=hurts)


def _fits(name: str, listed: Instance, facts: Facts) -> bool:
    """Return whether the compiled files of a package were compared with the torch beside them and miss nothing."""
    files = [one for one in copies(facts, EXTENSIONS) if one.environment == listed.environment]
    own = [one for one in files if text(one.facts, "distribution") == name]
    compared = [one for one in own if number(one.facts, "checked")]
    return bool(compared) and not any(texts(one.facts, "missing") or texts(one.facts, "absent") for one in own)


def _pin_near(versions: str, version: Version) -> bool:
    """Return whether a version differs from the one that is asked for in the last number alone."""
    wanted = [ranges.version_of(one.version) for one in ranges.specifiers(versions) if one.operator == "=="]
    return bool(wanted) and all(one is not None and one.release[:2] == version.release[:2] for one in wanted)


def _concerns(name: str, other: str, versions: str) -> bool:
    """Return whether a pin is one that breaks things: NumPy's only below 2, that of transformers in servers alone.

    Numba holds NumPy to its range itself: it raises ImportError.
    """
    if other == "numpy" and name != "numba":
        return not ranges.is_specifier(versions) or not ranges.specifiers(versions).contains("2.0", prereleases=True)
    return other != BOUND_TO_SERVERS or name in SERVING or name == "text-generation-server"


def _own(version: Version) -> bool:
    """Return whether a version is a vendor's or a developer's own build, which is pinned by nothing."""
    return version.is_devrelease or version.is_prerelease or "nv" in (version.local or "")


def _outside(versions: str, version: Version) -> bool:
    return ranges.is_specifier(versions) and not ranges.specifiers(versions).contains(version, prereleases=True)


def _hurts(other: str, versions: str, version: Version) -> bool:
    """Return whether a violation does harm: newer NVIDIA libraries and transformers stay compatible."""
    if not other.startswith(("nvidia-", "cuda-", "tensorrt")) and other != BOUND_TO_SERVERS:
        return True
    floors = [one for one in ranges.specifiers(versions) if one.operator in {"==", ">=", "~="}]
    known = [found for one in floors if (found := ranges.version_of(one.version.replace(".*", "")))]
    newer = bool(known) and all(version >= one for one in known)
    return not (newer and any(version.major == one.major for one in known))


def _pin_finding(name: str, broken: tuple[Pin, ...], listed: Instance) -> Finding:
    worst = sorted(broken, key=lambda pin: not pin.hurts)
    first, others = worst[0], len(worst) - 1
    version = text(listed.facts, "distributions", name) or ""
    more = f" (and {others} more)" if others else ""
    return pin_violated.finding(
        instance=f"{name}:{listed.environment}" if listed.environment else name,
        severity=Severity.WARNING if first.hurts else Severity.INFO,
        layer=Layer.SERVING if name in SERVING else Layer.FRAMEWORK,
        component=name,
        title=f"{name} {version} requires {first.words}, but {first.required} {first.found} is installed{more}",
        detail=_detail(name, worst),
        because=tuple(_because(name, pin) for pin in worst[:4]),
        confidence=Confidence.LIKELY,
        fix=_pin_fix(name, version, worst, PYTHON(listed.environment)),
    )


def _because(name: str, pin: Pin) -> Because:
    said = f"{pin.versions}, found {pin.found}"
    return Because(component="packages", fact=f"pins.{name}.{pin.required}", value=said, source=f"METADATA of {name}")


def _detail(name: str, pins: list[Pin]) -> str:
    said = "; ".join(f"{pin.words} (found {pin.found})" for pin in pins)
    if pins[0].hurts:
        return f"The metadata of {name} requires {said}. Its compiled parts and calls are made for that."
    if pins[0].required == TORCH:
        return f"The metadata of {name} requires {said}. Its compiled files find all they call in the torch here."
    return f"The metadata of {name} requires {said}. A newer release of the same major version usually works as well."


def _pin_fix(name: str, version: str, pins: list[Pin], python: Word) -> Fix | None:
    wanted = [requirement(pin.required, pin.versions) for pin in pins if pin.hurts]
    if not wanted:
        return None
    return fixes.advice(
        f"Install what {name} requires, or the release of {name} that is made for what is installed.",
        *either(
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


KINDS = (
    *("jax-plugin-version", "jax-pjrt-version", "jax-pjrt-size", "jaxlib-version", "jaxlib-too-old"),
    "jax-plugin-interface",
)
VERIFY = sh('python -c "import jax; print(jax.devices())"')
CUDA12 = "cuda12"


@rule("jax-plugin-mismatch", Layer.FRAMEWORK, "jax", in_one_python=True)
def jax_plugin_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The versions of jaxlib and of JAX's CUDA plugin differ.

    The plugin adds GPU support to JAX and must have jaxlib's version; its two parts (jax-cuda12-plugin,
    jax-cuda12-pjrt) require each other exactly. With another version JAX refuses it and falls back to the CPU, or fails
    ("Mismatched PJRT plugin PJRT API version", "Unexpected PJRT_… size"). Install all of them in one command.
    """
    found = [one for build in builds(facts) if (one := _of(build, facts, matrix))]
    yield from found
    if not found and heard(facts, *KINDS):
        yield _heard(facts, matrix)


def _of(build: Build, facts: Facts, matrix: Matrix) -> Finding | None:
    jaxlib = text(build.copy.facts, "jaxlib")
    plugins = table(build.copy.facts, "plugins")
    named = {name: text(plugins, name) for name in plugins if "cuda" in name}
    wrong = [name for name, version in named.items() if version and numbers(version)[:3] != numbers(jaxlib)[:3]]
    if build.component != "jax" or not jaxlib or not wrong or build.ran_on_gpu:
        return None
    extra = re.search(r"cuda1\d", wrong[0])
    plugin = build.copy.build or (extra[0] if extra else CUDA12)
    return jax_plugin_mismatch.finding(
        instance=build.mark,
        title=f"jaxlib is {jaxlib}, but {wrong[0]} is {named[wrong[0]]}: they must have the same version",
        detail=_said(facts),
        because=(
            *grounds(facts, *KINDS),
            because_of(facts, "jax", build.copy, "jaxlib"),
            because_of(facts, "jax", build.copy, "plugins"),
        ),
        fix=_jax_fix(
            jaxlib,
            pinned(f"jax[{plugin}]", facts, matrix, build.copy.environment),
            plugin,
            build.python,
            fixes.verify(build),
        ),
    )


def _heard(facts: Facts, matrix: Matrix) -> Finding:
    """Return what JAX says itself, where the versions of the packages do not say it."""
    jaxlib = text(told(facts, "jax"), "jaxlib") or installed(facts, "jaxlib") or ""
    needs, jax = value(facts, "jaxlib-version", "needs"), value(facts, "jaxlib-version", "jax")
    lacks, call = value(facts, "jaxlib-too-old", "name"), value(facts, "jax-plugin-interface", "call")
    module = value(facts, "jax-plugin-interface", "module")
    plugin = f"The plugin {module}" if module else "The CUDA plugin"
    two = f"JAX and its CUDA plugin (PJRT) are different releases: {_said(facts)}".rstrip(" :.")
    titles = (
        (jax or needs, f"jaxlib is {jaxlib}, but jax {jax or f'requires {needs}'}: they must be the same release"),
        (lacks, f"The CUDA plugin of JAX is newer than jaxlib {jaxlib}".strip() + f", which has no {lacks} yet"),
        (call, f"{plugin} of JAX is a different release than jaxlib {jaxlib}".strip() + f": {call} differs"),
    )
    return jax_plugin_mismatch.finding(
        title=next((title for known, title in titles if known), two),
        detail=_said(facts) if jax or needs else "",
        because=(*grounds(facts, *KINDS), *because_package(facts, "jaxlib"), *because_package(facts, "jax")),
        fix=_jax_fix(
            None if jax or needs else jaxlib or None,
            pinned(f"jax[{CUDA12}]", facts, matrix),
            CUDA12,
            SOME_PYTHON,
            VERIFY,
        ),
    )


def _said(facts: Facts) -> str:
    """Return the versions of the interface between JAX and its plugin, where programs name them."""
    for one in said(facts, "jax-pjrt-version"):
        plugin = one.values.get("plugin") or one.values.get("plugin2")
        framework = one.values.get("framework") or one.values.get("framework2")
        return f"The plugin's PJRT API is {plugin}, jaxlib's is {framework}."
    for one in said(facts, "jax-pjrt-size"):
        spoken = one.values.get("plugin")
        return f"The plugin is built with PJRT API {spoken}, but jaxlib with another." if spoken else ""
    return ""


def _jax_fix(jaxlib: str | None, jax: Word, plugin: str, python: Word, verify: Command) -> Fix:
    pins = [requirement(f"jax-{plugin}-{part}", f"=={jaxlib}") for part in ("plugin", "pjrt")]
    pinned = sh("{python} -m pip install {pins}", python=python, pins=pins)
    together = sh("{python} -m pip install --upgrade {jax}", python=python, jax=jax)
    same = f"install the plugin at {jaxlib}, the version of jaxlib" if jaxlib else "install all at one version"
    return fixes.advice(
        f"Install JAX and its plugin together; or {same}.",
        *either(together, *((pinned,) if jaxlib else ())),
        verify=verify,
    )


@rule("cuda-core-bindings-mismatch", Layer.RUNTIME, "cuda-core", Severity.WARNING)
def cuda_core_bindings_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """cuda-core and cuda-bindings are releases that fail together.

    The two halves of cuda-python are released separately and do not pin each other, so pip installs pairs that nobody
    has tested. This pair is known to fail. Update cuda-core; the newest works with every cuda-bindings release that we
    tried.
    """
    for core in copies(facts, "cuda-core"):
        for bindings in copies(facts, "cuda-bindings"):
            if core.environment != bindings.environment or not core.version or not bindings.version:
                continue
            for pair in matrix.bad_pairs:
                low, high = numbers(pair.first), numbers(pair.last)
                if core.version == pair.core and low <= numbers(bindings.version) <= high:
                    python = PYTHON(core.environment)
                    yield cuda_core_bindings_mismatch.finding(
                        instance=core.environment,
                        title=f"cuda-core {core.version} fails with cuda-bindings {bindings.version}",
                        detail=pair.outcome,
                        because=(
                            because_of(facts, "cuda-core", core, "version"),
                            because_of(facts, "cuda-bindings", bindings, "version"),
                        ),
                        row=pair.row,
                        fix=fixes.advice(
                            "Update cuda-core.",
                            sh('{python} -m pip install --upgrade "cuda-core>=1.0.1"', python=python),
                            verify=sh('{python} -c "import cuda.core"', python=python),
                        ),
                    )
