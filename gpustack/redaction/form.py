"""One form of private data; addresses, recognised by their shape, and secrets, recognised by the name before them.

Every expression takes a bounded number of steps per letter: it begins at the start of a run of letters (a lookbehind
forbids the middle of one) or with fixed letters that its own body cannot repeat.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """The position of a secret in a text, its kind, and the secret itself (the same for equivalent spellings)."""

    start: int
    end: int
    kind: str
    secret: str


Finder: TypeAlias = Callable[[str, Sequence[str]], Iterator[Found]]
Keep: TypeAlias = "Callable[[re.Match[str], Sequence[str]], bool]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One row of the table.

    ``hints`` are lower-case letters; without any of them in a text, the form is skipped. Words found by a ``learnt``
    form are then found everywhere. Its test inputs are in ``docs/redaction.toml``.
    """

    name: str
    context: str
    find: Finder
    hints: tuple[str, ...] = ()
    learnt: bool = False


def shape(pattern: str, keep: Keep | None = None) -> Finder:
    """Return a finder of what an expression's named groups match, each group named after its kind.

    The second of two groups of one kind has a number after its name. ``keep`` decides whether a match counts.
    """
    compiled = re.compile(pattern)
    groups = [(group, group.rstrip("0123456789")) for group in compiled.groupindex]
    groups = [(group, kind) for group, kind in groups if kind in KINDS]

    def find(text: str, names: Sequence[str]) -> Iterator[Found]:
        for match in compiled.finditer(text):
            if keep is None or keep(match, names):
                for group, kind in groups:
                    if match[group]:
                        yield Found(match.start(group), match.end(group), kind, _alike(kind, match[group]))

    return find


def form(
    *,
    name: str,
    context: str,
    pattern: str,
    hints: tuple[str, ...] = (),
    keep: Keep | None = None,
    learnt: bool = False,
) -> Form:
    """Return the form for what an expression's named groups match (see ``shape``)."""
    return Form(name=name, context=context, find=shape(pattern, keep), hints=hints, learnt=learnt)


def _alike(kind: str, secret: str) -> str:
    """Return a number in one spelling: lower case, and without its kind's prefix."""
    return secret.lower().removeprefix(f"{kind.lower()}-") if kind in {"GPU", "MIG", "uuid"} else secret


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


ADDRESSES = (
    Form(
        name="IP address",
        context=(
            "version 6; version 4 where its numbers, a port, a mask, the words before or the name say "
            "that it is not a version"
        ),
        find=_addresses,
        hints=(".", ":"),
    ),
)


# Endings of names that hold a secret; "tokens" and "tokenizer" do not have them.
WORD = (
    r"token|secret|passw(?:or)?d|passwd|passphrase|passcode|credentials?|cookie|auth(?:orization)?|api[_.-]?key|psk|jwt"
    r"|(?:access|account|storage|master|signing|session|private|secret|ssh|auth|licen[cs]e|encryption|product|deploy"
    r"|shared|admin|service|recovery|host)[_.-]?key(?:[_.-](?:id|data|base64))?|session[_-]?id|client[_-]key[_-]data"
    r"|webhook(?:[_-]?url)?|connection[_-]?string|(?:[cx]srf|otp|totp)(?:[_-]?token)?"
)
LOUD = r"(?:TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|COOKIE|APIKEY|_KEY|_PAT|_PSK|_PASS|_PWD)(?:_[A-Z0-9_]{0,40})?"
SHORT = r"(?:^|[_.-])(?:pass|pwd|pw)"  # these also name paths, passes and counts: see _worth
CAMEL = r"[a-z0-9](?:Password|Passwd|Token|Secret|ApiKey|AccessKey|PrivateKey|Credential|Pwd)"
SECRET_NAME = re.compile(rf"(?:(?<![A-Za-z])(?i:{WORD})|(?i:{SHORT})|{LOUD}|{CAMEL})$")
SHORT_NAME = re.compile(rf"(?i){SHORT}$")
COUNTED = re.compile(r"(?i)(?:token|session[_-]?id|otp|auth)$")  # "token: 128" counts tokens
DIRECTORY = re.compile(r"(?:OLD)?PWD")
MOST_NAME = 100

