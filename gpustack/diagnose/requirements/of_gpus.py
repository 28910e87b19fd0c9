"""The records of findings about one GPU: its sensors, memory, limits, siblings and PCI Express link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.requirements.records import Record
from gpustack.diagnose.rules import LOST
from gpustack.model.command import GPU, PCI, Command, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from collections.abc import Mapping


def _all(gpu: str | None) -> Command:
    return sh("nvidia-smi -q -i {gpu}", gpu=GPU(gpu)) if gpu else sh("nvidia-smi -q")


def _speed(gpu: str | None) -> Command:
    one = sh("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK -i {gpu}", gpu=GPU(gpu)) if gpu else None
    return one or sh("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK")


def _memory(gpu: str | None) -> Command:
    return sh("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpu}", gpu=GPU(gpu))


def _reset(gpu: str | None) -> tuple[Command, ...]:
    return (sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(gpu)) if gpu else sh("sudo nvidia-smi --gpu-reset"),)


COMPARED = sh("nvidia-smi --query-gpu=pci.bus_id,vbios_version,power.limit,clocks.max.sm,ecc.mode.current --format=csv")


def _link(gpu: str | None) -> tuple[Command, ...]:
    return (sh("sudo lspci -vv -s {place} | grep -iE 'lnk|uesta|cesta'", place=PCI(gpu)),)


RECORDS: Mapping[str, Record] = {
    "gpu-not-answering": Record(
        explained_by=("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed"),
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Read what the kernel says about it, stop the programs on it and reset it. If it still does not "
        "respond, power-cycle the machine; if that does not help, have the board replaced.",
        commands=lambda gpu: (sh("sudo dmesg | grep -iE 'nvrm|xid'"), *_reset(gpu)),
        verify=_all,
        doc="""A GPU does not answer the driver.

        nvidia-smi shows Unknown Error for it, or does not list it. The GPU's firmware has stopped, its link is
        failing, or the board is: programs on it hang or fail, and its health is not known.

        Read the kernel's log for Xids, reset the GPU, then switch the machine off and on. If it stays, replace it.""",
    ),
    "gpu-sensor-error": Record(
        explained_by=("gpu-not-answering", "gpu-fell-off-bus", "gsp-timeout", "gpu-recovery-needed"),
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Stop the programs on it and reset it; then switch the machine off and on, or have the board replaced.",
        commands=lambda gpu: (sh("sudo dmesg | grep -iE 'nvrm|xid'"), *_reset(gpu)),
        verify=_all,
        doc="""A sensor of a GPU returns no value, or an impossible one.

        nvidia-smi shows ERR! or Unknown Error in its place. Without its temperature or power nobody can tell whether
        the GPU is healthy, and the driver cannot protect it. Often it is the first sign of a GPU that stops responding.

        Read the kernel's log for Xids, reset the GPU, then switch the machine off and on. If it stays, replace it.""",
    ),
    "sibling-differs": Record(
        explained_by=("gpu-not-answering",),
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Compare the GPUs and give the odd one the same settings and firmware as the others.",
        commands=lambda _gpu: (COMPARED,),
        verify=_speed,
        doc="""A GPU differs from the other GPUs of the same kind in this machine.

        Programs on several GPUs run as fast as the slowest one. Another VBIOS, power limit, clock limit, ECC mode or
        memory size usually comes from a replaced board, or from a setting that was made on one GPU only.

        Compare the GPUs with nvidia-smi, and give the odd one the same settings and firmware as the others.""",
    ),
    "gpu-setting-pending": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Stop the programs on it and reset it, so that the setting takes effect; or set it back.",
        commands=_reset,
        verify=_all,
        doc="""A setting of a GPU was changed and waits for a reset.

        ECC and MIG mode are stored on the board and take effect at the next reset of the GPU or start of the machine.
        Until then the GPU runs with the old mode, and afterwards with another amount of memory or other devices than
        programs have now: what works today may fail after the next restart.
        Reset the GPU while nothing runs on it, or set the old mode again.""",
    ),
    "ecc-off": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Switch ECC on and reset the GPU.",
        commands=lambda gpu: (sh("sudo nvidia-smi -e 1 -i {gpu}", gpu=GPU(gpu)), *_reset(gpu)),
        verify=_memory,
        doc="""ECC is switched off on a data-centre GPU.

        Memory errors then change results unnoticed: no counter rises and no row is replaced. On GPUs with HBM it costs
        no memory and hardly any speed.

        Switch it on (nvidia-smi -e 1) and reset the GPU.""",
    ),
    "gpu-prohibited": Record(
        layer=Layer.DRIVER,
        component="gpu",
        remedy="Set the compute mode back to default, unless the GPU is kept out of use on purpose.",
        commands=lambda gpu: (sh("sudo nvidia-smi -c DEFAULT -i {gpu}", gpu=GPU(gpu)),),
        verify=_all,
        doc="""The compute mode of a GPU is prohibited, so that no program can use it.

        Administrators set it to take a GPU out of use. CUDA does not list it; where it is the only one, programs say
        that all CUDA devices are busy or unavailable (error 46), or that there is none.

        Set the mode back to default (nvidia-smi -c DEFAULT), or find out why it was taken out of use.""",
    ),
    "gpu-clocks-low": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="If that was not intended, reset the clocks.",
        commands=lambda gpu: (
            sh("sudo nvidia-smi -rac -i {gpu}", gpu=GPU(gpu)),
            sh("sudo nvidia-smi -rgc -i {gpu}", gpu=GPU(gpu)),
        ),
        verify=_speed,
        doc="""The clocks of a GPU are set below their default, or its memory runs slowly under load.

        Someone has set application clocks or locked the clocks (nvidia-smi -ac, -lgc, -lmc), or a power-saving tool
        has: work takes longer, and other GPUs wait for this one.

        If that was not intended, reset them (nvidia-smi -rac and -rgc).""",
    ),
    "ecc-corrected-high": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Watch whether the count rises. If it does, take the GPU out of service and have it tested or replaced.",
        commands=lambda gpu: (_memory(gpu),),
        verify=_memory,
        confidence=Confidence.LIKELY,
        doc="""ECC has corrected far more memory errors on a GPU than a healthy one has.

        Each error was corrected, so no result is wrong. So many of them mean that a memory cell or a link to the memory
        is wearing out: errors that cannot be corrected tend to follow.

        Watch whether the count rises. If it does, test the GPU (gpustack stress) and have it replaced.""",
    ),
    "gpu-memory-hot": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Cool it: check fans, airflow, dust and the room; in a server, the fan profile.",
        commands=lambda gpu: (_speed(gpu),),
        verify=_speed,
        doc="""The memory of a GPU is too hot.

        HBM has a limit of its own, which it can reach while the GPU itself is cool. Near it the memory is refreshed
        more often and slows down; above it errors follow.

        Check fans, airflow and dust, and in a server the fan profile. Neighbouring GPUs show whether one cooler is
        badly seated.""",
    ),
    "gpu-memory-held": Record(
        explained_by=("gpu-process-stuck", "mig-enabled-no-instance"),
        layer=Layer.APPLICATION,
        component="gpu",
        remedy="Find out who holds it: a process of another container or user, or one that has ended and left a "
        "child. If nobody does, reset the GPU.",
        commands=lambda gpu: (sh("sudo fuser -v /dev/nvidia*"), *_reset(gpu)),
        verify=lambda _gpu: sh("nvidia-smi --query-gpu=pci.bus_id,memory.used --format=csv"),
        confidence=Confidence.LIKELY,
        doc="""Memory of a GPU is in use, but no process is visible on it.

        A program that starts now has less memory than the GPU has, and may run out of it. The memory belongs to a
        process of another container, to one that has ended and left a child, or it was lost when a process crashed.

        Find the process that has the GPU's device node open, and end it. If there is none, reset the GPU.""",
    ),
    "gpu-power-limited": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="If that was not intended, restore the default limit (WATTS is the default that nvidia-smi shows).",
        commands=lambda gpu: (
            sh("nvidia-smi -q -d POWER -i {gpu}", gpu=GPU(gpu)),
            step("set it with `sudo nvidia-smi -pl WATTS -i {gpu}`", gpu=GPU(gpu)),
        ),
        verify=_speed,
        doc="""The power limit of a GPU is below its default.

        Under load the GPU lowers its clocks to stay below the limit, so it is slower than its siblings and than its
        datasheet says. Someone has set the limit (nvidia-smi -pl), or the server's management has.

        If that was not intended, restore the default limit. It is also the default after a restart of the driver.""",
    ),
    "gpu-xid": Record(
        explained_by=(*LOST, "gpu-ecc-error", "nvlink-error", "host-hardware-fault"),
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Stop its programs and do what NVIDIA's catalogue asks; gpustack explain xid NUMBER says more. If "
        "it comes back, test the GPU and have it replaced.",
        commands=lambda gpu: (sh("sudo dmesg | grep -iE 'nvrm|xid'"), *_reset(gpu)),
        verify=_all,
        doc="""The driver has logged an Xid, its number for an error of a GPU, that asks for an action.

        NVIDIA's catalogue says for each Xid what to do: nothing, restart the program, reset the GPU, restart the
        machine, check cables and power, or update. An Xid that asks for a reset leaves the GPU unusable or its results
        in doubt until then; one that a program can cause does not count unless it comes back.

        Read the log around it: the first Xid is the cause, those after it are its consequences. Then do what the
        catalogue asks for.""",
    ),
    "inforom-corrupted": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Reset the GPU or restart the machine. If the warning stays, have the board replaced.",
        commands=_reset,
        verify=_all,
        doc="""The InfoROM of a GPU is corrupted.

        The InfoROM is a small memory on the board that keeps its configuration, its ECC counts and its retired memory.
        When it is damaged, settings such as the ECC mode are lost and the history of memory errors is not known.

        Reset the GPU or restart the machine. If the warning stays, NVIDIA asks for the board to be replaced.""",
    ),
    "pcie-errors": Record(
        explained_by=("gpu-fell-off-bus", "bios-bar-setting"),
        layer=Layer.HARDWARE,
        component="pci-display",
        remedy="Switch the machine off, reseat the card, its riser and its cables, and try another slot. If the "
        "errors come back, have the card or the board replaced.",
        commands=_link,
        verify=_all,
        doc="""The PCI Express link of a GPU has had errors.

        Corrected errors and replays cost time: each packet is sent again. Uncorrected and fatal errors lose data, crash
        programs, or take the GPU off the bus. The cause is the seating of the card, a riser, a cable, or the slot.

        Reseat the card and its riser, try another slot, and update the machine's firmware.""",
    ),
    # Findings that rules yield too; their texts are there.
    "bios-bar-setting": Record(
        layer=Layer.HARDWARE,
        component="pci-display",
        remedy="Turn on Above 4G Decoding and Resizable BAR in the machine's firmware, or remove pci=realloc=off from "
        "the kernel's command line; then restart.",
        commands=lambda gpu: (
            sh("sudo dmesg | grep -i 'BAR '"),
            sh("sudo lspci -vv -s {place} | grep -i region", place=PCI(gpu)),
        ),
        verify=_all,
        needs_reboot=True,
    ),
    "gpu-ecc-error": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Stop its programs and reset it. If errors come back or remapping failed, have the board replaced.",
        commands=_reset,
        verify=_memory,
    ),
    "gpu-recovery-needed": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Stop the programs on it, then do what the driver asks.",
        commands=_reset,
        verify=_all,
    ),
    "gpu-overheat": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Cool it: check fans, airflow, dust, thermal paste and the room; in a server, the fan profile.",
        commands=lambda gpu: (_speed(gpu),),
        verify=_speed,
    ),
    "gpu-hw-slowdown": Record(
        layer=Layer.HARDWARE,
        component="gpu",
        remedy="Check the power supplies, their cables and the load on them, and the server's event log.",
        commands=lambda gpu: (_speed(gpu),),
        verify=_speed,
        doc="""A GPU is slowed down by its hardware: a power brake signal or a power fault.

        The board or the power supply tells it to draw less, or its supply sags: its clocks are cut to half or less.
        Look at power supplies, their cables and the load on them, and at the server's own event log.""",
    ),
    "pcie-link-degraded": Record(
        layer=Layer.HARDWARE,
        component="pci-display",
        remedy="Switch the machine off and reseat the card, its riser and cables in a slot with all lanes; check "
        "the slot's setting in the firmware (generation: automatic or the card's) and look for newer firmware.",
        commands=_link,
        verify=_all,
    ),
}
