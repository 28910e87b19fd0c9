"""Many probings of stand-in libraries through one child: it forks per plan, and each fork loads and calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack import assets
from gpustack.collect import catalogue
from gpustack.collect.probe_results import parse
from gpustack.collect.workers import Reply
from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts, JsonValue
    from gpustack.model.report import Health

FORKS = Path(__file__).with_name("forks.py")
SYSTEMS = {system.id: system for system in catalogue.load()}
MATRIX = Matrix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of probing some components once."""

    components: Mapping[str, Component]

    def why(self, component: str) -> Mapping[str, str]:
        """Return why each fact of a component's first copy is not known."""
        copies = self.components[component].instances
        return dict(_unavailable(copies[0].facts)) if copies else {}

    def heard(self, component: str, function: str) -> str:
        """Return everything that the library's function was observed to answer."""
        return " ".join(call.outcome for call in self.components[component].calls if call.name == function)

    def judged(self, well: Facts) -> tuple[Health, str]:
        """Return the verdict on the healthy machine with these components, and everything that the report faults."""
        report = judge(
            replace(well, components=tuple(self.components.get(one.id, one) for one in well.components)), MATRIX
        )
        assert {one.id for one in report.components} >= {one.id for one in well.components}
        findings = [one for one in report.findings if one.severity is not Severity.INFO]
        reasons = [str(self.components[one].reason) for one in self.components]
        return report.verdict.status, " ".join([*(f"{one.title} {one.detail}" for one in findings), *reasons])


def look(
    folder: Path, environ: Mapping[str, str], ids: Sequence[str], plans: Sequence[Mapping[str, str]]
) -> list[Look]:
    """Return a result for each plan, which is a set of environment variables; raise if one is incomplete."""
    told = {
        "probes": str(assets.PROBES / "__main__.py"),
        "rows": [dict(SYSTEMS[one].data) for one in ids],
        "path": [entry for entry in sys.path if entry],
        "plans": [dict(plan) for plan in plans],
    }
    (folder / "plans.json").write_text(json.dumps(told), "utf-8")
    command = [sys.executable, "-I", "-S", str(FORKS), str(folder / "plans.json")]
    ran = subprocess.run(command, env=dict(environ), stdout=subprocess.PIPE, check=True, timeout=100, text=True)
    looks = [_read(json.loads(line), ids) for line in ran.stdout.splitlines()]
    assert len(looks) == len(plans)
    return looks


def _read(said: str, ids: Sequence[str]) -> Look:
    """Return the result that a fork's output describes, which is what a child of gpustack prints."""
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line.get("at", line.get("id")) for line in lines] == [one for one in ids for _ in range(2)]
    replies = [Reply(system=SYSTEMS[line["id"]], environment=None, answer=line) for line in lines if "id" in line]
    return Look(components={one.id: one for one in parse(replies)[0]})


def _unavailable(value: JsonValue, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield each unknown fact with the reason, including those of parts (MIG instances)."""
    if isinstance(value, Mapping):
        for name, held in value.items():
            if name == "unavailable" and isinstance(held, Mapping):
                yield from ((f"{at}{fact}", str(why)) for fact, why in held.items())
            else:
                yield from _unavailable(held, f"{at}{name}.")
    elif isinstance(value, tuple):
        for number, held in enumerate(value):
            yield from _unavailable(held, f"{at}{number}.")
