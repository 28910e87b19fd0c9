"""The proof, on this machine, that each check can fire: sick facts are judged, and sick probes are run and ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack import plugins
from gpustack.collect.catalogue import question
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import Reply, Task, ask
from gpustack.diagnose.engine import judge
from gpustack.diagnose.rule import ids
from gpustack.errors import BrokenError, InputError
from gpustack.model.facts import Status
from gpustack.model.matrix_answer import Part, Proof, SelfTest
from gpustack.snapshots import SCHEMA, take

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

PROOFS = "selftest.json"  # made by tests/proofs.py; a plugin may have one beside its plugin.toml
PLUGIN = "/"  # in each id of a plugin
SECONDS = 0.8  # for a probe that is to be ended because it gives no answer
PATIENCE, LIMIT = 10.0, 12.0  # for the others, whose children a busy machine is slow to start
# What a sick probe does, and the words by which it must be reported.
SICK: Mapping[str, tuple[str, str]] = {
    "a probe that hangs is ended in time": ("time.sleep(60)", "gave no answer in"),
    "a probe that turns for ever is ended in time": ("while True: pass", "gave no answer in"),
    "a probe that crashes is reported": ("os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
    "a probe that aborts is reported": ("os.abort()", "was killed by SIGABRT"),
    "a probe that leaves without a word is reported": ("os._exit(0)", "ended with exit code 0 before it answered"),
    "a probe that prints nonsense is reported": (
        "print('nonsense', flush=True)",
        "printed something that is not an answer",
    ),
    "a probe that answers for another is reported": (
        'print(\'{"id": "x"}\', flush=True)',
        "printed something that is not an answer",
    ),
    "a probe that prints without end is stopped": (
        "[os.write(1, b'x' * 65536) for _ in iter(int, 1)]",
        "printed over 16 MiB",
    ),
}
PROGRAM = """
import json, os, sys, time
for row in json.loads(sys.argv[1])["rows"]:
    print(json.dumps({"at": row["id"]}), flush=True)
    exec(row["does"])
    print(json.dumps({"id": row["id"], "status": "present", "instances": [{"version": "1"}]}), flush=True)
"""


def prove(matrix: Matrix, door: Door | None = None) -> SelfTest:
    """Try every rule and every guard; changes nothing and leaves nothing behind."""
    door = door or Door()
    begun = door.now()
    proofs = (*rules(matrix, sick_facts()), *guards(door))
    return SelfTest(
        tool=matrix.tool, held=all(proof.held for proof in proofs), proofs=proofs, seconds=round(door.now() - begun, 3)
    )


def sick_facts() -> Mapping[str, Mapping[str, object]]:
    """Return, for each rule, facts on which it fires; raises BrokenError where a file is not what was shipped."""
    said = _read(Path(__file__).parent / PROOFS)
    for file in (Path(folder, PROOFS) for folder in plugins.folders()):
        said |= {name: held for name, held in _read(file).items() if PLUGIN in name} if file.exists() else {}
    return said


def _read(file: Path) -> dict[str, Mapping[str, object]]:
    try:
        said = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BrokenError(f"the shipped file {file.name} is damaged: {error}") from error
    if not isinstance(said, dict) or not all(isinstance(held, dict) for held in said.values()):
        raise BrokenError(f"the shipped file {file.name} is damaged: it is no object of objects")
    return said


def rules(matrix: Matrix, sick: Mapping[str, Mapping[str, object]]) -> Iterator[Proof]:
    """Yield for each rule whether it fires on its sick facts; of a plugin, for those that it ships facts for."""
    for name in ids():
        if PLUGIN in name and name not in sick:
            continue
        held, says = False, "no facts are shipped on which it could be tried"
        if name in sick:
            held, says = _fires(name, sick[name], matrix)
        yield Proof(name=name, part=Part.RULE, held=held, says=says)


def _fires(name: str, sick: Mapping[str, object], matrix: Matrix) -> tuple[bool, str]:
    try:
        facts = take({"schema": SCHEMA, **sick}, PROOFS)
        findings = judge(facts, matrix).findings
    except InputError as error:
        return False, str(error)
    except Exception as error:  # noqa: BLE001 - a rule that breaks is what is looked for
        return False, f"it broke: {type(error).__name__}: {error}"
    title = next((one.title for one in findings if one.id == name), None)
    return title is not None, title or "it said nothing of facts that are sick"


def guards(door: Door) -> Iterator[Proof]:
    """Yield for each sick probe whether it was reported as what it is, and cost no other probe its answer."""
    tasks = [
        Task(
            argv=(sys.executable, "-I", "-S", "-c", PROGRAM),
            environ={},
            systems=(
                question(name, SECONDS if words.startswith("gave no answer") else PATIENCE, does=does),
                question(f"after {name}", PATIENCE, does=""),
            ),
        )
        for name, (does, words) in SICK.items()
    ]
    replies = {reply.system.id: reply for reply in ask(tasks, door, door.now() + LIMIT)}
    for name, (_, words) in SICK.items():
        yield _told(name, words, replies[name], replies[f"after {name}"])


def _told(name: str, words: str, sick: Reply, after: Reply) -> Proof:
    (one, other), _ = parse((sick, after))
    held = one.status is Status.FAILED and words in (one.reason or "") and other.status is Status.PRESENT
    return Proof(name=name, part=Part.GUARD, held=held, says=one.reason or "it answered as if it were well")
