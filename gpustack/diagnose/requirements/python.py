"""What wheels require of the Python and the C library that they are installed into."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.values import copies, flag, number, text
from gpustack.diagnose.requirements.fits import Fit, asked, edge, release
from gpustack.matrix.subjects import frameworks, generated, ranges, serving, torch, training, wheel_tags
from gpustack.matrix.subjects.ranges import minor, numbers
from gpustack.model import record
from gpustack.model.report import Contract, Kept, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.wheel_tags import WheelTags
    from gpustack.model.facts import Facts, Instance


@record
class Wheels:
    """The Python minors with a wheel of a release on Linux x86-64, its stated Python range, and its glibc.

    ``free_threaded`` are those without the GIL, None if the row does not cover them.
    """

    row: Row
    pythons: tuple[str, ...] = ()
    free_threaded: tuple[str, ...] | None = None
    span: str | None = None
    glibc: str | None = None

    def takes(self, python: str) -> bool | None:
        """Return whether there is a wheel for a Python such as 3.13 or 3.13t; None if the row does not say."""
        if python.endswith("t"):
            return None if self.free_threaded is None else python[:-1] in self.free_threaded
        return python in self.pythons if self.pythons else None


@record
class Installed:
    """One copy of a component with what its row says of its wheels; ``system`` is the machine's."""

    component: str
    copy: Instance
    system: str
    wheels: Wheels | None = None


# The distribution whose wheels a component is; a JAX for CUDA takes its plugin as well.
PACKAGES: Mapping[str, str] = {
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "jax": "jaxlib",
    "onnxruntime": "onnxruntime-gpu",
    "vllm": "vllm",
    "sglang": "sglang",
    "xformers": "xformers",
    "bitsandbytes": "bitsandbytes",
    "flash-attention": "flash-attn",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "llama.cpp": "llama-cpp-python",
}
ON_ARM = "linux-aarch64"
FROM_SOURCE = frozenset(  # nvcc compiles them where the index has no wheel
    {"flash-attention", "vllm", "xformers", "deepspeed", "llama.cpp", "auto-gptq"}
    | {"torch-scatter", "torch-sparse", "torch-cluster"}
)
UNFIT: Mapping[str, Kept] = {
    "flash-attention": Kept.LIMITED,
    "deepspeed": Kept.LIMITED,
}  # pip compiles it where no wheel fits


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether each component with wheels fits its Python, and that Python's glibc."""
    system = platform(facts) or ""
    others = (one.id for one in facts.components if any(map(asked, one.instances)))
    for component in dict.fromkeys((*WHEELS, *PACKAGES, *others)):
        for copy in copies(facts, component):
            python = next((one for one in copies(facts, "python") if one.environment == copy.environment), None)
            if python and release(copy):
                find = WHEELS.get(component)
                wheels = find(copy, matrix) if find else None
                held = Installed(component=component, copy=copy, system=system, wheels=wheels)
                yield from _python(held, python, matrix)
                yield from _glibc(held, python, matrix)


def packages(component: str, copy: Instance, matrix: Matrix) -> tuple[str, ...]:
    """Return the distributions whose wheels a copy of a component is; none if no row covers it."""
    if component == "onnxruntime" and text(copy.facts, "accelerator") == "cpu":
        return ("onnxruntime",)
    major = number(copy.facts, "cuda_major")  # of a library that was named as its wheel
    usual = PACKAGES.get(component, f"nvidia-{component}-cu{major}" if major else component)
    name = text(copy.facts, "distribution") or usual
    known = name in PACKAGES.values() or (generated.has(matrix, name) and name != "cuda-toolkit")  # often no wheel
    plugin = re.fullmatch(r"cuda(\d\d)", copy.build or "") if component == "jax" else None
    return tuple(filter(None, (name if known else None, f"jax-cuda{plugin[1]}-plugin" if plugin else None)))


def tagged(component: str, copy: Instance, matrix: Matrix) -> tuple[tuple[WheelTags, ...], ...]:
    """Return the wheels listed for a release, of each of its distributions, by processor."""
    return tuple(wheel_tags.tags_of(matrix, name, copy.version or "") for name in packages(component, copy, matrix))


def machines_of(component: str, copy: Instance, machine: str, matrix: Matrix) -> tuple[tuple[str, ...], Row | None]:
    """Return the processors that a release has wheels for, if a row says so.

    A platform-independent wheel with compiled code for one processor says nothing about the others.
    """
    if component == "pytorch":
        known = torch.release_of(matrix, copy.version or "")
        offered = (one.partition("-") for one in (known.wheels if known else ()))
        return tuple(name for system, _, name in offered if system == "linux"), known.row if known else None
    listed = tagged(component, copy, matrix)
    if not listed or not all(listed):
        return (), None
    held = [wheel_tags.inside(matrix, name, copy.version or "") for name in packages(component, copy, matrix)]
    if any(one and machine not in one.machines for one in held):
        return (), None
    machines = [tuple(name for one in wheels for name in one.machines if name != "windows") for wheels in listed]
    row = next((one.row for one in listed[-1] if machine in one.machines), listed[-1][0].row)
    return tuple(name for name in machines[0] if all(name in held for held in machines)), row


def free_threaded(python: Instance) -> bool:
    """Return whether a Python has no GIL, which needs other wheels."""
    return flag(python.facts, "gil") is False or bool(re.match(r"[\d.]+t$", python.version or ""))