SCHEME = r"(?i:(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ \t]{1,8})?"
VALUE = re.compile(
    rf"[ \t]{{0,40}}{SCHEME}(?:\\?\"([^\"\\\n]*)|'([^'\n]*)|([^\s\"',;&|)\]}}<>\\][^\s\"',;&|)\]}}<>\\]*"
    rf"|<[^\s<>/]{{1,200}}))"
)
NOT_SAID = re.compile(r"\$[\w{(]|\*{3,}|<\w{1,24}>$|</?s>$|\[[A-Z]{1,8}\]$|%[A-Z_]{2,40}%$|x{3,}$|\.{3}")
RUN = r"(?<![\w.-])([\w.-]+)"


def secret_name(name: str) -> bool:
    """Return whether a name is that of a secret."""
    return SECRET_NAME.search(name[-MOST_NAME:]) is not None and not DIRECTORY.fullmatch(name)


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


ASSIGNED = (
    form(
        name="user and password of an address",
        context="between :// and @, the password of any length; the host behind it is taken out too",
        pattern=r"://(?!git@)(?P<secret>[^\s/@:\"'<>`]*(?::(?:[^\s\"'<>/@`]*|(?!\d{1,5}(?:/|$))(?:(?!://)[^\s\"'<>`])+))?)"
        r"@(?![^\s/@]{0,256}@)(?P<host>[^\s/:@\"'<>`,;)]+)",
        hints=("://",),
    ),
    form(
        name="signed address",
        context="the value of a query's signature, key or token",
        pattern=r"[?&;](?i:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?|key|(?:key-pair"
        r"|policy)-?id"
        rf"|[\w-]{{0,40}}(?:{WORD}))=(?P<secret>[^&\s\"'<>;]+)",
        hints=("=",),
    ),
    Form(
        name="assignment",
        context='NAME=value, NAME: value, "name": "value", --name=value, where the name ends in a word for a secret',
        find=after(rf"{RUN}\\?[\"']?\]?[ \t]{{0,40}}(?::=|=>|=(?!=)|:)"),
        hints=("=", ":"),
    ),
    Form(
        name="flag",
        context="--name value, where the name ends in a word for a secret",
        find=after(r"(?<![\w.-])(--?[A-Za-z][\w.-]*)[ \t](?![ \t]*-)"),
        hints=("-",),
    ),
    form(
        name="password of a program",
        context="-p of sshpass, docker login and mysql; user:password of curl; login … password of .netrc",
        pattern=r"(?:(?<=\s)-pass(?:in|out)? pass:|\b(?:sshpass[ ]-p[ ]?|docker login[^\n]{0,200}?[ ]-p[ ]"
        r"|mysql(?:dump)?[^\n]{0,100}?[ ]-p(?=\S)"
        r"|curl[^\n]{0,200}?[ ](?:-u|--user)[ ][^\s:]{1,64}:|redis-cli[^\n]{0,100}?[ ]-a[ ]"
        r"|login[ \t]\S{1,64}\s{1,20}password[ \t]|(?i:password (?:is|was|for \S{1,40} is)[ ])|IDENTIFIED BY ))"
        r"[\"']?(?P<secret>[^\s\"']+)",
        hints=("sshpass", "docker", "mysql", "curl", "redis-cli", "pass", "identified"),
    ),
    Form(
        name="variable set by a word",
        context="setenv, ENV, putenv, setdefault, set -x with a name for a secret",
        find=after(r"\b(?:setenv|ENV|ARG|putenv|setdefault|set -g?U?x)[ (][\"']?([\w.-]+)[\"']?(?:,[ ]?|[ \t])"),
        hints=("env", "arg", "set"),
    ),
    Form(
        name="name and value apart",
        context="name: NAME with value: …, as in Kubernetes, XML and JSON",
        find=after(
            r"\b(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([\w.-]+)[\"']?,?\s{1,80}"
            r"[\"']?value[\"']?[ \t]{0,4}[:=]"
        ),
        hints=("value",),
    ),
    Form(name="element of XML", context="<name>value</name>", find=after(r"<([\w.-]{1,60})>(?=[^<\n])"), hints=("</",)),
    form(
        name="cookie or passphrase",
        context="the rest of the line after Cookie:, Set-Cookie: and passphrase:",
        pattern=r"(?i)\b(?:cookie|passphrase)\\?[\"']?[ \t]{0,20}:[ \t]{0,20}"
        r"\\?[\"']?(?P<secret>[^\s\"'\\][^\n\r\"'\\]*)",
        hints=("cookie", "passphrase"),
    ),
    form(
        name="bearer",
        context="after Bearer or Basic",
        pattern=r"\b(?i:Bearer|Basic)[ \t](?P<secret>[\w.~+/=-]{16,})",
        hints=("bearer", "basic"),
    ),
)
