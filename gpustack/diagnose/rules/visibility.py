"""Which GPUs programs see: CUDA_VISIBLE_DEVICES and MIG."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.events import grounds, heard, said, value
from gpustack.diagnose.machine.intel import cards
from gpustack.diagnose.machine.inventory import from_text, gpus, starts
from gpustack.diagnose.machine.packages import on_cpu
from gpustack.diagnose.machine.values import at, because, because_of, copies, flag, items, number, table, text, told
from gpustack.diagnose.rule import rule
from gpustack.model import record
from gpustack.model.command import GPU, NOTHING, VARIABLE, sh, step
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import JsonValue

SEVERAL = 2
MIG_NONE = "mig-no-instance"
MIG_ON = "mig-enabled-said"
MADE = ("mig-devices-listed", "mig-created", "mig-several-said", "mig-visible-several")
NO_GPU_OF_MIG = (
    *("no-device", "init-error", "device-busy", "cuda-available-false", "no-driver-found"),
    "cuda-unknown-error",
)
BEYOND = ("invalid-ordinal", "device-index-beyond", "duplicate-gpu", "one-device-seen")


def _mig_on(facts: Facts) -> bool:
    """Return whether MIG is said or seen to be on."""
    return heard(facts, MIG_ON, MIG_NONE, *MADE) or any(flag(gpu.copy.facts, "mig", "enabled") for gpu in gpus(facts))


def _mig_instances(facts: Facts) -> int:
    """Return how many instances are known: by what is listed, else 2 where several are mentioned."""
    listed = len(said(facts, "mig-devices-listed"))
    held = sum(len(items(table(gpu.copy.facts, "mig"), "instances")) for gpu in gpus(facts))
    spoken = SEVERAL if heard(facts, "mig-several-said", "mig-visible-several") else 0
    return max(listed, held, spoken)


def _undivided_in_text(facts: Facts) -> bool:
    """Return whether texts show MIG on without an instance: in so many words, or by programs that find no GPU."""
    if heard(facts, MIG_NONE):
        return not heard(facts, "cuda-available-true")
    return _mig_on(facts) and not heard(facts, *MADE) and not _mig_instances(facts) and heard(facts, *NO_GPU_OF_MIG)


def _empty(held: Mapping[str, JsonValue]) -> bool:
    """Return whether MIG is on for a GPU, and all of its instances are known: none."""
    none = at(held, "mig", "instances") is not None and not items(held, "mig", "instances")
    return bool(flag(held, "mig", "enabled") and none and not number(held, "mig", "instances"))


def _too_many_instances(facts: Facts) -> bool:
    """Return whether a program was given several instances and failed at all but the first."""
    several = _mig_instances(facts) >= SEVERAL or (_mig_on(facts) and len(gpus(facts)) >= SEVERAL)
    given = [one.values.get("devices", "") for one in said(facts, "visible-devices")]
    one_given = bool(given) and all(one.startswith("MIG-") and "," not in one for one in given)
    return several and heard(facts, *BEYOND) and not one_given


ADVICE = "Create an instance with one of the listed profiles (PROFILE is its number), or turn MIG off."


@rule("mig-enabled-no-instance", Layer.ENVIRONMENT, "gpu")
def mig_enabled_no_instance(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """MIG mode is on, but no MIG instances exist.

    With MIG on, CUDA offers only the instances that the GPU has been divided into. None exist, so programs see no GPU.
    Create instances, or switch MIG off.
    """
    if _undivided_in_text(facts):
        names = naming.gpu_names(facts)
        yield _undivided(
            None,
            f"MIG is on{f' for {names}' if names else ''}, but there is no MIG instance for programs to use",
            (*grounds(facts, MIG_NONE, MIG_ON, *NO_GPU_OF_MIG), *naming.of_driver(facts)),
            Confidence.CERTAIN if heard(facts, MIG_NONE) else Confidence.LIKELY,
        )
        return
    for gpu in () if heard(facts, *MADE) else gpus(facts):
        if _empty(gpu.copy.facts):
            yield _undivided(
                gpu.mark,
                f"MIG is on for {gpu.name} at {gpu.mark}, but no MIG instances exist",
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
        fix=fixes.advice(
            ADVICE,
            sh("sudo nvidia-smi mig {which} -lgip", which=which),
            step("with a PROFILE of that list: `sudo nvidia-smi mig {which} -cgi PROFILE -C`", which=which),
            step("or switch MIG off: `sudo nvidia-smi {which} -mig 0`", which=which),
            verify=sh("nvidia-smi -L"),
        ),
    )


@rule("mig-multiple-devices", Layer.ENVIRONMENT, "gpu", from_messages=True)
def mig_multiple_devices(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """One process was given several MIG instances, and CUDA uses only one.

    A CUDA process sees a single MIG instance: of several in CUDA_VISIBLE_DEVICES it takes the first, so that it counts
    one device and refuses cuda:1. Instances cannot be joined, and NCCL does not reach from one to another. Start one
    process for each instance, each with its own in CUDA_VISIBLE_DEVICES; or switch MIG off where one process needs the
    whole GPU.
    """
    if not _too_many_instances(facts):
        return
    names = naming.gpu_names(facts)
    yield mig_multiple_devices.finding(
        title=f"One process was given several MIG instances{f' of {names}' if names else ''}, and CUDA uses only one",
        detail="A CUDA process sees the first MIG instance as cuda:0 and no other.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, *BEYOND, *MADE, most=6), *naming.of_driver(facts)),
        fix=fixes.advice(
            "Start one process for each instance, each with one MIG UUID of nvidia-smi -L (the command takes the "
            "first); or switch MIG off.",
            sh("export CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | grep -om1 'MIG-[0-9a-f/-]*')"),
            verify=sh('python -c "import torch; print(torch.cuda.device_count())"'),
        ),
    )


NO_GPU = ("no-device", "cuda-available-false", "no-driver-found", "no-hip-device", "visible-change-helps")
MISSED = (*NO_GPU, "invalid-ordinal")
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# Whose GPUs a variable masks beside NVIDIA's, and what lists them. ROCm/ROCR-Runtime: amd_filter_device.h; ROCm/clr:
# rocdevice.cpp; intel/compute-runtime: parseAffinityMask, which takes a tile's number behind a dot.
MASKS = {**dict.fromkeys(VARIABLES, "amd-gpu"), "ZE_AFFINITY_MASK": "intel-gpu"}
LISTS = {"gpu": sh("nvidia-smi -L"), "amd-gpu": sh("rocminfo"), "intel-gpu": sh("sycl-ls")}
END = "-1"
DEFAULT = "default"  # what ZE_AFFINITY_MASK says where it masks nothing
HIDING = frozenset({END, "", "NoDevFiles"})
# Words that CUDA does not know; "$0" stands for the name of the shell, and quotes may be of a word processor.
WORD = re.compile(
    r"all|none|auto|any|(?:gpu|cuda|device)s?:?\d*|\d+-\d+|\$0|-?bash|[\u2018\u2019\u201c\u201d].*", re.IGNORECASE
)
INDEX = re.compile(r"[0-9]{1,4}")
COUNTS = {"one": 1, "single": 1, "only one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}


@record
class Setting:
    """A variable with its value. seen: the probe ran with it; else a text shows it. many: GPUs of this maker."""

    variable: str
    devices: str
    seen: bool = False
    maker: str = "gpu"
    many: int = 0

    @property
    def names(self) -> list[str]:
        """What it names, up to a -1, with which people end the list."""
        named = [name.strip() for name in self.devices.split(",")]
        if self.maker == "intel-gpu":
            named = [name.partition(".")[0] for name in named]
        return named[: named.index(END)] if END in named[1:] else named

    @property
    def hides(self) -> bool:
        """Whether it hides every GPU on purpose."""
        return self.names[0] in HIDING

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices that it names; nothing where it holds anything else."""
        return tuple(int(one) for one in self.names) if all(map(INDEX.fullmatch, self.names)) else ()

    def absent(self, many: int, facts: Facts) -> list[str]:
        """Return the names of what is not there: of a UUID the beginning is enough, MIG devices are not judged."""
        known = [text(gpu.copy.facts, "uuid") or (gpu.copy.key if self.seen else "") for gpu in gpus(facts)]
        listed = bool(known) and all(uuid.startswith("GPU-") for uuid in known)
        return [
            name
            for name in self.names
            if (many and INDEX.fullmatch(name) and int(name) >= many)
            or (name.startswith("GPU-") and listed and not any(uuid.startswith(name) for uuid in known))
            or (self.seen and not name.startswith(("GPU-", "MIG-")) and not INDEX.fullmatch(name))
        ]


