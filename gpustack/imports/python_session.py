"""Questions to a Python about its frameworks, and its answers: "torch.__version__", "torch.cuda.is_available()"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.imports import gathered
from gpustack.imports.gathered import HERE, Gathered

ASKED = re.compile(
    r"torch\.(?:__version__|__file__|version\.|cuda\.)|\barch_list\b|(?:tf|torchvision|torchaudio)\.__version__"
    r"|is_built_with_cuda"
)
PROMPT = re.compile(r"^(?:>>>|\.\.\.|\$|%|#|>|(?:In|Out) ?\[\d+\]:|!)+\s*")
VERSION = re.compile(r"(?<![\w.])\d+\.\d+(?:\.\d+)?(?:\.?(?:post|dev|rc|a|b)\w*)?(?:\+[\w.]+)?(?![\w.]*x)")
TAG = re.compile(r"\+(?P<tag>(?:cu|rocm|cpu|xpu)[\w.]*)")
ARCHS = re.compile(r"\b(?:sm|compute)_\d{2,3}[af]?\b")
TARGETS = re.compile(r"\bgfx\d[0-9a-f]{2,3}\b")
CAPABILITY = re.compile(r"\((\d{1,2}), ?(\d)\)")
ANSWER = re.compile(r"^['\"]?(?:\d+\.\d[\w.+]*|True|False|None|\(\d+, ?\d+\)|<?torch)\b")
LABEL = re.compile(r"^[A-Za-z][\w.() -]{0,30}[:=] *")  # "CUDA build: None"
COMPANION = re.compile(r"\b(torchvision|torchaudio)\.__version__")
IN_WORDS = re.compile(
    r"(?P<asked>torch(?:vision|audio)?\.(?:__version__|version\.cuda|cuda\.is_available)(?:\(\))?)[`'\"]*"
    r"(?: is|:| *[=-]+>?| returns?"
    r"| gives?| prints?| shows?| says?) *[`'\"]*(?P<answer>\d+\.\d[\w.+]*|[Tt]rue|[Ff]alse|None)\b"
)
TAGGED = re.compile(
    r"^['\"]?(?P<version>[1-9]\.\d+\.\d+(?:\.dev\d+)?\+(?:cu\d{2,3}|cpu|rocm[\d.]+))['\"]?$", re.MULTILINE
)
IMPORTED = re.compile(
    r"\b(?:import(?:s|ed|ing)? torch|torch imports?(?: as)?|imported (?:py)?torch)\b"
    r"(?![^\n?]{0,400}\b(?:expect|should|need|want))[^\n?]{0,40}?(?<![\w.])(?P<version>[0-2]\.\d+\.\d[\w.+]*)"
)
# Output without the command: a version and, in the lines below it, whether and which CUDA is available.
BARE = re.compile(
    r"^(?P<version>[0-2]\.\d{1,2}\.\d{1,2}(?:\.post\d)?)\n(?:(?P<cuda>\d{1,2}\.\d)\n)?(?P<available>True|False)$"
    r"(?=[\s\S]{0,2000}?(?:torch|CUDA|_CudaDeviceProperties))",
    re.MULTILINE,
)
CU_INIT = re.compile(r"\bcuInit\(0\)\)[^\n]{0,60}\n(?P<code>\d{1,3})[ \t]*$", re.MULTILINE)
MOST, LONGEST = 200, 600  # longer lines are not a session


def read(origin: str, text: str, into: Gathered) -> None:
    """Read the answers of a Python; a question without an answer says nothing."""
    for (asked, answer), _ in zip(_answers(text), range(MOST), strict=False):
        if companion := COMPANION.search(asked):
            _companion(origin, companion[1], answer, into)
        elif "torch.__version__" in asked or "torch.version.__version__" in asked or "tf.__version__" in asked:
            _version(origin, "tensorflow" if "tf." in asked else "pytorch", answer, into)
        if "torch.version.cuda" in asked:
            _cuda(origin, answer, into)
        if "is_available" in asked:
            available = re.search(r"\b([Tt]rue|[Ff]alse)\b", answer)
            if available:
                into.tell("pytorch", origin, available=available[1].lower() == "true", asked=True)
        for accelerator, names in (("cuda", ARCHS.findall(answer)), ("rocm", TARGETS.findall(answer))):
            if "arch_list" in asked and names:
                into.tell("pytorch", origin, archs=tuple(dict.fromkeys(names)), accelerator=accelerator)
        if "torch.__file__" in asked and "/torch/" in answer.replace("\\", "/"):
            into.tell("pytorch", origin, imported_from=re.sub(r"['\"()]", "", answer).strip())
        _device(origin, asked, answer, into)
    _alone(origin, text, into)


def _alone(origin: str, text: str, into: Gathered) -> None:
    """Read a version on its own line, one that a sentence calls imported, and the code of cuInit."""
    if code := CU_INIT.search(text):
        into.tell("libcuda", origin, cu_init=int(code["code"]))
    told = IMPORTED.search(text)
    if told and not into.fact("pytorch", "imported"):
        into.tell("pytorch", origin, imported=told["version"].rstrip("."))
    alone = TAGGED.search(text)
    if alone and not into.version("pytorch"):
        _version(origin, "pytorch", alone["version"], into)
    bare = BARE.search(text)
    if bare and not into.version("pytorch"):
        cuda, available = bare["cuda"], bare["available"] == "True"
        into.tell("pytorch", origin, version=bare["version"], cuda=cuda, accelerator="cuda" if cuda else None)
        into.tell("pytorch", origin, available=available)


def _answers(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with a question, and the text after it or, if there is none, the next line."""
    lines = text.split("\n")
    together = {number: (asked, answer) for number, asked, answer in _together(lines)}
    yield from together.values()
    yield from _printed(lines)
    for number, line in enumerate(lines):
        if number in together:
            continue
        matches = list(ASKED.finditer(line)) if len(line) < LONGEST else []
        if not matches:
            continue
        told = [(one["asked"], one["answer"]) for one in IN_WORDS.finditer(line)]
        if len(told) > 1:
            yield from told
            continue
        behind = re.sub(r"^[\w.]*(?:\([^()]*\))?['\")\]};, ]*", "", line[matches[-1].end() :])
        behind = behind.lstrip(" :=->#")
        after = next((PROMPT.sub("", one).strip() for one in lines[number + 1 : number + 3] if one.strip()), "")
        yield line, behind or ("" if ASKED.search(after) else after)


