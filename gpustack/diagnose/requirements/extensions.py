"""What servers and extensions require of PyTorch, the GPUs and the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import Build, builds, capabilities, nvidia_here
from gpustack.diagnose.machine.values import copies, table
from gpustack.diagnose.requirements.fits import Fit, asked, driver_fit, edge, floor_fit
from gpustack.diagnose.rules.coverage import GRAVE, versions_of
from gpustack.matrix.subjects import generated, known_bad, ranges, serving, torch, training
from gpustack.matrix.subjects.ranges import VersionRange, is_version
from gpustack.model import record
from gpustack.model.report import Contract, Kept, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import ComputeCapability, CudaVersion


# The distribution as it is listed and the component that it is.
DISTRIBUTIONS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt-llm",
    "flash-attn": "flash-attention",
    "xformers": "xformers",
    "bitsandbytes": "bitsandbytes",
    "transformer-engine": "transformer-engine",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "torch-tensorrt": "torch-tensorrt",
    "intel-extension-for-pytorch": "intel-extension-for-pytorch",
    "megatron-core": "megatron-lm",
    "deepspeed": "deepspeed",
}


@record
class Copy:
    """One extension in one Python; ``asked`` if it is asked about rather than installed."""

    component: str
    version: str
    environment: str | None
    asked: bool


def extension_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements of every extension whose release is known."""
    for copy in _installed(facts):
        frameworks = [one for one in builds(facts) if one.component == "pytorch"]
        torch_ = next((one for one in frameworks if copy.environment in {one.copy.environment, None}), None)
        if torch_ and torch_.copy.version:
            fits = (*_torch(copy, torch_, matrix), *_binary(copy, torch_, matrix))
            yield from (edge(copy.component, "pytorch", "torch", fit, copy.environment) for fit in fits)
        elif nvidia_here(facts):
            cuda = _cuda(copy, matrix)
            if cuda:
                yield edge(copy.component, "nvidia-driver", "cuda", driver_fit(cuda, facts, matrix), copy.environment)
        for gpu in capabilities(facts):
            for fit in _floors(copy, gpu, torch_, matrix):
                yield edge(copy.component, "gpu", "architecture", fit, copy.environment)


def _installed(facts: Facts) -> Iterator[Copy]:
    """Return the extensions, from components or lists of distributions, each once for each Python."""
    found: dict[tuple[str, str | None], Copy] = {}
    for component in dict.fromkeys((*DISTRIBUTIONS.values(), "tgi", "triton-inference-server")):
        for one in copies(facts, component):
            copy = Copy(component=component, version=one.version or "", environment=one.environment, asked=asked(one))
            found.setdefault((component, one.environment), copy)
    for listed in copies(facts, "packages"):
        for name, version in table(listed.facts, "distributions").items():
            component = DISTRIBUTIONS.get(name, "")
            if component and isinstance(version, str):
                copy = Copy(component=component, version=version, environment=listed.environment, asked=False)
                found.setdefault((component, listed.environment), copy)
    return (copy for copy in found.values() if is_version(copy.version))


def _torch(copy: Copy, build: Build, matrix: Matrix) -> Iterator[Fit]:
    """Return whether an extension fits the PyTorch beside it; a vendor's own build satisfies any pin."""
    version = build.copy.version or ""
    found, parsed = f"torch {version}", ranges.version_of(version)
    own = parsed is None or parsed.is_prerelease or "nv" in (parsed.local or "")
    for span, row, otherwise in (*PINS[copy.component](copy, build, matrix),) or _listed(copy, matrix):
        kept = Kept.OK if span.holds(version) else Kept.UNKNOWN if own else otherwise
        yield Fit(kept=kept, needs=f"torch {span}", found=found, row=row)


Pin = tuple["VersionRange", "Row", Kept]


