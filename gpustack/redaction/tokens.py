"""Secrets: the patterns of tokens, keys, passwords, and numbers of machines and their cards, everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpustack.redaction.form import ADDRESSES, ASSIGNED, NOTHING, PLACEHOLDER, Form, Found, form, secret_name
from gpustack.redaction.people import HOSTS, PEOPLE

NAMED = {
    "serial": re.compile(
        r"(?i)(?:.*_)?(?:serial(?:_?(?:number|no))?|pdi|guid|asset_tag|service_tag|machine_id|boot_id|host_id|wwn)"
    ),
    "host": re.compile(r"(?i)(?:.*_)?(?:hostname|nodename|node_name|fqdn|master_addr|nodelist|host)"),
    "user": re.compile(r"(?i)(?:.*_)?(?:user|username|user_name|logname|login|account|owner)"),
}
VERSION = re.compile(r"[<>=~!^ ]{0,3}v?\d{1,8}(?:\.\w{1,20}){1,8}[\w.+-]{0,40}(?:,.{0,80})?")
MOST_NAME = 200
DASHED = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
COLUMN = re.compile(
    r"(?i)[\s\"']*(?:(?:gpu|board|module|chassis|system|device)?[_ ]?(?:serial(?:[_ ](?:number|no))?|s/?n)"
    r"|asset[_ ]tag)[\s\"'.]*"
)
SEPARATORS, LEAST_CELLS = ",;\t|", 2
# What splits a secret invisibly: terminal escapes and invisible letters, literal or escaped.
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


def _token(name: str, pattern: str, hints: str) -> Form:
    """Return the form of a service's tokens, which are recognised everywhere."""
    return form(name=name, context="anywhere", pattern=rf"(?P<secret>{pattern})", hints=tuple(hints.split()))


TOKENS = (
    form(
        name="private key",
        context="from BEGIN … PRIVATE KEY to its END, or to the end of the text",
        pattern=rf"(?P<secret>{PEM}(?:(?!-----)[\s\S])*(?:-----END[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?)",
        hints=("private key",),
    ),
    form(
        name="SSH public key",
        context="its kind and letters; it names its owner",
        pattern=r"(?P<secret>\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-ssh-ed25519@openssh\.com)[ \t]"
        r"[A-Za-z0-9+/=]{40,}(?:[ \t][\w.-]{1,64}@[\w.-]{1,64})?)",
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


def _numbered(match: re.Match[str], _: Sequence[str]) -> bool:
    """Return whether a serial number has a digit, as every real one does."""
    return any(letter.isdecimal() for letter in match["serial"])


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


MACHINES = (
    form(
        name="UUID of a GPU",
        context="GPU- and its number, whole, without dashes, or the beginning that CUDA_VISIBLE_DEVICES takes",
        pattern=rf"(?<![A-Za-z0-9])(?P<GPU>GPU-(?i:{DASHED}|[0-9a-f]{{32}}"
        rf"|(?=[0-9a-f-]*[a-f])[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{0,3}}(?![\w-])))",
        hints=("gpu-",),
    ),
    form(
        name="UUID of a MIG device",
        context="MIG- and its number",
        pattern=rf"(?<![A-Za-z0-9])(?P<MIG>MIG-(?i:{DASHED}|[0-9a-f]{{32}}))",
        hints=("mig-",),
    ),
    form(
        name="UUID",
        context="anywhere with dashes; without them after a word such as uuid, machine-id or guid, or of version 4",
        pattern=rf"(?i)(?P<uuid>{DASHED})|(?:uuid|guid|machine[-_ ]?id|boot[-_ ]?id"
        rf"|luks)\W{{0,4}}(?P<uuid2>[0-9a-f]{{32}})(?![\w-])"
        r"|(?<![\w-])(?P<uuid3>[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15})(?![\w-])",
        hints=("-", "id", "luks", "4"),
    ),
    form(
        name="serial number",
        context="after Serial, Serial Number, S/N, SN, Service Tag, Asset Tag, ID_SERIAL, GPU PDI",
        pattern=r"(?i)(?<![A-Za-z0-9])(?:serial(?:[ _-]?(?:number|num|no))?|s/n|\[?sn\]?|service[ _-]tag"
        r"|asset[ _-]tag|id_serial(?:_short)?|gpu pdi|chassis[ _-]?id)"
        r"(?:\.|\b|(?<=\]))\\?[\"']?[ \t]{0,40}[:=][ \t]{0,20}\\?[\"']?(?P<serial>[A-Za-z0-9][\w-]{4,63})",
        keep=_numbered,
        hints=("serial", "s/n", "sn", "tag", "pdi", "chassis"),
        learnt=True,
    ),
    Form(
        name="column of serial numbers",
        context="below a cell of that name, in CSV and other tables of cells",
        find=_columns,
        hints=("serial", "sn", "s/n", "asset"),
        learnt=True,
    ),
    form(
        name="number of a disk or target",
        context="WWN, EUI, NAA, by-id names of disks, iSCSI names",
        pattern=r"(?i)(?P<serial>\b(?:wwn-|eui\.|naa\.)(?:0x)?[0-9a-f]{16,32}|\biqn\.\d{4}-\d\d\.[\w.:-]{4,200})"
        r"|\bwwn[\"']?(?: device id)?[:=]?[ ]{0,4}"
        r"(?P<serial2>(?:0x)?[0-9a-f]{1,16}(?:[ :][0-9a-f]{2,9}){0,7})(?![\w-])"
        r"|/by-id/(?:nvme|ata|scsi|usb)-[A-Za-z0-9_]{0,60}_(?P<serial3>[A-Za-z0-9]{8,30})",
        hints=("wwn", "eui.", "naa.", "iqn.", "/by-id/"),
    ),
    form(
        name="GUID of InfiniBand",
        context="four groups of four, or 0x and 16 digits after the word GUID",
        pattern=r"(?i)(?<![\w:.-])(?P<mac>(?=[0-9:]{0,18}[a-f])[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])"
        r"|guid\W{0,4}(?P<mac2>(?:0x)?[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])",
        hints=("guid", ":"),
    ),
    form(
        name="address of a network card",
        context=(
            "six groups with colons or dashes (up to twenty), Cisco's three; without separators after "
            "mac, hwaddr, ether and in enx…"
        ),
        pattern=r"(?i)(?<![\w:.-])(?P<mac>[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\2){4,18}[0-9a-f]{2})(?![\w:-])"
        r"|(?<![\w.-])(?P<mac2>[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})(?![\w.])"
        r"|\b(?:mac|hwaddr|ether|hw_addr|mac[-_ ]?addr(?:ess)?)[\"']?\W{1,4}(?P<mac3>[0-9a-f]{12})(?!\w)"
        r"|\benx(?P<mac4>[0-9a-f]{12})(?!\w)",
        hints=(":", "-", ".", "mac", "hwaddr", "ether", "enx", "hw_addr"),
    ),
)


FORMS: tuple[Form, ...] = (*TOKENS, *ASSIGNED, *PEOPLE[:3], *MACHINES, *HOSTS, *ADDRESSES, *PEOPLE[3:])
