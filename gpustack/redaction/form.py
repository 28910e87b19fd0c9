"""Private data in a text: the rows of ``forms.toml``, what no expression says, and values under a secret's name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gpustack.assets import toml
from gpustack.model import record
from gpustack.model.reading import made, whole

TABLE: Mapping[str, Any] = toml(Path(__file__).with_name("forms.toml").read_text("utf-8"))
WORDS = {name: frozenset(words.split()) for name, words in TABLE["words"].items()}
PARTS = {
    **{name: "".join(part) for name, part in TABLE["parts"].items()},
    **{name: "|".join(map(re.escape, sorted(words))) for name, words in WORDS.items()},
}
PART = re.compile(r"\{([A-Z_]+)\}")
KINDS = ("GPU", "MIG", "uuid", "host", "user", "serial", "mac", "ip", "email", "secret", "home")
PLACEHOLDER = re.compile(r"(?:GPU|MIG|uuid|host|user|serial|mac|ip|email|secret)-\d+")
NOTHING = frozenset({"", "none", "null", "nil", "true", "false", "yes", "no", "n/a", "[n/a]", "unknown", "0", "~"})
ADDRESS_NAME = re.compile(
    r"(?i).*(?:addr|host|server|gateway|dns|peer|proxy|endpoint|url|inet|remote|socket|ifname|comm_id|(?:^|_)ip(?:$|_|v))"
)
VERSION_NAME = re.compile(
    r"(?i).*(?:version|release|pins|installed|distributions|plugins|packages|parts|requires|build|driver|firmware"
    r"|cuda|cudnn|nccl|cublas|nvidia|tensorrt|toolkit|^lib)"
)
IPV6 = re.compile(
    r"(?i)(?<![\w:.])([23f][0-9a-f]{3}:[0-9a-f:]{2,34}(?:(?:\d{1,3}\.){3}\d{1,3})?"
    r"|::ffff:(?:\d{1,3}\.){3}\d{1,3})(?![\w:])"
)
IPV4 = re.compile(r"(?<![\w.])((?:\d{1,3}\.){3}\d{1,3})(?!\.?\w)")
ADDRESS_BEFORE = re.compile(
    r"(?i)(?:addr(?:ess)?|inet|ip|ipv4|host(?:name)?|server|node|master|from|peer|via|gateway|nameserver|dns|remote"
    r"|local|client|endpoint|proxy|connect(?:ed|ing)?(?: to)?|listen(?:ing)?(?: on)?|ping|ssh"
    r"|\b(?:node|host|server|machine|worker|peer|router|listening|running|reachable"
    r"|located)(?: \w{1,20})? (?:is )?(?:at|on))\W{0,4}$"
    r"|://$|@$|//$|\[$|ffff:$"
)
VERSION_BEFORE = re.compile(
    r"(?i)(?:[<>=~!]=|[<>~^≥≤])\s?$|[-_+]$|[\w.]/$|(?:version|release|revision|driver|firmware|toolkit|runtime|library"
    r"|\b(?:lib)?(?:cu|nv|nccl|tensorrt|trt|torch|jax|onnx|python|conda)[\w.+-]{0,40})(?: (?:is |was )?(?:at"
    r"|on))?\W{0,3}$"
)
ADDRESS_AFTER = re.compile(r":\d|:/|/\d{1,2}(?![\w.])|-(?:\d{1,3}\.){3}|@(?:tcp|o2ib)|::")
VERSION_AFTER = re.compile(r"[-+][A-Za-z0-9]")
PUBLIC_RESOLVERS = frozenset({"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"})
PRIVATE_TEN, MOST_MAJOR, LEAST_NETWORK = 10, 23, 100
COLUMN = re.compile(
    r"(?i)[\s\"']*(?:(?:gpu|board|module|chassis|system|device)?[_ ]?(?:serial(?:[_ ](?:number|no))?|s/?n)"
    r"|asset[_ ]tag)[\s\"'.]*"
)
SEPARATORS, LEAST_CELLS = ",;\t|", 2


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """The position of a secret in a text, its kind, and the secret itself (the same for equivalent spellings)."""

    start: int
    end: int
    kind: str
    secret: str


Finder: TypeAlias = Callable[[str, Sequence[str]], Iterator[Found]]


def _finder(row: Mapping[str, Any]) -> Finder:
    """Return how the secrets of a row are found."""
    if "find" in row:
        return {"addresses": _addresses, "columns": _columns}[row["find"]]
    if "after" in row:
        return after(_spelt(row["after"]))
    pattern = _spelt(row["pattern"]) if "pattern" in row else f"(?P<secret>{_spelt(row['token'])})"
    return shape(pattern, _spelt(row.get("unless", "(?!)")))


def _spelt(pattern: str | Sequence[str]) -> str:
    """Return a pattern with its parts in place of their names."""
    return PART.sub(lambda match: PARTS[match[1]], "".join(pattern))


@record
class Form:
    """One row of the table; its head says what each key means."""

    name: str
    find: Finder = field(metadata=whole(_finder))
    context: str = "anywhere"
    hints: tuple[str, ...] = ()
    learnt: bool = False


def shape(pattern: str, unless: str = "(?!)") -> Finder:
    """Return a finder of what an expression's named groups match, but where ``unless`` matches the whole of it."""
    compiled, stays = re.compile(pattern), re.compile(unless)
    groups = [(group, group.rstrip("0123456789")) for group in compiled.groupindex]
    groups = [(group, kind) for group, kind in groups if kind in KINDS]

    def find(text: str, _: Sequence[str]) -> Iterator[Found]:
        for match in compiled.finditer(text):
            held = [(group, kind) for group, kind in groups if match[group]]
            if held and not stays.fullmatch(match[held[0][0]]):
                for group, kind in held:
                    prefix = f"{kind.lower()}-" if kind in {"GPU", "MIG", "uuid"} else ""
                    secret = match[group].lower().removeprefix(prefix) if prefix else match[group]
                    yield Found(match.start(group), match.end(group), kind, secret)

    return find


