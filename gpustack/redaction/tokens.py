"""Secrets: what tokens, keys and passwords look like, wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import ADDRESSES, ASSIGNED, NOTHING, PLACEHOLDER, Form, Found, secret_name, shape
from gpustack.redaction.machines import HOSTS, MACHINES
from gpustack.redaction.people import PEOPLE

NAMED = {
    "serial": re.compile(
        r"(?i)(?:.*_)?(?:serial(?:_?(?:number|no))?|pdi|guid|asset_tag|service_tag|machine_id|boot_id|host_id|wwn)"
    ),
    "host": re.compile(r"(?i)(?:.*_)?(?:hostname|nodename|node_name|fqdn|master_addr|nodelist|host)"),
    "user": re.compile(r"(?i)(?:.*_)?(?:user|username|user_name|logname|login|account|owner)"),
}
VERSION = re.compile(r"[<>=~!^ ]{0,3}v?\d{1,8}(?:\.\w{1,20}){1,8}[\w.+-]{0,40}(?:,.{0,80})?")
MOST_NAME = 200
# What splits a secret and shows nothing: escapes of a terminal and invisible letters, as themselves or spelt out.
HIDDEN = re.compile(
    "(?:\x1b|\\\\x1b|\\\\033|\\\\e|\\^\\[|\\\\u001b)\\[[0-9;?]{0,30}[A-Za-z]|\x1b\\][^\x07\x1b]{0,200}(?:\x07|\x1b\\\\)"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|\\u(?:00ad|034f|061c|115f|1160|180[b-f]|200[b-f]|202[a-e]|20[56][0-9a-f]|2800|3164|fe0[0-9a-f]|feff|ffa0)"
    r"|\\U000e0[0-9a-f]{3}|\\xad|&(?:#8203|#x200[bB]|ZeroWidthSpace|shy|zwn?j);|%E2%80%8[B-F]|%EF%BB%BF|%C2%AD"
)
PEM = r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


def find(text: str, names: Sequence[str]) -> list[Found]:
    """Return what is secret in this text, which stands under these names, none over another, in their order."""
    kind = named(text, names[-1] if names else "")
    if kind:
        return [Found(0, len(text), kind, text)]
    low, taken, kept = text.lower(), bytearray(len(text)), []
    for form in FORMS:
        if not form.hints or any(hint in low for hint in form.hints):
            for found in form.find(text, names):
                free = taken.find(1, found.start, found.end) < 0
                if free and found.start < found.end and not PLACEHOLDER.fullmatch(text, found.start, found.end):
                    taken[found.start : found.end] = b"\1" * (found.end - found.start)
                    kept.append(found)
    return sorted(kept)


def learn(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the kinds and words that this text shows to be names of users and hosts, or serial numbers."""
    kind = named(text, names[-1] if names else "")
    if kind and kind != "secret":
        yield from _known(kind, text)
        return
    low = text.lower()
    for form in FORMS:
        if form.learnt and any(hint in low for hint in form.hints):
            for found in form.find(text, names):
                yield from _known(found.kind, found.secret)


def _known(kind: str, word: str) -> Iterator[tuple[str, str]]:
    """Yield a word, and of a host with its domain the short name too."""
    yield kind, word
    if kind == "host" and "." in word:
        yield kind, word.partition(".")[0]


def named(text: str, name: str) -> str | None:
    """Return the kind of secret that all of the text is, from the name it stands under; None for no secret."""
    name = name[-MOST_NAME:]
    if text.strip().lower() in NOTHING or PLACEHOLDER.fullmatch(text):
        return None
    if secret_name(name):
        return None if VERSION.fullmatch(text) else "secret"
    kind = next((kind for kind, pattern in NAMED.items() if pattern.fullmatch(name)), None)
    return None if kind == "user" and (text.isdecimal() or text == "root") else kind


