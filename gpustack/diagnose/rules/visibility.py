"""Which GPUs programs see: CUDA_VISIBLE_DEVICES and MIG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import mig, naming
from gpustack.diagnose.machine.inventory import from_text, gpus, starts
from gpustack.diagnose.machine.messages import grounds, heard, said, value
from gpustack.diagnose.machine.packages import on_cpu
from gpustack.diagnose.machine.values import at, because, because_of, flag, items, number, table, text, told
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import GPU, NOTHING, VARIABLE, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


ADVICE = "Divide the GPU by one of the profiles that the list shows (PROFILE is its number), or switch MIG off."


@rule("mig-enabled-no-instance", layer=Layer.ENVIRONMENT, component="gpu", severity=Severity.ERROR)
def mig_enabled_no_instance(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """MIG mode is on, and the GPU is divided into no instance.

    With MIG on, CUDA offers only the instances that the GPU has been divided into. There is none, so programs see no
    GPU. Make instances, or switch MIG off.
    """
    if mig.none(facts):
        names = naming.gpu_names(facts)
        yield _undivided(
            None,
            f"MIG is on{f' for {names}' if names else ''}, and there is no MIG instance for programs to use",
            (*grounds(facts, mig.NONE, mig.ON, *mig.NO_GPU), *naming.of_driver(facts)),
            Confidence.CERTAIN if heard(facts, mig.NONE) else Confidence.LIKELY,
        )
        return
    for gpu in () if from_text(facts) else gpus(facts):
        held = gpu.copy.facts
        none = at(held, "mig", "instances") is not None and not items(held, "mig", "instances")
        if flag(held, "mig", "enabled") and none and not number(held, "mig", "instances"):
            yield _undivided(
                gpu.mark,
                f"MIG is on for {gpu.name} at {gpu.mark}, and it is divided into no instance",
                tuple(because_of(facts, "gpu", gpu.copy, "mig", name) for name in ("enabled", "instances")),
            )


def _undivided(
    mark: str | None, title: str, because: tuple[Because, ...], confidence: Confidence = Confidence.CERTAIN
) -> Finding:
    which = sh("-i {gpu}", gpu=GPU(mark)) if mark else NOTHING
    return mig_enabled_no_instance.finding(
        instance=mark,
        title=title,
        detail="With MIG on, CUDA offers only the instances that a GPU was divided into.",
        because=because,
        confidence=confidence,
        fix=Fix(
            text=ADVICE,
            commands=(
                sh("sudo nvidia-smi mig {which} -lgip", which=which),
                step("with a PROFILE of that list: `sudo nvidia-smi mig {which} -cgi PROFILE -C`", which=which),
                step("or switch MIG off: `sudo nvidia-smi {which} -mig 0`", which=which),
            ),
            needs_root=True,
            verify=sh("nvidia-smi -L"),
        ),
    )


@rule("mig-multiple-devices", layer=Layer.ENVIRONMENT, component="gpu", severity=Severity.ERROR, from_messages=True)
def mig_multiple_devices(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """One process was given several MIG instances, and CUDA uses only one.

    A CUDA process sees a single MIG instance: of several in CUDA_VISIBLE_DEVICES it takes the first, so that it counts
    one device and refuses cuda:1. Instances cannot be joined, and NCCL does not reach from one to another. Start one
    process for each instance, each with its own in CUDA_VISIBLE_DEVICES; or switch MIG off where one process needs the
    whole GPU.
    """
    if not mig.too_many(facts):
        return
    names = naming.gpu_names(facts)
    yield mig_multiple_devices.finding(
        title=f"One process was given several MIG instances{f' of {names}' if names else ''}, and CUDA uses only one",
        detail="A CUDA process sees the first MIG instance as cuda:0 and no other.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, *mig.BEYOND, *mig.MADE, most=6), *naming.of_driver(facts)),
        fix=Fix(
            text="Start one process for each instance, each with one MIG UUID of nvidia-smi -L (the command takes the "
            "first); or switch MIG off.",
            commands=(sh("export CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | grep -om1 'MIG-[0-9a-f/-]*')"),),
            verify=sh('python -c "import torch; print(torch.cuda.device_count())"'),
        ),
    )


NO_GPU = ("no-device", "cuda-available-false", "no-driver-found", "no-hip-device", "visible-change-helps")
MISSED = (*NO_GPU, "invalid-ordinal")
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
WORDS_HIDING = frozenset({"-1", "", "NoDevFiles"})
# Words that CUDA does not know; "$0" stands for the name of the shell, and quotes may be of a word processor.
WORD = re.compile(
    r"all|none|auto|any|(?:gpu|cuda|device)s?:?\d*|\d+-\d+|\$0|-?bash|[\u2018\u2019\u201c\u201d].*", re.IGNORECASE
)
COUNTS = {"one": 1, "single": 1, "only one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable with its value, as a text shows it."""

    variable: str
    devices: str

    @property
    def first(self) -> int | None:
        """The first index that it names; None where it names none."""
        match = re.match(r"\s*(\d{1,4})\s*(?:,|$)", self.devices)
        return int(match[1]) if match else None

    @property
    def unknown(self) -> bool:
        """Whether it holds a word that CUDA does not know, where it takes numbers and UUIDs alone."""
        return bool(WORD.fullmatch(self.devices.strip()))

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices that it names; nothing where it holds anything else."""
        named = [one.strip() for one in self.devices.split(",")]
        return tuple(int(one) for one in named) if all(re.fullmatch(r"\d{1,4}", one) for one in named) else ()

    @property
    def highest(self) -> int | None:
        """The highest index that it names."""
        return max((int(one) for one in re.findall(r"(?:^|,)\s*(\d{1,4})\s*(?=,|$)", self.devices)), default=None)


def finding(facts: Facts) -> Finding | None:
    """Return the finding where a setting names what is not there and a program missed a GPU."""
    if not heard(facts, *MISSED) or on_cpu(facts) or mig.too_many(facts):
        return None
    wrong = next((one for one in settings(facts) if _words_wrong(one, facts)), None)
    few = None if wrong else next((one for one in settings(facts) if _too_few(one, facts)), None)
    if wrong is None and few is None:
        return None
    many = 0 if wrong and _renumbered(wrong, facts) else count(facts)  # in a container they are counted from 0 again
    hides = wrong is not None and wrong.devices in WORDS_HIDING
    return cuda_visible_devices_invalid.finding(
        title=_few(few) if few else _title(wrong, many),
        detail="CUDA reads the list up to the first GPU that does not exist, and shows programs only those before it.",
        confidence=Confidence.CERTAIN if (many or hides) and not few else Confidence.LIKELY,
        because=grounds(facts, "visible-devices", "visible-devices-none", *MISSED, "gpu-count", most=6),
        fix=Fix(
            text="Let the program ask for no more GPUs than the list has, counted from cuda:0; or give it more of them."
            if few
            else "Unset it, here and where a script or program sets it (os.environ), or name GPUs that are there.",
            commands=(
                sh("unset {variable}", variable=VARIABLE(wrong.variable if wrong else VARIABLES[0])),
                sh("nvidia-smi -L"),
            ),
            verify=sh('python -c "import torch; print(torch.cuda.device_count())"'),
        ),
    )


def _title(wrong: Setting | None, many: int) -> str:
    """Return what is wrong: the setting, and how many GPUs there are where that is known."""
    there = f"this machine has {many} GPU{'s' if many > 1 else ''}, 0 to {many - 1}" if many else "no such GPU is there"
    if wrong is None:
        return f"{VARIABLES[0]} names a GPU that is not there"
    if wrong.devices in WORDS_HIDING:
        return f"{wrong.variable}={wrong.devices} hides every GPU"
    what = "is no list of GPUs, so it hides every GPU" if wrong.unknown else f"names a GPU that is not there: {there}"
    return f"{wrong.variable}={wrong.devices} {what}"


def settings(facts: Facts) -> Iterator[Setting]:
    """Return every setting of the variables that decide which GPUs are seen."""
    for one in said(facts, "visible-devices", "visible-devices-none"):
        yield Setting(variable=one.values.get("variable", VARIABLES[0]).upper(), devices=one.values.get("devices", ""))
    for name, devices in table(told(facts, "environment"), "variables").items():
        if name in VARIABLES and isinstance(devices, str):
            yield Setting(variable=name, devices=devices)


def count(facts: Facts) -> int:
    """Return how many GPUs the machine has, 0 where that is not known: what people name in words are not all."""
    spoken = (value(facts, "gpu-count", "count") or "").lower()
    seen = facts.find("gpu")
    listed = len(gpus(facts)) if seen and "(in words)" not in seen.source else 0
    return listed or COUNTS.get(spoken, int(spoken) if spoken.isdecimal() else 0)


def _few(one: Setting) -> str:
    """Return what is wrong where a program asks for a GPU beyond those that it is shown."""
    shown = len(one.indices)
    last = f"cuda:0 to cuda:{shown - 1}" if shown > 1 else "cuda:0"
    return (
        f"{one.variable}={one.devices} shows programs {last} alone, and one asks for another (invalid device ordinal)"
    )


def _too_few(one: Setting, facts: Facts) -> bool:
    """Return whether a program asked for a GPU by number beyond those that a setting shows it.

    Several that are all there are no setting's fault, as far as a text tells.
    """
    shown = one.indices
    return heard(facts, "invalid-ordinal") and bool(shown) and (len(shown) == 1 or count(facts) > len(shown))


def _words_wrong(one: Setting, facts: Facts) -> bool:
    many = count(facts)
    if one.devices in WORDS_HIDING:
        return heard(facts, *NO_GPU)
    if one.unknown:
        return heard(facts, *NO_GPU)
    if one.devices.startswith("GPU-") and heard(facts, *NO_GPU):
        return _unlisted(one.devices.partition(",")[0], facts)
    if _renumbered(one, facts):
        return True
    if many:
        return one.highest is not None and one.highest >= many
    return bool(one.first) and heard(facts, *NO_GPU)


def _renumbered(one: Setting, facts: Facts) -> bool:
    """Return whether a container was handed its machine's numbers: in it GPUs are counted from 0."""
    return bool(one.first) and heard(facts, "container-inside-said") and heard(facts, *NO_GPU)


