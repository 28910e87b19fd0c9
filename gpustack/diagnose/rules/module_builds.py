"""Kernel modules that are built, signed and loaded for a kernel: DKMS, headers, Secure Boot."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import because_said, grounds, heard, said, value
from gpustack.diagnose.machine.inventory import nvidia_here
from gpustack.diagnose.machine.naming import (
    LOCKED,
    OURS,
    branch_of,
    kernel,
    machine,
    mine,
    more,
    release,
    secure,
    works,
)
from gpustack.diagnose.machine.values import because, because_of, copies, flag, status, text, texts, told, version
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules.kernel_modules import on_disk, out
from gpustack.matrix.subjects import drivers
from gpustack.model.command import ANY, DOTTED, GCC, NAME, PATH, either, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Confidence, Finding
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.drivers import Build
    from gpustack.model.facts import Facts, Instance, Message
    from gpustack.model.report import Fix, Row


OUT = ("module-out-said", "nvml-not-loaded", "module-load-failed", "no-nvidia-gpu", "dkms-failed")
PACKAGES = {
    "apt": "linux-headers-{kernel}",
    "dnf": "kernel-devel-{kernel} kernel-headers",
    "zypper": "kernel-default-devel",
    "pacman": "linux-headers (linux-zen-headers, linux-lts-headers: matching the kernel)",
}


@rule("dkms-headers-missing", Layer.KERNEL, "dkms")
def dkms_headers_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The headers of the running kernel are missing, so DKMS could not build NVIDIA's module for it.

    DKMS compiles the module for each kernel, and for that needs the kernel's headers. A kernel update installed a new
    kernel without them, so the module was not rebuilt. Install the headers and let DKMS build it.
    """
    missing, running = _missing(facts), kernel(facts)
    built, kernels, headers = dkms_modules(facts), *(texts(told(facts, "system-packages"), one) for one in LISTS)
    seen = nvidia_here(facts) and out(facts) and built and not on_disk(facts)
    seen = seen and status(facts, "kernel-headers") is Status.ABSENT
    written = any(one.line for one in missing) and not works(facts)
    wanted = next((one for one in kernels if running and running.startswith(one)), None) or (
        kernels[0] if len(kernels) == 1 and not running else None
    )
    listed = heard(facts, *OUT) and not works(facts) and wanted and headers and wanted not in headers
    if not (seen or written or listed):
        return
    driver, known = release(facts), running or (wanted if listed else None)
    which = f"kernel {known}" if known else "the running kernel"
    package = PACKAGES.get(fixes.manager(facts) or "", "linux-headers-{kernel} or kernel-devel-{kernel}")
    needs = f"Building it needs the package {package.format(kernel=known or '$(uname -r)')}."
    others = f" There are headers of {' and '.join(headers[:3])}." if listed else ""
    sure = seen or branch_of(driver)
    yield dkms_headers_missing.finding(
        layer=Layer.KERNEL if seen else Layer.KERNEL_MODULE,
        title=f"The headers of {which} are missing, so the GPU driver's module"
        f"{f' ({driver})' if driver else ''} cannot be built",
        detail=machine(facts, matrix, f"{needs}{others}"),
        because=(
            *map(because_said, missing[:4]),
            *([because(facts, "kernel-headers", "path"), because_of(facts, "dkms", built[0], "state")] if seen else []),
            *((because(facts, "system-packages", one) for one in LISTS) if listed else ()),
            *(grounds(facts, *OUT, most=2) if listed else ()),
            *more(facts),
        ),
        fix=fixes.rebuild(
            facts,
            "Install the kernel's headers (linux-headers or kernel-devel, of the same release as the kernel), build "
            "the module, and restart.",
            sh(fixes.HEADERS[fixes.manager(facts)], kernel=fixes.kernel(facts, known)),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, known)),
        ),
        confidence=Confidence.CERTAIN if sure and not (listed and not written) else Confidence.LIKELY,
    )


LISTS = ("kernels", "kernel_headers")


def _missing(facts: Facts) -> tuple[Message, ...]:
    """Return the messages on missing headers, without those of other kernels than the one whose build failed."""
    failed = {found for one in said(facts, "dkms-failed") if (found := one.values.get("kernel"))}
    missing = mine(facts, "dkms-headers", "dkms-autoconf")
    named_ = {found for one in missing if (found := one.values.get("kernel"))}
    return () if failed and named_ and not failed & named_ else missing


def dkms_modules(facts: Facts) -> tuple[Instance, ...]:
    """Return what DKMS has of NVIDIA's driver, those for the running kernel first."""
    return tuple(copy for copy in copies(facts, "dkms") if (text(copy.facts, "module") or "").startswith("nvidia"))


