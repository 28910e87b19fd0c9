"""A first policy for a machine, with a comment beside each key: what ``gpustack check --init`` writes."""

from __future__ import annotations

import json
from glob import escape
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import FRAMEWORKS
from gpustack.matrix.subjects.ranges import numbers, version_of
from gpustack.model.facts import Component, Status
from gpustack.model.report import Health, Report
from gpustack.model.versions import DriverRelease
from gpustack.policy import END, ENDED
from gpustack.policy.gpu_rows import cards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.bench import BenchReport

MARGIN = 0.95  # of what was measured here: figures of one card vary by a few percent
MIB = 1024
LIBRARIES = ("cudnn", "nccl", "cuda-toolkit")
GONE = "\ufffd"


def draft(report: Report, bench: BenchReport | None, purpose: str | None = None) -> str:
    """Return the text of a policy that this machine meets if nothing is wrong with it."""
    works = [name for name in FRAMEWORKS if report.verdict.works.get(name)]
    parts = {
        "frameworks": [_on(f"frameworks = [{', '.join(map(_quoted, works or ['pytorch']))}]", bool(works))],
        "components": _components(report),
        "gpus": _gpus(report),
        "shares": _shares(bench),
    }
    held = {name: "\n".join(lines) for name, lines in parts.items()}
    text = Path(__file__).with_name("draft.txt").read_text("utf-8")
    return text.format(ended=ENDED, end=END, purpose=_quoted(purpose or "any"), **held)


def _components(report: Report) -> Iterator[str]:
    """Yield a row for what jobs depend on most: the driver's branch, the frameworks, the installed libraries."""
    there = {one.id: one for one in report.components if one.status is Status.PRESENT}
    release = DriverRelease.parse(there["nvidia-driver"].version) if "nvidia-driver" in there else None
    yield _on(f'nvidia-driver = ">={release.branch if release else 570}"', release is not None)
    for name in FRAMEWORKS:
        if name in there and (range_ := _range(there[name])):
            yield f"{name} = {_quoted(range_)}"
    yield from (f'# {name} = "present"' for name in LIBRARIES if name in there)


def _gpus(report: Report) -> Iterator[str]:
    """Yield the number of GPUs, and what all of them are."""
    seen = cards(report) or ()
    names = list(dict.fromkeys(card.name for card in seen if card.name))
    capabilities = sorted({card.capability for card in seen if card.capability}, key=numbers)
    least = min((card.mib for card in seen if card.mib), default=None)
    on = bool(seen) or report.verdict.status is Health.NO_GPU
    yield _on("[gpus]", on)
    yield _on(f"count = {len(seen) or int(not on)}", on)
    shown = ", ".join(_quoted(escape(one)) for one in names) or _quoted("NVIDIA H200*")
    yield _on(f"name = [{shown}]", bool(names))
    yield _on(f'compute-capability = ">={capabilities[0] if capabilities else "8.0"}"', bool(capabilities))
    yield _on(f"memory-gib = {floor((least or 0) / MIB) or 80}", bool(least and least >= MIB))


def _shares(bench: BenchReport | None) -> Iterator[str]:
    """Yield the minimum shares of the limit: a little less than what was measured here."""
    measured = [one for one in bench.results if one.ratio and 0 < one.ratio <= 1] if bench else []
    shares: dict[str, float] = {}
    for one in measured:
        shares[one.id] = min(floor((one.ratio or 0) * MARGIN * 100) / 100, shares.get(one.id, 1.0))
    shares = {name: share for name, share in shares.items() if share > 0}
    yield _on("[bench.least]", bool(shares))
    yield from (f"{_quoted(name)} = {share:.2f}" for name, share in shares.items())
    if not shares:
        yield from ('# "hbm.*" = 0.85', '# "gemm.bf16" = 0.65')


def _range(component: Component) -> str | None:
    """Return the range for the installed release: 2.11.0 is >=2.11,<3."""
    known = version_of(component.version) if component.version else None
    return f">={known.major}.{known.minor},<{known.major + 1}" if known else None


def _on(line: str, on: bool) -> str:  # noqa: FBT001 - a line, and whether it is in force
    return line if on else f"# {line}"


def _quoted(text: str) -> str:
    """Return a text as TOML writes it: in ASCII, without half surrogates, which TOML cannot represent."""
    whole = text.encode("utf-16", "replace").decode("utf-16").replace("\x7f", GONE)
    return "".join(_letter(letter) for letter in json.dumps(whole, ensure_ascii=False))


def _letter(letter: str) -> str:
    return letter if letter.isascii() else f"\\U{ord(letter):08x}"
