"""What of an input is read: large logs reduced, and nothing that is over or about another machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

LARGE = 5_000_000  # beyond this size the middle is only searched for lines that matter
EDGE = 500_000  # of a large input, at each end
LONGEST_LINE, LINE_EDGE = 64_000, 16_000
BEFORE, AFTER, LINES_AFTER = 300, 900, 4
MOST_OF_A_WORD = 80  # first, and as many last
REPEATS = (400, 100)  # of lines alike, the first and the last
REPEATS_OF_LARGE = (60, 30)
DIGITS = bytes(range(ord("0"), ord("9") + 1))
GAP = b"\n\n"
# Words in what our readers recognise, rare in other output; in lower case.
WORDS = tuple(
    word.encode()
    for word in (
        *("nvrm", "xid", "nvidia-smi", "nvidia unix", "nvidia:", "driver version", "nvml", "nvswitch"),
        *("fabric manager", "cuda error", "cuda driver", "cuda version", "libcuda", "cudart", "cudnn"),
        *("cublas", "nccl warn", "nvjitlink", "compute capability", "no kernel image", "ptxas", "nvcc fatal"),
        *("undefined symbol", "cannot open shared object", "not found (required by", "error:", "fatal:"),
        *("traceback (most", "is not compatible", "mismatch", "version:", "amdgpu", "/dev/kfd", "hsa_status"),
        *("gfx9", "gfx10", "gfx11", "gfx12", "rocm", "hip error", "level_zero", "key was rejected", "dkms"),
        *("bad return status", "nouveau", "torch==", "torch version", "out of memory", "permission denied"),
        *("docker: error", "nvidia-container", "oci runtime", "no space left", "bus error", "iommu"),
    )
)


def sift(data: bytes) -> tuple[bytes, bool]:
    """Return the part of an input that is read, and whether something was dropped."""
    short = b"\n".join(_short(data))
    if b"\n" * 4 in short:  # searching for the words alone is ten times as fast
        short = re.sub(rb"\n{4,}", b"\n\n\n", short)
    large = len(short) > LARGE
    if large:
        middle = short[EDGE:-EDGE]
        kept = GAP.join(middle[start:end] for start, end in _joined(_places(middle)))
        short = GAP.join((short[:EDGE], kept, short[-EDGE:]))
    thin = b"".join(_thinned(short, *(REPEATS_OF_LARGE if large else REPEATS)))
    return thin, len(thin) < len(data)


def _short(data: bytes) -> Iterator[bytes]:
    """Yield the data in pieces that end at line ends, or where a line is cut for its length."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + LONGEST_LINE)
        if end >= 0:
            yield data[start:end]
            start = end + 1
            continue
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if end - start <= LONGEST_LINE:
            yield data[start:end]
            start = end + 1
            continue
        line_ends = (data[start : start + LINE_EDGE], data[max(start + LINE_EDGE, end - LINE_EDGE) : end])
        yield b" ... ".join(line_ends)
        start = end + 1


def _places(middle: bytes) -> list[tuple[int, int]]:
    """Return the ranges around the first and last occurrences of each word."""
    lower = middle.lower()
    found: list[tuple[int, int]] = []
    for word in WORDS:
        at, number = lower.find(word), 0
        while at >= 0 and number < MOST_OF_A_WORD:
            found.append(_around(lower, at))
            at, number = lower.find(word, found[-1][1]), number + 1
        at, number = lower.rfind(word) if at >= 0 else -1, 0
        while at >= 0 and number < MOST_OF_A_WORD:
            found.append(_around(lower, at))
            at, number = lower.rfind(word, 0, found[-1][0]), number + 1
    return found


def _around(text: bytes, at: int) -> tuple[int, int]:
    """Return the line at a place and some nearby lines below it."""
    start = max(text.rfind(b"\n", max(0, at - BEFORE), at) + 1, at - BEFORE, 0)
    end = at
    for _ in range(LINES_AFTER):
        after = text.find(b"\n", end + 1, at + AFTER)
        if after < 0:
            return start, min(len(text), at + AFTER) if end == at else end
        end = after
    return start, end


