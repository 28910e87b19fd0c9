"""Requirements on versions and builds: what each thing needs of another, and whether it has it.

What a person names side by side is judged like a question, if nothing else was found to be wrong. A text says which
things there are, but seldom which are used together; so only pairs are compared that have no other reason to be named,
and never what a tool listed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.messages import heard
from gpustack.diagnose.requirements import extensions, frameworks, host, libraries, makers, python, question, serving
from gpustack.diagnose.requirements.fits import GIVEN
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, Instance
    from gpustack.model.report import Contract

ROOMS = (
    host.kernel_draw,
    host.driver_draw,
    host.gpu_draw,
    makers.amd_draw,
    makers.intel_draw,
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
    """Return every requirement whose two ends are known, bottom layer first, each once."""
    drawn = (contract for drawn_by in ROOMS for contract in drawn_by(facts, matrix))
    return tuple({(one.from_, one.to, one.kind, one.needs, one.found, one.environment): one for one in drawn}.values())


IN_WORDS = "(in words)"  # how the source of what people wrote themselves ends
COMPILERS = frozenset({"gcc", "clang"})  # whose version reads the same in words and as they print it
WELL = ("fine-said", "cuda-works-said")
GPUS = frozenset({"gpu", "amd-gpu", "intel-gpu"})
DRIVER, UNUSED = "cuda", ("cuda-available-false", "no-device", "gpu-unused-said", "cuda-fails-said")
KINDS = frozenset({"accelerator", "architecture", "host-compiler", "python", "toolkit"})


def in_words(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Yield each broken requirement between two things that a text names only in words, one of each."""
    alone = {one.id for one in facts.components if _is_one(one)}
    named = {one.id for one in facts.components if one.source.endswith(IN_WORDS)} & alone
    if len(alone & GPUS) > 1 or heard(facts, *WELL):
        return
    question = replace(facts, components=tuple(_asked(one) if one.id in named else one for one in facts.components))
    kinds = KINDS | ({DRIVER} if heard(facts, *UNUSED) else set())  # the build that pip takes, where CUDA fails
    for one in draw(question, matrix):
        if one.status is Kept.BROKEN and one.kind in kinds and {one.from_, one.to} <= named | (COMPILERS & alone):
            yield one


def _is_one(component: Component) -> bool:
    copies = component.instances
    return bool(copies) and all(_what(copy) == _what(copies[0]) for copy in copies)


def _what(copy: Instance) -> tuple[object, ...]:
    return copy.version, copy.build, copy.facts.get("name")


def _asked(component: Component) -> Component:
    copies = tuple(replace(copy, facts={**copy.facts, GIVEN: True}) for copy in component.instances)
    return replace(component, instances=copies)
