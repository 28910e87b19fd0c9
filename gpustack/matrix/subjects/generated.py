"""Releases of distributions as listed on the package index: one generated table each, read on first use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import ANY, VersionRange, minor, numbers, version_of
from gpustack.model import field, row
from gpustack.model.reading import key
from gpustack.model.report import Row
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement
    from packaging.version import Version

    from gpustack.matrix import Matrix

EVERY = "any"
PLUGIN = "jax-cuda{}-plugin"
PART = re.compile(r"jax(?:lib|-cuda\d\d-(?:plugin|pjrt))?")  # JAX consists of several distributions
NAME = re.compile(r"[a-z0-9-]+")
PYTHONS = tuple(f"3.{number}" for number in range(6, 16))
# The distributions of a component, if their names differ from its own; the first is the one that people name.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("torch",),
    "flash-attention": ("flash-attn", "flash-attn-4"),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
    "jax": ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin"),
    "cudnn": ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "cublas": ("nvidia-cublas-cu12", "nvidia-cublas"),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x"),
    "llama.cpp": ("llama-cpp-python",),
}
MACHINES: Mapping[str, Mapping[str, str]] = {
    "linux-x86_64": {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "x86_64"},
    "linux-aarch64": {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": "aarch64"},
    "windows": {"platform_system": "Windows", "sys_platform": "win32", "platform_machine": "AMD64"},
}


# No code of their own: other distributions have it, for certain Pythons and GPUs. CUDA's toolkit is mostly installed
# without pip, and numbered as its nvcc is.
PURE = frozenset({"jax", "cuda-toolkit"})
# Libraries also built as packages other than wheels: their first three numbers identify the release.
BY_RELEASE = frozenset({*DISTRIBUTIONS["cudnn"], *DISTRIBUTIONS["nccl"], *DISTRIBUTIONS["cublas"], "tensorrt"})


def _split(said: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(pythons.split()) for name, pythons in said.items()}


@row
class Together(Stated):
    """Which releases of the distributions that make up one product match."""

    rule: str

    def __str__(self) -> str:
        return self.rule


@row
class Release(Stated):
    """One release: its wheels as Pythons by platform, and their requirements on what the matrix knows (PEP 508).

    ``requires`` is None if no METADATA was read, or if there is only a source archive.
    """

    version: str
    wheels: Mapping[str, tuple[str, ...]] = field(metadata=key("wheels", _split))
    python: VersionRange = ANY
    date: str | None = None
    glibc: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] | None = None
    on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    yanked: str | None = None

    @property
    def name(self) -> str:
        """The distribution."""
        return self.table.rpartition("/")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """The distributions that it requires on any platform."""
        every = (*(self.requires or ()), *(one for held in self.on.values() for one in held))
        return tuple(dict.fromkeys(match[0] for one in every if (match := NAME.match(one))))

    def __str__(self) -> str:
        there = ", ".join(f"{name} for Python {' '.join(pythons)}" for name, pythons in self.wheels.items())
        yanked = f"; withdrawn: {self.yanked}" if self.yanked else ""
        return f"{self.name} {self.version} has wheels on {there or 'no platform'}{yanked}"

    def requiring(self, name: str, span: VersionRange) -> Row:
        """Return the row as a report cites it for its requirement on another distribution."""
        text = f"{self.name} {self.version} requires {name} {span}"
        return Row(table=self.table, text=text, source=self.source, checked=self.checked)

    def pin(
        self, name: str, platform: str = "linux-x86_64", python: str | None = None, extra: str = ""
    ) -> VersionRange | None:
        """Return its requirement on a distribution on a platform and Python; None if there is none, or it was not read.

        Without a Python, only a requirement that is the same for all the wheels' Pythons counts.
        """
        place = platform if platform in self.wheels else next(iter(self.wheels), platform)  # whose wheel says it
        pythons = (minor(python.removesuffix("t")),) if python else self._pythons(platform)
        said = {one: self.on.get(f"{place} {one}", self.on.get(place, self.requires)) for one in pythons}
        if platform not in MACHINES or not any(said.values()):
            return None
        found = {_joined(held or (), name, platform, one, extra) for one, held in said.items()}
        spans = found if python else found - {None}  # required on some Pythons but not on others
        return VersionRange(next(iter(spans)) or "") if len(spans) == 1 and None not in spans else None

    def serves(self, platform: str, python: str) -> bool:
        """Return whether there is a wheel for a Python on a platform, or whether the wheels were not read."""
        held = self.wheels.get(platform) or self.wheels.get(EVERY, ())
        later = any(numbers(one.removesuffix("+")) <= numbers(python) for one in held if one.endswith("+"))
        return not self.wheels or python in held or "any" in held or later

    def _pythons(self, platform: str) -> tuple[str, ...]:
        held = self.wheels.get(platform) or self.wheels.get(EVERY, ())
        named = tuple(dict.fromkeys(one.removesuffix("t") for one in held if one[-1].isdigit() or one[-1] == "t"))
        return named or tuple(one for one in PYTHONS if self.python.holds(f"{one}.99")) or PYTHONS


@row
class Unserved(Stated):
    """Releases that are listed, and cannot be had as they were; ``stops``: their installation ends in an error."""

    distribution: str
    versions: VersionRange
    says: str
    stops: bool = False

    def __str__(self) -> str:
        return f"{self.distribution} {self.versions}: {self.says}"


def unserved(matrix: Matrix, distribution: str, version: str) -> Unserved | None:
    """Return why a listed release cannot be had as it was; None for any other."""
    rows = (one for one in matrix.rows("wheels", "unserved", Unserved) if one.distribution == distribution)
    return next((one for one in rows if one.versions.holds(version)), None)


def elsewhere(matrix: Matrix, distribution: str, version: str) -> tuple[str, ...]:
    """Return the other distributions of a component that have a release which this one, as it was read, never had."""
    parts = next((held for held in DISTRIBUTIONS.values() if distribution in held), ())
    asked, there = version_of(version), releases(matrix, distribution)
    since = version_of(there[0].version) if there else None
    if not (asked and since and since < asked) or release_of(matrix, distribution, version):
        return ()
    return tuple(one for one in parts if release_of(matrix, one, version))


def parted(one: str, other: str) -> bool:
    """Return whether two distributions are parts of one product, each with its own version."""
    return one != other and bool(PART.fullmatch(one) and PART.fullmatch(other))


def together(matrix: Matrix) -> Together:
    """Return which releases of JAX's distributions match."""
    return matrix.rows("jax", "rules", Together)[0]


