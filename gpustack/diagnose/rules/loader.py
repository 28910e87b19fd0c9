"""Which copy of a CUDA library the dynamic loader takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.cudnn import (
    asker,
    cuda_number,
    folders,
    lacking,
    loaded,
    off_path,
    older,
    path_grounds,
    place,
    removed,
)
from gpustack.diagnose.machine.inventory import builds
from gpustack.diagnose.machine.libraries import LD_LIBRARY_PATH, clash
from gpustack.diagnose.machine.messages import because_said, grounds, heard, holding, value
from gpustack.diagnose.machine.toolchain import toolchain_toolkits
from gpustack.diagnose.machine.values import because, because_of, items, number, table, text, texts, told, version
from gpustack.diagnose.machine.values import told as told_
from gpustack.diagnose.machine.wheels import Overwritten, overwritten
from gpustack.diagnose.pinning import pinned
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import SOME_PYTHON, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.diagnose.machine.cudnn import Lacking
    from gpustack.diagnose.machine.inventory import Build
    from gpustack.diagnose.machine.libraries import Clash
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue


STUB = 34


@rule("stub-on-loader-path", layer=Layer.ENVIRONMENT, component="libcuda", severity=Severity.ERROR)
def stub_on_loader_path(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """LD_LIBRARY_PATH names CUDA's stub libraries.

    The toolkit ships stubs of libcuda and libnvidia-ml to link against on machines without a driver. They hold no
    driver: a program that loads one gets error 34 or finds no GPU. They belong on LIBRARY_PATH, which the compiler
    reads, and never on LD_LIBRARY_PATH, which the loader reads. Take the folder off it.
    """
    libcuda = told(facts, "libcuda")
    folders = texts(libcuda, "stub_on_path", "LD_LIBRARY_PATH")
    taken = text(libcuda, "kind") == "stub" or number(libcuda, "cu_init") == STUB
    if not folders and not taken:
        return
    where = ", ".join(folders) or text(libcuda, "path") or "a stub"
    yield stub_on_loader_path.finding(
        severity=Severity.ERROR if taken else Severity.WARNING,
        title=f"{'Programs load' if taken else 'LD_LIBRARY_PATH names'} CUDA's stub library ({where})",
        because=(
            because(facts, "libcuda", "stub_on_path", "LD_LIBRARY_PATH"),
            because(facts, "libcuda", "path"),
            because(facts, "libcuda", "cu_init"),
        ),
        fix=fixes.off_path(folders or [where.rpartition("/")[0]], "the stubs", fixes.DOCTOR),
    )


@rule("stub-on-library-path", layer=Layer.ENVIRONMENT, component="libcuda", severity=Severity.INFO)
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


@rule("nvjitlink-clash", layer=Layer.LIBRARY, component="nvjitlink", severity=Severity.ERROR)
def nvjitlink_clash(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The libnvJitLink that is found first is older than the libcusparse that needs it.

    cuSPARSE and cuSOLVER call CUDA's linker by names that bear its version (__nvJitLinkComplete_12_4), and an older
    libnvJitLink has no such names: importing the framework fails with "undefined symbol: __nvJitLink…, version
    libnvJitLink.so.12". Mostly LD_LIBRARY_PATH names an older toolkit. Take its folder off, or reinstall the wheel.
    """
    yield from (
        list(_nvjitlink_seen(facts, matrix)) or list(_nvjitlink_said(facts)) or list(_loaded(facts)) or _spoken(facts)
    )


def _nvjitlink_said(facts: Facts) -> Iterator[Finding]:
    """Return the symbol that the loader did not find in libnvJitLink."""
    lack = lacking(facts, "nvjitlink")
    if not lack:
        return
    wanted = _newest(tuple(one.symbol for one in lack))
    cuda = CudaVersion.parse(wanted)
    release = f"libnvJitLink of CUDA {wanted}" if cuda else "a newer libnvJitLink"
    soname = next((one.soname for one in lack if one.soname), "libnvJitLink")
    where = place(facts, "nvjitlink", cuda)
    asking = next((one.asking for one in lack if one.asking), "a library")
    yield nvjitlink_clash.finding(
        title=f"{asking} wants {release} and an older {soname} is loaded" + (f", that of {where}" if where else ""),
        detail=f"It has no {lack[0].symbol if cuda else 'symbols of that release'}. Mostly LD_LIBRARY_PATH names the "
        "folder of an older CUDA toolkit, which goes before the wheel's own.",
        confidence=Confidence.CERTAIN if path_grounds(facts) else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *path_grounds(facts),
            *(one.because for one in toolchain_toolkits(facts) if cuda and one.cuda < cuda),
        ),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import torch"')),
    )


