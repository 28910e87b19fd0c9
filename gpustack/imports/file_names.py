"""Libraries and programs by the paths in a text: which version, and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from gpustack.imports import devices, packages
from gpustack.imports.gathered import HERE, Gathered

NOT_HERE = re.compile(
    r"(?:(?<![a-z])(?:needs?|requires?|required|wants?|at least|minimum|min\.|upgrade\w*|update\w*|install(?:ing)?"
    r"|(?<!self-)(?<!self )compiled|built?|built|(?:built?|compiled|linked|compatible|made) (?:with|for|against)|for|in"
    r"|supports?|supported|than"
    r"|until|since|before|(?:works?|worked|runs?|fine|tested|ok) (?:on"
    r"|with)|"
    r"works?|worked|downgrad\w*|instead of|against|expects?|expected|or newer|previous\w*|earlier"
    r"|compiler|compiled w\.[ .]{0,8}|older|newer|(?:un|re)installed|removed|not|no|without|if|use|using|try|tried|was"
    r"|up to|from|to|like|e\.g\.|such as)|>=|<=|<|>)\s{0,40}(?:the |a |an )?\W*$",
    re.IGNORECASE,
)
# The same in other languages; and what follows what is wanted.
NOT_HERE_ABROAD = re.compile(
    r"(?:需要|要求|至少|之前[是用]?|以前[是用]?|原来[是用]?|нуж[её]?н[аоы]?|требует\w{0,3}|раньше|usava|usaba|utilisais|benutzte|использовал|braucht|ben[öo]tigt|mindestens|vorher"
    r"|necesita|requiere|precisa|requer|antes|requiert|n[ée]cessite|avant|richiede|prima)"
    r"(?: (?:el|la|le|il|o|den|die|einen?|de|un))?[ :\uff1a]{0,4}$",
    re.IGNORECASE,
)
# Words that make the thing after them one of this machine, even where the words before would not.
IN_USE = re.compile(
    r"\b(?:some|my|an|our|this) older $"
    r"|\b(?:after|since) (?:the|an|my|this|that) (?:\w+ )?(?:upgrade|update),? (?:my |the )?$|"
    r"(?:\b(?:I|we|I'm|we're|am|are|is) (?:also |now |currently )?us(?:e|ing)|(?:^|[,;] )(?:currently |now )?using"
    r"|\b(?:upgraded|updated|f[ae]lls? back|falling back) to)\s+(?:the "
    r"|a |an )?\W?$",
    re.IGNORECASE,
)
# A command that someone reports running; as advice, a question or a solution it says nothing about now.
GIVEN = re.compile(r"(?:^|[,;:(.] ?|\b(?:I|we|after|did|with) )(?:pip3?|conda|mamba|uv pip) install(?:ed)?(?: -\S+)* $")
ADVICE = re.compile(
    r"\?|\b(?:fix|solv|work|help|try|tri|should|need|want|must|please|instead|resolv|use|run|can|could|fail|error)\w*\b",
    re.IGNORECASE,
)
NOT_AFTER = re.compile(
    r"[\"')]{0,8}\s{0,40}(?:及?以[上降]|[がは이가]? ?(?:必要|필요)|이상|(?:oder|ou|o|или) (?:neuer|plus|superior|новее)"
    r"|or (?:newer|later|higher|above)|\+ ?(?:is|or|needed)|and (?:above|newer|later)|and up\b"
    r"|(?:is|are) (?:needed|required)|builds?\b|wheels?\b"
    r"|(?:\([^()]{1,30}\) )?(?:had )?worked\b(?! (?:until|till|before)))"
)
# A check list ("CUDA version.....[OK] (12.1)"), and facts between bars ("torch 1.4 | CUDA 10.1"), which no table edges.
DOTS = re.compile(r"(?<![ .])[ .]{4,}(?:\[ ?OK ?\]|(?<=\.) )[ ]?")
BARS = re.compile(r" \| ")
TABLE = re.compile(r"^\s*[|+]|[|+]\s*$|\$ |^\s*[#$%>]|\bgrep\b")
FILE = re.compile(
    r"^(?P<before>[^\n]{0,160}?)(?<![\w.+%-])(?P<name>[A-Za-z][\w.]{0,60})-(?P<version>\d(?:[\w.+!]|%2B){0,80})"
    r"-(?:cp|py)\d[\w.]{0,30}-[\w.]{1,30}-(?P<platform>[\w.]{1,60})\.whl(?P<after>[^\n]{0,60})",
    re.MULTILINE,
)
FOLDER = re.compile(r"download\.pytorch\.org/whl/(?:nightly/)?(?P<tag>cu\d{2,3}|cpu|rocm[\d.]+|xpu)/$")
OF_NVIDIA = re.compile(
    r"(?<![\w/.-])(?P<name>nvidia-(?:cudnn|cublas|nccl|nvjitlink|cuda-runtime|cuda-nvrtc|cufft|cusparse|cusolver)-cu1\d)"
    r"(?:==| |: | version |-| \()v?(?P<version>\d+\.\d[\d.]*\d)"
)
# A line in which a wheel is installed, and words that exclude it from this machine.
TAKEN = re.compile(
    r"\b(?:install\w*|Processing|Download(?:ing|ed)|Using cached|built|have|has|with|using|wheel(?: is| used)?)\b"
    r"[^\n]{0,80}$|^\W*$",
    re.IGNORECASE,
)
OTHER = re.compile(
    r"\b(?:not|no|n't|never|try|tried|should|could|instead|removed?|uninstall\w*|recommend\w*|fail\w*)\b|\?",
    re.IGNORECASE,
)
PYTHON = re.compile(
    r"(?:[/\\](?:lib/)?python(?P<dotted>3\.\d{1,2})[/\\](?:site|dist)-packages\b|[/\\]Python3(?P<short>\d{1,2})[/\\]"
    r"|\.cpython-3(?P<tag>\d{1,2})-|\.cp3(?P<windows>\d{1,2})-win"
    r"|\b(?:Using cached|Downloading) \S{1,200}-cp3(?P<wheel>\d{1,2})-cp3(?P=wheel)m?-"
    r"|\bFROM python:(?P<image>3\.\d{1,2})\b"
    r"|\b(?:python(?P<command>3\.\d{1,2}) -m )?pip(?(command)|(?P<pip>3\.\d{1,2})) install\b)"
)
# The CUDA that someone installed PyTorch for, if nothing states the resulting build.
ASKED = re.compile(
    r"\b(?:conda|mamba)\b[^\n?]{0,60}\binstall\b[^\n?]{0,120}\bpytorch\b[^\n?]{0,160}\b(?:cudatoolkit|pytorch-cuda)=+"
    r"(?P<cuda>\d{1,2}\.\d)\b"
    r"|\b(?:pip3?|uv)\b[^\n?]{0,60}\binstall\b[^\n?]{0,160}\btorch\b[^\n?]{0,160}download\.pytorch\.org/whl/(?:nightly/)?"
    r"cu(?P<tag>\d{2,3})\b"
)
# A command that installs, and the single version that it requests.
COMMAND = re.compile(
    r"^(?P<before>[^\n]{0,60}?)\b(?:pip3?|conda|mamba|micromamba|uv|poetry|pdm|pixi)\b[^\n?]{0,40}?\b(?:install|add)\b"
    r"(?P<asked>[^\n]{0,400})",
    re.MULTILINE,
)
ASKED_FOR = re.compile(
    r"(?<![\w./=-])(?P<name>[A-Za-z][\w.-]{0,60})(?:\[[\w,-]{1,40}\])?={1,3}"
    r"(?P<version>\d+\.\d+(?:\.\d+)?(?:\.?post\d+)?(?:\+\w+)?)(?![\w.*])"
)
NO_PACKAGE = frozenset({"python", "cuda", "cudatoolkit", "pytorch-cuda", "cuda-toolkit"})
# An extra that names the CUDA of JAX's plugin: jax[cuda12], jax[cuda12_pip].
JAX = re.compile(r"(?<![\w-])jax\[cuda(?P<major>1[1-9])(?:_\w+|-\w+)?\]")
# What is printed only on Windows: folders of its users and of Pythons there, and the compiler of its Pythons.
WINDOWS = re.compile(
    r"\\{1,2}AppData\\{1,2}(?:Local|Roaming)\\"
    r"|\b[A-Z]:\\{1,2}(?:Users\\|[^\n:]{1,200}[\\/](?:site-packages|Scripts)[\\/])|\[MSC v\.1\d{3} (?P<bits>32|64) bit",
    re.IGNORECASE,
)
# A build that only PyTorch has, without its name: "2.0.0+cpu" in a settings page.
TAGGED = re.compile(
    r"(?:^|[\s\"'(:])(?P<version>[12]\.\d{1,2}\.\d)\+(?P<tag>cpu|cu1[0-3]\d|rocm\d\.\d)(?!\.?\w)", re.MULTILINE
)
OTHERS = re.compile(r"vllm|sglang|jax|flash|xformers|torch\w|torch[-_]\w|paddle|tensorflow|dgl|mmcv", re.IGNORECASE)
# A driver library whose name contains its release.
LIBRARY = re.compile(r"\blib(?:cuda|nvidia-(?:ml|nvvm|opencl))\.so\.(?P<release>\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
# The version of a driver's file, as Windows shows it: 31.0.15.1694 is 516.94.
OF_WINDOWS = re.compile(r"(?<![\w.])(?:2[1-9]|3\d)\.\d{1,2}\.1(?P<first>\d)\.(?P<rest>\d{2})(?P<last>\d{2})(?![\w.])")
# A release of the driver by its form alone: "Tesla T4, 470.223.02".
BARE = re.compile(r"(?:^|[,;])[ \t]{0,3}(?P<release>[3-6]\d\d\.\d{2,3}\.\d{2})[ \t]{0,3}(?=[,;(]|$)", re.MULTILINE)
INTEL_OR_AMD = re.compile(r"\b(?:Intel|Arc|AMD|Radeon|RX ?\d{3,4})\b", re.IGNORECASE)
FAILED = re.compile(r"No matching distribution|Could not find a version|PackagesNotFoundError|UnsatisfiableError")
# What decides in conda which kind PyTorch is.
KIND = re.compile(
    r"^[^\n]{0,60}?(?<![\w-])(?:pytorch-mutex[ \t=-]+1\.0[ \t=-]+(?P<kind>cpu|cuda)|(?P<only>cpuonly)[ \t=]+\d\.\d)\b"
    r"(?![^\n]*(?:was|were|been) removed)",
    re.MULTILINE,
)
MOST, FEW = 400, 3


def smooth(raw: str) -> str:
    """Return a line without emphasis marks, with commas and colons between facts, on single spaces."""
    raw = BARS.sub(", ", raw) if "|" in raw and not TABLE.search(raw) else raw
    return " ".join(DOTS.sub(": ", raw.replace("**", "").replace("`", "")).split())


def here(before: str) -> bool:
    """Return whether the words before a thing say that it is on this machine."""
    near = before[-40:]
    given = bool(GIVEN.search(near)) and not ADVICE.search(before)
    return given or bool(IN_USE.search(near)) or not (NOT_HERE.search(near) or NOT_HERE_ABROAD.search(near))


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the names of wheels, folders and images; a list or a report takes precedence."""
    if ".whl" in text:
        _wheels(origin, text, into)
    python = next(iter(dict.fromkeys(_pythons(text))), None)
    if python and not into.version("python"):
        into.tell("python", origin, version=python)
    _typed(origin, text, into)
    asked = ASKED.search(text)
    if asked and into.fact("pytorch", "accelerator") == "cpu":
        into.tell("pytorch", origin, asked_cuda=_asked(asked))
    if asked and into.knows("pytorch") and not into.fact("pytorch", "accelerator") and not into.fact("pytorch", "cuda"):
        into.tell("pytorch", origin, cuda=_asked(asked), accelerator="cuda")
    _of_conda(origin, text, into)
    _of_windows(origin, text, into)
    if not into.version("pytorch"):
        _tagged(origin, text, into)
    releases = {one["release"] for one in islice(LIBRARY.finditer(text), MOST)}
    if len(releases) == 1 and not into.fact(
        "nvidia-driver", "package_version"
    ):  # with several, nothing says which is in use
        into.tell("nvidia-driver", origin, package_version=releases.pop())
    windows = OF_WINDOWS.search(text)
    if windows and not into.knows("nvidia-driver") and not INTEL_OR_AMD.search(text):
        release = f"{windows['first']}{windows['rest']}.{windows['last']}"
        into.tell("nvidia-driver", f"{origin} (in words)", version=release)
        into.machine(os="Windows")
    bare = {one["release"] for one in islice(BARE.finditer(text), MOST)}
    if len(bare) == 1 and not into.knows("nvidia-driver") and not into.knows("nvidia.ko"):
        into.tell("nvidia-driver", f"{origin} (in words)", version=bare.pop())
    jax = JAX.search(text)
    if jax and not FAILED.search(text):
        into.tell("jax", origin, build=f"cuda{jax['major']}")
    devices.images(origin, text, into)