OLD_COMPILER, COMPILERS = "kernel-compiler-older", "kernel-compiler-differs"
DKMS_SAID = ("dkms-failed", "kernel-compile-error", "nvidia-installer-build", "dkms-package")
CONTEXT = (COMPILERS, "dkms-install", "dkms-log")
OPTION = re.compile(r"unrecognized command[- ]line option \W?(?P<option>-[\w=-]{1,60})")  # as gcc has it
OTHERS = ("pytorch", "python", "gcc", "cuda-toolkit")  # of which a build that fails may be, where they are told of
BUILDS_NOT, API_GONE = "module-build-said", "kernel-api-gone"
NVIDIA = "nvidia"
IN_TREE = {"amdgpu": "amdgpu", "i915": "i915 or xe", "xe": "xe"}  # what drives the GPU without the package of DKMS
AMD_SOURCE = re.compile(r"(?:^|/)amd/")


@rule(
    "dkms-build-failed",
    Layer.KERNEL_MODULE,
    "dkms",
    explained_by=("dkms-headers-missing", "nouveau-loaded", "nova-loaded", "host-compiler-missing"),
)
def dkms_build_failed(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """DKMS failed to build NVIDIA's kernel module for the running kernel.

    The headers are there, but the module's source does not compile: the kernel is newer than this driver release knows,
    a distribution has changed it, or the compiler differs from the kernel's. Install a newer release of the driver's
    branch, or boot an older kernel. The build's log names the line.
    """
    running = kernel(facts)
    named = heard(facts, *DKMS_SAID, "dkms-log", "dkms-install") or release(facts)
    said_ = (*DKMS_SAID, OLD_COMPILER) if named else DKMS_SAID
    written = mine(facts, *said_) or (_in_words(facts) if release(facts) and running else ())
    written = () if works(facts) else written
    copy = next((copy for copy in dkms_modules(facts) if text(copy.facts, "state") == "failed"), None)
    seen = copy is not None and flag(copy.facts, "for_running_kernel") is not False
    seen = seen and nvidia_here(facts) and out(facts) and not on_disk(facts)
    if not (written or seen):
        return
    module, version_ = _module(facts, written)
    ours = module.startswith(NVIDIA)
    driver = (release(facts) or (copy.version if copy else None)) if ours else version_
    known = _known(driver, running, matrix) if ours else None
    wrong = _log_end(copy) if copy and seen else None
    option = value(facts, OLD_COMPILER, "option") or next(iter(OPTION.findall(wrong or "")), None)
    why = f"The compiler is older than the kernel's own: it does not know {option}." if option else wrong
    yield dkms_build_failed.finding(
        title=f"The module of {' '.join(part for part in (module, driver) if part)} does not build"
        f" for {f'kernel {running}' if running else 'this kernel'}",
        detail=machine(facts, matrix, why or _why(driver if ours else None, running, known, matrix)),
        because=(
            *([because_of(facts, "dkms", copy, "state")] if copy and seen else []),
            *([Because(component="dkms", fact="log_tail", value=wrong, source="make.log")] if wrong else []),
            *map(because_said, written[:4]),
            *grounds(facts, *CONTEXT, most=2),
            *more(facts),
        ),
        row=known,
        fix=_compiler_fix(facts)
        if option
        else _build_fix(facts, driver, matrix)
        if ours
        else _fix_other(facts, module),
    )


def _log_end(copy: Instance) -> str | None:
    """Return the line of a build's log that says what is wrong, else its last."""
    end = (text(copy.facts, "log_tail") or "").strip().splitlines()
    return next((line for line in end if "error" in line.lower()), end[-1] if end else None)


def _module(facts: Facts, failed: tuple[Message, ...]) -> tuple[str, str | None]:
    """Return the module whose build failed, NVIDIA's where nothing names another, and its version as far as told."""
    of_amd = any(AMD_SOURCE.search(one.values.get("file", "")) for one in failed)
    for one in (*failed, *said(facts, "dkms-log", "dkms-install")):
        if OURS.match(one.values.get("module", "")):
            return one.values["module"], one.values.get("version")
    return "amdgpu" if of_amd else NVIDIA, None


def _in_words(facts: Facts) -> tuple[Message, ...]:
    """Return what says without the module's name that it does not build, where driver and kernel are told."""
    other = any(facts.find(one) for one in OTHERS)
    spoken = heard(facts, "open-module-named", *CONTEXT) or not other
    return mine(facts, BUILDS_NOT, API_GONE) if spoken else ()


def _known(driver: str | None, running: str | None, matrix: Matrix) -> Row | None:
    """Return the row that says that this release does not build with this kernel."""
    wanted = DriverRelease.parse(driver)
    found = drivers.fails_with(matrix, wanted, running) if wanted and running else None
    return found.row if found else None


def _why(driver: str | None, running: str | None, known: Row | None, matrix: Matrix) -> str:
    if known:
        return f"Known: {known.text}."
    last = _newest(driver, matrix)
    if last and running:
        return f"The source of driver {last.driver} supports kernels up to {last.kernel}; this one is {running}."
    return "The headers are installed, but the module's source does not compile against this kernel."


def _newest(driver: str | None, matrix: Matrix) -> Build | None:
    """Return the newest kernel that this release is known to be written for, by the next older row of its branch."""
    wanted = DriverRelease.parse(driver)
    same = [
        one for one in drivers.named(matrix) if wanted and one.driver.branch == wanted.branch and one.driver <= wanted
    ]
    return max(same, key=lambda one: one.driver, default=None)


def _build_fix(facts: Facts, driver: str | None, matrix: Matrix) -> Fix:
    number = branch_of(driver)
    row = drivers.branch_of(matrix, number) if number else None
    last = f" ({row.last} is the newest of branch {number})" if row and row.last else ""
    better = [one for one in drivers.builds(matrix) if one.builds and number and one.driver.branch == number]
    shown = f"; {better[-1].driver} builds with {better[-1].kernel}" if better else ""
    return fixes.rebuild(
        facts,
        f"Install a newer release of the driver{last}{shown}, which supports this kernel, or boot an older kernel: the "
        "distribution's own or its long-term (LTS) one. The build's log names the line.",
        sh("tail -n 40 /var/lib/dkms/nvidia/{driver}/build/make.log", driver=DOTTED(driver) if driver else ANY),
        *fixes.driver(facts, matrix),
        sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, kernel(facts))),
    )


