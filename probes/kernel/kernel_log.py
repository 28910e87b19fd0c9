"""What the kernel has logged about GPUs since boot: Xids, the driver's own lines, modules that it turned away.

The log is asked of the kernel itself; where that is denied or missing (containers), of the journal if there is one.
"""

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

KMSG = "/dev/kmsg"
MOST_BYTES = 32 << 20
JOURNAL = ("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager", "-q", "-n", "10000")
JOURNAL_SECONDS = 1.5
KEPT = "/var/log/journal"  # journals of earlier boots exist where this folder does
BOOT = "/proc/sys/kernel/random/boot_id"
EARLIER = ("journalctl", "_TRANSPORT=kernel", "-g", "NVRM: Xid", "-n", "200", "-o", "json", "--no-pager", "-q")
EARLIER_SECONDS = 1.0
MOST_XIDS = 50
MOST_LINES = 60
MOST_LINE = 500
# "5,340,5123456,-;text": priority and facility, number, microseconds, flags (Documentation/ABI/testing/dev-kmsg).
RECORD = re.compile(r"(\d{1,9}),\d{1,18},(\d{1,18}),[^;]{0,200};(.*)")
ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
STAMPED = re.compile(r"\[\s*(\d{1,12}\.\d{1,9})\]\s(?:\S+ kernel: )?(.*)")
# Xids of GPUs and SXids of NVSwitches. Of a GPU's address the log leaves out the function, which is 0.
# Source: the format strings in kernel_rc.c and nvswitch's error macros of NVIDIA's open kernel modules, 2026-11-21.
XID = re.compile(
    r"(S?)Xid \((?:PCI:)?([\da-fA-F]{4,8}):([\da-fA-F]{2}:[\da-fA-F]{2})(?:\.\d)?( GPU-I:[^)]{0,40})?\): "
    r"(\d{1,9}),? ?(.*)"
)
OWNER = re.compile(r"pid='?(\d{1,10}|<unknown>)'?,? ?(?:name='?([^,']*)'?,? ?)?")
DRIVER = re.compile(r"\bNVRM\b|\bnvidia", re.IGNORECASE)
# What amdgpu and its compute half say when something is wrong. Source: the format strings in amdgpu_ucode.c,
# amdgpu_job.c, amdgpu_ras.c, amdgpu_device.c and kfd_device.c of Linux.
AMD = re.compile(
    r"\bamdgpu\b.{0,400}(?:[Ff]atal error|timeout|timed out|GPU reset|uncorrectable|hardware error|page fault)"
    r"|\bamdgpu\b.{0,200}firmware.{0,200}(?:fail|error|missing|not found)"
    r"|\bamdgpu\b.{0,200}[Ff]ail\w{0,8} .{0,200}(?:firmware|microcode|ucode)"
    r"|\bkfd\b.{0,400}(?:not supported|skipped device|NOT added|rejects atomics)|firmware load for amdgpu/"
    r"|\bamdgpu\b.{0,200}(?:previous command|over temperature|test failed|unrecoverable|topology failure"
    r"|load tos failed|failed to respond|preemption time|will not be initialized|lost from bus|failed with error)"
)
# What xe and i915 say when something is wrong. Source: the format strings in xe_device.c, xe_gt.c, xe_guc_submit.c,
# i915_gpu_error.c and i915_driver.c of Linux. A job that timed out is its program's matter.
INTEL = re.compile(
    r"\b(?:xe|i915) .{0,200}(?:declared device|reset failed|failed to respond|GPU HANG|initialization failed"
    r"|load failed|firmware signature|with error -\d)"
)
# Each board's serial number is printed with its first Xid; it does not help to find a fault.
SERIAL = re.compile(r"Serial Number", re.IGNORECASE)
TURNED_AWAY = re.compile(
    r"unsigned module|module is rejected|signature not signed|unavailable key|unsupported crypto"
    r"|version magic|disagrees about version of symbol|Unknown symbol|exports duplicate symbol"
    r"|\bnouveau\b|\bnova[-_ ]?(?:core|drm)\b|nvidia.{0,200}probe .{0,200}failed"
    r"|probe with driver nvidia.{0,200} failed"
)
# What an IOMMU turned away, with the address of the device that asked. Source: the format strings in Linux 6.17,
# drivers/iommu/amd/iommu.c and drivers/iommu/intel/dmar.c.
TURNED_BACK = re.compile(
    r"AMD-Vi: Event logged \[IO_PAGE_FAULT|DMAR: \[.{0,200}fault addr|DMAR:.{0,200}Request device \["
)
# What the machine's own hardware reports (APEI, machine checks), in Linux: drivers/firmware/efi/cper.c, HW_ERR;
# and what the kernel does about it: mm/memory-failure.c, drivers/pci/pcie/aer.c and dpc.c, drivers/edac/edac_mc.c,
# arch/x86/kernel/nmi.c.
FAULTY = re.compile(
    r"\[Hardware Error\]|Memory failure: 0x|DPC: containment event|AER: .{0,60}Uncorrect"
    r"|cpu clock throttled|EDAC MC\d{1,3}: \d{1,9} UE |NMI: (?:PCI system|IOCK) error|NMI received for unknown reason"
)
# Lines that repeat what the administrator typed, or list what is loaded: the words in them are no events.
ECHOES = re.compile(r"(?:Kernel c|C)ommand line:|Modules linked in:|Unknown kernel command line")