def _joined(places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges in order, merging overlapping ones."""
    end = -1
    start = 0
    for here, there in sorted(places):
        if here > end:
            if end >= 0:
                yield start, end
            start, end = here, there
        else:
            end = max(end, there)
    if end >= 0:
        yield start, end


def _thinned(data: bytes, first: int, last: int) -> Iterator[bytes]:
    """Yield the lines, keeping only the first and last of those that differ only in digits."""
    lines = data.split(b"\n")
    kinds = [line.translate(None, DIGITS) for line in lines]
    total: dict[bytes, int] = {}
    for kind in kinds:
        total[kind] = total.get(kind, 0) + 1
    seen: dict[bytes, int] = {}
    for line, kind in zip(lines, kinds, strict=True):
        number = seen[kind] = seen.get(kind, 0) + 1
        if number <= first or number > total[kind] - last:
            yield line + b"\n"


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
    r"(?:explained|described|documented|listed)\b[^\n.;]{0,80}[.;]?"
    # What stands below "in the docs:", what an example shows, what is found in source, and what a script prints.
    r"|\bin the (?:docs|documentation|README|wiki|manual)\b[^\n]{0,60}:[ \t]*\n(?:>[^\n]*\n?){1,10}"
    r"|\b(?:sample|example) (?:line|output|log|message)s? (?:from|of|in)\b[^\n:]{0,40}:[ \t]*\n[^\n]*"
    r"|\bexam (?:q|question)\b[^\n]*"
    r"|^(?:\$ )?(?:e?grep|git grep) -\w+ \"[^\"\n]{1,80}\"[^\n]*\n(?:[\w./+-]{1,120}:[^\n]*\n?){0,10}"
    r"|^[ \t]*echo \"[^\"\n]*\"; exit \d"
    # CUDA.jl then takes the driver's own.
    r"|\bCould not use forward compatibility package\b[^\n]*"
    # What btop logs at each start about makers of whom no GPU is here.
    r"|^[^\n]{0,80}\bGPUs will not be detected\b[^\n]{0,80}",
    re.IGNORECASE | re.MULTILINE,
)
ANOTHER = re.compile(
    r"(?:^|(?<=[.;] ))(?:My |A |The )?(?:colleague|co-?worker|friend|team ?mate|brother|student)(?:'s?|\u2019s)"
    r"(?: (?:laptop|machine|PC|computer|server|box|workstation))?(?: (?:has|had|got|gets|sees|shows|prints|says))\b"
    r"[^\n;]{0,160};(?= mine\b| my\b)"
    r"|(?:^|(?<=[.;] ))(?:my|a) (?:colleague|co-?worker|friend)(?: in \w+)? (?:has|had|got|gets|sees)\b"
    r"[^\n;]{0,160}\n(?=on mine\b|mine\b)"
    r"|^on (?:the|my) old (?:pc|machine|computer|laptop|server|card)\b[^\n]{0,80}\b(?:got|had|saw)\b[^\n]{0,40}\n"
    r"[^\n]{0,200}(?=\n(?:the )?new\b)"
    r"|(?:^|(?<=[.;,] ))(?:my|the|our) (?:old|previous|former) (?:[\w-]+ ){0,3}?(?:card|GPU|laptop|PC|machine|computer"
    r"|server|board|\d{3,4}(?: ?(?:Ti|Super|XT))?) (?:kept|used to|had|would|died|broke|was|got)\b[^\n.;,]{0,120}",
    re.IGNORECASE | re.MULTILINE,
)
# It works now, according to someone.
WELL = re.compile(
    r"\b(?:everything|it|all|cuda|torch|pytorch|tensorflow|nvidia-smi|training|inference)\b[^.!?\n]{0,40}?"
    r"\b(?:works?|runs?|working|running|fine|ok|stable)\b[^.!?\n]{0,24}\b(?:now|again|since|perfectly)\b"
    r"|\bnow\b[^!?\n]{0,40}?\b(?:(?:everything|it|all) (?:works?|runs?)|(?:returns|is|gives|prints|says|shows) True)\b"
    r"|^(?P<heading>(?:EDIT|Edit|UPDATE|Update)?\d?[:, ]{0,2}(?:solved|fixed|resolved|solucionado|gelöst|résolu"
    r"|решено|已解决|解決しました|解決済み)"
    r"\b(?=[:.,;!]|$| (?:by|it|now)\b)|[^\n]{0,200}\b(?:you can close(?: (?:this|it|the issue))?"
    r"|issue kan dicht)[.!]*[ \t]*$)"
    r"|^(?:EDIT|UPDATE) ?\d?:[^.!?\n]{0,60}\b(?:loaded|works?|fine|ok) now\b"
    r"|\b[Ww]ith [\w.]{1,30} (?:it|everything|all) (?:runs|works)\b"
    # At the end, after what helped.
    r"|\b(?:after|once|by|since)\b[^.!?\n]{3,80}?\b(?:it|everything|all|this|that|I can)\b[^.!?\n]{0,16}?"
    r"\b(?:works?|worked|runs?|ran|(?:is|was) (?:gone|fine|ok|solved|fixed))\b[^.!?\n]{0,16}[.!]*\s*\Z"
    r"|(?:^|[.!,;] ?)(?:works? now|now works?|(?:it|this|that) worked"
    r"|(?:all )?(?:solved|fixed)(?: by| it| now)?\b[^.!?\n]{0,60}"
    r"|[^.!?\n]{0,80}\b(?:fixed|solved|resolved|cured) (?:it|this|that|the (?:issue|problem|error)))[.!]*\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
NOT_WELL = re.compile(
    r"\b(?:but|still|however|yet|except|until|usually|tried|fails?|failing|crash\w*|wrong|not|n't"
    r"|no longer|without it|only|error(?! (?:is|was) (?:gone|fixed|solved)))\b",
    re.IGNORECASE,
)
STILL = re.compile(r"\b(?:but|still|however|yet|until)\b", re.IGNORECASE)  # below "Solved"
# What no longer applies once it works: quoted lines, printed errors, sentences about the past.
OLD_LINE = re.compile(
    r"[ \t]{0,8}>|[^\n]{0,80}?(?:[A-Z][a-z]{1,40}Error\b|\b(?:NVRM|Xid|Failed to|FATAL|ERROR)\b"
    r"|\b(?:[Ee]rror[:!]? |error:|undefined symbol|cannot open shared|could not select|not compiled with"
    r"|version mismatch))"
)
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


def own(text: str) -> tuple[str, str]:
    """Return a text without what concerns other machines, documents, faults that are over, and advice; and the faults.

    A fault is over if the text says so below it, or says that everything works now.
    """
    text = ELSEWHERE.sub("\n", text)
    over = [found[0] for found in BYGONE.finditer(text)]
    for pattern in (BYGONE, ADVISED, DOCUMENTED, ANOTHER):
        text = pattern.sub("", text)
    if THAT_WAS.search(text):
        parts = [(part, _later(part)) for part in text.split("\n\n")]
        over += [part.removesuffix(later) for part, later in parts]
        text = "\n\n".join(later for _, later in parts)
    said = list(WELL.finditer(text))
    headed = any(one["heading"] for one in said)
    if not said or (STILL if headed else NOT_WELL).search(text, said[-1].start()):
        return text, "\n".join(over)
    end = len(text) if headed else said[-1].end()  # "Solved:" is written above what it is about, too
    lines = text[:end].split("\n")
    kept = ["" if OLD_LINE.match(line) else OLD_SENTENCE.sub("", line) for line in lines]
    over += [line for line, left in zip(lines, kept, strict=True) if line != left]
    return "\n".join(kept) + text[end:], "\n".join(over)


def _later(part: str) -> str:
    """Return the lines after the last one that says that those above it are old."""
    lines = part.split("\n")
    last = max((at for at, line in enumerate(lines) if THAT_WAS.match(line)), default=-1)
    return "\n".join(lines[last:] if last >= 0 else lines)
