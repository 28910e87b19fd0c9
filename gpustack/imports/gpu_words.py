"""GPUs, systems and names as people write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.imports.gathered import Gathered

# Parts of the driver with ambiguous names: a driver release must follow.
_RELEASE = r"(?=[ :=]{1,3}(?:(?:is|are|at|from|of|still|version) ){0,2}\d{3}\.\d{2})"
_LIBRARIES = (
    r"(?:user[- ]?space|userland|user[- ]mode)(?: (?:nvidia |driver )?(?:librar(?:y|ies)|libs?|driver|parts?|side))?"
    rf"|(?:nvidia |driver(?:'s)? )?(?:librar(?:y|ies)|libs?){_RELEASE}"
)
_MODULE = rf"(?:(?:loaded|running) )?(?:nvidia )?(?:kernel )?(?:module|driver module|modules)(?: version)?{_RELEASE}"
# What joins a name and a version in other languages, as particles do in Korean and Japanese.
_VERSION = "(?:versi[óo]n|vers[ãa]o|версия|версии)"
ABROAD = (
    r"(?:[은는이가을를도만]|랑|[はがをの])?"
    r"(?: ?(?:从 ?[\d.]{1,12} ?|用 ?[.\w]{1,6} ?)?(?:装的是?|(?:[升降]级?|更新|[换退]|回退)?[是为到成])"
    r"| (?:ist|war|est[áa]?|es|é|è|auf|en|na|до|a la|para a?|en la|blieb(?: auf)?|стоит|приехал"
    r"|остал[\u0430-\u044f]{1,3})"
    rf"(?: {_VERSION})?| {_VERSION})?"
)
# Words as a pattern, and the component; the first match decides.
NAMED = (
    (
        r"(?:nvidia[ -])?(?:gpu |graphics |display )?(?:linux )?drivers?(?:'s)?|(?:显卡|nvidia ?)?驱动(?:程序)?",
        "nvidia-driver",
    ),
    (r"ドライバー?|드라이버|(?:geforce )?(?:game ready|studio)|geforce(?= \d{3}\.\d{2}\b)", "nvidia-driver"),
    (r"(?:nvidia-?)?treiber(?:version)?|(?:controlador(?:es)?|pilotes?|[Дд]райвер)(?: nvidia)?", "nvidia-driver"),
    (r"nvidia-\d{3}(?:-\w+)?(?=[ :=(]{1,2}\d{3}\.\d)|nvidia-(?:legacy-)?\d{3}xx(?:-\w+)*", "nvidia-driver"),
    (_LIBRARIES, "libraries"),
    (_MODULE, "nvidia.ko"),
    (r"(?:nvidia )?(?:kernel )?module in memory(?: still)?", "nvidia.ko"),
    (r"nixglnvidia-?", "libraries"),
    (r"\.run(?: file| installer)?", "nvidia-driver"),
    (r"(?:lib)?nvidia-(?:driver|utils|compute|gl|open|dkms|headless)-\d{3}(?:-server|-open){0,2}", "driver-package"),
    (r"nvidia[ -](?:linux|(?:open )?(?:gpu )?kernel modules?|dkms|open(?:-dkms)?|utils|smi|lts)", "nvidia-driver"),
    (r"nvidia-(?:video|compute)-G0\d|nvidia(?= (?:390|470|5[1-9][05]|6[01]0)\b(?! (?:gpu|card)))", "nvidia-driver"),
    (r"(?:akmod|kmod|dkms)-nvidia|(?:nvidia|kernel module)(?=[ :]v?\d{3}\.\d{2})", "nvidia-driver"),
    (r"cuda \(pytorch\)|(?:py)?torch (?:cuda|cu(?=1\d\d\b))", "torch-cuda"),
    (r"cuda (?:version )?(?:used|seen|shipped|linked) (?:by|with) (?:py)?torch", "torch-cuda"),
    (r"(?:lib)?cudnn\d?-cuda-\d+(?:-\d+)?", "cudnn"),
    (r"(?:cuda[ _-])?toolkit \(nvcc\)|cuda[ _-]toolkit|nvcc(?: --version| -V)?", "cuda-toolkit"),
    (r"cuda(?:[ _-](?:runtime|version|sdk))?_?|cuda-(?=\d+\.\d|1[0-3] )", "cuda"),
    (r"cudatoolkit", "cudatoolkit"),
    (r"cudnn", "cudnn"),
    (r"(?:py)?torch(?:[._](?:__)?version(?:__)?|-(?=\d+\.\d+\.\d+\+(?:cpu|cu|rocm)))?", "pytorch"),
    (r"torchvision", "torchvision"),
    (r"torchaudio", "torchaudio"),
    (r"tensorflow-rocm", "tensorflow-rocm"),
    (r"tensorflow-gpu", "tensorflow-gpu"),
    (r"tensorflow-cpu", "tensorflow-cpu"),
    (r"tensorflow-intel", "tensorflow"),
    (r"tensor ?flow(?:\[and-cuda\])?|\btf", "tensorflow"),
    (r"jax", "jax"),
    (r"jaxlib", "jaxlib"),
    (r"jax[-_]cuda12[-_]plugin", "jax-cuda12-plugin"),
    (r"jax[-_]cuda12[-_]pjrt", "jax-cuda12-pjrt"),
    (r"jax[-_]cuda13[-_]plugin", "jax-cuda13-plugin"),
    (r"jax[-_]cuda13[-_]pjrt", "jax-cuda13-pjrt"),
    (r"vllm", "vllm"),
    (r"sglang", "sglang"),
    (r"tensorrt", "tensorrt"),
    (r"onnxruntime-gpu|onnx ?runtime gpu|microsoft\.ml\.onnxruntime\.gpu", "onnxruntime-gpu"),
    (r"onnxruntime|onnx ?runtime|\bort", "onnxruntime"),
    (r"flash[-_]attn|flash[- ]attention", "flash-attn"),
    (r"xformers", "xformers"),
    (r"bitsandbytes|bnb", "bitsandbytes"),
    (r"triton", "triton"),
    (r"transformers", "transformers"),
    (r"deepspeed", "deepspeed"),
    (r"ctranslate2", "ctranslate2"),
    (r"faster[-_]whisper", "faster-whisper"),
    (r"numpy", "numpy"),
    *((rf"cupy[-_]cuda{major}x", f"cupy-cuda{major}x") for major in (11, 12, 13)),
    (r"cupy", "cupy"),
    (r"numba", "numba"),
    (r"nccl", "nccl"),
    (r"rocm(?:-dev|-libs|-core)?", "rocm"),
    (r"python", "python"),
    (r"glibc", "glibc"),
    (r"(?:gcc|g\+\+)(?: \([^()]{1,60}\))?", "gcc"),
    (
        r"(?:linux )?kernel(?: linux)?|(?<!alma )(?<!rocky )(?<!arch )(?<!oracle )(?<!amazon )(?<!enterprise )linux",
        "linux-kernel",
    ),
    (r"fabric ?manager|(?:nvidia|cuda-drivers)-fabricmanager(?:-\d{3}\b)?", "nvidia-fabricmanager"),
    (r"libnvidia-container(?:-tools|1)?|nvidia[- ]container[- ]toolkit", "nvidia-container-toolkit"),
    (r"docker(?:-ce)?", "docker"),
)
SYSTEM = re.compile(
    r"(?<![\w./-])(?:Microsoft )?(?P<name>Ubuntu|Debian|CentOS(?: Linux| Stream)?|RHEL|Red Hat Enterprise Linux|Fedora"
    r"|Rocky(?: Linux)?|Alma ?Linux|Oracle Linux|Amazon Linux|Arch Linux|Manjaro|EndeavourOS|CachyOS|Gentoo|NixOS"
    r"|openSUSE(?: Leap| Tumbleweed)?|SLES|Pop!?[_ ]?OS!?|Linux Mint|Kali(?: Linux)?|Proxmox(?: VE)?|TrueNAS(?: SCALE)?"
    r"|Unraid|(?<!X )Windows|windows(?= ?(?:7|8|10|11)\b)|ubuntu(?= ?\d\d\.\d\d|\d\d04\b)"
    r"|(?:centos|debian|fedora|rocky|alma(?:linux)?|rhel)(?= ?\d)|[Ww]in ?(?=(?:7|8|10|11)\b)|macOS)(?:\b|(?=\d))"
    r"(?: GNU/Linux| Linux| Server| Desktop| Workstation)?(?: release| version)?[: ]*"
    r"(?P<version>\d+(?:\.\d+)*)?",
    re.ASCII,  # a word of another script may follow
)
WSL = re.compile(
    r"(?<![\w./-])(?:(?:NixOS-)?(?:WSL|Wsl|wsl)[ -]?[12]?"
    r"|(?i:ubuntu(?: [\d.]+)?|bash) on (?i:windows|win) ?1[01])\b(?!/|\.exe)",
    re.ASCII,
)
JETSON = re.compile(r"\b(?:Jetson|tegra|nvgpu|JetPack|L4T)\b", re.IGNORECASE | re.ASCII)
COMPILER = re.compile(r"#\d+ |\b(?:cc|gcc|g\+\+|GCC|clang|ldd|GLIBC)\b")
# What is done in a system is done here, unless it is said to work there.
INSIDE = re.compile(
    r"(?<!works)(?<!worked)(?<!fine)(?<!runs)(?<!tested)(?<!same)(?<!like) in (?:the |my |a )?$", re.IGNORECASE
)
# What a text says this machine is not, and where else the same was tried.
AWAY = re.compile(
    r"(?:\b(?:not|no|non|never|neither|nor|without|isn.t|aren.t|wasn.t|instead of|than)(?: \w+){0,2}"
    r"|\b(?:works?|worked|runs|ran|fine|same|tested|tried)(?: \w+){0,3} (?:on|in|with)(?: \w+){0,1}) ?\(?$",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"(?:\w{1,40}(?: \w{1,40})?|(?: \w{1,40}){1,2})? (?:is|was|were|are) not\b"
    r"|(?:\w{1,40}(?: \w{1,40}){0,2}|(?: \w{1,40}){1,3})? ?\?|[\"'`]?\s*[:=]\s*(?:false|no|0|null|none)\b",
    re.IGNORECASE,
)
# "The same card works in Windows 10": another system of the machine.
BESIDE = re.compile(r"\bsame (?:card|GPU|machine|PC|hardware|box|computer)\b[^.;\n]{0,50}$", re.IGNORECASE)
_MORE = r"(?:[- ](?:SXM\d?|PCIe?|NVL\d*|HBM\d\w?|\d+ ?GB)(?:-\w+)*\b)*"
_TRIM = (
    r"(?i:(?: ?(?:Ti|SUPER|D|M|Ada(?: Generation)?|Max-Q|Blackwell|SFF)\b)*"
    r"(?: Laptop GPU| Laptop| Mobile| PRO\b)?(?: Blackwell)?)"
)
_NUMBER = r"(?:10[1-8]|16[2356]|20[5-8]|30[5-9]|40[5-9]|50[5-9])0"
# Case matters only if a name in small letters is a word or a number of something else.
_NVIDIA = (
    r"(?i:NVIDIA[ -])?(?i:GeForce )?"
    rf"(?:(?:(?i:RTX|GTX|(?<=GeForce )GT|(?<=NVIDIA )GT)|GT|RT)[ -]?(?i:PRO )?[A-Za-z]?\d{{3,4}}{_TRIM}"
    r"|(?<=[Gg][Ee][Ff][Oo][Rr][Cc][Ee] )(?:(?:MX)?\d{3}[AM]?X?|10[1-8]0)\b(?!\.\d)"
    r"|(?i:GT ?[4-9]\d{2}(?:MX?)?\b(?! ?(?:MB|GB|W|fps))|NVS ?\d{3,4}M?\b)"
    rf"|{_NUMBER} ?(?i:Ti(?: SUPER)?|SUPER|RTX|GTX|Laptop|(?<=5090)D|(?<=4090)D)\b"
    r"|(?i:TITAN (?:X|V|RTX|Xp|Black|Z)\b(?: \(Pascal\))?|Tesla [KMPVTC]\d{1,4}\w?"
    r"|Quadro (?:RTX )?[A-Z]{0,3}\d{3,4}[A-Z]?)"
    rf"|(?:A(?:10[GM]?|16|30|40|[1-6][05]00)|H20|B(?:100|300)|L20|T4|P100|M60"
    rf"|(?i:A(?:100X?|800)|H[128]00|B200|L40S?|GH200|GB(?:10|200|300)|V100S?|K80))(?=[sS]?\b){_MORE}"
    r"|(?i:(?<=NVIDIA )|(?<=\dx )|(?<=\d x ))(?:A2|L4|L2|[TM]\d{3,4})\b|(?:A2|L4|L2)(?= GPUs?\b)"
    r"|(?i:9[1-4]0MX|MX[1-5]\d0)\b"
    r"|(?i:Jetson (?:AGX )?(?:Orin|Xavier|Thor|Nano|TX[12]|TK1)\b(?: NX| Nano| AGX)?"
    r"|(?:AGX )?Orin\b(?: Nano| NX)?|(?:AGX )?Xavier\b))"
)
_AMD = (
    r"(?i:(?:AMD )?(?:Radeon )?(?:RX ?(?:Vega ?)?\d{2,4}(?: ?(?:XTX|XT|GRE|M|S)\b)?"
    r"|(?:Radeon )?[5-9]\d[05]0 ?XTX?\b|Radeon (?:VII|(?:AI )?Pro \w+|\d{3}M)\b|(?:Instinct )?MI\d{2,3}[A-Z]?\b"
    r"|R[579] (?:[2-3]\d[05]X?|Fury X?|Nano)\b|HD ?[5-8]\d[5-9]0M?\b|(?<=AMD )2[78]0X\b|FirePro \w{4,6}\b"
    r"|Strix Halo\b|Vega ?\d{2}\b|AMD (?:GPU|(?:graphics |video )?card|Raven|Renoir|Cezanne|Phoenix)\b))"
)
_INTEL = (
    r"(?i:(?:Intel(?:\(R\))? )?(?:Arc(?:\(TM\)|\u2122)? (?:Pro )?(?:[AB]\d{2,3}|[1-7]\d0[VT]?)\b"
    r"|(?<=Intel )Arc(?: (?:Pro )?graphics)?\b"
    r"|Data Center GPU (?:Max|Flex) \d+\b|Iris Xe\b|UHD Graphics \d+\b))"
)
WORDS = {"dual": 2, "two": 2, "both": 2, "three": 3, "four": 4, "six": 6, "eight": 8}
NAME = re.compile(
    rf"(?:(?<![\w.])(?P<count>\d{{1,2}}) ?[x\u00d7*] ?|\b(?P<word>{'|'.join(WORDS)}) "
    rf"|(?<![\w.])(?P<plain>\d{{1,2}}) |(?<![\w./-]))"
    rf"(?P<name>{_NVIDIA}|{_AMD}|{_INTEL})(?P<several>s\b)?(?:(?P<of> GPUs\b)|(?: ?[x\u00d7*] ?"
    rf"(?P<after>\d{{1,2}})\b(?!\.\d))?)",
    re.ASCII,  # a word of another script may follow
)
LABELLED = re.compile(
    rf"\b(?:GPUs?|[Cc]ard|GPU name|[Gg]raphics)[ :=]+(?P<name>{_NUMBER}(?: ?(?:ti|Ti|super|SUPER))?|A2|L4|L2)\b"
)
# "I have a 4070": a bare number used as a noun.
OWNED = re.compile(
    r"(?:\b(?i:an?|my|the|this|our|eine?[nmr]?|meine[nr]?|une|ma|una|mi|uma) |(?<!\d)\d ?[x\u00d7] ?|[\u5f20\u5757])"
    rf"(?P<name>{_NUMBER})(?=s?(?:[,.;:)?!]|$|"
    r" (?:and|with|but|GPUs?|cards?|here|in|is|at|has|runs|\u00e0|mit|avec|con)\b)|[\u7684\u663e\u5361\uff0c\u3002])"
)
# A generation: "my 50-series card", "RTX 5000 series", "GTX 10xx", in Chinese and in Japanese.
SERIES = re.compile(
    r"(?<![A-Za-z\d_.,+/-])(?:(?P<named>(?i:RTX|GTX|GeForce|NVIDIA))[ -]?)?(?P<series>10|16|20|30|40|50)(?:00)?"
    r"(?:[ -]?(?i:series|\u7cfb\u5217?|\u756a\u53f0|\u30b7\u30ea\u30fc\u30ba)"
    r"(?P<what> (?i:(?:nvidia |rtx )?(?:card|gpu|graphic)))?"
    r"|(?i:xx)(?![\w.]))"
)
# "Changed my old GT 1030 to an RX 580": what precedes the second word is gone, what follows it is here.
REPLACED = re.compile(
    r"\b(?:chang|swap|switch|replac|trad|exchang)(?:e|es|ed|ing|ped|ping)\b[^.;?\n]{0,60}? (?:to|for|with|by) "
    r"(?:(?:an?|my|the|new|another) ){0,3}(?=\S)",
    re.IGNORECASE,
)
MOST = 64
# A container's prompt, and what docker compose writes before its output and at its end.
IN_CONTAINER = re.compile(
    r"\(container\)|[a-z_][\w-]*@[0-9a-f]{12}\b|.{0,120}\bhostname: [0-9a-f]{12}$|\$ docker exec"
    r"|[a-z][\w.-]{2,40} exited with code \d"
    r"|[a-z][\w.-]{2,40} {1,20}\| (?: {2,}|(?:Traceback|raise|File|INFO|WARN\w*|ERROR|time=|\w{1,40}Error:))"
)


def read_systems(origin: str, line: str, into: Gathered, here: Callable[[str], bool]) -> None:
    """Read the systems that a line names; ``here`` decides from the words before one whether it is this machine's."""
    wsl = WSL.search(line)
    named = () if COMPILER.search(line) else SYSTEM.finditer(line)
    found = [one for one in named if _named(before := line[: one.start()], here) and not BESIDE.search(before[-80:])]
    inside = [one for one in found if not one["name"].lower().startswith("win")] if wsl else []
    for one in (inside or found)[:1]:
        said = f"{one['name'].strip()} {one['version'] or ''}".strip()
        gathered.system(f"{origin} (in words)", said, into)
    if wsl and _is_this(line, wsl, here):
        into.machine(wsl="yes")
    jetson = JETSON.search(line)
    if jetson and _is_this(line, jetson, here):
        into.tell("gpu", f"{origin} (in words)", "0", embedded=True)
    if IN_CONTAINER.match(line):
        into.machine(container="docker")


