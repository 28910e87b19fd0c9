"""The index of candidates: which words, messages and facts point to which cause, and the recorded machines behind it.

``tools/cases`` generates it from the recorded cases. A line of ``features`` has a name, how informative it is, and its
weight for each cause that it points to; a line of ``cases`` has a cause, a thread, and its most informative features.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import exp, sqrt
from typing import TYPE_CHECKING

from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

TABLE = "candidates"
# The causes of machines whose stack is healthy: a text that shows nothing of a GPU at work, and one that does.
NOTHING_WRONG, WORKS = HEALTHY = ("none", "works")
# What is no cause either: a GPU at work, and something beside it that may be a fault of the machine.
DOUBT = "doubt"
NO_CAUSES = (*HEALTHY, DOUBT)
DIGITS, STEP = 36, 3  # numbers have two base-36 digits; a weight has one for the cause, and one digit for how much
# How informative a word is, in hundredths. A weight is a square, of 120ths, so that small and large ones have a digit:
# up to 4.4 for a cause, and 1.2 against it. The digit of 0 is 12.
SCALE, SQUARES, ZERO = 100, 120, 12
LIBRARIES = (
    *("cuda", "cudnn", "cublas", "nvml", "nccl", "nvidia", "hiperror", "hsa", "libcuda", "libnvidia", "dcgm"),
    *("flash_attn", "exllama", "amdvlk", "ggml_metal", "cuarray", "flashinfer", "nvenc", "nvdec", "cuvid"),
)
WITHIN = ("cuda", "nvidia", "rocm", "opencl", "vulkan", "optix")  # pycuda, getcudaenableddevicecount
CARDS = ("rtx", "gtx", "geforce", "radeon", "rx4", "rx5", "rx6", "rx7", "tesla", "quadro", "jetson")
# By how much the score of a cause has to be above that of none, which other texts have taught, where words tell of the
# stack though they name no part of it, and there are few of them: their score is high by chance (docs/decisions/0030).
ABOVE, FEW = 0.69, 24
# What else names it, beside the names of systems: parts, and programs that run on GPUs only.
OWN = frozenset(
    {
        *("gpus", "graphics", "ptx", "nvenc", "vram", "miner", "mining", "hashrate", "nouveau", "kfd", "drm", "optix"),
        *("dcgm", "radv", "dxvk", "mesa", "opengl", "lora", "ollama", "comfyui", "hashcat", "ethminer", "diffusion"),
        *("egpu", "riser", "risers", "container toolkit", "nv", "transcoding", "plex", "jellyfin", "vaapi", "xpu"),
        *("dlss", "fsr", "dx11", "dx12", "d3d11", "d3d12", "directx", "shaders", "dxgi", "glxgears", "vainfo"),
        *("wayland", "va-api", "jtop", "tegrastats", "trtexec", "deepstream", "megatron", "unsloth", "busbw", "algbw"),
        *("invokeai", "comfy", "gfpgan", "esrgan", "oobabooga", "xformers", "bitsandbytes", "mps", "gpustack"),
    }
)
# What people call a card, or its memory, in other languages.
ABROAD = re.compile(
    r"显[存卡]|[张块]卡|枚挿|グラ(?:ボ|フィック)|그래픽"
    r"|видеокарт|grafikkarte|carte graphique|tarjeta gráfica|scheda video"
)
# Parts of systems' names that tell of no GPU.
SHARED = frozenset(
    {
        *("attention", "bindings", "compile", "compute", "container", "core", "driver", "fabric", "flash", "headers"),
        *("inference", "infinity", "kernel", "level", "linux", "lm", "ml", "processes", "python", "runtime", "server"),
        *("smi", "toolkit", "zero", "intel", "amd"),
    }
)
# A card, by its number alone, or one for computing.
MODEL = re.compile(
    r"(?:[1-5]0[5-9]0|16[56]0|[5-7][5-9]00|90[67]0|(?:v|a|h|b|gh|gb)[1-3]00|l[24]0|a[2-6]000|mi[23]\d{2}x?|[pkm][468]0"
    r"|a10g|a[34]0|p100|h20|gb10|[67][5-9][05]0xtx?|b5[78]0|a[357][1578]0m?)s?"
)
NOT_A_MODEL = "1080"  # the height of a picture
# A release of NVIDIA's driver, or two in short, a card that is no number alone, a GPU of Intel's, or how hot a card is.
PHRASE = re.compile(
    r"\bdrivers? (?:version )?[3-6]\d{2}(?:\.\d{2,3}){0,2}\b|(?<![\w.])[3-6]\d{2}\.\d{2,3}\.\d{2}\b|\bintel u?hd\b"
    r"|(?<![\w.])[3-6]\d{2}\.\d{2,3}\b[^\n]{1,30}(?<![\w.])[3-6]\d{2}\.\d{2,3}\b"
    r"|\bgraphics? cards?\b|\bvega\b|\b(?:gt|hd|r[579]) ?[2-9]\d{2,3}x?\b"
    r"|\bcard\b[^.\n]{0,40} \d{2,3} ?(?:°|deg|c\b)"
)
SHORTEST = 3  # letters in a part of a word
STEM, OF_STEM = 5, "~"  # letters in which the forms of a word agree: throttled, throttling
MOST_LETTERS = 100_000  # characters of a text, at its beginning and at its end
_WORD = re.compile(r"[a-z_][a-z0-9_]{0,60}(?:[.+-][a-z0-9_]{1,60}){0,12}|[\u0430-\u044f]{2,40}|\d{1,12}(?:\.\d{1,6})?")
_PARTS = re.compile(r"[._+-]")
_PLAIN = str.maketrans("àáâãäåçèéêëìíîïñòóôõöøùúûüýё", "aaaaaaceeeeiiiinoooooouuuuyе")  # noqa: RUF001 - Cyrillic
_UNSPACED = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2,60}")  # Japanese, Chinese and Korean


def tokens(text: str) -> frozenset[str]:
    """Return the words of a text, their parts and stems, and pairs of neighbours; versions are cut to two numbers.

    Letters have no accents. Where no space divides words, each two characters are one.
    """
    if len(text) > 2 * MOST_LETTERS:
        text = f"{text[:MOST_LETTERS]}\n{text[-MOST_LETTERS:]}"
    text = text.lower().translate(_PLAIN)
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word)
        parts = _PARTS.split(word) if not word[0].isdigit() else ()
        found += [part for part in parts if len(part) >= SHORTEST and part != word]
    stems = (f"{OF_STEM}{one[:STEM]}" for one in found if len(one) > STEM and not one[0].isdigit())
    pairs = (f"{one} {other}" for one, other in pairwise(found))
    unspaced = (run[at : at + 2] for run in _UNSPACED.findall(text) for at in range(len(run) - 1))
    return frozenset((*found, *stems, *pairs, *unspaced))


@record
class Ranked:
    """A cause, its share of the likelihood, and the features that point to it, the strongest first."""

    cause: str
    weight: float
    because: tuple[str, ...]


@record
class Index:
    """Which features point to which causes.

    ``sharpness`` is how far apart weights are, ``names`` are words of the stack; a line of ``cases`` names features by
    their places in ``order``.
    """

    causes: tuple[str, ...]
    sharpness: float
    features: Mapping[str, str]
    order: tuple[str, ...]
    names: frozenset[str]
    cases: tuple[str, ...]

    def words(self, text: str) -> frozenset[str]:
        """Return the words of a text that the index knows."""
        return tokens(text) & self.features.keys()

    def tells(self, text: str) -> bool:
        """Return whether a text is about the stack: it names a part of it, or its words point to a cause."""
        words = tokens(text)
        if any(map(self.names_it, words)) or ABROAD.search(text.lower()) or PHRASE.search(text.lower()):
            return True
        known = words & self.features.keys()
        scores = dict(zip(self.causes, self._scores(self._held(known)), strict=False))
        nothing, _ = scores.pop(NOTHING_WRONG, 0.0), scores.pop(DOUBT, 0.0)
        few = sum(" " not in one and not one.startswith(OF_STEM) for one in known) < FEW
        likeliest = max(scores.values(), default=0.0)
        return len(known) > 1 and likeliest > max(nothing, 0.0) + (ABOVE if few else 0.0)

    def names_it(self, word: str) -> bool:
        """Return whether a word names a part of the stack, or a card."""
        model = MODEL.fullmatch(word) and word != NOT_A_MODEL
        part = any(one in word for one in WITHIN) or word.endswith("miner")
        owned = word in self.names or word in OWN or word.startswith(LIBRARIES + CARDS)
        return bool(model) or part or owned or bool(ABROAD.search(word))

    def _held(self, seen: Collection[str]) -> Mapping[str, tuple[float, tuple[tuple[int, float], ...]]]:
        return {one: _numbers(self.features[one]) for one in sorted(seen) if one in self.features}

    def _scores(self, held: Mapping[str, tuple[float, tuple[tuple[int, float], ...]]]) -> list[float]:
        length = sqrt(sum(tells**2 for tells, _ in held.values()))
        scores = [0.0] * len(self.causes) if length else []
        for tells, weights in held.values():
            for cause, weight in weights:
                scores[cause] += tells / length * weight
        return scores

    def shares(self, seen: Collection[str]) -> Mapping[str, float]:
        """Return by cause how likely it is with these observations; the shares add up to 1, if anything is known."""
        scores = self._scores(self._held(seen))
        best = max(scores, default=0.0)
        parts = [exp((score - best) * self.sharpness) for score in scores]
        whole = sum(parts)
        return {cause: part / whole for cause, part in zip(self.causes, parts, strict=False)}

    def rank(self, seen: Collection[str]) -> tuple[Ranked, ...]:
        """Return the causes of these observations, the likeliest first, each with what points to it."""
        spoken: dict[str, list[tuple[float, str]]] = {}
        for name, (tells, weights) in self._held(seen).items():
            for cause, weight in weights:
                if weight > 0:
                    spoken.setdefault(self.causes[cause], []).append((tells * weight, name))
        return tuple(
            Ranked(cause=cause, weight=share, because=tuple(name for _, name in sorted(spoken.get(cause, ()))[::-1]))
            for cause, share in sorted(self.shares(seen).items(), key=lambda one: (-one[1], one[0]))
        )

    def similar(self, cause: str, seen: Collection[str], most: int) -> tuple[str, ...]:
        """Return the threads of a cause's recorded machines that have most in common with these observations."""
        if cause not in self.causes:  # no recorded machine has it
            return ()
        alike: dict[str, float] = {}
        for source, held in _of_causes(self.cases).get(self.causes.index(cause), ()):
            shared = [one for at in held.split() if (one := self.order[int(at, DIGITS)]) in seen]
            tells = sum(_number(self.features[one][:2]) ** 2 for one in shared)
            alike[source] = max(tells, alike.get(source, 0.0))
        near = sorted((-tells, source) for source, tells in alike.items() if tells)
        return tuple(source for _, source in near[:most])


