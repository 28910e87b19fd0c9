"""New public threads: added, split by repository into a set to build with and a held-out set, and measured.

Nobody reads the held-out half while building, so its results show how well the doctor does on machines it was not
built for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.diagnose.engine import judge
from gpustack.diagnose.requirements.records import by_id
from gpustack.diagnose.rule import explain, rules
from gpustack.imports import load_texts
from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity
from tools.cases import Case, every, put

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

NEEDED = frozenset({"id", "source", "root_cause", "inputs"})
WELL = "none-"
FEW = 3


def read(path: Path) -> Iterator[Case]:
    """Yield the threads of a file, or of all files in a folder: JSON lists of objects with what a case has.

    ``id``, ``source`` (owner/repository#number), ``root_cause`` and ``inputs`` (texts by name) are required.
    Raises ValueError, naming the file, for anything else.
    """
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        held = json.loads(file.read_text("utf-8"))
        for row in held if isinstance(held, list) else [held]:
            yield _case(row, file)


def _case(row: Mapping[str, Any], file: Path) -> Case:
    missing = NEEDED - row.keys()
    if missing:
        raise ValueError(f"{file}: a thread without {', '.join(sorted(missing))}")
    cause, inputs = row["root_cause"], row["inputs"]
    if not (inputs and all(isinstance(text, str) and text.strip() for text in inputs.values())):
        raise ValueError(f"{file}: {row['id']} has no texts")
    if "#" not in row["source"]:
        raise ValueError(f"{file}: {row['id']} names no thread as owner/repository#number")
    rule, record = rules().get(cause), by_id().get(cause)
    if not (rule or record or cause.startswith(WELL) or explain(cause)):
        raise ValueError(f"{file}: {row['id']} has the cause {cause}, which no finding has")
    layer = rule.layer if rule else record.layer if record else Layer.APPLICATION
    return Case(
        root_cause=cause,
        id=row["id"],
        source=row["source"],
        input_form=row.get("input_form", "mixed"),
        layer=row.get("layer", layer.value),
        layer_also=tuple(row.get("layer_also", ())),
        must_mention=tuple(row.get("must_mention", ())),
        false_alarms=tuple(row.get("false_alarms", ())),
        fix=row.get("fix", ""),
        confidence=row.get("confidence", "medium"),
        decidable=row.get("decidable", "yes"),
        works=row.get("works", False),
        inputs={name: text if text.endswith("\n") else f"{text}\n" for name, text in inputs.items()},
    )


def held_out(case: Case, known: Iterable[str]) -> bool:
    """Return whether a new thread is held out: by its repository's name, unless threads from there are built with."""
    return case.repository not in set(known) and sha256(case.repository.encode()).digest()[-1] % 2 == 1


def take(path: Path, *, split: bool = True) -> Counter[str]:
    """Add new threads; return how many went into each half, how many were already recorded, and how many were refused.

    Without ``split`` all are to build with, but for those of a repository that has held-out ones.
    """
    known = [one.repository for one in every()]
    out = {one.repository for one in every(held_out=True)}
    threads = {one.source for half in (False, True) for one in every(held_out=half)}
    taken: Counter[str] = Counter()
    for case in read(path):
        if case.source in threads:
            taken["known"] += 1
        elif not split and case.repository in out:
            taken["refused: their repository is held out"] += 1
        else:
            held = split and held_out(case, known)
            put(case, held_out=held)
            threads.add(case.source)
            taken["held out" if held else "to build with"] += 1
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results of diagnosing threads; ``likeliest`` counts those whose cause is first among causes or candidates.

    ``decided`` counts those whose text is enough to tell the cause; of the others, which only narrow it down,
    ``listed`` counts those whose cause is named at all.
    """

    sick: int
    root: int
    likeliest: int
    three: int
    mute: int
    decided: int
    decided_first: int
    decided_three: int
    listed: int
    frequent: int  # how many the three most frequent causes of the recorded cases would have named
    healthy: int
    said_healthy: int
    works: int  # how many of the healthy show a GPU at work in their text
    said_working: int
    alarms: tuple[str, ...]

    def __str__(self) -> str:
        """The figures on one line."""
        return (
            f"{self.sick} sick: first cause {_part(self.likeliest, self.sick)} (as root cause {self.root}), among the "
            f"first three {_part(self.three, self.sick)}, silent {self.mute}; of {self.decided} whose text decides: "
            f"first {_part(self.decided_first, self.decided)}, among three "
            f"{_part(self.decided_three, self.decided)}, of the "
            f"other {self.sick - self.decided} listed {self.listed}; always naming the three most frequent "
            f"causes {_part(self.frequent, self.sick)}. {self.healthy} healthy: said so {self.said_healthy}, of those "
            f"whose text shows a GPU at work {_part(self.said_working, self.works)}, alarms {len(self.alarms)}"
        )


def measure(cases: Sequence[Case], matrix: Matrix) -> Figures:
    """Judge cases like ``doctor --from``, and count the results."""
    common = [cause for cause, _ in Counter(one.root_cause for one in every() if not one.healthy).most_common(FEW)]
    count: Counter[str] = Counter()
    alarms = []
    for case in cases:
        report = judge(load_texts(case.files, matrix), matrix)
        roots = report.verdict.root_causes
        if case.healthy:
            count["healthy"] += 1
            well = report.verdict.status is Health.HEALTHY
            count["said healthy"] += well
            count["works"] += case.works
            count["said working"] += case.works and well
            if roots or any(one.severity is Severity.ERROR for one in report.findings):
                alarms.append(case.id)
            continue
        named = list(dict.fromkeys((*roots, *(one.id for one in report.candidates))))
        count["sick"] += 1
        count["root"] += roots[:1] == (case.root_cause,)
        count["first"] += named[:1] == [case.root_cause]
        count["three"] += case.root_cause in named[:FEW]
        count["mute"] += not named
        if case.decidable == "yes":
            count["decided"] += 1
            count["decided first"] += named[:1] == [case.root_cause]
            count["decided three"] += case.root_cause in named[:FEW]
        else:
            count["listed"] += case.root_cause in named
        count["frequent"] += case.root_cause in common
    return Figures(
        sick=count["sick"],
        root=count["root"],
        likeliest=count["first"],
        three=count["three"],
        mute=count["mute"],
        decided=count["decided"],
        decided_first=count["decided first"],
        decided_three=count["decided three"],
        listed=count["listed"],
        frequent=count["frequent"],
        healthy=count["healthy"],
        said_healthy=count["said healthy"],
        works=count["works"],
        said_working=count["said working"],
        alarms=tuple(alarms),
    )


def _part(number: int, whole: int) -> str:
    return f"{number} ({number / whole:.0%})" if whole else f"{number}"
