"""LIBRARY_PATH names CUDA's stub libraries. That is right, and does no harm.

The compiler reads LIBRARY_PATH when it links; the stubs let it link CUDA programs on machines without a driver. The
loader does not read it when programs run, so they get the real driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because, texts, told
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the observation where the compiler's path names stubs."""
    folders = texts(told(facts, "libcuda"), "stub_on_path", "LIBRARY_PATH")
    if folders:
        yield Finding(
            id="stub-on-library-path",
            severity=Severity.INFO,
            layer=Layer.ENVIRONMENT,
            component="libcuda",
            title=f"LIBRARY_PATH names CUDA's stubs ({', '.join(folders)}): compilers use them, programs do not",
            because=(because(facts, "libcuda", "stub_on_path", "LIBRARY_PATH"), because(facts, "libcuda", "path")),
        )
