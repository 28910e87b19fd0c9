"""JAX: Python, CUDA, cuDNN, driver and GPU of each release, and what goes wrong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxRelease:
    """One release: its Pythons and the CUDA majors there are builds for."""

    version: str
    pythons: tuple[str, ...]
    cuda: tuple[int, ...]
    row: Row
    requires_python: str | None = None
    glibc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxBuild:
    """One release for one CUDA major; a field is None (or empty) where its source does not speak of it."""

    version: str
    cuda: int
    row: Row
    oldest_cuda: CudaVersion | None = None
    cudnn: str | None = None
    built_cudnn: str | None = None
    driver: DriverRelease | None = None
    oldest_gpu: ComputeCapability | None = None
    archs: tuple[CodeArch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What the plugin of some releases for one CUDA major requires of CUDA's parts, by name (nvcc, cudart, cublas)."""

    plugin: str
    versions: VersionRange
    requires: Mapping[str, VersionRange]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Versions of a library that go wrong with JAX, on GPUs from ``first_gpu`` to below ``end_gpu`` where these are."""

    library: str
    versions: str
    when: str
    what: str
    row: Row
    first_gpu: ComputeCapability | None = None
    end_gpu: ComputeCapability | None = None


def releases(matrix: Matrix) -> tuple[JaxRelease, ...]:
    """Give the releases that are known, oldest first."""
    return matrix.rows("jax", "releases", _release)


def release_of(matrix: Matrix, version: str) -> JaxRelease | None:
    """Return the release of exactly this version, or None: one between two rows may differ from both."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in releases(matrix) if wanted is not None and version_of(one.version) == wanted), None)


def build_of(matrix: Matrix, version: str, cuda: int) -> JaxBuild | None:
    """Give what a version needs in its build for a CUDA major, or None."""
    release = release_of(matrix, version)
    builds = (one for one in matrix.rows("jax", "builds", _build) if one.cuda == cuda)
    return next((one for one in builds if release and one.version == release.version), None)


def plugin_of(matrix: Matrix, version: str, cuda: int) -> Plugin | None:
    """Return what the plugin of a release for a CUDA major requires, or None where no row states it."""
    plugins = (one for one in matrix.rows("jax", "plugins", _plugin) if one.plugin == f"jax-cuda{cuda}-plugin")
    return next((one for one in plugins if one.versions.holds(version)), None)


def known(matrix: Matrix) -> tuple[Known, ...]:
    """Give the combinations that are known to go wrong."""
    return matrix.rows("jax", "known", _known)


def _release(line: Line) -> JaxRelease:
    majors = " and ".join(str(major) for major in line["cuda"])
    text = f"JAX {line['jax']} has builds for CUDA {majors} and needs Python {line['requires_python']}"
    return JaxRelease(
        version=line["jax"],
        pythons=tuple(line["python"]) if "python" in line else (),
        cuda=tuple(line["cuda"]),
        row=tables.row("jax", text, line),
        requires_python=line.get("requires_python"),
        glibc=line.get("glibc"),
    )


def _build(line: Line) -> JaxBuild:
    driver = line.get("driver")
    said = {"cuDNN": line.get("cudnn"), "driver": driver, "compute capability": line.get("min_cc")}
    needs = ", ".join(f"{name} {value}" for name, value in said.items() if value)
    text = f"JAX {line['jax']} for CUDA {line['cuda']} needs {needs or 'its own libraries'}"
    return JaxBuild(
        version=line["jax"],
        cuda=line["cuda"],
        row=tables.row("jax", text, line),
        oldest_cuda=CudaVersion.parse(line.get("oldest_cuda")),
        cudnn=line.get("cudnn"),
        built_cudnn=line.get("built_cudnn"),
        driver=DriverRelease(int(driver)) if driver and driver.isdecimal() else DriverRelease.parse(driver),
        oldest_gpu=ComputeCapability.parse(line.get("min_cc")),
        archs=tuple(tables.needed(CodeArch.parse(arch)) for arch in line.get("archs", ())),
    )


def _plugin(line: Line) -> Plugin:
    text = f"{line['plugin']} {line['versions']} requires {', '.join(map(' '.join, line['requires'].items()))}"
    return Plugin(
        plugin=line["plugin"],
        versions=VersionRange.parse(line["versions"]),
        requires={name: VersionRange.parse(span) for name, span in line["requires"].items() if span != "any"},
        row=tables.row("jax", text, line),
    )


def _known(line: Line) -> Known:
    return Known(
        library=line["library"],
        versions=line["versions"],
        when=line["when"],
        what=line["what"],
        row=tables.row("jax", f"{line['when']}: {line['what']}", line),
        first_gpu=ComputeCapability.parse(line.get("min_cc")),
        end_gpu=ComputeCapability.parse(line.get("below_cc")),
    )
