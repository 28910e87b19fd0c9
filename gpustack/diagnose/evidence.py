"""What a finding rests on: how surely its facts are known, what is not known, and which finding explains it.

And what a machine that is called well rests on, and what no machine like it can have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpustack.diagnose.machine import amd, exercised, intel
from gpustack.diagnose.machine.events import MESSAGE, heard, said
from gpustack.diagnose.machine.inventory import driver_release, driver_works, gpus, on_bus, ours, starts
from gpustack.diagnose.machine.packages import none_here
from gpustack.diagnose.machine.values import at, copies, everything, flag, text, texts, told, version
from gpustack.diagnose.requirements.versions import IN_WORDS
from gpustack.diagnose.rule import explained_by
from gpustack.diagnose.rules import NAMED, WRONG_CUDNN, WRONG_LIBRARIES
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import AT_WORK, Facts, Status, Strength, Unseen
from gpustack.model.report import Because, Confidence, Finding, Severity

STRENGTHS = tuple(Strength)
LOG = "kernel-log"
ALWAYS = ("linux-kernel", "pci-display", LOG)  # what every look at a machine asks
AS_ROOT = "run gpustack as root"
# Whether the driver's side works, by the makers whose GPUs a build is for; CUDA's is the default.
STARTS: Mapping[str, Callable[[Facts], bool | None]] = {"rocm": amd.ready, "xpu": intel.starts}
# What a cause needs of the machine, by how its id begins: no other can have it.
VENDORS = {
    **dict.fromkeys(("rocm-", "gpu-unsupported-by-kfd", "amdgpu-"), "amd"),
    **dict.fromkeys(("intel-", "oneapi-"), "intel"),
    "user-not-in-render": "amd intel",
    "cuda-visible-devices-": "",  # HIP reads it, and has one of its own
    **dict.fromkeys(
        ("nvidia-", "cuda-", "cudnn-", "libcuda-", "nvcc-", "tf-cannot-dlopen", "driver-too-old-for-cuda"), "nvidia"
    ),
}
# Without a known GPU, a word of the maker's own stack has to be there; and of the program or the thing at fault.
OWN_WORDS = {
    "amd": re.compile(
        r"amd|radeon|roc[mk]|\bhip|gfx|\bkfd\b|\bhsa|miopen|\brx ?\d{3,4}|\bmi\d{2,3}|vega|navi|ryzen|/dri|drm dev"
        r"|render|group"
    ),
    "intel": re.compile(
        r"intel|level.?zero|\bze_|xpu|native.api|\bur_|one(?:api|dnn|ccl)|sycl|mkl|\barc\b|openvino|\bqsv|vaapi|i915|\bihd"
    ),
}
OF_PROGRAMS = {
    "wsl-": re.compile(r"wsl|windows|microsoft|/mnt/c"),
    "tf-": re.compile(r"tensorflow|\btf|keras|dso_loader|dlopen|stream_executor|dynamic library"),
    "mig-": re.compile(r"\bmig|\b[abh][1-3]00|\ba30|uuid|instance"),
    "bnb-": re.compile(r"bitsandbytes|bnb|[48].?bit|cuda.setup|qlora"),
    "jax-": re.compile(r"jax|pjrt|xla"),
    "multiple-cupy": re.compile("cupy"),
    "vulkan-": re.compile(r"vulkan|\bvk|icd"),
    "ort-": re.compile(r"onnx|\bort|executionprovider|cudnn"),
}
NOT_ON_WINDOWS, FIRST_WITHOUT = "tf-no-native-windows-gpu", (2, 11)  # the first TensorFlow without
KEY_REJECTED = "secure-boot-key-rejected"
NO_DRIVER, SMI_WORKS = "nvidia-driver-missing", ("wsl-smi-works", "host-smi-works")
OF_NVIDIA_GPUS = ("container-no-gpus-flag", "container-toolkit-missing")  # nothing without one
ELSEWHERE = ("wsl-", NOT_ON_WINDOWS)  # causes of Windows
NOT_OF_WINDOWS = re.compile(r"\.so\b|ldconfig")
FABRIC, UNSWITCHED = "fabric-", re.compile(r"GeForce|\b[GR]TX\b|TITAN|Quadro")  # without an NVSwitch
NO_UVM, NOT_IN_GROUP = "nvidia-uvm-missing", "user-not-in-render-group"
LOADED = {NO_UVM: "nvidia-uvm.ko", "nvidia-module-not-loaded": "nvidia.ko"}
NOT_IN_WSL = (
    "amdgpu-",
    "gpu-unsupported-by-kfd",
    "nvidia-module-",
    "module-built-",
    "nouveau-",
    "nova-",
)  # whose kernel has no such module
OF_LINUX = (
    *("dkms-", "amdgpu-", "nouveau-", "nova-", "secure-boot-", "nvidia-uvm-", "uvm-", "docker-snap", "user-not-in-"),
    *("libcuda-so-", "container-cgroup-", "nvidia-module-", "module-built-", "forward-compat-", "compat-libs-"),
    *("open-module-", "closed-module-", "fabric-manager-", "glibc-", "libstdcxx-"),
)
GPUS: Mapping[str, str] = {"gpu": "nvidia", "amd-gpu": "amd", "intel-gpu": "intel"}


def weighed(finding: Finding, facts: Facts) -> Finding:
    """Return a finding whose grounds say how each was learnt; what only words support, or nothing, is never certain."""
    grounds = tuple(replace(one, strength=_of(one, facts)) for one in finding.because)
    known = [one.strength for one in grounds if one.value is not None]
    named = bool(known) or facts.taken or finding.severity is Severity.UNKNOWN
    words = not named or (bool(known) and all(one is Strength.STATED for one in known))
    sure = Confidence.LIKELY if words and finding.confidence is Confidence.CERTAIN else finding.confidence
    return replace(finding, because=grounds, confidence=sure)


def unseen(facts: Facts) -> Iterator[Unseen]:
    """Yield what a look at a machine did not learn and does not name itself: components, and a kernel log unread."""
    if not facts.taken:
        return
    for seen in facts.components:
        if seen.status is Status.UNKNOWN and not any(one.what.startswith(seen.id) for one in facts.not_seen):
            yield Unseen(what=seen.id, why=seen.reason or "no reason was given")
        left_out = (copy for copy in seen.instances if seen.status is Status.PRESENT and copy.status is Status.UNKNOWN)
        yield from (
            Unseen(what=f"{seen.id}: {copy.key}", why=why) for copy in left_out if (why := text(copy.facts, "why"))
        )
    yield from (Unseen(what=name, why="these facts do not have it") for name in ALWAYS if not facts.find(name))
    log = facts.find(LOG)
    if log and log.status is not Status.UNKNOWN and flag(told(facts, LOG), "readable") is not True:
        why = text(told(facts, LOG), "why") or log.reason or "it could not be read"
        if not any(one.what in why or why in one.why for one in facts.not_seen):
            yield Unseen(what=LOG, why=why, enable_by=AS_ROOT)


def _of(ground: Because, facts: Facts) -> Strength:
    """Return how a fact was learnt: that of the copy that has this value, else of the first that has the fact."""
    if ground.component == MESSAGE:
        said = (one.strength for one in facts.messages if (one.kind, one.line) == (ground.fact, ground.value))
        return next(said, Strength.MESSAGE)
    names = ground.fact.split(".")
    seen = facts.find(ground.component)
    having = [copy for copy in seen.instances if at(everything(copy), names[0]) is not None] if seen else []
    same = (copy for copy in having if at(everything(copy), *names) == ground.value)
    copy = next(same, having[0] if having else None)
    if copy:
        # What was concluded is as weak as the weakest that is known of the copy.
        weakest = max(copy.strengths.values(), key=STRENGTHS.index, default=Strength.MEASURED)
        return copy.strengths.get(names[0], weakest)
    return Strength.MEASURED if facts.taken else Strength.PRINTED


# What is wrong with one GPU explains what is wrong with the same one, and not with another.
OF_ONE_GPU = frozenset(
    {"gpu-not-answering", "gpu-sensor-error", "gpu-missing", "sibling-differs", "gpu-xid", "pcie-errors"}
    | {"fabric-state"}
)
TRIED = ("framework-fails-on-gpu", "framework-import-fails")
EXPLAINING = frozenset({Severity.ERROR, Severity.WARNING})
ON_PURPOSE = frozenset({"cuda-visible-devices-invalid"})  # only a warning where it hides all GPUs, and yet decisive
# Findings about one Python explain only what is about the same one.
OWN_INSTANCE = frozenset(
    {
        "driver-too-old-for-cuda-build",
        "ptx-newer-than-driver",
        "arch-not-in-build",
        "jax-plugin-mismatch",
        "ort-cpu-and-gpu-installed",
        "extension-abi-mismatch",
        *WRONG_CUDNN,
        *WRONG_LIBRARIES,
    }
)
OWN_COMPONENT = frozenset({"known-bad-combination"})


def cause_of(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """Return the key of the finding that explains this one, or None where none does."""
    for wanted in explained_by(finding.id):
        fitting = [other for other in findings if other.id == wanted and _explains(other, finding)]
        if fitting:
            return min(fitting, key=lambda other: (other.instance != finding.instance, other.key)).key
    return next((other.key for other in findings if _is_ground(other, finding)), None)


def _is_ground(other: Finding, finding: Finding) -> bool:
    """Return whether a finding is that what another rests on failed as well, in the same Python."""
    if finding.id not in TRIED or other.id not in TRIED or other.severity not in EXPLAINING:
        return False
    places = {(one.instance or "").partition(":")[2] for one in (other, finding)}
    strong = other.severity is Severity.ERROR or finding.severity is not Severity.ERROR
    return other.component in exercised.RESTS_ON.get(finding.component, ()) and len(places) == 1 and strong


def _explains(cause: Finding, finding: Finding) -> bool:
    """Return whether a finding can be the cause of another: it weighs as much, and it is about the same thing."""
    same = cause.instance in {finding.instance, finding.component}
    same = same or cause.id not in OWN_INSTANCE or _of_its_copy(cause, finding)
    same = same and (cause.id not in OWN_COMPONENT or cause.component == finding.component)
    same = same and (finding.id not in OF_ONE_GPU or cause.instance in {None, finding.instance})
    strong = cause.severity is Severity.ERROR or finding.severity is not Severity.ERROR or cause.id in ON_PURPOSE
    return (
        cause.severity in EXPLAINING and strong and same and (finding.id not in TRIED or _in_its_words(cause, finding))
    )


def _of_its_copy(cause: Finding, finding: Finding) -> bool:
    """Return whether a known problem is that of the very copy of a library that a cause names as the wrong one."""
    wrong, held = (
        {str(one.value) for one in among.because if (one.component, one.fact) == (cause.component, "version")}
        for among in (cause, finding)
    )
    return finding.id == "known-bad-combination" and bool(wrong & held)


def _in_its_words(cause: Finding, finding: Finding) -> bool:
    """Return whether a cause that the words of trials name was named by this one, or by another in the same words."""
    heard = [one for one in cause.because if one.component == MESSAGE and one.source.endswith(exercised.RUN)]
    if cause.id not in NAMED or not heard:
        return True
    own, said = exercised.origin(finding.instance or ""), finding.detail
    return any(one.source == own or (said and (said in str(one.value) or str(one.value) in said)) for one in heard)


def looked(facts: Facts) -> bool:
    """Return whether anything shows that the driver's side works, or that all GPUs here are held for virtual machines.

    That somebody names his GPU shows nothing.
    """
    cards = facts.find("gpu")
    told = cards is not None and all(part.endswith(IN_WORDS) for part in cards.source.split(", "))
    listed = not told and any(gpu.copy.status is Status.PRESENT for gpu in gpus(facts))
    held = bool(on_bus(facts, "nvidia")) and not ours(facts)
    others = any(ready(facts) for ready in STARTS.values()) or intel.alone(facts)
    return listed or held or starts(facts) is True or others or heard(facts, AT_WORK)


def elsewhere(cause: str, facts: Facts) -> bool:
    """Return whether only other machines have it: of another system, or with NVIDIA's GPUs."""
    host = f"{facts.host.os or ''}".lower()
    windows = "windows" in host and not facts.host.wsl
    linux = bool(facts.host.kernel or host) and "windows" not in host and not host.startswith("macos")
    early = () < numbers(version(facts, "tensorflow"))[:2] < FIRST_WITHOUT
    on_linux = heard(facts, "docker-run") or any(map(NOT_OF_WINDOWS.search, facts.words))  # containers are of Linux
    never = cause == NOT_ON_WINDOWS and (early or on_linux)
    away = cause.startswith(OF_LINUX) if windows else linux and not facts.host.wsl and cause.startswith(ELSEWHERE)
    apart = "nvidia" in _makers(cause) and amd.foreign(facts)
    return never or away or apart or (facts.host.wsl and cause.startswith(NOT_IN_WSL))


