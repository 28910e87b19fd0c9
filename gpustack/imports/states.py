"""States that people describe in words, and bare error numbers and names, such as "nvmlInit returned 18"."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from gpustack.imports import releases
from gpustack.imports.messages import Found
from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.matrix.subjects.messages import meanings, patterns, states, things, voids
from gpustack.matrix.subjects.ranges import squash
from gpustack.model.facts import Message, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.codes import Number
    from gpustack.matrix.subjects.messages import Meaning, Pattern

CLAUSE = re.compile(
    r"(?<=[.!?;])(?=\s|$)|,(?= )|: | (?:but|while|although|whereas|and then|so that|because|since|so) |\n"
)
SENTENCE = re.compile(r"(?<=[.!?]) ")
PRINTED = re.compile(
    r"[{}<>|=]|::|^\s*(?:\[|\$|#|>|File \"|Traceback|at )|\b[A-Z]\w+(?:Error|Exception|Warning)\b|\bNVRM\b"
    r"|^\w+ [\da-f:.]{7,12}: "
)
# Options of programs, of the kernel and its modules, variables, and what Python says of a module: parts of sentences.
PLAIN = re.compile(
    r"--[a-z]+[ =]?\w{0,10}|\b[A-Z][A-Z0-9_]{3,40} ?= ?[\w.\"']{1,40}|\b[a-z_]+[.-][a-z_]+=\w+"
    r"|\b(?:ModuleNotFound|Import)Error: ?No module named \S{1,40}"
    r"|\b[a-z_]{2,20}(?: -\w{1,8})? ?\| ?grep \S{1,40}"
    r"| [-=]>(?= )|(?<= )=(?= )"  # "6.8.0 -> llvmpipe"
    r"|^[ \t#]{0,8}\[(?i:bug|question|qst|help|issue|install\w{0,8})[\w ]{0,16}\]:?"  # of a report's title
)
# "The image is missing the headers": what is missing follows, and what comes before is there.
LACKS = re.compile(r"(?:\w+ )?(?:missing|lacks?|lacking|without) (?=(?:the|an?|its|some|any)\b|[\x60'\"/])")
# What says that not all is well, or compares: beside it a statement that the GPU works, or how fast, is no proof.
WELL, AILS, WORSE = "works-said", "ailing-said", "worse-said"
AILING = re.compile(
    r"\b(?:not|never|can(?:no|')t|nothing|crash|segfault|abort|re(?:start|boot)|fail|hangs?\b|hung|fr[eo]+z|stuck|black|dies|wrong"
    r"|garbage|gibberish|artifact|llvmpipe|broken|breaks|lost|slow|missing|disappear|kill|disabled|old "
    r"|no (?:display|picture|signal|image)|exit(?:ed)?(?: code)? \(?[1-9]|rc ?= ?[1-9]|held at)|n't\b|= FAIL\b",
    re.IGNORECASE,
)
# What the shell answers to "echo $?", after what the command itself printed.
EXITED = re.compile(r"echo \S{0,5}\$\?[^\n]{0,80}\n(?:[^\n]{0,300}\n){0,3}?(?:rc=)?[1-9]\d{0,2}$", re.MULTILINE)
COMPARED = re.compile(
    r"\b(?:now|only|but|instead|than|should|until|unless|otherwise|then|before|since|after|while|was|CPU|host|NaNs?|other"
    r"|second|first|friend\w*|another|same|throttl\w*|swap\w*|stands?|switch\w*|incorrect"
    r"|time-?outs?|error\w*|pocl|idle|datasheet|supposed|0 ?%|0\.0+ ?[kMG]?H/s)(?!\w)",
    re.IGNORECASE,
)
# What says that it was better before or elsewhere, or what a failing GPU does: what was computed proves nothing then.
DOUBTFUL = re.compile(
    r"\bsince (?:yesterday|today|this (?:morning|week)|last \w+|driver|I up(?:dat|grad)ed )|\bgestern\b"
    r"|\bsince (?:the |my )?(?:driver|kernel|BIOS) up(?:date|grade)\b|\bbefore the (?:\w+ )?(?:update|upgrade|move)\b"
    r"|\byesterday (?:it|the|this)\b|\bin the morning\b|\b(?:it|which|that|they) used to\b|\bhalved\b"
    r"|\beven after a (?:reboot|restart)\b|\bcolleague|\bof \d+ nodes\b|\w alone it (?:runs|works|is)\b"
    r"|\b(?:on|with|in) (?:the |an)other (?:card|machine|PC|node|server|box|computer)\b|\bon the other GPU\b"
    r"|\bwith (?:one|a single|only one) (?:card|GPU)\b|P2P_DISABLE=1 (?:it|the|all|everything)\b|\bstuck (?:in|at) P\d"
    r"|\b(?:at|above|below|only|to) \d{3,4} ?MHz\b|\bdraws (?:only )?\d+ ?W\b|\b\d+ ?W of \d|\bmemtest|\bpthread-"
    r"|\b(?:Slowdown|Power[ _]Cap|Power Brake):? (?:is |stays )?active\b|\bTemp(?:erature)?\W{0,3}(?:9[5-9]|1\d\d) ?°?C"
    r"|\berrors so far\b|\bevery (?:few|couple of|\d+) (?:hours|minutes|days|runs)\b|\bshows? no process"
    r"|\bat random (?:steps|times|points)\b|\brandomly (?:stops|fails|drops|dies)\b"
    r"|\b(?:it|which|they) (?:made|took|needed) (?:only )?\d|\bfor ?ever\b|@{6}"
    r"|\b(?:as|than) the (?:rest|others)\b|\bnow (?:it|they) (?:trains?|runs?|makes?|takes?|needs?)\b"
    r"|\bno (?:request|answer|output) (?:is|comes)\b|\bthen nothing\b|\bnever (?:finishes|returns|starts|answers)\b"
    r"|[率度速耗帧卡][^\n,\uff0c。]{0,10}[降掉]到 ?\d|(?:以前|之前|昨天)[^\n]{0,30}(?:现在|只要|只需)"
    r"|掉[线卡]|死机|黑屏|花屏|另一[张台]|卡住|hängt\b"
    r"|\bl'autre (?:carte|machine)|\bse (?:cuelga|reinicia)|зависа|раньше|перезагру|フリーズ|再起動|以前は",
    re.IGNORECASE,
)
COMPLAINTS = {AILS: (AILING, COMPARED), WORSE: (DOUBTFUL,)}
OLDER = "older-part-works-said"
NEAR, LONGEST, MOST_LINES, PART = 60, 1500, 300, 4  # so few words alone are a part of a message


def look(origin: str, text: str, matrix: Matrix, known: Sequence[Found]) -> tuple[Found, ...]:
    """Return the states that a person describes, each kind once, unless a message (``known``) states it."""
    kinds = {one.message.kind for one in known}
    found: dict[str, Found] = {}
    lines = [line for line in text.split("\n") if 0 < len(line) <= LONGEST and not PRINTED.search(PLAIN.sub("", line))]
    for line in lines[:MOST_LINES]:
        for sentence in SENTENCE.split(line):
            for clause in filter(None, CLAUSE.split(sentence)):
                for one in _meant(clause, matrix):
                    if one.message not in kinds and one.fits(sentence, line):
                        found.setdefault(one.message, _stated(one.message, line, origin, matrix))
    printed = {one.message.line for one in known if one.whole and not one.row.stated}
    own = [line for line in lines if line not in printed and (len(lines) > 1 or len(line.split()) > PART)]
    ailing = any(AILING.search(line) for line in own)
    for kind, words in COMPLAINTS.items():
        if word := next((said for line in own for one in words if (said := one.search(line))), None):
            found[kind] = _stated(kind, word[0], origin, matrix)
    if exited := EXITED.search(text):
        found.setdefault(AILS, _stated(AILS, exited[0].partition("\n")[0], origin, matrix))
    if OLDER not in kinds and (line := releases.older("\n".join(own), matrix)):
        found[OLDER] = _stated(OLDER, line, origin, matrix)
    return tuple(one for kind, one in found.items() if kind != WELL or not ailing)


def _meant(clause: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield the statements of a clause about the present: a thing and a state near each other."""
    spoken = {one.name: found for one in things(matrix) if (found := one.compiled().search(clause))}
    clause_states = ((one.name, one.compiled().search(clause)) for one in states(matrix)) if spoken else ()
    held = {
        name: found for name, found in clause_states if found and clause[: found.start()][-1:] != "-"
    }  # gpu-overheat
    void = {one.name for one in voids(matrix) if one.compiled().search(clause)} if held else set()
    for one in meanings(matrix):
        thing, state = spoken.get(one.thing), held.get(one.state)
        if (
            void <= {one.despite}
            and thing
            and state
            and max(thing.start(), state.start()) - min(thing.end(), state.end()) <= NEAR
            and (thing.start() > state.start() or not LACKS.match(clause, state.start()))
        ):
            yield one