def _addresses(text: str, names: Sequence[str]) -> Iterator[Found]:
    """Yield the IP addresses, except those that identify no host (loopback, all zeros)."""
    for match in (*IPV6.finditer(text), *IPV4.finditer(text)):
        try:
            address = ipaddress.ip_address(match[1])
        except ValueError:
            continue
        own = address.is_loopback or address.is_unspecified or match[1].startswith("255.")
        if not own and (address.version != 4 or _is_address(text, match, names)):  # noqa: PLR2004 - IP version 4
            yield Found(match.start(1), match.end(1), "ip", match[1].lower())


def _is_address(text: str, match: re.Match[str], names: Sequence[str]) -> bool:
    """Return whether four numbers are an address, not a version: from adjacent text, preceding words and the name."""
    before, after = text[max(0, match.start() - 60) : match.start()], text[match.end() : match.end() + 20]
    first = int(match[1].partition(".")[0])
    told = (
        (first >= LEAST_NETWORK, True),
        (ADDRESS_AFTER.match(after), True),
        (ADDRESS_BEFORE.search(before), True),
        (VERSION_BEFORE.search(before) or VERSION_AFTER.match(after), False),
        (names and ADDRESS_NAME.fullmatch(names[-1]), True),
        (any(VERSION_NAME.match(name) for name in names[-2:]), False),
    )
    likely = first > MOST_MAJOR or first == PRIVATE_TEN or match[1] in PUBLIC_RESOLVERS
    return next((answer for hit, answer in told if hit), likely)


LOUD = r"(?:TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|COOKIE|APIKEY|_KEY|_PAT|_PSK|_PASS|_PWD)(?:_[A-Z0-9_]{0,40})?"
SHORT = r"(?:^|[_.-])(?:pass|pwd|pw)"  # these also name paths, passes and counts: see _worth
CAMEL = r"[a-z0-9](?:Password|Passwd|Token|Secret|ApiKey|AccessKey|PrivateKey|Credential|Pwd)"
SECRET_NAME = re.compile(rf"(?:(?<![A-Za-z])(?i:{PARTS['WORD']})|(?i:{SHORT})|{LOUD}|{CAMEL})$")
SHORT_NAME = re.compile(rf"(?i){SHORT}$")
COUNTED = re.compile(r"(?i)(?:token|session[_-]?id|otp|auth)$")  # "token: 128" counts tokens
MOST_NAME = 100
SCHEME = r"(?i:(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ \t]{1,8})?"
VALUE = re.compile(
    rf"[ \t]{{0,40}}{SCHEME}(?:\\?\"([^\"\\\n]*)|'([^'\n]*)|([^\s\"',;&|)\]}}<>\\][^\s\"',;&|)\]}}<>\\]*"
    rf"|<[^\s<>/]{{1,200}}))"
)
NOT_SAID = re.compile(r"\$[\w{(]|\*{3,}|<\w{1,24}>$|</?s>$|\[[A-Z]{1,8}\]$|%[A-Z_]{2,40}%$|x{3,}$|\.{3}")


