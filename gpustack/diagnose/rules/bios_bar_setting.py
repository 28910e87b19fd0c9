"""The machine's firmware gives the GPU no room for its memory window (BAR).

The driver reaches a GPU through windows in the machine's address space. Large ones lie above 4 GB, which the firmware
must allow: "Above 4G Decoding", on many boards with "Resizable BAR". Without it the window stays unassigned (BAR1 is
0M) and the driver cannot start the GPU. Switch both on and CSM off; where the firmware has no such setting, pci=realloc
may help.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.told_machine import machine, more, whole, works
from gpustack.model.command import NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

SMALLEST = 0x1000_0000  # a GPU's window: 256 MiB and more; bridges and other devices ask for less
FAILS = (
    "smi-no-devices",
    "nvml-not-loaded",
    "rminit-failed",
    "no-device",
    "no-nvidia-gpu",
    "gpu-lost",
    "module-out-said",
)
HELPED = re.compile(
    r"4G[^.;]{0,40}\b(?:fix|solv|help|work)\w*|4G[^.]{0,40}\b(?:enabl|turn|switch)\w+[^.]{0,24}\b(?:works?|worked|fixe[sd]|helps|helped|solve[sd])\b|\b(?:fix|solv|help)\w*[^.;]{0,40}4G",
    re.IGNORECASE,
)
OFF = ("disabled", "off", "not", "missing")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the driver or the kernel says so, or the setting is off and the GPU does not start."""
    invalid = said(facts, "bar-invalid")
    large = tuple(one for one in said(facts, "bar-no-space") if _large(one))
    setting = tuple(one for one in said(facts, "bios-above-4g") if _decides(one))
    settled = setting if heard(facts, *FAILS) else tuple(one for one in setting if HELPED.search(one.line))
    if works(facts) or not (invalid or large or settled):
        return
    named = next(
        (f"{one.values['bar']} is {one.values.get('size', '0')}M" for one in invalid if "bar" in one.values), ""
    )
    sizes = next((f"{whole(one.values['size'], 16) >> 20} MiB" for one in large if one.values.get("size")), "")
    amd = any("amdgpu" in one.line for one in large)
    shown = named or (f"a window of {sizes} found no space" if sizes else "")
    yield Finding(
        id="bios-bar-setting",
        severity=Severity.ERROR,
        layer=Layer.HARDWARE,
        component="pci-display",
        title="The firmware gives the GPU no room for its memory window (BAR)"
        + (f": {shown}" if shown else "")
        + "; Above 4G Decoding or Resizable BAR is off",
        detail=machine(facts, matrix),
        because=(*map(because_said, (*invalid, *large, *setting)[:5]), *grounds(facts, *FAILS, most=2), *more(facts)),
        fix=Fix(
            text=f"{fixes.place(facts)}In the machine's firmware (BIOS), switch Above 4G Decoding and Resizable BAR on "
            "and CSM off; bring the firmware up to date. Where there is none, start the kernel with pci=realloc.",
            commands=(
                sh("sudo dmesg | grep -iE 'BAR|amdgpu'") if amd else sh("sudo dmesg | grep -iE 'BAR|nvrm'"),
                sh("lspci -vv -d {maker}: | grep -i region", maker=NAME("1002" if amd else "10de")),
            ),
            needs_root=True,
            needs_reboot=True,
            verify=sh("rocm-smi") if amd else sh("nvidia-smi"),
        ),
        confidence=Confidence.CERTAIN if invalid else Confidence.LIKELY,
    )


def _large(one: Message) -> bool:
    size = one.values.get("size")
    return size is None or whole(size, 16) >= SMALLEST


def _decides(one: Message) -> bool:
    """Tell whether a line says that the setting is off, or that switching it on helped."""
    state = one.values.get("state", "").lower()
    return "setting" in one.values or state.startswith(OFF) or state.startswith(("enabling", "fix", "solv"))
