"""A framework tried for real: one small computation with a known answer, what it said, and which files it loaded.

Runs only in a child of its own (``--deep``), since it imports what belongs to others. Numbers are small whole ones, so
that products are exact in whatever a GPU may round them to (TF32, float16, bfloat16), and are compared exactly.
"""

import logging
import os
import re
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Tuple

    from probes.host import Facts, Host

    Matrix = List[List[int]]

LIBRARIES = ("libcuda", "libcudart", "libcublas", "libcublasLt", "libcudnn", "libnccl", "libnvrtc", "libnvJitLink")
SIDE = 48
MOST_LINES = 20
MOST_TEXT = 1000


class Ear(logging.Handler):
    """Keeps what Python's warnings and loggers say."""

    def __init__(self) -> None:
        """Listen from warnings up."""
        super().__init__(logging.WARNING)
        self.lines: "List[str]" = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message, once, and pass it on: should the process die, its last line is all that is left."""
        cause = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + (": %s: %s" % (type(cause).__name__, cause) if cause else "")
        line = " ".join(text.split())[:MOST_TEXT]
        if line not in self.lines and len(self.lines) < MOST_LINES:
            self.lines.append(line)
            sys.stderr.write(line + "\n")


def run(host: "Host", work: "Callable[[Facts], None]") -> "Facts":
    """Give what came of the work, which fills the facts as it goes; an error is told in its own words."""
    facts: "Facts" = {"ran": False, "ok": False, "device": None, "error": None, "versions": {}}
    ear = Ear()
    logging.getLogger().addHandler(ear)
    logging.captureWarnings(capture=True)
    begun = time.monotonic()
    try:
        work(facts)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a framework raises is the answer
        facts["error"] = ("%s: %s" % (type(error).__name__, error))[: 2 * MOST_TEXT]
        facts["ok"] = False
    finally:
        logging.captureWarnings(capture=False)
        logging.getLogger().removeHandler(ear)
    facts["seconds"] = round(time.monotonic() - begun, 3)
    facts["loaded"] = loaded(host)
    facts["said"] = ear.lines
    return facts


def loaded(host: "Host") -> "Dict[str, List[str]]":
    """Give the files of each library that are mapped into this process; a file counts for the longest name it bears."""
    found: "Dict[str, List[str]]" = {}
    for name in LIBRARIES:
        own = re.compile(re.escape(name) + (r"[._-]" if name == "libcudnn" else r"[.-]"))
        paths = [path for path in host.mapped(name) if own.match(os.path.basename(path))]
        if paths:
            found[name] = paths
    return found


def matrices() -> "Tuple[Matrix, Matrix, Matrix]":
    """Give two square matrices of -1, 0 and 1, and their product, whose numbers are small enough for bfloat16."""
    span = range(SIDE)
    left = [[(row * 31 + column * 17 + row * column) % 11 % 3 - 1 for column in span] for row in span]
    right = [[(row * 5 + column * column + row * column * 3) % 13 % 3 - 1 for column in span] for row in span]
    columns = list(zip(*right))
    return left, right, [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]
