"""The seven steps by number and name, and what each is for in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.trace import State, Step

if TYPE_CHECKING:
    from gpustack.trace.models import Model

NAMES = {
    1: "weights and input in host memory",
    2: "copied to the device",
    3: "kernels, graph and memory made ready",
    4: "kernels run in parallel",
    5: "tensors flow through the layers",
    6: "the output",
    7: "copied back and checked",
}
SHORT = 1e6  # bytes: a copy of fewer takes its start, not the link
ON_THE_GPU = frozenset({2, 3, 4, 7})
WITHOUT = {
    2: "copying over the link needs a GPU",
    3: "kernels, a CUDA graph and device memory need a GPU",
    4: "grids, blocks and warps need a GPU",
    7: "there is nothing to copy back without a GPU",
}


def needing(number: int) -> Step:
    """Give a step that was not tried since there is no GPU."""
    return Step(number=number, name=NAMES[number], status=State.NEEDS_GPU, why=(WITHOUT[number],))


def left_out(number: int, why: str) -> Step:
    """Give a step that was not tried, for this reason."""
    return Step(number=number, name=NAMES[number], status=State.SKIPPED, why=(why,))


def failed(number: int, why: str) -> Step:
    """Give a step that went wrong."""
    return Step(number=number, name=NAMES[number], status=State.FAILED, why=(why,))


def short(number: int, model: Model) -> tuple[str, ...]:
    """Give a word on the copies of a step where they are too short to show what the link can do."""
    copied = {2: model.parameters + model.input.count, 7: model.output.count}.get(number, 0) * model.width
    return ("so few bytes: a copy is mostly its own start, and says little of the link",) if 0 < copied < SHORT else ()
