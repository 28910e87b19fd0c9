"""Read pasted texts of growing size: ``python benchmarks/pasted.py``.

A log, a conversation and deliberately slow lines are each read at ``--least`` MB and at twice that, and so on up to
``--most`` (100): the time per line may not grow by more than ``GROWS`` from one size to the next. The slow lines are
every text of a message without its last word, in lines and as one line: what nearly matches takes longest.
``--json FILE`` saves the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from itertools import pairwise
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from gpustack.imports import load_texts  # noqa: E402 - of this checkout
from gpustack.matrix import Matrix  # noqa: E402 - of this checkout
from gpustack.matrix.subjects.messages import rows  # noqa: E402 - of this checkout

MB, GROWS, NOISE = 1_000_000, 1.5, 0.5  # bytes; factor; seconds that are too few to compare
TEXTS = {
    "log": "[ 12.345678] NVRM: Xid (PCI:0000:3b:00): {n}, pid=1, name=python, Ch 00000008\n",
    "conversation": "I removed the riser {n} times, the card was never hot, but nvidia_uvm is not loaded. Why?\n",
    "commands": "$ pip install vllm==0.{n}.3 torch=={n}.1.2 --index-url https://example.org/whl/cu{n}\n",
    "codes": "cuInit(0) = {n}, nvmlInit failed with return code {n}, CUDA error {n} " * 20 + "\n",
    "tables": "|   {n}  Tesla T4  On | 00000000:1B:00.0 Off |  0 |\n| N/A 41C P0 98W | {n}MiB / 81559MiB |\n",
    "environments": "Nvidia driver version: 570.{n}.20\n[pip3] torch==2.{n}.0\nIs CUDA available: True\nGPU 0: T4\n",
    "sessions": ">>> torch.cuda.is_available()\nTrue\n>>> torch.ones({n}).cuda()\ntensor([1.], device='cuda:0')\n",
    "other makers": "  Name:  gfx{n}\n[level_zero:gpu][level_zero:0] Intel(R) Arc(TM) A770 Graphics 1.3 [1.3.{n}]\n",
    "one line": "GPU 0 driver {n} was old; ",
    "spaces": "error:                                        CUDA -> -> -> = = ( ( ( code code code {n}\n",
}


JOINED = {"nearly messages": "\n", "nearly one line": " "}


def nearly() -> tuple[str, ...]:
    """Return every text of a message without its last word, its placeholders filled in."""
    texts = (re.sub(r"\{[^{}]*\}", "1.2.3-a/b:c", text) for row in rows(Matrix()) for text in row.text)
    return tuple(text.rpartition(" ")[0] for text in texts)


def text(kind: str, size: int) -> bytes:
    """Return a text of this kind and size in bytes."""
    if kind in JOINED:
        piece = JOINED[kind].join((*nearly(), "")).encode()
    else:
        piece = "".join(TEXTS[kind].format(n=number % 997) for number in range(2000)).encode()
    return (piece * (size // len(piece) + 1))[:size]


def seconds(kind: str, size: int, matrix: Matrix) -> tuple[float, int]:
    """Return the processor time that reading takes, and the number of lines."""
    data = text(kind, size)
    begun = time.process_time()
    load_texts({"pasted.txt": data}, matrix)
    return time.process_time() - begun, data.count(b"\n") + 1


def main() -> int:
    """Measure each kind; return how many take more time per megabyte as they get longer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    matrix, figures, slow = Matrix(), {}, 0
    seconds("log", MB // 10, matrix)  # tables and expressions are built once
    for kind in (*TEXTS, *JOINED):
        took: dict[int, tuple[float, int]] = {}
        size = given.least
        while size <= given.most:
            took[size] = seconds(kind, size * MB, matrix)
            size *= 2
        rates = [(spent / size, spent) for size, (spent, _) in took.items()]  # lines of a kind are equally long
        grown = [b[0] / a[0] for a, b in pairwise(rates) if a[1] > NOISE]
        slow += any(one > GROWS for one in grown)
        figures[kind] = {f"{size} MB": round(spent, 2) for size, (spent, _) in took.items()}
        shown = (f"{size:5} MB {1e6 * spent / lines:12.2f}" for size, (spent, lines) in took.items())
        print(f"{kind:16}", *shown, " microseconds a line", flush=True)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return slow


if __name__ == "__main__":
    sys.exit(main())
