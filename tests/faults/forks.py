"""Answers as a probe's child does, once per plan: each in its own fork, so that each loads the stand-in again.

A program, started as gpustack starts its probes; its instructions are in a file: where the probes are, their rows,
the path to nvidia-ml-py, and the plans (environment variables). For each plan it prints what that fork printed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any


def main(told: dict[str, Any]) -> None:
    """Print an answer per plan, in their order."""
    names: dict[str, Any] = {"__name__": "gpustack_probes", "__file__": told["probes"]}
    with open(told["probes"], encoding="utf-8") as source:  # noqa: PTH123 - bare, as a probe is
        exec(compile(source.read(), told["probes"], "exec"), names)  # noqa: S102 - our own runner of probes
    warm(names, told)
    gc.disable()  # it would touch, and so copy, the memory that the forks share
    for plan in told["plans"]:
        print(json.dumps(answered(names, told, plan)), flush=True)  # noqa: T201 - its answer


def warm(names: dict[str, Any], told: dict[str, Any]) -> None:
    """Compile and import what every fork would; no library is loaded yet."""
    sys.path += told["path"]
    importlib.import_module("pynvml")
    host = names["load"]("host.py")["Host"]()
    for row in told["rows"]:
        names["load"](row["probe"])
    for shared in ("nvml.py", "nvidia.py", "loader.py", "elf.py"):
        host.shared(shared)


def answered(names: dict[str, Any], told: dict[str, Any], plan: dict[str, str]) -> str:
    """Return what the probe runner prints in a fork of its own with this plan."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 1)
        os.environ.update(plan)
        code = names["main"]([json.dumps({"rows": told["rows"], "path": told["path"]})])
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as handle:  # noqa: PTH123 - the same
        main(json.load(handle))
