"""Two installed wheels bring the same library file, and one has written over the other's.

Wheels for several CUDA majors, and flavours of one package, are installed into the same folders. The last one installed
writes over the files of the other without a word, so a program may load a library that was made for another CUDA; and
removing one of them deletes the file of both. The record of each wheel tells whose file is on the disk. Remove them
all, then install the one that is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.overwritten import overwritten
from gpustack.model.facts import Layer
from gpustack.model.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.overwritten import Overwritten
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# Wheels of which rules of their own speak.
NCCL, CUPY = "libnccl.so", "cupy"
BOTH = ({"onnxruntime", "onnxruntime-gpu"}, {"onnxruntime", "ort-nightly-gpu"})


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each set of wheels whose files lie over each other, with the framework that needs one of them."""
    told: dict[tuple[str, tuple[str, ...]], Overwritten] = {}
    for one in overwritten(facts):
        if not _elsewhere(one):
            told.setdefault((one.mark, one.owners), one)
    for number, one in enumerate(told.values()):
        first = all(other.mark != one.mark for other in list(told.values())[:number])
        yield Finding(
            id="wheel-files-overwritten",
            instance=one.mark if first else f"{one.mark} {'+'.join(one.owners)}",
            severity=one.severity,
            layer=Layer.LIBRARY,
            component="packages",
            title=f"{' and '.join(one.owners)} both write {one.file}: {one.whose}",
            detail=one.detail,
            because=one.because,
            fix=one.fix,
        )


def _elsewhere(one: Overwritten) -> bool:
    names = {owner.partition(" ")[0] for owner in one.owners}
    return one.named(NCCL) or any(name.startswith(CUPY) for name in names) or any(pair <= names for pair in BOTH)
