"""The child's messages become a trace: its steps, layers and kernels, the result, and the chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.errors import NothingSeenError
from gpustack.model.bench import Device
from gpustack.model.difference import Check, Launching
from gpustack.model.facts import Layer
from gpustack.model.reading import made
from gpustack.model.trace import (
    CHECKED,
    Figure,
    Ground,
    KernelLaunch,
    Loaded,
    Moment,
    State,
    Step,
    Subject,
    TensorLayer,
    Trace,
)
from gpustack.trace import NAMES, Account, failed, failing, needing, reference, short
from gpustack.trace.counting import USUAL_LAUNCH, Roof, layers, place, subject, under
from gpustack.trace.failing import refused, wrong
from gpustack.trace.frameworks.chain import chain, there, units
from gpustack.trace.ops import decode

if TYPE_CHECKING:
    from gpustack.model.report import Report
    from gpustack.trace.frameworks import Limits

NO_GPU = "no-gpu"
OUTPUT, BACK = 6, 7
ON_THE_GPU = (3, 4, 7)
SHAPES = (("shape_in", "shapes_in"), ("shape_out", "shapes_out"))  # ours, and the child's: of all of a node's tensors
AS_IN_THE_FILE = "as in the file"


@dataclass(slots=True, kw_only=True)
class Heard(Account):
    """The child's messages. ``why_not`` is why the framework reaches no GPU; ``trouble`` what refused a step."""

    judge: Callable[[str], Report]
    script: str
    output: Path
    framework: Loaded | None = None
    gpu: str | None = None
    capability: str | None = None
    rows: list[TensorLayer] = field(default_factory=list)
    paths: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    check: Check | None = None
    checking: Figure | None = None
    unchecked: str | None = None
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    why_not: str | None = None
    trouble: tuple[int, str] | None = None

    def refuse(self, number: int, why: str) -> None:
        """Store what refused a step; the first counts."""
        if self.trouble is None:
            self.trouble = (number, why)
            self.steps[number] = failed(number, why)

    def died(self, how: str) -> None:
        """Store how the child ended: its step failed."""
        self.refuse(self.at, f"the child {how}")

    def take(self, kind: str, said: Mapping[str, Any]) -> None:
        """Process one line; raises one of results.MALFORMED if it is invalid."""
        if kind == "failed":
            self.refuse(int(said["step"]), str(said["reason"]))
            return
        takers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "step": self._step,
            "framework": self._framework,
            "gpu": self._gpu,
            "layers": self._layers,
            "nodes": self._nodes,
            "kernels": self._kernels,
            "launching": self._launching,
            "numbers": lambda _: self._numbers(),
            "loaded": self._loaded,
            "file": self._file,
            "outputs": self._outputs,
        }
        taker = takers.get(str(said["what"]))
        if taker:
            taker(said)

    def _step(self, said: Mapping[str, Any]) -> None:
        number, seconds = int(said["number"]), float(said["seconds"])
        why = tuple(map(str, said["why"]))
        if number == (OUTPUT if self.gpu is None else BACK) and self.begun is not None:
            self.wall = self.clock() - self.begun
        figures = tuple(made(row, Figure) for row in said["figures"])
        if number == BACK and self.checking is not None:
            seconds += self.checking.value
            figures = (*figures, self.checking)
        begin = float(said["begin"])
        self.timeline.append(Moment(track="host", name=NAMES[number], begin=begin, seconds=seconds, step=number))
        if said["status"] == NO_GPU:
            self.why_not = why[0] if why else "it sees no GPU"
            if there():
                self.refuse(number, self.why_not)
            else:
                self.steps[number] = replace(needing(number), why=why)
            self.steps |= {later: needing(later) for later in ON_THE_GPU}
            return
        step = Step(number=number, name=NAMES[number], status=State.DONE, seconds=seconds, figures=figures, why=why)
        self.steps[number] = step

    def _framework(self, said: Mapping[str, Any]) -> None:
        self.framework = Loaded(
            layer=Layer.FRAMEWORK, name=str(said["name"]), file=str(said["file"]), version=str(said["version"])
        )

    def _gpu(self, said: Mapping[str, Any]) -> None:
        self.gpu = str(said["name"])
        self.capability = ".".join(map(str, said.get("capability") or ())) or None

    def _layers(self, said: Mapping[str, Any]) -> None:
        times = {str(row["name"]): float(row["seconds"]) for row in said["rows"] if row["seconds"] is not None}
        self.rows = [replace(one, seconds=times.get(one.name)) for one in layers(self.model)]

    def _nodes(self, said: Mapping[str, Any]) -> None:
        """Store the nodes of a user's model: what the profile says about each; operations are unknown."""
        self.rows = [
            made({**row, "flops": 0.0} | {ours: (row[theirs] or [[]])[0] for ours, theirs in SHAPES}, TensorLayer)
            for row in said["rows"]
        ]

    def _kernels(self, said: Mapping[str, Any]) -> None:
        maker = self.framework.name if self.framework else "the framework"
        for row in said["rows"]:
            more = {"made_by": f"{maker}'s libraries", "tensor_cores": units(str(row["name"]))}
            self.kernels.append(made({**row, **more}, KernelLaunch))

    def _launching(self, said: Mapping[str, Any]) -> None:
        times = {name: float(said[name]) for name in ("eager_seconds", "graph_seconds")}
        self.launching = Launching(**times, kernels=len(self.kernels) or int(said["kernels"]))

    def _numbers(self) -> None:
        """Compare the output with the float64 reference, if numpy is here: our own part of the last step."""
        model, begun = self.model, self.clock()
        try:
            answer = decode(self.output.read_bytes(), "fp32", model.output.shape)
            items = reference.sample(model)
            wanted = reference.truth(model, reference.load(model), items)
        except NothingSeenError as error:
            self.unchecked = f"not checked: {error}"
            return
        got = reference.part(answer, model, items)
        self.check = failing.compare(got, wanted, model.precision, what="output", rows=len(answer))
        took, of = self.clock() - begun, f"{self.check.compared} of {self.check.rows} rows"
        self.checking = Figure(name=CHECKED, value=took, unit="s", note=of)

    def _loaded(self, said: Mapping[str, Any]) -> None:
        self.paths = tuple(map(str, said["paths"]))
        self.versions = {str(path): str(version) for path, version in said["versions"].items()}

    def _file(self, said: Mapping[str, Any]) -> None:
        self.shapes = [tuple(shape) for shape in said["inputs"].values()][:1] or [()]

    def _outputs(self, said: Mapping[str, Any]) -> None:
        self.shapes += [tuple(shape) for shape in said["shapes"]][:1]
        if not said["finite"]:
            self.unchecked = "its output contains values that are not numbers (NaN or infinity)"

    def trace(self, seconds: float, limits: Limits | None = None) -> Trace:
        """Return the trace, under the limits of the GPU if they are known."""
        roof = self._roof(limits)
        stop, findings = refused(*self.trouble, self.name, self.judge) if self.trouble else (None, ())
        if self.check and not self.check.passed:
            findings = (wrong(self.check, component=self.name, layer=Layer.FRAMEWORK), *findings)
        return replace(
            self.outline(Ground.FRAMEWORK, self._subject(), seconds),
            steps=tuple(self._whole(number) for number in NAMES),
            device=self._device(limits),
            memory_ceiling=limits.memory if limits else None,
            compute_ceiling=limits.compute if limits else None,
            cache_ceiling=limits.cache if limits else None,
            framework=" ".join(filter(None, (self.name, self.framework.version if self.framework else None))),
            layers=tuple(self.rows if self.asked.onnx else (place(one, roof) for one in self.rows)),
            kernels=tuple(self.kernels),
            checks=(self.check,) if self.check else (),
            launching=self.launching,
            chain=chain(self.script, self.framework, self.paths, self.versions, why_not=self._ends()),
            findings=findings,
            stop=stop,
        )

    @property
    def name(self) -> str:
        """The framework."""
        return str(self.asked.framework)

    def _ends(self) -> str | None:
        return self.why_not or (self.trouble[1] if self.trouble and self.gpu is None else None)

    def _roof(self, limits: Limits | None) -> Roof:
        """Return the limits of a layer: the memory, the products, and the cost of a launch from the host."""
        told = self.launching
        launch = (told.eager_seconds - told.graph_seconds) / told.kernels if told and told.kernels else 0.0
        launch = max(USUAL_LAUNCH, launch)
        if limits is None:
            return Roof(launch_seconds=launch)
        return under(limits.memory, limits.compute, limits.cache, limits.device, launch)

    def _device(self, limits: Limits | None) -> Device | None:
        """Return the GPU as CUDA reports it, otherwise only what the framework names."""
        if self.gpu is None:
            return None
        if limits and limits.device.name == self.gpu:
            return limits.device
        return Device(index=0, uuid="", name=self.gpu, compute_capability=self.capability or "")

    def _whole(self, number: int) -> Step:
        step = self.reached(number)
        if self.gpu is not None and step.status is State.DONE and not self.asked.onnx:
            step = replace(step, why=(*step.why, *short(number, self.model)))
        if number == (OUTPUT if self.gpu is None else BACK) and step.status is State.DONE:
            told = [failing.said(self.check)] if self.check else [self.unchecked] if self.unchecked else []
            status = State.FAILED if self.check and not self.check.passed else step.status
            return replace(step, why=(*step.why, *told), status=status)
        return step

    def _subject(self) -> Subject:
        if not self.asked.onnx:
            return subject(self.model)
        first, last = (self.shapes or [()])[0], (self.shapes or [()])[-1]
        size = self.asked.onnx.stat().st_size if self.asked.onnx.is_file() else 0
        return Subject(
            name=self.asked.onnx.name,
            size="file",
            precision=AS_IN_THE_FILE,
            batch=first[0] if first else 1,
            parameters=0,
            weight_bytes=size,
            input_shape=first,
            output_shape=last,
            flops=0.0,
            file=str(self.asked.onnx),
        )
