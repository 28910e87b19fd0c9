"""Replies of probes become facts here and nowhere else: a malformed one is a failed probe, never a crash."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpustack import interrupting
from gpustack.model.facts import Call, Component, Instance, JsonValue, Status, Unseen

if TYPE_CHECKING:
    from gpustack.collect.workers import Reply

NAMED = ("key", "version", "build", "path")
UNSEEN = "not seen"  # the key of the placeholder for copies in a Python that could not be probed
BEST = (Status.PRESENT, Status.FAILED, Status.UNKNOWN, Status.ABSENT, Status.NOT_APPLICABLE)
MOST_TEXT, MOST_DEPTH, MOST_NUMBER = 20_000, 100, 2**70
MOST_COPIES = 10_000
MOST_ROWS, MOST_PATH, MOST_OUTCOME = (400, 4096, 500)  # paths and calls; the runner of probes keeps as many
TRIPLE = 3
MOST_SECONDS = 1e6
# Errors that never occur on a healthy machine: input/output, a command that is not a program, a folder or pipe in
# place of a file, circular links, a stale file handle, a broken transport; a kernel folder without the kernel;
# a command that hangs.
ODD = re.compile(
    r"(?:\[Errno (?:5|8|21|29|40|107|112|116)\] )?"
    r"((?<=\] )[^\n]+?|not understood: [^\n]+?|nothing is mounted there|no answer)(?:: '[^\n]*)?"
)


def parse(
    replies: Sequence[Reply], beside: Container[str | None] = ()
) -> tuple[tuple[Component, ...], tuple[Unseen, ...]]:
    """Return one component for each probed system, and what could not be checked.

    A failure in a Python ``beside`` the chosen one says nothing about the machine.
    """
    by_id: dict[str, list[Reply]] = {}
    for reply in replies:
        by_id.setdefault(reply.system.id, []).append(reply)
    components = tuple(_component(group, beside) for group in by_id.values())
    return components, tuple(_unseen(replies))


def plain(value: object, depth: int = MOST_DEPTH) -> JsonValue:
    """Return the value as facts store it: tuples for lists, text cut to a limit, and only JSON.

    Raises RecursionError if it is nested too deeply.
    """
    if not depth:
        raise RecursionError("it is nested too deeply")
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if value is None or isinstance(value, int | float):
        if isinstance(value, float):
            return value if value - value == 0 else None
        return value if isinstance(value, int) and -MOST_NUMBER < value < MOST_NUMBER else None
    if isinstance(value, Mapping):
        return {str(key)[:MOST_TEXT]: plain(held, depth - 1) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(held, depth - 1) for held in value)
    return str(value)[:MOST_TEXT]


def _component(replies: Sequence[Reply], beside: Container[str | None]) -> Component:
    """Merge the replies for one system from every Python; the chosen Python's replies and copies come first."""
    system = replies[0].system
    states = [_state(reply) for reply in replies if not reply.deep]
    deciding = [_state(one)[0] for one in replies if not one.deep and one.environment not in beside]
    exercised = {reply.environment: _exercise(reply) for reply in replies if reply.deep and _was_run(reply)}
    copies = _distinct(instance for _, _, copies in states for instance in copies)
    instances = tuple(_with_exercise(copies, exercised))
    instances += tuple(_blanks(replies, beside)) if instances else ()
    there = any(state is Status.PRESENT for state, _, _ in states)
    status = Status.PRESENT if there else min(deciding or [state for state, _, _ in states], key=BEST.index)
    held = (str(copy.facts["why"]) for copy in instances if copy.status is status and copy.facts.get("why"))
    reason = next((why for state, why, _ in states if state is status and why), next(held, None))
    used = next((copy for copy in instances if copy.status is Status.PRESENT), None)
    return Component(
        id=system.id,
        layer=system.layer,
        vendor=system.vendor,
        status=status,
        version=used.version if used else None,
        build=used.build if used else None,
        path=used.path if used else None,
        facts=used.facts if used else {},
        source=_source([reply for reply in replies if not reply.deep] or replies),
        reason=reason,
        seconds=max(_seconds(reply) for reply in replies),
        instances=instances,
        calls=tuple(call for reply in replies for call in _calls(reply)),
    )


