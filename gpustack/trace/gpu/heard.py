"""The child's messages become a trace: steps with their limits, layers under the roofline, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpustack.bench import results, suite
from gpustack.errors import NothingSeenError
from gpustack.model.bench import Mark, Result
from gpustack.model.difference import BatchTime, Check, Launching, Overlap
from gpustack.model.reading import made
from gpustack.model.trace import Figure, Ground, KernelLaunch, Moment, State, Step, TensorLayer, Trace
from gpustack.trace import NAMES, Account, failed, short
from gpustack.trace.counting import USUAL_LAUNCH, cache, place, subject, under
from gpustack.trace.failing import step_failed as failing
from gpustack.trace.failing import wrong
from gpustack.trace.models import build

if TYPE_CHECKING:
    from gpustack.bench.listening import Line
    from gpustack.bench.results import Opened
    from gpustack.model.report import Finding

LAST, FLOW = 7, 5
# The benchmark and the limit beside each figure.
BESIDE = {
    "copied from pinned memory": "pcie.h2d.pinned",
    "pinned, in trains": "pcie.h2d.pinned",
    "copied from pageable memory": "pcie.h2d.pinned",
    "pageable, repeated": "pcie.h2d.pinned",
    "copied to pinned memory": "pcie.d2h.pinned",
    "pinned back, in trains": "pcie.d2h.pinned",
}
MEASURED = {2: ("pcie.h2d.pinned", "pcie.h2d.pageable"), 7: ("pcie.d2h.pinned",)}


@dataclass(slots=True, kw_only=True)
class Heard(Account):
    """The messages of the child on the GPU."""

    seen: Opened | None = None
    later: list[tuple[int, Figure]] = field(default_factory=list)
    layers: list[TensorLayer] = field(default_factory=list)
    works: list[tuple[str, float]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    batches: list[BatchTime] = field(default_factory=list)
    overlap: Overlap | None = None
    measured: dict[str, Result] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    trouble: str | None = None

    def opens(self, lines: Iterator[Line]) -> None:
        """Store the GPU; raises NothingSeenError if none can be opened, UsageError if it does not exist."""
        self.seen = _opened(next(lines), self.asked.gpu)

    def died(self, how: str) -> None:
        """Store how the child ended before it was done: its current step failed."""
        if self.trouble:
            return
        if self.wall is None:
            self.trouble = f"the child {how}"
            self.steps[self.at] = failed(self.at, self.trouble)
        else:
            self.without.append(f"the repeated measurements ended early: the child {how}")

    def take(self, kind: str, said: Mapping[str, Any]) -> None:
        """Process one line; raises one of results.MALFORMED if it is invalid."""
        if kind == "failed":
            number = int(said["step"])
            self.trouble = str(said["reason"])
            self.steps[number] = failed(number, self.trouble)
            return
        rest = {name: value for name, value in said.items() if name != "what"}
        takers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "subject": self._subject,
            "step": self._step,
            "moment": lambda row: self.timeline.append(made(row, Moment)),
            "kernels": self._kernels,
            "layers": self._layers,
            "figure": lambda row: self.later.append((int(row["step"]), made(row["row"], Figure))),
            "check": lambda row: self.checks.append(made(row["row"], Check)),
            "launching": self._launching,
            "overlap": self._overlap,
            "batch": lambda row: self.batches.append(made(row, BatchTime)),
            "without": lambda row: self.without.append(f"no {row['name']}: {row['reason']}"),
            "bench": self._bench,
        }
        takers[str(said["what"])](rest)

    def _subject(self, said: Mapping[str, Any]) -> None:
        self.model = build(str(said["model"]), str(said["size"]), str(said["precision"]))

    def _step(self, said: Mapping[str, Any]) -> None:
        number = int(said["number"])
        if number == LAST and self.begun is not None:
            self.wall = self.clock() - self.begun
        self.steps[number] = made({**said, "status": State.DONE.value}, Step)

    def _kernels(self, said: Mapping[str, Any]) -> None:
        """Store the kernels; those of libraries are reported a second time with more details."""
        self.kernels = [made(row, KernelLaunch) for row in said["rows"]]

    def _layers(self, said: Mapping[str, Any]) -> None:
        self.layers = [made(row, TensorLayer) for row in said["rows"]]
        self.works = [(str(row["layer"]), float(row["seconds"])) for row in said["works"]]
        if not said["gated"]:
            self.without.append("the gate did not hold: times of small layers include the host's share")

    def _launching(self, said: Mapping[str, Any]) -> None:
        self.launching = made(said, Launching)

    def _overlap(self, said: Mapping[str, Any]) -> None:
        self.overlap = made(said, Overlap)

    def _bench(self, said: Mapping[str, Any]) -> None:
        if self.seen is None:
            return
        bench = next(one for one in suite.listed() if one.id == said["id"])
        architecture = results.architecture(self.matrix, self.seen.device)
        self.measured[bench.id] = results.measured(said, bench, self.seen, architecture)

    def trace(self, seconds: float) -> Trace:
        """Return the trace from the messages."""
        memory, compute, link = (self._ceiling(name) for name in ("hbm.copy", self._product(), "pcie.h2d.pinned"))
        device = self.seen.device if self.seen else None
        level2 = cache(device, self.matrix)
        roof = under(memory, compute, level2, device, self._launch())
        return replace(
            self.outline(Ground.GPU, subject(self.model), seconds),
            steps=tuple(self._whole(number) for number in NAMES),
            device=device,
            layers=tuple(place(one, roof) for one in self.layers),
            kernels=tuple(self._timed()),
            checks=tuple(self.checks),
            launching=self._counted(),
            overlap=self.overlap,
            batches=tuple(self.batches),
            memory_ceiling=memory,
            compute_ceiling=compute,
            cache_ceiling=level2,
            link_ceiling=link,
            findings=tuple(self._findings()),
        )

    def _product(self) -> str:
        return f"gemm.{self.model.precision}"

    def _whole(self, number: int) -> Step:
        """Return a step with later measurements, and the limits beside its figures."""
        step = self.reached(number)
        if step.status is not State.DONE:
            return step
        figures = [*step.figures, *(figure for at, figure in self.later if at == number)]
        figures = [self._limited(figure) for figure in figures] + list(self._benches(number))
        wrong_ = number == LAST and any(not check.passed for check in self.checks)
        why = (*step.why, *short(number, self.model), *(self.without if number == FLOW else ()))
        return replace(step, figures=tuple(figures), why=why, status=State.FAILED if wrong_ else step.status)

    def _limited(self, figure: Figure) -> Figure:
        beside = self.measured.get(BESIDE.get(figure.name, ""))
        return replace(figure, ceiling=beside.ceiling, ceiling_from=beside.ceiling_from) if beside else figure

    def _benches(self, number: int) -> list[Figure]:
        """Return the bench's own figures for a step's work."""
        return [_figure(self.measured[name]) for name in MEASURED.get(number, ()) if _good(self.measured.get(name))]

    def _ceiling(self, name: str) -> Figure | None:
        result = self.measured.get(name)
        return _figure(result) if result and _good(result) else None

    def _launch(self) -> float:
        """Return the cost of a launch from a graph: the pass time not explained by kernels, divided among them."""
        told = self.launching
        if told is None or not told.kernels or told.kernel_seconds is None:
            return USUAL_LAUNCH
        return max(USUAL_LAUNCH, (told.graph_seconds - told.kernel_seconds) / told.kernels)

    def _counted(self) -> Launching | None:
        """Return eager beside graph with the actual kernels: a library's product may be more than one."""
        return replace(self.launching, kernels=len(self.kernels)) if self.launching and self.kernels else self.launching

    def _timed(self) -> list[KernelLaunch]:
        """Return the kernels with the times of their launches, in their order within each layer."""
        left = dict[str, list[float]]()
        for layer, seconds in self.works:
            left.setdefault(layer, []).append(seconds)
        found = []
        for kernel in self.kernels:
            mine = left.get(kernel.layer, [])
            found.append(replace(kernel, seconds=mine.pop(0)) if mine else kernel)
        return found

    def _findings(self) -> list[Finding]:
        """Return the findings: a wrong result, or a failed step."""
        found = [wrong(check) for check in self.checks if not check.passed][:1]
        if self.trouble:
            step = next((one.number for one in self.steps.values() if one.status is State.FAILED), self.at)
            found.append(failing(step, self.trouble))
        return found


def _opened(line: Line, gpu: int) -> Opened:
    """Return the opened GPU; raises NothingSeenError if none can be opened, UsageError if it does not exist."""
    if line.kind != "opened":
        raise results.refusal(line.what if line.kind == "nothing" else str(line.what), gpu)
    try:
        return results.opened(line.what, gpu)
    except results.MALFORMED as error:
        raise NothingSeenError(f"the child's answer is malformed: {error}") from error


def _good(result: Result | None) -> bool:
    return result is not None and result.value is not None and result.verdict is not Mark.FAILED


def _figure(result: Result) -> Figure:
    """Return a measurement of the bench as a figure of a trace."""
    return Figure(
        name=result.id,
        value=result.value or 0.0,
        unit=result.unit,
        ceiling=result.ceiling,
        ceiling_from=result.ceiling_from,
        note="measured by the bench, quickly, after the steps",
    )