def _loaded(facts: Facts) -> Iterator[Finding]:
    """Return the libnvJitLink that the loader took from outside the wheels, where what needs it could not be loaded."""
    one = next(iter(loaded(facts, "libnvJitLink")), None)
    if one is None and any(found.values["library"] in USERS for found in holding(facts, CANNOT, "library")):
        yield from _by_path(facts)
    failed = grounds(facts, CANNOT, "cannot-load-library", "undefined-symbol", most=2)
    if one is None or not failed:
        return
    soname, path = one.values["soname"], one.values["path"]
    by = asker(facts, soname)
    yield nvjitlink_clash.finding(
        title=f"{soname} is loaded from {path.rpartition('/')[0]}, not from the wheels that need a newer one",
        detail=f"{by.rpartition('/')[2] or 'libcusparse'} of the wheel calls that library and could not be loaded. "
        "A folder on LD_LIBRARY_PATH goes before the wheel's own.",
        confidence=Confidence.LIKELY,
        because=(
            *failed,
            because_said(one),
            *(one for one in grounds(facts, "library-needed-by", most=1) if by),
            *path_grounds(facts),
        ),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import jax; print(jax.devices())"')),
    )


def _spoken(facts: Facts) -> Iterator[Finding]:
    """Return what somebody says of an older libnvJitLink, in words."""
    if not heard(facts, OLDER):
        return
    wanted = value(facts, OLDER, "wanted")
    yield nvjitlink_clash.finding(
        title=f"An older libnvJitLink is loaded than libcusparse wants{f' (CUDA {wanted})' if wanted else ''}",
        detail="libcusparse and libnvJitLink must be of one release. Mostly LD_LIBRARY_PATH names an older toolkit.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, OLDER, most=2), *path_grounds(facts)),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import torch"')),
    )


def _by_path(facts: Facts) -> Iterator[Finding]:
    """Return the folder on LD_LIBRARY_PATH that comes before the wheels whose cuSPARSE JAX cannot load."""
    held = folders(facts)
    if not held:
        return
    yield nvjitlink_clash.finding(
        title=f"JAX cannot load its library of CUDA: LD_LIBRARY_PATH puts {held[0]} before the wheels",
        detail="The libnvJitLink of that folder is taken in the place of the wheel's, and an older one lacks what "
        "libcusparse calls.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, CANNOT, most=2), *path_grounds(facts)),
        fix=off_path(facts, "libnvJitLink", sh('python -c "import jax; print(jax.devices())"')),
    )


def _nvjitlink_seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for build in builds(facts):
        linker = table(build.copy.facts, "linker")
        lacking, path = texts(linker, "lacking"), text(linker, "path")
        if not lacking or not path:
            continue
        asking = (text(linker, "by") or "a library").rpartition("/")[2]
        yield nvjitlink_clash.finding(
            instance=build.mark,
            severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
            title=f"{build.name} will load libnvJitLink {text(linker, 'newest') or ''}".rstrip()
            + f" from {path.rpartition('/')[0]}, and {asking} wants {_newest(lacking)}",
            detail=f"It has no {lacking[0]}.",
            confidence=Confidence.LIKELY,
            because=(
                because_of(facts, build.component, build.copy, "linker", "lacking"),
                Because(component=build.component, fact="linker.path", value=path, source=_step(build, path)),
            ),
            fix=_fix(build, path, facts, matrix),
        )


def _newest(names: tuple[str, ...]) -> str:
    """Return the highest version among names."""
    found = [(int(match[1]), int(match[2])) for match in map(VERSION.search, names) if match]
    return ".".join(map(str, max(found))) if found else "a newer one"


def _candidates(build: Build) -> list[JsonValue]:
    search = table(build.copy.facts, "search")
    return [one for name in sorted(search) if name.startswith("libnvJitLink.so") for one in items(search, name)]


