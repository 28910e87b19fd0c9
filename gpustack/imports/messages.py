"""Messages of other programs: what each implies, and the error codes that it names.

Large inputs stay cheap: a pattern is tried only around occurrences of its word, a limited number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from gpustack.matrix import Matrix
from gpustack.matrix.subjects.codes import FAMILIES, Family, Number, numbers
from gpustack.matrix.subjects.messages import Pattern, patterns
from gpustack.matrix.subjects.ranges import squash
from gpustack.model.facts import Message, Strength

MOST = 1_000_000  # characters: more is a log, which the kernel and servers write in English
# "The loader is installed, the driver is not": the second clause omits its verb's complement.
LEFT_OUT = re.compile(
    r"(?P<all>\b(?:is|are|was|were) (?P<state>installed|loaded|passed through|passed"
    r"|present|running|enabled|mounted|there)(?:, but|, and|,|;| but| and| while) [^,.;\n]{1,60}? "
    r"(?:is|are|was|were)) ?(?:not|n['\u2019]t)"
    r"(?=[.,;)]|[ \t]*$)",
    re.MULTILINE,
)


@cache
def meanings() -> Mapping[str, str]:
    """Return the C library's messages in other languages with their English, a longer one before its part."""
    rows = Matrix().table("translations")["said"]
    return {words: row["english"] for row in rows for words in sorted(row["words"], key=len, reverse=True)}


def originals(text: str) -> Mapping[str, str]:
    """Return each reworded line, on single spaces, and its original."""
    lines = text.split("\n") if english(text) != text else []
    pairs = ((" ".join(english(line).split()), " ".join(line.split())) for line in lines)
    return {read: written for read, written in pairs if read != written}


def english(text: str) -> str:
    """Return a text with the C library's words in English, and with omitted words filled in."""
    if len(text) > MOST:
        return text
    for words, meaning in meanings().items():
        if words in text:
            text = text.replace(words, meaning)
    return LEFT_OUT.sub(r"\g<all> not \g<state>", text)


