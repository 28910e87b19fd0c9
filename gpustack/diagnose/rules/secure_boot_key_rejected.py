"""Secure Boot keeps NVIDIA's kernel module out.

With Secure Boot on, the kernel loads only modules signed with a key that the firmware or the machine owner knows. The
module here was refused for its signature. Enrol the key that signed it (mokutil asks for a password, which the blue
screen at the next start wants back), install a module that your distribution has signed, or switch Secure Boot off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.nvidia_module_not_loaded import on_disk, out
from gpustack.diagnose.rules.reading import because, flag, text, texts, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.diagnose.rules.told_machine import LOCKED, machine, mine, more, secure, works
from gpustack.model.command import PATH, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Fix

REFUSED = re.compile(
    r"key was rejected|module is rejected|unsigned module|unavailable key|signature not signed|key not available",
    re.IGNORECASE,
)
KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub", "/etc/pki/akmods/certs/public_key.der")


SAID = ("module-key-rejected", "module-unsigned", "module-lockdown")
KEPT_OUT = (
    *("module-signing-declined", "module-not-permitted", "nvml-not-loaded", "module-load-failed"),
    *("module-out-said", "module-key-said", "smi-no-devices", "no-nvidia-gpu"),
)
BLAMED = ("secure-boot-blamed-said", "module-key-said")
BUILT_WRONG = ("dkms-failed", "dkms-headers", "nvidia-installer-build", "probe-not-called", "module-format")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the log says so, or where Secure Boot is on and an unsigned module stays out."""
    yield from _told(facts, matrix)
    yield from _seen(facts)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text has the kernel's refusal, or Secure Boot on and a module that stays out."""
    refused = mine(facts, *SAID)
    declined = heard(facts, "module-signing-declined", "module-not-permitted")
    suspect = secure(facts) and heard(facts, *KEPT_OUT) and not heard(facts, *BUILT_WRONG)
    blamed = _blamed(facts)
    if works(facts) or not (refused or suspect or blamed):
        return
    yield Finding(
        id="secure-boot-key-rejected",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=_title(facts),
        detail=machine(facts, matrix, "The kernel loads signed modules only."),
        because=(
            *map(because_said, refused[:3]),
            *grounds(facts, *KEPT_OUT, "secure-boot-blamed-said", "secure-boot-on", "module-untrusted-key"),
            *(
                because(facts, "linux-kernel", name)
                for name in ("secure_boot", "lockdown")
                if told(facts, "linux-kernel").get(name)
            ),
            *more(facts),
        ),
        fix=_fix(facts),
        confidence=Confidence.CERTAIN if refused else Confidence.LIKELY if declined or blamed else Confidence.POSSIBLE,
    )


def _title(facts: Facts) -> str:
    kernel = told(facts, "linux-kernel")
    if text(kernel, "lockdown") in LOCKED and flag(kernel, "secure_boot") is not True:
        return "Kernel lockdown keeps the GPU's kernel module out: no key that the kernel trusts has signed it"
    return "Secure Boot keeps the GPU's kernel module out: its signing key is not enrolled (MOK)"


def _blamed(facts: Facts) -> bool:
    """Tell whether somebody says that the driver works without Secure Boot, or that the key is not enrolled."""
    out_ = heard(facts, *KEPT_OUT)
    untrusted = heard(facts, "module-untrusted-key") and heard(facts, "nvml-not-loaded", "module-out-said")
    unsigned = said(facts, BLAMED[1])
    skipped = any("mok" in one.line.lower() for one in unsigned) and heard(facts, "nvml-not-loaded", "module-out-said")
    known = bool(unsigned) and (secure(facts) is True or (skipped and secure(facts) is None))
    return untrusted or (heard(facts, BLAMED[0]) and out_) or known


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give the finding for a machine that was looked at."""
    if not nvidia_here(facts) or not out(facts):
        return
    module, log = told(facts, "nvidia.ko"), told(facts, "kernel-log")
    refused = [line for line in (*texts(log, "module_errors"), *texts(log, "nvrm")) if REFUSED.search(line)]
    kernel = told(facts, "linux-kernel")
    secure = flag(kernel, "secure_boot") or text(kernel, "lockdown") in LOCKED
    unread = flag(log, "readable") is not True
    kept_out = texts(module, "blacklisted") or texts(module, "competitors")
    suspect = secure and unread and on_disk(facts) and not kept_out
    if not refused and not suspect:
        return
    unsigned = "signer" in module and text(module, "signer") is None
    sure = Confidence.CERTAIN if refused else Confidence.LIKELY if unsigned else Confidence.POSSIBLE
    grounds = (
        [Because(component="kernel-log", fact="module_errors", value=refused[-1], source="kernel log")]
        if refused
        else []
    )
    yield Finding(
        id="secure-boot-key-rejected",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=_title(facts),
        because=(
            *grounds,
            *(because(facts, "linux-kernel", name) for name in ("secure_boot", "lockdown") if kernel.get(name)),
            because(facts, "nvidia.ko", "signer"),
        ),
        fix=_fix(facts),
        confidence=sure,
    )


def _fix(facts: Facts) -> Fix:
    key = KEYS[2] if fixes.manager(facts) == "dnf" else KEYS[0] if fixes.manager(facts) == "apt" else KEYS[1]
    return fixes.rebuild(
        facts,
        "Enrol the key that signed the module (the next start asks for the password that mokutil wants now), or "
        "install a module that your distribution has signed, or switch Secure Boot off in the firmware.",
        sh("sudo mokutil --import {key}", key=PATH(key)),
    )