def _unlisted(uuid: str, facts: Facts) -> bool:
    """Return whether the machine's GPUs are listed by their UUIDs, and none begins like this one."""
    known = [text(gpu.copy.facts, "uuid") or "" for gpu in gpus(facts)]
    return bool(known) and all(known) and not any(one.startswith(uuid) for one in known)


END = "-1"
VISIBLE_HIDING = frozenset({"", END, "NoDevFiles"})


@rule("cuda-visible-devices-invalid", layer=Layer.ENVIRONMENT, component="libcuda", severity=Severity.ERROR)
def cuda_visible_devices_invalid(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES names GPUs that are not there, or none.

    CUDA shows a program only the GPUs that this variable lists, and stops reading at the first that does not exist:
    those before it are seen, and where it is the first, none is. An index beyond the last GPU, a wrong UUID, -1 or
    nothing at all hides them. Unset it, or name GPUs that nvidia-smi -L lists.
    """
    spoken = finding(facts)
    if spoken:
        yield spoken
        return
    said = at(told(facts, "libcuda"), "visible")
    count = len(gpus(facts)) or number(told(facts, "nvml"), "gpu_count")
    if not isinstance(said, str) or not count:
        return
    names = [name.strip() for name in said.split(",")]
    hidden = names[0] in VISIBLE_HIDING
    wrong = [] if hidden else _visible_wrong(names, count, facts)
    if not hidden and not wrong:
        return
    named = "hides every GPU" if hidden else f"names {', '.join(wrong)}, which is not there"
    cut = hidden or wrong[0] != names[0] or starts(facts)  # some are left, or none is on purpose
    yield cuda_visible_devices_invalid.finding(
        severity=Severity.WARNING if cut else Severity.ERROR,
        title=f"CUDA_VISIBLE_DEVICES={said} {named}",
        detail=f"This machine has {count} GPU{'s' if count > 1 else ''}: 0{f' to {count - 1}' if count > 1 else ''}.",
        because=(because(facts, "libcuda", "visible"), because(facts, "nvml", "gpu_count")),
        fix=Fix(
            text="Unset it, or name a GPU that is there.",
            commands=(sh("unset CUDA_VISIBLE_DEVICES"), sh("nvidia-smi -L")),
        ),
    )


def _visible_wrong(names: list[str], count: int, facts: Facts) -> list[str]:
    """Return the names of what is not there, up to a -1, with which people end the list."""
    listed = names[: names.index(END)] if END in names else names
    return [name for name in listed if not _there(name, count, facts)]


def _there(name: str, count: int, facts: Facts) -> bool:
    """Return whether a name leads to a GPU; of a UUID the beginning is enough, and MIG devices are not judged here."""
    if numbers(name) and name.isdecimal():
        return numbers(name) < (count,)
    known = [text(gpu.copy.facts, "uuid") or gpu.copy.key for gpu in gpus(facts)]
    if not name.startswith("GPU-") or not all(uuid.startswith("GPU-") for uuid in known):
        return name.startswith(("MIG-", "GPU-"))
    return any(uuid.startswith(name) for uuid in known)
