"""Installed wheels: whose files were overwritten, and which CUDA major they are built for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.fixes import TORCH_INDEX, install_torch
from gpustack.diagnose.machine.extensions import Extension, distribution_of, of_file, of_name, unfitting
from gpustack.diagnose.machine.frameworks import installed, torch, torch_version
from gpustack.diagnose.machine.inventory import Build, builds
from gpustack.diagnose.machine.toolchain import used
from gpustack.diagnose.machine.values import because_of, copies, flag, items, status, table, text, version
from gpustack.matrix.subjects import torch as wheels
from gpustack.matrix.subjects.ranges import is_version, minor, numbers
from gpustack.model import record
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    DISTRIBUTION,
    MODULE,
    PYTHON,
    SOME_PYTHON,
    VERSION,
    code,
    either,
    requirement,
    sh,
)
from gpustack.model.report import Because, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.command import Command, Word
    from gpustack.model.facts import Facts, Instance, JsonValue


MOST_NAMED = 3
# In the name of a wheel: flash_attn-2.7.4+cu12torch2.5cxx11abiFALSE.
FOR_TORCH = re.compile(r"torch(?P<torch>[12]\.\d{1,2})(?!\d)|\+pt(?P<major>[12])(?P<minor>\d{1,2})(?!\d)")
# The C++ ABI that a wheel is for. PyTorch's own wheels have the old one before 2.6, which came with either, and the new
# one since (release notes of 2.6 and 2.7).
ABI, EITHER = re.compile(r"cxx11abi(TRUE|FALSE)"), (2, 6)
CUDA_OF = re.compile(r"\+(?:pt\d{2,3})?cu(1\d)\d{0,2}(?:torch|$)")
OF_TORCH = frozenset({"torch", "torchvision", "torchaudio", "torchtext", "torchdata"})  # released together
NUMPY_2 = (2, 3)  # the first PyTorch that was built for NumPy 2 (its release notes)
FOR_CUDA = re.compile(r"cupy-cuda(?P<major>\d\d)x")
TAG = re.compile(r"\+(?:cpu|cu\d+|rocm\d|xpu)")


@record
class Overwritten:
    """Library files of one Python that the same wheels claim. ``wanted`` is the wheel that ``build`` requires."""

    owners: tuple[str, ...]
    fits: str | None
    paths: tuple[str, ...]
    there: bool
    copy: Instance
    build: Build | None
    wanted: str | None

    @property
    def mark(self) -> str:
        """Its name in findings: that of the framework that needs the files, else the Python."""
        return self.build.mark if self.build else f"packages:{self.copy.environment or self.copy.key}"

    @property
    def file(self) -> str:
        """The files, abbreviated."""
        first = self.paths[0].rpartition("/")[2]
        return first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def whose(self) -> str:
        """Whose file is on disk, in words."""
        if not self.there:
            return "it is gone"
        return f"it is the one of {self.fits}" if self.fits else "it fits neither"

    @property
    def severity(self) -> Severity:
        """The severity: the right file is only a risk at the next removal; a wrong one breaks what needs it."""
        if self.wanted is None:
            return Severity.WARNING
        if self.fits == self.wanted:
            return Severity.INFO
        return Severity.WARNING if (self.build and self.build.ran_on_gpu) or not self.told else Severity.ERROR

    @property
    def told(self) -> bool:
        """Whether the disk shows whose the file is, or that it is gone."""
        return bool(self.fits) or not self.there

    @property
    def detail(self) -> str:
        """Who needs which file, and where the files are."""
        needs = f"{self.build.name} requires {self.wanted}. " if self.build and self.wanted else ""
        return f"{needs}{', '.join(self.paths[:MOST_NAMED])}{' …' if len(self.paths) > MOST_NAMED else ''}"

    @property
    def because(self) -> tuple[Because, ...]:
        """The evidence: each file, and the wheels' records of it."""
        value = f"{', '.join(self.owners)}: {self.whose}"
        return tuple(
            Because(component="packages", fact="overwritten", value=value, source=path)
            for path in self.paths[:MOST_NAMED]
        )

    @property
    def fix(self) -> Fix:
        """Remove all of them and install the required one: removing one alone deletes the other's file."""
        python = PYTHON(self.copy.environment)
        kept = self.wanted or self.fits or self.owners[-1]
        name, _, version = kept.partition(" ")
        wanted = requirement(name, f"=={version}" if version else "")
        owners = tuple(DISTRIBUTION(owner.partition(" ")[0]) for owner in self.owners)
        return Fix(
            text=f"Remove all of them, then install {kept} alone.",
            commands=(
                sh("{python} -m pip uninstall -y {owners}", python=python, owners=owners),
                sh("{python} -m pip install --no-deps {wanted}", python=python, wanted=wanted),
            ),
            verify=sh("gpustack doctor"),
        )

    def named(self, begins: str) -> bool:
        """Return whether one of the files has this name."""
        return any(path.rpartition("/")[2].startswith(begins) for path in self.paths)


