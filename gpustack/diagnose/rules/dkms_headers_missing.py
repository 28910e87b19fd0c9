"""The headers of the running kernel are missing, so DKMS could not build NVIDIA's module for it.

DKMS compiles the module for each kernel, and for that needs the kernel's headers. A kernel update brought a new kernel
without them, and the module stayed behind. Install the headers and let DKMS build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.nvidia_module_not_loaded import on_disk, out
from gpustack.diagnose.rules.reading import because, because_of, copies, status, text, texts, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.diagnose.rules.told_machine import branch_of, kernel, machine, mine, more, release, works
from gpustack.model.command import Command, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance, Message


OUT = ("module-out-said", "nvml-not-loaded", "module-load-failed", "no-nvidia-gpu", "dkms-failed")
PACKAGES = {
    "apt": "linux-headers-{kernel}",
    "dnf": "kernel-devel-{kernel} kernel-headers",
    "zypper": "kernel-default-devel",
    "pacman": "linux-headers (linux-zen-headers, linux-lts-headers: as the kernel)",
}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where DKMS has the module, this kernel has not, and its headers are absent."""
    named = tuple(_told(facts, matrix))
    yield from named or _listed(facts, matrix)
    yield from _seen(facts)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text says that headers are missing."""
    missing, running = _missing(facts), kernel(facts)
    if not any(one.line for one in missing) or works(facts):
        return
    driver = release(facts)
    which = f"kernel {running}" if running else "the running kernel"
    wanted = PACKAGES.get(fixes.manager(facts) or "", "linux-headers-{kernel} or kernel-devel-{kernel}")
    yield Finding(
        id="dkms-headers-missing",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="dkms",
        title=f"The headers of {which} are missing, so the GPU driver's module"
        f"{f' ({driver})' if driver else ''} cannot be built",
        detail=f"Building it needs the package {wanted.format(kernel=running or '$(uname -r)')}. "
        + machine(facts, matrix),
        because=(*map(because_said, missing[:4]), *more(facts)),
        fix=fixes.rebuild(
            facts,
            "Install the kernel's headers (linux-headers or kernel-devel, of the same release as the kernel), build "
            "the module, and restart.",
            _headers(facts, running),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, running)),
        ),
        confidence=Confidence.CERTAIN if branch_of(driver) else Confidence.LIKELY,
    )


def _listed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a list of packages has a kernel, headers of others alone, and the module stays out."""
    kernels, headers = (texts(told(facts, "system-packages"), name) for name in ("kernels", "kernel_headers"))
    running = kernel(facts)
    wanted = next((one for one in kernels if running and running.startswith(one)), None) or (
        kernels[0] if len(kernels) == 1 and not running else None
    )
    if works(facts) or not heard(facts, *OUT) or not wanted or not headers or wanted in headers:
        return
    release_ = running or wanted
    package = PACKAGES.get(fixes.manager(facts) or "", "kernel-devel-{kernel}").format(kernel=release_)
    yield Finding(
        id="dkms-headers-missing",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="dkms",
        title=f"The headers are of kernel {' and '.join(headers[:3])}, the kernel is {wanted}: the GPU driver's module "
        "cannot be built for it",
        detail=f"Building it needs {package}, or a start with the kernel that the headers are of. "
        + machine(facts, matrix),
        because=(
            because(facts, "system-packages", "kernels"),
            because(facts, "system-packages", "kernel_headers"),
            *grounds(facts, *OUT, most=2),
        ),
        fix=fixes.rebuild(
            facts,
            "Install the headers of this kernel, or bring the kernel up to that of the headers; build the module, and "
            "restart.",
            _headers(facts, release_),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, release_)),
        ),
        confidence=Confidence.LIKELY,
    )


def _missing(facts: Facts) -> tuple[Message, ...]:
    """Give the messages on missing headers, without those of other kernels than the one whose build failed."""
    failed = {found for one in said(facts, "dkms-failed") if (found := one.values.get("kernel"))}
    missing = mine(facts, "dkms-headers", "dkms-autoconf")
    named_ = {found for one in missing if (found := one.values.get("kernel"))}
    return () if failed and named_ and not failed & named_ else missing


def _headers(facts: Facts, running: str | None) -> Command:
    """Give the command that installs headers, of the kernel that is spoken of where the distribution names them so."""
    return sh(fixes.HEADERS[fixes.manager(facts)], kernel=fixes.kernel(facts, running))


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give the finding for a machine that was looked at."""
    mine = dkms_modules(facts)
    if not nvidia_here(facts) or not out(facts) or not mine or on_disk(facts):
        return
    if status(facts, "kernel-headers") is not Status.ABSENT:
        return
    yield Finding(
        id="dkms-headers-missing",
        severity=Severity.ERROR,
        layer=Layer.KERNEL,
        component="dkms",
        title=f"DKMS could not build NVIDIA's module: the headers of kernel {fixes.kernel(facts)} are missing",
        because=(
            because(facts, "kernel-headers", "path"),
            because_of(facts, "dkms", mine[0], "state"),
            because(facts, "linux-kernel", "release"),
        ),
        fix=fixes.rebuild(
            facts,
            "Install the headers, build the module, and restart.",
            fixes.headers(facts),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
        ),
    )


def dkms_modules(facts: Facts) -> tuple[Instance, ...]:
    """Give what DKMS has of NVIDIA's driver, those for the running kernel first."""
    return tuple(copy for copy in copies(facts, "dkms") if (text(copy.facts, "module") or "").startswith("nvidia"))
