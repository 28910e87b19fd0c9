"""The compat libcuda, and CUDA errors 803 and 804."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.inventory import builds, driver_release, gpus
from gpustack.diagnose.machine.messages import grounds, heard, holding, said, value
from gpustack.diagnose.machine.values import because, copies, items, number, text, told
from gpustack.diagnose.rule import rule
from gpustack.model.command import PATH, either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rule import Rule
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue


MISMATCH, NOT_ON_THIS_GPU = 803, 804
ELSEWHERE = "known folder"  # not on the loader's way


@dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """The compat libcuda that the loader finds first, and the driver branches that its own note names."""

    path: str
    release: DriverRelease | None
    branches: tuple[int, ...]

    def pairs(self, driver: DriverRelease) -> bool | None:
        """Return whether it pairs with a kernel driver, by its note; None where it has none that says."""
        if not self.branches:
            return None
        return driver.branch in self.branches and (self.release is None or self.release.branch >= driver.branch)


def winner(facts: Facts) -> Compat | None:
    """Return the compat libcuda that was loaded, or that the loader would take; None where it takes another."""
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
    """Return what cuInit answered, or None where nobody asked it."""
    return number(told(facts, "libcuda"), "cu_init")


def _listed(branches: tuple[int, ...]) -> str:
    return ", ".join(f"R{branch}" for branch in sorted(branches))


def _folders(libcuda: JsonValue, path: str) -> list[str]:
    """Return the folders by which the loader comes to this file, as they are spelled on its path."""
    spelled = [text(copy, "path") or "" for copy in items(libcuda, "copies") if text(copy, "real") == path]
    return list(dict.fromkeys(one.rpartition("/")[0] for one in [*spelled, path] if one))


USUAL = "/usr/local/cuda/compat"
MOUNTED = "/usr/local/nvidia/lib64:/usr/local/nvidia/lib"  # where the container toolkit puts the driver


def _finding(record: Rule, code: int, facts: Facts, matrix: Matrix) -> Finding:
    """Return the finding that CUDA refuses the compat libcuda with this code, or will where it was not asked."""
    libcuda, found, row = told(facts, "libcuda"), winner(facts), matrix.cuda_codes.get(code)
    path = found.path if found else text(libcuda, "path") if facts.taken else None
    pair, answered = code == MISMATCH, asked(facts) == code
    seen = Because(component="libcuda", fact="copies", value=path, source="the loader's order")
    return record.finding(
        title=_title(path, code, facts, matrix),
        detail=_detail(found, code, facts, matrix),
        confidence=Confidence.CERTAIN if answered or (heard(facts, "cuda-804") and not pair) else Confidence.LIKELY,
        because=(
            *grounds(facts, f"cuda-{code}", "compat-folder", "tf-driver-mismatch"),
            *([because(facts, "libcuda", "cu_init"), seen] if path else []),
            *_smi(facts, matrix),
            *naming.of_driver(facts),
        ),
        row=row.row if row else None,
        fix=fixes.off_path(
            _folders(libcuda, path), "the folder of the compat libcuda (or out of ld.so.conf)", fixes.DOCTOR
        )
        if path
        else _without_compat(facts)
        if pair
        else _newer(facts, matrix),
    )


def of_compat(facts: Facts) -> bool:
    """Tell whether TensorFlow or JAX names a libcuda of another release than the module, and a compat package is it."""
    short = (one.values["client"].rpartition(".")[0] for one in holding(facts, "tf-driver-mismatch", "client"))
    spoken = [one.line for one in said(facts, "compat-folder")]
    return any(release in line for release in short if release for line in spoken)


def _title(path: str | None, code: int, facts: Facts, matrix: Matrix) -> str:
    driver = naming.driver_name(facts, matrix) or "the driver"
    what = f"The compat libcuda {path}" if path else "A compat libcuda is loaded that"
    if code == MISMATCH:
        return f"{what} does not pair with the kernel module of {driver} (CUDA error 803)"
    where = naming.gpu_names(facts) or "this GPU"
    return f"{what} is newer than {driver}, which {where} does not support (CUDA error 804)"


def _detail(found: Compat | None, code: int, facts: Facts, matrix: Matrix) -> str:
    own, release = naming.own_cuda(facts, matrix) or _told_of_driver(facts), driver_release(facts)
    wanted = _wanted(facts, matrix)
    if code == MISMATCH:
        parts = [f"An image brings a libcuda of its own (usually in {USUAL}), which is found before the driver's."]
        parts += ["The same is said after an update of the driver, until the module is loaded again."]
    else:
        parts = ["Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs only."]
        parts += [f"CUDA {wanted} came with {naming.native_driver(wanted, facts, matrix)}."] if wanted else []
    if found and found.branches:
        parts.append(f"By its own note it is for the branches {_listed(found.branches)}.")
    fits = [one.name for one in matrix.compats if found and release and release.branch in one.bases]
    parts += [f"Packages for this driver: {', '.join(fits)}."] if fits and code == MISMATCH else []
    parts += [f"The driver itself is of CUDA {own}."] if own else []
    return " ".join(parts)


def _told_of_driver(facts: Facts) -> CudaVersion | None:
    """Return the CUDA version that somebody names as that of the driver."""
    named = (copy.version for copy in copies(facts, "cuda-toolkit") if text(copy.facts, "whose") == "driver")
    return next((CudaVersion.parse(one) for one in named if one), None)


def _smi(facts: Facts, matrix: Matrix) -> tuple[Because, ...]:
    """Return what nvidia-smi betrays: a CUDA version above that of the driver's own branch is the compat libcuda's."""
    shown, own = CudaVersion.decode(number(told(facts, "nvml"), "cuda_version")), naming.own_cuda(facts, matrix)
    if not shown or not own or shown <= own:
        return ()
    said = f"CUDA {shown}, though the driver's own branch is of CUDA {own}: that of the compat libcuda"
    return (Because(component="nvml", fact="cuda_version", value=said, source="nvidia-smi"),)


def _wanted(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the image: what is here and newer than the driver's own."""
    own = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    held = [build.cuda for build in builds(facts)]
    held += [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit")]
    held += [CudaVersion.decode(number(told(facts, "nvml"), "cuda_version"))]
    return next((one for one in held if one and own and one > own), None)


def _without_compat(facts: Facts) -> Fix:
    folder = value(facts, "compat-folder", "path") or USUAL
    return Fix(
        text=f"Have the driver's own libcuda found first: take {folder} off LD_LIBRARY_PATH and out of "
        "/etc/ld.so.conf.d, in the image or when the container starts; or remove the libcuda that the image brings.",
        commands=either(
            sh("docker run --gpus all -e LD_LIBRARY_PATH={folder} …", folder=PATH(MOUNTED)),
            sh(
                "sudo sed -i --follow-symlinks '\\,cuda.*/compat,s/^/#/' "
                "$(grep -ls 'cuda.*/compat' /etc/ld.so.conf.d/*.conf) && sudo ldconfig"
            ),
        ),
        needs_root=True,
        verify=sh("ldconfig -p | grep libcuda.so.1"),
    )


def _newer(facts: Facts, matrix: Matrix) -> Fix:
    own, wanted = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix), _wanted(facts, matrix)
    newer = naming.native_driver(wanted, facts, matrix) if wanted else "a driver of the image's CUDA or newer"
    older = f"on CUDA {own} or older" if own else "for the driver's own CUDA"
    return Fix(
        text=f"On the machine itself, install {newer}. Or take an image or build {older}, or keep the compat folder "
        f"({USUAL}) off the library path.",
        commands=fixes.driver(facts, matrix),
        needs_root=True,
        needs_reboot=True,
        verify=sh("nvidia-smi"),
    )


