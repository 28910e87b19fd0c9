"""What is printed while something runs, also by C code: some libraries report failures only on standard error."""

import os
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List

TEXT = 1 << 16


def heard(work: "Callable[[], Any]", lines: "List[str]") -> "Any":
    """Return the result of the work; what it prints, also from C code, is appended to the lines.

    A provider that cannot be loaded is reported on standard error alone.
    """
    try:
        paper = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the with below, which may not hold this error
    except OSError:  # nowhere to write: lost output is better than a failed trial
        return work()
    with paper:
        _flush()
        kept = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(paper.fileno(), number)
        try:
            return work()
        finally:
            _flush()
            for number, held in zip((1, 2), kept):
                os.dup2(held, number)
                os.close(held)
            paper.seek(max(0, paper.seek(0, os.SEEK_END) - TEXT))
            said = paper.read(TEXT).decode("utf-8", "replace").splitlines()
            lines += [line[:1000] for line in said if line.strip()][-20:]


def _flush() -> None:
    """Flush Python's buffers."""
    sys.stdout.flush()
    sys.stderr.flush()