def _step(build: Build, path: str) -> str:
    return next((text(one, "step") or "" for one in _candidates(build) if text(one, "path") == path), "")


def _fix(build: Build, path: str, facts: Facts, matrix: Matrix) -> Fix:
    verify, folder = fixes.verify_loaded(build), path.rpartition("/")[0]
    if _step(build, path) == LD_LIBRARY_PATH:
        spelled = [text(one, "folder") for one in _candidates(build) if text(one, "path") == path]
        return fixes.off_path([spelled[0] or folder], folder, verify)
    pins = table(build.copy.facts, "pins")
    wheel = next((name for name in sorted(pins) if name.startswith("nvidia-nvjitlink")), None)
    usual = pinned("nvidia-nvjitlink-cu12", facts, matrix, build.copy.environment)
    wanted = requirement(wheel, f"=={text(pins, wheel)}") if wheel else sh("--upgrade {wheel}", wheel=usual)
    return Fix(
        text="Install the libnvJitLink that goes with the others.",
        commands=(
            sh("{python} -m pip install --force-reinstall --no-deps {wanted}", python=build.python, wanted=wanted),
        ),
        verify=verify,
    )


# Library, component that tells its version, wheel. In the first two an older one breaks what was built with a newer.
DECISIVE = (("libcublas", "cublas", "nvidia-cublas"), ("libcublasLt", "cublaslt", "nvidia-cublas"))
OTHERS = (
    ("libcudart", "cuda-runtime", "nvidia-cuda-runtime"),
    ("libnvrtc", "nvrtc", "nvidia-cuda-nvrtc"),
    ("libcufft", "cufft", "nvidia-cufft"),
    ("libcurand", "curand", "nvidia-curand"),
    ("libcusolver", "cusolver", "nvidia-cusolver"),
    ("libcusparse", "cusparse", "nvidia-cusparse"),
)
# Whose symbols, missing in the copy that was loaded, show that it is a foreign one.
OWNERS = (
    "cublas",
    "cublaslt",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
    "cusparselt",
    "nvrtc",
    "cupti",
    "cuda-runtime",
)
STATUS = "cublas-status"
OUTDATED = "jax-library-older"
NAMED_BY_JAX = {"cuda": "cuda-runtime"}
WHEELS = {
    "cuda-runtime": "nvidia-cuda-runtime",
    "cublas": "nvidia-cublas",
    "cufft": "nvidia-cufft",
    "cupti": "nvidia-cuda-cupti",
    "cusolver": "nvidia-cusolver",
    "cusparse": "nvidia-cusparse",
}
BLAMED = "ld-library-path-blamed-said"
NCCL = ("libnccl", "nccl", "nvidia-nccl")


