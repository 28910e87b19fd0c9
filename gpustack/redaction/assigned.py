"""Secrets that are known by the name before them: variables, flags, keys of files, headers, addresses of the web."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import NOTHING, Finder, Form, Found, shape

# What a name ends in that holds a secret; "tokens" and "tokenizer" do not end so.
WORD = (
    r"token|secret|passw(?:or)?d|passwd|passphrase|passcode|credentials?|cookie|auth(?:orization)?|api[_.-]?key|psk|jwt"
    r"|(?:access|account|storage|master|signing|session|private|secret|ssh|auth|licen[cs]e|encryption|product|deploy"
    r"|shared|admin|service|recovery|host)[_.-]?key(?:[_.-](?:id|data|base64))?|session[_-]?id|client[_-]key[_-]data"
    r"|webhook(?:[_-]?url)?|connection[_-]?string|(?:[cx]srf|otp|totp)(?:[_-]?token)?"
)
LOUD = r"(?:TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|COOKIE|APIKEY|_KEY|_PAT|_PSK|_PASS|_PWD)(?:_[A-Z0-9_]{0,40})?"
SHORT = r"(?:^|[_.-])(?:pass|pwd|pw)"  # these stand for paths, passes and counts as well: see _worth
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
    """Return whether what has this name is a secret."""
    return SECRET_NAME.search(name[-MOST_NAME:]) is not None and not DIRECTORY.fullmatch(name)


def _worth(name: str, value: str) -> bool:
    """Return whether a value under a name of a secret is one: no count, no word for nothing, no reference to it."""
    if value.lower() in NOTHING or NOT_SAID.match(value) or not value.strip():
        return False
    if value.isdecimal() and COUNTED.search(name):
        return False
    if SHORT_NAME.search(name) and not name.isupper():
        return len(value) > 3 and not value.isdecimal() and not value.startswith(("/", "~", "."))  # noqa: PLR2004 - "yes", "12"
    return not (SHORT_NAME.search(name) and value.startswith("/"))


def after(head: str) -> Finder:
    """Return a finder of the value behind a head, whose first group is the name that says whether it is a secret."""
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
    Form(
        name="user and password of an address",
        context="between :// and @, the password of any length; the host behind it is taken out too",
        find=shape(
            r"://(?!git@)(?P<secret>[^\s/@:\"'<>`]*(?::(?:[^\s\"'<>/@`]*|(?!\d{1,5}(?:/|$))(?:(?!://)[^\s\"'<>`])+))?)"
            r"@(?![^\s/@]{0,256}@)(?P<host>[^\s/:@\"'<>`,;)]+)"
        ),
        hints=("://",),
    ),
    Form(
        name="signed address",
        context="the value of a query's signature, key or token",
        find=shape(
            r"[?&;](?i:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?|key|(?:key-pair"
            r"|policy)-?id"
            rf"|[\w-]{{0,40}}(?:{WORD}))=(?P<secret>[^&\s\"'<>;]+)"
        ),
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
    Form(
        name="password of a program",
        context="-p of sshpass, docker login and mysql; user:password of curl; login … password of .netrc",
        find=shape(
            r"(?:(?<=\s)-pass(?:in|out)? pass:|\b(?:sshpass[ ]-p[ ]?|docker login[^\n]{0,200}?[ ]-p[ ]"
            r"|mysql(?:dump)?[^\n]{0,100}?[ ]-p(?=\S)"
            r"|curl[^\n]{0,200}?[ ](?:-u|--user)[ ][^\s:]{1,64}:|redis-cli[^\n]{0,100}?[ ]-a[ ]"
            r"|login[ \t]\S{1,64}\s{1,20}password[ \t]|(?i:password (?:is|was|for \S{1,40} is)[ ])|IDENTIFIED BY ))"
            r"[\"']?(?P<secret>[^\s\"']+)"
        ),
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
    Form(
        name="element of XML",
        context="<name>value</name>",
        find=after(r"<([\w.-]{1,60})>(?=[^<\n])"),
        hints=("</",),
    ),
    Form(
        name="cookie or passphrase",
        context="the rest of the line after Cookie:, Set-Cookie: and passphrase:",
        find=shape(
            r"(?i)\b(?:cookie|passphrase)\\?[\"']?[ \t]{0,20}:[ \t]{0,20}\\?[\"']?(?P<secret>[^\s\"'\\][^\n\r\"'\\]*)"
        ),
        hints=("cookie", "passphrase"),
    ),
    Form(
        name="bearer",
        context="after Bearer or Basic",
        find=shape(r"\b(?i:Bearer|Basic)[ \t](?P<secret>[\w.~+/=-]{16,})"),
        hints=("bearer", "basic"),
    ),
)
