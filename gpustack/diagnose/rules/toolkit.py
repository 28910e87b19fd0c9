"""nvcc: its host compiler, the GPUs that it compiles for, and the PyTorch beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.fixes import TOOLKITS, from_nvidia
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.frameworks import platform, torch
from gpustack.diagnose.machine.inventory import nvidia_here, on_windows
from gpustack.diagnose.machine.packages import plain_version
from gpustack.diagnose.machine.toolchain import Target, gpu_name, parsed, refused, toolchain_toolkits, used
from gpustack.diagnose.machine.values import because, status, version
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import toolkits
from gpustack.matrix.subjects import torch as torch_rows
from gpustack.matrix.subjects.ranges import is_version, numbers
from gpustack.model import record
from gpustack.model.command import ARCH, DOTTED, NOTHING, PATH, SOME_PYTHON, Command, either, sh, step
from gpustack.model.facts import Facts, Layer, Message, Status
from gpustack.model.report import Confidence, Finding, Fix, Row, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.versions import CudaVersion


NO_TOOLKIT, IMAGE = ("build-finds-no-toolkit", "nvvm-missing"), "image-without-nvcc"
# Packages that compile CUDA code where they are installed.
COMPILED = re.compile(
    r"\b(?:flash[-_]attn|apex|mamba[-_]ssm|causal[-_]conv1d|detectron2|tiny-?cuda-?nn|pytorch3d|gsplat|natten"
    r"|diff[-_]gaussian[-_]rasterization|nvdiffrast|transformer[-_]engine)\b"
)


@rule("cuda-toolkit-missing", Layer.RUNTIME, "cuda-toolkit", Severity.INFO)
def cuda_toolkit_missing(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """There is no CUDA toolkit (nvcc) or no host compiler on a machine with an NVIDIA GPU.

    Frameworks bring the CUDA that they need, so nothing is missing to run them. Building extensions (flash-attn, vLLM
    from source) needs nvcc of the CUDA version that the framework was built with: ask with ``--for build``. Where a
    build stopped because it found no nvcc ("CUDA_HOME environment variable is not set"), it is the cause.
    """
    build = torch(facts)
    cuda = build.cuda if build and build.accelerator == "cuda" else None
    wanted = f" of CUDA {cuda}, which this PyTorch was built with" if cuda else ""
    runs = heard(facts, "nvcc-release")  # then only the program that looks for it does not find it
    stopped = heard(facts, *NO_TOOLKIT) or _in_image(facts)
    if stopped and not runs and not (build and build.accelerator in {"rocm", "xpu"}):
        yield cuda_toolkit_missing.finding(
            severity=Severity.ERROR,
            title="A build stopped because it found no CUDA toolkit (nvcc)",
            detail="It needs CUDA_HOME, or nvcc on PATH; the CUDA that PyTorch and the driver bring has no compiler.",
            because=grounds(facts, *NO_TOOLKIT, IMAGE, "setup-failed"),
            confidence=Confidence.LIKELY,
            fix=_toolkit_fix(f"Install the toolkit{wanted}, or use a package that needs no build.", cuda, facts),
        )
        return
    if not nvidia_here(facts) or status(facts, "cuda-toolkit") is not Status.ABSENT:
        return
    yield cuda_toolkit_missing.finding(
        title="There is no CUDA toolkit (nvcc): programs run, extensions cannot be built",
        because=(because(facts, "cuda-toolkit", "version"),),
        fix=_toolkit_fix(f"To build extensions, install the toolkit{wanted}.", cuda, facts),
    )


def _in_image(facts: Facts) -> bool:
    """Return whether a package that compiles CUDA code could not be built in an image without nvcc."""
    installs = said(facts, "package-install-said")
    return heard(facts, IMAGE) and heard(facts, "setup-failed") and any(COMPILED.search(one.line) for one in installs)


def _toolkit_fix(text: str, cuda: CudaVersion | None, facts: Facts) -> Fix:
    """Return how it is installed: into the environment where that is one of conda's, else beside the system's files."""
    if any(one.kind == "conda" for one in facts.environments[:1]):
        pin = sh("={cuda}", cuda=DOTTED(cuda)) if cuda else NOTHING
        command = sh("conda install -c nvidia cuda-toolkit{pin}", pin=pin)
        return fixes.advice(text, command, sh("export CUDA_HOME=$CONDA_PREFIX"), verify=sh("nvcc --version"))
    named = f"cuda-toolkit-{cuda.major}-{cuda.minor}" if cuda else "cuda-toolkit"
    home = PATH(f"/usr/local/cuda-{cuda}" if cuda else "/usr/local/cuda")
    return fixes.advice(
        text,
        *from_nvidia(facts, named, TOOLKITS),
        sh("export CUDA_HOME={home} PATH={home}/bin:$PATH", home=home),
        root=True,
        verify=sh("nvcc --version"),
    )


BY_PROGRAMS, IN_WORDS = ("torch-cuda-mismatch", "apex-cuda-mismatch", "deepspeed-cuda-mismatch"), "cuda-mismatch-said"
NVCC_SAID = (*BY_PROGRAMS, IN_WORDS)
NVCC_HEADER, NVCC_FAILED = "cuda-header-missing", "extension-build-failed"
OTHERWISE = (
    *("gcc-too-new", "clang-too-new", "msvc-unsupported", "gcc-header-error", "nvcc-unknown-arch", "nvcc-missing"),
    *NO_TOOLKIT,
)


@rule("nvcc-torch-mismatch", Layer.COMPILER, "cuda-toolkit", from_messages=True)
def nvcc_torch_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The nvcc in use is from a different CUDA version than PyTorch was built with, and an extension is being built.

    An extension is compiled by the toolkit's nvcc and linked to PyTorch's CUDA runtime, so PyTorch refuses if their
    major versions differ ("The detected CUDA version mismatches the version that was used to compile PyTorch"). Which
    nvcc counts is decided by CUDA_HOME, else by PATH. Point CUDA_HOME to a toolkit of PyTorch's CUDA, or install the
    PyTorch that is built for the toolkit. The difference does not matter to programs that build nothing.
    """
    if not (heard(facts, *BY_PROGRAMS) or any(map(_apart, said(facts, IN_WORDS))) or _unbuilt(facts)):
        return
    mine = torch(facts)
    wanted, toolkit = str(mine.cuda) if mine and mine.cuda else None, used(facts)
    found = next((one.version for one in toolchain_toolkits(facts) if one.version != wanted), None)
    name = f"PyTorch {release}" if (release := version(facts, "pytorch")) else "PyTorch"
    yield nvcc_torch_mismatch.finding(
        title=f"nvcc is from {f'CUDA {found}' if found else 'another CUDA'}, but {name} was built with "
        + (f"CUDA {wanted}" if wanted else "another one"),
        detail="This toolkit cannot build an extension for this PyTorch.",
        confidence=Confidence.CERTAIN if found and wanted and heard(facts, *NVCC_SAID) else Confidence.LIKELY,
        because=(
            *grounds(facts, *NVCC_SAID, NVCC_HEADER, NVCC_FAILED),
            *([toolkit.because] if toolkit else []),
            *([because(facts, "pytorch", "version")] if mine else []),
        ),
        fix=_nvcc_fix(facts, matrix, wanted, found),
    )


