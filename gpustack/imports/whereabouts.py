"""Lines as people write them, and whether what one names is said to be on this machine."""

from __future__ import annotations

import re

NOT_HERE = re.compile(
    r"(?:(?<![a-z])(?:needs?|requires?|required|wants?|at least|minimum|min\.|upgrade\w*|update\w*|install(?:ing)?"
    r"|(?<!self-)(?<!self )compiled|built?|built|(?:built?|compiled|linked|compatible|made) (?:with|for|against)|for|in"
    r"|supports?|supported|than"
    r"|until|since|before|(?:works?|worked|runs?|fine|tested|ok) (?:on"
    r"|with)|"
    r"works?|worked|downgrad\w*|instead of|against|expects?|expected|or newer|previous\w*|earlier"
    r"|compiler|compiled w\.[ .]{0,8}|older|newer|(?:un|re)installed|removed|not|no|without|if|use|using|try|tried|was"
    r"|up to|from|to|like|e\.g\.|such as)|>=|<=|<|>)\s{0,40}(?:the |a |an )?\W*$",
    re.IGNORECASE,
)
# Words before a thing that make it one of this machine, where the words above would not.
HERE = re.compile(
    r"\b(?:some|my|an|our|this) older $|"
    r"(?:\b(?:I|we|I'm|we're|am|are|is) (?:also |now |currently )?us(?:e|ing)|(?:^|[,;] )(?:currently |now )?using"
    r"|\b(?:upgraded|updated) to)\s+(?:the "
    r"|a |an )?$",
    re.IGNORECASE,
)
# A command that somebody tells to have given; as advice, a question, or what made it work it says nothing of now.
GIVEN = re.compile(r"(?:^|[,;:(.] ?|\b(?:I|we|after|did|with) )(?:pip3?|conda|mamba|uv pip) install(?:ed)?(?: -\S+)* $")
ADVICE = re.compile(
    r"\?|\b(?:fix|solv|work|help|try|tri|should|need|want|must|please|instead|resolv|use|run|can|could|fail|error)\w*\b",
    re.IGNORECASE,
)
NOT_AFTER = re.compile(
    r"[\"')]{0,8}\s{0,40}(?:or (?:newer|later|higher|above)|\+ ?(?:is|or|needed)|and (?:above|newer|later)|and up\b"
    r"|(?:is|are) (?:needed|required)|builds?\b|wheels?\b"
    r"|(?:\([^()]{1,30}\) )?(?:had )?worked\b(?! (?:until|till|before)))"
)
# A check list ("CUDA version.....[OK] (12.1)"), and facts between bars ("torch 1.4 | CUDA 10.1"), which no table edges.
DOTS = re.compile(r"(?<![ .])[ .]{4,}(?:\[ ?OK ?\]|(?<=\.) )[ ]?")
BARS = re.compile(r" \| ")
TABLE = re.compile(r"^\s*[|+]|[|+]\s*$|\$ |^\s*[#$%>]|\bgrep\b")

# What stands below a line that speaks of another environment or machine, up to an empty line, is none of this one's.
ELSEWHERE = re.compile(
    r"^[^\n.:;]{0,24}\b(?:another|(?:the|my|an) other|other|(?:a |the )?(?:different|second))(?: \w+)? (?:environments?"
    r"|env|venv|machines?|computers?|pcs?|servers?|laptops?|hosts?|systems?)\b[^\n]{0,50}\b(?:works?|worked|working|fine|ok)\b"
    r"[^\n]{0,20}:[ \t]*\n(?:[^\n]*\S[^\n]*(?:\n|$)){1,40}",
    re.IGNORECASE | re.MULTILINE,
)


