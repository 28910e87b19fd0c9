"""Where our own code is imported from, here and in children: never from the current working folder.

Python puts the working folder (``python -m gpustack``) or the script's folder first, and then what PYTHONPATH names,
all before its own library: a ``json.py`` there would be taken for Python's. So everything before the standard library
is dropped. If gpustack itself is in one of these folders, it was installed that way: they are then kept after the
standard library, without the working folder. Nothing but ``os``, ``sys`` and ``time``, which need no path, is imported.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What a child of ours runs: the folders to import from, the module, and what is left as its arguments.
PROGRAM = """\
import json, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
LISTS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")  # an empty entry of theirs is the working folder
LATEST = (1 << 63) - 1  # nanoseconds since 1970
OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def path() -> list[str]:
    """Return the folders to import from."""
    whole = [entry for entry in sys.path if os.path.isabs(entry)]
    standard = os.path.dirname(os.__file__)
    if standard not in whole:
        return whole
    begins = whole.index(standard)
    front, rest = whole[:begins], whole[begins:]
    if OWN not in front:
        return rest
    compiled = 1 + (os.path.join(standard, "lib-dynload") in rest)
    kept = [entry for entry in front if entry == OWN or entry != here()]
    return [*rest[:compiled], *kept, *rest[compiled:]]


def settle() -> None:
    """Import only from these folders from now on."""
    sys.path[:] = path()


def argv(module: str) -> tuple[str, ...]:
    """Return the command that starts a module in an isolated Python: variables and the working folder are ignored."""
    import json  # noqa: PLC0415 - this module is imported before it is settled where from

    return (sys.executable, "-I", "-c", PROGRAM, json.dumps(path()), module)


def absolute(environ: "Mapping[str, str]") -> dict[str, str]:
    """Return a child's variables, with search paths stripped of entries that lead to the working folder."""
    kept = dict(environ)
    for name in LISTS:
        entries = kept.pop(name, "").split(os.pathsep)
        if whole := os.pathsep.join(entry for entry in entries if os.path.isabs(entry)):
            kept[name] = whole
    return kept


def here() -> str | None:
    """Return the working folder, or None if it is deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def hold_clock() -> None:
    """Stop the clock at the last moment that Python supports, if it is later: from April 2262 on.

    Python raises OverflowError for later times, and logging and recording need one.
    """
    try:
        time.time()
    except OverflowError:
        vars(time).update(time=lambda: LATEST / 1e9, time_ns=lambda: LATEST)
