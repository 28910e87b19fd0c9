"""Which copy of a CUDA library the dynamic loader takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, value
from gpustack.diagnose.machine.lacking import (
    LD_LIBRARY_PATH,
    asker,
    folders,
    lacking,
    loaded,
    off_path,
    path_grounds,
    place,
)
from gpustack.diagnose.machine.libraries import NCCL, OF_CUDA, Clash, clashes, found_by
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import because, number, table, text, texts, told, version
from gpustack.diagnose.machine.wheels import overwritten
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import DISTRIBUTION, SOME_PYTHON, requirement, sh
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpustack.diagnose.machine.inventory import Build
    from gpustack.diagnose.machine.lacking import Lacking
    from gpustack.matrix import Matrix


STUB, NVML_STUB = 34, "stub-nvml"


@rule("stub-on-loader-path", Layer.ENVIRONMENT, "libcuda", explained_by=("wsl-libcuda-shadowed",))
def stub_on_loader_path(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """LD_LIBRARY_PATH names CUDA's stub libraries.

    The toolkit ships stubs of libcuda and libnvidia-ml to link against on machines without a driver. They hold no
    driver: a program that loads one gets error 34 or finds no GPU. They belong on LIBRARY_PATH, which the compiler
    reads, and never on LD_LIBRARY_PATH, which the loader reads. Take the folder off it.
    """
    libcuda = told(facts, "libcuda")
    seen = texts(libcuda, "stub_on_path", LD_LIBRARY_PATH)
    named = seen or [one for one in folders(facts) if one.rstrip("/").endswith("/stubs")]
    taken = text(libcuda, "kind") == "stub" or number(libcuda, "cu_init") == STUB or heard(facts, NVML_STUB)
    if not named and not taken:
        return
    path = text(libcuda, "path")
    where = ", ".join(named) or path or ""
    stubs = named or ([path.rpartition("/")[0]] if path else [])
    yield stub_on_loader_path.finding(
        severity=Severity.ERROR if taken else Severity.WARNING,
        confidence=Confidence.CERTAIN if taken or seen else Confidence.LIKELY,
        title=f"{'Programs load' if taken else 'LD_LIBRARY_PATH names'} CUDA's stub library{where and f' ({where})'}",
        because=(
            *(because(facts, "libcuda", "stub_on_path", LD_LIBRARY_PATH) for _ in seen[:1]),
            *(path_grounds(facts) if named and not seen else ()),
            *(because(facts, "libcuda", name) for name in ("path", "cu_init") if libcuda.get(name) is not None),
            *grounds(facts, NVML_STUB),
        ),
        fix=fixes.off_path(stubs, "the stubs", fixes.DOCTOR),
    )


@rule("stub-on-library-path", Layer.ENVIRONMENT, "libcuda", Severity.INFO)
def stub_on_library_path(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """LIBRARY_PATH names CUDA's stub libraries. That is right, and does no harm.

    The compiler reads LIBRARY_PATH when it links; the stubs let it link CUDA programs on machines without a driver. The
    loader does not read it when programs run, so they get the real driver.
    """
    folders = texts(told(facts, "libcuda"), "stub_on_path", "LIBRARY_PATH")
    if folders:
        yield stub_on_library_path.finding(
            title=f"LIBRARY_PATH names CUDA's stubs ({', '.join(folders)}): compilers use them, programs do not",
            because=(because(facts, "libcuda", "stub_on_path", "LIBRARY_PATH"), because(facts, "libcuda", "path")),
        )


OLDER = "nvjitlink-older-said"
CANNOT, USERS = "jax-cannot-load", ("cuSPARSE", "cuSOLVER")
VERSION = re.compile(r"_(\d{1,3})_(\d{1,3})$", re.ASCII)
IMPORTS = {"torch": sh('python -c "import torch"'), "jax": sh('python -c "import jax; print(jax.devices())"')}
BY_PATH = "A folder on LD_LIBRARY_PATH, usually of an older CUDA toolkit, comes before the wheel's own."


@rule("nvjitlink-clash", Layer.LIBRARY, "nvjitlink", explained_by=("wheel-files-overwritten",))
def nvjitlink_clash(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The libnvJitLink that is found first is older than the libcusparse that needs it.

    cuSPARSE and cuSOLVER call CUDA's linker by names that bear its version (__nvJitLinkComplete_12_4), and an older
    libnvJitLink has no such names: importing the framework fails with "undefined symbol: __nvJitLink…, version
    libnvJitLink.so.12". Usually LD_LIBRARY_PATH names an older toolkit. Remove that folder from it, or reinstall the
    wheel.
    """
    lack = lacking(facts, "nvjitlink")
    for mark in dict.fromkeys(one.build and one.build.mark for one in lack):
        yield _linker([one for one in lack if mark == (one.build and one.build.mark)], facts, matrix)
    found = None if lack else _loaded(facts)
    if found:
        title, grounds_, program = found
        yield nvjitlink_clash.finding(
            title=title,
            detail=f"libcusparse and libnvJitLink must be from one release. {BY_PATH}",
            confidence=Confidence.LIKELY,
            because=(*grounds_, *path_grounds(facts)),
            fix=off_path(facts, "libnvJitLink", IMPORTS[program]),
        )


