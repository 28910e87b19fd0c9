"""LD_LIBRARY_PATH names CUDA's stub libraries.

The toolkit ships stubs of libcuda and libnvidia-ml to link against on machines without a driver. They hold no driver: a
program that loads one gets error 34 or finds no GPU. They belong on LIBRARY_PATH, which the compiler reads, and never
on LD_LIBRARY_PATH, which the loader reads. Take the folder off it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, number, text, texts, told
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

STUB = 34


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give an error where the stub is what was loaded, a warning where it only might be."""
    libcuda = told(facts, "libcuda")
    folders = texts(libcuda, "stub_on_path", "LD_LIBRARY_PATH")
    taken = text(libcuda, "kind") == "stub" or number(libcuda, "cu_init") == STUB
    if not folders and not taken:
        return
    where = ", ".join(folders) or text(libcuda, "path") or "a stub"
    yield Finding(
        id="stub-on-loader-path",
        severity=Severity.ERROR if taken else Severity.WARNING,
        layer=Layer.ENVIRONMENT,
        component="libcuda",
        title=f"{'Programs load' if taken else 'LD_LIBRARY_PATH names'} CUDA's stub library ({where})",
        because=(
            because(facts, "libcuda", "stub_on_path", "LD_LIBRARY_PATH"),
            because(facts, "libcuda", "path"),
            because(facts, "libcuda", "cu_init"),
        ),
        fix=fixes.off_path(folders or [where.rpartition("/")[0]], "the stubs", fixes.DOCTOR),
    )
