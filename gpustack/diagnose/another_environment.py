"""The chosen Python cannot use the GPU, but another one on this machine can.

Each environment has its own packages: a build without GPU code, or for another CUDA version, in one of them says
nothing about the next. Run the program with the Python that works, or make that environment the active one; or fix the
chosen one as the findings about it say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.command import PATH, PYTHON, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.model.facts import Environment, Facts


if TYPE_CHECKING:
    Works = Mapping[str, Mapping[str, bool | None]]
ID = "another-environment-works"


def among(facts: Facts, works: Works) -> Finding | None:
    """Give the first Python that can use the GPU where the chosen one cannot; works is by Python and component."""
    if not facts.environments:
        return None
    chosen, *others = facts.environments
    mine = works.get(chosen.python, {})
    able = [one for one in others if True in works.get(one.python, {}).values()]
    if not able or True in mine.values() or (mine and False not in mine.values()):
        return None
    shared = [one for one in able if any(works[one.python].get(name) for name, here in mine.items() if here is False)]
    return _finding(chosen, (shared or able)[0], len(able), works)


def _finding(chosen: Environment, other: Environment, count: int, works: Works) -> Finding:
    names = [name for name, able in works[other.python].items() if able]
    mine = [name for name, able in works.get(chosen.python, {}).items() if able is False]
    here = f"{' and '.join(mine)} cannot" if mine else "nothing is installed that would"
    return Finding(
        id=ID,
        severity=Severity.INFO,
        layer=Layer.ENVIRONMENT,
        component="python",
        title=f"{' and '.join(names)} can use the GPU in {other.python}; in the chosen Python {here}",
        detail=f"The chosen Python is {chosen.python}."
        + (f" {count} Pythons here can use the GPU." if count > 1 else ""),
        because=tuple(
            Because(component=name, fact=f"works in {one.python}", value=able, source="the contracts of its build")
            for one in (chosen, other)
            for name, able in works.get(one.python, {}).items()
        ),
        fix=Fix(
            text=f"Use that environment ({other.kind}), or fix the chosen one.",
            commands=_use(other),
            verify=sh("gpustack doctor --python {python}", python=PYTHON(other.python)),
        ),
        confidence=Confidence.LIKELY,
    )


def _use(other: Environment) -> tuple[Command, ...]:
    if other.kind == "venv" and other.prefix:
        return (sh(". {prefix}/bin/activate", prefix=PATH(other.prefix)),)
    if other.kind == "conda" and other.prefix:
        return (sh("conda activate {prefix}", prefix=PATH(other.prefix)),)
    return (sh("{python} PROGRAM.py", python=PYTHON(other.python)),)