@rule(
    "cuda-visible-devices-invalid",
    Layer.ENVIRONMENT,
    "libcuda",
    explained_by=("mig-multiple-devices", "mig-enabled-no-instance"),
)
def cuda_visible_devices_invalid(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES names GPUs that do not exist, or none.

    CUDA shows a program only the GPUs that this variable lists, and stops reading at the first that does not exist:
    those before it are seen, and where it is the first, none is. An index beyond the last GPU, a wrong UUID, -1 or
    nothing at all hides them. Unset it, or name GPUs that nvidia-smi -L lists.
    """
    missed = heard(facts, *MISSED) and not on_cpu(facts) and not _too_many_instances(facts)
    judged = [(one, words) for one in settings(facts) if (one.seen or missed) and (words := _wrong(one, facts))]
    judged = judged or [(one, words) for one in settings(facts) if missed and (words := _too_few(one, facts))]
    if not judged:
        return
    one, words = judged[0]
    few = not one.seen and not _wrong(one, facts)
    many = one.many or count(facts)
    kept = one.many or (one.seen and (one.hides or one.names[0] not in one.absent(many, facts) or starts(facts)))
    sure = one.seen or ((one.hides or (many and not _renumbered(one, facts))) and not few)
    yield cuda_visible_devices_invalid.finding(
        component=one.maker if one.many else cuda_visible_devices_invalid.component,
        severity=Severity.WARNING if kept else Severity.ERROR,  # some are left, or none is on purpose
        title=f"{one.variable}={one.devices} {words}",
        detail="Programs see no GPU that the list leaves out."
        if one.many
        else "CUDA reads the list up to the first GPU that does not exist, and shows programs only those before it.",
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
        because=(because(facts, "environment", "variables", one.variable),)
        if one.many
        else (because(facts, "libcuda", "visible"), because(facts, "nvml", "gpu_count"))
        if one.seen
        else grounds(facts, "visible-devices", "visible-devices-none", *MISSED, "gpu-count", most=6),
        fix=fixes.advice(
            "Let the program use no more GPUs than the list has, counted from cuda:0; or give it more of them."
            if few
            else "Unset it, here and wherever a script or program sets it (os.environ), or name GPUs that exist.",
            sh("unset {variable}", variable=VARIABLE(VARIABLES[0] if few else one.variable)),
            LISTS[one.maker],
            verify=LISTS[one.maker] if one.many else sh('python -c "import torch; print(torch.cuda.device_count())"'),
        ),
    )


def settings(facts: Facts) -> Iterator[Setting]:
    """Yield every setting of the variables that decide which GPUs are seen."""
    seen = at(told(facts, "libcuda"), "visible")
    if isinstance(seen, str) and count(facts):
        yield Setting(variable=VARIABLES[0], devices=seen, seen=True)
    for one in said(facts, "visible-devices", "visible-devices-none"):
        yield Setting(variable=one.values.get("variable", VARIABLES[0]).upper(), devices=one.values.get("devices", ""))
    for name, devices in table(told(facts, "environment"), "variables").items():
        many = _masked(name, facts)
        if isinstance(devices, str) and (many or name in VARIABLES) and devices != DEFAULT:
            maker = MASKS[name] if many else "gpu"
            yield Setting(variable=name, devices=devices, seen=bool(many), maker=maker, many=many)


def _masked(name: str, facts: Facts) -> int:
    """Return how many GPUs of AMD or Intel a variable masks; 0 where that is not known, as for GPUs of two tiles."""
    if name not in MASKS or from_text(facts) or gpus(facts):
        return 0
    if MASKS[name] == "amd-gpu":
        return sum(flag(one.facts, "kfd") is True for one in copies(facts, "amd-gpu"))
    found = cards(facts)
    return 0 if any("Max" in (text(one.facts, "name") or "") for one in found) else len(found)


def count(facts: Facts) -> int:
    """Return how many GPUs the machine has, 0 where that is not known: what people name in words are not all."""
    spoken, seen = (value(facts, "gpu-count", "count") or "").lower(), facts.find("gpu")
    listed = len(gpus(facts)) if seen and "(in words)" not in seen.source else 0
    listed = listed or (0 if from_text(facts) else number(told(facts, "nvml"), "gpu_count") or 0)
    return listed or COUNTS.get(spoken, int(spoken) if spoken.isdecimal() else 0)


def _wrong(one: Setting, facts: Facts) -> str:
    """Return what is wrong with a setting: that it hides all, or names what is not there; empty where nothing is."""
    many, blind = one.many or count(facts), one.seen or heard(facts, *NO_GPU)
    if one.hides:
        return "hides every GPU" if blind else ""
    if not one.seen and WORD.fullmatch(one.devices.strip()):
        return "is not a list of GPUs, so it hides every GPU" if blind else ""
    absent, renumbered = one.absent(many, facts), _renumbered(one, facts)
    first = one.names[0]
    if not (absent or renumbered or (not many and blind and INDEX.fullmatch(first) and int(first))):
        return ""
    if not (blind or renumbered) and first.startswith("GPU-"):
        return ""
    known = f"this machine has {f'{many} GPUs, 0 to {many - 1}' if many > 1 else 'only GPU 0'}"
    return f"names a GPU that does not exist{f': {known}' if many and not renumbered else ''}"


def _too_few(one: Setting, facts: Facts) -> str:
    """Return what is wrong where a program asks for a GPU by number beyond those that a setting shows it.

    Several that are all there are no setting's fault, as far as a text tells.
    """
    shown = len(one.indices)
    if not heard(facts, "invalid-ordinal") or not shown or (shown > 1 and count(facts) <= shown):
        return ""
    last = f"cuda:0 to cuda:{shown - 1}" if shown > 1 else "cuda:0"
    return f"shows programs {last} only, but one asks for another (invalid device ordinal)"


def _renumbered(one: Setting, facts: Facts) -> bool:
    """Return whether a container was handed its machine's numbers: in it GPUs are counted from 0."""
    first = INDEX.fullmatch(one.names[0])
    return bool(first and int(first[0])) and heard(facts, "container-inside-said") and heard(facts, *NO_GPU)
