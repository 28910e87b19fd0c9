"""Parts of a text that are not about this machine or are over: other machines, documents, advice, old faults."""

from __future__ import annotations

import re
from collections import deque

# What follows a line about another environment or machine, up to an empty line, is not about this one.
ELSEWHERE = re.compile(
    r"^[^\n.:;]{0,24}\b(?:another|(?:the|my|an) other|other|(?:a |the )?(?:different|second))(?: \w+)? (?:environments?"
    r"|env|venv|machines?|computers?|pcs?|servers?|laptops?|hosts?|systems?)\b[^\n]{0,50}\b(?:works?|worked|working|fine|ok)\b"
    r"[^\n]{0,20}:[ \t]*\n(?:[^\n]*\S[^\n]*(?:\n|$)){1,40}",
    re.IGNORECASE | re.MULTILINE,
)
# A past fault, as someone reports it beside the present state.
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
# Advice to readers: "if nvidia-smi says …, reboot".
ADVISED = re.compile(
    r"\bif (?!I\b|we\b)[^\n.;]{0,40}\b(?:says?|shows?|prints?|reports?|sees?|gets?)\b[^\n.;]{0,120}, (?:then |please )?"
    r"(?:reboot|restart|reinstall|update|upgrade|run|install|set|use|try|check)\b(?! (?:of|helps?|fixes|cures|solves))",
    re.IGNORECASE,
)
# Quotations from documents and other machines' output: not about this one.
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
# It works now, according to someone.
WELL = re.compile(
    r"\b(?:everything|it|all|cuda|torch|pytorch|tensorflow|nvidia-smi|training|inference)\b[^.!?\n]{0,40}?"
    r"\b(?:works?|runs?|working|running|fine|ok|stable)\b[^.!?\n]{0,24}\b(?:now|again|since|perfectly)\b"
    r"|\bnow\b[^!?\n]{0,40}?\b(?:(?:everything|it|all) (?:works?|runs?)|(?:returns|is|gives|prints|says|shows) True)\b"
    r"|^(?:EDIT|Edit|UPDATE|Update)?\d?[:, ]{0,2}(?:solved|fixed|resolved)\b"
    r"|\b[Ww]ith [\w.]{1,30} (?:it|everything|all) (?:runs|works)\b",
    re.IGNORECASE | re.MULTILINE,
)
NOT_WELL = re.compile(
    r"\b(?:but|still|however|yet|except|until|fails?|failing|error|crash\w*|wrong|not|n't|no longer|without it|only)\b",
    re.IGNORECASE,
)
# What no longer applies once it works: quoted lines, printed errors, sentences about the past.
OLD_LINE = re.compile(r"[ \t]{0,8}>|[^\n]{0,80}?(?:[A-Z][a-z]{1,40}Error\b|\b(?:NVRM|Xid|Failed to|FATAL|ERROR)\b)")
OLD_SENTENCE = re.compile(
    r"(?:^|(?<=[.!?;:,] ))(?:[^.!?;,]{0,80}? (?:was|were|had|got|gave|did|didn't|failed|used to)\b"
    r"|(?:The |My |Our )?(?:previous|old|former|earlier)\b)[^!?;,]{0,200}?(?:[.!?;](?=\s|$)|$)",
    re.IGNORECASE,
)
# "That was in January with the old card." below what it refers to.
THAT_WAS = re.compile(
    r"(?:That|This|These|Those|It|Those lines) (?:was|were|is|are)"
    r" (?:in|on|from|with|before|back|last|an? old|the old|old|what|of)\b[^\n]{0,80}\b(?:old|January|February|March"
    r"|April|May|June|July|August|September|October|November|December|last|before|previous|20\d\d|replaced|ago)\b"
)


def own(text: str) -> str:
    """Return a text without what concerns other machines, documents, faults that are over, and advice."""
    text = ELSEWHERE.sub("\n", text)
    for pattern in (BYGONE, ADVISED, DOCUMENTED, ANOTHER):
        text = pattern.sub("", text)
    return current(text)


def current(text: str) -> str:
    """Return a text without what is over, if it says so below or says that everything works now."""
    if THAT_WAS.search(text):
        text = "\n\n".join(_later(part) for part in text.split("\n\n"))
    last = next(iter(deque(WELL.finditer(text), maxlen=1)), None)
    if last is None or NOT_WELL.search(text, last.start()):
        return text
    lines = ("" if OLD_LINE.match(line) else OLD_SENTENCE.sub("", line) for line in text.split("\n"))
    return "\n".join(lines)


def _later(part: str) -> str:
    """Return the lines after the last one that says that those above it are old."""
    lines = part.split("\n")
    last = max((at for at, line in enumerate(lines) if THAT_WAS.match(line)), default=-1)
    return "\n".join(lines[last:] if last >= 0 else lines)
