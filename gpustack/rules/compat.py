"""A compat libcuda that CUDA refuses: what the rules about errors 803 and 804 share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, items, number, text, told
from gpustack.rules.seen import driver_release, gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue

PAIR = 803


def refused(finding: str, code: int, what: str, facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit answers with this code; for 803 a compat copy must be the one that was loaded."""
    libcuda = told(facts, "libcuda")
    path, release = text(libcuda, "path") or "", driver_release(facts)
    kinds = [text(copy, "kind") for copy in items(libcuda, "copies") if text(copy, "real") == path]
    is_compat = "compat" in {*kinds, text(libcuda, "kind")} or "/compat/" in path
    if number(libcuda, "cu_init") != code or (code == PAIR and not is_compat):
        return
    row = matrix.cuda_codes.get(code)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus(facts)))
    yield Finding(
        id=finding,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="libcuda",
        title=f"The compat libcuda {path or 'that is found first'} {what} (CUDA error {code})",
        detail=f"Kernel driver {release or 'unknown'}{'; ' + names if names else ''}.",
        because=(
            because(facts, "libcuda", "cu_init"),
            because(facts, "libcuda", "path"),
            because(facts, "nvidia.ko", "version_loaded"),
        ),
        row=row.row if row else None,
        fix=fixes.off_path(
            _folders(libcuda, path), "the folder of the compat libcuda (or out of ld.so.conf)", "gpustack doctor"
        ),
    )


def _folders(libcuda: JsonValue, path: str) -> list[str]:
    """Give the folders by which the loader comes to this file, as they are spelled on its path."""
    spelled = [text(copy, "path") or "" for copy in items(libcuda, "copies") if text(copy, "real") == path]
    return list(dict.fromkeys(one.rpartition("/")[0] for one in [*spelled, path] if one))
