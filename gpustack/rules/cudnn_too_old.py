"""The cuDNN that a framework loads is older than the one it was built with.

Within a major, cuDNN runs what was built with the same or an older minor; the other way it lacks functions. PyTorch
refuses it, others fail in the middle. Install the version that the framework requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.libraries import LD_LIBRARY_PATH, evidence, used
from gpustack.rules.reading import numbers, table, text
from gpustack.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

UP_TO_MINOR = 2


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose cuDNN is of an older minor than it requires, wherever that one comes from."""
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
                    commands=(f"{build.python} -m pip install {wheel}=={text(pins, wheel)}",),
                    verify=fixes.verify_loaded(build),
                ),
            )
