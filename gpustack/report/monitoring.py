"""A report for monitoring: the line of a Nagios plugin, and the metrics of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.model.bench import TIMES, BenchReport, Mark, Result, Span
from gpustack.model.facts import Status
from gpustack.model.policy import CheckReport, HealthClass
from gpustack.model.report import Health, Report, Severity
from gpustack.report import parts
from gpustack.report.page import clean, when

if TYPE_CHECKING:
    from gpustack.report.parts import Reported

CUT = "..."
FIRST_LINE = 80  # what node-problem-detector keeps, and most pagers show
COUNTS = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.UNKNOWN: "unknown", Severity.INFO: "notes"}
HELP = {
    "build_info": "The gpustack version that wrote this, and its compatibility matrix.",
    "last_run_timestamp_seconds": "When the machine was examined.",
    "run_duration_seconds": "Time taken to examine and measure.",
    "verdict": "1 for the verdict of the doctor, 0 for the others.",
    "check_class": "1 for the class of the check, 0 for the others.",
    "findings": "Number of findings of each severity.",
    "finding": "1 for each finding; cause is the key of the finding behind it, empty for a root cause.",
    "contracts": "Number of requirements between components that are met, limited, broken or unknown.",
    "component_info": "1 for each component of the stack that is present or failed, with its version.",
    "framework_works": "1 where a framework of the chosen Python can use the GPU, 0 where it cannot.",
    "policy_rule": "1 for each rule of the policy, with its outcome.",
    "gpu_info": "1 for each GPU that was measured.",
    "bench_verdict": "1 for each figure, with its verdict.",
    "bench_ratio": "The fraction of its physical limit that a figure reached.",
    "bench_bytes_per_second": "Bandwidth measured by a benchmark.",
    "bench_operations_per_second": "Arithmetic rate measured by a benchmark.",
    "bench_latency_seconds": "Time measured by a benchmark.",
    "bench_limit_bytes_per_second": "The physical limit of a bandwidth on this GPU.",
    "bench_limit_operations_per_second": "The physical limit of arithmetic on this GPU.",
    "bench_limit_latency_seconds": "The limit of a time on this GPU.",
    "bench_clock_hertz": "The GPU's actual clock during the measurement.",
    "bench_power_watts": "The median power during the measurement.",
    "bench_temperature_celsius": "The median temperature during the measurement.",
}
SCALES = {"B/s": 1.0, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
PREFIXES = {"G": 1e9, "T": 1e12, "P": 1e15}
OPERATIONS = {f"{one}{unit}/s": scale for one, scale in PREFIXES.items() for unit in ("FLOP", "OP")}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
MEGA = 1e6


def render_nagios(reported: Reported, told: parts.Told = parts.NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the line and, below it, a line for each finding and each violated rule of the policy."""
    lead = f"GPUSTACK {parts.standing(reported).value} - "
    said = _short(_text(_said(reported)), FIRST_LINE - len(lead))
    rows = [f"policy: {row.rule}: wanted {row.wanted}; found {row.found}" for row in parts.unkept(reported)]
    rows += [f"{one.severity.value}: {one.title} [{one.key}]" for one in parts.every(reported)]
    return "\n".join([f"{lead}{said} | {' '.join(_performance(reported))}", *map(_text, rows)]) + "\n"


def _said(reported: Reported) -> str:
    """Return the sentence; for a check, its class says whose fault it is."""
    word, said = parts.headline(reported)
    return f"{word}: {said}" if parts.policy(reported) or word.startswith("bad-") else said


def _performance(reported: Reported) -> Iterator[str]:
    """Yield the number of findings of each kind, each figure's share of its limit, and the duration."""
    number = parts.counted(reported)
    yield from (f"{COUNTS[severity]}={number[severity]};;;0" for severity in COUNTS)
    bench, report = parts.measured(reported), parts.diagnosis(reported)
    for result in bench.results if bench else ():
        if result.ratio is not None and _finite(result.ratio * 100):
            label = "".join(letter for letter in clean(f"{result.id}{result.place()}") if letter not in "'=|\"")
            yield f"'{label}'={(result.ratio or 0.0) * 100:.1f}%;;;0"
    took = [held.seconds for held in (report, bench) if held and _finite(held.seconds)]
    yield f"time={sum(took):.3f}s;;;0"


def _finite(value: float | None) -> bool:
    return value is not None and value - value == 0 and value >= 0


def _text(text: str) -> str:
    """Return the text on one line, without the character that begins performance data."""
    return clean(text).replace("|", "/").strip()


def _short(text: str, most: int) -> str:
    """Return the text, or as many whole words of it as fit."""
    if len(text) <= most:
        return text
    words, room = text[: most - len(CUT) + 1].rpartition(" ")[0], text[: most - len(CUT)]
    return f"{(words or room).rstrip(' ,;:')}{CUT}"