def _apart(message: Message) -> bool:
    """Return whether people's words name two major versions, or not both; within one a build does not fail."""
    found, wanted = (numbers(message.values.get(name))[:1] for name in ("found", "torch"))
    return not (found and found == wanted)


def _unbuilt(facts: Facts) -> bool:
    """Return whether a build failed for a header that nvcc is too old to have, or with an nvcc of another major."""
    mine, toolkit = torch(facts), used(facts)
    if mine is None or mine.cuda is None or toolkit is None or not toolkit.sure:
        return False
    if heard(facts, NVCC_HEADER):
        return toolkit.cuda < mine.cuda
    return heard(facts, NVCC_FAILED) and toolkit.cuda.major != mine.cuda.major and not heard(facts, *OTHERWISE)


ON_WINDOWS = r"set CUDA_PATH=C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{cuda}"


def _nvcc_fix(facts: Facts, matrix: Matrix, wanted: str | None, found: str | None) -> Fix:
    use = ON_WINDOWS if on_windows(facts) and not facts.host.wsl else "export CUDA_HOME=/usr/local/cuda-{cuda}"
    commands = [sh(use, cuda=DOTTED(wanted))] if wanted and is_version(wanted) else []
    cuda = parsed(found)
    tag = _tag(facts, matrix, cuda) if cuda else None
    release = fixes.newest_with(tag, facts, matrix) if tag else None
    if tag and release:
        commands.append(fixes.install_torch(SOME_PYTHON, release, tag))
    other = f", or install the PyTorch that is built for CUDA {found}" if found else ""
    return fixes.advice(
        f"Build with the toolkit of {f'CUDA {wanted}' if wanted else 'the CUDA of PyTorch'} (CUDA_HOME and PATH decide "
        f"which nvcc is used; in conda it is CUDA_HOME=$CONDA_PREFIX){other}.",
        *(either(*commands) or (sh("nvcc --version"), sh('python -c "import torch; print(torch.version.cuda)"'))),
        verify=sh('python -c "import torch.utils.cpp_extension as e, torch; print(e.CUDA_HOME, torch.version.cuda)"'),
    )