@rule(
    "compat-libs-803",
    layer=Layer.DRIVER,
    component="libcuda",
    severity=Severity.ERROR,
    explained_by=("driver-library-mismatch",),
)
def compat_libs_803(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A compat libcuda that does not pair with the kernel driver is found first (CUDA error 803).

    The cuda-compat package brings a libcuda of a newer driver branch, for older kernel drivers of certain branches,
    which newer ones name in a note of their own. Here it is found before the driver's own and does not pair with the
    kernel module: it is older than the module, or the module's branch is none that it was made for. Take it off the
    library path, or install the package that pairs.
    """
    found, driver = winner(facts), driver_release(facts)
    foretold = asked(facts) is None and found and driver and found.pairs(driver) is False
    if heard(facts, "cuda-803") or of_compat(facts) or (found and (asked(facts) == MISMATCH or foretold)):
        yield _finding(compat_libs_803, MISMATCH, facts, matrix)


# Product lines for consumers. Forward compatibility is for data-centre GPUs and chosen workstation cards alone.
# Source: NVIDIA CUDA Compatibility guide, "Forward Compatibility" (read 2026-11-21).
CONSUMER = re.compile(r"\bGeForce\b|\bTITAN\b")


@rule(
    "forward-compat-804",
    layer=Layer.DRIVER,
    component="libcuda",
    severity=Severity.ERROR,
    explained_by=("driver-library-mismatch",),
)
def forward_compat_804(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A compat libcuda of a newer CUDA is loaded on a GPU that cannot use it (CUDA error 804).

    Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs. On GeForce and most
    workstation cards CUDA refuses it. Take the compat folder off the library path and use a build for this driver, or
    bring the driver up to date.
    """
    found, driver = winner(facts), driver_release(facts)
    newer = found and driver and found.release and found.release.branch > driver.branch
    consumer = bool(gpus(facts)) and all(CONSUMER.search(gpu.name) for gpu in gpus(facts))
    foretold = asked(facts) is None and newer and consumer
    if heard(facts, "cuda-804") or asked(facts) == NOT_ON_THIS_GPU or foretold:
        yield _finding(forward_compat_804, NOT_ON_THIS_GPU, facts, matrix)