@rule("cuda-lib-shadowed", layer=Layer.LIBRARY, component="cuda-runtime", severity=Severity.ERROR, in_one_python=True)
def cuda_lib_shadowed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A framework loads a CUDA library (cuBLAS, cuFFT, …) of the system in the place of its own.

    The loader looks into LD_LIBRARY_PATH before the folders that a wheel names, so a toolkit there puts its libraries
    before those that the framework was built and tested with. An older one lacks functions (undefined symbol:
    cublasLt…) or fails later (CUBLAS_STATUS_NOT_INITIALIZED); a newer one mostly works, and is only told. Take the
    folder off LD_LIBRARY_PATH: wheels bring what they need.
    """
    found = list(_shadowed_seen(facts))
    yield from found or _of_jax(facts) or _shadowed_said(facts)


def _of_jax(facts: Facts) -> tuple[Finding, ...]:
    """Return the library of CUDA of which JAX says that it is older than the one that it was built with."""
    message = next(iter(holding(facts, OUTDATED, "library", "found", "built")), None)
    if message is None:
        return ()
    library = message.values["library"]
    component = NAMED_BY_JAX.get(library.lower(), library.lower())
    if component not in WHEELS:
        return ()
    loaded, built = (cuda_number(message.values[name], library.lower()) for name in ("found", "built"))
    wheel = next(
        (one for one in table(told(facts, "packages"), "distributions") if one.startswith(WHEELS[component])), None
    )
    own = text(table(told(facts, "packages"), "distributions"), wheel) if wheel else None
    proper = bool(own and not older(own, built))
    jax = f"JAX {release}" if (release := version(facts, "jax")) else "JAX"
    return (
        cuda_lib_shadowed.finding(
            component=component,
            title=f"{jax} loads {library} {loaded} ({message.values['found']}) and was built with {built}"
            f" ({message.values['built']})",
            detail=(
                f"{wheel} {own} is installed as a wheel, so an older one of the system is found before it, "
                if proper
                else "An older one is found first, "
            )
            + "mostly by LD_LIBRARY_PATH or an older toolkit.",
            confidence=Confidence.CERTAIN if proper else Confidence.LIKELY,
            because=(
                because_said(message),
                *((because(facts, "packages", "distributions", wheel),) if wheel else ()),
                *path_grounds(facts),
            ),
            fix=off_path(facts, library, sh('python -c "import jax; print(jax.devices())"')),
        ),
    )


def _shadowed_said(facts: Facts) -> Iterator[Finding]:
    """Return the library that lacks what another of its release asks of it."""
    lack = [one for one in lacking(facts, *OWNERS) if one.by_a_framework]
    invalid = value(facts, STATUS, "status") == "INVALID_VALUE" and bool(path_grounds(facts))
    blamed = heard(facts, STATUS) and (invalid or heard(facts, BLAMED))
    if not lack and not blamed:
        return
    first = lack[0] if lack else None
    soname = (first.soname or f"lib{first.owner}") if first else "libcublas"
    where = place(facts, first.owner if first else "cublas")
    release = f"PyTorch {version_}" if (version_ := version(facts, "pytorch")) else "the framework"
    yield cuda_lib_shadowed.finding(
        component=first.owner if first else "cublas",
        title=f"Another {soname} is loaded in the place of the one that belongs to {release}"
        + (f": it has no {first.symbol}" if first and first.symbol != soname else ""),
        detail=(f"{first.asking or 'A library'} was released with a newer {soname}. " if first else "")
        + (f"The other one is that of {where}." if where else "Mostly LD_LIBRARY_PATH or the system's CUDA gives it."),
        confidence=Confidence.LIKELY if first else Confidence.POSSIBLE,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *(grounds(facts, STATUS, most=1) if not lack else ()),
            *path_grounds(facts),
            *(one.because for one in toolchain_toolkits(facts)[:1]),
        ),
        fix=off_path(
            facts,
            soname,
            sh('python -c "import torch; print(torch.ones(2, 2, device=0) @ torch.ones(2, 2, device=0))"'),
        ),
    )


def _shadowed_seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        found = [one for row in (*DECISIVE, *OTHERS) if (one := clash(build, *row, facts))]
        nccl = clash(build, *NCCL, facts)
        found += [nccl] if nccl and not nccl.older else []  # an older one is nccl-version-clash
        if found:
            yield _finding(sorted(found, key=lambda one: not one.older))


def _finding(found: Sequence[Clash]) -> Finding:
    first, build = found[0], found[0].build
    more = f", and {len(found) - 1} more of its libraries" if found[1:] else ""
    return cuda_lib_shadowed.finding(
        instance=build.mark,
        severity=_severity(found),
        component=first.component,
        title=f"{build.name} {first.one.how} {first.library} {first.found} in the place of its own {first.own}{more}",
        detail="; ".join(f"{one.library} {one.found} from {one.one.path}, own {one.own}" for one in found),
        confidence=Confidence.CERTAIN if first.one.loaded else Confidence.LIKELY,
        because=tuple(ground for one in found for ground in one.because),
        fix=first.fix,
    )


def _severity(found: Sequence[Clash]) -> Severity:
    decisive = {library for library, _, _ in DECISIVE}
    if not any(one.older for one in found):
        return Severity.INFO
    ran = found[0].build.ran_on_gpu
    return (
        Severity.ERROR if not ran and any(one.older and one.library in decisive for one in found) else Severity.WARNING
    )


FILE = "libnccl.so"
REFUSED = ("nccl-too-old", "nccl-mismatch")
SEVERAL = 2
VERIFY = sh('python -c "import torch; print(torch.cuda.nccl.version())"')


@rule("nccl-version-clash", layer=Layer.LIBRARY, component="nccl", severity=Severity.ERROR)
def nccl_version_clash(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The NCCL that a framework loads is not the one that it was built with.

    NCCL carries what several GPUs say to each other. An older one lacks functions that the framework calls (undefined
    symbol: ncclMemFree, ncclCommRegister …), or fails once a second GPU takes part. It comes from LD_LIBRARY_PATH, from
    the system, or from a second wheel: nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one
    installed stays. Keep one of them, of the version that the framework requires, and take others off the loader's
    path.
    """
    found = list(_nccl_seen(facts))
    yield from found or _nccl_said(facts)