# A fault of another day that is over, as somebody tells it beside what is here now.
BYGONE = re.compile(
    r"(?:^|(?<=[.;] ))[^\n;.]{4,80} (?:was|were) (?:last (?:week|month|year)|yesterday).s "
    r"(?:problem|issue|fault|trouble)\b"
    r"|(?:^|(?<=[.;] ))(?:I|we) (?:had|got|saw|hit) [^\n;]{4,160}?\b(?:last (?:week|month|year|time)|yesterday|earlier"
    r"|(?:days?|weeks?|months?|years?) ago|in the past|previously)\b[^\n;]{0,40}?\b(?:fixed|cured|solved|went away"
    r"|gone|resolved|helped)\b[^\n;.]{0,24}[.;]"
    r"|(?:^|(?<=[.;] ))The (?:error|message|warning|problem|issue)\b[^\n;]{4,160}?\b(?:last (?:week|month|year)"
    r"|yesterday|(?:days?|weeks?|months?|years?) ago)\b[^\n]{0,50}?\b(?:fixed|cured|solved|resolved) it\b"
    r"[^\n;.]{0,24}[.;]",
    re.IGNORECASE | re.MULTILINE,
)


# Advice for those to whom something is said: "if nvidia-smi says …, reboot".
ADVISED = re.compile(
    r"\bif (?!I\b|we\b)[^\n.;]{0,40}\b(?:says?|shows?|prints?|reports?|sees?|gets?)\b[^\n.;]{0,120}, (?:then |please )?"
    r"(?:reboot|restart|reinstall|update|upgrade|run|install|set|use|try|check)\b(?! (?:of|helps?|fixes|cures|solves))",
    re.IGNORECASE,
)


# What documents say, and what somebody else's machine prints: none of it is of this one.
DOCUMENTED = re.compile(
    r"(?:^|(?<=[.;] ))(?:(?:I|we) (?:have )?read (?:in|on) [^\n:.;]{2,40}:|(?:The |Our |NVIDIA's )?(?:docs?"
    r"|documentation|manual|release notes|wiki|FAQ|guide)(?: pages?)? (?:says?|explains?|mentions?|describes?)\b)"
    r"(?![^\n]{0,200}\b(?:but|mine|my|our|I have|I use|we have|we use|installed|here)\b)[^\n]{0,300}?"
    r"(?:[.;?](?=\s|$)|$)"
    r"|(?:^|(?<=[.;] ))(?:The |This )?(?:message|error|warning) [\"'`\u201c][^\n]{5,200}[\"'`\u201d] (?:is|are) "
    r"(?:explained|described|documented|listed)\b[^\n.;]{0,80}[.;]?",
    re.IGNORECASE | re.MULTILINE,
)
ANOTHER = re.compile(
    r"(?:^|(?<=[.;] ))(?:My |A |The )?(?:colleague|co-?worker|friend|team ?mate|brother|student)(?:'s?|\u2019s)"
    r"(?: (?:laptop|machine|PC|computer|server|box|workstation))?(?: (?:has|had|got|gets|sees|shows|prints|says))\b"
    r"[^\n;]{0,160};(?= mine\b| my\b)",
    re.IGNORECASE | re.MULTILINE,
)


def own(text: str) -> str:
    """Give a text without what other machines and documents have, faults that are over, and advice about any."""
    text = ELSEWHERE.sub("\n", text)
    for pattern in (BYGONE, ADVISED, DOCUMENTED, ANOTHER):
        text = pattern.sub("", text)
    return text


def smooth(raw: str) -> str:
    """Give a line without marks of emphasis, its facts parted by commas and colons, on single spaces."""
    raw = BARS.sub(", ", raw) if "|" in raw and not TABLE.search(raw) else raw
    return " ".join(DOTS.sub(": ", raw.replace("**", "").replace("`", "")).split())


def here(before: str) -> bool:
    """Tell from the words before a thing whether it is said to be on this machine."""
    near = before[-40:]
    given = bool(GIVEN.search(near)) and not ADVICE.search(before)
    return given or bool(HERE.search(near)) or not NOT_HERE.search(near)
