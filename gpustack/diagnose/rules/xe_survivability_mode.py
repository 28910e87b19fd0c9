"""An Intel GPU is in survivability mode: its firmware did not start, and the kernel holds it for repair alone.

The module xe enters this mode where the card says that it could not boot, or after an error of its firmware at run
time. There is no display, no render node and nothing to compute on; the card answers so far that its firmware can be
written anew. Write the firmware with fwupd or the card maker's tool, and switch the machine off and on. A mode that
somebody asked for through configfs is left when that is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.intel import GPU, name_of
from gpustack.diagnose.rules.reading import because_of, copies, table, text
from gpustack.model.command import PCI, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

AT = "/sys/bus/pci/devices"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that the kernel holds in this mode."""
    for copy in copies(facts, GPU):
        held = table(copy.facts, "survivability")
        if not held:
            continue
        kind, words = text(held, "kind"), text(held, "words")
        when = {"boot": " since its start", "runtime": " since an error of its firmware"}.get(kind or "", "")
        yield Finding(
            id="xe-survivability-mode",
            instance=copy.key,
            severity=Severity.ERROR,
            layer=Layer.HARDWARE,
            component=GPU,
            title=f"{name_of(copy)} is in survivability mode{when}: its firmware must be written anew",
            detail=f"The kernel says: {'; '.join(words.splitlines()[:4])}." if words else "Only root may read why.",
            because=(because_of(facts, GPU, copy, "survivability"), because_of(facts, GPU, copy, "driver")),
            fix=Fix(
                text="Write the card's firmware anew, then switch the machine off and on.",
                commands=(
                    sh("sudo cat /sys/bus/pci/devices/{gpu}/survivability_mode  # what failed", gpu=PCI(copy.key)),
                    sh("sudo fwupdmgr refresh && sudo fwupdmgr update"),
                ),
                needs_root=True,
                needs_reboot=True,
                verify=sh("ls /sys/bus/pci/devices/{gpu}/survivability_mode  # must not be there", gpu=PCI(copy.key)),
            ),
        )