def _nccl_said(facts: Facts) -> Iterator[Finding]:
    """Return what NCCL or the loader says of an older copy, with the wheels and versions that are mentioned."""
    lack = lacking(facts, "nccl")
    wheels = _wheels(facts)
    complained = bool(lack) or heard(facts, *REFUSED)
    if not complained and len(wheels) < SEVERAL:
        return
    built, found = (value(facts, "nccl-too-old", name) for name in ("built", "found"))
    named = [
        one.values["version"]
        for one in holding(facts, "library-version", "version", "library")
        if "nccl" in one.values["library"].lower()
    ]
    versions = sorted({one for one in (built, found, *named) if one}, key=numbers)
    both = " and ".join(f"{name} {number}" for name, number in wheels.items()) if len(wheels) >= SEVERAL else ""
    spelled = both or " and ".join(versions)
    symbol = f": the one that is loaded has no {lack[0].symbol}" if lack else ""
    yield nccl_version_clash.finding(
        severity=Severity.ERROR if complained else Severity.INFO,
        title=f"Two NCCL releases are here{f' ({spelled})' if spelled else ''}{symbol}",
        detail=f"{_asking(lack)}A framework loads one libnccl.so.2. "
        + (
            "nvidia-nccl-cu11, -cu12 and -cu13 write the same file, and the last one installed stays."
            if both
            else "An older one of the system, of an image, or of another package is loaded first."
        ),
        confidence=Confidence.CERTAIN if complained and spelled else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *grounds(facts, *REFUSED, most=2),
            *(because(facts, "packages", "distributions", name) for name in wheels),
            *(grounds(facts, "library-version", most=2) if not wheels else ()),
            *path_grounds(facts),
        ),
        fix=removed(SOME_PYTHON, *wheels, keep=(kept := _kept(wheels)), version=wheels[kept])
        if both
        else off_path(facts, "NCCL", VERIFY),
    )


def _asking(lack: Sequence[Lacking]) -> str:
    return f"{lack[0].asking} was built with a newer NCCL. " if lack and lack[0].asking else ""


def _wheels(facts: Facts) -> dict[str, str]:
    held = table(told_(facts, "packages"), "distributions")
    return {name: str(held[name]) for name in sorted(held) if name.startswith("nvidia-nccl")}


def _kept(wheels: dict[str, str]) -> str:
    """Return the wheel to keep: the newest, for an older NCCL is what frameworks complain of."""
    return max(wheels, key=lambda one: numbers(wheels[one]))


def _nccl_seen(facts: Facts) -> Iterator[Finding]:
    clashes = [clash(build, "libnccl", "nccl", "nvidia-nccl", facts) for build in builds(facts)]
    older = {found.build.mark: found for found in clashes if found and found.older}
    for one in overwritten(facts):
        if one.named(FILE) and not (one.severity is Severity.INFO and one.mark in older):
            yield _written(one)
    yield from map(_older, older.values())


def _older(found: Clash) -> Finding:
    build = found.build
    return nccl_version_clash.finding(
        instance=build.mark,
        severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
        title=f"{build.name} {found.one.how} NCCL {found.found} and was built with {found.own}",
        detail=f"In use: {found.one.path}.",
        confidence=Confidence.CERTAIN if found.one.loaded else Confidence.LIKELY,
        because=found.because,
        fix=found.fix,
    )


def _written(one: Overwritten) -> Finding:
    return nccl_version_clash.finding(
        instance=one.mark,
        severity=one.severity,
        title=f"{' and '.join(one.owners)} both write {one.file}: {one.whose}",
        detail=one.detail,
        because=one.because,
        fix=one.fix,
    )
