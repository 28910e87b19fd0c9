"""jaxlib and the CUDA plugin of JAX are of different versions.

The plugin brings the GPU to JAX and must be of jaxlib's version; its two parts (jax-cuda12-plugin, jax-cuda12-pjrt)
require each other exactly. With another version JAX refuses it and falls back to the CPU, or fails ("Mismatched PJRT
plugin PJRT API version", "Unexpected PJRT_… size"). Install all of them in one command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.frameworks import because_package, installed
from gpustack.diagnose.rules.reading import because_of, table, text
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.seen import builds
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import SOME_PYTHON, Command, Word, either, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ID = "jax-plugin-mismatch"
KINDS = (
    *("jax-plugin-version", "jax-pjrt-version", "jax-pjrt-size", "jaxlib-version", "jaxlib-too-old"),
    "jax-plugin-interface",
)
VERIFY = sh('python -c "import jax; print(jax.devices())"')


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each JAX whose CUDA plugins are of another release than jaxlib, or which says so itself."""
    found = [one for build in builds(facts) if (one := _of(build, facts))]
    yield from found
    if not found and heard(facts, *KINDS):
        yield _heard(facts)


def _of(build: Build, facts: Facts) -> Finding | None:
    jaxlib = text(build.copy.facts, "jaxlib")
    plugins = table(build.copy.facts, "plugins")
    named = {name: text(plugins, name) for name in plugins if "cuda" in name}
    wrong = [name for name, version in named.items() if version and numbers(version)[:3] != numbers(jaxlib)[:3]]
    if build.component != "jax" or not jaxlib or not wrong or build.ran_on_gpu:
        return None
    return Finding(
        id=ID,
        instance=build.mark,
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="jax",
        title=f"jaxlib is {jaxlib}, {wrong[0]} is {named[wrong[0]]}: they must be of one version",
        detail=_said(facts),
        because=(
            *grounds(facts, *KINDS),
            because_of(facts, "jax", build.copy, "jaxlib"),
            because_of(facts, "jax", build.copy, "plugins"),
        ),
        fix=_fix(jaxlib, build.copy.build, build.python, fixes.verify(build)),
    )


def _heard(facts: Facts) -> Finding:
    """Give what JAX says itself, where the packages were not listed."""
    jaxlib = value(facts, "jax-plugin-version", "jaxlib") or value(facts, "jaxlib-version", "jaxlib")
    jaxlib = jaxlib or installed(facts, "jaxlib")
    plugin = value(facts, "jax-plugin-version", "plugin") or "the CUDA plugin"
    found = value(facts, "jax-plugin-version", "found")
    jax, needs = value(facts, "jaxlib-version", "jax"), value(facts, "jaxlib-version", "needs")
    if found:
        title = f"jaxlib is {jaxlib}, {plugin} is {found}: they must be of one version"
    elif jax or needs:
        title = f"jaxlib is {jaxlib}, and jax {jax or f'wants {needs}'}: they must be of one release"
    elif lacks := value(facts, "jaxlib-too-old", "name"):
        title = f"The CUDA plugin of JAX is newer than jaxlib {jaxlib or ''}".strip() + f", which has no {lacks} yet"
    elif call := value(facts, "jax-plugin-interface", "call"):
        module = value(facts, "jax-plugin-interface", "module")
        title = f"{f'The plugin {module}' if module else 'The CUDA plugin'} of JAX is of another release than jaxlib"
        title = f"{title} {jaxlib or ''}".strip() + f": {call} differs"
    else:
        title = f"JAX and its CUDA plugin (PJRT) are of two releases: {_said(facts)}".rstrip(" :.")
    major = next((part for part in ("cuda13", "cuda12", "cuda11") if part in plugin), None)
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="jax",
        title=title,
        detail=_said(facts) if found or jax or needs else "",
        because=(*grounds(facts, *KINDS), *because_package(facts, "jaxlib"), *because_package(facts, "jax")),
        fix=_fix(None if jax or needs else jaxlib, major, SOME_PYTHON, VERIFY),
    )


def _said(facts: Facts) -> str:
    """Give the versions of the interface between JAX and its plugin, where programs name them."""
    for one in said(facts, "jax-pjrt-version"):
        plugin = one.values.get("plugin") or one.values.get("plugin2")
        framework = one.values.get("framework") or one.values.get("framework2")
        return f"The plugin's PJRT API is {plugin}, that of jaxlib {framework}."
    for one in said(facts, "jax-pjrt-size"):
        spoken = one.values.get("plugin")
        return f"The plugin is built with PJRT API {spoken}, and jaxlib with another." if spoken else ""
    return ""


def _fix(jaxlib: str | None, extra: str | None, python: Word, verify: Command) -> Fix:
    plugin = extra or "cuda12"
    pins = [requirement(f"jax-{plugin}-{part}", f"=={jaxlib}") for part in ("plugin", "pjrt")]
    pinned = sh("{python} -m pip install {pins}", python=python, pins=pins)
    together = sh("{python} -m pip install --upgrade {jax}", python=python, jax=requirement(f"jax[{plugin}]"))
    same = f"bring the plugin to {jaxlib}, the version of jaxlib" if jaxlib else "bring all to one version"
    return Fix(
        text=f"Install JAX and its plugin together; or {same}.",
        commands=either(together, *((pinned,) if jaxlib else ())),
        verify=verify,
    )
