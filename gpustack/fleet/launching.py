"""Run gpustack on one node: through a launcher described by a row, or as a Ray task placed by the node's id."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gpustack.errors import NothingSeenError, UsageError
from gpustack.fleet import nodes
from gpustack.matrix.subjects import rows_of
from gpustack.model import record, replace

MOST_BYTES = 32_000_000  # of one answer
LAST, LAST_WORDS = 100, 200  # letters of a failed command's output
EARLIER = 0.9  # share of the time limit after which a launcher may itself report a timeout
GRACE = 2.0  # seconds between asking a command to end and killing it
CLEANING = 30.0  # seconds to clean up after a launcher
FIRST_BRACE, WORDS = b"{", "{words}"
Reach = Callable[[str, tuple[str, ...], float], tuple[bytes, str]]


@record
class Engine:
    """A launcher that a site runs already: ``command`` runs a program on {node}, ``nodes`` prints the names of all.

    ``before`` goes first with ``manifest`` as its input, ``after`` cleans up.
    """

    name: str
    command: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[str, ...] = ()
    manifest: str = ""
    source: str
    checked: str


engines = rows_of("fleet", "engines", Engine)  # every launcher


def names(engine: Engine, seconds: float) -> tuple[str, ...]:
    """Return the names of all nodes, as the engine lists them; raises UsageError if it lists none."""
    if not engine.nodes:
        raise UsageError(f"{engine.name} lists no nodes: name them with --nodes, as in --nodes 'gpu[001-128]'")
    answer, why = _run(engine.nodes, seconds)
    if why:
        raise UsageError(f"{engine.nodes[0]} lists no nodes: {why}")
    found = tuple(dict.fromkeys(one for one in answer.decode("utf-8", "replace").split() if nodes.NAME.fullmatch(one)))
    if not found:
        raise UsageError(f"{engine.nodes[0]} lists no nodes: name them with --nodes")
    return found


def launcher(row: Engine, image: str = "") -> Reach:
    """Return the function that runs commands on a node through a row's launcher."""

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
    """Return the argument lists that run a command on a node, whose name has been validated."""
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


def _run(words: Sequence[str], seconds: float, given: bytes = b"") -> tuple[bytes, str]:
    """Run one command; return its standard output, and why it failed or an empty text."""
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
        return b"", f"it printed more than {MOST_BYTES // 1_000_000} MB"
    if child.returncode and FIRST_BRACE not in answer:
        return b"", f"{words[0]} ended with {child.returncode}: {_ends(said) or 'it printed nothing'}"
    return answer, ""


def _ends(said: bytes) -> str:
    """Return the beginning and end of a command's output: mpirun prints much after the cause."""
    text = " ".join(said.decode("utf-8", "replace").split())
    return text if len(text) <= 2 * LAST else f"{text[:LAST]} … {text[-LAST:]}"


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command and everything it started."""
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
    """Return the engine with this name; raises UsageError for any other."""
    found = next((one for one in engines if one.name == name), None)
    if found is None:
        raise UsageError(f"there is no engine {name!r}: {', '.join(one.name for one in engines)} are known")
    return found


@cache
def _ray() -> Any:  # noqa: ANN401 - Ray, which only this engine needs
    """Return Ray, connected to the cluster that this machine is part of."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("Ray is not installed on this machine: pip install 'ray[default]'") from error
    try:
        if not ray.is_initialized():
            ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        raise NothingSeenError(f"no Ray cluster answers here: {' '.join(str(error).split())[:LAST_WORDS]}") from error
    return ray


def ray_pool(workers: int | None, begin: Callable[[], object]) -> Any:  # noqa: ANN401 - Ray's
    """Return a pool of this many processes of the cluster, or one per core, each initialised this way."""
    _ray()
    return importlib.import_module("ray.util.multiprocessing").Pool(workers, begin)


@cache
def _ids() -> dict[str, str]:
    """Return the id of each live node by its name; nodes that share a name have their id appended."""
    alive = [one for one in _ray().nodes() if one.get("Alive")]
    names = [str(one["NodeName"]) for one in alive]
    return {
        name if names.count(name) == 1 else f"{name}-{one['NodeID'][:8]}": one["NodeID"]
        for name, one in zip(names, alive, strict=True)
    }


def ray_names() -> tuple[str, ...]:
    """Return the names of all live nodes; raises if no cluster answers."""
    return tuple(sorted(_ids()))


def ray_reach(name: str, words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
    """Run a command on a node; return its output, and why it failed or an empty text."""
    ray = _ray()
    node = _ids().get(name)
    if node is None:
        return b"", "Ray has no live node of this name"
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
    """Run on the node itself, where gpustack need not be importable."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return b"", f"no answer within {seconds:g} s"
    except OSError as error:
        return b"", f"{words[0]} cannot be run: {error.strerror}"
    if done.returncode and b"{" not in done.stdout:
        return b"", f"{words[0]} ended with {done.returncode}: {done.stderr[-LAST_WORDS:].decode('utf-8', 'replace')}"
    return done.stdout, ""
