"""Collect a snapshot from every node through the site's own launcher; a dead node costs only its own answer."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.fleet import nodes
from gpustack.model import record, writing
from gpustack.model.reading import frozen

if TYPE_CHECKING:
    from gpustack.fleet.launching import Reach

SNAPSHOT, BENCH = "gpustack.snapshot/1", "gpustack.bench/1"
ASKED = {SNAPSHOT: ("snapshot",), BENCH: ("bench", "--quick", "--format", "json")}
SUFFIX = {SNAPSHOT: "", BENCH: ".bench"}
LAST = 300  # letters of a failed command's output
START = re.compile(r"^\{", re.MULTILINE)
DECODER = json.JSONDecoder()


@record
class Plan:
    """How nodes are asked: ``program`` is gpustack as nodes call it, ``seconds`` the time limit of one attempt.

    ``reach`` runs a command on a node and returns its output, and why it failed or an empty text. ``called`` returns
    the name under which a node is stored, and ``hide`` removes names from its answer; each bench ``again`` is one more.
    """

    reach: Reach
    folder: Path
    program: tuple[str, ...] = ("gpustack",)
    bench: bool = False
    seconds: float = 60.0
    attempts: int = 2
    width: int = 64
    again: bool = False
    called: Callable[[str], str] = str
    hide: Callable[[Any], Any] | None = None


@dataclass(slots=True)
class Collected:
    """The nodes that answered, those that had answered before, and why the others did not."""

    answered: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def collect(plan: Plan, wanted: Sequence[str], told: Callable[[int, int, str], object] | None = None) -> Collected:
    """Ask nodes, write each answer to ``NODE.json.gz``, and why others are missing to ``missing.json``.

    Nodes whose files already exist are not asked again. Raises OutputError if nothing can be written.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    done = Collected()
    left: list[str] = []
    for name in wanted:
        (done.kept if not plan.again and _there(plan, name) else left).append(name)
    with ThreadPoolExecutor(max(1, min(plan.width, len(left)))) as pool:
        running = {pool.submit(_node, plan, name): name for name in left}
        try:
            for number, one in enumerate(as_completed(running), 1):
                name, why = running[one], one.result()
                if why:
                    done.missing[name] = why
                else:
                    done.answered.append(name)
                if told:
                    told(number, len(left), name)
        except BaseException:  # Ctrl-C: answers so far are saved, and the next run asks the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            _note(plan, done, wanted)
    return done


def _there(plan: Plan, name: str) -> bool:
    wanted = (SNAPSHOT, BENCH) if plan.bench else (SNAPSHOT,)
    return all(_path(plan, name, schema).exists() for schema in wanted)


def _path(plan: Plan, name: str, schema: str, take: int = 1) -> Path:
    number = f".{take}" if take > 1 else ""
    return plan.folder / f"{plan.called(name)}{SUFFIX[schema]}{number}.json.gz"


def _note(plan: Plan, done: Collected, wanted: Sequence[str]) -> None:
    """Write which nodes are missing and why, keeping what earlier runs recorded about nodes not asked this time."""
    _, before = nodes.look(plan.folder) if any(plan.folder.iterdir()) else ((), {})
    asked = set(map(plan.called, wanted))
    kept = {name: why for name, why in before.items() if name not in asked}
    new = {plan.called(name): plan.hide(why) if plan.hide else why for name, why in done.missing.items()}
    writing.write(plan.folder / nodes.MISSING, json.dumps(dict(sorted({**kept, **new}.items())), indent=1) + "\n")


def _node(plan: Plan, name: str) -> str:
    """Ask one node for everything requested; return why it is missing, or an empty text."""
    for schema in (SNAPSHOT, BENCH) if plan.bench else (SNAPSHOT,):
        path = _path(plan, name, schema)
        if path.exists() and not plan.again:
            continue
        if schema == BENCH:
            takes = (_path(plan, name, schema, take) for take in count(1))
            path = next(one for one in takes if not one.exists())
        whole = ("--no-redact",) if plan.hide and schema == SNAPSHOT else ()
        why = ""
        for _ in range(plan.attempts):
            answer, why = plan.reach(name, (*plan.program, *ASKED[schema], *whole), plan.seconds)
            said, why = ("", why) if why else _said(answer, schema)
            if not why:
                shown = json.dumps(plan.hide(frozen(json.loads(said)))) if plan.hide else said
                writing.write(path, gzip.compress(shown.encode(), 6))
                break
        if why:
            return why if schema == SNAPSHOT else f"no bench: {why}"
    return ""


def _said(answer: bytes, schema: str) -> tuple[str, str]:
    """Return the JSON within an answer, and why it is not valid, or an empty text."""
    text = answer.decode("utf-8", "replace")
    for found in START.finditer(text):
        try:
            said, end = DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        if said.get("schema") != schema:
            return "", f"its answer is {str(said.get('schema'))[:60]}, not {schema}: another version of gpustack?"
        return text[found.start() : end], ""
    shown = " ".join(text[-LAST:].split())
    return "", f"its answer is not JSON: {shown[-100:] or 'nothing'}"
