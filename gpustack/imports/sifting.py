"""Large inputs reduced: logs of many megabytes repeat themselves, and mention a fault once."""

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
        *(
            "nvrm",
            "xid",
            "nvidia-smi",
            "nvidia unix",
            "nvidia:",
            "driver version",
            "nvml",
            "nvswitch",
            "fabric manager",
        ),
        *(
            "cuda error",
            "cuda driver",
            "cuda version",
            "libcuda",
            "cudart",
            "cudnn",
            "cublas",
            "nccl warn",
            "nvjitlink",
        ),
        *(
            "compute capability",
            "no kernel image",
            "ptxas",
            "nvcc fatal",
            "undefined symbol",
            "cannot open shared object",
        ),
        *("not found (required by", "error:", "fatal:", "traceback (most", "is not compatible", "mismatch", "version:"),
        *("amdgpu", "/dev/kfd", "hsa_status", "gfx9", "gfx10", "gfx11", "gfx12", "rocm", "hip error", "level_zero"),
        *("key was rejected", "dkms", "bad return status", "nouveau", "torch==", "torch version", "out of memory"),
        *(
            "permission denied",
            "docker: error",
            "nvidia-container",
            "oci runtime",
            "no space left",
            "bus error",
            "iommu",
        ),
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