def _stated(kind: str, line: str, origin: str, matrix: Matrix) -> Found:
    """Return what a person states as the equivalent message, with what such a message always implies."""
    row = _row(kind, matrix)
    said = Message(kind=kind, line=" ".join(line.split()), origin=origin, values=row.values, strength=Strength.STATED)
    return Found(said, row, whole=False)


def _row(kind: str, matrix: Matrix) -> Pattern:
    return next(row for row in patterns(matrix) if row.kind == kind)


# The words of a row between its placeholders.
PLACE = re.compile(r"\{[^{}]*\}")
SHORT, LEAST = 300, 18  # a text that may be a part of a message, and the letters of that part


def cut(origin: str, text: str, matrix: Matrix) -> tuple[Found, ...]:
    """Return the message of which a short text is a part, cut at its start or end, if its rows lead to one finding."""
    lines = [(one.strip(), squash(one)) for one in text.split("\n")] if len(text) <= SHORT else []
    found: dict[str, Found] = {}
    for line, said in lines:
        fitting = [row for row, part in _parts(matrix) if said in part] if len(said) >= LEAST else []
        if len({row.finding for row in fitting}) == 1:
            row = fitting[0]
            message = Message(kind=row.kind, line=line, origin=origin, values=row.values, strength=Strength.STATED)
            found[row.kind] = Found(message, row, whole=False)
    return tuple(found.values())