NUMBER = r"(0x[0-9a-f]{1,8}|\d{1,9})(?!\w|\.\d)"
ALONE = re.compile(rf"\W*{NUMBER}\W*", re.IGNORECASE)
XID = re.compile(
    rf"(?<![a-z])(s?xid)(?:s|[ _-]?errors?)?\s{{0,8}}(?:\([^)\n]{{0,40}}\))?[\s:#=_-]{{0,16}}{NUMBER}", re.IGNORECASE
)
ANSWER = re.compile(
    rf"(?:error|err|code|status|result|returned|returns|return|rc|failed with|cuda|nvml|cudnn|cublas|nccl)"
    rf"[\s:=#(_-]{{0,16}}(?:code|error|number|status|\w{{0,30}}\()?[\s:=#(]{{0,16}}{NUMBER}",
    re.IGNORECASE,
)
ASIDE = re.compile(
    rf"[(\[]\s{{0,8}}(?:error|code)?\s{{0,8}}{NUMBER}\s{{0,8}}[)\]]|(?<![\w.]){NUMBER}\s{{1,8}}error\b", re.IGNORECASE
)
SHORTEST_SPELT = 10
USUAL = 3  # a bare number is an Xid, CUDA's or NVML's; the others' only if they know it
BEFORE, AFTER = 600, 900
MOST_PLACES = 400
LONGEST_WINDOW = 16_000
MOST_OF_A_KIND = 20
LONGEST_LINE = 400
LONG = re.compile(r"(\S{500})\S+|([ \t]{100})[ \t]+")  # no message has so long a word, and patterns would try each part
BEFORE_IT = re.compile(
    r"^(?P<text>[^;]{4,200}?)(?:[;,:]|\b(?:raises?d?|throws?|threw|gives?|gave|says?|said|prints?|reports?|returns?|shows?"
    r"|answers?|(?:fail|die|crash|end|stop|abort)(?:s|es|ed)? (?:with|in)|leads? to|complains?)(?: that| of)?)"
    r"[ ][\"'\u201c\u2018`]?(?:[\w.]{1,40}(?:\.|:[ ]))?$"
)
AFTER_IT = re.compile(
    r"(?:[.!](?= [A-Za-z]+ \d)|[.!]?[ ]?[,(]|[^;]{0,80};|[\"'\u201d\u2019`]\.?(?=[ ])"
    r"|[.!]?(?=[ ](?:on|with|in|inside|under|using)[ ])|[ ]?(?:<[-=]+|←|//|[。\uff0c]))[ ]?(?P<text>.{4,200})$"
)
RAISED = re.compile(r"[,;:]? ?\b\w*(?:Error|ERROR)$")  # the class of the exception, before its text
# A line in which someone speaks: about himself, or in a whole sentence without quotation or program marks.
PERSON = re.compile(
    r"(?P<self>(?<![\w/.'-])(?:I|I'm|I've|[Mm]y|[Ww]e|[Oo]ur|[Nn]obody|[Ss]omebody|[Ff]orgot)(?![\w./:=-]))"
    r"|^(?:The|There|This|After|Since|Under|Whenever|When|Inside|On|As|GPU \d) [^:\"'`=>{}\[\]]{8,300}\.$"
)
MOSTLY, NEARLY = 0.5, 0.9  # share of a line that makes it a program's; if someone says "my", the second
PLAIN = str.maketrans({"\0": None, "\xa0": " ", "\u00b0": " ", "\u00ba": " "})  # degrees are written with either sign
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-_])")
# What loggers put before a line: the time of a hosted runner or a container, space, quotes, its weight, time since the
# start, date and host, "kernel:", "NVRM:", the rank of a process, the mark of pytest, the step of a build, a service.
PREFIX = re.compile(
    r"^(?:#\d{1,3} \d{1,6}\.\d{1,3} |[A-Za-z][\w.-]{0,60}-\d{1,3} {1,20}\| )?"
    r"(?:\d{4}-\d\d-\d\dT[\d:]{8}\.\d{7,9}Z )?[ \t]*(?:> ?)*(?:<\d{1,3}>)?(?:\[[ \t]*\d{1,9}\.\d{1,9}\][ \t]*"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\][ \t]*)?"
    r"(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:.,+-]{8,32}Z?) [\w.-]{1,64} (?=[\w./()-]{1,6"
    r"4}(?:\[\d+\])?:))?"
    r"(?:kernel: ?(?:\[[ \t]*\d{1,9}\.\d{1,9}\][ \t]*)?)?(?:NVRM: ?)?(?:\[rank\d{1,4}\]: ?|E {3,12})?",
    re.MULTILINE,
)
BRACKETED = re.compile(r" ?\((\d{1,4})\)")
LOGGED = re.compile(
    r"(?=^[ \t]*(?:>|<\d|#\d|[A-Za-z][\w.-]{0,60}-\d{1,3} +\| |\[[ \t]*\d|\[[A-Z]"
    rf"|[A-Z][a-z]{{2}} [ \d]\d |\d{{4}}-\d\d-|kernel:|NVRM:)){PREFIX.pattern}",
    re.MULTILINE,
)
KERNEL = re.compile(
    r"^[ \t]*(?:> ?)*(?:<\d{1,3}>)?(?:\[[ \t]*\d{1,9}\.\d{1,9}\]|[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]{1,64} kernel:"
    r"|(?:kernel: )?NVRM:|kernel: (?:\[|nvidia|nouveau))[^\n]*",
    re.MULTILINE,
)