def _compiler_fix(facts: Facts) -> Fix:
    """Return how to get the compiler that the kernel was built with, of the major release where that is known."""
    major = re.search(r"\bgcc[^\n]{0,60}?[ -](\d{1,2})\b", value(facts, COMPILERS, "kernel") or "")
    number = GCC(major[1] if major else None)
    family = fixes.manager(facts) or "apt"
    as_default = sh("sudo update-alternatives --install /usr/bin/gcc gcc /usr/bin/gcc-{number} {number}", number=number)
    return fixes.rebuild(
        facts,
        "Install the compiler that built this kernel, make it the default gcc, and build the module again. "
        "/proc/version names that compiler.",
        sh("cat /proc/version"),
        sh(fixes.OLDER_GCC[family] if family == "apt" else fixes.INSTALL[family], number=number, packages=NAME("gcc")),
        *([as_default] if family == "apt" else []),
        sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts, kernel(facts))),
    )


def _fix_other(facts: Facts, module: str) -> Fix:
    """Return what to do about a module of AMD's or Intel's, which the kernel itself also has."""
    own = next((name for word, name in IN_TREE.items() if word in module), module)
    package = module if module.endswith("-dkms") else f"{module}-dkms"
    fix = fixes.rebuild(
        facts,
        f"Install a release of {package} that supports this kernel, or boot a kernel that it was made for. Or do "
        f"without: the kernel's own {own} drives the GPU where {package} is not installed.",
        sh("tail -n 40 /var/lib/dkms/{module}/*/build/make.log", module=NAME(module)),
        *either(
            sh("sudo apt-get remove {package}", package=NAME(package)),
            sh("sudo dnf remove {package}", package=NAME(package)),
        ),
    )
    return replace(fix, verify=sh("dkms status"))