def _python(held: Installed, python: Instance, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a release fits a Python; one that is installed without a wheel may come from elsewhere."""
    if not python.version:
        return
    version, t = python.version.removesuffix("t"), "t" if free_threaded(python) else ""
    listed = _listed(held, matrix) if asked(held.copy) else None
    archive = listed if listed and not listed.wheels and listed.python.text else None
    fits, needs, row = min(_fits(held, version, t, matrix), key=lambda one: one[0], default=(None, "", None))
    unfit = Kept.UNKNOWN if t and held.component in UNFIT else UNFIT.get(held.component, Kept.BROKEN)
    kept = Kept.OK if fits else unfit if asked(held.copy) else Kept.UNKNOWN
    if archive and (fits is None or not archive.python.holds(version)):
        needs, row = f"Python {archive.python} (the package index has only its source archive)", archive.row
        fetched = generated.unserved(matrix, archive.name, archive.version)
        built = Kept.UNKNOWN if t or fetched else Kept.LIMITED if held.component in FROM_SOURCE else Kept.OK
        kept = built if archive.python.holds(version) else Kept.BROKEN
    if row:
        fit = Fit(kept=kept, needs=needs, found=f"Python {version}{t}", row=row)
        yield edge(held.component, "python", "python", fit, held.copy.environment)


def _fits(held: Installed, version: str, t: str, matrix: Matrix) -> Iterator[tuple[bool, str, Row]]:
    """Yield whether a Python is in the range that a release states, and whether there is a wheel, as far as known."""
    wheels, name = held.wheels, f"{minor(version)}{t}"
    span = ranges.VersionRange.parse(wheels.span) if wheels and wheels.span else None
    inside = span is None or span.holds(version)
    own = wheels.takes(name) if wheels and held.system not in {ON_ARM, "windows"} else None
    if wheels and span and (not inside or span.text.startswith("==") or not asked(held.copy)):
        yield inside, f"Python {span}", wheels.row
    if wheels and own is not None:
        ends = (wheels.free_threaded or ()) if t else wheels.pythons
        said = f"Python {ends[0]} to {ends[-1]}{' without the GIL' if t else ''}" if ends else "a Python with the GIL"
        yield own, said, wheels.row
        return
    for listed in tagged(held.component, held.copy, matrix):
        here = [one for one in listed if held.system.removeprefix("linux-") in one.machines and one.words]
        if here:
            said = f"Python {' '.join(one.words for one in here)}"
            yield any(one.takes(name) for one in here), said, here[0].row


def _listed(held: Installed, matrix: Matrix) -> generated.Release | None:
    name = next(iter(packages(held.component, held.copy, matrix)), None)
    return generated.release_of(matrix, name, held.copy.version or "") if name else None


def _glibc(held: Installed, python: Instance, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the wheels of a release fit a glibc, by the component's row, else by their tags."""
    glibc, needed, row = text(python.facts, "glibc"), None, None
    if held.wheels and held.system != ON_ARM:
        needed, row = held.wheels.glibc, held.wheels.row
    if not needed and asked(held.copy):
        known = _listed(held, matrix)
        needed, row = (known.glibc.get(held.system), known.row) if known else (None, None)
    musl = glibc is None and flag(python.facts, "musl") is True and asked(held.copy)  # Alpine: no wheel of these fits
    if needed and (musl or numbers(glibc)):
        kept = Kept.OK if glibc and numbers(glibc) >= numbers(needed) else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"glibc {needed} or newer", found="musl" if musl else f"glibc {glibc}", row=row)
        yield edge(held.component, "python", "glibc", fit, held.copy.environment)


def _torch(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = torch.release_of(matrix, copy.version or "")
    rough = matrix.torch_releases.get(minor(copy.version))
    if known and (known.glibc or rough is None):
        free = known.free_threaded
        return Wheels(pythons=known.pythons, free_threaded=free, glibc=known.glibc, row=known.row)
    return Wheels(pythons=rough.pythons, glibc=rough.glibc, row=rough.row) if rough else None


def _onnxruntime(copy: Instance, matrix: Matrix) -> Wheels | None:
    on_cpu = text(copy.facts, "accelerator") == "cpu"
    known = None if on_cpu else frameworks.onnxruntime_of(matrix, copy.version or "")
    return Wheels(pythons=known.pythons, glibc=known.glibc, row=known.row) if known else None


def _tensorflow(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = frameworks.tensorflow_of(matrix, copy.version or "")
    return Wheels(pythons=known.pythons, glibc=known.glibc, row=known.row) if known else None


def _jax(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = frameworks.jax_of(matrix, copy.version or "")
    if known is None:
        return None
    return Wheels(pythons=known.pythons, span=known.requires_python, glibc=known.glibc, row=known.row)


def _vllm(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = serving.vllm_of(matrix, copy.version or "")
    return Wheels(span=str(known.python), glibc=known.glibc, row=known.row) if known and known.python.text else None


def _xformers(copy: Instance, matrix: Matrix) -> Wheels | None:
    known = training.xformers_of(matrix, copy.version or "")
    return Wheels(span=known.python.text, row=known.row) if known and known.python.text else None


def _server(component: str) -> Callable[[Instance, Matrix], Wheels | None]:
    def find(copy: Instance, matrix: Matrix) -> Wheels | None:
        known = serving.release_of(matrix, component, copy.version or "")
        return Wheels(span=known.python.text, row=known.row) if known and known.python.text else None

    return find


WHEELS: Mapping[str, Callable[[Instance, Matrix], Wheels | None]] = {
    "pytorch": _torch,
    "tensorflow": _tensorflow,
    "jax": _jax,
    "onnxruntime": _onnxruntime,
    "vllm": _vllm,
    "xformers": _xformers,
    "sglang": _server("sglang"),
    "tgi": _server("tgi"),
    "tensorrt-llm": _server("tensorrt-llm"),
}
