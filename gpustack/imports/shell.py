"""The commands and files in a shell session: versions of compilers, modules, DKMS, devices, variables."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from gpustack.imports import gathered

if TYPE_CHECKING:
    from gpustack.imports.gathered import Gathered
    from gpustack.model.facts import JsonValue

UNAME = re.compile(
    r"^Linux \S{1,64} (?P<release>\d{1,3}\.\d{1,3}\S{0,100}) #\d{1,9}(?:[^\n]{0,160}? (?P<machine>x86_64"
    r"|aarch64|ppc64le)\b)?[^\n]*$",
    re.MULTILINE,
)
RELEASE = re.compile(
    r"^(?:[^\n]{0,80}[$#>%] ?)?uname -r[ \t]*\n(?P<release>[2-9]\.\d{1,2}\.?[\w.+~-]{1,80})[ \t]*$", re.MULTILINE
)
COMMAND_LINE = re.compile(r"^(?:Kernel )?(?:[Cc]ommand line: )?(?P<words>BOOT_IMAGE=[^\n]{1,2000})$", re.MULTILINE)
# The parts of the kernel's command line that the live probe keeps.
BOOTED = re.compile(
    r"(?:\S*iommu\S*|pci|nomodeset|nomodule|lockdown|module\.sig_enforce|\S*blacklist|(?:nvidia|nouveau|nova)\S*)(?:=|$)"
)
LOCKDOWN = re.compile(
    r"/sys/kernel/security/lockdown[^\n]{0,20}\n[^\n]{0,30}\[(?P<read>none|integrity|confidentiality)\]"
    r"|\bkernel lockdown(?: mode| is|[ :=`'\"]){1,6}(?P<words>integrity|confidentiality)\b"
)
OS = re.compile(r'^PRETTY_NAME="?(?P<os>[^"\n]+)"?', re.MULTILINE)
NVCC = re.compile(
    r"(?:Cuda compilation tools,|^nvcc:) release (?P<cuda>\d+\.\d+)(?:, V(?P<version>[\d.]+\d))?"
    r"|(?<!Build )\bcuda_(?P<build>\d+\.\d+)\.r\d+\.\d+/compiler\.",
    re.MULTILINE,
)
GCC = re.compile(
    r"^(?:[-*] )?(?P<name>gcc|g\+\+|cc|clang)(?:-\d+)?(?: version)? (?:\([^)\n]*\) )?(?P<version>\d+\.\d+(?:\.\d+)?)\b",
    re.MULTILINE,
)
LDD = re.compile(r"^ldd \([^)\n]*\) (?P<version>\d+\.\d+)", re.MULTILINE)
PYTHON = re.compile(r"^Python (?P<version>\d\.\d+(?:\.\d+)?)\b", re.MULTILINE)
DKMS = re.compile(
    r"^(?P<module>nvidia[\w-]*|amdgpu)(?:/|, )(?P<version>\d[\w.~-]*)(?:, (?P<kernel>\d[\w.+~-]*), (?P<machine"
    r">\w+))?: (?P<state>added|built|installed|broken)[^\n]*",
    re.MULTILINE,
)
BANNER = re.compile(
    r"NVIDIA UNIX (?P<open>Open Kernel Module for )?(?:x86_64|aarch64|ppc64le)(?: Kernel Module)? {1,3}"
    r"(?P<release>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
)
LOADED = re.compile(  # nvidia-container-cli info, and the kernel's file
    r"(?:\bNVRM version ?[:=]? *|/sys/module/nvidia/version(?:[ \t]*[:=]|[ \t]*\n)?[ \t]*)"
    r"(?P<release>\d{3}(?:\.\d{1,3}){1,2})\b"
)
MODULE = re.compile(
    r"^(?P<name>nvidia|nvidia_uvm|nvidia_modeset|nvidia_drm|nvidia_peermem|nouveau|nova_core|amdgpu|i915"
    r"|xe)[ \t]+\d{4,}[ \t]+\d+\b",
    re.MULTILINE,
)
# The names alone, as "lsmod | awk" prints them.
NAMES = re.compile(
    r"\blsmod\b[^\n]{0,80}\n(?P<names>(?:(?:nvidia(?:_uvm|_modeset|_drm|_peermem)?|nouveau|nova_core|amdgpu)"
    r"(?:[ \t]+|\n|\Z)){1,12})"
)
NO_MODULE = re.compile(
    r"^[^\n]{0,80}[$#>%] ?lsmod *\| *grep (?:-\S+ )?[\"']?(?P<name>nvidia|amdgpu|nouveau)[\"']?[ \t]*\n(?=\s*$"
    r"|\(empty\)|[^\n]{0,60}[$#] |\Z)",
    re.MULTILINE,
)
MODINFO = re.compile(
    r"^filename:[ \t]+(?P<path>/\S{1,200}/(?P<name>nvidia|nvidia-uvm|nvidia_uvm|amdgpu|nouveau)\.ko\S*)\n(?P<rows>"
    r"(?:[a-z_]+:[^\n]*\n?){1,200})",
    re.MULTILINE,
)
LICENCE = re.compile(
    r"\bmodinfo nvidia\b[^\n]{0,60}\n(?:[a-z]+:[^\n]*\n){0,4}?[ \t]*license:[ \t]+(?P<license>NVIDIA|Dual MIT/GPL)\b"
)
VERMAGIC = re.compile(  # modinfo nvidia | grep vermagic, modinfo -F vermagic nvidia
    r"\bmodinfo [^\n|]{0,20}\bnvidia\b[^\n]{0,60}\n(?:vermagic:[ \t]+)?"
    r"(?P<vermagic>\d{1,2}\.\d\S{0,80} (?:SMP|mod_unload)[^\n]*)$",
    re.MULTILINE,
)
FIELD = re.compile(r"^(?P<name>version|license|vermagic|signer):[ \t]+(?P<value>[^\n]+)$", re.MULTILINE)
LINK = re.compile(
    r"\b(?P<kind>LnkCap|LnkSta):?[^\n]{0,60}?\bSpeed (?P<speed>\d{1,2}(?:\.\d)?)GT/s[^\n]{0,30}?, Width x"
    r"(?P<width>\d{1,2})"
)
LSPCI = re.compile(
    r"^(?:(?P<pci>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d)|[ \t]*(?P<times>\d{1,2})(?= ))?[ \t]*"
    r"(?:(?P<kind>VGA compatible controller"
    r"|3D controller|Display controller|Processing accelerators)"
    r"(?: \[(?P<class>[0-9a-f]{4})\])?: (?P<name>[^\n]+)"
    r"|(?P<bare>Advanced Micro Devices, Inc\. \[AMD/ATI\] (?![^\n]*(?:Audio|HDMI|USB|Bridge))[^\n]*"
    r"\[1002:[0-9a-f]{4}\][^\n]*))$",
    re.MULTILINE,
)
# How many GPUs are on the bus; of NVIDIA's devices by the maker's name alone, some are for sound.
COUNTED = re.compile(
    r"\blspci\b[^\n]{0,80}\bgrep -\w{0,4}c\w{0,4} (?P<asked>[^\n]{0,40}"
    r"(?:3D|Tesla|GeForce|[GR]TX|G[A-Z]\d{3}|[ABHLPV]\d{2,3})[^\n]{0,40})\n(?P<count>\d{1,2})[ \t]*$",
    re.MULTILINE,
)
SWITCH = re.compile(r"\bBridge(?: \[0680\])?: NVIDIA[^\n]{0,60}NVSwitch")
IDS = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]|Device (?P<plain>[0-9a-f]{4})\b")
IN_USE = re.compile(r"Kernel driver in use: (?P<driver>[\w-]+)")
VARIABLE = re.compile(
    r"(?:^|[ \t\"'`(;]|export |-e |ENV |environ\[['\"])(?P<name>(?:CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|CUDA_HOME|CUDA_PATH|HSA_OVERRIDE_GFX_VERSION|NVIDIA_DRIVER_CAPABILITIES"
    r"|NVIDIA_REQUIRE_CUDA|CUDA_MODULE_LOADING|TORCH_CUDA_ARCH_LIST"
    r"|NCCL_P2P_DISABLE)['\"]?\]?[ ]?=[ ]?['\"]?(?P<value>[^\s'\"`;]*)",
    re.MULTILINE,
)
# The shell's answer to "echo $LD_LIBRARY_PATH", and CUDA in environment modules.
ECHOED = re.compile(
    r"^[^\n]{0,80}\b(?:echo|printenv) \"?\$?\{?(?P<name>LD_LIBRARY_PATH|CUDA_HOME|CUDA_PATH"
    r"|HSA_OVERRIDE_GFX_VERSION)\}?\"?[ \t]*\n(?P<value>[:/\d][^\s]*)$",
    re.MULTILINE,
)
MODULE_LOADED = re.compile(
    r"\b(?:module|ml) (?:load|add|swap)\b[^\n]{0,80}?\b(?:cuda|cudatoolkit|CUDA)[/-](?P<cuda>\d{1,2}\.\d)(?![\d])"
)
SECURE = re.compile(
    r"SecureBoot (?P<state>enabled|disabled)|Secure Boot(?: is|:)? ?(?P<words>enabled|disabled|on|off)\b", re.IGNORECASE
)
GROUPS = re.compile(
    r"^(?:[^\n]{0,60}[$#>%] ?(?:groups|id)\b(?: ?[-=]> |[^\n]*\n)|groups[ \t]*\n)(?P<groups>[^\n]+)$"
    r"|\buid=\d+(?:\([^)\n]{1,64}\))? gid=\S{1,80} (?P<all>groups=[^\s;]+)",
    re.MULTILINE,
)
NODE = re.compile(  # a line of ls -l /dev/nvidia*
    r"^c(?P<mode>(?:[r-][w-][x-]){3})[.+]? +\d+ +\S+ +(?P<group>\S+) +(?:\? +|[\w.]+:\S+ +)?\d+, +\d+ .{4,40}[ /]"
    r"(?P<name>nvidia(?:\d+|ctl|-uvm))$",
    re.MULTILINE,
)
CACHE = re.compile(r"^[ \t]*(?P<soname>lib[\w+-]+\.so[\w.]*) \([^)\n]*\) => (?P<path>/\S+)", re.MULTILINE)
OTHERS = frozenset({"nouveau", "nova_core"})  # modules that are not systems of the stack
CLASSES = {"VGA": "0x030000", "3D ": "0x030200", "Pro": "0x120000"}
VENDORS, MOST, UVM = {"10de": "nvidia", "1002": "amd", "8086": "intel"}, 200, "nvidia-uvm"


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the commands' output in this text."""
    _machine(origin, text, into)
    _compilers(origin, text, into)
    _modules(origin, text, into)
    _nodes(origin, text, into)
    _devices(origin, text, into)
    _variables(origin, text, into)