def mentioned(text: str, matrix: Matrix) -> tuple[tuple[Number, ...], tuple[str, ...]]:
    """Return the numbers that a text names, each once, and the readings that no table knows."""
    held = {family.id: numbers(matrix, family) for family in FAMILIES}
    own = tuple(one for table in held.values() for one in table if squash(text) in _own(one))
    if own:
        return own, ()
    found: list[Number] = list(_named(text, held))
    missing: list[str] = []
    for family, number, meant in _read(text):
        known = [one for one in held[family.id] if one.number == number]
        found += known
        missing += [f"{family.title} {number}"] * (meant and not known)
    found += _spelt(text, held, found)
    once = {(one.family.id, one.number): one for one in found}
    return tuple(once.values()), tuple(dict.fromkeys(missing))


def _own(one: Number) -> tuple[str, str]:
    """Return our name for a number: cudnn9-1001 and cuDNN 9 status 1001."""
    return squash(f"{one.family.id}{one.number}"), squash(f"{one.family.title}{one.number}")


def _named(text: str, held: dict[str, tuple[Number, ...]]) -> Iterator[Number]:
    """Yield the numbers whose names occur in the text, ignoring case and underscores."""
    said = {squash(word) for word in re.findall(r"[A-Za-z][A-Za-z0-9_]{5,}", text)} | {squash(text)}
    for table in held.values():
        yield from (one for one in table if said & {squash(name) for name in (one.name, *one.also)})


def _read(text: str) -> Iterator[tuple[Family, int, bool]]:
    """Yield the numbers in a text, each with a possible family, and whether that family is certain."""
    alone = ALONE.fullmatch(text)
    if alone:
        yield from ((family, _int(alone[1]), place < USUAL) for place, family in enumerate(FAMILIES))
        return
    for found in XID.finditer(text):
        yield from ((family, _int(found[2]), True) for family in FAMILIES if family.id == found[1].lower())
    if re.search(r"xid", text, re.IGNORECASE):
        return
    said = [one for one in FAMILIES if re.search(one.said, text, re.IGNORECASE)]
    for pattern in (ANSWER, ASIDE):
        for found in pattern.finditer(text):
            number = _int(next(filter(None, found.groups())))
            yield from ((family, number, bool(said)) for family in _answers(said or FAMILIES))


def _answers(families: Sequence[Family]) -> tuple[Family, ...]:
    """Return the families whose numbers are results of a library, not lines of the kernel log."""
    return tuple(one for one in families if "xid" not in one.id)


def _spelt(text: str, held: dict[str, tuple[Number, ...]], found: Sequence[Number]) -> Iterator[Number]:
    """Yield the number whose meaning the text states in the library's own words, the longest, unless one is named."""
    line = squash(text)
    told = {one.family.id for one in found}
    other = any(re.search(one.said, text, re.IGNORECASE) for one in FAMILIES if not one.spelt)
    for family in FAMILIES:
        spoken = bool(re.search(family.said, text, re.IGNORECASE))
        if family.spelt and family.id not in told and (spoken or not other):
            fits = [one for one in held[family.id] if len(squash(one.meaning)) >= SHORTEST_SPELT]
            fits = [one for one in fits if squash(one.meaning) in line]
            yield from sorted(fits, key=lambda one: -len(one.meaning))[:1]


def _int(text: str) -> int:
    return int(text, 16 if text.lower().startswith("0x") else 10)


def clean(text: str) -> str:
    """Return text without terminal escapes and logger prefixes, with plain line endings."""
    return PREFIX.sub("", _plain(text))


def laid(text: str) -> str:
    """Return text with plain line endings and its indentation, which matters for some tools."""
    return LOGGED.sub("", _plain(text))


def spoken(text: str) -> str:
    """Return the cleaned lines of a text that are not from the kernel log."""
    return clean(KERNEL.sub("", _plain(text)))


def rewritten(text: str) -> Mapping[str, str]:
    """Return each reworded line of a text with its original, both without logger prefixes."""
    return originals(PREFIX.sub("", text))


def _plain(text: str) -> str:
    text = english(ESCAPES.sub("", text) if "\x1b" in text else text)
    return (
        text.replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\0", "")
        .replace("\xa0", " ")
        .replace("\u00b0", " ")
        .replace("\u00ba", " ")
    )


