"""Compiled extensions: their symbols, their ABI and what a message says of them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import because_said, said
from gpustack.diagnose.machine.frameworks import distributions, installed
from gpustack.diagnose.machine.inventory import builds
from gpustack.diagnose.machine.linking import TORCH, soname_library, symbol_owner, table_of
from gpustack.diagnose.machine.values import because_of, copies, flag, text, texts, told
from gpustack.matrix.subjects import serving, training
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model import record
from gpustack.model.facts import Facts, Instance, Message, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.report import Because, Row


ON_INDEX = {"flashinfer": "flashinfer-python", "pytorch": "torch"}
FRAMEWORKS = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "jax", "jaxlib", "tensorflow", "onnxruntime", "onnxruntime-gpu"),
        *("numpy", "numba", "triton", "tensorrt", "cuda-python", "bitsandbytes", "scikit-learn", "open3d"),
    }
)
# What a wheel that was made for one torch says of it in its version: 2.6.3+cu123torch2.4cxx11abiTRUE, 2.1.2+pt24cu121.
FOR_TORCH = re.compile(r"\+.{0,80}?(?:torch|pt)(?P<torch>\d\.?\d+)")
SERVING = frozenset(
    {"vllm", "sglang", "sgl-kernel", "lmdeploy", "text-generation-inference", "tensorrt-llm", "xinference"}
)
LOAD_TORCH = ("vllm", "sglang", "sgl-kernel", "auto-gptq", "flash-attn", "mamba-ssm", "causal-conv1d", "exllamav2")


@record
class Extension:
    """One compiled package: its name, its version if listed, and the torch version that its release requires."""

    name: str
    version: str | None = None
    torch: str | None = None
    row: Row | None = None

    @property
    def words(self) -> str:
        """Its name and version."""
        return f"{self.name} {self.version or ''}".strip()


@cache
def _modules() -> Mapping[str, str]:
    """Return the distributions of compiled extensions by how their modules begin."""
    return {start: name for name, starts in table_of("extensions").items() for start in starts}


def bringing(module: str) -> str | None:
    """Return the distribution that brings a compiled module, or None if unknown."""
    found = max((start for start in _modules() if module.lower().startswith(start)), key=len, default=None)
    return _modules()[found] if found else None


def sources() -> Mapping[str, str]:
    """Return where extensions are had that the package index does not have, or has an unrelated package for."""
    return table_of("extension_sources")


def of_file(file: str, facts: Facts, matrix: Matrix) -> Extension:
    """Return the package that a file or module belongs to, or the module's own name if unknown."""
    path = file.replace("\\", "/")
    inside = re.search(r"(?:(?:site|dist)-packages|\.\.\.)/([A-Za-z0-9_]+)", path)  # a path may be cut short
    stem = re.sub(r"\.(?:cpython|cp\d|abi3|so|pyd|dll).*$", "", path.rpartition("/")[2])
    for word in (stem, inside[1] if inside else "", *path.split("/")):
        if found := bringing(word):
            return of_name(found, facts, matrix)
    return of_name((inside[1] if inside else stem) or file, facts, matrix)


def other_cuda_alone(message: Message) -> bool:
    """Return whether an extension says that it was built for this release of torch, but for another CUDA major."""
    built, have = (message.values.get(name, "").partition("+cu") for name in ("built", "have"))
    return built[0] == have[0] and bool(built[2] and have[2]) and built[2][:2] != have[2][:2]


def of_name(name: str, facts: Facts, matrix: Matrix) -> Extension:
    """Return a package by name, with what the matrix knows about its release."""
    version = installed(facts, name, name.replace("-", "_"))
    named = FOR_TORCH.search(version or "")
    if named:
        return Extension(name=name, version=version, torch=_torch_of(named["torch"]))
    if not version or not is_version(version):
        return Extension(name=name, version=version)
    if name == "vllm" and (release := serving.vllm_of(matrix, version)):
        return Extension(name=name, version=version, torch=str(release.torch), row=release.row)
    if name == "xformers" and (pin := training.xformers_of(matrix, version)):
        return Extension(name=name, version=version, torch=str(pin.torch), row=pin.row)
    if name == "flash-attn" and (wheels := training.flash_wheels_of(matrix, version)):
        return Extension(name=name, version=version, torch=", ".join(wheels.torches), row=wheels.row)
    return Extension(name=name, version=version)


def distribution_of(name: str, facts: Facts) -> str | None:
    """Return the name to give to pip for a package; None if pip could fetch an unrelated package of that name."""
    wanted = ON_INDEX.get(name, name)
    known = wanted in {*SERVING, *FRAMEWORKS, *ON_INDEX.values(), *_modules().values()}
    return wanted if (known or installed(facts, name) is not None) and name not in sources() else None


def _torch_of(named: str) -> str:
    return named if "." in named else f"{named[0]}.{named[1:]}"


def listed(facts: Facts, matrix: Matrix) -> tuple[Extension, ...]:
    """Return the compiled packages that are listed, servers first."""
    known = dict.fromkeys((*sorted(SERVING), *_modules().values()))
    return tuple(of_name(name, facts, matrix) for name in known if name in distributions(facts))


