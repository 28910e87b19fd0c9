"""jaxlib and the CUDA plugin of JAX are of different versions.

The plugin brings the GPU to JAX and must be of jaxlib's version; its two parts require each other exactly. With another
version JAX refuses it and falls back to the CPU, or fails. Install all of them in one command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because_of, numbers, table, text
from gpustack.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each JAX whose CUDA plugins are of another release than jaxlib."""
    for build in builds(facts):
        jaxlib = text(build.copy.facts, "jaxlib")
        plugins = table(build.copy.facts, "plugins")
        named = {name: text(plugins, name) for name in plugins if "cuda" in name}
        wrong = [name for name, version in named.items() if version and numbers(version)[:3] != numbers(jaxlib)[:3]]
        if build.component != "jax" or not jaxlib or not wrong or build.ran_on_gpu:
            continue
        extra = build.copy.build or "cuda12"
        yield Finding(
            id="jax-plugin-mismatch",
            instance=build.mark,
            severity=Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component="jax",
            title=f"jaxlib is {jaxlib}, {wrong[0]} is {named[wrong[0]]}: they must be of one version",
            because=(
                because_of(facts, "jax", build.copy, "jaxlib"),
                because_of(facts, "jax", build.copy, "plugins"),
            ),
            fix=Fix(
                text="Install JAX and its plugin together.",
                commands=(f'{build.python} -m pip install --upgrade "jax[{extra}]"',),
                verify=fixes.verify(build),
            ),
        )