def _machine(origin: str, text: str, into: Gathered) -> None:
    uname, system, secure = UNAME.search(text), OS.search(text), SECURE.search(text)
    if uname:
        gathered.kernel(origin, uname["release"], into)
        into.machine(machine=uname["machine"])
    release, booted = RELEASE.search(text), COMMAND_LINE.search(text)
    if release:
        gathered.kernel(origin, release["release"], into)
    if booted:
        into.tell("linux-kernel", origin, cmdline=tuple(word for word in booted["words"].split() if BOOTED.match(word)))
    if system:
        gathered.system(origin, system["os"], into)
    if secure:
        into.tell("linux-kernel", origin, secure_boot=(secure["state"] or secure["words"]).lower() in {"enabled", "on"})
    if lockdown := LOCKDOWN.search(text):
        into.tell("linux-kernel", origin, lockdown=lockdown["read"] or lockdown["words"])
    if groups := GROUPS.search(text):
        listed = (groups["groups"] or groups["all"]).rpartition("groups=")[2]
        names = re.findall(r"\d{1,10}\(([\w-]{1,64})\)", listed) or listed.split()
        into.tell("user", origin, groups=tuple(names))


def _compilers(origin: str, text: str, into: Gathered) -> None:
    for match in NVCC.finditer(text):
        cuda = match["cuda"] or match["build"]
        into.tell("cuda-toolkit", origin, f"nvcc {cuda}", version=match["version"] or cuda, in_use=True)
    loaded = MODULE_LOADED.search(text)
    if loaded and not into.knows("cuda-toolkit"):
        into.tell("cuda-toolkit", f"{origin} (in words)", version=loaded["cuda"], as_told=True)
    for match in GCC.finditer(text):
        into.tell("clang" if match["name"] == "clang" else "gcc", origin, version=match["version"])
    for match in LDD.finditer(text):
        into.tell("python", origin, glibc=match["version"])
    for match in PYTHON.finditer(text):
        into.tell("python", origin, version=match["version"])