def table(distribution: str) -> str:
    """Return the name of the table of a distribution."""
    return f"generated/{distribution}"


def has(matrix: Matrix, distribution: str) -> bool:
    """Return whether there is a table of a distribution."""
    return matrix.has(table(distribution))


def releases(matrix: Matrix, distribution: str) -> tuple[Release, ...]:
    """Return every release of a distribution, oldest first; none if it has no table."""
    return matrix.rows(table(distribution), "releases", Release) if has(matrix, distribution) else ()


def release_of(matrix: Matrix, distribution: str, version: str) -> Release | None:
    """Return the release of exactly this version, or None if no row states it.

    For a library, it is the newest wheel of the release: cuDNN 9.10.2 is on the index as 9.10.2.21.
    """
    wanted = version_of(version.partition("+")[0])
    if wanted is None:
        return None
    there = releases(matrix, distribution)
    whole = distribution in BY_RELEASE and not (wanted.is_prerelease or wanted.is_postrelease)
    return _by_version(there).get(wanted) or (_by_release(there).get(_release(wanted)) if whole else None)


@lru_cache(maxsize=256)
def _by_version(there: tuple[Release, ...]) -> Mapping[Version | None, Release]:
    return {version_of(one.version): one for one in there}


@lru_cache(maxsize=256)
def _by_release(there: tuple[Release, ...]) -> Mapping[tuple[int, ...], Release]:
    return {_release(known): one for known, one in _by_version(there).items() if known}