def overwritten(facts: Facts) -> Iterator[Overwritten]:
    """Return the files that several wheels claim, those of the same wheels together, for each framework in need."""
    for copy in copies(facts, "packages"):
        groups: dict[tuple[tuple[str, ...], str | None, bool], list[str]] = {}
        for one in items(copy.facts, "overwritten"):
            owners, path = _owners(one), text(one, "path")
            if path and len(owners) > 1:
                key = (
                    owners,
                    next((owner for owner in owners if owner.partition(" ")[0] == text(one, "fits")), None),
                    flag(one, "there") is not False,
                )
                groups.setdefault(key, []).append(path)
        for (owners, fits, there), paths in groups.items():
            for build, wanted in _needing(copy, owners, facts):
                yield Overwritten(
                    owners=owners, fits=fits, paths=tuple(paths), there=there, copy=copy, build=build, wanted=wanted
                )


def _needing(copy: Instance, owners: tuple[str, ...], facts: Facts) -> list[tuple[Build | None, str | None]]:
    """Return each framework of this Python that requires one of the wheels; nothing if none does."""
    found: list[tuple[Build | None, str | None]] = []
    for build in builds(facts):
        required = {*table(build.copy.facts, "requires"), *table(build.copy.facts, "pins")}
        wanted = [owner for owner in owners if owner.partition(" ")[0] in required]
        if build.copy.environment == copy.environment and len(wanted) == 1:
            found.append((build, wanted[0]))
    return found or [(None, None)]


def _owners(one: JsonValue) -> tuple[str, ...]:
    said = [(text(owner, "name"), text(owner, "version")) for owner in items(one, "owners")]
    return tuple(dict.fromkeys(" ".join(filter(None, pair)) for pair in said if pair[0]))


ASK = sh('python -c "import torch; print(torch.__version__, torch.version.cuda)"')


def shows(name: str) -> Command:
    """Return the command that shows that a wheel is imported beside torch, and for which CUDA that is."""
    module = MODULE(name.replace("-", "_"))
    return sh("python -c {code}", code=code("import torch, {module}; print(torch.version.cuda)", module=module))


def torches(wheel: Extension, major: int, matrix: Matrix) -> tuple[Command, ...]:
    """Return the command that installs the torch of this CUDA major that a wheel asks for, where one is known."""
    release = (wheel.torch or "").lstrip("=").partition("+")[0]
    tags = [one for one in wheels.builds_of(matrix, release) if one.cuda and one.cuda.major == major] if release else []
    return (install_torch(SOME_PYTHON, release, tags[-1].tag),) if tags else ()


# PyTorch Geometric's parts have an index of their own for each release of torch and each CUDA.
OF_PYG = ("torch-scatter", "torch-sparse", "torch-cluster", "torch-spline-conv")
ALL_OF_PYG = sh("torch-scatter torch-sparse torch-cluster torch-spline-conv")
FROM_PYG = (
    "python -m pip install --force-reinstall --no-deps {parts} -f https://data.pyg.org/whl/torch-{torch}+{tag}.html"
)


def pyg(parts: Word | Command, torch: str, tag: str) -> Command:
    """Return how parts of PyTorch Geometric are installed for this torch and this build of it (cu121, cpu)."""
    return sh(FROM_PYG, parts=parts, torch=VERSION(torch), tag=BUILD_TAG(tag))