def _tag(facts: Facts, matrix: Matrix, cuda: CudaVersion) -> str | None:
    """Return the build of PyTorch for this CUDA version, else for the newest older one of its major."""
    release = (plain_version(facts, "pytorch") or "").partition("+")[0]
    where = platform(facts) or "linux-x86_64"
    held = torch_rows.builds_of(matrix, release, where) if release else ()
    held = held or tuple(
        one for row in torch_rows.releases(matrix) for one in torch_rows.builds_of(matrix, row.version)
    )
    fitting = [one for one in held if one.cuda and one.cuda.major == cuda.major and one.cuda <= cuda]
    return max(fitting, key=lambda one: one.cuda or cuda).tag if fitting else None


REFUSED = ("gcc-too-new", "clang-too-new", "msvc-unsupported", "torch-compiler-bounds", "msvc-needs-cuda")
COMPILER_HEADER, COMPILER_FAILED = "gcc-header-error", "extension-build-failed"
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*$", re.ASCII)
CLANG, MSVC = "clang", "Visual Studio"
# What nvcc makes of a C++ library that it cannot read.
UNREADABLE = (
    *("parameter packs not expanded", "is undefined", "expected a", "not a template"),
    *("__is_", "__builtin", "type name is not allowed"),
)


@record
class Compiler:
    """The compiler that is refused: its version, the newest major that is accepted, and the toolkit."""

    name: str
    found: str | None
    newest: int | None
    cuda: str | None
    row: Row | None

    @property
    def title(self) -> str:
        """What is wrong, in one line."""
        toolkit = f"CUDA {self.cuda}" if self.cuda else "this CUDA toolkit"
        most = f" ({self.name} {self.newest} at most)" if self.newest else ""
        return f"{self.name}{f' {self.found}' if self.found else ''} is newer than {toolkit} accepts{most}"