@dataclass(slots=True)
class Families:
    """The metric families so far, each with its samples; labels are unique, since readers reject duplicates."""

    samples: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, value: float | None, labels: Mapping[str, str | None]) -> None:
        """Add a sample if there is a number."""
        if value is None or value - value != 0:
            return
        told = ",".join(f'{key}="{_escaped(held)}"' for key, held in labels.items() if held is not None)
        self.samples.setdefault(name, {}).setdefault(f"{{{told}}}" if told else "", value)

    def lines(self) -> Iterator[str]:
        """Yield the text, with the families in the order of their help."""
        for name, said in HELP.items():
            if held := self.samples.get(name):
                yield f"# HELP gpustack_{name} {said}"
                yield f"# TYPE gpustack_{name} gauge"
                yield from (f"gpustack_{name}{labels} {_number(value)}" for labels, value in held.items())
        yield "# EOF"


def render_prometheus(reported: Reported, told: parts.Told = parts.NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the metrics, ready for the textfile collector of node_exporter."""
    families = Families()
    tool, report, bench = reported.tool, parts.diagnosis(reported), parts.measured(reported)
    families.add("build_info", 1, {"version": tool.version, "matrix_date": tool.matrix_date})
    families.add("last_run_timestamp_seconds", _time(reported.taken), {})
    whole = sum(held.seconds for held in (report, bench) if held)
    families.add("run_duration_seconds", whole, {})
    for severity, number in parts.counted(reported).items():
        families.add("findings", number, {"severity": severity.value})
    for one in parts.every(reported):
        labels = {"id": one.id, "key": one.key, "severity": one.severity.value, "layer": one.layer.value}
        families.add("finding", 1, {**labels, "component": one.component, "cause": one.caused_by or ""})
    if report:
        _report(report, families)
    for row in parts.policy(reported):
        families.add(
            "policy_rule", 1, {"rule": row.rule, "result": parts.of_policy(row).value, "class": row.whose.value}
        )
    if bench:
        _bench(bench, families)
    return "\n".join([*families.lines(), ""])


def _report(report: Report, families: Families) -> None:
    for health in Health:
        families.add("verdict", report.verdict.status is health, {"status": health.value})
    if isinstance(report, CheckReport):
        for class_ in HealthClass:
            families.add("check_class", report.class_ is class_, {"class": class_.value})
    kept = [edge.status for edge in report.contracts]
    for status in dict.fromkeys(kept):
        families.add("contracts", kept.count(status), {"status": status.value})
    for one in report.components:
        if one.status in {Status.PRESENT, Status.FAILED}:
            labels = {"component": one.id, "layer": one.layer.value, "status": one.status.value}
            families.add("component_info", 1, {**labels, "version": one.version})
    for name, works in report.verdict.works.items():
        families.add("framework_works", works, {"component": name})


def _bench(bench: BenchReport, families: Families) -> None:
    for device in bench.devices:
        known = {"gpu": str(device.index), "name": device.name, "uuid": device.uuid}
        families.add("gpu_info", 1, {**known, "compute_capability": device.compute_capability})
    for result in bench.results:
        labels = _labels(result)
        families.add("bench_verdict", 1, {**labels, "verdict": result.verdict.value})
        families.add("bench_ratio", result.ratio, labels)
        unit, scale = _unit(result.unit)
        if unit and result.verdict is not Mark.SKIPPED:
            families.add(f"bench_{unit}", _scaled(result.value, scale), labels)
            families.add(f"bench_limit_{unit}", _scaled(result.ceiling, scale), labels)
        if result.telemetry:
            families.add("bench_clock_hertz", _scaled(result.telemetry.clocks.held, MEGA), labels)
            families.add("bench_power_watts", _median(result.telemetry.power.watts), labels)
            families.add("bench_temperature_celsius", _median(result.telemetry.temperature.gpu), labels)


def _labels(result: Result) -> dict[str, str | None]:
    """Return the labels of a figure: its benchmark and its GPU or pair; none for all GPUs together."""
    if result.gpus and result.device is not None:
        return {"benchmark": result.id, "gpu": str(result.gpus[0]), "peer": str(result.gpus[1])}
    return {"benchmark": result.id, "gpu": None if result.device is None else str(result.device)}


def _unit(unit: str) -> tuple[str, float]:
    """Return the name of the base unit, and the factor from this unit to it."""
    for name, scales in (("bytes_per_second", SCALES), ("operations_per_second", OPERATIONS)):
        if unit in scales:
            return name, scales[unit]
    return ("latency_seconds", SECONDS[unit]) if unit in TIMES else ("", 1.0)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _median(span: Span | None) -> float | None:
    return span.median if span else None


def _time(taken: str) -> float | None:
    moment = when(taken)
    return moment.timestamp() if moment else None


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _escaped(text: str) -> str:
    return clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
