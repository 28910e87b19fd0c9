"""GPUs that people name in words: "3x RTX A6000", "8 NVIDIA H100s", "GTX 1080Ti and RTX 2080Ti", "GPU: 2080ti"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports import platforms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.imports.gathered import Gathered

_MORE = r"(?:[- ](?:SXM\d?|PCIe?|NVL\d*|HBM\d\w?|\d+ ?GB)(?:-\w+)*\b)*"
_TRIM = (
    r"(?: ?(?:Ti|TI|ti|SUPER|Super|D|M|Ada(?: Generation)?|Max-Q|Blackwell|SFF)\b)*"
    r"(?: Laptop GPU| Laptop| laptop GPU| Mobile| PRO\b| Pro\b)?(?: Blackwell)?"
)
_NUMBER = r"(?:10[1-8]|16[2356]|20[5-8]|30[5-9]|40[5-9]|50[5-9])0"
_NVIDIA = (
    r"(?:NVIDIA[ -]|Nvidia |nvidia )?(?:Ge[Ff]orce |geforce |GEFORCE )?"
    rf"(?:(?:RTX|GTX|GT|RT|rtx|gtx)[ -]?(?:PRO |Pro )?[A-Z]?\d{{3,4}}{_TRIM}"
    r"|(?<=[Gg][Ee][Ff][Oo][Rr][Cc][Ee] )(?:(?:MX)?\d{3}[AM]?X?|10[1-8]0)\b"
    rf"|{_NUMBER} ?(?:[Tt][Ii](?: SUPER)?|SUPER|[Rr][Tt][Xx]|GTX|Laptop)\b"
    r"|(?:TITAN|Titan) (?:X|V|RTX|Xp|Black|Z)\b(?: \(Pascal\))?|Tesla [KMPVTC]\d{1,4}\w?"
    r"|Quadro (?:RTX )?[A-Z]{0,3}\d{3,4}[A-Z]?"
    rf"|(?:A(?:10[GM]?|16|30|40|100X?|800|[1-6][05]00)|H(?:20|100|200|800)|B(?:100|200|300)|L(?:20|40S?)|GH200"
    rf"|GB(?:10|200|300)|V100S?|T4|P100|K80|M60)(?=s?\b){_MORE}"
    r"|(?:(?<=NVIDIA )|(?<=Nvidia )|(?<=\dx )|(?<=\d x ))(?:A2|L4|L2|T\d{3,4})\b|(?:A2|L4|L2)(?= GPUs?\b)"
    r"|MX[1-5]\d0\b|Jetson (?:AGX )?(?:Orin|Xavier|Thor|Nano|TX[12]|TK1)\b(?: NX| Nano| AGX)?"
    r"|(?:AGX )?Orin\b(?: Nano| NX)?|(?:AGX )?Xavier\b)"
)
_AMD = (
    r"(?:AMD )?(?:Radeon )?(?:RX ?(?:Vega ?)?\d{2,4}(?: ?(?:XTX|XT|GRE|M|S)\b)?|Radeon (?:VII|(?:AI )?Pro \w+|\d{3}M)\b"
    r"|(?:Instinct )?MI\d{2,3}[A-Z]?\b|Strix Halo\b|Vega ?\d{2}\b)"
)
_INTEL = (
    r"(?:Intel(?:\(R\))? )?(?:Arc(?:\(TM\)|™)? (?:Pro )?[AB]?\d{2,3}\b|(?<=Intel )Arc(?: (?:Pro )?[Gg]raphics)?\b"
    r"|Data Center GPU (?:Max|Flex) \d+\b|Iris Xe\b"
    r"|UHD Graphics \d+\b)"
)
WORDS = {"dual": 2, "two": 2, "both": 2, "three": 3, "four": 4, "six": 6, "eight": 8}
NAME = re.compile(
    rf"(?:(?<![\w.])(?P<count>\d{{1,2}}) ?[x\u00d7*] ?|\b(?P<word>{'|'.join(WORDS)}) "
    rf"|(?<![\w.])(?P<plain>\d{{1,2}}) |(?<![\w./-]))"
    rf"(?P<name>{_NVIDIA}|{_AMD}|{_INTEL})(?P<several>s\b)?(?:(?P<of> GPUs\b)|(?: ?[x\u00d7*] ?"
    rf"(?P<after>\d{{1,2}})\b(?!\.\d))?)"
)
LABELLED = re.compile(
    rf"\b(?:GPUs?|[Cc]ard|GPU name|[Gg]raphics)[ :=]+(?P<name>{_NUMBER}(?: ?(?:ti|Ti|super|SUPER))?|A2|L4|L2)\b"
)
# "I have a 4070": a number alone, of which somebody speaks as of a thing.
OWNED = re.compile(rf"\b(?:an?|my|the) (?P<name>{_NUMBER})(?=[,.;)]|$| (?:and|with|but|GPU|card|here|in)\b)")
MOST = 64


def read(origin: str, line: str, into: Gathered, here: Callable[[str], bool]) -> None:
    """Take in the GPUs of the first line that names any, each with the number that stands with it.

    ``here`` tells from the words before a name whether what follows is said of this machine.
    """
    said = f"{origin} (in words)"
    number = 0
    for name, count in _named(line, here):
        for _ in range(count):
            if number < MOST:
                platforms.gpu(said, name, into, str(number))
            number += 1


def _named(line: str, here: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Give each GPU that a line names, and how many of it there are; one that is named twice counts once."""
    seen: set[str] = set()
    for match in [*NAME.finditer(line), *LABELLED.finditer(line), *OWNED.finditer(line)]:
        name = match["name"].strip()
        spelt = re.sub(r"nvidia|geforce|[\W_]", "", name.lower())
        if not here(line[: match.start()]) or spelt in seen:
            continue
        seen.add(spelt)
        yield name, _count(match)


def _count(match: re.Match[str]) -> int:
    said = match.groupdict()
    plain = said.get("plain") if said.get("several") or said.get("of") else None
    spelt = WORDS.get(said.get("word") or "", 1)
    return max(1, min(int(said.get("count") or plain or said.get("after") or spelt), MOST))
