"""More than one CuPy is installed.

The distributions cupy, cupy-cuda12x, cupy-cuda13x … all bring the package cupy and write over each other's files, so
that what is imported is a mixture. CuPy itself warns of it at import. Remove them all and install the one for the CUDA
that is here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because_of, copies, table, text
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.toolchain import toolkits
from gpustack.model.command import DISTRIBUTION, PYTHON, SOME_PYTHON, Word, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ALL = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
SAID = "cupy-several"
CUPY = re.compile(r"cupy(-cuda\d{2,3}x?|-rocm-\d+-\d+)?")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each Python with several of CuPy's distributions, else what CuPy says of itself."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    if not heard(facts, SAID):
        return
    named = value(facts, SAID, "packages") or ""
    names = [name for name in dict.fromkeys(re.findall(r"cupy[\w-]*", named)) if CUPY.fullmatch(name)]
    spelled = f": {', '.join(names)}" if names else ""
    yield Finding(
        id="multiple-cupy",
        severity=Severity.WARNING,
        layer=Layer.LIBRARY,
        component="packages",
        title=f"Several CuPy distributions are installed{spelled}",
        detail="They bring the same package and write over each other's files.",
        because=grounds(facts, SAID),
        fix=_fix(SOME_PYTHON, names, facts),
    )


def _fix(python: Word, names: Sequence[str], facts: Facts) -> Fix:
    """Give how to keep one: that of the CUDA that is here, where something tells it."""
    here = [one.cuda.major for one in toolkits(facts)]
    several = len(names) > 1
    fitting = (name for major in here for name in names if f"cuda{major}" in name)
    kept = next(fitting, names[-1] if several else "cupy-cuda12x")
    return Fix(
        text="Remove all of them, then install the one for the CUDA that is here.",
        commands=(
            sh(
                "{python} -m pip uninstall -y {names}",
                python=python,
                names=tuple(map(DISTRIBUTION, names if several else ALL)),
            ),
            sh("{python} -m pip install {kept}", python=python, kept=DISTRIBUTION(kept)),
        ),
        verify=sh('{python} -c "import cupy; cupy.show_config()"', python=python),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for copy in copies(facts, "packages"):
        held = table(copy.facts, "distributions")
        names = sorted(name for name in held if CUPY.fullmatch(name))
        if len(names) < 2:  # noqa: PLR2004 - several
            continue
        python = PYTHON(copy.environment)
        spelled = [f"{name} {text(held, name) or ''}".strip() for name in names]
        yield Finding(
            id="multiple-cupy",
            instance=f"packages:{copy.environment or copy.key}",
            severity=Severity.WARNING,
            layer=Layer.LIBRARY,
            component="packages",
            title=f"Several CuPy distributions are installed: {', '.join(spelled)}",
            because=(because_of(facts, "packages", copy, "distributions", names[-1]),),
            fix=_fix(python, names, facts),
        )
