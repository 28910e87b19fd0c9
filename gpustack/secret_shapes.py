"""What a secret looks like: by its shape, by the name it stands under, or by the words around it.

Each recogniser gives the places of what it knows in one text. A version or a PCI address is no secret: a number of
four parts is an address only where the context says so, or where no version would be as large.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

PLACEHOLDER = re.compile(r"(?:GPU|MIG|uuid|host|user|serial|mac|ip|email|secret)-\d+")
NOTHING = frozenset({"", "none", "null", "true", "false", "yes", "no", "n/a", "[n/a]", "unknown", "0", "~"})

_WORD = r"(?i:token|secret|passw(?:or)?d|passphrase|credentials?|cookie|auth(?:orization)?|api[_-]?key"
_WORD += r"|(?:shared[_-]?)?(?:access|account)[_-]?key|(?:private|secret|ssh|auth|license|encryption)[_-]key)"
_LOUD = r"(?:TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|COOKIE|APIKEY|_KEY)(?:_[A-Z0-9_]{0,40})?"
_SECRET = rf"(?:(?<![A-Za-z]){_WORD}|{_LOUD})(?![A-Za-z])"
_VALUE = r"(?:(?:Bearer|Basic|Token)\s)?(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)"
SECRET_NAME = re.compile(rf".*{_SECRET}")
SERIAL_NAME = re.compile(r"(?i)(?:.*_)?(?:serial(?:_?(?:number|no))?|pdi|guid|asset_tag|machine_id|boot_id|host_id)")
HOST_NAME = re.compile(r"(?i)(?:.*_)?(?:hostname|nodename|node_name|fqdn|master_addr|nodelist|host)")
USER_NAME = re.compile(r"(?i)(?:.*_)?(?:user|username|user_name|logname|login|account)")
ADDRESS_NAME = re.compile(
    r"(?i).*(?:addr|host|server|gateway|dns|peer|proxy|endpoint|url|inet|remote|(?:^|_)ip(?:$|_|v))"
)
VERSION_NAME = re.compile(
    r"(?i).*(?:version|release|pins|installed|distributions|plugins|packages|parts|requires|build|driver|firmware"
    r"|cuda|cudnn|nccl|cublas|nvidia|tensorrt|toolkit|^lib)"
)
VERSION = re.compile(r"[<>=~!^ ]{0,3}v?\d{1,8}(?:\.\w{1,20}){1,8}[\w.+-]{0,40}(?:,.{0,80})?")

TOKEN = re.compile(
    r"""(-----BEGIN[A-Z ]{0,30}PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[A-Z ]{0,30}PRIVATE[ ]KEY-----|\Z)
    |\bssh-(?:rsa|ed25519|dss)\s[A-Za-z0-9+/=]{40,}(?:\s\S+@\S+)?
    |gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}
    |\b(?:sk-[\w-]{20,}|A(?:KIA|SIA)[0-9A-Z]{16}|xox[abeprs]-[\w-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|pypi-[\w-]{40,}
    |npm_[A-Za-z0-9]{30,}|dckr_pat_[\w-]{20,}|dapi[0-9a-f]{32}|dop_v1_[0-9a-f]{40,}|r8_[A-Za-z0-9]{30,}
    |[sr]k_live_[A-Za-z0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*))""",
    re.VERBOSE,
)
URL = re.compile(r"://([^\s/@\"'<>]{0,256}(?::[^\s@\"'<>]{0,256})?)@([^\s/:@\"'<>]+)")
QUERY = re.compile(rf"[?&][\w-]{{0,40}}(?:{_WORD}|(?i:sig|signature|key))=([^&\s\"']+)")
ASSIGNED = re.compile(rf"({_SECRET})[\"']?\s?[=:]\s?{_VALUE}")
FLAG = re.compile(rf"--[\w-]{{0,40}}({_WORD})[\s=]{_VALUE}")
BEARER = re.compile(r"\b(?:Bearer|Basic)\s([\w.~+/=-]{16,})")
EMAIL = re.compile(r"(?<![\w.+/-])([\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24})\b")
PROMPT = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})@([A-Za-z][\w.-]{0,63})(?=:[~/]|\s~|\s?[\]$#]|\s[^\]\n]{1,60}\][$#])"
)
LOGGED = re.compile(
    r"(?m)^(?:[A-Z][a-z]{2}\s{1,2}\d{1,2}\s[\d:]{8}|\d{4}-\d\d-\d\dT\S+)\s([\w.-]+)\s(?=[\w./-]{1,60}(?:\[\d+\])?:)"
    r"|\bLinux\s([\w.-]+)\s\d+\.\d"
    r"|^(?:\[?rank\s?\d{1,6}\]?:\s)?([\w.-]{1,64}):\d{1,7}:\d{1,7}\s\[\d{1,3}\]\s"  # NCCL's lines
)
# What launchers and schedulers set, and where a shell is opened.
NODE = re.compile(r"(?:HOSTNAME|NODENAME|NODELIST|MASTER_ADDR|SUBMIT_HOST)=([A-Za-z][\w.-]{0,63})")
SHELL = re.compile(r"\bssh\s(?:[\w./:=-]{1,60}\s){0,8}?([A-Za-z_][\w.-]{0,63})@([A-Za-z][\w.-]{0,63})?")
ACCOUNT = re.compile(
    r"(?i)(?:(?<![A-Za-z0-9])(?:user|username|logname|login)[=:]\s?|\b[ug]id=\d+\()([a-z_][\w.-]{0,63})"
)
UUID = re.compile(r"(?i)(?:(GPU|MIG)-)?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})")
SERIAL = re.compile(
    r"(?i)\b(?:serial(?:[ _-]?(?:number|no))?\.?|GPU PDI)[\"']?\s{0,40}[:=]\s?[\"']?([A-Za-z0-9][\w-]{4,})"
)
MAC = re.compile(r"(?i)(?<![\w:-])([0-9a-f]{2}([:-])(?:[0-9a-f]{2}\2){4,18}[0-9a-f]{2})(?![\w:-])")
IPV6 = re.compile(r"(?i)(?<![\w:.])([23f][0-9a-f]{3}:[0-9a-f:]{2,34})(?![\w:])")
IPV4 = re.compile(r"(?<![\w.])((?:\d{1,3}\.){3}\d{1,3})(?!\.?\w)")
CLOUD_HOST = re.compile(r"\b(ip-(?:\d{1,3}-){3}\d{1,3}(?:\.[A-Za-z][\w-]{0,62}){0,6})\b")
_NAME = r"[^/\\\s:;,\"'<>|&()\[\]]+(?:\s[A-Z][^/\\\s:]{0,40}(?=[/\\])){0,3}"
HOME = re.compile(rf"(?:^|(?<=//)|(?<![\w./~\\-]))(/root(?![\w.-])|/(?:(?:var|export|usr)/)?(?:home|Users)/{_NAME})")
ACCOUNT_FOLDER = re.compile(rf"(?:/home/|[/\\][Uu]sers[/\\]{{1,2}})({_NAME})")

ADDRESS_BEFORE = re.compile(
    r"(?i)(?:addr(?:ess)?|inet|ip|ipv4|host(?:name)?|server|node|master|from|peer|via|gateway|nameserver|dns|remote"
    r"|local|client|endpoint|proxy|connect(?:ed|ing)?(?: to)?|listen(?:ing)?(?: on)?|ping|ssh)\W{0,4}$|://$|@$|//$|\[$|ffff:$"
)
VERSION_BEFORE = re.compile(
    r"(?i)(?:[<>=~!]=|[<>~^≥≤])\s?$|[-_+]$|[\w.]/$|(?:version|release|revision|driver|firmware|toolkit|runtime|library"
    r"|\b(?:lib)?(?:cu|nv|nccl|tensorrt|trt|torch|jax|onnx|python|conda)[\w.+-]{0,40})\W{0,3}$"
)
ADDRESS_AFTER = re.compile(r":\d|:/|/\d{1,2}(?![\w.])|-(?:\d{1,3}\.){3}")
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


def find(text: str, names: Sequence[str]) -> list[Found]:
    """Give what is secret in this text, which stands under these names, none over another, in their order."""
    kind = named(text, names[-1] if names else "")
    if kind:
        return [Found(0, len(text), kind, text)]
    kept: list[Found] = []
    for recognise in RECOGNISERS:
        for found in recognise(text, names):
            clear = all(found.end <= other.start or other.end <= found.start for other in kept)
            if clear and found.start < found.end and not PLACEHOLDER.fullmatch(text, found.start, found.end):
                kept.append(found)
    return sorted(kept)


def named(text: str, name: str) -> str | None:
    """Give the kind of secret that all of the text is, from the name it stands under; None for no secret."""
    if text.strip().lower() in NOTHING or PLACEHOLDER.fullmatch(text):
        return None
    if SECRET_NAME.fullmatch(name):
        return None if VERSION.fullmatch(text) else "secret"
    kinds = {"serial": SERIAL_NAME, "host": HOST_NAME, "user": USER_NAME}
    kind = next((kind for kind, pattern in kinds.items() if pattern.fullmatch(name)), None)
    return None if kind == "user" and text.isdecimal() else kind


def learn(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the kinds and words that this text shows to be names of users and hosts, or serial numbers."""
    kind = named(text, names[-1] if names else "")
    if kind and kind != "secret":
        yield kind, text
        if kind == "host" and "." in text:
            yield kind, text.partition(".")[0]
    for account in ACCOUNT_FOLDER.findall(text) + ACCOUNT.findall(text):
        yield "user", account
    for user, host in PROMPT.findall(text) + SHELL.findall(text):
        yield from (("user", user), *((("host", host),) if host else ()))
    for host in NODE.findall(text):
        yield from (("host", host), ("host", host.partition(".")[0]))
    yield from (("host", next(filter(None, hosts))) for hosts in LOGGED.findall(text))
    yield from (("serial", number) for number in SERIAL.findall(text))


def _spans(kind: str, pattern: re.Pattern[str], group: int = 1) -> Callable[[str, Sequence[str]], Iterator[Found]]:
    """Give a recogniser for what one group of a pattern matches."""

    def recognise(text: str, _: Sequence[str]) -> Iterator[Found]:
        for match in pattern.finditer(text):
            yield Found(match.start(group), match.end(group), kind, match[group])

    return recognise


def _urls(text: str, _: Sequence[str]) -> Iterator[Found]:
    """Give user, password and host of addresses that carry a password: the host is a private one as a rule."""
    for match in URL.finditer(text):
        if match[1] not in {"", "git"}:
            yield Found(match.start(1), match.end(1), "secret", match[1])
            yield Found(match.start(2), match.end(2), "host", match[2])


def _assigned(text: str, _: Sequence[str]) -> Iterator[Found]:
    """Give values that stand after a name such as HF_TOKEN or --api-key."""
    for match in (*ASSIGNED.finditer(text), *FLAG.finditer(text)):
        value = match[2].strip("\"'")
        counts = "token" in match[1].lower() and value.isdecimal()  # "token: 128" counts tokens
        if value.lower() not in NOTHING and not counts:
            start = match.start(2) + (match[2] != value)
            yield Found(start, start + len(value), "secret", value)


def _uuids(text: str, _: Sequence[str]) -> Iterator[Found]:
    for match in UUID.finditer(text):
        kind = match[1].upper() if match[1] else "uuid"
        yield Found(match.start(), match.end(), kind, match[2].lower())


def _addresses(text: str, names: Sequence[str]) -> Iterator[Found]:
    """Give the IP addresses, but nobody's (loopback, all zeros)."""
    for match in (*IPV6.finditer(text), *IPV4.finditer(text)):
        try:
            address = ipaddress.ip_address(match[1])
        except ValueError:
            continue
        own = address.is_loopback or address.is_unspecified or match[1].startswith("255.")
        if not own and (address.version != 4 or _is_address(text, match, names)):  # noqa: PLR2004 - IP version 4
            yield Found(match.start(1), match.end(1), "ip", match[1].lower())


def _is_address(text: str, match: re.Match[str], names: Sequence[str]) -> bool:
    """Tell whether four numbers are an address and no version: by what touches them, the words before, the name."""
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


RECOGNISERS = (
    _spans("secret", TOKEN),
    _urls,
    _spans("secret", QUERY),
    _assigned,
    _spans("secret", BEARER),
    _spans("email", EMAIL),
    _spans("user", PROMPT),
    _spans("host", PROMPT, 2),
    _uuids,
    _spans("serial", SERIAL),
    _spans("mac", MAC),
    _addresses,
    _spans("host", CLOUD_HOST),
    _spans("home", HOME),
    _spans("user", ACCOUNT_FOLDER),
    _spans("user", ACCOUNT),
)