def _state(reply: Reply) -> tuple[Status, str | None, tuple[Instance, ...]]:
    """Return the status, reason and copies in one reply."""
    if reply.answer is None:
        return (Status.FAILED if reply.asked else Status.UNKNOWN), reply.failure, ()
    try:
        status = Status(reply.answer["status"])
        reason = None if reply.answer.get("reason") is None else str(reply.answer["reason"])[:MOST_TEXT]
        copies = _copies(reply, reply.answer["instances"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Status.FAILED, f"the probe's answer is malformed: {type(error).__name__}: {error}"[:MOST_OUTCOME], ()
    if copies:
        status = min((copy.status for copy in copies), key=BEST.index)
    return status, reason, copies


def _copies(reply: Reply, told: Sequence[Mapping[str, Any]]) -> tuple[Instance, ...]:
    if len(told) > MOST_COPIES:
        raise ValueError(f"it reports {len(told)} copies")
    return tuple(_instance(reply, number, copy) for number, copy in enumerate(told))


def _blanks(replies: Iterable[Reply], beside: Container[str | None]) -> Iterator[Instance]:
    """Yield a copy without data for each Python that gave no answer: it may well have one."""
    for reply in replies:
        if reply.deep or reply.environment is None or reply.environment in beside:
            continue
        state, why, copies = _state(reply)
        if not copies and state in {Status.FAILED, Status.UNKNOWN}:
            facts: dict[str, JsonValue] = {"answer": state.value, "error": why}
            yield Instance(key=UNSEEN, environment=reply.environment, status=Status.UNKNOWN, facts=facts)


def _instance(reply: Reply, number: int, copy: Mapping[str, Any]) -> Instance:
    named = {name: None if copy.get(name) is None else str(copy[name])[:MOST_TEXT] for name in NAMED}
    facts = plain({name: value for name, value in copy.items() if name not in {*NAMED, "status"}})
    if not isinstance(facts, Mapping):
        raise TypeError("facts are not an object")
    return Instance(
        key=named["key"] or named["path"] or str(number),
        version=named["version"],
        build=named["build"],
        path=named["path"],
        environment=reply.environment,
        status=Status(copy.get("status", "present")),
        facts=facts,
    )


def _exercise(reply: Reply) -> JsonValue:
    """Return the outcome of a run: its own words, or how it ended and at which step."""
    status, reason, copies = _state(reply)
    if copies:
        return copies[0].facts
    ended: dict[str, JsonValue] = {"ran": False, "status": status.value, "reason": reason}
    return {**ended, "failed_at": reply.step} if reply.step else ended


def _was_run(reply: Reply) -> bool:
    """Return whether it was run, successfully or not: it existed, and its turn came in time."""
    return reply.asked and _state(reply)[0] is not Status.ABSENT


def _with_exercise(copies: Iterable[Instance], exercised: Mapping[str | None, JsonValue]) -> Iterable[Instance]:
    """Attach each Python's run to its first copy; without a copy, the run used the system's."""
    held = tuple(copies)
    own = {copy.environment for copy in held}
    left = dict(exercised)
    for copy in held:
        others = (environment for environment in left if copy.environment is None and environment not in own)
        took = copy.environment if copy.environment in left else next(others, None)
        yield replace(copy, facts={**copy.facts, "exercise": left.pop(took)}) if took in left else copy


def _distinct(instances: Iterable[Instance]) -> Iterable[Instance]:
    """Yield each copy once: keys are unique within an environment."""
    seen: set[tuple[str | None, str]] = set()
    for instance in instances:
        mark = (instance.environment, instance.key)
        if mark not in seen:
            seen.add(mark)
            yield instance


def _seconds(reply: Reply) -> float:
    return _number((reply.answer or {}).get("seconds", reply.seconds))


def _number(said: object) -> float:
    """Return the reported seconds, or 0 if invalid."""
    return float(said) if isinstance(said, int | float) and 0 <= said < MOST_SECONDS else 0.0


def _source(replies: Sequence[Reply]) -> str:
    """Return how it was found: the first existing paths, otherwise the first paths tried."""
    looks = [look for reply in replies for look in _log(reply) if not _of_python(look)]
    there = [asked for _, asked, outcome in looks if outcome in {"ok", "exit 0"}]
    named = list(dict.fromkeys(there or [asked for _, asked, _ in looks]))
    calls = list(dict.fromkeys(call.name for reply in replies for call in _calls(reply)))
    return ", ".join([*named, *calls][:3]) or f"probes/{replies[0].system.data.get('probe', '')}"


def _of_python(look: tuple[str, str, str]) -> bool:
    """Return whether a path is the Python that the probe ran in, which says nothing about the component."""
    return look[1].rpartition("/")[2].startswith("python")


def _log(reply: Reply) -> list[tuple[str, str, str]]:
    return [
        (_word(verb), _word(asked, MOST_PATH), _word(outcome, MOST_OUTCOME))
        for verb, asked, outcome in _rows(reply, "log")
    ]


def _calls(reply: Reply) -> list[Call]:
    return [
        Call(name=_word(name), seconds=_number(spent), outcome=_word(outcome, MOST_OUTCOME))
        for name, spent, outcome in _rows(reply, "calls")
    ]


def _rows(reply: Reply, name: str) -> list[list[object]]:
    """Return the most recent path and call records, those with three fields."""
    said = (reply.answer or {}).get(name)
    rows = said[-MOST_ROWS:] if isinstance(said, list) else []
    return [row for row in rows if isinstance(row, list) and len(row) == TRIPLE]


def _word(value: object, most: int = 200) -> str:
    """Return the value as text, cut to a limit: another process may have written anything, of any length."""
    try:
        return str(value)[:most]
    except RecursionError:
        return "(nested too deeply)"


def _unseen(replies: Sequence[Reply]) -> Iterable[Unseen]:
    """Yield what was denied, failed or ran out of time, each once, including Pythons that did not answer."""
    seen: set[str] = set()
    answered = {reply.environment for reply in replies if reply.failure is None}
    for reply in replies:
        if reply.failure is not None and reply.environment and reply.environment not in answered:
            if reply.environment not in seen:
                seen.add(reply.environment)
                yield Unseen(what=f"all in {reply.environment}", why=reply.failure, enable_by=_more_time(reply))
        elif reply.failure is not None:
            where = f" in {reply.environment}" if reply.environment else ""
            yield Unseen(what=f"{reply.system.id}{where}", why=reply.failure, enable_by=_more_time(reply))
        for _, asked, outcome in _log(reply):
            if outcome == "denied" and asked not in seen:
                seen.add(asked)
                yield Unseen(what=asked, why="permission denied", enable_by="run gpustack as root")
            elif (odd := ODD.fullmatch(outcome)) and asked not in seen:
                seen.add(asked)
                yield Unseen(what=asked, why=odd[1][:MOST_TEXT])


def _more_time(reply: Reply) -> str | None:
    return None if reply.asked or interrupting.heard() else "a longer --timeout"