def _linker(lack: Sequence[Lacking], facts: Facts, matrix: Matrix) -> Finding:
    """Return what a library wants of a linker that lacks it: as both were read, or as the loader said."""
    first, build, path = lack[0], lack[0].build, path_grounds(facts)
    found = [(int(match[1]), int(match[2])) for match in map(VERSION.search, (one.symbol for one in lack)) if match]
    wanted = ".".join(map(str, max(found))) if found else "a newer one"
    cuda = CudaVersion.parse(wanted)
    where = f"{first.found or ''} from {first.path.rpartition('/')[0]}".strip() if first.path else ""
    where = where or (f"from {there}" if (there := place(facts, "nvjitlink", cuda)) else "")
    soname = next((one.soname for one in lack if one.soname), "libnvJitLink")
    asking = next((one.asking for one in lack if one.asking), "A library")
    return nvjitlink_clash.finding(
        instance=build.mark if build else None,
        severity=Severity.WARNING if build and build.ran_on_gpu else Severity.ERROR,
        title=f"{asking} needs {f'libnvJitLink of CUDA {wanted}' if cuda else 'a newer libnvJitLink'}, but an older "
        f"{soname} {'will be' if build else 'is'} loaded{f', {where}' if where else ''}",
        detail=f"It has no {first.symbol if cuda else 'symbols of that release'}. {BY_PATH}",
        confidence=Confidence.CERTAIN if path and not build else Confidence.LIKELY,
        because=(
            *(one.because for one in lack[:2]),
            *(() if build else path),
            *(one.because for one in toolchain_toolkits(facts) if not build and cuda and one.cuda < cuda),
        ),
        fix=_fix(build, first.path, facts, matrix)
        if build and first.path
        else off_path(facts, "libnvJitLink", IMPORTS["torch"]),
    )


def _loaded(facts: Facts) -> tuple[str, tuple[Because, ...], str] | None:
    """Return the older linker that is loaded, by its place or as people say, the grounds, and what fails by it."""
    one, held = next(iter(loaded(facts, "libnvJitLink")), None), folders(facts)
    failed = grounds(facts, CANNOT, "cannot-load-library", "undefined-symbol", most=2)
    if one and failed:
        soname, path = one.values["soname"], one.values["path"]
        by = grounds(facts, "library-needed-by", most=1) if asker(facts, soname) else ()
        title = f"{soname} is loaded from {path.rpartition('/')[0]}, not from the wheels that need a newer one"
        return title, (*failed, because_said(one), *by), "jax"
    if held and not one and any(said.values["library"] in USERS for said in holding(facts, CANNOT, "library")):
        title = f"JAX cannot load its CUDA library: LD_LIBRARY_PATH puts {held[0]} before the wheels"
        return title, grounds(facts, CANNOT, most=2), "jax"
    if heard(facts, OLDER):
        wanted = value(facts, OLDER, "wanted")
        title = (
            f"The libnvJitLink that is loaded is older than libcusparse needs{f' (CUDA {wanted})' if wanted else ''}"
        )
        return title, grounds(facts, OLDER, most=2), "torch"
    return None