def visible(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without what is invisible in it, and the place in the text of each letter that is left."""
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


def _token(name: str, pattern: str, hints: str) -> Form:
    """Return the form of a service's tokens, which count wherever they stand."""
    find = shape(rf"(?P<secret>{pattern})")
    return Form(name=name, context="anywhere", find=find, hints=tuple(hints.split()))


TOKENS = (
    Form(
        name="private key",
        context="from BEGIN … PRIVATE KEY to its END, or to the end of the text",
        find=shape(rf"(?P<secret>{PEM}(?:(?!-----)[\s\S])*(?:-----END[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?)"),
        hints=("private key",),
    ),
    Form(
        name="SSH public key",
        context="its kind and letters; it names its owner",
        find=shape(
            r"(?P<secret>\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-ssh-ed25519@openssh\.com)[ \t]"
            r"[A-Za-z0-9+/=]{40,}(?:[ \t][\w.-]{1,64}@[\w.-]{1,64})?)"
        ),
        hints=("ssh-", "ecdsa-"),
    ),
    _token("GitHub", r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"),
    _token("GitLab", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{20,}|GR1348941[\w-]{20,}", "gl gr1348941"),
    _token("Hugging Face", r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{20,}", "hf_ api_org_"),
    _token("NGC", r"nvapi-[\w-]{20,}", "nvapi-"),
    _token("OpenAI, Anthropic, OpenRouter", r"(?<![\w-])sk-[\w-]{20,}", "sk-"),
    _token(
        "other makers of models",
        r"(?:gsk|xai|fw|pcsk|rpa|KGAT|r8|lsv2_pt|lsv2_sk|wandb_v1|tvly|jina|voy)[_-][\w-]{24,}"
        r"|pplx-[A-Za-z0-9]{30,}",
        "gsk_ xai- fw_ pcsk_ rpa_ kgat_ r8_ lsv2_ wandb_v1_ tvly- jina_ voy- pplx-",
    ),
    _token(
        "AWS",
        r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[0-9A-Z]{16}(?![A-Z0-9])",
        "akia asia abia acca aroa aida",
    ),
    _token(
        "Google",
        r"AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|(?<![\w/])1//0[\w-]{30,}",
        "aiza ya29. gocspx- 1//0",
    ),
    _token("Azure client secret", r"(?<![\w~.-])[\w.-]{3}8Q~[\w.~-]{30,}", "8q~"),
    _token(
        "Slack",
        r"(?<![\w-])xox[abcdeoprs]-[\w-]{10,}|xapp-[\w-]{20,}|(?<=hooks\.slack\.com/)[\w/]{20,}",
        "xox xapp- hooks.slack.com",
    ),
    _token(
        "Discord and Telegram",
        r"(?<=/api/webhooks/)\d{10,25}/[\w-]{30,}|(?<![\w:])\d{8,10}:AA[\w-]{32,}",
        "/api/webhooks/ :aa",
    ),
    _token(
        "package indexes",
        r"pypi-[\w-]{40,}|npm_[A-Za-z0-9]{30,}|rubygems_[0-9a-f]{40,}|dckr_[op]at_[\w-]{20,}|\bcio[A-Za-z0-9]{32}\b",
        "pypi- npm_ rubygems_ dckr_ cio",
    ),
    _token(
        "clouds",
        r"dapi[0-9a-f]{32}|do[opr]_v1_[0-9a-f]{40,}|HRKU-[\w-]{30,}|sbp_[0-9a-f]{40}|pscale_\w{3,10}_[\w-]{20,}"
        r"|tskey-[\w-]{20,}|FlyV1 [\w,+/=-]{20,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        "dapi do hrku- sbp_ pscale_ tskey- flyv1 shp",
    ),
    _token(
        "services",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}|whsec_[\w+/=]{20,}|\bSG\.[\w-]{16,}\.[\w-]{16,}|gl(?:sa|c)_[\w+/=]{20,}"
        r"|NRAK-[A-Z0-9]{20,}|sntry[su]_[\w+/=-]{20,}|lin_api_[A-Za-z0-9]{20,}|(?:ntn|secret)_[A-Za-z0-9]{40,}"
        r"|figd_[\w-]{20,}"
        r"|dp\.pt\.[\w-]{20,}|ATATT3[\w=-]{20,}|ATBB[A-Za-z0-9]{20,}|AKCp[A-Za-z0-9]{20,}|\bSK[0-9a-f]{32}\b"
        r"|\bkey-[0-9a-f]{32}\b",
        "k_live_ k_test_ whsec_ sg. glsa_ glc_ nrak- sntry lin_api_ ntn_ secret_ figd_ dp.pt. atatt3 atbb akcp sk key-",
    ),
    _token(
        "Vault, Terraform, Swarm, age",
        r"\bhv[sbr]\.[\w-]{20,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}|SWMTKN-1-[\w-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}",
        "hvs. hvb. hvr. atlasv1 swmtkn-1- age-secret-key-1",
    ),
    _token("JWT", r"(?<![\w.-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){0,3}", "eyj"),
    _token(
        "hash of a password", r"\$(?:[1567y]|2[abxy]|gy|argon2id?|scrypt|pbkdf2[\w-]{0,10})\$[\w./$=,+*-]{20,}", "$"
    ),
)


FORMS: tuple[Form, ...] = (*TOKENS, *ASSIGNED, *PEOPLE[:3], *MACHINES, *HOSTS, *ADDRESSES, *PEOPLE[3:])
