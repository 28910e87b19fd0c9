"""Questions as people type them: ``torch 2.9 driver 550 rtx 5090`` and "vllm for my driver" become subjects."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from gpustack.ask.given import ALSO_MACHINES, MACHINES, SYSTEMS
from gpustack.ask.releases import FIND, KNOWN
from gpustack.ask.subjects import COMPONENTS, LONGEST, is_gpu, parse
from gpustack.diagnose.driver_packages import DISTRIBUTIONS
from gpustack.errors import UsageError
from gpustack.matrix.subjects import drivers, serving, torch
from gpustack.model import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix

VERSION = re.compile(r"(?:v(?=\d+\.))?(\d{1,4}(?:\.\d{1,5}){0,3}(?:\.?(?:post|dev|rc)\d+)?(?:\+\w[\w.]{0,20})?)")
BOUND = re.compile(r"(==|>=|<=|~=|!=|<|>)? ?" + VERSION.pattern + r"(\+)?")
GLUED = re.compile(r"([A-Za-z][A-Za-z_-]*)(?:={1,3}|[:@/])?(v?\d[\w.+]*)")  # torch2.6, torch=2.6, cuda12.4
AMOUNT = re.compile(r"\d+x|x\d+|\d+(?:gb|gib|g)", re.IGNORECASE)  # of cards, or their memory
COUNTED = re.compile(r"^\d{1,3}x(?=[a-z]+\d|\d{4})", re.IGNORECASE)  # 2x3090, 8xh100
DRIVER = re.compile(r"\d{3}\.\d{2,3}(?:\.\d{2})?")  # what nothing else has as a version
BUILD = re.compile(r"cu\d{2,3}|cuda1[1-3]|rocm\d\.\d{1,2}(?:\.\d)?|xpu|cpu")  # of a wheel, as its tag names it
SIZE = re.compile(r"\d+(?:\.\d+)?[bm]", re.IGNORECASE)  # of a model, in parameters
APPLE = re.compile(r"mac(?:os|book|-?mini|-?studio)?|osx|os-x|apple|m[1-5](?:pro|max|ultra)?", re.IGNORECASE)
MINE = frozenset({"my", "this", "here", "mine"})
NAMES = frozenset({*COMPONENTS, *FIND, *KNOWN})
BRANCH = re.compile(r"[3-6]\d\d(?:\.\d+){0,2}")  # of a driver: "nvidia 550"
KERNEL = re.compile(r"^(\d\.\d{1,3}(?:\.\d{1,3})?)(?:[-+~.]\w[\w.+~-]{0,40})?$")  # "linux 6.14.0-29-generic"
FILLING = frozenset(
    re.findall(
        r"\S+",
        """
    a an and any are at be best but can do does find fine fits for from get gives goes gpu gpus graphics card have
    how i if in install is it latest linux machine me need needs newest of ok okay on or please possible release run
    running runs still support supported supports that the there to together under use using version versions want
    what which why will with work working works would you computer server laptop dual parallel training whats wont cant
    doesnt dont isnt hows im ive did not am was says shows reports prints turing pascal volta ampere hopper newer older
    nvidia amd intel compatible env environment inside without no has
    """,
    )
)
# Ways to install and run, by the words for them.
WAYS = {
    **{one: one for one in ("pip", "uv", "poetry", "pixi", "conda", "docker", "podman", "kubernetes")},
    **{one: one for one in ("apptainer", "slurm")},
    **dict.fromkeys(("mamba", "micromamba", "miniconda", "miniforge", "anaconda"), "conda"),
    **dict.fromkeys(("container", "dockerfile", "image", "devcontainer"), "docker"),
    **dict.fromkeys(("k8s", "kube", "openshift", "pod"), "kubernetes"),
    **dict.fromkeys(("module", "lmod", "cluster", "hpc"), "slurm"),
    **dict.fromkeys(("sudo", "root", "admin", "rootless"), "user"),  # those who ask about it do not have it
    "singularity": "apptainer",
}
WINDOWS = re.compile(r"win(?:dows)?-?(?:10|11)?", re.IGNORECASE)
WSL = frozenset({"wsl", "wsl2", "wsl1"})
OF_A_MAC = {"pro", "max", "ultra", "mini", "studio", "air", "silicon", "chip", "gpu", "metal", "mps", "backend"}
BRANDS = frozenset({"radeon", "amd", "geforce", "gtx", "ryzen"})  # before a number such as 780M, which is no size
LONGEST_NAME = 4  # words in the name of a GPU, such as rtx 4070 ti super
SMI = frozenset({"nvidia-smi", "smi", "nvidiasmi"})
SERIES = 4  # digits of a card's number, such as 5090
JOINED = 3  # words of one name, such as nvidia container toolkit
OF_A_MACHINE = {"driver", "cuda", "cuda-toolkit", "toolkit", "gpu", "python"}  # without a version, the installed ones
# The subject comes first, what it depends on later: a plan changes what comes first.
LATER = {"cuda-toolkit": 1, "cudnn": 1, "nccl": 1, "nvidia-driver": 2, "gpu": 3}
LAST = {"python": 4, "gcc": 4, "clang": 4, "linux-kernel": 4}


@record
class Asked:
    """What was meant: the subjects as written, and whether the question is about this machine.

    ``os`` and ``machine`` are as ``--os`` and ``--machine`` take them, ``ways`` how something is installed or run;
    ``strange`` are unknown words.
    """

    subjects: tuple[str, ...]
    here: bool = False
    os: str | None = None
    machine: str | None = None
    ways: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()


def understood(texts: Sequence[str], matrix: Matrix) -> Asked:
    """Return what the words mean; anything already written as a subject stays unchanged."""
    parts = list(texts)
    alone = len(parts) == 1 and re.search(r"[=:@/]", parts[0]) and " " not in parts[0].strip()
    if alone or any(len(one) > LONGEST or "://" in one for one in parts) or all(_written(one, matrix) for one in parts):
        return Asked(subjects=tuple(parts))
    words = [word for one in parts for word in ([one] if _written(one, matrix) else one.split())]
    plain = [one for word in _joined([word.strip("?!,;\"'") for word in words], matrix) for one in _apart(word, matrix)]
    ways = tuple(dict.fromkeys(WAYS[one.lower()] for one in plain if one.lower() in WAYS))
    plain = list(_shown(plain, matrix))
    plain = [_meant(*around) for around in zip(["", *plain][:-1], plain, [*plain, ""][1:], strict=True)]
    system, machine, left = _ground([one for one in plain if one.lower() not in FILLING | MINE | {*WAYS}])
    found = tuple(_with_builds(tuple(_subjects(left, matrix)), matrix))
    if any(_known(one, matrix) and not _place(one, matrix) and one != "rocm" for one in found):
        found = tuple(one for one in found if one != "rocm")  # without a version it names the build
    named = [one for one in found if _known(one, matrix)]
    known = [*_behind(named, matrix), *named]
    if not known:
        return Asked(subjects=tuple(parts))  # nothing in it is known: it is rejected as typed
    return Asked(
        subjects=tuple(sorted(known, key=lambda one: _place(one, matrix))),
        here=any(word.lower() in MINE for word in plain),
        os=system,
        machine=machine,
        ways=ways,
        strange=tuple(one for one in found if one not in known),
    )


def _meant(before: str, word: str, after: str) -> str:
    """Return a word as its neighbours mean it: nvidia 550 is a driver, linux 6.14.0-29-generic the kernel 6.14.0."""
    if before.lower() in {"linux", "kernel", "linux-kernel"}:
        return KERNEL.sub(r"\1", word)
    if word.lower() == "nvidia" and BRANCH.fullmatch(after):
        return "driver"
    return "kernel" if word.lower() == "linux" and KERNEL.fullmatch(after) else word


def _behind(subjects: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """Yield what a program depends on, if it was not named: ComfyUI runs in a PyTorch."""
    named = [re.split(r"[\[=<>!~ ]", one)[0] for one in subjects]
    about = (serving.program_named(matrix, canonicalize_name(one)) for one in named)
    there = {COMPONENTS.get(one, one) for one in named}
    yield from dict.fromkeys(one.on for one in about if one and one.on and COMPONENTS.get(one.on) not in there)


def _shown(words: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """Yield the words, where nvidia-smi shows a CUDA version with the newest branch of the driver that shows it."""
    smi = any(one.lower() in SMI for one in words)
    branches = {str(one.cuda): one.number for one in drivers.branches(matrix)}
    for one in words if smi else ():
        if one in branches:
            yield from ("driver", str(branches[one]))
        elif one.lower() not in SMI | {"cuda"}:
            yield one
    yield from () if smi else words


def nearest(name: str) -> str | None:
    """Return the name that may have been meant; None for a known one, or one like no other."""
    plain = canonicalize_name(name) if name else ""
    return None if plain in NAMES else next(iter(get_close_matches(plain, sorted(NAMES), 1, 0.78)), None)


def _named(word: str, matrix: Matrix) -> bool:
    plain = canonicalize_name(word)
    known = plain in NAMES or plain in matrix.systems or plain in matrix.distributions
    return known or serving.program_named(matrix, plain) is not None


def _of_a_stack(word: str, matrix: Matrix) -> bool:
    return _named(word, matrix) or word.lower() in DISTRIBUTIONS


def _like(word: str, matrix: Matrix) -> bool:
    """Return whether a word is a name, or close enough to be a misspelt one."""
    return _named(word, matrix) or nearest(word) is not None


def _known(subject: str, matrix: Matrix) -> bool:
    if BUILD.fullmatch(subject):
        return False
    return is_gpu(subject, matrix) or _like(re.split(r"[\[=<>!~ ]", subject)[0], matrix)


def _place(subject: str, matrix: Matrix) -> int:
    component = "gpu" if is_gpu(subject, matrix) else parse(subject, matrix).component
    return {**LATER, **LAST}.get(component, 0)


def _written(text: str, matrix: Matrix) -> bool:
    """Return whether a text is already a subject: a requirement, the name of a GPU, or a known name."""
    if VERSION.fullmatch(text) or text.lower() in FILLING | MINE:
        return False
    try:
        subject = parse(text, matrix)
    except UsageError:
        return False
    return bool(subject.version or subject.span) or _named(subject.name, matrix)


def _joined(words: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """Yield the words, joining those that form one name: flash attention, tensor rt."""
    at = 0
    while at < len(words):
        sizes = range(min(JOINED, len(words) - at), 1, -1)
        tries = ((size, sign.join(words[at : at + size])) for size in sizes for sign in ("-", ""))
        size, name = next(((size, one) for size, one in tries if _of_a_stack(one, matrix)), (1, words[at]))
        yield name
        at += size


def _apart(word: str, matrix: Matrix) -> tuple[str, ...]:
    """Return a name and the version attached to it; any other word unchanged, and none for a mere amount."""
    word = COUNTED.sub("", word)
    glued = None if BUILD.fullmatch(word) else GLUED.fullmatch(word)
    if AMOUNT.fullmatch(word):
        return ()
    if glued and not _named(word, matrix) and _of_a_stack(glued[1], matrix):
        return glued[1], glued[2]
    return (word,)


def _ground(words: Sequence[str]) -> tuple[str | None, str | None, list[str]]:
    """Return the system and the processor named, as the options take them, and the other words."""
    system = machine = None
    left: list[str] = []
    before: str | None = None
    mac = any(APPLE.fullmatch(one) for one in words)
    for word in words:
        plain, last, before = word.lower(), before, word.lower()
        if plain in WSL or (
            system == "wsl" and (plain in DISTRIBUTIONS or (last in DISTRIBUTIONS and VERSION.fullmatch(word)))
        ):
            system = "wsl"
        elif plain in SYSTEMS or WINDOWS.fullmatch(plain):
            system = system if system == "wsl" else "windows" if WINDOWS.fullmatch(plain) else plain
        elif mac and plain in OF_A_MAC:
            continue
        elif APPLE.fullmatch(word) and last != "tesla":
            system = "macos"
        elif plain in DISTRIBUTIONS:
            system = plain
        elif system in DISTRIBUTIONS and last == system and VERSION.fullmatch(word):
            system = f"{system}-{word}"
        elif plain in {*MACHINES, *ALSO_MACHINES}:
            machine = ALSO_MACHINES.get(plain, plain)
        else:
            left.append(word)
    return system, machine, left


def _subjects(words: list[str], matrix: Matrix) -> Iterator[str]:
    at = 0
    while at < len(words):
        word, after = words[at], words[at + 1 : at + 3]
        longest = min(LONGEST_NAME, len(words) - at)
        card = next((size for size in range(longest, 0, -1) if _card(words[at : at + size], matrix)), 0)
        numbered = any(one.isdecimal() for one in after[:1]) and _card(after[:1], matrix)  # of a card, not a version
        taken, bound = (0, "") if numbered else _bound(after)
        if taken and (_named(word, matrix) or (not card and _like(word, matrix))):
            yield f"{word}{bound}"
            at += 1 + taken
        elif card:
            yield " ".join(words[at : at + card])
            at += card
        else:
            if canonicalize_name(word) not in OF_A_MACHINE or not at:
                yield f"driver=={word}" if DRIVER.fullmatch(word) else word
            at += 1


def _with_builds(found: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """Yield the subjects, attaching a separately typed build to the PyTorch or JAX beside it.

    A CUDA build without either becomes the CUDA version that it names.
    """
    tag = next((one for one in found if BUILD.fullmatch(one)), None)
    names = [COMPONENTS.get(name, name) for name in (re.split(r"[=<>!~]", one)[0] for one in found)]
    for name, one in zip(names, found, strict=True):
        if one == tag:
            if tag.startswith("cu") and not {"pytorch", "jax"} & {*names}:
                yield f"cuda=={tag[2:].removeprefix('da')[:2]}.{tag[4:].removeprefix('da') or 0}"
        elif tag and name == "pytorch" and not re.search(r"[<>!~+]", one) and not tag.startswith("cuda"):
            of = (it.version for it in reversed(torch.releases(matrix)) if torch.build_of(matrix, it.version, tag))
            version = one.partition("==")[2] or next(of, None)
            yield f"torch=={version}+{tag}" if version else one
        elif tag and name == "jax" and tag.startswith("cuda"):
            yield f"jax[{tag}]{one.removeprefix('jaxlib').removeprefix('jax')}"
        else:
            yield one


def _bound(words: Sequence[str]) -> tuple[int, str]:
    """Return how many of the words form a version or a bound, and how it is written after a name."""
    for count in range(len(words), 0, -1):
        found = BOUND.fullmatch(" ".join(words[:count]))
        if found and (count == 1 or found[1]):
            return count, f"{found[1] or ('>=' if found[3] else '==')}{found[2]}"
    return 0, ""


def _card(words: Sequence[str], matrix: Matrix) -> bool:
    """Return whether words name a GPU; a bare number is a version of the preceding word."""
    brand = words[0].lower() in BRANDS
    if any((SIZE.fullmatch(one) and not brand) or BUILD.fullmatch(one) for one in words) or (
        len(words) == 1 and VERSION.fullmatch(words[0]) and len(words[0]) != SERIES
    ):
        return False
    return is_gpu(" ".join(words), matrix)
