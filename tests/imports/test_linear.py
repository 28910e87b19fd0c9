"""No expression and no reader takes too long: a text twice as long takes twice as long, no longer.

Every expression of the project is tried on texts made from itself (``pumps.py``), every reader on long lines.
An expression that was measured in its current form has its hash in ``measured.txt``: CI measures all that have none,
which are those that were added or changed, and one in 256 of the others; ``GPUSTACK_WIDE=1`` measures all, on many
more texts, and ``python -m tests.imports.measured`` does that and writes the hashes.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import pytest

from gpustack.imports import messages, own_reports, sifting, texts
from gpustack.imports.gathered import Gathered
from gpustack.imports.texts import LAYOUTS, READERS, take
from gpustack.matrix import Matrix
from tests.imports.expressions import FROM_ELSEWHERE, Expression, calls, in_modules, in_rows
from tests.imports.pumps import BAD, Pump, doubtful, pumps
from tests.wide import WIDE, sample, wide

MATRIX = Matrix()
MOST_EXPONENT, MOST_SECONDS, MEGABYTE = 1.2, 2.0, 1_000_000
LENGTHS, USUAL, LONGEST = (20, 256, 3072, 12_288), 3072, 100_000  # letters of the texts that an expression is tried on
NOISE, QUICK, ENOUGH = 0.002, 0.0003, 0.5  # seconds: worth a second measurement, no longer text, no need for more
LOOKS = 1000 if WIDE else 4  # of the pumps that take long, how many of the slowest are measured again
PARTS = 8 if WIDE else 1  # the expressions are divided among this many tests, which run in parallel
MEASURED = Path(__file__).with_name("measured.txt")
# What is tried on names of at most 200 letters, or on examples of ours; test_redaction_forms.py has the forms.
SHORT = frozenset({"gpustack.redaction.form", "gpustack/redaction/form.py"})


@cache
def expressions() -> tuple[Expression, ...]:
    """Return every expression once for each way in which it is used."""
    found = {(one.pattern, one.anchored): one for one in (*in_modules(), *in_rows(MATRIX))}
    return tuple(found.values())


def seconds(work: Callable[[], object], rounds: int = 1) -> float:
    """Return the minimum CPU time of several runs; other processes cannot lengthen it much."""
    least = math.inf
    for _ in range(rounds):
        begun = time.process_time()
        work()
        least = min(least, time.process_time() - begun)
    return least


def exponent(work: Callable[[int], object], length: int, longest: int = LONGEST) -> float:
    """Return the power of its length with which a text's time finally grows; bounds let it grow faster at first."""
    before, found = seconds(partial(work, length), 3), 0.0
    while length * 2 <= longest:
        length *= 2
        now = seconds(partial(work, length), 2)
        found = math.log2(now / before) if before > 0 else 0.0
        if now > NOISE and (found <= MOST_EXPONENT or now * 2**found > ENOUGH):  # a longer one would take too long
            return found
        before = now
    return found if before > NOISE else 0.0


