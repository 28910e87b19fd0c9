"""Why something works with what is given, or does not: the contracts that involve the subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.ask import pairs as related
from gpustack.ask.given import GPUS, is_given, put, where
from gpustack.ask.pairs import FRAMEWORKS, ON_TORCH, ends, gaps, meant, named, on_cpu, spoken, undecided, unspoken
from gpustack.ask.releases import BY_MINOR, known
from gpustack.ask.subjects import BROUGHT, brought, install, offered
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.machine.frameworks import platform
from gpustack.diagnose.machine.inventory import nvidia_here
from gpustack.diagnose.machine.values import copies, version
from gpustack.diagnose.requirements.python import FROM_SOURCE
from gpustack.diagnose.requirements.versions import draw
from gpustack.matrix.subjects import frameworks, generated, serving
from gpustack.matrix.subjects.ranges import numbers, version_of
from gpustack.model import record, replace
from gpustack.model.matrix_answer import Compatibility, Reason
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.ask.subjects import Subject
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract

VERDICTS = {
    Kept.OK: Compatibility.COMPATIBLE,
    Kept.LIMITED: Compatibility.LIMITED,
    Kept.BROKEN: Compatibility.INCOMPATIBLE,
    Kept.UNKNOWN: Compatibility.UNKNOWN,
}
WORST = (Compatibility.INCOMPATIBLE, Compatibility.UNKNOWN, Compatibility.LIMITED, Compatibility.COMPATIBLE)
DEVICES = frozenset({"gpu", "amd-gpu", "intel-gpu", "nvidia-driver"})
PSEUDO = frozenset({"windows", "machine"})
COMPILING = frozenset({"cuda-toolkit", "gcc", "clang"})
CODE, UNREAD = "code for", "code list not seen"
MINOR_VERSION = (
    " It works by minor-version compatibility, with limits: PTX of a newer CUDA than the driver's is refused, and so is"
    " a call that needs newer driver code."
)
BY_PTX = " It has only PTX for this GPU, which the driver compiles at the first start: slow at first."
BY_OWN = " It runs anyway, with the CUDA libraries that its wheel brings."
BY_OWN_NVCC = f"{BY_OWN[:-1]}; extensions are not compiled for it by this nvcc."
TECHNIQUE = "technique"
BY_PIP = " There is no wheel for that: pip compiles it, which needs nvcc and much time."


@record
class Judged:
    """The result of judging a subject: its version and build, the verdict, reasons and contracts."""

    subject: Subject
    verdict: Compatibility
    reasons: tuple[Reason, ...]
    contracts: tuple[Contract, ...] = ()
    facts: Facts


def judge(subject: Subject, facts: Facts, matrix: Matrix) -> Judged:
    """Return how a resolved subject works with the facts; for JAX, in its best build."""
    if platform(facts) == "macos" and not facts.taken:
        return _on_macos(subject, facts, matrix)
    tries = [_judge(one, facts, matrix) for one in _builds(subject, facts, matrix)]
    return max(tries, key=lambda one: WORST.index(one.verdict))


def _on_macos(subject: Subject, facts: Facts, matrix: Matrix) -> Judged:
    """Return what there is of a subject on macOS: by its row, else its wheels there, which compute on the CPU."""
    row = serving.on_system(matrix, "macos", subject.component)
    wheels = next(generated.named(matrix, subject.component, subject.version or ""), None)
    there = wheels is not None and any(one.startswith("macos") for one in wheels.wheels)
    text, works = row.says if row else "Nothing is known about macOS.", Compatibility.UNKNOWN
    if row:
        works = Compatibility.COMPATIBLE if row.works else Compatibility.INCOMPATIBLE
        if there and not row.component:
            text, works = f"{subject.words} has wheels for macOS, which do not use CUDA. {text}", Compatibility.LIMITED
        elif not row.component and (unknown := _unknown(subject, facts, matrix)):
            text, works = f"{unknown.text} {text}", Compatibility.UNKNOWN
    reason = Reason(text=text, verdict=works, row=row.row if row else None, source=row.source if row else "")
    return Judged(subject=replace(subject, tag=None), verdict=works, reasons=(reason,), facts=facts)


def _builds(subject: Subject, facts: Facts, matrix: Matrix) -> tuple[Subject, ...]:
    """Return the builds that a subject may mean: JAX has one per CUDA major, that of a given toolkit first."""
    if subject.component != "jax" or subject.tag or not known(matrix, "jax", subject.version or ""):
        return (subject,)
    if platform(facts) == "windows" or (subject.name == "jaxlib" and not any(map(facts.find, DEVICES))):
        return (subject,)  # Windows has no plugin, so jaxlib alone computes, on the CPU
    release = frameworks.jax_of(matrix, subject.version or "")
    given = numbers(version(facts, "cuda-toolkit"))[:1] if is_given(facts, "cuda-toolkit") else ()
    majors = sorted(release.cuda, key=lambda one: ((one,) == given, one), reverse=True) if release else ()
    return tuple(replace(subject, tag=f"cuda{major}") for major in majors) or (subject,)


def _judge(subject: Subject, facts: Facts, matrix: Matrix) -> Judged:
    place = where(facts)
    twice = next((end for end in (subject.component, *GPUS) if end in ends(subject) and is_given(facts, end)), None)
    machine = put(facts, install(subject, place, matrix))
    along = None if machine.find("pytorch") else brought(subject, place, platform(complete(machine, matrix)), matrix)
    machine = complete(put(machine, along) if along else machine, matrix)
    drawn = tuple(
        one for one in draw(machine, matrix) if one.environment in {None, place} and _both_given(one, machine)
    )
    held = spoken(subject, drawn, machine)
    pairs = undecided(subject, drawn, machine)
    missing = tuple(gaps(pairs, drawn, machine))
    verdict, reasons = _concluded(subject, held, pairs, machine, matrix)
    if missing:
        stated = _unknown(subject, machine, matrix) is None
        reasons = tuple(sorted((*reasons, *missing), key=_rank)) if stated else (*reasons, *missing)
        verdict = reasons[0].verdict if stated else verdict
    if twice:
        said = f"{subject.words} and {named(twice, facts)} are two releases of one thing: ask about one or the other."
        verdict, reasons = Compatibility.UNKNOWN, (Reason(text=said, verdict=Compatibility.UNKNOWN), *reasons)
    return Judged(subject=subject, verdict=verdict, reasons=reasons, contracts=held, facts=machine)


def _both_given(contract: Contract, facts: Facts) -> bool:
    """Return whether both ends of a contract were given or found; anything else decides nothing."""
    return all(end in PSEUDO or facts.find(end) is not None for end in (contract.from_, contract.to))


def _concluded(
    subject: Subject, held: tuple[Contract, ...], pairs: Sequence[tuple[str, str]], facts: Facts, matrix: Matrix
) -> tuple[Compatibility, tuple[Reason, ...]]:
    """Return the worst of the contracts' outcomes; what none of them covers is unknown, not good."""
    said = tuple(_compiling(_reason(one, subject, facts), one, subject, facts) for one in held)
    unknown = _unknown(subject, facts, matrix)
    if unknown and not any(one.kind == "maker" and one.row for one in held):  # a vendor's own works so in every release
        return Compatibility.UNKNOWN, (unknown, *sorted(said, key=_rank))
    unseen = _unseen(subject, held, facts)
    own = {end for pair in pairs if pair[0] in ends(subject) for end in pair}
    more = (unseen,) if unseen else tuple(unspoken(subject, held, own, facts, matrix))
    reasons = tuple(sorted((*said, *more), key=_rank))
    if not reasons and not pairs:
        reasons = (_alone(subject, facts),)
    reasons = tuple(sorted((*reasons, *_withdrawn(subject, matrix)), key=_rank))
    return (reasons[0].verdict if reasons else Compatibility.UNKNOWN), reasons


