"""There is no wheel for this version of Python, too new or too old for the release that was asked for.

Wheels are built for some versions of Python; pip sees only those that fit and says "Could not find a version that
satisfies the requirement", with the versions that are left, or none. Take a Python that the release has wheels for, or
a release that has wheels for this Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import distribution_of
from gpustack.diagnose.rules.fixes import TORCH_INDEX
from gpustack.diagnose.rules.glibc_too_old import glibc, wanted_by
from gpustack.diagnose.rules.pythons import pythons_of, releases_for
from gpustack.diagnose.rules.reading import because, version
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.matrix.subjects import ranges
from gpustack.matrix.subjects.ranges import is_version, minor, numbers
from gpustack.model.command import ADDRESS, BUILD_TAG, DOTTED, Command, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

ID = "python-version-no-wheel"
PIP = ("no-version-satisfies", "no-matching-distribution")
CERTAIN = ("requires-other-python", "uv-no-wheel", "uv-python-needed", "conda-python-conflict")
WHEEL, UV, IGNORED = "wheel-not-supported", "uv-python-needed", "requires-other-python"
TAG = re.compile(r"-cp(?P<major>\d)(?P<minor>\d{1,2})-")
KNOWN = re.compile(
    r"torch|tensorflow|tf[-_]|jax|onnxruntime|vllm|xformers|flash[-_]attn|triton|cupy|bitsandbytes|nvidia-|paddlepaddle|mxnet"
    r"|deepspeed|tensorrt|numba|pycuda|cudf|cuml|keras|open3d|mediapipe|detectron2|fastai|sglang|llvmlite",
    re.IGNORECASE,
)
NETWORK = ("pip-offline",)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the package that has no wheel for this Python."""
    for message in said(facts, *CERTAIN):
        if message.values.get("package") or (message.kind == UV and message.values.get("needs")):
            yield _finding(message, facts, matrix, Confidence.CERTAIN)
            return
    for message in said(facts, WHEEL):
        if _other_tag(message.values.get("wheel", ""), facts):
            yield _finding(message, facts, matrix, Confidence.CERTAIN)
            return
    for message in said(facts, *PIP):
        sure = _sure(message, facts, matrix)
        if sure and not heard(facts, *NETWORK):
            yield _finding(message, facts, matrix, sure)
            return


def _other_tag(wheel: str, facts: Facts) -> bool:
    """Tell whether a wheel is for another Python: by its tag; where Python is not told, where nothing else is."""
    tag, here = TAG.search(wheel), version(facts, "python")
    if tag is None:
        return False
    if here and is_version(here):
        newer = "abi3" in wheel and numbers(here)[:2] >= (int(tag["major"]), int(tag["minor"]))
        return minor(here) != f"{tag['major']}.{tag['minor']}" and not newer
    needs, libc = wanted_by(wheel), glibc(facts)
    return not (needs and libc and is_version(libc) and numbers(libc) < numbers(needs))


def _sure(message: Message, facts: Facts, matrix: Matrix) -> Confidence | None:
    """Tell whether pip's answer comes of the Python: None where something else must be behind it."""
    package, wanted = message.values.get("package", "").lower(), (message.values.get("wanted") or "").partition("+")[0]
    here = version(facts, "python")
    if not KNOWN.search(package):
        return None
    fitting = pythons_of(matrix, package, wanted) if wanted else ()
    if fitting and here and is_version(here) and minor(here) not in fitting:
        return Confidence.CERTAIN
    offered = [one.strip() for one in message.values.get("versions", "").split(",") if is_version(one.strip())]
    if wanted and offered and is_version(wanted):
        return Confidence.LIKELY if all(numbers(one) > numbers(wanted) for one in offered) else None
    return None if fitting and here else _nothing_left(message, offered, facts)


def _nothing_left(message: Message, offered: list[str], facts: Facts) -> Confidence | None:
    """Tell whether pip left a release out for the Python, or found nothing at all."""
    wanted = (message.values.get("wanted") or "").partition("+")[0]
    if wanted and any(wanted in one.line for one in said(facts, IGNORED)):
        return Confidence.LIKELY
    alone = message.kind == "no-matching-distribution" and not wanted and not heard(facts, "no-version-satisfies")
    if alone and version(facts, "python"):
        return Confidence.LIKELY
    if message.kind == "no-version-satisfies" and not offered:
        return Confidence.LIKELY if version(facts, "python") else Confidence.POSSIBLE
    return None


