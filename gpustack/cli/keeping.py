"""What becomes of a bench report beside being shown: it is saved, held against an older one, and drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.errors import UsageError
from gpustack.model import writing

if TYPE_CHECKING:
    from gpustack.bench.comparing import Older
    from gpustack.model.bench import BenchReport

PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be done with a report; all of it was looked at before the measurement, which takes its time."""

    save: Path | None
    older: Older | None
    tolerance: float
    plot: Path | None


def wanted(save: Path | None, compare: Path | None, tolerance: float, plot: Path | None) -> Wanted:
    """Give what is to be done; raises for a file that cannot be read, and for a picture of no kind here."""
    from gpustack.bench import comparing
    from gpustack.report import plot as drawing

    if plot:
        ending = drawing.kind(plot.name)
        if ending is None:
            raise UsageError(f"the name of a picture ends with {', '.join(drawing.KINDS)}; {plot.name} does not")
        try:
            drawing.check(ending)
        except drawing.CannotError as error:
            raise UsageError(str(error)) from error
    older = comparing.load(compare) if compare else None
    return Wanted(save=save, older=older, tolerance=tolerance / PERCENT, plot=plot)


def compared(report: BenchReport, asked: Wanted) -> BenchReport:
    """Give the report with its comparison, where one was asked for."""
    from gpustack.bench import comparing

    if asked.older is None:
        return report
    return replace(report, comparison=comparing.compare(report, asked.older, asked.tolerance))


def kept(report: BenchReport, asked: Wanted) -> None:
    """Save the report and draw it; raises OutputError where that cannot be written."""
    from gpustack.model import plain
    from gpustack.report import plot as drawing

    if asked.save:
        writing.write(asked.save, plain.render(report))
    if asked.plot:
        writing.write(asked.plot, drawing.picture(report, drawing.kind(asked.plot.name) or ".svg"))


def regressed(report: BenchReport) -> bool:
    """Tell whether anything is worse than it was in the older report."""
    from gpustack.bench import comparing

    return report.comparison is not None and comparing.regressed(report.comparison)