def can_be(finding: Finding, facts: Facts) -> bool:
    """Return whether a machine that a text describes can have this; without any GPU, nothing of one is at fault."""
    without = none_here(facts, surely=True) and not any(one.id in GPUS for one in facts.components)
    mac = any(one.values.get("kind") == "mac" for one in said(facts, "nvidia-absent-said"))
    without = without or (mac and finding.id in OF_NVIDIA_GPUS)
    return not elsewhere(finding.id, facts) and not (without and finding.severity in EXPLAINING)


def possible(cause: str, facts: Facts) -> bool:
    """Return whether it may be the cause of what a text tells: a machine like this can have it, and it is named."""
    unnamed = any(cause.startswith(start) and not _named(words, facts) for start, words in OF_PROGRAMS.items())
    driven = cause == NO_DRIVER and bool(driver_works(facts) or heard(facts, *SMI_WORKS) or driver_release(facts))
    absent = cause in OF_NVIDIA_GPUS and bool(heard(facts, "nvidia-absent-said"))
    unlocked = any(copy.facts.get("secure_boot") is False for copy in copies(facts, "linux-kernel"))
    alone = heard(facts, "fabric-nothing-to-do") or any(UNSWITCHED.search(gpu.name) for gpu in gpus(facts))
    needless = (alone and cause.startswith(FABRIC)) or flag(told(facts, LOADED.get(cause, "")), "loaded") is True
    needless = needless or (cause == NOT_IN_GROUP and "render" in texts(told(facts, "user"), "groups"))
    needless = needless or (cause == NO_UVM and any("uvm" in one.line for one in said(facts, "nodes-listed")))
    accepted = cause == KEY_REJECTED and unlocked and not heard(facts, "secure-boot-blamed-said")  # which it was until
    return _made_here(cause, facts) and not (
        unnamed or driven or absent or needless or accepted or elsewhere(cause, facts)
    )


def _makers(cause: str) -> Sequence[str]:
    """Return the makers of the GPUs that a cause is about; none: of any."""
    return next((makers for start, makers in VENDORS.items() if cause.startswith(start)), "").split()


def _made_here(cause: str, facts: Facts) -> bool:
    """Return whether a GPU of these makers is here or, where none is known, named; NVIDIA's need no name."""
    makers = _makers(cause)
    here = {GPUS[one.id] for one in facts.components if one.id in GPUS and one.status is Status.PRESENT}
    if not makers or "nvidia" in makers:
        return True
    return not here.isdisjoint(makers) if here else any(_named(OWN_WORDS[one], facts) for one in makers)


def _named(words: re.Pattern[str], facts: Facts) -> bool:
    """Return whether one of these is named: in the words, a message, or a component; so where nothing is."""
    lines = [f"{one.kind} {one.line.lower()}" for one in facts.messages]
    told = (*facts.words, *lines, *(one.id for one in facts.components))
    return not told or any(map(words.search, told))
