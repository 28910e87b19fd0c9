"""The cuDNN that a framework loads is older than the one it was built with.

Within a major, cuDNN runs what was built with the same or an older minor; the other way it lacks functions. PyTorch
refuses it, others fail in the middle. Install the version that the framework requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.foreign import cudnn_number, older, path_grounds, shadowing
from gpustack.diagnose.rules.libraries import LD_LIBRARY_PATH, evidence, used
from gpustack.diagnose.rules.reading import table, text, version
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import builds
from gpustack.diagnose.rules.toolchain import toolkits
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import VERSION, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

UP_TO_MINOR = 2
REFUSED = ("cudnn-loaded-older", "cudnn-outdated-jax")
NAMES = (("tensorflow", "TensorFlow"), ("jax", "JAX"))
FIRST_WHEEL, SINCE_CUDA_12 = 8, (8, 9)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose cuDNN is of an older minor than it requires, wherever that one comes from."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give what TensorFlow, JAX or another says of the cuDNN that it loaded."""
    kind = next((kind for kind in REFUSED if heard(facts, kind)), None)
    if kind is None or shadowing(facts):
        return
    built, loaded = (cudnn_number(value(facts, kind, name)) for name in ("built", "found"))
    least = cudnn_number(value(facts, kind, "least")) or built
    if not least or not loaded or not older(loaded, least):
        return
    name = next(
        (f"{name} {version(facts, id_) or ''}".strip() for id_, name in NAMES if facts.find(id_)), "The program"
    )
    major = next((toolkit.cuda.major for toolkit in toolkits(facts)), None) or _newest_major(least)
    path = path_grounds(facts)
    yield Finding(
        id="cudnn-too-old",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"{name} loads cuDNN {loaded} and was built with {built}: cuDNN {least} or newer is needed",
        detail=f"Within major {numbers(least)[0]} of cuDNN a newer one takes the place of an older one, not the other "
        f"way round{'. LD_LIBRARY_PATH may name the older one' if path else ''}.",
        because=(*grounds(facts, kind, most=2), *path),
        fix=Fix(
            text=f"Install cuDNN {least} or newer of major {numbers(least)[0]}, for the same CUDA, and take older ones "
            "off the path of the loader; or install a release of the framework that was built with this one.",
            commands=(
                sh(
                    "python -m pip install --upgrade {wheel}",
                    wheel=requirement(f"nvidia-cudnn-cu{major}", f">={least},<{numbers(least)[0] + 1}"),
                ),
            )
            if numbers(least)[0] >= FIRST_WHEEL
            else (sh("# install cuDNN {least} for the CUDA of the program", least=VERSION(least)),),
            verify=sh("gpustack doctor --deep"),
        ),
    )


def _newest_major(cudnn: str) -> int:
    """Give the CUDA major that most programs with this cuDNN are built for."""
    return 11 if numbers(cudnn)[:2] < SINCE_CUDA_12 else 12


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        pins = table(build.copy.facts, "pins")
        wheel = next((name for name in sorted(pins) if name.startswith("nvidia-cudnn")), "")
        wanted, found = numbers(text(pins, wheel)), numbers(one.version if one else None)
        if one is None or one.step == LD_LIBRARY_PATH or not wanted or not found or build.ran_on_gpu:
            continue
        if found[0] == wanted[0] and found[:UP_TO_MINOR] < wanted[:UP_TO_MINOR]:
            yield Finding(
                id="cudnn-too-old",
                instance=build.mark,
                severity=Severity.ERROR,
                layer=Layer.LIBRARY,
                component="cudnn",
                title=f"{build.name} {one.how} cuDNN {one.version} and was built with {text(pins, wheel)}",
                because=(
                    evidence(build, "libcudnn", one),
                    Because(
                        component=build.component, fact=f"pins.{wheel}", value=text(pins, wheel), source="metadata"
                    ),
                ),
                fix=Fix(
                    text="Install the version that it requires.",
                    commands=(
                        sh(
                            "{python} -m pip install {wheel}",
                            python=build.python,
                            wheel=requirement(wheel, f"=={text(pins, wheel)}"),
                        ),
                    ),
                    verify=fixes.verify_loaded(build),
                ),
            )