def _is_this(line: str, found: re.Match[str], here: Callable[[str], bool]) -> bool:
    """Return whether a line says that this machine is what was found."""
    before = line[: found.start()]
    return _named(before, here) and not AWAY.search(before[-60:]) and not DENIED.match(line, found.end())


def _named(before: str, here: Callable[[str], bool]) -> bool:
    return here(before) or bool(INSIDE.search(f" {before}"[-40:]))


def read_gpus(origin: str, line: str, into: Gathered, here: Callable[[str], bool]) -> None:
    """Read the GPUs of the first line that names any, each with the number beside it.

    ``here`` decides from the words before a name whether it refers to this machine.
    """
    said = f"{origin} (in words)"
    number = 0
    for name, count in _gpu_words_named(line, here):
        for _ in range(count):
            if number < MOST:
                gathered.gpu(said, name, into, str(number))
            number += 1


def _gpu_words_named(line: str, here: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Yield each GPU that a line names, and how many of it there are; one named twice counts once."""
    seen: set[str] = set()
    taken = {one.end() for one in REPLACED.finditer(line)} & {one.start("name") for one in NAME.finditer(line)}
    former = min(taken, default=0)
    series = list(SERIES.finditer(line))
    ends = [one.end() for one in series]
    found = [*NAME.finditer(line), *LABELLED.finditer(line), *OWNED.finditer(line)]
    named = [one for one in found if not any(one.start("name") < end < one.end("name") + 9 for end in ends)]
    for match in named:
        name = match["name"].strip()
        spelt = re.sub(r"nvidia|geforce|[\W_]", "", name.lower())
        if not (match.start() in taken or here(line[: match.start()])) or match.start() < former or spelt in seen:
            continue
        seen.add(spelt)
        yield name, _count(match)
    for match in () if named else series:
        sure = match["named"] or match["what"] or match["series"] not in {"10", "16", "20"}
        if sure and here(line[: match.start()]):
            yield f"GeForce {'GTX' if match['series'] in {'10', '16'} else 'RTX'} {match['series']} series", 1


def _count(match: re.Match[str]) -> int:
    said = match.groupdict()
    plain = said.get("plain") if said.get("several") or said.get("of") else None
    spelt = WORDS.get(said.get("word") or "", 1)
    return max(1, min(int(said.get("count") or plain or said.get("after") or spelt), MOST))