def _modules(origin: str, text: str, into: Gathered) -> None:
    for match in DKMS.finditer(text):
        key = f"{match['module']} {match['version']} {match['kernel'] or ''}".strip()
        into.tell("dkms", origin, key, version=match["version"], module=match["module"])
        into.tell("dkms", origin, key, kernel=match["kernel"], state=match["state"])
    if banner := BANNER.search(text):
        release, flavour = banner["release"], "open" if banner["open"] else "proprietary"
        into.tell("nvidia.ko", origin, version=release, version_loaded=release, loaded=True, flavour=flavour)
    if plain := LOADED.search(text):
        into.tell("nvidia.ko", origin, version=plain["release"], version_loaded=plain["release"], loaded=True)
    names = (name for match in NAMES.finditer(text) for name in match["names"].split())
    for name in (*(match["name"] for match in MODULE.finditer(text)), *names):
        into.tell(_module(name), origin, loaded=True)
    for match in NO_MODULE.finditer(text):
        if not into.knows(_module(match["name"])):
            into.tell(_module(match["name"]), origin, loaded=False)
    if licence := LICENCE.search(text):
        into.tell("nvidia.ko", origin, flavour_on_disk=_flavour(licence["license"]))
    for match in islice(MODINFO.finditer(text), MOST):
        said = {field["name"]: field["value"].strip() for field in FIELD.finditer(match["rows"])}
        into.tell(
            _module(match["name"]),
            origin,
            path=match["path"],
            version=said.get("version"),
            version_on_disk=said.get("version"),
            vermagic=said.get("vermagic"),
            signer=said.get("signer"),
            flavour_on_disk=_flavour(said.get("license")) if match["name"].startswith("nvidia") else None,
        )


