"""Pythons and C libraries that a wheel is not built for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.fixes import TORCH_INDEX
from gpustack.diagnose.installing import pinned
from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.events import because_said, grounds, heard, holding, said
from gpustack.diagnose.machine.extensions import distribution_of, of_file
from gpustack.diagnose.machine.frameworks import because_torch
from gpustack.diagnose.machine.inventory import builds
from gpustack.diagnose.machine.packages import pythons_of, releases_for
from gpustack.diagnose.machine.values import because, because_of, copies, number, text, told, version
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import ranges
from gpustack.matrix.subjects.ranges import is_version, minor, numbers
from gpustack.matrix.subjects.toolkits import glibc_of
from gpustack.matrix.subjects.torch import builds_of
from gpustack.model import record
from gpustack.model.command import ADDRESS, BUILD_TAG, DOTTED, SYMBOL, Command, requirement, sh, step
from gpustack.model.facts import Facts, Layer, Message
from gpustack.model.report import Because, Confidence, Finding, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


GLIBC_SAYS, TOLD, GLIBC_WHEEL = "glibc-too-old", "glibc-told", "wheel-not-supported"
MANYLINUX = re.compile(r"manylinux_(?P<major>\d+)_(?P<minor>\d+)_|manylinux(?P<year>1|2010|2014)_")
YEARS = {"1": "2.5", "2010": "2.12", "2014": "2.17"}


@rule("glibc-too-old", Layer.ENVIRONMENT, "glibc", in_one_python=True)
def glibc_too_old(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program or wheel needs a newer C library than this system has.

    glibc belongs to the distribution and cannot be installed from a package index: what was built against a newer one
    stops with "version `GLIBC_2.32' not found". Use a build made for the older one (an older release, a manylinux2014
    wheel, conda), build it here, run it in a container, or upgrade the distribution. Do not copy another glibc over the
    system's.
    """
    system = f" ({facts.host.os})" if facts.host.os else ""
    for one in list(_wanted_of_glibc(facts, matrix)):
        has = f"glibc {one.here}" if one.here else "an older one"
        yield glibc_too_old.finding(
            instance=one.mark,
            title=f"{one.who} needs glibc {one.needs} (GLIBC_{one.needs}); this system has {has}{system}",
            detail=f"Needed by {one.by}." if one.by else "",
            because=one.because,
            confidence=one.confidence,
            fix=fixes.advice(
                f"Run it in a container whose distribution has glibc {one.needs} or newer, upgrade the distribution, "
                f"or use a build made for {has} (an older release, a manylinux wheel for it, conda) or build it here.",
                sh("ldd --version"),
                sh("docker run --rm -it --gpus all nvidia/cuda:12.6.3-devel-ubuntu24.04 ldd --version"),
                verify=sh("ldd --version"),
            ),
        )


@record
class Wanted:
    """The glibc that something wants, and the one that is here: as its files, the loader or a wheel's name say."""

    who: str
    needs: str
    here: str | None
    because: tuple[Because, ...]
    by: str | None = None
    mark: str | None = None
    confidence: Confidence = Confidence.CERTAIN


def _wanted_of_glibc(facts: Facts, matrix: Matrix) -> Iterator[Wanted]:
    """Yield what the loader did not find, else the wheel that pip refused, else each build that wants a newer one."""
    spoken = [(needs, one) for one in said(facts, GLIBC_SAYS, TOLD) if is_version(needs := one.values.get("needs", ""))]
    least = max(spoken, key=lambda one: numbers(one[0]), default=None)
    here = glibc(facts, matrix)
    named = ((wanted_by(one.values.get("wheel", "")), one) for one in said(facts, GLIBC_WHEEL))
    least = least or next(((needs, one) for needs, one in named if needs and _below(here, needs)), None)
    if least:
        needs, message = least
        ground = (Because(component="host", fact="os", value=facts.host.os),) if facts.host.os else ()
        yield Wanted(
            who=_who(message, facts, matrix),
            needs=needs.rstrip("."),
            here=here,
            by=message.values.get("by") or message.values.get("wheel"),
            because=(
                *dict.fromkeys((because_said(message), *grounds(facts, GLIBC_SAYS, most=2))),
                *((because(facts, "python", "glibc"),) if text(told(facts, "python"), "glibc") else ()),
                *ground,
                *because_torch(facts),
            ),
            confidence=Confidence.CERTAIN if message.kind == GLIBC_SAYS else Confidence.LIKELY,
        )
        return
    pythons = {copy.environment: text(copy.facts, "glibc") for copy in copies(facts, "python")}
    for build in builds(facts):
        needs_, found = text(build.copy.facts, "glibc_needed"), pythons.get(build.copy.environment)
        if needs_ and _below(found, needs_):
            ground_ = Because(component="python", fact="glibc", value=found, source=f"of {build.python}")
            seen = because_of(facts, build.component, build.copy, "glibc_needed")
            yield Wanted(who=build.name, needs=needs_, here=found, mark=build.mark, because=(seen, ground_))