def _compiling(reason: Reason, contract: Contract, subject: Subject, facts: Facts) -> Reason:
    """Return what a toolkit says of a compiler; to a wheel it matters only where an extension is compiled beside it."""
    apart = {contract.from_, contract.to} <= COMPILING and subject.component in {*FRAMEWORKS, *ON_TORCH} - FROM_SOURCE
    if not apart or reason.verdict is not Compatibility.INCOMPATIBLE:
        return reason
    name = _named(subject.component, subject, facts)
    said = f"{reason.text} {name} is installed as a wheel and needs no compiler: only extensions do."
    return replace(reason, text=said, verdict=Compatibility.LIMITED)


def _withdrawn(subject: Subject, matrix: Matrix) -> Iterator[Reason]:
    """Yield that the index lists a release as yanked, or has a stub of it or of what it requires."""
    stub = serving.release_of(matrix, subject.component, subject.version or "")
    if stub and stub.stub:
        text = f"{subject.words} pins {stub.stub}, which the package index has as a source archive alone: it fetches"
        text = f"{text} the wheel from NVIDIA's index when pip builds it. Without that index it is not installed."
        yield Reason(text=text, verdict=Compatibility.LIMITED, row=stub.row, source=stub.source)
    distribution, version_ = _distribution(subject, matrix), subject.version or ""
    gone = generated.unserved(matrix, distribution, version_)
    if gone:
        verdict = Compatibility.INCOMPATIBLE if gone.stops else Compatibility.LIMITED
        text = f"{distribution} {version_} {gone.says}."
        yield Reason(text=text, verdict=verdict, row=gone.row, source=gone.source)
    known = generated.release_of(matrix, distribution, version_)
    if known and known.yanked:
        text = f"{known.name} {known.version} was withdrawn from the package index: {known.yanked}"
        yield Reason(text=text, verdict=Compatibility.LIMITED, row=known.row, source=known.row.source)


