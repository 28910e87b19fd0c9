"""The records of findings about what joins GPUs, and about the machine around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.requirements.records import Record
from gpustack.diagnose.rules import FABRIC, LOST, NO_GPU_FOR_NVML
from gpustack.model.command import GPU, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from collections.abc import Mapping


def _links(gpu: str | None) -> Command:
    return sh("nvidia-smi nvlink --status -i {gpu}", gpu=GPU(gpu)) if gpu else sh("nvidia-smi nvlink --status")


def _listed(_gpu: str | None) -> Command:
    return sh("nvidia-smi -L")


def _doctor(_gpu: str | None) -> Command:
    return sh("gpustack doctor")


RECORDS: Mapping[str, Record] = {
    "gpu-missing": Record(
        explained_by=(*NO_GPU_FOR_NVML, "gpu-recovery-needed", "gpu-not-answering"),
        layer=Layer.DRIVER,
        component="nvml",
        remedy="Read why the driver could not start it. Switch the machine off and on; if it is still missing, "
        "reseat the card or have it replaced.",
        commands=lambda _gpu: (sh("sudo dmesg | grep -iE 'nvrm|xid'"), sh("lspci -d 10de:"), sh("nvidia-smi -L")),
        verify=_listed,
        doc="""A GPU is in one list of this machine's GPUs and missing from another.

        The PCI bus, the kernel module, NVML and CUDA each list the GPUs. One that NVML or CUDA lacks cannot be used,
        and programs that expect all of them fail or run on fewer. Usually the driver could not start it (RmInitAdapter
        failed in the kernel's log), or it has been lost since.

        GPUs that are hidden on purpose are not counted: by CUDA_VISIBLE_DEVICES, MIG, a container or scheduler, an
        exclusion, or because a virtual machine has them. Read the kernel's log, then switch the machine off and on.""",
    ),
    "nvlink-inactive": Record(
        explained_by=(*LOST, "nvlink-error", "fabric-state", *FABRIC, "driver-library-mismatch"),
        layer=Layer.HARDWARE,
        component="nvlink",
        remedy="Check that the fabric manager runs and read its log, then reset all GPUs together or restart the "
        "machine. A link that stays down is a fault of the board, of the NVSwitch or of the seating.",
        commands=lambda gpu: (
            _links(gpu),
            sh("systemctl status nvidia-fabricmanager"),
            sh("sudo dmesg | grep -iE 'nvlink|sxid|xid'"),
        ),
        verify=_links,
        doc="""NVLinks of a GPU are inactive, on a machine where all of them should be up.

        On boards with NVSwitch every link of every GPU is trained when the machine starts. With links down, GPUs reach
        each other more slowly, over fewer links or over PCI Express, or CUDA does not start at all.

        Check the fabric manager and the kernel's log, and reset the GPUs or restart the machine. GPUs that are joined
        by a bridge may leave links unused, and are not judged by this.""",
    ),
    "rdma-port-degraded": Record(
        layer=Layer.HARDWARE,
        component="infiniband",
        remedy="Check its cable, transceiver and switch port, and that a subnet manager runs (InfiniBand); give cards "
        "of one kind the same firmware.",
        commands=lambda _port: (sh("rdma link"), sh("ibstat"), sh("sudo dmesg | grep -i mlx5")),
        verify=lambda _port: sh("rdma link"),
        confidence=Confidence.LIKELY,
        doc="""A port of an InfiniBand or RoCE card is not active, is slower than its siblings, or has had errors.

        NCCL uses every port near the GPUs. One that is down or slow holds all GPUs of all machines back, since a
        collective runs as fast as its slowest path; links that go down and come back end jobs.

        Check the cable, the transceiver and the port of the switch. A port that stays in INIT has no subnet manager.
        Ports without a cable are not judged, unless most ports of the same board are in use.""",
    ),
    "nvlink-error": Record(
        layer=Layer.HARDWARE,
        component="nvlink",
        remedy="Watch whether the counts rise. Reset the GPUs on that link; if it comes back, reseat the board or "
        "bridge, or have the part replaced.",
        commands=lambda gpu: (sh("nvidia-smi nvlink --errorcounters -i {gpu}", gpu=GPU(gpu)),),
        verify=_links,
        confidence=Confidence.LIKELY,
    ),
    "fabric-state": Record(
        explained_by=(*FABRIC, "driver-library-mismatch", "gpu-fell-off-bus"),
        layer=Layer.DRIVER,
        component="gpu",
        remedy="Check that the fabric manager runs, in exactly the driver's release, and read its log; then restart "
        "it, or restart the machine.",
        commands=lambda _gpu: (
            sh("systemctl status nvidia-fabricmanager"),
            sh("sudo journalctl -b -u nvidia-fabricmanager"),
            sh("sudo systemctl restart nvidia-fabricmanager"),
        ),
        verify=lambda _gpu: sh("nvidia-smi -q | grep -A 8 Fabric"),
        doc="""A GPU has not joined its NVLink fabric, or the fabric reports that it is unhealthy.

        On machines with NVSwitch the fabric manager joins the GPUs. Until it has, CUDA fails with error 802 (system not
        yet initialised), and NCCL fails or falls back to slower paths. Degraded bandwidth and unhealthy routes make
        work on several GPUs slow or fail.

        Check the fabric manager, its release and its log. A state that stays "in progress" means that it does not run
        or found a link or switch that is broken.""",
    ),
    "nvml-slow": Record(
        explained_by=(*LOST, "persistence-mode-off"),
        layer=Layer.DRIVER,
        component="nvml",
        remedy="Read what the kernel says, and look for a GPU that hangs or a process that waits in the driver.",
        commands=lambda _gpu: (
            sh("sudo dmesg | grep -iE 'nvrm|xid'"),
            sh("ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /D/'"),
        ),
        verify=_listed,
        confidence=Confidence.LIKELY,
        doc="""NVML, the driver's management library, takes seconds to answer.

        It usually answers in milliseconds. One that is slow is the first sign of a GPU whose firmware hangs, of a link
        that fails, or of a process that is stuck in the driver. A machine that is busy to its limit can be slow too.

        Read the kernel's log for Xids and timeouts, and look for processes in state D.""",
    ),
    "driver-library-mismatch": Record(
        layer=Layer.DRIVER,
        component="nvidia-driver",
        remedy="Install kernel module, firmware and libraries of one release, then restart.",
        commands=lambda _gpu: (sh("cat /proc/driver/nvidia/version"), sh("ls /lib/firmware/nvidia")),
        verify=_listed,
        needs_reboot=True,
    ),
    "fabric-manager-version-mismatch": Record(
        layer=Layer.DRIVER,
        component="nvidia-fabricmanager",
        remedy="Restart the fabric manager while no program uses the GPUs.",
        commands=lambda _gpu: (sh("sudo systemctl restart nvidia-fabricmanager"),),
        verify=lambda _gpu: sh("systemctl status nvidia-fabricmanager"),
    ),
    "imex-not-ready": Record(
        layer=Layer.DRIVER,
        component="nvidia-imex",
        remedy="Start the IMEX daemon on every node of the rack with the same list of nodes, and read its log.",
        commands=lambda _gpu: (
            sh("nvidia-imex-ctl -N"),
            sh("sudo journalctl -b -u nvidia-imex"),
            sh("sudo systemctl restart nvidia-imex"),
        ),
        verify=lambda _gpu: sh("nvidia-imex-ctl -N"),
        doc="""IMEX, which shares GPU memory between the nodes of an NVLink rack, is not ready.

        On GB200 and GB300 racks NVLink joins GPUs of several nodes. The IMEX daemon of each node lets them map each
        other's memory, and a program needs one of its channels. Without it NCCL falls back to the network or fails
        (CUDA error 800 or 801 for fabric handles).

        Start nvidia-imex on every node, give all of them the same nodes_config.cfg, and let the module create a channel
        (NVreg_CreateImexChannel0=1).""",
    ),
    "gpu-far-from-network": Record(
        layer=Layer.HARDWARE,
        component="infiniband",
        remedy="Check the machine's slot diagram: seat a network card beside each group of GPUs, or find out "
        "which card is missing.",
        commands=lambda _gpu: (sh("nvidia-smi topo -m"), sh("lspci -tv")),
        verify=lambda _gpu: sh("nvidia-smi topo -m"),
        confidence=Confidence.LIKELY,
        doc="""A GPU has no network card near it, although its siblings do.

        Data between machines goes from a GPU to the card below the same PCI Express switch, or at least at the same
        processor. A GPU without one sends everything across the link between the processors: that is slower, takes
        bandwidth from the others, and holds back every collective of the job.

        A card may be missing, in the wrong slot, or not recognised. Compare with the machine's manual.""",
    ),
    "clock-not-synchronised": Record(
        layer=Layer.KERNEL,
        component="linux-kernel",
        remedy="Start a service that synchronises the clock: chrony, systemd-timesyncd or ptp4l.",
        commands=lambda _gpu: (sh("timedatectl status"), sh("sudo timedatectl set-ntp true")),
        verify=lambda _gpu: sh("timedatectl show -p NTPSynchronized"),
        doc="""The clock of the machine is not synchronised with any other.

        It drifts by seconds a day. Certificates and tickets are then refused, logs of several machines cannot be put in
        order, and counters that are compared over time show wrong rates.

        Start chrony, systemd-timesyncd or ptp4l, and let it reach its server.""",
    ),
    "open-files-low": Record(
        layer=Layer.ENVIRONMENT,
        component="limits",
        remedy="Raise the limit for the user, or for the service (LimitNOFILE) or container (--ulimit nofile).",
        commands=lambda _gpu: (sh("ulimit -Hn"), sh("ulimit -n $(ulimit -Hn)")),
        verify=lambda _gpu: sh("ulimit -n"),
        doc="""A process may open fewer files than programs on several GPUs need.

        Each worker that loads data, each connection of NCCL and each shared tensor takes a file. Above the limit they
        fail with "Too many open files", often hours into a run.

        Raise it (ulimit -n; in services LimitNOFILE, in containers --ulimit nofile).""",
    ),
    "host-hardware-fault": Record(
        layer=Layer.HARDWARE,
        component="linux-kernel",
        remedy="Read the machine's own event log, update its firmware, and have the faulty part replaced.",
        commands=lambda _gpu: (sh("sudo dmesg | grep -iE 'hardware error|mce'"), sh("sudo ipmitool sel list")),
        verify=_doctor,
    ),
    "kernel-fault": Record(
        explained_by=("host-hardware-fault",),
        layer=Layer.KERNEL,
        component="linux-kernel",
        remedy="Read the kernel's log around the fault, then restart the machine: parts of the kernel may be stuck.",
        commands=lambda _gpu: (sh("sudo dmesg | grep -iE -A 20 'bug:|oops|soft lockup|bad page'"), sh("sudo reboot")),
        verify=lambda _gpu: sh("cat /proc/sys/kernel/tainted"),
        needs_reboot=True,
        doc="""The kernel has had a fault since boot: an oops, a soft lockup or a damaged page.

        A driver or the kernel failed, or memory is bad. The kernel keeps running, but locks that the failed part held
        stay locked: processes hang in state D, a GPU stops answering, and the driver cannot be unloaded.

        Read the log around the fault for the module that it names, restart, and update that driver or the kernel.""",
    ),
    "persistence-mode-off": Record(
        layer=Layer.DRIVER,
        component="nvidia-driver",
        remedy="Run nvidia-persistenced.",
        commands=lambda _gpu: (sh("sudo systemctl enable --now nvidia-persistenced"),),
        verify=lambda _gpu: sh("nvidia-smi --query-gpu=persistence_mode --format=csv"),
    ),
    "numa-balancing-on": Record(
        layer=Layer.KERNEL,
        component="linux-kernel",
        remedy="Switch it off on GPU servers, and make that permanent in /etc/sysctl.d.",
        commands=lambda _gpu: (sh("sudo sysctl -w kernel.numa_balancing=0"),),
        verify=lambda _gpu: sh("cat /proc/sys/kernel/numa_balancing"),
        doc="""Automatic NUMA balancing is on although the machine has data-centre GPUs.

        The kernel then unmaps pages of programs to see which processor uses them, and moves them. For programs that
        keep memory pinned for a GPU this costs time, makes it vary, and gains nothing.

        Switch it off (kernel.numa_balancing=0), as the tuning guides for GPU servers ask. Machines with one NUMA node
        never have it on.""",
    ),
    "cpu-governor-slow": Record(
        layer=Layer.KERNEL,
        component="linux-kernel",
        remedy="Set the governor performance on GPU servers.",
        commands=lambda _gpu: (sh("sudo cpupower frequency-set --governor performance"),),
        verify=lambda _gpu: sh("cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        doc="""The processors save power on a machine with data-centre GPUs.

        With this frequency governor the processors stay at low clocks. Whatever they do for the GPUs, such as launching
        kernels and loading data, takes longer, and the GPUs wait for it.

        Set the governor performance. intel_pstate and amd-pstate-epp call their ordinary governor powersave, which is
        not judged by this.""",
    ),
    "clocksource-slow": Record(
        layer=Layer.KERNEL,
        component="linux-kernel",
        remedy="Find out from the kernel's log why the TSC was abandoned, update the machine's firmware, and restart.",
        commands=lambda _gpu: (
            sh("sudo dmesg | grep -iE 'clocksource|tsc'"),
            sh("cat /sys/devices/system/clocksource/clocksource0/available_clocksource"),
        ),
        verify=lambda _gpu: sh("cat /sys/devices/system/clocksource/clocksource0/current_clocksource"),
        doc="""The kernel reads the time from a slow clock.

        Frameworks and the driver read the time thousands of times a second. From the processor's TSC, or a virtual
        machine's own clock, that takes nanoseconds; from HPET or the ACPI timer it takes microseconds and a system
        call. The kernel changes to these when it finds the TSC unstable.

        The kernel's log says why. Usually the firmware is at fault, or a processor with an error.""",
    ),
    "debug-variable-set": Record(
        layer=Layer.ENVIRONMENT,
        component="environment",
        remedy="If it is not intended, remove it from the environment and from the files that set it.",
        commands=lambda _gpu: (
            sh("env | grep -E '^(CUDA|NCCL)_'"),
            sh("grep -nE '(CUDA|NCCL)_' ~/.bashrc ~/.profile /etc/nccl.conf"),
        ),
        verify=lambda _gpu: sh("env | grep -E '^(CUDA|NCCL)_'"),
        doc="""A variable is set that makes CUDA or NCCL slower, or loads a tool into every program.

        Such variables are set for debugging and then forgotten. CUDA_LAUNCH_BLOCKING waits for each kernel,
        NCCL_P2P_DISABLE and NCCL_IB_DISABLE take the fast paths away, and CUDA_INJECTION64_PATH loads a profiler.

        Unset it where it is not needed on this machine, and look for the file that sets it.""",
    ),
}