@rule("host-compiler-too-new", Layer.COMPILER, "cuda-toolkit", from_messages=True)
def host_compiler_too_new(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The host's compiler is newer than this CUDA toolkit accepts.

    nvcc passes host code to gcc, clang or Visual Studio, and its header host_config.h refuses compilers that are newer
    than the toolkit ("unsupported GNU version! gcc versions later than 12 are not supported"). With the check switched
    off, the newer C++ library fails instead, in /usr/include/c++. Build with an older compiler alongside the system's
    (-ccbin, NVCC_CCBIN, CUDAHOSTCXX, CMAKE_CUDA_HOST_COMPILER), or with a newer toolkit.
    """
    one = _compiler(facts, matrix)
    plain = heard(facts, *REFUSED)
    if not (plain or _unreadable(facts, one) or _failed(facts, one)):
        return
    toolkit = used(facts)
    yield host_compiler_too_new.finding(
        title=one.title,
        detail=_compiler_detail(facts, one, matrix),
        confidence=Confidence.CERTAIN if plain else Confidence.LIKELY,
        because=(
            *grounds(facts, *REFUSED, COMPILER_HEADER, COMPILER_FAILED),
            *([because(facts, one.name.lower(), "version")] if version(facts, one.name.lower()) else []),
            *([toolkit.because] if toolkit else []),
        ),
        row=one.row,
        fix=_compiler_fix(facts, one, matrix),
    )


def _compiler(facts: Facts, matrix: Matrix) -> Compiler:
    name = _name(facts)
    cuda = toolkit.version if (toolkit := used(facts)) else None
    row = toolkits.compilers_of(matrix, cuda) if cuda and VERSION.match(cuda) else None
    known = (row.clang_max if name == CLANG else row.gcc_max if name == "GCC" else None) if row else None
    return Compiler(
        name=name,
        found=version(facts, name.lower()),
        newest=_limit(facts) or known,
        cuda=cuda,
        row=row.row if row else None,
    )


def _name(facts: Facts) -> str:
    if heard(facts, "clang-too-new"):
        return CLANG
    return MSVC if heard(facts, "msvc-unsupported", "msvc-needs-cuda") else "GCC"


def _limit(facts: Facts) -> int | None:
    """Return the newest major that the message itself names."""
    newest = value(facts, "gcc-too-new", "newest") or value(facts, "clang-too-new", "most")
    below = value(facts, "clang-too-new", "below") or value(facts, "gcc-too-new", "and")
    if numbers(newest):
        return numbers(newest)[0]
    return numbers(below)[0] - 1 if numbers(below) else None


def _unreadable(facts: Facts, one: Compiler) -> bool:
    """Return whether nvcc failed in the headers of a C++ library that is newer than it knows."""
    marks = (".cu", "std_function.h")  # g++ alone reads its own std_function.h
    cuda_code = used(facts) is not None or any(mark in one.line for one in facts.messages for mark in marks)
    words = [message.values.get("error", "") for message in said(facts, COMPILER_HEADER)]
    newer = bool(one.newest and one.found and numbers(one.found)[:1] > (one.newest,))
    packs = any(UNREADABLE[0] in word for word in words)
    return cuda_code and (packs or (newer and any(mark in word for word in words for mark in UNREADABLE)))


def _failed(facts: Facts, one: Compiler) -> bool:
    """Return whether a build failed with a compiler that is known to be newer than the toolkit accepts."""
    newer = bool(one.newest and one.found and numbers(one.found)[:1] > (one.newest,))
    return newer and heard(facts, COMPILER_FAILED)


def _compiler_detail(facts: Facts, one: Compiler, matrix: Matrix) -> str:
    major = numbers(one.found)[0] if numbers(one.found) and one.name == "GCC" else (one.newest or 0) + 1
    first = toolkits.first_cuda(matrix, major) if one.name == "GCC" and one.newest else None
    needs = value(facts, "msvc-needs-cuda", "needs")
    if needs:
        return f"This Visual Studio needs CUDA {needs} or newer."
    if value(facts, "msvc-unsupported", "needs"):
        return f"Only {value(facts, 'msvc-unsupported', 'needs')} are supported."
    return f"CUDA {'.'.join(map(str, first.cuda[:2]))} and newer accept GCC {major}." if first else ""


def _compiler_fix(facts: Facts, one: Compiler, matrix: Matrix) -> Fix:
    newest = one.newest
    if one.name != "GCC" or newest is None:
        return fixes.advice(
            f"Build with an older {one.name} that this toolkit accepts, or with a newer CUDA toolkit.",
            step("point nvcc to the older compiler with -ccbin, NVCC_CCBIN or CMAKE_CUDA_HOST_COMPILER"),
            verify=sh("nvcc --version"),
        )
    return fixes.advice(
        f"Build with g++ {newest} as the host compiler, or with a CUDA toolkit that accepts this one.",
        *fixes.older_gcc(facts, matrix, newest),
        verify=sh("{compiler} --version", compiler=fixes.older_gxx(facts, matrix, newest)),
    )


@rule("toolkit-too-old-for-arch", Layer.COMPILER, "cuda-toolkit", from_messages=True)
def toolkit_too_old_for_arch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The CUDA toolkit is older than the GPU: its compiler does not know the GPU's architecture.

    nvcc, ptxas and NVRTC generate code for the architectures that were known when they were released; a newer one is
    refused ("Unsupported gpu architecture 'compute_89'", "Value 'sm_120' is not defined for option 'gpu-name'").
    Install the toolkit that first knows it, or newer, and a framework that is built with it. Until then code for an
    older architecture of the same major, with PTX, runs on the GPU as well.
    """
    one = next((target for target in refused(facts, matrix) if not target.dropped), None)
    if one is None:
        return
    known = matrix.arch(one.arch.capability) if one.arch else None
    toolkit = f"The CUDA toolkit {one.toolkit}" if one.toolkit else "This CUDA toolkit"
    needs = f": CUDA {one.first} or newer does" if one.first else ""
    name = gpu_name(one, facts)
    what = f"{one.spelled} is {one.capability}{f', that of {name}' if name else ''}. " if one.capability else ""
    yield toolkit_too_old_for_arch.finding(
        title=f"{toolkit} does not know {one.spelled or 'the architecture of this GPU'}{needs}",
        detail=f"{what}It was refused by {one.by}.",
        confidence=Confidence.CERTAIN if one.arch else Confidence.LIKELY,
        because=one.because,
        row=known.row if known else None,
        fix=_target_fix(one, facts, matrix),
    )


def _target_fix(one: Target, facts: Facts, matrix: Matrix) -> Fix:
    wanted = f"CUDA {one.first} or newer" if one.first else "a newer CUDA toolkit"
    torch = " and a PyTorch that is built with it" if version(facts, "pytorch") else ""
    older = _older(one, matrix)
    meanwhile = f" Until then build for {older} with PTX, which the driver compiles for the GPU." if older else ""
    return fixes.advice(
        f"Install {wanted}{torch}, and put its nvcc first on PATH (CUDA_HOME).{meanwhile}",
        *_newer(one),
        *((sh("export TORCH_CUDA_ARCH_LIST={older}+PTX", older=ARCH(older)),) if older else ()),
        root=True,
        verify=sh("nvcc --list-gpu-arch"),
    )


def _newer(one: Target) -> tuple[Command, ...]:
    if not one.first:
        return (step("install a newer CUDA toolkit"),)
    home = PATH(f"/usr/local/cuda-{one.first}")
    return (sh("export CUDA_HOME={home} PATH={home}/bin:$PATH", home=home),)


def _older(one: Target, matrix: Matrix) -> str | None:
    """Return the newest compute capability of the same or an older major that this toolkit compiles for."""
    cuda = parsed(one.toolkit)
    target = toolkits.target_of(matrix, cuda) if cuda else None
    known = list(target.capabilities) if target else []
    if not known and cuda:
        spans = (
            (one, it.first_toolkit, it.last_toolkit) for one, it in matrix.architectures.items() if not it.embedded
        )
        known = [cc for cc, first, last in spans if first and first <= cuda and (last is None or cuda <= last)]
    fitting = [cc for cc in known if one.arch and cc < one.arch.capability]
    return str(max(fitting)) if fitting else None


@rule("arch-dropped-by-toolkit", Layer.COMPILER, "cuda-toolkit", Severity.WARNING, from_messages=True)
def arch_dropped_by_toolkit(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The CUDA toolkit is newer than the GPU: its compiler no longer generates code for the GPU's architecture.

    Each CUDA major version drops old architectures, and then refuses them with the same message as unknown ones
    ("Unsupported gpu architecture 'compute_35'"). Build with the last toolkit that supports it, or remove the target
    from the list if no such GPU is meant: if none is here, that is a setting of the program being built, not a fault.
    """
    one = next((target for target in refused(facts, matrix) if target.dropped), None)
    if one is None:
        return
    known = matrix.arch(one.arch.capability) if one.arch else None
    name = gpu_name(one, facts)
    toolkit = f"CUDA {one.toolkit}" if one.toolkit else "This CUDA toolkit"
    last = f"CUDA {one.last}" if one.last else "a toolkit older than any in the matrix"
    older = [sh("export CUDA_HOME=/usr/local/cuda-{cuda}", cuda=DOTTED(one.last))] if one.last else []
    yield arch_dropped_by_toolkit.finding(
        severity=Severity.ERROR if name else Severity.INFO,
        title=f"{toolkit} no longer compiles for {one.spelled}: {last} was the last",
        detail=f"{one.spelled} is {one.capability}{f', that of {name}' if name else ''}.",
        confidence=Confidence.CERTAIN if one.toolkit else Confidence.LIKELY,
        because=one.because,
        row=known.row if known else None,
        fix=fixes.advice(
            f"Remove {one.spelled} from the list of targets (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES, "
            f"-gencode), or build with {last} if such a GPU is meant.",
            *either(sh("nvcc --list-gpu-arch"), *older),
            verify=sh("nvcc --list-gpu-arch"),
        ),
    )