def _distribution(subject: Subject, matrix: Matrix) -> str:
    there = generated.DISTRIBUTIONS.get(subject.component, (subject.component,))
    return subject.name if generated.has(matrix, subject.name) else there[0]


def _rank(reason: Reason) -> int:
    return WORST.index(reason.verdict)


def _alone(subject: Subject, facts: Facts) -> Reason:
    """Return what to say about a subject without a contract, if only Linux or a machine was given."""
    text, works = f"The matrix knows {subject.words} for Linux; nothing else was given.", Compatibility.COMPATIBLE
    if on_cpu(subject):
        text = f"{subject.words} computes on the CPU: it needs no GPU and no driver."
    elif facts.taken:
        text, works = f"No row of the matrix says what {subject.words} needs from what is here.", Compatibility.UNKNOWN
    elif platform(facts) == "windows":
        text, works = f"No row of the matrix says whether {subject.words} is for Windows.", Compatibility.UNKNOWN
    elif facts.find("linux-kernel"):
        text = f"No row of the matrix says for which releases of this distribution {subject.words} is made."
        works = Compatibility.UNKNOWN if subject.component in {"cuda-toolkit", "nvidia-driver"} else works
    return Reason(text=text, verdict=works)


def _unseen(subject: Subject, own: tuple[Contract, ...], facts: Facts) -> Reason | None:
    """Return that an examined machine has no GPU and no driver, for a subject that needs one."""
    wants = facts.taken and not on_cpu(subject) and not any(one.to in DEVICES for one in own)
    if not wants or nvidia_here(facts) or subject.component in related.WITHOUT_GPU:
        return None
    text = "No NVIDIA GPU or driver was found on this machine, so it cannot be said whether it would run on one."
    return Reason(text=text, verdict=Compatibility.UNKNOWN)


def _unknown(subject: Subject, facts: Facts, matrix: Matrix) -> Reason | None:
    """Return why nothing is known about a subject; None if the matrix has it."""
    if not subject.version and serving.programs_of(matrix, subject.component):
        return None
    if not subject.version:
        span = f" in {subject.span}" if subject.span else ""
        text = f"The matrix knows no release of {subject.name}{span}.{meant(subject.name)}"
    elif not known(matrix, subject.component, subject.version):
        text = (
            f"The matrix has no row for {subject.name} {subject.version}.{_read(subject, matrix)}{meant(subject.name)}"
        )
    elif others := _of_another(subject, matrix):
        name = _distribution(subject, matrix)
        text = f"The package index has no {name} {subject.version}: {' and '.join(others)} has it."
    elif not offered(subject, platform(facts) or "", matrix):
        text = f"The matrix knows no build {subject.tag} of {subject.name} {subject.version} for this system."
    else:
        return None
    return Reason(text=text, verdict=Compatibility.UNKNOWN)


