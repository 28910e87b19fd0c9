"""Drivers that hold an NVIDIA GPU in the place of NVIDIA's own: what the rules about nouveau and nova share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, because_of, flag, text, texts, told
from gpustack.diagnose.rules.saying import because_said, heard
from gpustack.diagnose.rules.seen import PASSED_ON, on_bus, ours
from gpustack.diagnose.rules.told_machine import machine, more, works
from gpustack.model.command import MODULE, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Fix

# NVIDIA's module was refused before it could ask for the GPU: the other driver is there for that.
REFUSED = ("module-key-rejected", "module-unsigned", "module-lockdown")


def held_by(driver: str, name: re.Pattern[str], finding: str, facts: Facts) -> Iterator[Finding]:
    """Give the finding where this driver holds a GPU, or is loaded while NVIDIA's module is not."""
    if heard(facts, *REFUSED):
        return
    held = [copy for copy in ours(facts) if name.match(text(copy.facts, "driver") or "")]
    module = told(facts, "nvidia.ko")
    rivals = [one for one in texts(module, "competitors") if name.match(one)]
    log = [line for line in texts(told(facts, "kernel-log"), "nvrm") if "ownership" in line or "such as" in line]
    logged = [line for line in texts(told(facts, "kernel-log"), "nvrm") if log and name.search(line)]
    if not held and (flag(module, "loaded") or not (rivals or logged)):
        return
    others = [copy for copy in ours(facts) if text(copy.facts, "driver") == "nvidia"]
    grounds = [because_of(facts, "pci-display", copy, "driver") for copy in held]
    if rivals:
        grounds.append(because(facts, "nvidia.ko", "competitors"))
    grounds += [Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in logged[:1]]
    where = f" at {', '.join(copy.key for copy in held)}" if held else ""
    yield Finding(
        id=finding,
        severity=Severity.WARNING if others else Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"{driver} holds the NVIDIA GPU{where}, so NVIDIA's driver cannot",
        detail="Only one driver can hold a GPU, and CUDA needs NVIDIA's.",
        because=tuple(grounds),
        fix=_fix(driver, facts),
    )


def told_by(
    driver: str, said: tuple[Message, ...], facts: Facts, matrix: Matrix, *, finding: str, confidence: Confidence
) -> Iterator[Finding]:
    """Give the finding where messages say that this driver holds the GPU and nothing shows NVIDIA's at work."""
    given_on = any(text(copy.facts, "driver") in PASSED_ON for copy in on_bus(facts, "nvidia"))
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    if not said or works(facts) or given_on or bound or heard(facts, *REFUSED):
        return
    yield Finding(
        id=finding,
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"{driver} holds the NVIDIA GPU, so NVIDIA's driver cannot",
        detail=machine(facts, matrix, "Only one driver can hold a GPU, and CUDA needs NVIDIA's."),
        because=(*map(because_said, said[:4]), *more(facts)),
        fix=_fix(driver, facts),
        confidence=confidence,
    )


NOUVEAU = sh("printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/no-nouveau.conf")
BLACKLIST = "printf 'blacklist %s\\n' {driver} | sudo tee /etc/modprobe.d/no-{name}.conf"


def _fix(driver: str, facts: Facts) -> Fix:
    return fixes.rebuild(
        facts,
        f"Keep {driver} from being loaded (blacklist it), build the initramfs anew, and restart.",
        NOUVEAU if driver == "nouveau" else sh(BLACKLIST, driver=MODULE(driver), name=MODULE(driver.partition("_")[0])),
        fixes.initramfs(facts),
    )