def _fix(build: Build, path: str, facts: Facts, matrix: Matrix) -> Fix:
    verify, folder = fixes.verify_loaded(build), path.rpartition("/")[0]
    step, spelled = found_by(build, "libnvJitLink", path, facts)
    if step == LD_LIBRARY_PATH:
        return fixes.off_path([spelled or folder], folder, verify)
    pins = table(build.copy.facts, "pins")
    wheel = next((name for name in sorted(pins) if name.startswith("nvidia-nvjitlink")), None)
    usual = pinned("nvidia-nvjitlink-cu12", facts, matrix, build.copy.environment)
    wanted = requirement(wheel, f"=={text(pins, wheel)}") if wheel else sh("--upgrade {wheel}", wheel=usual)
    return fixes.advice(
        "Install the libnvJitLink that matches the others.",
        sh("{python} -m pip install --force-reinstall --no-deps {wanted}", python=build.python, wanted=wanted),
        verify=verify,
    )


# Whose symbols, missing in the copy that was loaded, show that it is a foreign one.
OWNERS = (
    *("cublas", "cublaslt", "cufft", "curand", "cusolver", "cusparse", "cusparselt", "nvrtc", "cupti"),
    "cuda-runtime",
)
STATUS = "cublas-status"
BLAMED = "ld-library-path-blamed-said"


@rule(
    "cuda-lib-shadowed",
    Layer.LIBRARY,
    "cuda-runtime",
    in_one_python=True,
    explained_by=("nvjitlink-clash", "wheel-files-overwritten"),
)
def cuda_lib_shadowed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A framework loads a CUDA library (cuBLAS, cuFFT, …) of the system instead of its own.

    The loader searches LD_LIBRARY_PATH before the folders that a wheel names, so a toolkit there puts its libraries
    before those that the framework was built and tested with. An older one lacks functions (undefined symbol:
    cublasLt…) or fails later (CUBLAS_STATUS_NOT_INITIALIZED); a newer one usually works, and is only a note. Remove the
    folder from LD_LIBRARY_PATH: wheels bring what they need.
    """
    found = [*clashes(facts, *OF_CUDA), *(one for one in clashes(facts, NCCL) if not one.older)]
    for mark in dict.fromkeys(one.mark for one in found):
        yield _shadowed(sorted((one for one in found if one.mark == mark), key=lambda one: not one.older))
    lack = [one for one in lacking(facts, *OWNERS) if one.by_a_framework]
    refused = value(facts, STATUS, "status") == "INVALID_VALUE" and bool(path_grounds(facts))
    if not found and (lack or (heard(facts, STATUS) and (refused or heard(facts, BLAMED)))):
        yield _symbols(lack[:2], facts)


def _shadowed(found: Sequence[Clash]) -> Finding:
    first = found[0]
    more = f", and {len(found) - 1} more of its libraries" if found[1:] else ""
    return cuda_lib_shadowed.finding(
        instance=first.mark,
        severity=min((one.severity for one in found), key=tuple(Severity).index),
        component=first.library.component,
        title=f"{first.who} {first.how} {first.library.name} {first.found} instead of its own {first.own}{more}",
        detail="; ".join(
            f"{one.library.name} {one.found}{f' from {one.one.path}' if one.one else ''}, own {one.own}"
            for one in found
        ),
        confidence=first.confidence,
        because=tuple(ground for one in found for ground in one.because),
        fix=first.fix,
    )


def _symbols(lack: Sequence[Lacking], facts: Facts) -> Finding:
    """Return the library that lacks what another of its release asks of it, or fails where the path is to blame."""
    first = next(iter(lack), None)
    owner = first.owner if first else "cublas"
    soname = (first and first.soname) or f"lib{owner}"
    where = place(facts, owner)
    release = f"PyTorch {version_}" if (version_ := version(facts, "pytorch")) else "the framework"
    lacks = f": it lacks {first.symbol}" if first and first.symbol != soname else ""
    return cuda_lib_shadowed.finding(
        component=owner,
        title=f"A different {soname} is loaded instead of the one for {release}{lacks}",
        detail=(f"{first.asking or 'A library'} was released with a newer {soname}. " if first else "")
        + (
            f"The other one is from {where}."
            if where
            else "Usually it comes from LD_LIBRARY_PATH or the system's CUDA."
        ),
        confidence=Confidence.LIKELY if first else Confidence.POSSIBLE,
        because=(
            *(one.because for one in lack),
            *(() if first else grounds(facts, STATUS, most=1)),
            *path_grounds(facts),
            *(one.because for one in toolchain_toolkits(facts)[:1]),
        ),
        fix=off_path(facts, soname, fixes.TORCH_MULTIPLIES),
    )


FILE, REFUSED, SEVERAL = "libnccl.so", ("nccl-too-old", "nccl-mismatch"), 2
ONE_FILE = "nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one installed stays."
ONE_FIRST = "An older one from the system, an image or another package is loaded first."


@rule("nccl-version-clash", Layer.LIBRARY, "nccl")
def nccl_version_clash(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The NCCL that a framework loads is not the one that it was built with.

    NCCL carries the communication between GPUs. An older one lacks functions that the framework calls (undefined
    symbol: ncclMemFree, ncclCommRegister …), or fails once a second GPU takes part. It comes from LD_LIBRARY_PATH, from
    the system, or from a second wheel: nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one
    installed stays. Keep one of them, of the version that the framework requires, and take others off the loader's
    path.
    """
    older = {one.mark: one for one in clashes(facts, NCCL) if one.older and one.build}
    written = [
        one
        for one in overwritten(facts)
        if one.named(FILE) and not (one.severity is Severity.INFO and one.mark in older)
    ]
    for one in written:
        yield nccl_version_clash.finding(
            instance=one.mark,
            severity=one.severity,
            title=f"{' and '.join(one.owners)} both write {one.file}: {one.whose}",
            detail=one.detail,
            because=one.because,
            fix=one.fix,
        )
    for clash in older.values():
        yield nccl_version_clash.finding(
            instance=clash.mark,
            severity=clash.severity,
            title=f"{clash.who} {clash.how} NCCL {clash.found} and was built with {clash.own}",
            confidence=clash.confidence,
            because=clash.because,
            fix=clash.fix,
        )
    if not written and not older:
        yield from _two(facts)


