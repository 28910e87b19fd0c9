"""One form of what is private, and addresses, which are told by their own shape.

No expression may take more than a bounded number of steps a letter: it begins at the start of a run of letters (a
lookbehind forbids the middle of one) or with fixed letters that its own body cannot repeat.
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
    r"(?i).*(?:addr|host|server|gateway|dns|peer|proxy|endpoint|url|inet|remote|(?:^|_)ip(?:$|_|v))"
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
    """The place of a secret in a text, what kind it is, and the secret itself (alike for alike secrets)."""

    start: int
    end: int
    kind: str
    secret: str


Finder: TypeAlias = Callable[[str, Sequence[str]], Iterator[Found]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One row of the table.

    ``hints`` are lower-case letters of which a text must have some, or the form is not looked for. Words of a
    ``learnt`` form are then found wherever they stand. What each is tried on stands in ``docs/redaction.toml``.
    """

    name: str
    context: str
    find: Finder
    hints: tuple[str, ...] = ()
    learnt: bool = False


def shape(pattern: str | re.Pattern[str], keep: Callable[[re.Match[str], Sequence[str]], bool] | None = None) -> Finder:
    """Return a finder of what the named groups of an expression match, each of the kind that it is named after.

    Of two groups of one kind the second has a number behind its name. ``keep`` says of a match whether it counts.
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


def _alike(kind: str, secret: str) -> str:
    """Return a number as all its spellings are: small, and without what says of which kind it is."""
    return secret.lower().removeprefix(f"{kind.lower()}-") if kind in {"GPU", "MIG", "uuid"} else secret


def _addresses(text: str, names: Sequence[str]) -> Iterator[Found]:
    """Yield the IP addresses, except those of no host (loopback, all zeros)."""
    for match in (*IPV6.finditer(text), *IPV4.finditer(text)):
        try:
            address = ipaddress.ip_address(match[1])
        except ValueError:
            continue
        own = address.is_loopback or address.is_unspecified or match[1].startswith("255.")
        if not own and (address.version != 4 or _is_address(text, match, names)):  # noqa: PLR2004 - IP version 4
            yield Found(match.start(1), match.end(1), "ip", match[1].lower())


def _is_address(text: str, match: re.Match[str], names: Sequence[str]) -> bool:
    """Return whether four numbers are an address and no version: by what touches them, the words before, the name."""
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
            "that it is no version"
        ),
        find=_addresses,
        hints=(".", ":"),
    ),
)