@rule("module-built-for-other-kernel", Layer.KERNEL_MODULE, "nvidia.ko")
def module_built_for_other_kernel(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """NVIDIA's kernel module was built for a different kernel than the one that is running.

    A module carries the name of the kernel that it was built for (its vermagic), and the kernel refuses one that names
    another. Build the module for this kernel, or boot the kernel that it was built for.
    """
    if not nvidia_here(facts) or not out(facts):
        return
    made_for = (text(told(facts, "nvidia.ko"), "vermagic") or "").partition(" ")[0]
    running = version(facts, "linux-kernel")
    magic = [one for one in said(facts, "module-vermagic") if one.values.get("module", "").startswith("nvidia")]
    refused = [*magic, *(() if facts.taken else said(facts, "module-format"))]
    differs = made_for and running and made_for != running
    if not differs and not refused:
        return
    yield module_built_for_other_kernel.finding(
        confidence=Confidence.CERTAIN if differs or facts.taken else Confidence.LIKELY,
        title=f"NVIDIA's module was built for kernel {made_for or 'another'}, but {running or 'another'} is running"
        if made_for or running
        else "NVIDIA's module was built for another kernel than the one that is running",
        because=(
            because(facts, "nvidia.ko", "vermagic"),
            because(facts, "linux-kernel", "version"),
            *map(because_said, refused[-1:]),
        ),
        fix=fixes.rebuild(
            facts,
            "Build the module for this kernel, or boot the kernel that it was built for.",
            fixes.headers(facts),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
        ),
    )


KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub", "/etc/pki/akmods/certs/public_key.der")
OF_OTHERS = re.compile(r"\b(?:vbox\w{2,6}|vm(?:mon|net)|v4l2loopback|zfs|wl|r8\d{3}|88x2bu|bbswitch)\b")  # modules
SECURE_BOOT_SAID = ("module-key-rejected", "module-unsigned", "module-lockdown")
KEPT_OUT = (
    *("module-signing-declined", "module-not-permitted", "nvml-not-loaded", "module-load-failed"),
    *("module-out-said", "module-key-said", "smi-no-devices", "no-nvidia-gpu"),
)
BLAMED = ("secure-boot-blamed-said", "module-key-said")
BUILT_WRONG = ("dkms-failed", "dkms-headers", "nvidia-installer-build", "probe-not-called", "module-format")


@rule(
    "secure-boot-key-rejected",
    Layer.KERNEL_MODULE,
    "nvidia.ko",
    explained_by=(
        "nouveau-loaded",
        "nova-loaded",
        "module-built-for-other-kernel",
        "open-module-unsupported-gpu",
        "legacy-gpu-needs-older-branch",
    ),
)
def secure_boot_key_rejected(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Secure Boot refuses NVIDIA's kernel module.

    With Secure Boot on, the kernel loads only modules signed with a key that the firmware or the machine owner knows.
    The module here was refused for its signature. Enrol the key that signed it (mokutil asks for a password, which the
    blue screen at the next boot asks for again), install a module that your distribution has signed, or switch Secure
    Boot off.
    """
    module, log, kernel_ = (told(facts, one) for one in ("nvidia.ko", "kernel-log", "linux-kernel"))
    missing = nvidia_here(facts) and out(facts)
    refused = mine(facts, *SECURE_BOOT_SAID) if missing or not facts.taken else ()
    refused = tuple(one for one in refused if not OF_OTHERS.search(one.line))
    declined, blamed = heard(facts, "module-signing-declined", "module-not-permitted"), _blamed(facts)
    suspect = secure(facts) and heard(facts, *KEPT_OUT) and not heard(facts, *BUILT_WRONG)
    kept_out = texts(module, "blacklisted") or texts(module, "competitors")
    unread = facts.taken and missing and flag(log, "readable") is not True
    likely = unread and secure(facts) and on_disk(facts) and not kept_out
    unsigned = likely and "signer" in module and text(module, "signer") is None
    if not likely and (works(facts) or not (refused or suspect or blamed)):
        return
    sure = Confidence.LIKELY if declined or blamed or unsigned else Confidence.POSSIBLE
    locks = (name for name in ("secure_boot", "lockdown") if kernel_.get(name))
    yield secure_boot_key_rejected.finding(
        title=_title(facts),
        detail=machine(facts, matrix, "The kernel loads signed modules only."),
        because=(
            *map(because_said, refused[:3]),
            *grounds(facts, *KEPT_OUT, "secure-boot-blamed-said", "secure-boot-on", "module-untrusted-key"),
            *(because(facts, "linux-kernel", name) for name in locks),
            *([because(facts, "nvidia.ko", "signer")] if facts.taken else []),
            *more(facts),
        ),
        fix=_fix(facts),
        confidence=Confidence.CERTAIN if refused else sure,
    )


def _title(facts: Facts) -> str:
    kernel = told(facts, "linux-kernel")
    if text(kernel, "lockdown") in LOCKED and flag(kernel, "secure_boot") is not True:
        return "Kernel lockdown refuses the GPU's kernel module: no key that the kernel trusts has signed it"
    return "Secure Boot refuses the GPU's kernel module: its signing key is not enrolled (MOK)"


def _blamed(facts: Facts) -> bool:
    """Return whether someone says that the driver works without Secure Boot, or that the key is not enrolled."""
    out_ = heard(facts, *KEPT_OUT)
    fails = ("nvml-not-loaded", "module-out-said", "ailing-said")
    untrusted = heard(facts, "module-untrusted-key") and heard(facts, *fails)
    unsigned = said(facts, BLAMED[1])
    skipped = any("mok" in one.line.lower() for one in unsigned) and heard(facts, "nvml-not-loaded", "module-out-said")
    known = bool(unsigned) and (secure(facts) is True or (skipped and secure(facts) is None))
    return untrusted or (heard(facts, BLAMED[0]) and out_) or known


def _fix(facts: Facts) -> Fix:
    key = KEYS[2] if fixes.manager(facts) == "dnf" else KEYS[0] if fixes.manager(facts) == "apt" else KEYS[1]
    return fixes.rebuild(
        facts,
        "Enrol the key that signed the module (the next boot asks for the password that mokutil asks for now), or "
        "install a module that your distribution has signed, or switch Secure Boot off in the firmware.",
        sh("sudo mokutil --import {key}", key=PATH(key)),
    )