def _two(facts: Facts) -> Iterator[Finding]:
    """Return the two releases of NCCL that wheels, NCCL itself or the loader speak of."""
    lack, held = lacking(facts, "nccl"), table(told(facts, "packages"), "distributions")
    wheels = {name: str(held[name]) for name in sorted(held) if name.startswith("nvidia-nccl")}
    complained, both = bool(lack) or heard(facts, *REFUSED), len(wheels) >= SEVERAL
    if not complained and not both:
        return
    said = [one.values for one in holding(facts, "library-version", "version", "library")]
    named = [one["version"] for one in said if "nccl" in one["library"].lower()]
    named += [number for one in clashes(facts, NCCL) for number in (one.found, one.own)]
    pairs = [f"{name} {number}" for name, number in wheels.items()] if both else sorted({*named}, key=numbers)
    spelled = f" ({' and '.join(pairs)})" if pairs else ""
    kept = max(wheels, key=lambda one: numbers(wheels[one])) if both else None  # the older one usually lacks it
    asking = f"{lack[0].asking} was built with a newer NCCL. " if lack and lack[0].asking else ""
    yield nccl_version_clash.finding(
        severity=Severity.ERROR if complained else Severity.INFO,
        title=f"Two NCCL releases are installed{spelled}"
        + (f": the one that is loaded lacks {lack[0].symbol}" if lack else ""),
        detail=f"{asking}A framework loads one libnccl.so.2. {ONE_FILE if both else ONE_FIRST}",
        confidence=Confidence.CERTAIN if complained and spelled else Confidence.LIKELY,
        because=(
            *(one.because for one in lack[:2]),
            *grounds(facts, *REFUSED, most=2),
            *(because(facts, "packages", "distributions", name) for name in wheels),
            *(grounds(facts, "library-version", most=2) if not wheels else ()),
            *path_grounds(facts),
        ),
        fix=_removed(wheels, kept)
        if kept
        else off_path(facts, "NCCL", sh('python -c "import torch; print(torch.cuda.nccl.version())"')),
    )


def _removed(wheels: Mapping[str, str], keep: str) -> Fix:
    """Return how to remove wheels that write over each other, and to reinstall one of them."""
    return fixes.advice(
        f"Remove {' and '.join(wheels)}, then install {keep}=={wheels[keep]} alone: removing either of them deletes "
        "files of both.",
        sh("{python} -m pip uninstall -y {wheels}", python=SOME_PYTHON, wheels=tuple(map(DISTRIBUTION, wheels))),
        sh(
            "{python} -m pip install --force-reinstall --no-deps {keep}",
            python=SOME_PYTHON,
            keep=requirement(keep, f"=={wheels[keep]}"),
        ),
        verify=fixes.DOCTOR_DEEP,
    )