def _release(version: Version) -> tuple[int, ...]:
    return version.major, version.minor, version.micro


def of_component(matrix: Matrix, component: str, version: str) -> Iterator[Release]:
    """Yield the releases with this version of a component's distributions, except those without code."""
    return (one for one in named(matrix, component, version) if one.name not in PURE)


def named(matrix: Matrix, component: str, version: str) -> Iterator[Release]:
    """Yield the releases with this version of all of a component's distributions."""
    for name in DISTRIBUTIONS.get(component, (component,)):
        found = release_of(matrix, name, version)
        if found:
            yield found


def missing(matrix: Matrix, component: str, version: str) -> bool:
    """Return whether a component's tables begin before a release but lack it, as they lack every pre-release."""
    wanted = version_of(version)
    coded = (name for name in DISTRIBUTIONS.get(component, (component,)) if name not in PURE)
    there = [one for name in coded if (one := releases(matrix, name))]
    if wanted is None or any(of_component(matrix, component, version)):
        return False
    return any(wanted.is_prerelease or ((first := version_of(one[0].version)) and first < wanted) for one in there)


def unread(matrix: Matrix, component: str) -> tuple[str, ...]:
    """Return the distributions of a component that have no table."""
    return tuple(one for one in DISTRIBUTIONS.get(component, (component,)) if not has(matrix, one))


def jax_row(matrix: Matrix, version: str) -> Mapping[str, object] | None:
    """Return a release of JAX as a row, from its plugins: their CUDA majors and Python; None if none was read."""
    there = {cuda: release_of(matrix, PLUGIN.format(cuda), version) for cuda in (12, 13)}
    plugins = {cuda: one for cuda, one in there.items() if one and one.wheels}
    if (first := next(iter(plugins.values()), None)) is None:
        return None
    held = {"jax": first.version, "cuda": [*plugins], "requires_python": first.python.text}
    return {**first.stated, **held, "glibc": first.glibc.get("linux-x86_64")}


def plugin_row(matrix: Matrix, version: str, cuda: int) -> Mapping[str, object] | None:
    """Return, as a row, what a release of JAX's plugin requires of CUDA's parts; None if it was not read."""
    known = release_of(matrix, PLUGIN.format(cuda), version)
    if known is None or not known.requires:
        return None
    parts = {name: known.pin(name, extra="with-cuda") for name in known.names if name.startswith("nvidia-")}
    requires = {_part(name): span.text for name, span in parts.items() if span}
    return {**known.stated, "plugin": known.name, "versions": f"=={known.version}", "requires": requires}


def _part(distribution: str) -> str:
    """Return the name that rows use for a distribution's part of CUDA: nvidia-cuda-runtime-cu12 is cudart."""
    name = re.sub(r"^nvidia-(?:cuda-)?|-cu\d+$", "", distribution)
    return "cudart" if name == "runtime" else name


@lru_cache(maxsize=256)
def _environment(platform: str, python: str, extra: str) -> Mapping[str, str]:
    full = f"{python}.{99 if numbers(python)[2:] == () else numbers(python)[2]}"
    return {
        **MACHINES[platform],
        "extra": extra,
        "python_version": python,
        "python_full_version": full,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
        "implementation_version": full,
    }


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Requirement:
    from packaging.requirements import Requirement  # noqa: PLC0415 - a report may need none

    return Requirement(text)


@lru_cache(maxsize=4096)
def _joined(said: tuple[str, ...], name: str, platform: str, python: str, extra: str) -> str | None:
    """Return the combined range of all requirements on a distribution that apply in an environment, or None."""
    environment = dict(_environment(platform, python, extra))
    asked = (_parsed(one) for one in said if one.startswith(name))
    asked = (one for one in asked if one.name == name and (one.marker is None or one.marker.evaluate(environment)))
    spans = [str(one.specifier) for one in asked]
    return ",".join(dict.fromkeys(filter(None, spans))) if spans else None
