"""Drivers that hold an NVIDIA GPU in the place of NVIDIA's own: what the rules about nouveau and nova share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, because_of, flag, text, texts, told
from gpustack.rules.seen import ours

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from gpustack.model.facts import Facts
    from gpustack.model.report import Fix


def held_by(driver: str, name: re.Pattern[str], finding: str, facts: Facts) -> Iterator[Finding]:
    """Give the finding where this driver holds a GPU, or is loaded while NVIDIA's module is not."""
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


def _fix(driver: str, facts: Facts) -> Fix:
    file = f"/etc/modprobe.d/no-{driver.partition('_')[0]}.conf"
    rule = f"blacklist {driver}\\noptions {driver} modeset=0\\n" if driver == "nouveau" else f"blacklist {driver}\\n"
    return fixes.rebuild(
        facts,
        f"Keep {driver} from being loaded, build the initramfs anew, and restart.",
        f"printf '{rule}' | sudo tee {file}",
        fixes.initramfs(facts),
    )