def fix(wheel: Extension | None, own: str, major: int, facts: Facts, matrix: Matrix) -> Fix:
    """Return the wheel for the CUDA of torch, or the torch for the CUDA of the wheel."""
    release = (torch_version(facts) or "").partition("+")[0]
    tags = [one for one in wheels.builds_of(matrix, release) if one.cuda and one.cuda.major == major] if release else []
    name = wheel.name if wheel else "the wheel"
    commands = []
    wanted = distribution_of(wheel.name, facts) if wheel else None
    tag = f"cu{own.replace('.', '')}"
    if wheel and wheel.name in OF_PYG:
        commands += [pyg(requirement(wheel.name, ""), release, tag)] if release else []
    elif wheel and wanted:
        pinned = requirement(wanted, f"=={wheel.version}" if wheel.version else "")
        command = "python -m pip install --force-reinstall {pinned} --extra-index-url {index}/{tag}"
        commands.append(sh(command, pinned=pinned, index=ADDRESS(TORCH_INDEX), tag=BUILD_TAG(tag)))
    if tags:
        torch_command = install_torch(SOME_PYTHON, release, tags[-1].tag)
        commands.append(torch_command)
    return Fix(
        text=f"Take the build of {name} for CUDA {own.partition('.')[0]} (its wheels with +cu in the name)"
        f", or the torch for CUDA {major}{f' ({tags[-1].tag})' if tags else ''}: both must have the same major "
        "version.",
        commands=either(*commands) or (ASK,),
        verify=shows(name) if wheel else None,
    )


COMPONENT, RUNTIME = "torch-extensions", "cuda-runtime"


@record
class OtherCuda:
    """One package in one Python that is built for CUDA ``major``, the torch beside it, and the file that says so."""

    extension: Extension
    major: int
    build: Build
    file: Instance

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.extension.name}:{self.build.copy.environment}"

    def because(self, facts: Facts) -> Iterator[Because]:
        """Return the CUDA that the file is linked to, and that of the torch."""
        yield because_of(facts, COMPONENT, self.file, "cuda")
        yield because_of(facts, "pytorch", self.build.copy, "cuda")


def other_cuda(facts: Facts, matrix: Matrix) -> Iterator[OtherCuda]:
    """Return each package whose runtime was searched for, in its Python and on the system, and is missing."""
    if status(facts, RUNTIME) is None:
        return
    known = {(one.environment, one.extension.name) for one in unfitting(facts, matrix)}  # told of already
    torches = {build.copy.environment: build for build in builds(facts) if build.component == "pytorch"}
    for file in copies(facts, COMPONENT):
        build, cuda = torches.get(file.environment), text(file.facts, "cuda") or ""
        if not build or not build.cuda or numbers(cuda)[:1] in {(), (build.cuda.major,)}:
            continue
        name = text(file.facts, "distribution") or of_file(file.path or "", facts, matrix).name
        if (file.environment, name) not in known and not _there(cuda, file.environment, facts):
            known.add((file.environment, name))
            yield OtherCuda(extension=of_name(name, facts, matrix), major=numbers(cuda)[0], build=build, file=file)


def _there(cuda: str, environment: str | None, facts: Facts) -> bool:
    """Return whether a CUDA runtime of this major is in the Python or on the system."""
    names = [
        text(one.facts, "soname") or "" for one in copies(facts, RUNTIME) if one.environment in {None, environment}
    ]
    return any(name.startswith(f"libcudart.so.{cuda}") for name in names)


def unlike(name: str, held: str, facts: Facts) -> Iterator[str]:
    """Yield the causes of what a wheel was made for, by its name and version, and what is not here."""
    here, toolkit, mine = version(facts, "pytorch"), used(facts), torch(facts)
    cuda = mine.cuda if mine else None
    tag, own = (TAG.search(one) for one in (held, installed(facts, "torch") or ""))
    if name in OF_TORCH and tag and tag[0] != (own[0] if own else f"+cu{cuda.major}{cuda.minor}" if cuda else tag[0]):
        yield "torch-torchvision-mismatch"
    wanted, cupy, made = FOR_TORCH.search(held), FOR_CUDA.fullmatch(name), CUDA_OF.search(held)
    torch_ = wanted and (wanted["torch"] or f"{wanted['major']}.{wanted['minor']}")
    abi, series = ABI.search(held), numbers(here)[:2]
    other = torch_ and here and is_version(here) and minor(here) != torch_
    if other or (abi and series and series != EITHER and (abi[1] == "TRUE") is (series < EITHER)):
        yield "extension-abi-mismatch"
    if made and cuda and cuda.major != int(made[1]) and name not in OF_TORCH:
        yield "cuda-major-mismatch-wheel"
    if name == "numpy" and series and series < NUMPY_2 and numbers(held)[:1] == (2,):
        yield "numpy-abi-mismatch"
    if cupy and toolkit and toolkit.cuda.major != int(cupy["major"]):
        yield "cuda-major-mixed"