def probe(host: "Host") -> "Answer":
    """Return the content of the log, or that it could not be read: an unreadable log is not clean."""
    text, before = host.read(KMSG, MOST_BYTES), {"earlier_xids": earlier(host)}
    if text and RECORD.search(text):
        return {"readable": True, "source": KMSG, **sift(records(text)), **before}
    why = [KMSG + ": " + (host.why(KMSG) if text is None else "no record stands in it" if text else "empty")]
    try:
        said = host.run(*JOURNAL, seconds=min(JOURNAL_SECONDS, host.seconds))
    except OSError as error:  # TimeoutError is an OSError
        said, why = None, [*why, str(error)]
    if said and said["code"] == 0 and any(map(STAMPED.match, said["out"].split("\n"))):
        return {"readable": True, "source": " ".join(JOURNAL[:3]), **sift(stamped(said["out"])), **before}
    if said:
        odd = "no record stands in it" if said["out"].strip() else "empty"
        why.append("journalctl: " + ("exit %d" % said["code"] if said["code"] else odd))
    return {"readable": False, "source": None, "why": "; ".join(why), **sift([]), **before}


def earlier(host: "Host") -> "List[Facts]":
    """Return the Xids of earlier boots, and how many boots had each, where journals are kept."""
    now = (host.read(BOOT, 64) or "").strip().replace("-", "")
    if not now or not host.list(KEPT):
        return []
    try:
        said = host.run(*EARLIER, seconds=min(EARLIER_SECONDS, host.seconds)) or {"out": ""}
    except OSError:  # TimeoutError is an OSError; the host has logged it
        return []
    starts: "Dict[Tuple[str, int], Dict[str, None]]" = {}
    for row in said["out"].split("\n"):
        boot, text = entry(row)
        kind, event = parse_xid(text)
        if event and not kind and boot and boot != now:
            starts.setdefault((event["pci"], event["code"]), {})[boot] = None
    return [{"pci": pci, "code": code, "starts": len(seen)} for (pci, code), seen in starts.items()][-MOST_XIDS:]


def entry(row: str) -> "Tuple[str, str]":
    """Return the start and the text of an entry of the journal, both empty if it is none."""
    try:
        said = json.loads(row) if row.startswith("{") else {}
    except (ValueError, RecursionError):
        said = {}
    found = [said.get(name) if isinstance(said, dict) else None for name in ("_BOOT_ID", "MESSAGE")]
    boot, text = ((one if isinstance(one, str) else "") for one in found)
    return boot, text


def records(text: str) -> "Iterator[Tuple[float, str]]":
    """Yield seconds since boot and text of each line that the kernel wrote; programs write here as well."""
    for row in text.split("\n"):
        found = RECORD.match(row)
        if found and int(found.group(1)) >> 3 == 0:
            said = ESCAPED.sub(lambda byte: chr(int(byte.group(1), 16)), found.group(3))
            for line in said.split("\n"):
                yield int(found.group(2)) / 1e6, line.strip()


def stamped(text: str) -> "Iterator[Tuple[float, str]]":
    """Yield seconds and text of each line as the journal and dmesg print it, without the host's name."""
    for row in text.split("\n"):
        found = STAMPED.match(row)
        if found:
            yield float(found.group(1)), found.group(2).strip()


def sift(lines: "Iterable[Tuple[float, str]]") -> "Facts":
    """Return the lines of the log about GPUs: the last Xids, and the last of the other lines, each once."""
    xids: "Dict[str, List[Facts]]" = {"": [], "S": []}
    driver: "Dict[str, None]" = {}
    modules: "Dict[str, None]" = {}
    iommu: "Dict[str, None]" = {}
    amd: "Dict[str, None]" = {}
    intel: "Dict[str, None]" = {}
    faulty: "Dict[str, None]" = {}
    for seconds, line in lines:
        kind, event = parse_xid(line)
        if event:
            xids[kind].append(dict(event, seconds=round(seconds, 3)))
        elif ECHOES.search(line) or SERIAL.search(line):
            continue
        elif DRIVER.search(line):
            remember(driver, line)
        if not event and AMD.search(line):
            remember(amd, line)
        if not event and INTEL.search(line):
            remember(intel, line)
        if not event and FAULTY.search(line):
            remember(faulty, line)
        if not event and TURNED_BACK.search(line):
            remember(iommu, line)
        if not event and TURNED_AWAY.search(line) and not line.startswith("NVRM"):
            remember(modules, line)
    return {
        "xids": xids[""][-MOST_XIDS:],
        "sxids": xids["S"][-MOST_XIDS:],
        "nvrm": list(driver)[-MOST_LINES:],
        "module_errors": list(modules)[-MOST_LINES:],
        "iommu_faults": list(iommu)[-MOST_LINES:],
        "amdgpu": list(amd)[-MOST_LINES:],
        "intel": list(intel)[-MOST_LINES:],
        "hardware_errors": list(faulty)[-MOST_LINES:],
    }


def remember(seen: "Dict[str, None]", line: str) -> None:
    """Keep a line once, at its last occurrence."""
    line = line[:MOST_LINE]
    seen.pop(line, None)
    seen[line] = None


def parse_xid(line: str) -> "Tuple[str, Optional[Facts]]":
    """Return "S" for an NVSwitch's or "" for a GPU's, and what the line says of an Xid, or None if it is not one."""
    found = XID.search(line)
    if not found:
        return "", None
    kind, domain, slot, instance, code, rest = found.groups()
    owner = OWNER.match(rest)
    pid, name = owner.groups() if owner else (None, None)
    event = {
        "pci": "%04x:%s.0" % (int(domain, 16), slot.lower()),
        "code": int(code),
        "text": (rest[owner.end() :] if owner else rest)[:MOST_LINE],
        "pid": int(pid) if pid and pid.isdecimal() else None,
        "process": name if name and name != "<unknown>" else None,
        "instance": instance.strip() if instance else None,
    }
    return kind, event