@cache
def _parts(matrix: Matrix) -> tuple[tuple[Pattern, str], ...]:
    """Return the rows that lead to a finding, each with the long parts of its texts, without spaces and signs."""
    rows = [one for one in patterns(matrix) if one.text and one.finding]
    parts = ((row, part) for row in rows for one in row.text for part in PLACE.split(one) if len(part) >= LEAST)
    return tuple((row, squash(part)) for row, part in parts)


# A library, by its name or a function's, and the number that it returns.
ANSWERED = re.compile(
    r"(?<![\w./-])(?:(?P<nvml>nvml[A-Z]\w{2,60}|pynvml|NVML(?:Error|_ERROR)?)|(?P<cudnn9>cudnn[A-Z]\w{2,60}|cuDNN)"
    r"|(?P<cuda>cu(?:da)?[A-Z]\w{2,60}|CUDA(?: (?:driver|runtime))?))(?:\([^()\n]{0,60}\))?"
    r"(?:[ \t:=()>,-]|\b(?:init(?:iali[sz]ation)?|call|API|error|err|code|status|number|rc|ret|result"
    r"|return(?:ed|s|ing)?|gives?|gave|got|with|is|was|of|an?|failed|fails|failing|answer(?:s|ed)?|threw|raised)\b){1,14}"
    r"(?P<number>\d{1,4})(?![\w%]|[.,]\d| ?(?:GPU|device|card|MiB|MB|GB|byte|time|second|minute|hour|core|thread)s?\b)"
)
# The same in reverse order: "[802] Call to cuInit results in …".
BEFORE_CALL = re.compile(
    r"\[(?P<number>\d{1,4})\] (?:Call to|call to) (?:(?P<nvml>nvml[A-Z]\w{2,60})|(?P<cuda>cu[A-Z]\w{2,60}))"
)
ALONE = re.compile(r"\s*nvml(?: code| error)? ?[:=]? ?(?P<number>\d{1,3})\s*", re.IGNORECASE)
# A number after a word for an error, in a line about CUDA, or one too large for anything else.
AS_ERROR = re.compile(
    r"(?<!exit )(?<!http )\b(?:error|errno|failure|code|status)"
    r"(?: (?:code|number|with|is|was|of|error)){0,3}[ :=#(]{1,4}"
    r"(?P<number>\d{1,4})(?!\w|[.,]\d|%)",
    re.IGNORECASE,
)
TELLING = frozenset({"802", "803", "804"})
SHORTEST, LONGEST_CODED, MOST = 8, 300, 20  # letters of a name not written as in the header: "driver not loaded"
NOT_HERE = re.compile(r"\b(?:no|without|never|not|isn't|instead of|fixed|solved) ?(?:any )?$", re.IGNORECASE)
ANSWERING = re.compile(
    r"error|\berr\b|code|status|\brc\b|\bret\b|result|return|fail|=|->|gives|gave|\bgot\b|answer|raised|threw",
    re.IGNORECASE,
)