@cache
def _of_causes(cases: tuple[str, ...]) -> Mapping[int, Sequence[tuple[str, str]]]:
    """Return the threads of recorded machines, and the places of their features, by cause."""
    held: dict[int, list[tuple[str, str]]] = {}
    for cause, source, places in (line.split("\t") for line in cases):
        held.setdefault(int(cause), []).append((source, places))
    return held


def _number(digits: str) -> float:
    return int(digits, DIGITS) / SCALE


@cache
def _numbers(line: str) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Return how informative a feature is, and its weight by cause."""
    return _number(line[:2]), tuple(_weights(line[2:]))


def _weights(line: str) -> Iterator[tuple[int, float]]:
    for at in range(0, len(line), STEP):
        root = int(line[at + 2], DIGITS) - ZERO
        yield int(line[at : at + 2], DIGITS), root * abs(root) / SQUARES


@cache
def index(matrix: Matrix) -> Index:
    """Return the index, read once."""
    table = matrix.table(TABLE)
    features = {name: held for name, _, held in (line.partition("\t") for line in table["features"].splitlines())}
    return Index(
        causes=tuple(table["causes"].split()),
        sharpness=table["sharpness"],
        features=features,
        order=tuple(features),
        names=frozenset(word for name in matrix.systems for word in name.split("-")) - SHARED,
        cases=tuple(table["cases"].splitlines()),
    )
