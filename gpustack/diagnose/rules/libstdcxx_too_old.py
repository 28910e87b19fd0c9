"""The C++ library (libstdc++) that was found first is older than a program wants.

It says "version `GLIBCXX_3.4.32' not found" or "CXXABI_1.3.15 not found". The C library is another thing: mostly the
system's libstdc++ is found before the newer one of a conda environment, or the other way round. Let the newer one be
found first, or install a newer one into the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.saying import grounds, holding
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import SYMBOL, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SAYS = "glibcxx-too-old"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the newest version of libstdc++'s names that something wanted in vain."""
    wanting = sorted(holding(facts, SAYS, "needs"), key=lambda one: numbers(one.values["needs"].partition("_")[2]))
    if not wanting:
        return
    needs, by = wanting[-1].values["needs"], wanting[-1].values.get("by")
    who = by.rpartition("/")[2] if by else "A program"
    yield Finding(
        id="libstdcxx-too-old",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="libstdcxx",
        title=f"{who} wants {needs} of libstdc++, and the one that is found first has no such version",
        detail=f"Wanted by {by}." if by else "",
        because=grounds(facts, SAYS),
        confidence=Confidence.CERTAIN,
        fix=Fix(
            text="Install a newer libstdc++ into the environment and let it be found before the system's.",
            commands=(
                sh("conda install -c conda-forge libstdcxx-ng  # without conda, upgrade the system's"),
                sh("export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),
            ),
            verify=sh("strings $CONDA_PREFIX/lib/libstdc++.so.6 | grep {needs}", needs=SYMBOL(needs)),
        ),
    )
