"""A trial of a framework or library: one small computation with a known answer, what it printed, what it loaded.

Runs only in a child of its own (``--deep``), since it imports what belongs to others. Numbers are small whole ones, so
that products are exact in whatever a GPU may round them to (TF32, float16, bfloat16), and are compared exactly. A trial
has steps: import, compile, launch, result; the one where it failed is reported, also where the process dies or hangs.
"""

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from probes.host import Facts, Host

    Matrix = List[List[int]]

LIBRARIES = ("libcuda", "libcudart", "libcublas", "libcublasLt", "libcudnn", "libnccl", "libnvrtc", "libnvJitLink")
SIDE = 48
LENGTH, FACTOR = 256, 3
MOST_LINES = 20
MOST_TEXT = 1000
MOST_CAUSES = 5


class Ear(logging.Handler):
    """Keeps what Python's warnings and loggers say."""

    def __init__(self) -> None:
        """Record warnings and worse."""
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
    """Return the result of the work, which fills the facts as it goes; an error is reported in its own words."""
    facts: "Facts" = {"ran": False, "ok": False, "device": None, "error": None, "failed_at": None, "versions": {}}
    step(host, facts, "import")
    ear = Ear()
    logging.getLogger().addHandler(ear)
    logging.captureWarnings(capture=True)
    begun = time.monotonic()
    try:
        work(facts)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a framework raises is the answer
        facts["error"], facts["ok"] = first(error), False
        facts["words"] = "\n".join(words(error))[: 2 * MOST_TEXT]
    else:
        wrong = facts["ran"] and not facts["ok"]
        facts["failed_at"] = "result" if wrong else None
    finally:
        logging.captureWarnings(capture=False)
        logging.getLogger().removeHandler(ear)
    facts["seconds"] = round(time.monotonic() - begun, 3)
    facts["loaded"] = loaded(host)
    facts["said"] = ear.lines
    return facts


def step(host: "Host", facts: "Facts", name: str) -> None:
    """Enter a step; what fails from here on fails in it. The waiting process learns of it even if no answer comes."""
    facts["failed_at"] = name
    host.tell(name)


def variables(**wanted: str) -> None:
    """Set variables of this process that its user has not set, usually places of caches: nothing may remain."""
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def gpu(host: "Host", facts: "Facts") -> "Any":
    """Return the first GPU that CUDA shows, made current; None if there is none, and then facts say why."""
    found, why = host.shared("cuda_device.py")["find"](host)
    if found is None:
        facts["unavailable"] = why
        return None
    facts["device"], facts["device_name"] = "cuda:0", found.name()
    return found


@contextmanager
def scratch() -> "Iterator[str]":
    """Yield a folder for what a library would keep, its temporary files too; it is removed afterwards, if possible."""
    before, folder = tempfile.tempdir, tempfile.mkdtemp(prefix="gpustack-")
    tempfile.tempdir = folder
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def torch_gpu(torch: "Any", facts: "Facts") -> bool:
    """Return whether this torch can use a GPU, which facts then name; else they say why not, in its own words."""
    for name in ("cuda", "xpu"):
        module = torch.value(name)
        if module is not None and module.is_available():
            facts["device"], facts["device_name"] = name + ":0", module.get_device_name(0)
            return True
    facts["unavailable"] = "torch %s sees no GPU" % torch.value("__version__")
    return False


def first(error: BaseException) -> str:
    """Return kind and first line of what was raised: of what is behind it, where it only wraps that."""
    inner = getattr(error, "inner_exception", None)  # torch.compile
    if isinstance(inner, BaseException) and inner is not error:
        return first(inner)
    lines = [line.strip() for line in told(error).splitlines() if line.strip()]
    text = " ".join(lines[:2] if lines and lines[0].endswith(":") else lines[:1])
    return (kind(error) + text)[: 2 * MOST_TEXT]


def kind(error: BaseException) -> str:
    """Return the class of what was raised; one of ours only hands on what a library written in C answered."""
    ours = type(error).__module__.startswith("gpustack")
    return "" if ours else type(error).__name__ + ": "


def words(error: BaseException) -> "Iterator[str]":
    """Yield everything that was raised: the error itself, and its causes."""
    one: "Optional[BaseException]" = error
    for _ in range(MOST_CAUSES):
        if one is None:
            return
        yield kind(one) + told(one)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def told(error: BaseException) -> str:
    """Return the text of an error; some libraries fail to produce theirs."""
    try:
        return str(error)
    except Exception as worse:  # noqa: BLE001 - whatever came of asking, the kind is known
        return "its text cannot be read (%s)" % type(worse).__name__


def loaded(host: "Host") -> "Dict[str, List[str]]":
    """Return the files of each library mapped into this process; a file counts for the longest name it bears."""
    found: "Dict[str, List[str]]" = {}
    for name in LIBRARIES:
        own = re.compile(re.escape(name) + (r"[._-]" if name == "libcudnn" else r"[.-]"))
        paths = [path for path in host.mapped(name) if own.match(os.path.basename(path))]
        if paths:
            found[name] = paths
    return found


def matrices() -> "Tuple[Matrix, Matrix, Matrix]":
    """Return two square matrices of -1, 0 and 1, and their product, whose numbers are small enough for bfloat16."""
    span = range(SIDE)
    left = [[(row * 31 + column * 17 + row * column) % 11 % 3 - 1 for column in span] for row in span]
    right = [[(row * 5 + column * column + row * column * 3) % 13 % 3 - 1 for column in span] for row in span]
    columns = list(zip(*right))
    return left, right, [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]


def vectors() -> "Tuple[int, List[int], List[int], List[int]]":
    """Return a factor and two vectors of small whole numbers, and factor times the one plus the other."""
    left = [number % 29 - 14 for number in range(LENGTH)]
    right = [number * 7 % 31 for number in range(LENGTH)]
    return FACTOR, left, right, [FACTOR * one + other for one, other in zip(left, right)]