def _of_another(subject: Subject, matrix: Matrix) -> tuple[str, ...]:
    """Return the distributions that have this release, where that which would be installed has it not."""
    name = _distribution(subject, matrix)
    any_of_them = name in generated.BY_RELEASE and subject.name != name  # one of a library for each CUDA
    return (
        () if any_of_them or subject.component in BY_MINOR else generated.elsewhere(matrix, name, subject.version or "")
    )


def _read(subject: Subject, matrix: Matrix) -> str:
    """Return how far the releases of a distribution were read, if that is why one has no row."""
    if not generated.missing(matrix, subject.component, subject.version or ""):
        return ""
    if any(generated.named(matrix, subject.component, subject.version or "")):
        return " Its parts with GPU code have no release of this number."
    asked, there = version_of(subject.version or ""), generated.releases(matrix, _distribution(subject, matrix))
    if asked and asked.is_prerelease:
        return " Pre-releases are not read."
    newest = version_of(there[-1].version) if there else None
    if asked and newest and asked > newest:
        return f" The newest that was read, on {there[-1].checked}, is {there[-1].version}."
    unread = generated.unread(matrix, subject.component)
    if unread:
        return f" The releases of {' and '.join(unread)} were not read."
    return " The package index has no such release."


def _reason(contract: Contract, subject: Subject, facts: Facts) -> Reason:
    name, row = _named(contract.from_, subject, facts), contract.row
    text = f"{name} needs {contract.needs}; {_found(contract, facts)}.{_more(contract)}"
    text = f"T{text[1:]}" if text.startswith("the ") else text
    without = contract.kind == TECHNIQUE and contract.status is Kept.LIMITED  # the server runs regardless
    verdict = Compatibility.COMPATIBLE if without else VERDICTS[contract.status]
    return Reason(text=text, verdict=verdict, row=row, source=row.source if row else "")


def _named(component: str, subject: Subject, facts: Facts) -> str:
    if component != subject.component:
        beside = version(facts, component) if component in {*FRAMEWORKS, *ON_TORCH} else None
        return " ".join(filter(None, [related.NAMES.get(component, component), beside]))
    if subject.component == "image":
        return subject.words
    release = f" {subject.version}" if subject.version and component not in GPUS else ""
    return f"{related.NAMES.get(component, subject.name)}{release}" + (f" ({subject.tag})" if subject.tag else "")


def _found(contract: Contract, facts: Facts) -> str:
    if contract.needs.startswith(CODE):
        return f"it has {contract.found}" if contract.found != UNREAD else "its list of code was not read"
    if contract.kind == "accelerator":
        return f"it is {contract.found}"
    if contract.to == "pytorch" and any(copy.facts.get(BROUGHT) for copy in copies(facts, "pytorch")):
        return f"it brings {contract.found}"
    return f"{'here' if facts.taken else 'given'} is {contract.found}"


def _more(contract: Contract) -> str:
    """Return the restriction under which it works, or that nothing is known."""
    if contract.status is Kept.UNKNOWN:
        return " No row says whether that is enough."
    if contract.status is not Kept.LIMITED:
        return ""
    if contract.from_ in FROM_SOURCE and contract.kind in {"torch", "python", "platform"}:
        return BY_PIP
    if contract.kind in related.BY_KIND:
        return related.BY_KIND[contract.kind]
    if contract.kind == "toolkit":
        return BY_OWN if contract.from_ == "jax" else BY_OWN_NVCC
    by_row = f" It works with a limit: {contract.row.text if contract.row else 'see above'}."
    return MINOR_VERSION if contract.kind == "cuda" else BY_PTX if contract.needs.startswith(CODE) else by_row
