"""The GPUs of a machine compared with a policy: how many there are, of which kind, and how others use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from gpustack.diagnose.machine.inventory import from_text, ours
from gpustack.diagnose.machine.values import at, flag, items, number, text, told
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model import record, replace
from gpustack.model.facts import Component, Facts, Instance, Status
from gpustack.model.policy import Gpus, HealthClass, Held
from gpustack.model.report import Health, Report, Severity
from gpustack.model.versions import ComputeCapability
from gpustack.policy import Written, evaluate

MIB, MIB_IN_BYTES = 1024, 1 << 20
OTHERS = ("amd-gpu", "intel-gpu")
MAKERS = ("gpu", *OTHERS)
ON_BUS, PROCESSES = "pci-display", "gpu-processes"
HOST = HealthClass.BAD_HOST
HERE = frozenset({Status.PRESENT, Status.FAILED})
NONE = "there is no GPU"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


@record
class Card:
    """One GPU, as far as a policy asks about it; None is what was not reported."""

    place: str
    name: str | None
    capability: str | None
    mib: int | None
    used: int | None


@record
class Demand:
    """What every GPU must be: its key in the policy, how one GPU reports it, and its value here."""

    key: tuple[str, str]
    wanted: str
    holds: Callable[[Card], bool | None]
    tell: Callable[[Card], str | None]


def cards(report: Report) -> tuple[Card, ...] | None:
    """Return the GPUs that their drivers list; None if a driver does not answer, so that they are unknown."""
    there = [one for one in report.components if one.id in MAKERS]
    made = (_card(copy) for one in there for copy in one.instances if copy.status is Status.PRESENT)
    found = tuple(card for card in made if card)
    if found or report.verdict.status is Health.NO_GPU:
        return found
    bus = next((one for one in report.components if one.id == ON_BUS), None)
    empty = bus is not None and bus.status in {Status.ABSENT, Status.NOT_APPLICABLE}
    known = bool(there) and all(one.status in {Status.ABSENT, Status.NOT_APPLICABLE} for one in there)
    return () if empty or (known and bus is None) else None


def _card(copy: Instance) -> Card | None:
    """Return one GPU from its vendor's probe; a partition is not a GPU of its own."""
    if flag(copy.facts, "partition"):
        return None
    own = number(copy.facts, "memory_bytes")
    capability = ComputeCapability.parse(text(copy.facts, "cc"))
    return Card(
        place=text(copy.facts, "pci") or copy.key,
        name=text(copy.facts, "name") or text(copy.facts, "gfx") or text(copy.facts, "device_id"),
        capability=str(capability) if capability else None,
        mib=_first(copy, "total_mib", "vram_total_mib", "kfd_mib") or (own // MIB_IN_BYTES if own else None),
        used=_first(copy, "used_mib", "vram_used_mib"),
    )


def _first(copy: Instance, *names: str) -> int | None:
    return next((one for one in (number(copy.facts, "memory", name) for name in names) if one is not None), None)


def kinds(report: Report, written: Written, exactly: int | None = None) -> Iterator[Held]:
    """Yield a row for how many GPUs there must be, and one for each thing that every one of them must be.

    If neither the policy nor ``exactly`` gives a number, it is one or more; pasted text need not show any.
    """
    wanted, seen = written.policy.gpus, cards(report)
    place = None if exactly is not None else written.place("gpus", "count") if wanted else None
    if wanted or exactly is not None or not from_text(_facts(report)):
        count = (wanted or Gpus()).count if exactly is None else exactly
        yield _count(_lists(report, seen), count, report, place)
    for demand in _demands(wanted) if wanted and exactly != 0 else ():
        yield _row(demand, seen, written)


@record
class Lists:
    """The addresses of the GPUs on the bus and in their drivers, and CUDA's count; None is what was not reported."""

    bus: tuple[str, ...] | None
    driver: tuple[str, ...] | None
    cuda: int | None
    nvidia: int

    @property
    def usable(self) -> int | None:
        """The number of usable GPUs: those of the drivers, but for NVIDIA no more than CUDA shows."""
        if self.driver is None:
            return None
        lost = 0 if self.cuda is None else max(0, self.nvidia - self.cuda)
        return len(self.driver) - lost


def _facts(report: Report) -> Facts:
    return Facts(taken=report.taken, host=report.host, components=report.components)


def _lists(report: Report, seen: Sequence[Card] | None) -> Lists:
    makers = [one for one in report.components if one.id in MAKERS]
    if seen is None and makers and all(one.status in {Status.ABSENT, Status.NOT_APPLICABLE} for one in makers):
        seen = ()  # no driver lists a GPU, whatever is on the bus
    gpus = next((one for one in makers if one.id == "gpu"), None)
    nvidia = [copy for copy in (gpus.instances if gpus else ()) if copy.status is Status.PRESENT]
    bus = next((one for one in report.components if one.id == ON_BUS), None)
    looked = bus is not None and bus.status in {Status.PRESENT, Status.ABSENT}
    libcuda = told(_facts(report), "libcuda")
    started = {0: len(items(libcuda, "devices")), NO_DEVICE: 0}.get(number(libcuda, "cu_init") or 0)
    divided = any(flag(copy.facts, "mig", "enabled") for copy in nvidia)
    asked = number(libcuda, "cu_init") is not None and bool(nvidia) and not divided
    return Lists(
        bus=tuple(sorted(copy.key for copy in ours(_facts(report)))) if looked else None,
        driver=None if seen is None else tuple(card.place for card in seen),
        cuda=started if asked else None,
        nvidia=len(nvidia),
    )


def _count(lists: Lists, wanted: int | str, report: Report, place: str | None) -> Held:
    """Return the row for how many GPUs there must be: fewer are a fault, more than the number a warning."""
    seen = lists.usable
    range_ = f"=={wanted}" if isinstance(wanted, int) else wanted
    ok = None if seen is None else VersionRange(range_).holds(str(seen))
    more = isinstance(wanted, int) and seen is not None and seen > wanted
    found = _counted(None) if seen is None else str(seen) if ok or more else _short(lists, seen, report)
    return Held(
        rule="gpus.count",
        wanted=str(wanted),
        found=found,
        ok=ok,
        whose=HealthClass.DEGRADED if more else _whose(lists, report),
        place=place,
    )


def _whose(lists: Lists, report: Report) -> HealthClass:
    """Return whose fault missing GPUs are: the host's, unless the job itself was set up to get none."""
    errors = [one for one in report.findings if one.severity is Severity.ERROR and one.caused_by is None]
    ours = bool(lists.bus) and not lists.usable and bool(errors)
    return evaluate.whose(errors[0]) if ours and all(evaluate.whose(one) is not HOST for one in errors) else HOST


def _short(lists: Lists, seen: int, report: Report) -> str:
    """Return how many GPUs there are, and where the others are missing."""
    if not seen and not lists.bus:
        return f"{NONE} on the PCI bus" if lists.bus is not None else NONE
    steps = [f"{len(lists.bus)} on the PCI bus"] if lists.bus is not None else []
    lost = [pci for pci in lists.bus or () if pci not in (lists.driver or ())]
    without = f" (without {evaluate.few(lost)})" if lost else ""
    steps.append(f"{len(lists.driver or ())} in the driver{without}")
    if lists.cuda is not None:
        visible = at(told(_facts(report), "libcuda"), "visible")
        hidden = f" (CUDA_VISIBLE_DEVICES is {str(visible)[:40]!r})" if visible is not None else ""
        steps.append(f"{lists.cuda} in CUDA{hidden}")
    if lost and report.host.container:
        steps.append(f"this container ({report.host.container}) may not have been given the rest")
    return f"{seen or NONE}: {', '.join(steps)}"


def use(report: Report, written: Written) -> Iterator[Held]:
    """Yield a row for the memory in use, and one for the processes, where the policy limits them."""
    limits, seen = written.policy.in_use, cards(report)
    if (most := limits.memory_mib) is not None:
        row = _row(
            Demand(
                key=("in-use", "memory-mib"),
                wanted=f"at most {most} MiB",
                holds=lambda card: None if card.used is None else card.used <= most,
                tell=lambda card: None if card.used is None else f"{card.used} MiB",
            ),
            seen,
            written,
        )
        yield replace(row, ok=True) if seen == () else row
    if (allowed := limits.processes) is not None:
        component = next((one for one in report.components if one.id == PROCESSES), None)
        found, ok = _foreign(component, allowed)
        wanted = f"only {', '.join(allowed)}" if allowed else "none"
        place = written.place("in-use", "processes")
        yield Held(rule="in-use.processes", wanted=wanted, found=found, ok=ok, whose=HOST, place=place)


def _demands(wanted: Gpus) -> Iterator[Demand]:
    """Yield the requirements on every GPU."""
    if wanted.name:
        yield Demand(
            key=("gpus", "name"),
            wanted=" or ".join(wanted.name),
            holds=lambda card: None if card.name is None else any(fnmatchcase(card.name, name) for name in wanted.name),
            tell=lambda card: card.name,
        )
    if (range_ := wanted.compute_capability) is not None:
        yield Demand(
            key=("gpus", "compute-capability"),
            wanted=range_,
            holds=lambda card: _capable(card, range_),
            tell=lambda card: card.capability or (f"{card.name} has none" if card.name else None),
        )
    if (least := wanted.memory_gib) is not None:
        yield Demand(
            key=("gpus", "memory-gib"),
            wanted=f"{least:g} GiB or more",
            holds=lambda card: None if card.mib is None else card.mib / MIB >= least,
            tell=lambda card: None if card.mib is None else f"{card.mib / MIB:.1f} GiB",
        )


def _row(demand: Demand, seen: Sequence[Card] | None, written: Written) -> Held:
    """Return a row for what every GPU must be: GPUs that differ are named, else the common value."""
    row = Held(
        rule=".".join(demand.key),
        wanted=demand.wanted,
        found=_counted(seen),
        ok=None if seen is None else False,
        whose=HOST,
        place=written.place(*demand.key),
    )
    if not seen:
        return row
    answers = [(card, demand.holds(card)) for card in seen]
    wrong = [card for card, answer in answers if answer is False]
    blank = [card for card, answer in answers if answer is None]
    if named := wrong or blank:
        told = [f"{demand.tell(card) or 'not told'} at {card.place}" for card in named]
        return replace(row, found=evaluate.few(told), ok=False if wrong else None)
    return replace(row, found=evaluate.few(list(dict.fromkeys(filter(None, map(demand.tell, seen))))), ok=True)


def _capable(card: Card, wanted: str) -> bool | None:
    known = version_of(card.capability) if card.capability else None
    return None if known is None and card.name is None else bool(known and VersionRange(wanted).holds(str(known)))


def _counted(seen: Sequence[Card] | None) -> str:
    return "not known: the driver lists no GPU" if seen is None else str(len(seen)) if seen else NONE


def _foreign(component: Component | None, allowed: Sequence[str]) -> tuple[str, bool | None]:
    """Return who uses the GPUs besides those allowed to, and whether that is acceptable."""
    if component is None or component.status is Status.UNKNOWN:
        return f"not known{f': {component.reason}' if component and component.reason else ''}", None
    foreign = [
        copy
        for copy in component.instances
        if copy.status in HERE and not any(fnmatchcase(name, one) for name in _names(copy) for one in allowed)
    ]
    unseen = any(copy.status is Status.UNKNOWN for copy in component.instances)
    if foreign:
        return evaluate.few([f"{_names(copy)[0]} (pid {number(copy.facts, 'pid') or '?'})" for copy in foreign]), False
    return ("not known: some processes cannot be examined", None) if unseen else ("none other", True)


def _names(copy: Instance) -> tuple[str, ...]:
    """Return the names of a process: the kernel's name for it, its command, its kind."""
    known = (text(copy.facts, name) for name in ("name", "command", "application"))
    return tuple(filter(None, known)) or ("a process",)