def _of_windows(origin: str, text: str, into: Gathered) -> None:
    """Read that this is Windows, and whether its Python has 32 or 64 bits."""
    if "-microsoft-standard-wsl" in text.lower():
        into.machine(wsl="yes")
    found = None if into.knows("linux-kernel") or into.host.get("container") else WINDOWS.search(text)
    if found:
        into.machine(os="Windows")
    if found and found["bits"]:
        into.tell("python", origin, bits=int(found["bits"]))


def _tagged(origin: str, text: str, into: Gathered) -> None:
    """Read a version with a build tag as PyTorch's, if its line names nothing else that has such builds."""
    found = TAGGED.search(text)
    line = text[text.rfind("\n", 0, found.start("version")) + 1 :].partition("\n")[0] if found else ""
    if found and not OTHERS.search(line):
        version = f"{found['version']}+{found['tag']}"
        build = devices.named(version)
        into.tell("pytorch", origin, version=version, build=build.tag, accelerator=build.accelerator, cuda=build.cuda)


def _of_conda(origin: str, text: str, into: Gathered) -> None:
    """Read what conda's own packages say about a PyTorch of unknown build: its kind, and its CUDA."""
    kind = KIND.search(text)
    if kind and kind["kind"] != "cuda" and into.version("pytorch"):
        into.tell("pytorch", origin, accelerator="cpu")
    told = (into.fact("pytorch", name) for name in ("accelerator", "cuda", "conda_build", "cuda_used"))
    known = into.fact("packages", "distributions")
    held = known if isinstance(known, dict) else {}
    cuda = re.match(r"\d{1,2}\.\d", str(held.get("pytorch-cuda") or held.get("cudatoolkit") or ""))
    if cuda and into.version("pytorch") and "+" not in (into.version("pytorch") or "") and not any(told):
        into.tell("pytorch", origin, cuda=cuda[0], accelerator="cuda")


