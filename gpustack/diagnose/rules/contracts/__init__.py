"""The contracts between the layers of the stack: what each thing needs of another, and whether it has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.contracts import (
    amd,
    combination,
    compiler,
    driver,
    extension,
    framework,
    gpu,
    intel,
    kernel,
    library,
    python,
    question,
    runtime,
    serving,
)

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract

ROOMS = (
    *(kernel, driver, gpu, amd, intel, runtime, library, framework, python, extension, compiler, serving),
    *(combination, question),
)


def draw(facts: Facts, matrix: Matrix) -> tuple[Contract, ...]:
    """Give every contract whose two ends were seen, bottom layer first, each once."""
    drawn = (contract for room in ROOMS for contract in room.draw(facts, matrix))
    return tuple({(one.from_, one.to, one.kind, one.needs, one.found, one.environment): one for one in drawn}.values())
