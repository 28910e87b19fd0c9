"""A driver for Linux was installed inside WSL, where the driver is that of Windows.

In WSL the GPU is reached through Windows: its driver puts libcuda and nvidia-smi into /usr/lib/wsl/lib, and the Linux
kernel has no NVIDIA module. Packages such as nvidia-driver, nvidia-utils, libnvidia-compute or cuda-drivers bring files
of the same names that cannot work there. Remove them, install toolkits without a driver (cuda-toolkit), restart WSL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import naming, wsl
from gpustack.diagnose.rules.fixes import manager
from gpustack.diagnose.rules.reading import text, told
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import DRIVER
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# What packages of the driver are called, and none of the container toolkit (libnvidia-container1) or a CUDA toolkit.
PURGE = sh(
    "sudo apt-get purge $(dpkg-query -Wf '${Package}\\n' | grep -E "
    "'^(nvidia-(driver|utils|dkms|kernel|compute|firmware|smi)|cuda-drivers|libcuda1$|"
    "libnvidia-(cfg|common|compute|decode|encode|extra|fbc|gl|ml))')"
)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where such a package is there and the GPU is not, or NVML is blocked."""
    if not wsl.linux_driver(facts):
        return
    package = value(facts, "linux-driver-package", "package", "listed")
    package = package or text(told(facts, DRIVER), "package") or value(facts, "driver-package-failed", "package")
    smi = wsl.foreign_smi(facts)
    what = package or (f"of nvidia-smi {smi[0]}" if smi else "such as nvidia-utils")
    yield Finding(
        id="wsl-linux-driver-installed",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="nvidia-driver",
        title=f"A Linux driver ({what}) inside WSL hides that of Windows in {wsl.FOLDER}",
        detail="In WSL only the driver of Windows works; a package of the Linux driver (nvidia-driver, nvidia-utils, "
        "libnvidia-compute) puts a libcuda, libnvidia-ml and nvidia-smi before it that cannot reach the GPU."
        + (f" Here nvidia-smi is {smi[0]}, the driver of Windows {smi[1]}." if smi else ""),
        confidence=Confidence.LIKELY if package or smi or heard(facts, *wsl.PACKAGE) else Confidence.POSSIBLE,
        because=(
            *grounds(
                facts,
                *wsl.PACKAGE,
                "driver-package-failed",
                wsl.SMI,
                wsl.WINDOWS,
                wsl.BLOCKED,
                *wsl.FAILS,
                wsl.CRASH,
                most=6,
            ),
            *naming.known(facts, (DRIVER, "package"), ("gpu", "name")),
        ),
        fix=Fix(
            text="Remove every package of the Linux driver inside WSL, and restart WSL; keep the driver on Windows.",
            commands=(
                PURGE
                if manager(facts) in {"apt", None}
                else sh("# remove the packages of NVIDIA's Linux driver, and no others of NVIDIA's"),
                sh("sudo ldconfig"),
                sh("wsl.exe --shutdown"),
            ),
            needs_root=True,
            verify=sh("/usr/lib/wsl/lib/nvidia-smi"),
        ),
    )
