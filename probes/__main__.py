"""Run probes and print what they saw, one JSON line each: ``python probes [ID …]``, with or without gpustack.

What follows on the command line is a list of ids from ``catalogue.json`` (none: all that suit this Python), or one JSON
object ``{"rows": […], "deep": false, "root": "/", "seconds": 5}``, which is how gpustack asks; a trial (``deep``) says
its steps too where ``"steps": true`` wants them (``{"at": ID, "step": "compile"}``); an unpacked image has ``"image":
{"environ": {…}, "interpreter": {…}}`` beside its root, and is read alone (``inert.py``). Every probe is announced
(``{"at": ID}``) before it runs, so that the waiting process knows which one hung. Answers go to a private copy of
standard output; whatever a library prints goes to standard error. Standard library and Python 3.8 syntax only.
"""

import os
import sys

# A target's Python searches PYTHONPATH before its own library, and a json.py there must not be imported here. So its
# library is moved to the front; the order of everything else, which decides which framework is found, stays.
STANDARD = os.path.dirname(os.__file__)
sys.path.sort(key=lambda entry: entry not in (STANDARD, os.path.join(STANDARD, "lib-dynload")))

import json  # noqa: E402 - see above
import time  # noqa: E402
from functools import lru_cache, partial  # noqa: E402
from importlib.machinery import SourceFileLoader  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Callable, Dict, List, Type

    from probes.host import Host

HERE = os.path.dirname(os.path.abspath(__file__))


@lru_cache(maxsize=None)  # rows share probes, and compiling one takes as long as running many
def load(name: str) -> "Dict[str, Any]":
    """Return the names that a file of this folder defines, without making it importable for others."""
    path = os.path.join(HERE, name)
    names = {"__name__": "gpustack_probe", "__file__": path}
    exec(compiled(path), names)  # noqa: S102 - our own file, run as the program that it is
    return names


def compiled(path: str) -> "CodeType":
    """Return the code of a file: as an installer compiled it for this Python, else compiled now and not kept."""
    loader = SourceFileLoader("gpustack_probe", path)
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        code = loader.get_code("gpustack_probe")
    except (EOFError, TypeError, ValueError):  # the cached code is damaged
        code = None
    finally:
        sys.dont_write_bytecode = kept
    return code or loader.source_to_code(loader.get_data(path), path)


def catalogue() -> "List[Dict[str, Any]]":
    """Return every row of the catalogue."""
    with open(os.path.join(HERE, "catalogue.json"), encoding="utf-8") as lines:
        return list(json.load(lines)["systems"])


def ask(row: "Dict[str, Any]", make_host: "Callable[[], Host]", function: str) -> "Dict[str, Any]":
    """Return one probe's answer: its result or its failure, with what it examined and how long that took."""
    host = make_host()
    host.row = row
    begun = time.monotonic()
    answer = {"id": row["id"], "status": "present", "instances": []}
    try:
        seen = load(row.get(function, row["probe"]))[function](host)
    except Exception as error:  # noqa: BLE001 - a probe that fails is an answer, and every other answer stands
        unread = getattr(error, "unread", False)  # of inert.py
        said = str(error) if unread else "%s: %s" % (type(error).__name__, error)
        answer.update(status="unknown" if unread else "failed", reason=said)
    else:
        if seen is None:
            answer["status"] = "absent"
        elif isinstance(seen, str):
            answer.update(status="not-applicable", reason=seen)
        else:
            answer["instances"] = seen if isinstance(seen, list) else [seen]
            if not answer["instances"]:
                answer["status"] = "absent"
    answer.update(seconds=round(time.monotonic() - begun, 6), log=host.log[-400:], calls=host.calls[-400:])
    return answer


def job(arguments: "List[str]") -> "Dict[str, Any]":
    """Return the request: gpustack's own object, or ids by name."""
    if len(arguments) == 1 and arguments[0].startswith("{"):
        return dict(json.loads(arguments[0]))
    rows = [row for row in catalogue() if row["id"] in arguments or not arguments]
    return {"rows": rows}


def main(arguments: "List[str]") -> int:
    """Answer everything requested, in order."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    asked = job(arguments)
    if asked.get("bound"):
        load("children.py")["bind"](asked["bound"])
    host: "Type[Host]" = load("host.py")["Host"]
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath(HERE)]
    sys.path += [entry for entry in asked.get("path", ()) if entry not in sys.path]

    kept: "Dict[str, Any]" = {}
    image = asked.get("image")
    if image:
        host = load("inert.py")["inert"](host, image.get("interpreter"))

    def make_host(step: "Callable[[str], object]") -> "Host":
        made = host(asked.get("root", "/"), image["environ"] if image else None, asked.get("seconds", 5.0))
        made.environment = asked.get("environment")
        made.kept, made.tell = kept, step
        return made

    def say(line: "Dict[str, Any]") -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    for row in asked["rows"]:
        say({"at": row["id"]})
        step = partial(lambda name, step: say({"at": name, "step": step}), row["id"]) if asked.get("steps") else str
        say(ask(row, partial(make_host, step), "exercise" if asked.get("deep") else "probe"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