def _below(here: str | None, needs: str) -> bool:
    return bool(here and is_version(here) and is_version(needs) and numbers(here) < numbers(needs))


def glibc(facts: Facts, matrix: Matrix) -> str | None:
    """Return the version of the C library here, or where a text names only the distribution, its version there."""
    known, system = text(told(facts, "python"), "glibc"), told(facts, "linux-kernel")
    if known or facts.taken:
        return known
    return glibc_of(matrix, text(system, "os_id") or "", text(system, "os_version") or "")


def wanted_by(wheel: str) -> str | None:
    """Return the oldest glibc on which a wheel may be installed, by its file name; of several tags the oldest."""
    found = [
        f"{match['major']}.{match['minor']}" if match["major"] else YEARS[match["year"]]
        for match in MANYLINUX.finditer(wheel)
    ]
    return min(found, key=numbers, default=None)


def _who(message: Message, facts: Facts, matrix: Matrix) -> str:
    by = message.values.get("by") or ""
    if message.values.get("wheel"):
        return message.values["wheel"].partition("-")[0]
    if by:
        return of_file(by, facts, matrix).words if "/" not in by or "packages/" in by else by.rpartition("/")[2]
    found = re.search(r"\bin (?P<who>[A-Z]\w{2,30})\b", message.line)
    return found["who"] if found else "A program"


PIP = ("no-version-satisfies", "no-matching-distribution")
CERTAIN = ("requires-other-python", "uv-no-wheel", "uv-python-needed", "conda-python-conflict")
PYTHON_WHEEL, UV, IGNORED = "wheel-not-supported", "uv-python-needed", "requires-other-python"
TAG = re.compile(r"-cp(?P<major>\d)(?P<minor>\d{1,2})-")
KNOWN = re.compile(
    r"torch|tensorflow|tf[-_]|jax|onnxruntime|vllm|xformers|flash[-_]attn|triton|cupy|bitsandbytes|nvidia-|paddlepaddle|mxnet"
    r"|deepspeed|tensorrt|numba|pycuda|cudf|cuml|keras|open3d|mediapipe|detectron2|fastai|sglang|llvmlite",
    re.IGNORECASE,
)
NETWORK = ("pip-offline",)
NARROW = 32  # bits of a Python that nothing for GPUs is built for


