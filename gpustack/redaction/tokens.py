"""The secrets in a text by their forms, or by the name under which the whole of it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import FORMS, NOTHING, PLACEHOLDER, Found, secret_name

NAMED = {
    "serial": re.compile(
        r"(?i)(?:.*_)?(?:serial(?:_?(?:number|no))?|pdi|guid|asset_tag|service_tag|machine_id|boot_id|host_id|wwn)"
    ),
    "host": re.compile(r"(?i)(?:.*_)?(?:hostname|nodename|node_name|fqdn|master_addr|nodelist|host)"),
    "user": re.compile(r"(?i)(?:.*_)?(?:user|username|user_name|logname|login|account|owner)"),
}
VERSION = re.compile(r"[<>=~!^ ]{0,3}v?\d{1,8}(?:\.\w{1,20}){1,8}[\w.+-]{0,40}(?:,.{0,80})?")
MOST_NAME = 200
# What splits a secret invisibly: terminal escapes and invisible letters, literal or escaped.
HIDDEN = re.compile(
    "(?:\x1b|\\\\x1b|\\\\033|\\\\e|\\^\\[|\\\\u001b)\\[[0-9;?]{0,30}[A-Za-z]|\x1b\\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\)"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|\\u(?:00ad|034f|061c|115f|1160|180[b-f]|200[b-f]|202[a-e]|20[56][0-9a-f]|2800|3164|fe0[0-9a-f]|feff|ffa0)"
    r"|\\U000e0[0-9a-f]{3}|\\xad|&(?:#8203|#x200[bB]|ZeroWidthSpace|shy|zwn?j);|%E2%80%8[B-F]|%EF%BB%BF|%C2%AD"
)


def find(text: str, names: Sequence[str]) -> list[Found]:
    """Return the secrets in this text, found under these names, without overlaps and in order."""
    kind = named(text, names[-1] if names else "")
    if kind:
        return [Found(0, len(text), kind, text)]
    low, taken, kept = text.lower(), bytearray(len(text)), []
    for one in FORMS:
        if not one.hints or any(hint in low for hint in one.hints):
            for found in one.find(text, names):
                free = taken.find(1, found.start, found.end) < 0
                if free and found.start < found.end and not PLACEHOLDER.fullmatch(text, found.start, found.end):
                    taken[found.start : found.end] = b"\1" * (found.end - found.start)
                    kept.append(found)
    return sorted(kept)


def learn(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the kinds and words that this text identifies as names of users and hosts, or serial numbers."""
    kind = named(text, names[-1] if names else "")
    if kind and kind != "secret":
        yield from _known(kind, text)
        return
    low = text.lower()
    for one in FORMS:
        if one.learnt and any(hint in low for hint in one.hints):
            for found in one.find(text, names):
                yield from _known(found.kind, found.secret)


def _known(kind: str, word: str) -> Iterator[tuple[str, str]]:
    """Yield a word and, for a host with its domain, also the short name."""
    yield kind, word
    if kind == "host" and "." in word:
        yield kind, word.partition(".")[0]


def named(text: str, name: str) -> str | None:
    """Return the kind of secret that the whole text is, judged by its name; None if it is not one."""
    name = name[-MOST_NAME:]
    if text.strip().lower() in NOTHING or PLACEHOLDER.fullmatch(text):
        return None
    if secret_name(name):
        return None if VERSION.fullmatch(text) else "secret"
    kind = next((kind for kind, pattern in NAMED.items() if pattern.fullmatch(name)), None)
    return None if kind == "user" and (text.isdecimal() or text == "root") else kind


def visible(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without invisible letters, and each remaining letter's position in the text."""
    if (text.isascii() and text.isprintable() and "\\" not in text and "%" not in text and "&" not in text) or (
        not HIDDEN.search(text)
    ):
        return text, range(len(text) + 1)
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for match in HIDDEN.finditer(text):
        parts.append(text[at : match.start()])
        places += range(at, match.start())
        at = match.end()
    return "".join([*parts, text[at:]]), [*places, *range(at, len(text) + 1)]
