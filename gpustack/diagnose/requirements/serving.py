"""What serving programs need from the GPU for the techniques that they use, and what programs without releases need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import heard
from gpustack.diagnose.machine.inventory import capabilities, driver_release, gpus, nvidia_here
from gpustack.diagnose.machine.values import copies, text, told, version
from gpustack.diagnose.requirements.fits import Fit, asked, driver_fit, edge
from gpustack.matrix.subjects import gpus as products
from gpustack.matrix.subjects import serving, toolkits
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model import record, replace
from gpustack.model.command import PATH, Command, sh
from gpustack.model.report import Contract, Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.serving import Program, Technique
    from gpustack.matrix.subjects.toolkits import Monthly
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.versions import ComputeCapability


SERVERS = ("vllm", "sglang", "tensorrt-llm", "tgi")
EXTENSIONS = "torch-extensions"


@record
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


CARRIED = "carried"
FITS = frozenset({Kept.OK, Kept.LIMITED})
FORWARD = frozenset({"datacenter", "embedded"})  # GPUs with forward compatibility


def image(facts: Facts) -> str | None:
    """Return the image that is in use, with its tag, where it is one of NVIDIA's monthly ones."""
    named = next((copy for copy in copies(facts, "image") if text(copy.facts, "name")), None)
    return f"{text(named.facts, 'name')}:{named.version}{named.build or ''}" if named else None


def _month(facts: Facts, matrix: Matrix) -> Monthly | None:
    parts = toolkits.NGC.fullmatch(image(facts) or "")
    return toolkits.month_of(matrix, parts["name"], parts["month"], parts["build"]) if parts else None


def supports(facts: Facts, matrix: Matrix, gpu: ComputeCapability) -> bool:
    """Return whether the notes of the image in use say that it supports a GPU."""
    known = _month(facts, matrix)
    return known is not None and _of_month(known, gpu, matrix).kept is Kept.OK


def image_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return how the driver and the GPUs fit NVIDIA's image; a program that reached the GPU in it goes before both."""
    known = _month(facts, matrix)
    at_work = heard(facts, "ran-on-gpu", "cuda-available-true")
    for to, kind, fit in _image_fits(known, facts, matrix) if known else ():
        kept = Kept.LIMITED if at_work and fit.kept is Kept.BROKEN else fit.kept
        yield edge("image", to, kind, replace(fit, kept=kept))


def _image_fits(known: Monthly, facts: Facts, matrix: Matrix) -> Iterator[tuple[str, str, Fit]]:
    if nvidia_here(facts):
        fit = driver_fit(known.cuda, facts, matrix)
        carried = _carried(known, facts, matrix) if fit.kept is Kept.BROKEN else None
        yield "nvidia-driver", CARRIED if carried else "cuda", replace(fit, kept=carried or fit.kept)
    for gpu in capabilities(facts):
        yield "gpu", "architecture", _of_month(known, gpu, matrix)


def _carried(known: Monthly, facts: Facts, matrix: Matrix) -> Kept | None:
    """Return how the driver fits by the compat libraries that the image carries; None on GPUs that may not use them."""
    release, kinds = driver_release(facts), {products.class_of(matrix, gpu.name) for gpu in gpus(facts)}
    bases = known.bases or [base for one in matrix.compats if one.cuda == known.cuda for base in one.bases]
    if release is None or release.branch not in bases or "consumer" in kinds:
        return None
    return Kept.LIMITED if kinds and kinds <= FORWARD else Kept.UNKNOWN  # some workstation cards may use them


def _of_month(known: Monthly, gpu: ComputeCapability, matrix: Matrix) -> Fit:
    """Return how a GPU fits what the notes of a month support, and what its CUDA knows."""
    alike = [one for one in matrix.architectures.values() if one.capability.major == gpu.major]
    firsts = [one.first_toolkit for one in alike if one.first_toolkit]
    arch, lowest, newest = matrix.arch(gpu), known.lowest, known.newest
    early = bool(firsts) and len(firsts) == len(alike) and known.cuda < min(firsts)
    late = bool(arch and arch.last_toolkit and known.cuda > arch.last_toolkit)
    if lowest is None or early or late:
        found = f"CUDA {known.cuda}, which cannot compile for it" if early or late else "code list not seen"
        kept = Kept.BROKEN if early or late else Kept.UNKNOWN
        return Fit(kept=kept, needs=f"code for {gpu.sm}", found=found, row=known.row)
    needs = f"a GPU of compute capability {lowest}{f' to {newest}' if newest else ' or newer'}"
    kept = Kept.BROKEN if gpu < lowest else Kept.OK if newest and gpu.major <= newest.major else Kept.UNKNOWN
    return Fit(kept=kept, needs=needs, found=f"a GPU of {gpu.sm}", row=known.row)


def other_image(facts: Facts, matrix: Matrix) -> tuple[str, tuple[Command, ...]] | None:
    """Return how the nearest month of the same image is got that fits the driver and the GPUs; None without one."""
    here, parts, known = _month(facts, matrix), toolkits.NGC.fullmatch(image(facts) or ""), toolkits.months(matrix)
    if here is None or parts is None or all(fit.kept in FITS for _, _, fit in _image_fits(here, facts, matrix)):
        return None
    place = next((place for place, one in enumerate(known) if one.month >= here.month), len(known))
    driver = driver_release(facts)
    fitting = " and ".join(name for name, known_ in (("GPU", capabilities(facts)), ("driver", driver)) if known_)
    build = parts["build"] or toolkits.KINDS[parts["name"].rpartition("/")[2]]
    for one in sorted(known, key=lambda one: abs(known.index(one) - place)):
        drawn = [fit for fit in _image_fits(one, facts, matrix) if fit[0] == "gpu" or driver]
        fits, tag = {fit.kept for _, _, fit in drawn}, one.tag(parts["name"], build)
        if tag and one.month != here.month and fits and fits <= FITS:
            words = f"Use {tag}, which is made for CUDA {one.cuda} and fits this {fitting}."
            return words, (sh("docker pull {image}", image=PATH(tag)),)
    return None