def slow(one: Expression, tried: Sequence[Pump] = ()) -> tuple[float, str] | None:
    """Return the exponent and the pump on which an expression takes too long."""
    took: list[tuple[float, int, Pump]] = []
    for pump in tried or pumps(one.pattern, every=WIDE):
        for length in LENGTHS:  # what takes long on a short text may take forever on a longer one
            spent = seconds(partial(one.run, pump.text(length)))
            if spent >= NOISE * max(1.0, length / USUAL):
                took.append((spent / length, length, pump))
            if spent >= NOISE or (length == USUAL and spent < QUICK):
                break
    for _, length, pump in sorted(took, reverse=True)[:LOOKS]:
        measure = partial(exponent, lambda letters: one.run(pump.text(letters)), length // 2)  # noqa: B023 - at once
        if (found := measure()) > MOST_EXPONENT and (found := min(found, measure())) > MOST_EXPONENT:
            return round(found, 2), f"{pump.before[-30:]!r} {pump.piece[-30:]!r} {pump.after!r}"
    return None


def measurable() -> tuple[Expression, ...]:
    """Return the expressions that are measured here."""
    return tuple(one for one in expressions() if one.place.partition(":")[0] not in SHORT)


def mark(one: Expression) -> str:
    """Return the hash of an expression and how it is used: a different one has a different hash."""
    pattern, flags = one.pattern.pattern, one.pattern.flags
    said = pattern if isinstance(pattern, bytes) else pattern.encode("utf-8", "surrogatepass")
    return sha256(b"%d %d %b" % (flags, one.anchored, said)).hexdigest()[:12]


def chosen() -> tuple[Expression, ...]:
    """Return those that are measured in this run."""
    known = frozenset(MEASURED.read_text("ascii").split())
    return tuple(one for one in measurable() if WIDE or mark(one) not in known or int(mark(one), 16) % 256 == 0)


@wide
@pytest.mark.timeout(0 if WIDE else 300)
@pytest.mark.parametrize("part", range(PARTS))
def test_twice_as_long_a_text_takes_an_expression_twice_as_long(part: int) -> None:
    """In CI new ones and a sample of the others, ``GPUSTACK_WIDE=1`` all of them."""
    assert len(measurable()) > 1200
    tried = chosen()[part::PARTS]
    assert {f"{one.place}: {one.pattern.pattern!r:.80}": found for one in tried if (found := slow(one))} == {}


def test_an_expression_that_is_written_or_changed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above is for: a slow expression that nobody measured is found, whatever the sample is."""
    new = Expression(place="gpustack/new.py:1", pattern=re.compile(r"new[^\n]*x"))
    monkeypatch.setattr(sys.modules[__name__], "expressions", lambda: (new,))
    assert chosen() == (new,)
    assert slow(new) is not None


def test_no_endless_repeat_is_in_another_or_beside_one_of_the_same_letters() -> None:
    assert {one.place: found for one in expressions() if (found := doubtful(one.pattern))} == {}


@pytest.mark.parametrize(
    ("expression", "pump"),
    [
        (r"(?:a+)+b", "a"),
        (r"^[ \t]*[ \t]+:", " "),
        (r"/h[^\n]*x", "/h "),
    ],
)
def test_the_measure_finds_expressions_that_are_known_to_be_slow(expression: str, pump: str) -> None:
    known = Expression(place="", pattern=re.compile(expression))
    tried = [one for one in pumps(known.pattern, every=False) if one.piece == pump]
    assert tried
    assert any(slow(known, tried[:1]) for _ in range(6))  # once more, while the machine is busy


@pytest.mark.parametrize("expression", [r"(?:a+)+", r"(?:a*b?)*", r"[ \t]*\s*:", r"\w+\d*", r"\d+(?:\.\d+)?\d*"])
def test_the_eye_finds_repeats_that_share_their_letters(expression: str) -> None:
    assert doubtful(re.compile(expression))


def test_every_call_whose_expression_comes_from_elsewhere_is_one_that_there_is() -> None:
    assert FROM_ELSEWHERE.keys() <= set(calls())


def _reader(read: Callable[[str, str, Gathered], None]) -> Callable[[str], object]:
    return lambda text: read("a", text, Gathered())


WORDS = (
    *("Linux a 5.15.0", "[conda] a 0 ", "Package    Version\n---- ----\n", "NVRM: Xid (PCI:0000:01:00): ", "GPU 0: "),
    *(
        "CUDA error: ",
        "ROCm Version: ",
        "import torch ",
        "torch==",
        "pip list ",
        "conda list |grep ",
        "nvcc ",
        "uname ",
    ),
    *("PyTorch version: ", "driver 535.1, CUDA ", "| N/A 30C | ", "Marketing Name: ", "uid=0(", "error: lib", "sudo "),
    *("export LD_LIBRARY_PATH=", "[opencl:gpu:0] Intel, ", "Is CUDA available", "gpustack ", "::error ", "/home/a/"),
    *("--token ", "DKMS make.log for nvidia", "secure boot ", "headers ", "does not ", "Name: torch\nVersion: "),
)
LETTERS = (" ", "\t", "a", "1", ".", "-", "/", ":", "=", "|", "<", "\\", '"', "'", "(", "[", "{", "_", "A ", "0.", "\n")
ODD = ("\u4e2d", "e\u0301", "\x1b[31m", "\x1b]0;", "\u202e", "\u3164", "\U0001f600", "\r", "a b ", "a=b,", "1, ")
READS: dict[str, Callable[[str], object]] = {
    **{f"{one.__module__}": _reader(one) for one in (*READERS, *LAYOUTS)},
    "messages": lambda text: messages.look("a", messages.clean(text), MATRIX),
    "own reports": lambda text: own_reports.part("a", text),
    "pip inspect": own_reports.told,
    "whereabouts": sifting.own,
    "indented": messages.laid,
    "spoken": messages.spoken,
    "all": lambda text: take([("a", text)], MATRIX),
}


@wide
@pytest.mark.parametrize("name", READS)
def test_twice_as_long_a_line_takes_a_reader_twice_as_long(name: str) -> None:
    """Up to the longest line that a reader gets; a text of many such lines takes that many times as long.

    In CI one in five pieces, other ones for each reader; ``GPUSTACK_WIDE=1`` takes all of them.
    """
    grown: dict[str, float] = {}
    for _, piece in sample(((name, piece) for piece in (*WORDS, *LETTERS, *ODD)), 5):
        for text in (Text("x\n", piece), *(Text(f"\n{piece}", one) for one in (" ", "1", "a") if len(piece) > 2)):
            if seconds(lambda: READS[name](text.of(4000))) > NOISE * 4:  # noqa: B023 - called at once
                found = exponent(lambda length: READS[name](text.of(length)), 1000, 4 * texts.LONGEST)  # noqa: B023
                if found > MOST_EXPONENT:
                    grown[repr((text.before, text.piece))] = round(found, 2)
    assert grown == {}


class Text:
    """Lines as long as any that a reader gets, made of one piece."""

    def __init__(self, before: str, piece: str) -> None:
        """Keep the beginning and the repeated part."""
        self.before, self.piece = before, piece

    def of(self, length: int) -> str:
        """Return the text of this length."""
        whole = self.before + self.piece * (length // len(self.piece))
        rows = (whole[at : at + texts.LONGEST] for at in range(0, len(whole), texts.LONGEST))
        return "\n".join(rows) + BAD
