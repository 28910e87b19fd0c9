"""The numbers and names that NVIDIA's libraries answer with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row
    from gpustack.tables import Line

LIBRARIES = {
    "cuda-runtime": "cuda",
    "nvml": "nvml",
    "cudnn": "cudnn9",
    "cudnn8": "cudnn8",
    "nccl": "nccl",
    "cublas": "cublas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a library: its number, its name, what it means; ``driver`` is the CUDA driver's name of it."""

    library: str
    number: int
    name: str
    meaning: str
    row: Row
    cause: str | None = None
    driver: str | None = None


def answers(matrix: Matrix, library: str) -> tuple[Answer, ...]:
    """Give every answer of a library, by number; raises KeyError for a library that is not in LIBRARIES."""
    return matrix.rows("codes", LIBRARIES[library], lambda line: _answer(library, line))


def answer_of(matrix: Matrix, library: str, number: int) -> Answer | None:
    """Give what a library means by a number, or None where the matrix does not know it."""
    return next((one for one in answers(matrix, library) if one.number == number), None)


def named(matrix: Matrix, name: str) -> tuple[Answer, ...]:
    """Give every answer of this name, in any library and any case; the driver's names of CUDA errors count too."""
    wanted = name.lower()
    every = (one for library in LIBRARIES for one in answers(matrix, library))
    return tuple(one for one in every if wanted in {one.name.lower(), (one.driver or "").lower()} - {""})


def numbered(matrix: Matrix, number: int) -> tuple[Answer, ...]:
    """Give what each library means by a number, the CUDA runtime first."""
    every = (answer_of(matrix, library, number) for library in LIBRARIES)
    return tuple(one for one in every if one)


def _answer(library: str, line: Line) -> Answer:
    return Answer(
        library=library,
        number=int(line["code"]),
        name=line["name"],
        meaning=line["meaning"],
        cause=line.get("cause"),
        driver=line.get("driver"),
        row=row("codes", f"{line['code']} ({line['name']}): {line['meaning']}", line),
    )