class Found(NamedTuple):
    """A message, and whether it is most of its line, so that the rest is the program's as well."""

    message: Message
    row: Pattern
    whole: bool
    aside: str = ""  # what someone wrote beside it, in the same line, after a comma or a semicolon


def find(texts: Sequence[tuple[str, str]], matrix: Matrix) -> tuple[Message, ...]:
    """Return the messages in texts, given as pairs of origin and cleaned text; values once each, in order."""
    return tuple(found.message for origin, text in texts for found in look(origin, text, matrix))


def look(origin: str, text: str, matrix: Matrix) -> tuple[Found, ...]:
    """Return the messages in one cleaned text, with values once each."""
    data = LONG.sub(r"\1\2", text).encode("utf-8", "replace")
    lower = data.lower()
    found: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, Found]] = {}
    words = lower.decode("utf-8", "ignore")
    for pattern in (one for one in patterns(matrix) if one.has in words):
        for place, one in _of(pattern, data, lower, origin):
            found.setdefault((one.message.kind, tuple(sorted(one.message.values.items()))), (place, one))
    return tuple(one for _, one in sorted(found.values(), key=lambda held: held[0]))


def _of(pattern: Pattern, data: bytes, lower: bytes, origin: str) -> Iterator[tuple[int, Found]]:
    """Yield the places and messages of one kind."""
    told = 0
    for start, end in _around(pattern.has.encode(), lower):
        window = data[start:end].decode("utf-8", "ignore")
        for match in pattern.compiled().finditer(window):
            if pattern.has in match.group().lower() and not _other_number(pattern, match, window):
                yield start + len(window[: match.start()].encode()), _message(pattern, match, window, origin)
                told += 1
                if told >= MOST_OF_A_KIND:
                    return


def _other_number(pattern: Pattern, match: re.Match[str], window: str) -> bool:
    """Return whether another error's number follows in brackets: "unknown error (303)" is not 999."""
    number, code = BRACKETED.match(window, match.end()), pattern.values.get("code")
    return bool(number and code and number[1] != code)


def _around(word: bytes, lower: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the text around a word's occurrences; nearby ones share one range."""
    start = end = -1
    at = lower.find(word)
    for _ in range(MOST_PLACES):
        if at < 0:
            break
        if end < 0 or at - BEFORE > end or end - start > LONGEST_WINDOW:
            if end >= 0:
                yield start, end
            start = max(0, at - BEFORE)
        end = at + AFTER
        at = lower.find(word, at + 1)
    if end >= 0:
        yield start, end


def _message(pattern: Pattern, match: re.Match[str], window: str, origin: str) -> Found:
    start = window.rfind("\n", 0, match.start()) + 1
    end = window.find("\n", match.end() - 1 if window[match.end() - 1 : match.end()] == "\n" else match.end())
    line = " ".join(window[start : end if end >= 0 else None].split())
    if len(line) > LONGEST_LINE:
        line = " ".join(match.group().split())[:LONGEST_LINE]
    part = len(match.group()) / max(1, len(line))
    whole, person = part >= MOSTLY, PERSON.search(line)
    spoken = pattern.stated or (person and part < (NEARLY if person["self"] else MOSTLY))
    strength = Strength.STATED if spoken else Strength.MESSAGE
    values = {**pattern.values, **pattern.captured(match)}
    message = Message(kind=pattern.kind, line=line, origin=origin, values=values, strength=strength)
    return Found(message, pattern, whole, _aside(line, " ".join(match.group().split())))


def _aside(line: str, said: str) -> str:
    """Return the parts of a line before and after a message, if a comma or a semicolon separates them."""
    before, _, after = line.partition(said)
    parts = (BEFORE_IT.search(before), AFTER_IT.match(after))
    return "\n".join(RAISED.sub("", part["text"]) for part in parts if part)