def codes(origin: str, text: str, matrix: Matrix, known: Sequence[Found]) -> tuple[Found, ...]:
    """Return what error numbers and names mean, each kind once, unless a message (``known``) already states it."""
    kinds = {one.message.kind for one in known}
    found: dict[str, Found] = {}
    for line in text.split("\n"):
        if len(found) >= MOST:
            break
        for code in _read(line[:LONGEST_CODED], matrix):
            if code.message and code.message not in kinds and code.message not in found:
                found[code.message] = _coded(code, " ".join(line[:LONGEST_CODED].split()), origin, matrix)
    return tuple(found.values())


def _read(line: str, matrix: Matrix) -> Iterator[Number]:
    """Yield the numbers with their own message that a line gives, by number or by name."""
    for match in ANSWERED.finditer(line):
        if ANSWERING.search(line, match.start(), match.start("number")) and not NOT_HERE.search(line[: match.start()]):
            family = next(name for name in ("nvml", "cudnn9", "cuda") if match[name])
            yield from _of(family, matrix, int(match["number"]))
    for match in AS_ERROR.finditer(line):
        if "cuda" in line.lower() or match["number"] in TELLING:
            yield from _of("cuda", matrix, int(match["number"]))
    if alone := ALONE.fullmatch(line):
        yield from _of("nvml", matrix, int(alone["number"]))
    for match in BEFORE_CALL.finditer(line):
        yield from _of("nvml" if match["nvml"] else "cuda", matrix, int(match["number"]))
    if "nvml" in line.lower():
        said = squash(line)
        yield from (one for one in _of("nvml", matrix) if len(_plain(one)) >= SHORTEST and _plain(one) in said)


def _of(family: str, matrix: Matrix, number: int | None = None) -> Iterator[Number]:
    table = next(one for one in FAMILIES if one.id == family)
    return (one for one in numbers(matrix, table) if one.message and number in {None, one.number})


def _plain(code: Number) -> str:
    """Return a squashed name without its prefix: NVML_ERROR_DRIVER_NOT_LOADED is drivernotloaded."""
    return squash(code.name.partition("ERROR_")[2])


def _coded(code: Number, line: str, origin: str, matrix: Matrix) -> Found:
    row = _row(code.message or "", matrix)
    values = {**row.values, "code": str(code.number)}
    return Found(Message(kind=row.kind, line=line, origin=origin, values=values), row, whole=False)