def _nodes(origin: str, text: str, into: Gathered) -> None:
    """Read what else is known of the modules: the kernel that one is for, and who may open their device nodes."""
    if alone := VERMAGIC.search(text):
        into.tell("nvidia.ko", origin, vermagic=alone["vermagic"])
    for name in ("nvidia.ko", "nvidia-uvm.ko"):
        if nodes := tuple(_node(match) for match in NODE.finditer(text) if (match["name"] == UVM) is ("uvm" in name)):
            into.tell(name, origin, nodes=nodes)


def _node(match: re.Match[str]) -> JsonValue:
    mode = oct(int("".join("01"[letter != "-"] for letter in match["mode"]), 2))
    return {"path": f"/dev/{match['name']}", "exists": True, "mode": mode, "group": match["group"]}


def _module(name: str) -> str:
    return name if name in OTHERS else f"{name.replace('_', '-')}.ko"


def _flavour(license_: str | None) -> str | None:
    """Return which of NVIDIA's two modules has this licence, like the live probe."""
    return None if license_ is None else "open" if "MIT" in license_ else "proprietary"


def _devices(origin: str, text: str, into: Gathered) -> None:
    if SWITCH.search(text):
        into.tell("nvswitch", origin, on_bus=True)
    matches = list(islice(LSPCI.finditer(text), MOST))
    for one in () if matches else COUNTED.finditer(text):
        for number in range(int(one["count"])):
            into.tell("pci-display", origin, f"device {number}", vendor="nvidia", name=one["asked"].strip("'\""))
    for number, match in enumerate(matches):
        end = matches[number + 1].start() if number + 1 < len(matches) else match.end() + 2000
        below = text[match.end() : end]
        name = match["name"] or match["bare"]
        ids, driver = IDS.search(name), IN_USE.search(below)
        vendor = VENDORS.get((ids["vendor"] or "") if ids else "") or _maker(name)
        if vendor is None:
            continue
        for more in range(1, int(match["times"] or 1)):  # as "uniq -c" counts them
            into.tell("pci-display", origin, f"device {number}.{more}", vendor=vendor, name=name.strip())
        key = gathered.pci(match["pci"]) if match["pci"] else f"device {number}"
        device = f"0x{ids['device'] or ids['plain']}" if ids else None
        of_class: dict[str, JsonValue] = {"class": CLASSES.get((match["kind"] or "")[:3], "0x038000")}
        into.tell("pci-display", origin, key, vendor=vendor, device_id=device, name=name.strip(), also=of_class)
        into.tell("pci-display", origin, key, driver=driver["driver"] if driver else None, link=_link(below))


def _link(below: str) -> JsonValue:
    """Return a device's link from lspci -vv, in GT/s and lanes: current, and the maximum of this end."""
    said: dict[str, JsonValue] = {}
    for match in LINK.finditer(below):
        most = "max_" if match["kind"] == "LnkCap" else ""
        said.setdefault(f"{most}speed", float(match["speed"]))
        said.setdefault(f"{most}width", int(match["width"]))
    return said or None


def _maker(name: str) -> str | None:
    makers = {"NVIDIA": "nvidia", "Advanced Micro Devices": "amd", "AMD/ATI": "amd", "Intel": "intel"}
    return next((maker for word, maker in makers.items() if word in name), None)


def _variables(origin: str, text: str, into: Gathered) -> None:
    said: dict[str, JsonValue] = {}
    for match in islice(VARIABLE.finditer(text), MOST):
        said.setdefault(match["name"], match["value"].rstrip(",)"))
    for match in islice(ECHOED.finditer(text), MOST):
        said.setdefault(match["name"], match["value"])
    if said:
        held = into.fact("environment", "variables")
        into.tell("environment", origin)
        into.copies["environment"][""].facts["variables"] = {**said, **(held if isinstance(held, dict) else {})}
    for match in islice(CACHE.finditer(text), MOST):
        into.tell("ld-cache", origin, match["soname"], path=match["path"])
