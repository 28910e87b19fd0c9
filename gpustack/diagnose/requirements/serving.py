"""What serving programs need from the GPU for the techniques that they use, and what programs without releases need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import capabilities, driver_release, gpus
from gpustack.diagnose.machine.values import copies, text, told, version
from gpustack.diagnose.requirements.fits import Fit, asked, edge
from gpustack.matrix.subjects import serving
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model.report import Contract, Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.serving import Program, Technique
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.versions import ComputeCapability


SERVERS = ("vllm", "sglang", "tensorrt-llm", "tgi")
EXTENSIONS = "torch-extensions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """One technique of one server in one Python, and whether it is usable here.

    ``ok``: it can; ``limited``: the server runs without it; ``unknown``: no GPU was found. ``parallel``: it spreads a
    model over several GPUs.
    """

    component: str
    name: str
    fit: Fit
    environment: str | None
    parallel: bool = False


def abilities(facts: Facts, matrix: Matrix) -> Iterator[Ability]:
    """Return every technique of every server whose release has rows, in the order of the rows."""
    for server in SERVERS:
        known: set[str | None] = set()
        for copy in copies(facts, server):
            if copy.environment not in known and is_version(copy.version or ""):
                known.add(copy.environment)
                for one in serving.techniques_of(matrix, server, copy.version or ""):
                    fit = _fit(one, copy, facts)
                    yield Ability(
                        component=server,
                        name=one.name,
                        fit=fit,
                        environment=copy.environment,
                        parallel=bool(one.parallel),
                    )


def _fit(one: Technique, copy: Instance, facts: Facts) -> Fit:
    """Return whether the GPUs, the build and the packages beside it meet a technique's needs."""
    if one.parallel:
        return _parallel(one, facts)
    here = capabilities(facts)
    needs, note = f"{one.name}: {one.span}", f" ({one.note})" if one.note else ""
    lacking = _lacking(one, copy, facts)
    if lacking:
        return Fit(kept=Kept.LIMITED, needs=needs, found=f"{lacking}: not usable", row=one.row)
    if not here:
        return Fit(kept=Kept.UNKNOWN, needs=needs, found="no GPU that was seen", row=one.row)
    unfit = [gpu for gpu in here if not one.takes(gpu)]
    if unfit:
        return Fit(kept=Kept.LIMITED, needs=needs, found=f"{_names(unfit)}: not usable there", row=one.row)
    return Fit(kept=Kept.OK, needs=needs, found=f"{_names(here)}{note}", row=one.row)


def _names(here: list[ComputeCapability] | tuple[ComputeCapability, ...]) -> str:
    return "a GPU of " + " and ".join(gpu.sm for gpu in here)


def _lacking(one: Technique, copy: Instance, facts: Facts) -> str | None:
    """Return what this build or Python lacks for a technique; nothing if unknown."""
    if one.needs:
        lists = [listed for listed in copies(facts, "packages") if listed.environment == copy.environment]
        if lists and not any(text(listed.facts, "distributions", one.needs) for listed in lists):
            return f"{one.needs} is not installed"
    if one.file:
        files = [other.path or "" for other in copies(facts, EXTENSIONS) if other.environment == copy.environment]
        own = [path for path in files if f"/{one.component}/" in path]
        if own and not any(one.file in path for path in own):
            return f"no {one.file} in this build"
    return None


def _parallel(one: Technique, facts: Facts) -> Fit:
    """Return how many GPUs a model can be spread over: each size up to their number that divides it evenly."""
    count = len(gpus(facts))
    needs = f"{one.name}: {one.span}"
    if not count:
        return Fit(kept=Kept.UNKNOWN, needs=needs, found="no GPU that was seen", row=one.row)
    if count == 1:
        return Fit(kept=Kept.LIMITED, needs=needs, found="one GPU", row=one.row)
    alike = len(set(capabilities(facts))) <= 1
    found = f"{count} GPUs{'' if alike else ' that are not alike'}"
    return Fit(kept=Kept.OK if alike else Kept.LIMITED, needs=needs, found=found, row=one.row)


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether each technique of each installed server is usable here, and what a program in question needs."""
    named = any(asked(copy) for copy in copies(facts, "gpu"))
    for one in abilities(facts, matrix):
        if not (one.parallel and named):  # how many there are, nobody said
            yield edge(one.component, "gpu", "technique", one.fit, one.environment)
    for component in facts.components:
        rows = serving.programs_of(matrix, component.id) if any(map(asked, component.instances)) else ()
        for gpu in capabilities(facts) if any(one.capability for one in rows) else ():
            yield edge(component.id, "gpu", "program", _gpu(rows, gpu))
        for row in rows:
            yield from _program(row, rows, facts)


def _gpu(rows: Sequence[Program], gpu: ComputeCapability) -> Fit:
    """Return how a program or a number format goes with a GPU: its rows together are for one span of them."""
    stated = [one for one in rows if one.capability]
    lowest = min(stated, key=lambda one: one.capability or gpu)
    ends = [one.newest for one in stated]
    newest = None if None in ends else max(filter(None, ends))
    note = f" ({stated[0].note})" if stated[0].note else ""
    end = " or newer" if newest is None else f" to {newest}" if newest != lowest.capability else " alone"
    needs = f"compute capability {lowest.capability}{end}{note}"
    takes = lowest.capability is not None and gpu >= lowest.capability and (newest is None or gpu <= newest)
    return Fit(kept=Kept.OK if takes else Kept.BROKEN, needs=needs, found=f"a GPU of {gpu.sm}", row=lowest.row)


def _program(row: Program, rows: Sequence[Program], facts: Facts) -> Iterator[Contract]:
    """Return how a program goes with the driver, the toolkit, the PyTorch and the AMD GPU: by the narrowest row."""
    here, driver = capabilities(facts), driver_release(facts)
    meant = [one for one in rows if one.newest and here and all(gpu <= one.newest for gpu in here)]
    if row is not (meant or rows)[0]:
        return
    if row.driver and driver:
        kept = Kept.OK if driver.branch >= row.driver else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"a driver branch from {row.driver}", found=f"driver {driver}", row=row.row)
        yield edge(row.component, "nvidia-driver", "program", fit)
    toolkit, torch = version(facts, "cuda-toolkit"), version(facts, "pytorch")
    if row.compiled and toolkit:
        fit = Fit(kept=Kept.OK, needs="nvcc, which compiles it", found=f"CUDA {toolkit}", row=row.row)
        yield edge(row.component, "cuda-toolkit", "program", fit)
    if row.torch.text and torch:
        kept = Kept.OK if row.torch.holds(torch) else Kept.BROKEN
        yield edge(
            row.component,
            "pytorch",
            "program",
            Fit(
                kept=kept,
                needs=f"torch {row.torch}{f' ({row.note})' if row.note else ''}",
                found=f"torch {torch}",
                row=row.row,
            ),
        )
    gfx = text(told(facts, "amd-gpu"), "gfx")
    if row.gfx and gfx:
        kept = Kept.OK if gfx in row.gfx else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"a GPU of {' '.join(row.gfx)}", found=gfx, row=row.row)
        yield edge(row.component, "amd-gpu", "program", fit)
