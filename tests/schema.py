"""Facts checked against ``compat-matrix/facts.toml``: what a probe returns, what a reader reads, what was recorded."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import currently_in_test_context

from gpustack import assets
from gpustack.collect.probe_results import plain
from gpustack.matrix import Matrix
from gpustack.matrix.facts import ANY, EACH, Schema
from gpustack.model.facts import Component, Instance, Layer, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.matrix.facts import Node
    from gpustack.model.facts import Facts, JsonValue

MATRIX = Matrix()
SCHEMA = Schema(MATRIX)
OWN = frozenset({"key", "status"})  # of an instance itself, like its version, build and path
SYSTEMS: list[dict[str, Any]] = json.loads((assets.PROBES / "catalogue.json").read_text("utf-8"))["systems"]
LENGTH = 60  # of a value that is shown
IDS = frozenset(one["id"] for one in SYSTEMS)


def violations(facts: Facts) -> Iterator[str]:
    """Yield one line for each fact of a machine that the schema lacks, or has with another type."""
    for component in facts.components:
        yield from wrongs(component)


def wrongs(component: Component) -> Iterator[str]:
    """Yield one line for each fact of a component that is not in the schema or of another type."""
    root = SCHEMA.roots.get(component.id)
    if root is None:
        yield f"{component.id}: no such component in facts.toml"
        return
    copies: tuple[Component | Instance, ...] = (component, *component.instances)
    for held in copies:
        named = {"version": held.version, "build": held.build, "path": held.path}
        yield from _below(root, {**named, **held.facts}, component.id, ())


def _below(node: Node, value: JsonValue, component: str, at: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with a value and everything below it."""
    if value is None:
        return
    place = f"{component}: {'.'.join(at).replace('.[]', '[]')}"
    if isinstance(value, Mapping) and (ANY in node.below or set(node.below) - {EACH}):
        for name, held in value.items():
            below = node.below.get(name) or node.below.get(ANY)
            if below:
                yield from _below(below, held, component, (*at, name))
            else:
                yield f"{place}{'.' if at else ''}{name}: no such fact in facts.toml"
    elif isinstance(value, Sequence) and not isinstance(value, str) and EACH in node.below:
        for held in value:
            yield from _below(node.below[EACH], held, component, (*at, EACH))
    elif node.fact is None or not node.fact.kind.holds(value):
        wanted = node.fact.kind.value if node.fact else "a table" if set(node.below) - {EACH} else "a list"
        yield f"{place}: {wanted} in facts.toml, found {str(value)[:LENGTH]!r}"


def hold(facts: Facts) -> None:
    """Raise AssertionError with the first violation."""
    wrong = next(violations(facts), None)
    assert wrong is None, wrong


def answering(program: str, function: str, ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a probe's function that checks its answer against the schema of its row's component.

    Without a row, it is one of those that the program serves; a row that a test made up proves nothing.
    """

    @functools.wraps(ask)
    def asked(host: Any) -> Any:  # noqa: ANN401 - a told host, and a probe's answer
        answer = ask(host)
        row = getattr(host, "row", None) or {}
        served = _served(program, function) if "id" not in row else [row["id"]] if row["id"] in IDS else []
        copies = [_placed(copy, row, function) for copy in (answer if isinstance(answer, list) else [answer])]
        wrong = [_wrong(one, [copy for copy in copies if isinstance(copy, dict)]) for one in served]
        assert not (wrong and all(wrong)), wrong[0]
        return answer

    return asked


def _served(program: str, function: str) -> Sequence[str]:
    if program == "image.py":
        return ["image"]
    key = "probe" if function == "probe" else "exercise"
    return [one["id"] for one in SYSTEMS if one.get(key, one["probe"]) == program]


def _placed(copy: object, row: Mapping[str, str], function: str) -> object:
    """Return a copy's facts as they are stored: the results of running it below its own, like an image's libcuda."""
    if function == "exercise" and isinstance(copy, dict):
        return {"exercise": {name: held for name, held in copy.items() if name not in OWN}}
    return {"about": copy, "libcuda": {"libcuda": copy}}.get(row["place"]) if "place" in row else copy


def _wrong(component: str, copies: list[dict[str, Any]]) -> str | None:
    """Return the first violation of the facts of these copies."""
    instances = (
        Instance(key="", facts=held)
        for held in (plain({name: value for name, value in copy.items() if name not in OWN}) for copy in copies)
        if isinstance(held, dict)
    )
    status = Status.PRESENT
    seen = Component(id=component, layer=Layer.DRIVER, vendor="", status=status, instances=tuple(instances))
    odd = currently_in_test_context()  # a random text is not a version, wherever a probe finds it
    return next((one for one in wrongs(seen) if not (odd and ": version in facts.toml" in one)), None)
