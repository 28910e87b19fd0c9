"""CUDA_VISIBLE_DEVICES and its kin as texts show them, beside what programs then could not find."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import mig_said
from gpustack.diagnose.rules.meant import on_cpu
from gpustack.diagnose.rules.reading import table, text, told
from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.diagnose.rules.seen import gpus
from gpustack.model.command import VARIABLE, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts

NO_GPU = ("no-device", "cuda-available-false", "no-driver-found", "no-hip-device", "visible-change-helps")
ABSENT = "no-such-gpu"
MISSED = (*NO_GPU, "invalid-ordinal", ABSENT)
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
HIDING = frozenset({"-1", "", "NoDevFiles"})
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
    """Give the finding where a setting names what is not there and a program missed a GPU."""
    if not heard(facts, *MISSED) or on_cpu(facts) or mig_said.too_many(facts):
        return None
    wrong = next((one for one in settings(facts) if _wrong(one, facts)), None)
    few = None if wrong else next((one for one in settings(facts) if _too_few(one, facts)), None)
    if wrong is None and few is None and not (heard(facts, ABSENT) and heard(facts, *NO_GPU, "invalid-ordinal")):
        return None
    many = 0 if wrong and _renumbered(wrong, facts) else count(facts)  # in a container they are counted anew
    hides = wrong is not None and wrong.devices in HIDING
    return Finding(
        id="cuda-visible-devices-invalid",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="libcuda",
        title=_few(few) if few else _title(wrong, many),
        detail="CUDA reads the list up to the first GPU that does not exist, and shows programs only those before it.",
        confidence=Confidence.CERTAIN if (many or hides) and not few else Confidence.LIKELY,
        because=grounds(facts, "visible-devices", "visible-devices-none", ABSENT, *MISSED, "gpu-count", most=6),
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
    """Give what is wrong: the setting, and how many GPUs there are where that is known."""
    there = f"this machine has {many} GPU{'s' if many > 1 else ''}, 0 to {many - 1}" if many else "no such GPU is there"
    if wrong is None:
        return f"{VARIABLES[0]} names a GPU that is not there"
    if wrong.devices in HIDING:
        return f"{wrong.variable}={wrong.devices} hides every GPU"
    what = "is no list of GPUs, so it hides every GPU" if wrong.unknown else f"names a GPU that is not there: {there}"
    return f"{wrong.variable}={wrong.devices} {what}"


def settings(facts: Facts) -> Iterator[Setting]:
    """Give every setting of the variables that decide which GPUs are seen."""
    for one in said(facts, "visible-devices", "visible-devices-none"):
        yield Setting(variable=one.values.get("variable", VARIABLES[0]).upper(), devices=one.values.get("devices", ""))
    for name, devices in table(told(facts, "environment"), "variables").items():
        if name in VARIABLES and isinstance(devices, str):
            yield Setting(variable=name, devices=devices)


def count(facts: Facts) -> int:
    """Give how many GPUs the machine has, 0 where that is not known: what people name in words are not all."""
    spoken = (value(facts, "gpu-count", "count") or "").lower()
    seen = facts.find("gpu")
    listed = len(gpus(facts)) if seen and "(in words)" not in seen.source else 0
    return listed or COUNTS.get(spoken, int(spoken) if spoken.isdecimal() else 0)


def _few(one: Setting) -> str:
    """Give what is wrong where a program asks for a GPU beyond those that it is shown."""
    shown = len(one.indices)
    last = f"cuda:0 to cuda:{shown - 1}" if shown > 1 else "cuda:0"
    return (
        f"{one.variable}={one.devices} shows programs {last} alone, and one asks for another (invalid device ordinal)"
    )


def _too_few(one: Setting, facts: Facts) -> bool:
    """Tell whether a program asked for a GPU by number beyond those that a setting shows it.

    Several that are all there are no setting's fault, as far as a text tells.
    """
    shown = one.indices
    return heard(facts, "invalid-ordinal") and bool(shown) and (len(shown) == 1 or count(facts) > len(shown))


def _wrong(one: Setting, facts: Facts) -> bool:
    many = count(facts)
    if one.devices in HIDING:
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
    """Tell whether a container was handed its machine's numbers: in it GPUs are counted from 0."""
    return bool(one.first) and heard(facts, "container-inside-said") and heard(facts, *NO_GPU)


def _unlisted(uuid: str, facts: Facts) -> bool:
    """Tell whether the machine's GPUs are listed by their UUIDs, and none begins like this one."""
    known = [text(gpu.copy.facts, "uuid") or "" for gpu in gpus(facts)]
    return bool(known) and all(known) and not any(one.startswith(uuid) for one in known)
