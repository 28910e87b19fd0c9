"""What a bench may ask for beside its own GPU: another one, or several that NCCL joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from gpustack.bench.libraries import found_here
from gpustack.bench.nccl import Nccl, NcclError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gpustack.bench.card import Card
    from gpustack.bench.crossing import Pair
    from gpustack.bench.gathering import Gathering

UNSUFFIXED = 13000  # from CUDA 13 on the wheel is that of 13


@dataclass(frozen=True, slots=True)
class Several:
    """The GPU that is measured, the NCCL to take (None: the one found here), and how to skip with a remedy."""

    card: Card
    library: str | None
    skip: Callable[[str, str], NoReturn]

    def pair(self, other: int) -> Pair:
        """Give this GPU and another one, each reaching the other's memory where the driver lets it."""
        from gpustack.bench.crossing import paired  # noqa: PLC0415 - it needs the bindings, which may be missing

        return paired(self.card, other)

    def gathering(self, others: Sequence[int]) -> tuple[AbstractContextManager[Gathering], Mapping[str, Any]]:
        """Give this GPU and others joined by NCCL, and which copy of it that is; skips where it cannot be had."""
        from gpustack.bench.gathering import joined  # noqa: PLC0415 - it needs the bindings, which may be missing

        path = self.library or found_here("nccl")
        remedy = f"pip install nvidia-nccl-cu{13 if self.card.cuda >= UNSUFFIXED else 12}"
        if path is None:
            self.skip("there is no NCCL here", remedy)
        try:
            library = Nccl(path)
        except NcclError as error:
            self.skip(f"the NCCL at {path} cannot be loaded: {error}", remedy)
        told = {"library": library.path, "library_version": library.version}
        return joined(self.card, others, library), told