def secret_name(name: str) -> bool:
    """Return whether a name is that of a secret."""
    return SECRET_NAME.search(name[-MOST_NAME:]) is not None and name not in {"PWD", "OLDPWD"}


def _worth(name: str, value: str) -> bool:
    """Return whether a value under a secret's name is one: not a count, an empty word, or a reference."""
    if value.lower() in NOTHING or NOT_SAID.match(value) or not value.strip():
        return False
    if value.isdecimal() and COUNTED.search(name):
        return False
    if SHORT_NAME.search(name) and not name.isupper():
        return len(value) > 3 and not value.isdecimal() and not value.startswith(("/", "~", "."))  # noqa: PLR2004 - "yes", "12"
    return not (SHORT_NAME.search(name) and value.startswith("/"))


def after(head: str) -> Finder:
    """Return a finder of the value after a head, whose first group is the name that decides whether it is secret."""
    begins = re.compile(head)

    def find(text: str, _: Sequence[str]) -> Iterator[Found]:
        at = 0
        while match := begins.search(text, at):
            at = match.end()
            if secret_name(match[1]) and (held := VALUE.match(text, at)):
                at = held.end()
                group = held.lastindex or 0
                value = held[group].rstrip(".") if group == 3 else held[group]  # noqa: PLR2004 - the unquoted one
                if _worth(match[1], value):
                    start = held.start(group)
                    yield Found(start, start + len(value), "secret", value)

    return find


def _columns(text: str, _: Sequence[str]) -> Iterator[Found]:
    """Yield the serial numbers of a table whose header names them, while lines have as many cells."""
    at, separator, columns, cells = 0, "", frozenset[int](), 0
    for row in text.splitlines(keepends=True):
        held = row.split(separator) if separator else []
        if not separator or len(held) != cells:
            separator = next((one for one in SEPARATORS if one in row), "")
            held = row.split(separator) if separator else []
            columns = frozenset(number for number, cell in enumerate(held) if COLUMN.fullmatch(cell))
            separator, cells = (separator, len(held)) if columns and len(held) >= LEAST_CELLS else ("", 0)
        else:
            start = at
            for number, cell in enumerate(held):
                said = cell.strip(" \t\r\n\"'")
                if number in columns and any(letter.isdecimal() for letter in said):
                    first = start + cell.index(said)
                    yield Found(first, first + len(said), "serial", said)
                start += len(cell) + 1
        at += len(row)


FORMS: tuple[Form, ...] = tuple(made(row, Form) for row in TABLE["forms"])
NAMED = {
    "serial": re.compile(
        r"(?i)(?:.*_)?(?:serial(?:_?(?:number|no))?|pdi|guid|asset_tag|service_tag|machine_id|boot_id|host_id|wwn)"
    ),
    "host": re.compile(r"(?i)(?:.*_)?(?:hostname|nodename|node_name|fqdn|master_addr|nodelist|host)"),
    "user": re.compile(r"(?i)(?:.*_)?(?:user|username|user_name|logname|login|account|owner)"),
}
VERSION = re.compile(r"[<>=~!^ ]{0,3}v?\d{1,8}(?:\.\w{1,20}){1,8}[\w.+-]{0,40}(?:,.{0,80})?")
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
    parts, places, at = list[str](), list[int](), 0
    for match in HIDDEN.finditer(text):
        parts.append(text[at : match.start()])
        places += range(at, match.start())
        at = match.end()
    return "".join([*parts, text[at:]]), [*places, *range(at, len(text) + 1)]
