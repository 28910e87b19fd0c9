"""Asking every node for its snapshot, by the launcher that the site runs already; a dead node costs its own answer.

The nodes of a Ray cluster are asked by one task on each, placed there by its id.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.errors import NothingSeenError, UsageError
from gpustack.fleet import nodes
from gpustack.model import writing

if TYPE_CHECKING:
    from gpustack.matrix.subjects.fleet import Engine

SNAPSHOT, BENCH = "gpustack.snapshot/1", "gpustack.bench/1"
ASKED = {SNAPSHOT: ("snapshot",), BENCH: ("bench", "--quick", "--format", "json")}
SUFFIX = {SNAPSHOT: "", BENCH: ".bench"}
MOST_BYTES = 32_000_000  # of one answer
LAST = 300  # letters of what a failing command said
EARLIER = 0.9  # of the time, after which a launcher may say itself what it waited for
GRACE = 2.0  # seconds from the friendly end of a command to the hard one
CLEANING = 30.0  # seconds for what a launcher leaves behind
FIRST_BRACE, WORDS = b"{", "{words}"
START = re.compile(r"^\{", re.MULTILINE)
DECODER = json.JSONDecoder()


Reach = Callable[[str, tuple[str, ...], float], tuple[bytes, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How nodes are asked: ``program`` is gpustack as the nodes call it, ``seconds`` the time of one attempt.

    ``reach`` runs words on a node and gives what they wrote, and why they failed or an empty text.
    """

    reach: Reach
    folder: Path
    program: tuple[str, ...] = ("gpustack",)
    bench: bool = False
    seconds: float = 60.0
    attempts: int = 2
    width: int = 64
    again: bool = False


@dataclass(slots=True)
class Collected:
    """Which nodes answered, which had answered before, and why the others did not."""

    answered: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def names(engine: Engine, seconds: float) -> tuple[str, ...]:
    """Return the names of all nodes, as the engine lists them; raises UsageError where it lists none."""
    if not engine.nodes:
        raise UsageError(f"{engine.name} lists no nodes: name them with --nodes, as in --nodes 'gpu[001-128]'")
    answer, why = _run(engine.nodes, seconds)
    if why:
        raise UsageError(f"{engine.nodes[0]} lists no nodes: {why}")
    found = tuple(dict.fromkeys(one for one in answer.decode("utf-8", "replace").split() if nodes.NAME.fullmatch(one)))
    if not found:
        raise UsageError(f"{engine.nodes[0]} lists no nodes: name them with --nodes")
    return found