def _asked(match: re.Match[str]) -> str:
    """Return the CUDA version that PyTorch was requested for."""
    return match["cuda"] or f"{match['tag'][:-1]}.{match['tag'][-1]}"


def _typed(origin: str, text: str, into: Gathered) -> None:
    """Read the packages that commands requested, if nothing states the resulting ones."""
    if FAILED.search(text):
        return
    held = into.fact("packages", "distributions")
    known = held if isinstance(held, dict) else {}
    found: dict[str, set[str]] = {}
    for command in islice(COMMAND.finditer(text), MOST):
        told = {_distribution(one["name"]): one["version"] for one in ASKED_FOR.finditer(command["asked"])}
        rest = ASKED_FOR.sub("", command["asked"])
        refuted = any(known.get(name, version) != version for name, version in told.items())
        for name, version in () if refuted or OTHER.search(f"{command['before']} {rest}") else told.items():
            found.setdefault(name, set()).add(version)
    fresh = {name: min(versions) for name, versions in found.items() if len(versions) == 1 and name not in NO_PACKAGE}
    packages.take(origin, {name: version for name, version in fresh.items() if name not in known}, into)


def _distribution(name: str) -> str:
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return "torch" if plain == "pytorch" else plain


def _release(version: str, before: str) -> str:
    """Return the version of a wheel; without a tag in its name, with the tag of the folder on PyTorch's server."""
    folder = FOLDER.search(before)
    whole = version.replace("%2B", "+")
    return f"{whole}+{folder['tag']}" if folder and "+" not in whole else whole