def named(facts: Facts, matrix: Matrix) -> Iterator[Extension]:
    """Yield the compiled packages that a text names in any way, of those that load torch before their own kernels."""
    for name in LOAD_TORCH:
        if {name, name.replace("-", "_")} & {*facts.words}:
            yield of_name(name, facts, matrix)


COMPONENT = "torch-extensions"
MOST = 3
LACKS = ("undefined-symbol", "missing-library", "dll-procedure")
UNNAMED = "a compiled extension"
OF_CUDA_BUILDS = "libtorch_cuda.so"  # no build of PyTorch for the CPU has it
TORCH_OWN = re.compile(
    r"libtorch(?:_(?:cuda|cpu|python|global|hip)\w{0,20})?\.|libc10|(?<!\w)torch/(?:lib|_C)|libnccl|libcu"
)
FRAMEWORK_OF = {TORCH: "torch", "tensorflow": "TensorFlow"}  # who offers what extensions call, by the owner of a name


@record
class Unfitting:
    """One package in one Python whose files need what torch lacks; ``whole`` if that is true of all its files."""

    extension: Extension
    environment: str | None
    torch: str | None
    files: tuple[Instance, ...]
    whole: bool

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.extension.name}:{self.environment}" if self.environment else self.extension.name

    @property
    def symbol(self) -> str | None:
        """The first symbol that torch does not provide."""
        return next((name for one in self.files for name in _symbols(one)), None)

    @property
    def library(self) -> str | None:
        """The first torch library that is missing."""
        return next((name for one in self.files for name in _libraries(one)), None)

    def because(self, facts: Facts) -> Iterator[Because]:
        """Return the messages about what is missing, what the first files lack, and the torch that was required."""
        lacking = [name for one in self.files for name in (*_symbols(one), *_libraries(one)) if _said(one)]
        lines = [one for one in said(facts, *LACKS) if {*one.values.values()} & {*lacking, self.files[0].key}]
        yield from map(because_said, lines[:1])
        for one in self.files[:MOST]:
            if not _said(one):
                yield because_of(facts, COMPONENT, one, "missing" if _symbols(one) else "absent")
        for build in builds(facts):
            if build.component == "pytorch" and build.copy.environment == self.environment:
                yield because_of(facts, "pytorch", build.copy, "version")


def unfitting(facts: Facts, matrix: Matrix) -> tuple[Unfitting, ...]:
    """Return each package that does not fit its torch; GPU parts missing from a CPU build do not count."""
    files: dict[tuple[str | None, str], list[Instance]] = {}
    for copy in copies(facts, COMPONENT):
        name = text(copy.facts, "distribution") or _package(copy, facts, matrix).name
        files.setdefault((copy.environment, name), []).append(copy)
    kinds = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    found = []
    for (environment, name), held in files.items():
        torch = kinds.get(environment)
        answers = "" if flag(told(facts, "pytorch"), "available") else None  # a build for GPUs, of whatever kind
        accelerator = (torch.accelerator if torch else None) or answers
        wrong = [one for one in held if _wrong(one, accelerator)]
        if wrong:
            found.append(
                Unfitting(
                    extension=of_name(name, facts, matrix),
                    environment=environment,
                    torch=torch.copy.version if torch else None,
                    files=tuple(wrong),
                    whole=len(wrong) == len(held),
                )
            )
    return tuple(found)


def _package(copy: Instance, facts: Facts, matrix: Matrix) -> Extension:
    """Return the package that owns the file; if a message does not name it, the compiled package that is listed."""
    path = copy.path or ""
    asker = path and ("/" in path or ".so" in path or "\\" in path or not texts(copy.facts, "absent"))
    if asker or not _said(
        copy
    ):  # what asks for a missing library may be named by a word before it, such as ImportError
        return of_file(path, facts, matrix)
    return next(iter(listed(facts, matrix)), None) or Extension(name=UNNAMED)


def _said(copy: Instance) -> bool:
    """Return whether it is known only from a message, which may be about another library than torch."""
    return bool({Strength.MESSAGE, Strength.STATED} & {*copy.strengths.values()})


def _symbols(copy: Instance) -> tuple[str, ...]:
    names = texts(copy.facts, "missing")
    own = _said(copy) and bool(TORCH_OWN.search(copy.path or ""))
    return () if own else tuple(name for name in names if not _said(copy) or symbol_owner(name) in FRAMEWORK_OF)


def _libraries(copy: Instance) -> tuple[str, ...]:
    names = texts(copy.facts, "absent")
    return tuple(name for name in names if not _said(copy) or _of_torch(name))


def _of_torch(soname: str) -> bool:
    library = soname_library(soname)
    return library is not None and library[0] == "pytorch"


def _wrong(copy: Instance, accelerator: str | None) -> bool:
    failed = _said(copy) and text(copy.facts, "error") is not None and (copy.path or "") != "torch._C"
    lacks = {*_libraries(copy)} - ({OF_CUDA_BUILDS} if accelerator in {None, "cpu"} else set())
    return bool(_symbols(copy) or failed or (lacks and (accelerator != "cpu" or _said(copy))))
