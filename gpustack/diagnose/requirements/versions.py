"""Requirements on versions and builds: what each thing needs of another, and whether it has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.requirements import (
    amd,
    extensions,
    frameworks,
    host,
    intel,
    libraries,
    python,
    question,
    serving,
)

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract


ROOMS = (
    host.kernel_draw,
    host.driver_draw,
    host.gpu_draw,
    amd.draw,
    intel.draw,
    libraries.runtime_draw,
    libraries.library_draw,
    frameworks.draw,
    python.draw,
    extensions.extension_draw,
    libraries.compiler_draw,
    serving.draw,
    extensions.combination_draw,
    question.draw,
)


def draw(facts: Facts, matrix: Matrix) -> tuple[Contract, ...]:
    """Return every contract whose two ends were seen, bottom layer first, each once."""
    drawn = (contract for drawn_by in ROOMS for contract in drawn_by(facts, matrix))
    return tuple({(one.from_, one.to, one.kind, one.needs, one.found, one.environment): one for one in drawn}.values())
