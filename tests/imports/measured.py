"""Measures every expression of the project on every text, and stores the hashes of those that are not slow.

``GPUSTACK_WIDE=1 python -m tests.imports.measured``, as ``nox -s wide`` does. A slow one gets no hash: CI still fails.
"""

from __future__ import annotations

import sys

from tests.imports.test_linear import MEASURED, mark, measurable, slow


def main() -> int:
    """Write the hashes; return how many expressions are too slow."""
    found = {one: slow(one) for one in measurable()}
    MEASURED.write_text("".join(f"{one}\n" for one in sorted({mark(one) for one in found if not found[one]})), "ascii")
    for one, grown in found.items():
        if grown:
            sys.stdout.write(f"{one.place}: {grown}\n")
    return sum(map(bool, found.values()))


if __name__ == "__main__":
    sys.exit(main())