def collect(plan: Plan, wanted: Sequence[str], told: Callable[[int, int, str], object] | None = None) -> Collected:
    """Ask nodes, write what each says to ``NODE.json.gz``, and why others are missing to ``missing.json``.

    Nodes whose files are there already are not asked again. Raises OutputError where nothing can be written.
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
        except BaseException:  # Ctrl-C: what has answered is there, and the next run asks the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            _note(plan.folder, done, wanted)
    return done


def _there(plan: Plan, name: str) -> bool:
    wanted = (SNAPSHOT, BENCH) if plan.bench else (SNAPSHOT,)
    return all((plan.folder / f"{name}{SUFFIX[schema]}.json.gz").exists() for schema in wanted)


def _note(folder: Path, done: Collected, wanted: Sequence[str]) -> None:
    """Write who is missing and why; what earlier runs said of nodes that this one did not ask is kept."""
    _, before = nodes.look(folder) if any(folder.iterdir()) else ((), {})
    kept = {name: why for name, why in before.items() if name not in wanted}
    missing = dict(sorted({**kept, **done.missing}.items()))
    writing.write(folder / nodes.MISSING, json.dumps(missing, indent=1) + "\n")


def _node(plan: Plan, name: str) -> str:
    """Ask one node for all that is wanted; return why it is missing, or an empty text."""
    for schema in (SNAPSHOT, BENCH) if plan.bench else (SNAPSHOT,):
        path = plan.folder / f"{name}{SUFFIX[schema]}.json.gz"
        if path.exists() and not plan.again:
            continue
        why = ""
        for _ in range(plan.attempts):
            answer, why = plan.reach(name, (*plan.program, *ASKED[schema]), plan.seconds)
            said, why = ("", why) if why else _said(answer, schema)
            if not why:
                writing.write(path, gzip.compress(said.encode(), 6))
                break
        if why:
            return why if schema == SNAPSHOT else f"no bench: {why}"
    return ""


def launcher(row: Engine, image: str = "") -> Reach:
    """Return what runs words on a node by the launcher of a row."""

    def reach(name: str, words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
        asked = filled(row, name, words, seconds, image)
        ends = time.monotonic() + seconds
        try:
            for step in asked.before:
                _, why = _run(step, ends - time.monotonic(), asked.manifest.encode())
                if why:
                    return b"", why
            return _run(asked.command, ends - time.monotonic())
        finally:
            if asked.after:
                _run(asked.after, CLEANING)

    return reach


def filled(row: Engine, name: str, words: Sequence[str], seconds: float, image: str = "") -> Engine:
    """Return the argument lists that run words on a node, whose name has passed the check of names."""
    blanks = {
        "{node}": name,
        "{limit}": str(max(1, int(seconds * EARLIER))),
        "{image}": image,
        "{id}": os.urandom(6).hex(),
        WORDS: json.dumps(words),
    }

    def fill(text: str) -> str:
        for blank, value in blanks.items():
            text = text.replace(blank, value)
        return text

    def each(step: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(fill, step))

    command = row.command if WORDS in row.manifest else (*row.command, *words)
    return replace(
        row,
        command=each(command),
        before=tuple(map(each, row.before)),
        after=each(row.after),
        manifest=fill(row.manifest),
    )


def _said(answer: bytes, schema: str) -> tuple[str, str]:
    """Return the JSON within an answer, and why it is not what was asked for, or an empty text."""
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
    return "", f"its answer is no JSON: {shown[-100:] or 'nothing'}"


def _run(words: Sequence[str], seconds: float, given: bytes = b"") -> tuple[bytes, str]:
    """Run one command; return what it wrote to standard output, and why it failed or an empty text."""
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return b"", f"{words[0]} cannot be run: {error.strerror}"
    try:
        answer, said = child.communicate(given or None, timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        _end(child)
        return b"", f"no answer within {seconds:.0f} s"
    except BaseException:
        _end(child)
        raise
    if len(answer) > MOST_BYTES:
        return b"", f"it wrote more than {MOST_BYTES // 1_000_000} MB"
    if child.returncode and FIRST_BRACE not in answer:
        shown = " ".join(said[-LAST:].decode("utf-8", "replace").split())
        return b"", f"{words[0]} ended with {child.returncode}: {shown[-200:] or 'it said nothing'}"
    return answer, ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, sign)
            child.communicate(timeout=GRACE)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
        break


def engine(engines: Sequence[Engine], name: str) -> Engine:
    """Return the engine of this name; raises UsageError for another."""
    found = next((one for one in engines if one.name == name), None)
    if found is None:
        raise UsageError(f"no engine is called {name!r}: {', '.join(one.name for one in engines)} are known")
    return found


LAST_WORDS = 200  # letters of what a failing command said


@cache
def _ray() -> Any:  # noqa: ANN401 - Ray, which only this engine needs
    """Return Ray, connected to the cluster that this machine is part of."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("--engine ray needs Ray on this machine: pip install 'ray[default]'") from error
    try:
        ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        raise NothingSeenError(f"no Ray cluster answers here: {' '.join(str(error).split())[:LAST_WORDS]}") from error
    return ray


@cache
def _ids() -> dict[str, str]:
    """Return the id of each node that lives, by its name; nodes of one name have their id behind it."""
    alive = [one for one in _ray().nodes() if one.get("Alive")]
    names = [str(one["NodeName"]) for one in alive]
    return {
        name if names.count(name) == 1 else f"{name}-{one['NodeID'][:8]}": one["NodeID"]
        for name, one in zip(names, alive, strict=True)
    }


def ray_names() -> tuple[str, ...]:
    """Return the names of all nodes that live; raises where no cluster answers."""
    return tuple(sorted(_ids()))


def ray_reach(name: str, words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
    """Run words on a node; return what they wrote, and why they failed or an empty text."""
    ray = _ray()
    node = _ids().get(name)
    if node is None:
        return b"", "Ray has no node of this name that lives"
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    place = strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=place)(_run_there).remote(words, seconds)
    try:
        answer: tuple[bytes, str] = ray.get(task, timeout=seconds + 5)
    except Exception as error:  # noqa: BLE001 - Ray's errors have no common class, and a dead node is an answer
        ray.cancel(task, force=True)
        return b"", f"Ray: {type(error).__name__}: {' '.join(str(error).split())[:LAST_WORDS]}"
    return answer


def _run_there(words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
    """Run on the node itself, where nothing of gpustack needs to be importable."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return b"", f"no answer within {seconds:g} s"
    except OSError as error:
        return b"", f"{words[0]} cannot be run: {error.strerror}"
    if done.returncode and b"{" not in done.stdout:
        return b"", f"{words[0]} ended with {done.returncode}: {done.stderr[-LAST_WORDS:].decode('utf-8', 'replace')}"
    return done.stdout, ""
