"""Releases that go together in one Python: the smallest set of changes after which PyTorch and what is bound to it fit.

A change of one package that leaves its companions behind breaks what worked, so a set names all of them at once: the
torch, its build, torchvision and torchaudio, and each server or extension that is installed beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import capabilities
from gpustack.diagnose.machine.values import copies, table, version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.matrix.subjects import generated, serving, torch, training
from gpustack.matrix.subjects.ranges import ANY, VersionRange, minor, numbers
from gpustack.model import record
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import ComputeCapability

TORCH = "torch"
SERVERS = ("vllm", "sglang")  # compiled for the torch of the package index alone
LAST_AUDIO = "2.11.0"  # from this torchaudio on none is bound to a torch
# What a change weighs: the build least, then what follows torch, then torch itself, then what somebody runs.
WEIGHTS = {"build": 0.5, "torchvision": 0.9, "torchaudio": 0.9, TORCH: 2.0, "vllm": 3.0, "sglang": 3.0}
EXTENSION = 1.5
COMPONENTS = {"flash-attn": "flash-attention"}
WORKS = {Kept.OK: 0, Kept.UNKNOWN: 1, Kept.LIMITED: 2}


@record
class Bound:
    """One release of something that is bound to torch: the torch and the Python that it goes with."""

    version: str
    torch: VersionRange
    python: VersionRange = ANY


@record
class ChangeSet:
    """Releases to install in one command: ``pins`` has torch first; ``moves`` those of them that are others than now.

    ``tag`` is the build of torch, and ``usual`` tells whether the package index serves it; ``fit`` is how it runs on
    the driver.
    """

    pins: Mapping[str, str]
    moves: tuple[str, ...]
    tag: str
    usual: bool
    fit: Kept

    @property
    def torch(self) -> str:
        """The release of torch."""
        return self.pins[TORCH]


@record
class Place:
    """One Python as a change set sees it: its version and the packages in it that are bound to torch."""

    python: str | None
    system: str
    held: Mapping[str, str]
    asks: Mapping[str, str]
    tag: str | None
    gpus: tuple[ComputeCapability, ...] = ()

    @property
    def release(self) -> str | None:
        """The release of torch that is here."""
        return self.held.get(TORCH)


def place(facts: Facts, environment: str | None) -> Place:
    """Return what is installed in a Python, as far as it is bound to torch."""
    listed = [one for one in copies(facts, "packages") if one.environment in {environment, None}]
    found = {
        _plain(name): text.partition("+")[0]
        for one in listed[:1]
        for name, text in table(one.facts, "distributions").items()
        if _plain(name) in {TORCH, *FAMILY} and isinstance(text, str) and numbers(text)
    }
    frameworks = [one for one in copies(facts, "pytorch") if one.environment in {environment, None}]
    tag = next((one.build or one.version.partition("+")[2] for one in frameworks if one.version), None)
    release = next((one.version.partition("+")[0] for one in frameworks if one.version and numbers(one.version)), None)
    pins = {
        _plain(name): asked
        for one in listed[:1]
        for name in table(one.facts, "pins")
        if isinstance(asked := table(one.facts, "pins", name).get(TORCH), str)
    }
    python = next((one.version for one in copies(facts, "python") if one.environment == environment), None)
    return Place(
        python=minor(python or version(facts, "python")) or None,
        system=platform(facts) or torch.LINUX,
        held={**found, **({TORCH: release} if release else {})},
        asks=pins,
        tag=tag or None,
        gpus=tuple(capabilities(facts)),
    )


def change_set(
    facts: Facts, matrix: Matrix, environment: str | None = None, *, besides: tuple[str, str] | None = None
) -> ChangeSet | None:
    """Return the smallest set of changes after which torch and what is bound to it run here and fit each other.

    ``besides`` is a release and a build of torch that are known not to run. None: nothing has to change, or nothing
    that is known would do.
    """
    here = place(facts, environment)
    tries = [one for one in _sets(here, facts, matrix) if (one.torch, one.tag) != besides]

    def rank(one: ChangeSet) -> tuple[int, float, tuple[int, int, int, int]]:
        idle = sum(not _starts(name, release, here, matrix) for name, release in one.pins.items())
        return idle, _weight(here, one), _distance(here, one, matrix)

    best = min(tries, key=rank, default=None)
    return best if best and (best.moves or besides) else None


def with_torch(facts: Facts, matrix: Matrix, environment: str | None, release: str, tag: str) -> ChangeSet | None:
    """Return the set that goes with one build of torch, whatever runs here; None where something here fits no release.

    It has torch alone where nothing that is bound to it is here. A server is compiled for the usual build of its torch.
    """
    here = place(facts, environment)
    pins = _pins(here, release, matrix)
    usual = torch.default_build(matrix, release, here.system)
    known, own = torch.release_of(matrix, release), usual is not None and usual.tag == tag
    no_wheel = known is not None and here.python not in {None, *known.pythons}
    if pins is None or no_wheel or (not own and any(name in here.held for name in SERVERS)):
        return None
    moves = tuple(name for name, wanted in pins.items() if here.held.get(name) != wanted)
    return ChangeSet(pins=pins, moves=moves, tag=tag, usual=own, fit=Kept.UNKNOWN)


def _sets(here: Place, facts: Facts, matrix: Matrix) -> Iterator[ChangeSet]:
    """Yield every release and build of torch that runs here, each with the releases that go with it."""
    server = any(name in here.held for name in SERVERS)
    drivers: dict[object, Kept] = {}
    for release in torch.releases(matrix):
        usual = torch.default_build(matrix, release.version, here.system)
        pins = _pins(here, release.version, matrix) if here.python in {None, *release.pythons} else None
        for build in torch.builds_of(matrix, release.version, here.system) if pins else ():
            own = usual is not None and build.tag == usual.tag
            if build.accelerator != "cuda" or build.cuda is None or (server and not own) or not pins:
                continue
            if build.cuda not in drivers:
                drivers[build.cuda] = driver_fit(build.cuda, facts, matrix).kept
            if drivers[build.cuda] in WORKS and _has_code(build, facts):
                moves = tuple(name for name, wanted in pins.items() if here.held.get(name) != wanted)
                yield ChangeSet(pins=pins, moves=moves, tag=build.tag, usual=own, fit=drivers[build.cuda])


def _has_code(build: torch.Build, facts: Facts) -> bool:
    """Return whether a build has machine code for all GPUs here; unread code counts as none."""
    return all(any(arch.kind == "sm" and arch.runs_on(gpu) for arch in build.archs) for gpu in capabilities(facts))


def _pins(here: Place, release: str, matrix: Matrix) -> Mapping[str, str] | None:
    """Return the release of each package here that goes with a torch; None where one of them has none that is known."""
    pins = {TORCH: release}
    for name in (name for name in FAMILY if name in here.held):
        found = release_for(name, here, release, matrix)
        if found is None:
            return None
        pins[name] = found
    return pins


def fitting(known: Iterable[Bound], here: Place, release: str) -> list[Bound]:
    """Return the releases of a package that go with a torch on the Python that is here."""
    return [one for one in known if one.torch.holds(release) and (here.python is None or one.python.holds(here.python))]


def release_for(name: str, here: Place, release: str, matrix: Matrix) -> str | None:
    """Return the release of a package for this torch: that which is here if it fits, else the nearest to it.

    Of a package that is not here it is the newest; None where the matrix knows none that goes with this torch.
    """
    found = here.held.get(name, "")
    known = FAMILY[name](matrix)
    own = [one for one in known if one.version == found]
    asked = VersionRange.parse(here.asks[name]) if name in here.asks else None
    unread = bool(found and not own) and (asked.holds(release) if asked else release == here.release)
    stays = unread or bool(fitting(own, here, release))
    if stays and _starts(name, found, here, matrix):
        return found
    fits = [one for one in fitting(known, here, release) if _served(name, one.version, here, matrix)]
    run = [one for one in fits if _starts(name, one.version, here, matrix)]
    if stays and not run:
        return found
    fits = run or fits
    order = {one.version: number for number, one in enumerate(known)}
    at = sum(numbers(one.version) < numbers(found) for one in known) if found else len(known)
    nearest = min(fits, key=lambda one: (abs(order[one.version] - at), -order[one.version]), default=None)
    return nearest.version if nearest else None


def _served(name: str, version_: str, here: Place, matrix: Matrix) -> bool:
    """Return whether the index has a wheel of a release for the Python here, as far as that was read."""
    known = generated.release_of(matrix, name, version_) if here.python else None
    return known is None or known.serves(here.system, here.python or "")


def _starts(name: str, version_: str, here: Place, matrix: Matrix) -> bool:
    """Return whether a release runs on all GPUs here, as far as rows say it."""
    floors = training.oldest_gpus(matrix, COMPONENTS.get(name, name), version_)
    return all(gpu >= floor for floor in floors for gpu in here.gpus)


def _weight(here: Place, one: ChangeSet) -> float:
    moved = [WEIGHTS.get(name, EXTENSION) for name in one.moves]
    same = one.torch == here.release and here.tag
    return sum(moved) + (WEIGHTS["build"] if same and one.tag != here.tag else 0)


def _distance(here: Place, one: ChangeSet, matrix: Matrix) -> tuple[int, int, int, int]:
    """Return how far a torch is from that which is here, the newer first, and of its builds the one that fits best.

    A release that is near and works by minor-version compatibility comes before one of years ago that needs none.
    """
    order = [release.version for release in torch.releases(matrix)]
    now = here.release
    at = sum(numbers(name) < numbers(now) for name in order) if now else len(order)
    place_ = order.index(one.torch)
    cuda = int(one.tag.removeprefix("cu")) if one.tag.removeprefix("cu").isdecimal() else 0
    own = one.tag == here.tag or (one.usual and one.torch != here.release)
    return 2 * abs(place_ - at) - (place_ > at), WORKS[one.fit], not own, -cuda if one.fit is Kept.OK else cuda


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _vision(matrix: Matrix) -> tuple[Bound, ...]:
    rows = matrix.rows("torch_wheels", "companions", torch.Companions)
    return tuple(Bound(version=one.torchvision, torch=VersionRange.parse(one.pin)) for one in rows)


def _audio(matrix: Matrix) -> tuple[Bound, ...]:
    rows = matrix.rows("torch_wheels", "companions", torch.Companions)
    made = {one.torchaudio: one.torch for one in rows if one.torchaudio}
    spans = {own: f">={of}" if own == LAST_AUDIO else f"=={of}" for own, of in made.items()}
    return tuple(Bound(version=own, torch=VersionRange.parse(span)) for own, span in spans.items())


def _vllm(matrix: Matrix) -> tuple[Bound, ...]:
    """Return the releases of vLLM that can be installed and name a newest torch: each is compiled for one."""
    return tuple(
        Bound(version=one.version, torch=one.torch, python=one.python)
        for one in serving.vllm_releases(matrix)
        if ("==" in one.torch.text or "<" in one.torch.text) and not generated.unserved(matrix, "vllm", one.version)
    )


def _sglang(matrix: Matrix) -> tuple[Bound, ...]:
    there = (one for one in serving.releases(matrix, "sglang") if not one.stub)
    return tuple(Bound(version=one.version, torch=one.torch, python=one.python) for one in there)


def _xformers(matrix: Matrix) -> tuple[Bound, ...]:
    return tuple(Bound(version=one.version, torch=one.torch, python=one.python) for one in training.xformers(matrix))


def _bitsandbytes(matrix: Matrix) -> tuple[Bound, ...]:
    rows = ((one, training.bitsandbytes_torch(matrix, one.version)) for one in training.bitsandbytes(matrix))
    return tuple(Bound(version=one.version, torch=stated[0] if stated else ANY) for one, stated in rows)


def _flash(matrix: Matrix) -> tuple[Bound, ...]:
    """Return the releases of flash-attn; each is built here, against any torch from the oldest of its wheels on."""
    rows = training.flash_wheels(matrix)
    return tuple(Bound(version=one.version, torch=VersionRange.parse(f">={one.torches[0]}")) for one in rows)


# The packages that are bound to torch, in the order in which a command names them.
FAMILY: Mapping[str, Callable[[Matrix], tuple[Bound, ...]]] = {
    "torchvision": _vision,
    "torchaudio": _audio,
    "vllm": _vllm,
    "sglang": _sglang,
    "xformers": _xformers,
    "bitsandbytes": _bitsandbytes,
    "flash-attn": _flash,
}
