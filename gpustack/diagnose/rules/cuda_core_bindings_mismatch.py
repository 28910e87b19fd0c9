"""cuda-core and cuda-bindings are releases that fail together.

The two halves of cuda-python are released apart and do not name each other, so pip installs pairs that nobody tried.
This pair is known to fail. Bring cuda-core up to date; the newest works with every cuda-bindings that we tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because_of, copies
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import PYTHON, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each Python that has a pair which a row calls bad."""
    for core in copies(facts, "cuda-core"):
        for bindings in copies(facts, "cuda-bindings"):
            if core.environment != bindings.environment or not core.version or not bindings.version:
                continue
            for pair in matrix.bad_pairs:
                low, high = numbers(pair.first), numbers(pair.last)
                if core.version == pair.core and low <= numbers(bindings.version) <= high:
                    python = PYTHON(core.environment)
                    yield Finding(
                        id="cuda-core-bindings-mismatch",
                        instance=core.environment,
                        severity=Severity.WARNING,
                        layer=Layer.RUNTIME,
                        component="cuda-core",
                        title=f"cuda-core {core.version} fails with cuda-bindings {bindings.version}",
                        detail=pair.outcome,
                        because=(
                            because_of(facts, "cuda-core", core, "version"),
                            because_of(facts, "cuda-bindings", bindings, "version"),
                        ),
                        row=pair.row,
                        fix=Fix(
                            text="Bring cuda-core up to date.",
                            commands=(sh('{python} -m pip install --upgrade "cuda-core>=1.0.1"', python=python),),
                            verify=sh('{python} -c "import cuda.core"', python=python),
                        ),
                    )
