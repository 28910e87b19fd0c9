"""Messages in text: what programs and the kernel said, recognised by the patterns of the matrix.

Large inputs stay cheap: a pattern is tried only around places where its word stands, and only so many times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpustack.imports.translations import english, originals
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.facts import Message

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.messages import Wording

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
    r"(?:\.(?= [A-Za-z]+ \d)|\.?[,(]|[^;]{0,80};|[\"'\u201d\u2019`]\.?(?=[ ]))[ ]?(?P<text>.{4,200})$"
)
RAISED = re.compile(r"[,;:]? ?\b\w*(?:Error|ERROR)$")  # the class of what was raised, before its words
MOSTLY = 0.5  # of a line: as much makes it a program's
PLAIN = str.maketrans({"\0": None, "\xa0": " ", "\u00b0": " ", "\u00ba": " "})  # degrees are written with either sign
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-_])")
# What loggers put before a line: the time of a hosted runner or a container, space, quotes, its weight, time since the
# start, date and host, "kernel:", "NVRM:".
PREFIX = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT[\d:]{8}\.\d{7,9}Z )?[ \t]*(?:> ?)*(?:<\d{1,3}>)?(?:\[[ \t]*\d{1,9}\.\d{1,9}\][ \t]*"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\][ \t]*)?"
    r"(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\d[T ][\d:.,+-]{8,32}Z?) [\w.-]{1,64} (?=[\w./()-]{1,6"
    r"4}(?:\[\d+\])?:))?"
    r"(?:kernel: ?(?:\[[ \t]*\d{1,9}\.\d{1,9}\][ \t]*)?)?(?:NVRM: ?)?",
    re.MULTILINE,
)
LOGGED = re.compile(
    rf"(?=^[ \t]*(?:>|<\d|\[[ \t]*\d|\[[A-Z]|[A-Z][a-z]{{2}} [ \d]\d |\d{{4}}-\d\d-|kernel:|NVRM:)){PREFIX.pattern}",
    re.MULTILINE,
)
KERNEL = re.compile(
    r"^[ \t]*(?:> ?)*(?:<\d{1,3}>)?(?:\[[ \t]*\d{1,9}\.\d{1,9}\]|[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]{1,64} kernel:"
    r"|(?:kernel: )?NVRM:|kernel: (?:\[|nvidia|nouveau))[^\n]*",
    re.MULTILINE,
)


def clean(text: str) -> str:
    """Give text without terminal escapes, without what loggers put before a line, and with plain ends of lines."""
    return PREFIX.sub("", _plain(text))


def laid(text: str) -> str:
    """Give text with plain ends of lines and its indentation, which some tools mean."""
    return LOGGED.sub("", _plain(text))


def spoken(text: str) -> str:
    """Give what of a text is no line of the kernel's log, cleaned."""
    return clean(KERNEL.sub("", _plain(text)))


def rewritten(text: str) -> Mapping[str, str]:
    """Give each line of a text that is read in other words, and how it was written, both without what loggers add."""
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
    """A message, and whether it is most of its line: what else stands there then is the program's as well."""

    message: Message
    whole: bool
    aside: str = ""  # what somebody wrote beside it, in the same line, after a comma or a semicolon


def find(texts: Sequence[tuple[str, str]], matrix: Matrix) -> tuple[Message, ...]:
    """Give the messages in texts, each a pair of origin and cleaned text; each with its values once, in their order."""
    return tuple(found.message for origin, text in texts for found in look(origin, text, matrix))


def look(origin: str, text: str, matrix: Matrix, also: Sequence[Wording] = ()) -> tuple[Found, ...]:
    """Give the messages in one cleaned text, and what is said in these wordings, each with its values once."""
    data = LONG.sub(r"\1\2", text).encode("utf-8", "replace")
    lower = data.lower()
    found: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, Found]] = {}
    words = lower.decode("utf-8", "ignore")
    for pattern in (one for one in (*patterns(matrix), *also) if one.has in words):
        for place, one in _of(pattern, data, lower, origin):
            found.setdefault((one.message.kind, tuple(sorted(one.message.values.items()))), (place, one))
    return tuple(one for _, one in sorted(found.values(), key=lambda held: held[0]))


def _of(pattern: Wording, data: bytes, lower: bytes, origin: str) -> Iterator[tuple[int, Found]]:
    """Give the places and messages of one kind."""
    told = 0
    for start, end in _around(pattern.has.encode(), lower):
        window = data[start:end].decode("utf-8", "ignore")
        for match in pattern.compiled().finditer(window):
            if pattern.has in match.group().lower():
                yield start + len(window[: match.start()].encode()), _message(pattern, match, window, origin)
                told += 1
                if told >= MOST_OF_A_KIND:
                    return


def _around(word: bytes, lower: bytes) -> Iterator[tuple[int, int]]:
    """Give start and end of the text around the places of a word; places that are near each other share one."""
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


def _message(pattern: Wording, match: re.Match[str], window: str, origin: str) -> Found:
    start = window.rfind("\n", 0, match.start()) + 1
    end = window.find("\n", match.end() - 1 if window[match.end() - 1 : match.end()] == "\n" else match.end())
    line = " ".join(window[start : end if end >= 0 else None].split())
    if len(line) > LONGEST_LINE:
        line = " ".join(match.group().split())[:LONGEST_LINE]
    said = {name: value.strip() for name, value in match.groupdict().items() if value}
    message = Message(kind=pattern.kind, line=line, origin=origin, values={**pattern.values, **said})
    return Found(message, len(match.group()) >= len(line) * MOSTLY, _aside(line, " ".join(match.group().split())))


def _aside(line: str, said: str) -> str:
    """Give what stands in a line before and after what was recognised, where a comma or a semicolon parts them."""
    before, _, after = line.partition(said)
    parts = (BEFORE_IT.search(before), AFTER_IT.match(after))
    return "\n".join(RAISED.sub("", part["text"]) for part in parts if part)
