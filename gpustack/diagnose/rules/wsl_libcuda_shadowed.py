"""In WSL, programs load another libcuda than that of Windows in /usr/lib/wsl/lib.

The driver of Windows puts its libcuda into /usr/lib/wsl/lib, and only that one reaches the GPU. A libcuda from a Linux
package, a toolkit's compat folder or a conda environment that the loader finds first sees no GPU, while nvidia-smi,
which has its own way there, works. Put /usr/lib/wsl/lib first, and remove the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import naming, wsl
from gpustack.diagnose.rules.saying import grounds
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where CUDA sees no GPU in WSL, and another libcuda is found or nvidia-smi works."""
    if not wsl.shadowed(facts):
        return
    others = wsl.elsewhere(facts)
    before = wsl.before(facts)
    named = ", ".join(others) or (f"what is in {before} (LD_LIBRARY_PATH)" if before else "")
    found = f"{named} is found before" if named else "CUDA sees no GPU, so another is found before"
    yield Finding(
        id="wsl-libcuda-shadowed",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="libcuda",
        title=f"In WSL libcuda must be that of {wsl.FOLDER}: {found} it",
        detail="nvidia-smi mostly works, since it has its own way to the driver of Windows. ldconfig -p and "
        "LD_LIBRARY_PATH show which libcuda.so.1 programs load.",
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        because=(
            *grounds(
                facts,
                *(
                    wsl.HELPS,
                    wsl.STUB,
                    *wsl.FAILS,
                    wsl.SMI_FAILS,
                    wsl.ELSEWHERE,
                    "ldconfig-libcuda",
                    "libcuda-file",
                    "wsl-smi-works",
                ),
                *("ld-library-path", "ld-library-path-added"),
                most=6,
            ),
            *naming.known(facts, ("nvml", "version"), ("nvml", "cuda_version"), ("gpu", "name")),
        ),
        fix=Fix(
            text=f"Put {wsl.FOLDER} first on the library path (Numba: NUMBA_CUDA_DRIVER) and remove the other libcuda.",
            commands=(
                sh("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"),
                sh("export NUMBA_CUDA_DRIVER=/usr/lib/wsl/lib/libcuda.so.1"),
                sh("ldconfig -p | grep libcuda"),
            ),
            verify=sh("gpustack doctor"),
        ),
    )
