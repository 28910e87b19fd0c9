"""DKMS failed to build NVIDIA's kernel module for the running kernel.

The headers are there, but the module's source does not compile: the kernel is newer than this driver release knows, a
distribution has changed it, or the compiler differs from the kernel's. Install a newer release of the driver's branch,
or start an older kernel. The build's log names the line.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.dkms_headers_missing import dkms_modules
from gpustack.diagnose.rules.nvidia_module_not_loaded import on_disk, out
from gpustack.diagnose.rules.reading import because, because_of, flag, text
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.diagnose.rules.told_machine import OURS, branch_of, kernel, machine, mine, more, release, works
from gpustack.matrix.subjects import drivers
from gpustack.model.command import ANY, DOTTED, NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.drivers import Build
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Fix, Row


SAID = ("dkms-failed", "kernel-compile-error", "nvidia-installer-build", "dkms-package")
CONTEXT = ("kernel-compiler-differs", "dkms-install", "dkms-log")
OTHERS = ("pytorch", "python", "gcc", "cuda-toolkit")  # of which a build that fails may be, where they are told of
BUILDS_NOT, API_GONE = "module-build-said", "kernel-api-gone"
NVIDIA = "nvidia"
IN_TREE = {"amdgpu": "amdgpu", "i915": "i915 or xe", "xe": "xe"}  # what drives the GPU without the package of DKMS
AMD_SOURCE = re.compile(r"(?:^|/)amd/")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a build for this kernel failed and the module is therefore neither here nor loaded."""
    yield from _told(facts, matrix)
    yield from _seen(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text has a failed build of the driver's module."""
    running = kernel(facts)
    failed = mine(facts, *SAID) or (_in_words(facts) if release(facts) and running else ())
    if not failed or works(facts):
        return
    module, version = _module(facts, failed)
    ours = module.startswith(NVIDIA)
    driver = release(facts) if ours else version
    known = _known(driver, running, matrix) if ours else None
    yield Finding(
        id="dkms-build-failed",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="dkms",
        title=f"The module of {' '.join(part for part in (module, driver) if part)} does not build"
        f" for {f'kernel {running}' if running else 'this kernel'}",
        detail=machine(facts, matrix, _why(driver if ours else None, running, known, matrix)),
        because=(*map(because_said, failed[:4]), *grounds(facts, *CONTEXT, most=2), *more(facts)),
        row=known,
        fix=_fix_told(facts, driver, matrix) if ours else _fix_other(facts, module),
        confidence=Confidence.CERTAIN,
    )


def _module(facts: Facts, failed: tuple[Message, ...]) -> tuple[str, str | None]:
    """Give the module whose build failed, NVIDIA's where nothing names another, and its version as far as told."""
    of_amd = any(AMD_SOURCE.search(one.values.get("file", "")) for one in failed)
    for one in (*failed, *said(facts, "dkms-log", "dkms-install")):
        if OURS.match(one.values.get("module", "")):
            return one.values["module"], one.values.get("version")
    return "amdgpu" if of_amd else NVIDIA, None


def _in_words(facts: Facts) -> tuple[Message, ...]:
    """Give what says without the module's name that it does not build, where driver and kernel are told."""
    other = any(facts.find(one) for one in OTHERS)
    spoken = heard(facts, "open-module-named", *CONTEXT) or not other
    return mine(facts, BUILDS_NOT, API_GONE) if spoken else ()


def _known(driver: str | None, running: str | None, matrix: Matrix) -> Row | None:
    """Give the row that says that this release does not build with this kernel."""
    wanted = DriverRelease.parse(driver)
    found = drivers.fails_with(matrix, wanted, running) if wanted and running else None
    return found.row if found else None


def _why(driver: str | None, running: str | None, known: Row | None, matrix: Matrix) -> str:
    if known:
        return f"Known: {known.text}."
    last = _newest(driver, matrix)
    if last and running:
        return f"The source of driver {last.driver} names kernels up to {last.kernel}; this one is {running}."
    return "The headers are there, and the module's source does not compile against this kernel."


def _newest(driver: str | None, matrix: Matrix) -> Build | None:
    """Give the newest kernel that this release is known to be written for, by the next older row of its branch."""
    wanted = DriverRelease.parse(driver)
    same = [
        one for one in drivers.named(matrix) if wanted and one.driver.branch == wanted.branch and one.driver <= wanted
    ]
    return max(same, key=lambda one: one.driver, default=None)


def _fix_told(facts: Facts, driver: str | None, matrix: Matrix) -> Fix:
    number = branch_of(driver)
    row = drivers.branch_of(matrix, number) if number else None
    last = f" ({row.last} is the newest of branch {number})" if row and row.last else ""
    better = [one for one in drivers.builds(matrix) if one.builds and number and one.driver.branch == number]
    shown = f"; {better[-1].driver} builds with {better[-1].kernel}" if better else ""
    return fixes.rebuild(
        facts,
        f"Install a newer release of the driver{last}{shown}, which knows this kernel, or start an older kernel: the "
        "distribution's own or its long-term (LTS) one. The build's log names the line.",
        sh("tail -n 40 /var/lib/dkms/nvidia/{driver}/build/make.log", driver=DOTTED(driver) if driver else ANY),
        *fixes.driver(facts, matrix),
        sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, kernel(facts))),
    )


def _fix_other(facts: Facts, module: str) -> Fix:
    """Give what to do about a module of AMD's or Intel's, which the kernel itself also has."""
    own = next((name for word, name in IN_TREE.items() if word in module), module)
    package = module if module.endswith("-dkms") else f"{module}-dkms"
    fix = fixes.rebuild(
        facts,
        f"Install a release of {package} that knows this kernel, or start a kernel that it is made for. Or do without: "
        f"the kernel's own {own} drives the GPU where {package} is not installed.",
        sh("tail -n 40 /var/lib/dkms/{module}/*/build/make.log", module=NAME(module)),
        sh("sudo apt-get remove {package}", package=NAME(package)),
        sh("# or: sudo dnf remove {package}", package=NAME(package)),
    )
    return replace(fix, verify=sh("dkms status"))


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding for a machine that was looked at."""
    failed = [copy for copy in dkms_modules(facts) if text(copy.facts, "state") == "failed"]
    failed = [copy for copy in failed if flag(copy.facts, "for_running_kernel") is not False]
    if not failed or not nvidia_here(facts) or not out(facts) or on_disk(facts):
        return
    copy = failed[0]
    end = (text(copy.facts, "log_tail") or "").strip().splitlines()
    wrong = next((line for line in end if "error" in line.lower()), end[-1] if end else None)
    name = f"nvidia {text(copy.facts, 'module_version') or copy.version or ''}".strip()
    yield Finding(
        id="dkms-build-failed",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="dkms",
        title=f"DKMS failed to build {name} for kernel {fixes.kernel(facts)}",
        detail=wrong or "",
        because=(
            because_of(facts, "dkms", copy, "state"),
            Because(component="dkms", fact="log_tail", value=wrong, source="make.log"),
            because(facts, "linux-kernel", "release"),
        ),
        fix=fixes.rebuild(
            facts,
            "Install a newer release of the driver, which knows this kernel, or start an older kernel.",
            *fixes.driver(facts, matrix),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
        ),
    )
