"""How GPUs are connected: PCI Express, direct copies between them, NVLink."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import LINK, because_said, grounds, heard, said, xids
from gpustack.diagnose.machine.inventory import from_text, gpus
from gpustack.diagnose.machine.naming import machine, more, whole
from gpustack.diagnose.machine.values import at, copies, items, number, text, texts, told
from gpustack.diagnose.requirements.records import by_id
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import load
from gpustack.model.command import GPU, sh, step
from gpustack.model.facts import Facts, Layer, Message
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})  # what is not among these is made up, as in some virtual machines
STAYS = "link-stays-down"
OUTSIDE = "gpu-outside-said"  # a cable of four lanes
SLOT, SUFFERS = "link-slow-said", ("work-stops-said", "machine-gone-said", "gpus-fail-together", "link-complaint")
SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}  # GT/s of the generations of PCI Express
SPEED = {generation: speed for speed, generation in SPEEDS.items()}
BUSY = re.compile(
    r"under (?:full |heavy )?load|(?:during|while|when) (?:\w+ )?(?:training|running|busy|inference|load)"
    r"|100 ?%|\bbusy\b|\bP0\b",
    re.IGNORECASE,
)
IDLE = re.compile(r"\bidle\b|\bidling\b|\bP8\b", re.IGNORECASE)
LOW = 2  # a generation that no link of today stays at under load
FEW = 4  # a link on this many times fewer lanes is no board's design


@rule("pcie-link-degraded", Layer.HARDWARE, "pci-display", Severity.WARNING)
def pcie_link_degraded(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU's PCI Express link runs on fewer lanes than both of its ends support, or slower under load.

    Copies between the machine's memory and the GPU take longer by that factor. The number of lanes is set when the link
    starts, so load does not change it: the cause is a badly seated card or riser, a damaged slot, or a firmware
    setting. Laptops and desktop boards may wire only half of the lanes; that is reported as a note. (An idle link does
    slow down: its speed counts only if it was measured under load.) Reseat the card, and check riser and firmware.
    """
    yield from load.link(facts)
    what, detail, kinds = _slower_in_text(facts)
    if what:
        yield pcie_link_degraded.finding(
            title=f"A GPU's PCI Express link {what}",
            detail=machine(facts, matrix, *detail),
            because=(*{one.line: because_said(one) for one in said(facts, *kinds)}.values(), *more(facts)),
            fix=fixes.advice(
                by_id()["pcie-link-degraded"].remedy,
                sh("sudo lspci -vv -d 10de: | grep -i lnk"),
                verify=sh("nvidia-smi -q -d PCI"),
            ),
            confidence=Confidence.POSSIBLE if SLOT in kinds else Confidence.LIKELY,
        )


def _slower_in_text(facts: Facts) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return what a text says of a slow link, what explains it, and the kinds of messages that say so."""
    designed = heard(facts, OUTSIDE) and not heard(facts, "link-complaint")
    slow, narrow = _slow(facts), None if designed else _narrow(facts)
    ways = [f"at Gen{slow[0]} ({SPEED[slow[0]]} GT/s) of Gen{slow[1]} ({SPEED[slow[1]]} GT/s)"] if slow else []
    ways += [f"on {narrow[0]} of {narrow[1]} lanes (x{narrow[0]} of x{narrow[1]})"] if narrow else []
    if ways:
        return (
            f"runs {' and '.join(ways)}{' under load' if slow else ''}",
            (),
            ("link-told", "link-downgraded", "link-complaint"),
        )
    low = [found for one in said(facts, "link-told") if (found := _generation(one)) and not IDLE.search(one.line)]
    if low and min(low) <= LOW and heard(facts, STAYS):
        what = f"falls to Gen{min(low)} ({SPEED[min(low)]} GT/s) and does not train back up"
        return (
            what,
            ("An idle link is slow on purpose; one that stays so under load is not.",),
            (STAYS, "link-told", "link-complaint"),
        )
    if heard(facts, SLOT) and heard(facts, *SUFFERS):
        return "is slower than the others: a slow slot, or a riser", (), (SLOT, *SUFFERS)
    return "", (), ()


def _slow(facts: Facts) -> tuple[int, int] | None:
    """Return the generation under load and the one that there should be, where a text tells both."""
    told = [(one, generation) for one in said(facts, "link-told") if (generation := _generation(one))]
    complaint = heard(facts, "link-complaint")
    low = [generation for one, generation in told if not IDLE.search(one.line) and (complaint or BUSY.search(one.line))]
    if not low:
        return None
    most = max(generation for _, generation in told)
    enough = 1 if complaint else 2
    return (min(low), most) if most - min(low) >= enough else None


def _generation(one: Message) -> int | None:
    said_ = one.values.get("generation")
    return whole(said_) or None if said_ else SPEEDS.get(one.values.get("speed", ""))


def _narrow(facts: Facts) -> tuple[int, int] | None:
    """Return lanes and most lanes of a link that is much narrower than its card, or narrower where copies are slow."""
    pairs = [
        (width, most)
        for gpu in (gpus(facts) if from_text(facts) else ())
        if (width := number(gpu.copy.facts, "pcie", "width")) and (most := number(gpu.copy.facts, "pcie", "max_width"))
    ]
    pairs += [
        (
            whole(one.values.get("width") or one.values.get("width2")),
            whole(one.values.get("most") or one.values.get("most2")),
        )
        for one in said(facts, "link-lanes-said")
    ]
    wide = max((whole(one.values.get("width")) for one in said(facts, "link-capability")), default=16)
    noted = [one for one in said(facts, "link-downgraded") if one.values.get("width_note") == "downgraded"]
    pairs += [(whole(one.values.get("width")), wide) for one in noted]
    few = 2 if heard(facts, "link-complaint") else FEW
    return next((pair for pair in pairs if {*pair} <= WIDTHS and pair[0] * few <= pair[1]), None)


SEVERAL = 2
NUMBER = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
MUCH = 2.0  # times slower with peer access than without it
HELPS = "p2p-off-helps-said"
SET = re.compile(r"iommu(?:\.passthrough)?=(?:pt|off|soft|1)\b")  # of the kernel's command line
WAYS = ("acs-redirect", "io-page-fault", "iommu-passthrough", "iommu-on", "acs-on")
DIRECT = "peer-copy-wrong"  # copies fail on the straight way alone


def _booted_without(facts: Facts) -> bool:
    """Return whether AMD GPUs were booted with a command line that says nothing of the IOMMU's mode."""
    words = at(told(facts, "linux-kernel"), "cmdline")
    if not from_text(facts) or not copies(facts, "amd-gpu") or not isinstance(words, tuple):
        return False
    return not any(isinstance(one, str) and SET.search(one) for one in words)