def _together(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the questions of consecutive lines, each with its number and its answer line below."""
    plain = [PROMPT.sub("", line).strip() for line in lines]
    block: list[int] = []
    for number, line in enumerate(plain):
        if ASKED.search(line) and len(line) < LONGEST:
            block.append(number)
            continue
        wanted = len(block)
        answers = [one for one in plain[number : number + wanted * 2 + 2] if one][:wanted] if wanted > 1 else []
        if answers and len(answers) == wanted and all(map(ANSWER.match, answers)):
            for one, answer in zip(block, answers, strict=True):
                yield one, plain[one], answer
        block = []


def _printed(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the questions of one line that prints several answers, each with its answer line below."""
    for number, line in enumerate(lines):
        matches = list(ASKED.finditer(line)) if "print" in line and len(line) < LONGEST else []
        plain = [PROMPT.sub("", one).strip() for one in lines[number + 1 : number + 1 + len(matches)]]
        at_once = plain[0].split() if plain else []
        below = at_once if len(at_once) == len(matches) else [LABEL.sub("", one) for one in plain]
        if len(matches) > 1 and len(below) == len(matches) and all(map(ANSWER.match, below)):
            ends = [*(one.start() for one in matches[1:]), len(line)]
            for match, end, answer in zip(matches, ends, below, strict=True):
                yield line[match.start() : end], answer


def _companion(origin: str, package: str, answer: str, into: Gathered) -> None:
    """Store the version of the imported torchvision or torchaudio."""
    found = VERSION.search(answer)
    if found:
        held = into.fact("packages", "distributions")
        into.tell("packages", origin)
        known = held if isinstance(held, dict) else {}
        into.copies["packages"][HERE].facts["distributions"] = {package: found[0], **known}


def _version(origin: str, component: str, answer: str, into: Gathered) -> None:
    found = VERSION.search(answer)
    if not found:
        return
    tag = TAG.search(found[0])
    into.tell(component, origin, version=found[0], build=tag["tag"] if tag else None, imported=found[0])


def _cuda(origin: str, answer: str, into: Gathered) -> None:
    found = re.search(r"(?<![\w.])(\d{1,2}\.\d)(?:\.\d{3})?(?![\w.+])|\bNone\b", answer)
    if found and found[1]:
        into.tell("pytorch", origin, cuda=found[1], accelerator="cuda")
    elif found and not str(into.version("pytorch") or "").count("rocm"):
        into.tell("pytorch", origin, accelerator="cpu")


def _device(origin: str, asked: str, answer: str, into: Gathered) -> None:
    capability = CAPABILITY.search(answer) if "get_device_capability" in asked else None
    name = re.search(r"['\"]?(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro|AMD|Radeon)[^'\"\n)]{2,60})", answer)
    if "get_device_name" in asked and name:
        gathered.gpu(origin, name["name"], into, "0")
    if capability:
        into.tell("gpu", origin, "0", cc=f"{capability[1]}.{capability[2]}")
