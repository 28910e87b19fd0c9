"""NVIDIA's kernel module is not loaded.

The driver's libraries are here, but the module that they talk to is not in memory: it was not built for the running
kernel, something keeps it out, or nobody has loaded it. Nothing of CUDA works until it is. Load it and read what the
kernel says; where it is not on disk for this kernel, build it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.nvidia_driver_missing import missing
from gpustack.diagnose.rules.reading import because, flag, status, text, texts, told
from gpustack.diagnose.rules.seen import disk_release, driver_works, loaded_release, nvidia_here, ours
from gpustack.model.command import sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a GPU and its driver are here and the module is not in memory."""
    if not nvidia_here(facts) or not out(facts) or missing(facts):
        return
    blocked = texts(told(facts, "nvidia.ko"), "blacklisted")
    yield Finding(
        id="nvidia-module-not-loaded",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title="NVIDIA's kernel module is not loaded" + ("" if on_disk(facts) else " and not built for this kernel"),
        detail=f"{' and '.join(blocked)} keep it from being loaded." if blocked else "",
        because=(
            because(facts, "nvidia.ko", "loaded"),
            because(facts, "nvidia.ko", "path"),
            because(facts, "linux-kernel", "release"),
        ),
        fix=_fix(facts, blocked),
    )


def out(facts: Facts) -> bool:
    """Tell whether the module was looked for and is not in memory, and nothing shows it at work all the same.

    WSL has none: Windows drives the GPU. Some sandboxes do not show the modules of the machine below them.
    """
    looked = status(facts, "nvidia.ko") in {Status.PRESENT, Status.ABSENT, Status.NOT_APPLICABLE}
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    loaded = flag(told(facts, "nvidia.ko"), "loaded") or loaded_release(facts) is not None
    return looked and not (bound or loaded or driver_works(facts) or facts.host.wsl)


def on_disk(facts: Facts) -> bool:
    """Tell whether the module lies on disk for the running kernel."""
    return disk_release(facts) is not None or text(told(facts, "nvidia.ko"), "path") is not None


def _fix(facts: Facts, blocked: tuple[str, ...]) -> Fix:
    if blocked:
        return fixes.rebuild(
            facts,
            f"Take the lines about nvidia out of {' and '.join(blocked)}, build the initramfs anew, and restart.",
            fixes.initramfs(facts),
        )
    if on_disk(facts):
        return Fix(
            text=f"{fixes.place(facts)}Load it; if that fails, the kernel's last lines say why.",
            commands=(sh("sudo modprobe nvidia"), sh("sudo dmesg | tail -n 40")),
            needs_root=True,
            verify=sh("nvidia-smi"),
        )
    return fixes.rebuild(
        facts,
        f"Build it for kernel {fixes.kernel(facts)}, or start a kernel that has it.",
        fixes.headers(facts),
        sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
    )