def _slower(facts: Facts) -> str | None:
    """Return the two bandwidths between GPUs, with and without peer access, where the first is much the lower."""
    for one in said(facts, "p2p-bandwidth"):
        on, off = _between(one.values.get("on", "")), _between(one.values.get("off", ""))
        if on and off and max(on) * MUCH < min(off):
            return f"{max(on):g} GB/s at most with P2P, {min(off):g} GB/s at least without"
    for one in said(facts, "p2p-speeds-said"):
        with_, without = (NUMBER.fullmatch(one.values.get(name, "")) for name in ("on", "off"))
        if with_ and without and float(with_[0]) * MUCH < float(without[0]):
            return f"{with_[0]} GB/s with P2P, {without[0]} GB/s without"
    return None


def _between(matrix: str) -> list[float]:
    """Return the numbers of a square matrix that are not on its diagonal; nothing where it is none."""
    rows = [re.findall(r"\d+(?:\.\d+)?", line) for line in matrix.split("\n")[1:]]
    return [
        float(number)
        for place, row in enumerate(rows)
        for column, number in enumerate(row[1:])
        if column != place and len(row) == len(rows) + 1
    ]


REDIRECTS = frozenset({"request-redirect", "completion-redirect"})


@rule("iommu-acs-p2p", Layer.KERNEL, "iommu", Severity.WARNING)
def iommu_acs_p2p(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The IOMMU, or access control (ACS) on PCI Express bridges, keeps the GPUs from copying to each other directly.

    GPUs without NVLink between them copy to each other directly over the bus. With ACS redirection every such copy goes
    up to the processor and back, and an IOMMU that translates may reject it: NCCL then hangs, or copies arrive as
    zeros. As long as nothing fails it is only slower, and on hosts of virtual machines it is intended. Otherwise switch
    ACS off in the firmware, and set the IOMMU to pass-through (iommu=pt).
    """
    yield from _peers_in_text(facts, matrix)
    iommu = told(facts, "iommu")
    cards = [text(one, "pci") or "" for one in items(iommu, "gpus")]
    bridges = [text(one, "pci") or "" for one in items(iommu, "bridges") if REDIRECTS & {*texts(one, "acs")}]
    translated = [text(one, "pci") or "" for one in items(iommu, "gpus") if _translates(text(one, "domain"))]
    if len(cards) < SEVERAL or not (bridges or translated) or _linked(facts) or facts.host.virtualisation:
        return
    faults = [
        line for line in texts(told(facts, "kernel-log"), "iommu_faults") if any(_short(one) in line for one in cards)
    ]
    ways = [f"ACS redirection on {', '.join(bridges)}"] if bridges else []
    ways += [f"an IOMMU that translates ({text(items(iommu, 'gpus')[0], 'domain') or 'DMA'})"] if translated else []
    grounds = [Because(component="iommu", fact="bridges", value=one, source="PCI configuration") for one in bridges]
    grounds += [Because(component="iommu", fact="gpus", value=one, source="sysfs") for one in translated]
    grounds += [Because(component="kernel-log", fact="iommu_faults", value=one) for one in faults[-1:]]
    yield iommu_acs_p2p.finding(
        severity=Severity.WARNING if faults else Severity.INFO,
        title=f"The {len(cards)} GPUs are separated by {' and '.join(ways[:1])}"
        + (", and copies were rejected" if faults else ""),
        detail="; ".join(ways),
        confidence=Confidence.LIKELY if faults else Confidence.POSSIBLE,
        because=tuple(grounds),
        fix=_apart(facts),
    )


def _apart(facts: Facts) -> Fix:
    return fixes.rebuild(
        facts,
        "Set the IOMMU to pass-through (iommu=pt) or switch it off (intel_iommu=off, amd_iommu=off), and switch ACS "
        "off in the firmware or on the bridges (setpci); not where virtual machines get GPUs. Until then set "
        "NCCL_P2P_DISABLE=1.",
        step("add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, then `sudo update-grub`"),
        sh("sudo lspci -vvv | grep -i acsctl"),
    )


def _peers_in_text(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where IOMMU or ACS is on and work of several GPUs fails, or the library itself warns."""
    several = heard(facts, "gpus-talk") or len(gpus(facts)) >= SEVERAL
    fails = (heard(facts, "gpus-fail-together") and several) or heard(facts, "peer-copy-wrong")
    fails = fails or (several and heard(facts, "acs-redirect") and heard(facts, "nccl-error"))
    warned, slower = heard(facts, "iommu-passthrough"), _slower(facts)
    turned_away = heard(facts, "io-page-fault") and several
    booted = fails and _booted_without(facts)
    if not (warned or turned_away or slower or booted or (fails and heard(facts, *WAYS, HELPS, DIRECT))):
        return
    if heard(facts, "no-hang-said") and not (turned_away or slower):
        return
    way = "ACS redirection (PCI Express access control)" if heard(facts, "acs-redirect", "acs-on") else "the IOMMU"
    what = f"are slower than without it ({slower})" if slower else "go wrong"
    likely = slower or booted or heard(facts, *WAYS)
    yield iommu_acs_p2p.finding(
        severity=Severity.ERROR if fails or turned_away else Severity.WARNING,
        title=f"Copies between GPUs (P2P) {what}: {way} interferes"
        if fails or turned_away or slower
        else "The IOMMU is not in pass-through mode (iommu=pt), which can hang copies between GPUs",
        detail=machine(
            facts,
            matrix,
            "With an IOMMU or ACS between the GPUs, P2P copies hang, are very slow or arrive as zeros.",
            "The kernel was booted without iommu=pt, which AMD requires with several GPUs." * booted,
        ),
        because=(
            *grounds(facts, *WAYS, HELPS, DIRECT, "p2p-bandwidth", "p2p-speeds-said"),
            *grounds(facts, "gpus-fail-together", most=2),
            *more(facts),
        ),
        fix=_apart(facts),
        confidence=Confidence.CERTAIN
        if warned or turned_away
        else Confidence.LIKELY
        if likely
        else Confidence.POSSIBLE,
    )


def _translates(domain: str | None) -> bool:
    return bool(domain and domain.startswith("DMA"))


def _linked(facts: Facts) -> bool:
    """Return whether the GPUs have NVLink, which goes past the bus."""
    return any((number(copy.facts, "active") or 0) > 0 for copy in copies(facts, "nvlink"))


def _short(pci: str) -> str:
    """Return an address as the log writes it: without its domain."""
    return pci.partition(":")[2] or pci


# Xid 74, and what newer GPUs log in its place; their events that are not fatal are retried by the link.
LINKS, NONFATAL = (LINK, 136, 150, 149, 146, 145, 144), re.compile("non-?fatal", re.IGNORECASE)


@rule("nvlink-error", Layer.HARDWARE, "nvlink", Severity.WARNING, explained_by=("gpu-fell-off-bus", "gsp-timeout"))
def nvlink_error(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """An NVLink between GPUs, or to a switch, has failed since the start.

    The driver writes Xid 74 for the GPU (144 to 150 from Blackwell on), and switches write SXids of their own: the
    fault may be at either end, and one fault is often logged at both. Programs that used the link have crashed. Reset
    the GPUs on that link; if it comes back, reseat the bridge or board, or have the part replaced.
    """
    events = [event for event in xids(facts, *LINKS) if not NONFATAL.search(event.words)]
    if not events:
        return
    row, places = matrix.xids.get(events[0].code), [event.pci for event in events if event.pci]
    switches = f", and switches wrote {events[0].links} SXids" if events[0].links else ""
    yield nvlink_error.finding(
        title=f"NVLink failed at {', '.join(places) or 'a GPU'}{switches}",
        because=tuple(event.because for event in events),
        row=row.row if row else None,
        fix=fixes.advice(
            f"{fixes.place(facts)}Stop the programs on these GPUs and reset them together.",
            *([sh("sudo nvidia-smi --gpu-reset -i {gpus}", gpus=GPU(",".join(places)))] if places else []),
            verify=sh("nvidia-smi nvlink --status"),
        ),
    )