def _finding(message: Message, facts: Facts, matrix: Matrix, confidence: Confidence) -> Finding:
    values = message.values
    package = values.get("package") or values.get("wheel", "").partition("-")[0] or "The package"
    wanted = values.get("wanted") or _in_name(values.get("wheel", ""))
    here = values.get("found") or version(facts, "python")
    asked = f"{package} {wanted}" if wanted else package
    fitting = pythons_of(matrix, package.lower(), (wanted or "").partition("+")[0])
    needs = values.get("needs") or values.get("needs2")
    elsewhere = " on other platforms" if here and is_version(here) and minor(here) in fitting else ""
    has = f" It has wheels for Python {_span(fitting)}{elsewhere}." if fitting else ""
    has = has or (f" It wants Python {needs}." if needs else "")
    offered = values.get("versions", "")
    left = f" pip finds for this Python: {offered}." if offered and len(offered) < 400 else ""  # noqa: PLR2004
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="python",
        title=f"There is no wheel of {asked} for {f'Python {here}' if here else 'this Python'}"
        + (" on this platform" if elsewhere else ""),
        detail=(has + left).strip(),
        because=(because_said(message), *grounds(facts, "python-told", most=1), *_ground(facts)),
        confidence=confidence,
        fix=_fix(f"{package}=={wanted or ''}", here, fitting or _holding(needs), facts, matrix),
    )


def _in_name(wheel: str) -> str | None:
    parts = wheel.split("-")
    return parts[1] if len(parts) > 1 and is_version(parts[1]) else None


def _span(fitting: tuple[str, ...]) -> str:
    return fitting[0] if len(fitting) == 1 else f"{fitting[0]} to {fitting[-1]}"


def _ground(facts: Facts) -> Iterator[Because]:
    if version(facts, "python"):
        yield because(facts, "python", "version")


def _fix(asked: str, here: str | None, fitting: tuple[str, ...], facts: Facts, matrix: Matrix) -> Fix:
    """Give the Python to take, or the releases that this one has wheels of."""
    package, _, wanted = asked.partition("==")
    best = fitting[-1] if fitting else None
    others = releases_for(matrix, package.lower(), minor(here)) if here and is_version(here) else ()
    instead = f" Or take {package} {others[0]} to {others[-1]}, which this Python has wheels of." if others else ""
    python = f"Python {best}" if best else "an older Python (a newer one for a newer release)"
    return Fix(
        text=f"Make an environment with {python}{' or lower' if len(fitting) > 1 else ''}, and install there.{instead}",
        commands=(
            sh("uv venv --seed --python {python} gpu && . gpu/bin/activate", python=DOTTED(best or "3.11")),
            sh("# or: conda create -n gpu python={python} && conda activate gpu", python=DOTTED(best or "3.11")),
            _install(package, wanted, facts),
        ),
        verify=sh("python --version"),
    )


def _install(package: str, wanted: str, facts: Facts) -> Command:
    """Give how it is installed there; only in words where the package is not known: a message may spell it anyhow."""
    name = distribution_of(package.lower(), facts)
    if name is None:
        return sh("# and install there what was asked for")
    tag = re.search(r"\+(cu\d+|rocm[\d.]+|cpu)$", wanted)
    asked = requirement(name, f"=={wanted}" if wanted else "")
    if tag and name.startswith("torch"):
        index = sh("--index-url {index}/{tag}", index=ADDRESS(TORCH_INDEX), tag=BUILD_TAG(tag[1]))
        return sh("python -m pip install {asked} {index}", asked=asked, index=index)
    return sh("python -m pip install {asked}", asked=asked)


def _holding(needs: str | None) -> tuple[str, ...]:
    """Give the Pythons that a requirement such as >=3.8,<3.12 allows, oldest first."""
    try:
        span = ranges.VersionRange.parse((needs or "").strip("., "))
    except ValueError:
        return ()
    return tuple(f"3.{number}" for number in range(6, 15) if needs and span.holds(f"3.{number}"))