def _vllm(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    known = serving.vllm_of(matrix, copy.version)
    if known:
        yield known.torch, known.row, Kept.BROKEN


def _server(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    known = serving.release_of(matrix, copy.component, copy.version)
    if known and known.torch.text:
        yield known.torch, known.row, Kept.BROKEN


def _xformers(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    known = training.xformers_of(matrix, copy.version)
    if known:
        yield known.torch, known.row, Kept.BROKEN


def _pinned(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    known = training.torch_pin_of(matrix, copy.component, copy.version)
    if known and known.torch.text:
        yield known.torch, known.row, Kept.BROKEN


def _listed(copy: Copy, matrix: Matrix) -> Iterator[Pin]:
    """Return the PyTorch that the METADATA of a release names, on whatever Python."""
    for one in generated.named(matrix, copy.component, copy.version):
        span = one.pin("torch") or one.pin("torch", extra="srt")  # sglang's server before 0.5
        if span and span.text:
            yield span, one.requiring("torch", span), Kept.BROKEN


def _bitsandbytes(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    if listed := tuple(_listed(copy, matrix)):
        yield from listed
        return
    known = training.bitsandbytes_of(matrix, copy.version)
    stated = training.bitsandbytes_torch(matrix, copy.version)
    if known and stated:
        yield *stated, Kept.BROKEN if known.torch.text else Kept.UNKNOWN


def _binary(copy: Copy, build: Build, matrix: Matrix) -> Iterator[Fit]:
    """Return whether bitsandbytes has a library for the CUDA version of the PyTorch beside it."""
    known = training.bitsandbytes_of(matrix, copy.version) if copy.component == "bitsandbytes" else None
    if known and build.cuda and build.accelerator == "cuda" and known.cudas:
        kept = Kept.OK if build.cuda in known.cudas else Kept.LIMITED if known.serves(build.cuda) else Kept.BROKEN
        needs = f"a torch for CUDA {', '.join(map(str, known.cudas))}"
        found = f"torch {build.copy.version} for CUDA {build.cuda}"
        yield Fit(kept=kept, needs=needs, found=found, row=known.row)


def _flash(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    """Return the PyTorch minors that have a prebuilt wheel; for others pip compiles it, which needs nvcc."""
    known = training.flash_wheels_of(matrix, copy.version)
    if known:
        oldest, newest = known.torches[0], known.torches[-1]
        span = ranges.VersionRange.parse(f">={oldest},<{newest.split('.')[0]}.{int(newest.split('.')[1]) + 1}")
        yield span, known.row, Kept.LIMITED if copy.asked else Kept.UNKNOWN


def _torchvision(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    known = torch.torch_for_torchvision(matrix, copy.version)
    if known:
        yield ranges.VersionRange.parse(known.pin), known.row, Kept.BROKEN


def _torchaudio(copy: Copy, _build: Build, matrix: Matrix) -> Iterator[Pin]:
    """Return the PyTorch of a torchaudio; its last release also works with later ones, so others may be fine."""
    known = torch.torch_for_torchaudio(matrix, copy.version)
    if known:
        yield ranges.VersionRange.parse(f"=={known.torch}"), known.row, Kept.UNKNOWN


def _nothing(_copy: Copy, _build: Build, _matrix: Matrix) -> Iterator[Pin]:
    return iter(())


PINS: Mapping[str, Callable[[Copy, Build, Matrix], Iterator[Pin]]] = {
    "vllm": _vllm,
    "sglang": _server,
    "tgi": _server,
    "tensorrt-llm": _server,
    "xformers": _xformers,
    "bitsandbytes": _bitsandbytes,
    "flash-attention": _flash,
    "torchvision": _torchvision,
    "torchaudio": _torchaudio,
    **dict.fromkeys(("torch-tensorrt", "intel-extension-for-pytorch", "megatron-lm"), _pinned),
    **dict.fromkeys(("transformer-engine", "deepspeed", "triton-inference-server"), _nothing),
}


def _cuda(copy: Copy, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the PyTorch that an extension would install."""
    if copy.component == "vllm":
        known = serving.vllm_of(matrix, copy.version)
        return known.cuda if known else None
    server = serving.release_of(matrix, copy.component, copy.version)
    return server.cuda if server else None


def _floors(copy: Copy, gpu: ComputeCapability, build: Build | None, matrix: Matrix) -> Iterator[Fit]:
    """Return whether an extension, or parts of it, supports a GPU by its compute capability."""
    floor = serving.vllm_floor(matrix, copy.version) if copy.component == "vllm" else None
    if floor:
        yield floor_fit(gpu, floor.capability, floor.row)
    for part in training.floors_of(matrix, copy.component, copy.version):
        yield floor_fit(gpu, part.capability, part.row, Kept.BROKEN if part.whole else Kept.LIMITED)
    yield from _code(copy, gpu, build, matrix)


def _code(copy: Copy, gpu: ComputeCapability, build: Build | None, matrix: Matrix) -> Iterator[Fit]:
    """Return whether a server, or the library that bitsandbytes picks for this PyTorch, has code for a GPU."""
    known = serving.release_of(matrix, copy.component, copy.version)
    archs, row = (known.archs, known.row) if known else ((), None)
    if copy.component == "bitsandbytes" and build and build.cuda:
        fitting = (one for one in training.bitsandbytes_builds(matrix) if one.versions.holds(copy.version))
        picked = next((one for one in fitting if one.cuda.holds(str(build.cuda))), None)
        archs, row = (picked.archs, picked.row) if picked else ((), None)
    if archs:
        fitting_kinds = {arch.kind for arch in archs if arch.runs_on(gpu)}
        kept = Kept.OK if "sm" in fitting_kinds else Kept.LIMITED if fitting_kinds else Kept.BROKEN
        names = " ".join(f"{arch.kind}_{arch.capability.sm[3:]}" for arch in archs)
        yield Fit(kept=kept, needs=f"code for {gpu.sm}", found=f"code for {names}", row=row)


def combination_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return each pair of versions that is known to fail."""
    versions = versions_of(facts)
    for one in known_bad.matching(matrix, versions, architecture=facts.host.machine) if len(versions) > 1 else ():
        certain = not one.when and one.effect.value in GRAVE and one.proof is known_bad.Proof.PROJECT
        for partner, span in one.partners.items() if certain else ():
            found = f"{partner} {versions[partner]}: {one.what}"
            fit = Fit(kept=Kept.BROKEN, needs=f"no {partner} {span}".strip(), found=found, row=one.row)
            yield edge(one.component, partner, "combination", fit)