def named(origin: str, line: str, into: Gathered) -> None:
    """Read NVIDIA's wheels that a line reports as installed: "nvidia-cudnn-cu11 8.6.0 is installed"."""
    for match in OF_NVIDIA.finditer(line):
        if here(line[: match.start()]):
            held = into.fact("packages", "distributions")
            into.tell("packages", f"{origin} (in words)")
            known = held if isinstance(held, dict) else {}
            into.copies["packages"][HERE].facts["distributions"] = {match["name"]: match["version"], **known}


def _wheels(origin: str, text: str, into: Gathered) -> None:
    """Read the wheels that someone installed; a name with many versions is a choice, not a statement."""
    found: dict[str, list[str]] = {}
    for match in islice(FILE.finditer(text), MOST):
        if TAKEN.search(match["before"]) and not OTHER.search(f"{match['before']} {match['after']}"):
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            if match["platform"].endswith("aarch64"):
                into.machine(machine="aarch64")
            elif match["platform"].startswith("win"):
                into.machine(os="Windows")
            found.setdefault(name, []).append(_release(match["version"], match["before"]))
    held = into.fact("packages", "distributions")
    known = dict(held) if isinstance(held, dict) else {}
    fresh = {name: versions[-1] for name, versions in found.items() if len(versions) < FEW and name not in known}
    if not fresh:
        return
    into.tell("packages", origin)
    into.copies["packages"][HERE].facts["distributions"] = {**known, **fresh}
    if "torch" in fresh and not into.version("pytorch"):
        # Windows' wheels of the package index have no tag, and are for the processor.
        plain = into.host.get("os") == "Windows" and "+" not in fresh["torch"]
        build = devices.named(f"{fresh['torch']}+cpu" if plain else fresh["torch"])
        into.tell(
            "pytorch", origin, version=fresh["torch"], build=build.tag, accelerator=build.accelerator, cuda=build.cuda
        )


def _pythons(text: str) -> Iterator[str]:
    for match in islice(PYTHON.finditer(text), MOST):
        dotted = match["dotted"] or match["command"] or match["pip"] or match["image"]
        yield dotted or f"3.{match['short'] or match['tag'] or match['windows'] or match['wheel']}"