@rule("python-version-no-wheel", Layer.ENVIRONMENT, "python", in_one_python=True, from_messages=True)
def python_version_no_wheel(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """There is no wheel for this Python version, which is too new or too old for the requested release.

    Wheels are built for certain Python versions; pip sees only those that fit and says "Could not find a version that
    satisfies the requirement", with the versions that remain, or none. Use a Python that the release has wheels for, or
    a release that has wheels for this Python.
    """
    found = [
        *((one, Confidence.CERTAIN) for one in said(facts, *CERTAIN) if _names_one(one)),
        *(
            (one, Confidence.CERTAIN)
            for one in said(facts, PYTHON_WHEEL)
            if _other_tag(one.values.get("wheel", ""), facts, matrix)
        ),
        *((one, _sure(one, facts, matrix)) for one in said(facts, *PIP) if not heard(facts, *NETWORK)),
    ]
    message, confidence = next(((one, sure) for one, sure in found if sure), (None, None))
    if message is None or confidence is None:
        return
    values = message.values
    package = values.get("package") or values.get("wheel", "").partition("-")[0] or "The package"
    wanted = values.get("wanted") or _in_name(values.get("wheel", ""))
    here = values.get("found") or version(facts, "python")
    here = f"{here} (32-bit)" if here and number(told(facts, "python"), "bits") == NARROW else here
    asked = f"{package} {wanted}" if wanted else package
    fitting = pythons_of(matrix, package.lower(), (wanted or "").partition("+")[0])
    needs = values.get("needs") or values.get("needs2")
    elsewhere = " on other platforms" if here and is_version(here) and minor(here) in fitting else ""
    has = f" It has wheels for Python {_span(fitting)}{elsewhere}." if fitting else ""
    has = has or (f" It wants Python {needs}." if needs else "")
    offered = values.get("versions", "")
    left = f" pip finds for this Python: {offered}." if offered and len(offered) < 400 else ""  # noqa: PLR2004
    yield python_version_no_wheel.finding(
        title=f"There is no {asked} wheel for {f'Python {here}' if here else 'this Python'}"
        + (" on this platform" if elsewhere else ""),
        detail=(has + left).strip(),
        because=(
            because_said(message),
            *grounds(facts, "python-told", most=1),
            *naming.known(facts, ("python", "version")),
        ),
        confidence=confidence,
        fix=_python_fix(f"{package}=={wanted or ''}", here, fitting or _holding(needs), facts, matrix),
    )


def _names_one(message: Message) -> bool:
    return bool(message.values.get("package") or (message.kind == UV and message.values.get("needs")))


def _other_tag(wheel: str, facts: Facts, matrix: Matrix) -> bool:
    """Return whether a wheel is for another Python: by its tag; where Python is not told, where nothing else is."""
    tag, here = TAG.search(wheel), version(facts, "python")
    if tag is None:
        return False
    if here and is_version(here):
        newer = "abi3" in wheel and numbers(here)[:2] >= (int(tag["major"]), int(tag["minor"]))
        return minor(here) != f"{tag['major']}.{tag['minor']}" and not newer
    return not _below(glibc(facts, matrix), wanted_by(wheel) or "")


def _sure(message: Message, facts: Facts, matrix: Matrix) -> Confidence | None:
    """Return whether pip's answer comes of the Python: None where something else must be behind it."""
    package, wanted = message.values.get("package", "").lower(), (message.values.get("wanted") or "").partition("+")[0]
    here = version(facts, "python")
    if not KNOWN.search(package) or (package == "torch" and _never_built(wanted, facts, matrix)):
        return None
    if number(told(facts, "python"), "bits") == NARROW and message.values.get("versions") == "none":
        return Confidence.CERTAIN
    fitting = pythons_of(matrix, package, wanted) if wanted else ()
    if fitting and here and is_version(here) and minor(here) not in fitting:
        return Confidence.CERTAIN
    offered = [one.strip() for one in message.values.get("versions", "").split(",") if is_version(one.strip())]
    if wanted and offered and is_version(wanted):
        return Confidence.LIKELY if all(numbers(one) > numbers(wanted) for one in offered) else None
    return None if fitting and here else _nothing_left(message, offered, facts)


def _never_built(release: str, facts: Facts, matrix: Matrix) -> bool:
    """Return whether this PyTorch was never built for the CUDA whose index pip was given."""
    cuda, known = text(told(facts, "pytorch"), "cuda"), builds_of(matrix, release)
    return bool(cuda and known) and not any(str(one.cuda) == cuda for one in known)


def _nothing_left(message: Message, offered: list[str], facts: Facts) -> Confidence | None:
    """Return whether pip left a release out for the Python, or found nothing at all."""
    wanted = (message.values.get("wanted") or "").partition("+")[0]
    if wanted and any(wanted in one.line for one in said(facts, IGNORED)):
        return Confidence.LIKELY
    alone = message.kind == "no-matching-distribution" and not wanted and not heard(facts, "no-version-satisfies")
    if alone and version(facts, "python"):
        return Confidence.LIKELY
    if message.kind == "no-version-satisfies" and not offered:
        return Confidence.LIKELY if version(facts, "python") else Confidence.POSSIBLE
    return None


def _in_name(wheel: str) -> str | None:
    parts = wheel.split("-")
    return parts[1] if len(parts) > 1 and is_version(parts[1]) else None


def _span(fitting: tuple[str, ...]) -> str:
    return fitting[0] if len(fitting) == 1 else f"{fitting[0]} to {fitting[-1]}"


def _python_fix(asked: str, here: str | None, fitting: tuple[str, ...], facts: Facts, matrix: Matrix) -> Fix:
    """Return the Python to take, or the releases that this one has wheels of."""
    package, _, wanted = asked.partition("==")
    best = fitting[-1] if fitting else None
    others = releases_for(matrix, package.lower(), minor(here)) if here and is_version(here) else ()
    instead = f" Or use {package} {others[0]} to {others[-1]}, which has wheels for this Python." if others else ""
    python = f"Python {best}" if best else "an older Python (a newer one for a newer release)"
    return fixes.advice(
        f"Create an environment with {python}{' or lower' if len(fitting) > 1 else ''}, and install there.{instead}",
        sh("uv venv --seed --python {python} gpu && . gpu/bin/activate", python=DOTTED(best or "3.11")),
        step(
            "or with conda: `conda create -n gpu python={python} && conda activate gpu`", python=DOTTED(best or "3.11")
        ),
        _install(package, wanted, best, facts, matrix),
        verify=sh("python --version"),
    )


def _install(package: str, wanted: str, python: str | None, facts: Facts, matrix: Matrix) -> Command:
    """Return how it is installed there; only in words where the package is not known: a message may spell it anyhow."""
    name = distribution_of(package.lower(), facts)
    if name is None:
        return step("install there what you wanted")
    tag = re.search(r"\+(cu\d+|rocm[\d.]+|cpu)$", wanted)
    asked = requirement(name, f"=={wanted}") if wanted else pinned(name, facts, matrix, python=python)
    if tag and name.startswith("torch"):
        index = sh("--index-url {index}/{tag}", index=ADDRESS(TORCH_INDEX), tag=BUILD_TAG(tag[1]))
        return sh("python -m pip install {asked} {index}", asked=asked, index=index)
    return sh("python -m pip install {asked}", asked=asked)


def _holding(needs: str | None) -> tuple[str, ...]:
    """Return the Pythons that a requirement such as >=3.8,<3.12 allows, oldest first."""
    try:
        span = ranges.VersionRange.parse((needs or "").strip("., "))
    except ValueError:
        return ()
    return tuple(f"3.{number}" for number in range(6, 15) if needs and span.holds(f"3.{number}"))


LIBSTDCXX_SAYS = "glibcxx-too-old"


@rule(
    "libstdcxx-too-old",
    Layer.ENVIRONMENT,
    "libstdcxx",
    in_one_python=True,
    from_messages=True,
    explained_by=("glibc-too-old",),  # an old system, of which the C++ library is a part
)
def libstdcxx_too_old(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The C++ library (libstdc++) that was found first is older than a program needs.

    The error is "version `GLIBCXX_3.4.32' not found" or "CXXABI_1.3.15 not found". It is not about the C library:
    usually the system's libstdc++ is found before the newer one of a conda environment, or the other way round. Let the
    newer one be found first, or install a newer one into the environment.
    """
    wanting = sorted(
        holding(facts, LIBSTDCXX_SAYS, "needs"), key=lambda one: numbers(one.values["needs"].partition("_")[2])
    )
    if not wanting:
        return
    needs, by = wanting[-1].values["needs"], wanting[-1].values.get("by")
    who = by.rpartition("/")[2] if by else "A program"
    yield libstdcxx_too_old.finding(
        title=f"{who} needs {needs} of libstdc++, but the one that is found first lacks it",
        detail=f"Needed by {by}." if by else "",
        because=grounds(facts, LIBSTDCXX_SAYS),
        confidence=Confidence.CERTAIN,
        fix=fixes.advice(
            "Install a newer libstdc++ into the environment and let it be found before the system's; without "
            "conda, upgrade the system's.",
            sh("conda install -c conda-forge libstdcxx-ng"),
            sh("export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),
            verify=sh("strings $CONDA_PREFIX/lib/libstdc++.so.6 | grep {needs}", needs=SYMBOL(needs)),
        ),
    )
