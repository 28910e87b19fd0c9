"""What messages say about the machine besides the fault, and what facts of different lines and texts say together."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.imports import gathered
from gpustack.imports.gathered import HERE, IN_WORDS, NAMED, Gathered
from gpustack.imports.messages import Found
from gpustack.matrix.subjects.messages import STATUS, patterns
from gpustack.matrix.subjects.serving import release_of, vllm_of
from gpustack.model.facts import AT_WORK, ILL, IS_OVER, Status, Strength

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.messages import Pattern
    from gpustack.model.facts import Facts, JsonValue, Message

# Kinds of messages in people's own words: such a line may say more, and is also read as words.
BY_PEOPLE = frozenset(
    {
        *("container-told", "docker-snap", "docker-desktop", "daemon-reload", "host-smi-works"),
        *("wsl-smi-works", "gpu-count", "no-such-gpu", "mig-enabled-said", "mig-several-said", "works-as-root"),
        *("user-fails", "linux-driver-package", "linux-driver-said", "pip-torch-plain"),
        *("fabric-manager-version", "suspend", "hang", "setvars", "driver-older-than-needed", "driver-told"),
        *("libcuda-file", "libcuda-place", "ldconfig-libcuda", "docker-run", "runfile", "compat-folder"),
        *("ld-library-path", "ld-library-path-added", "ld-library-path-said"),
    }
)


def told(message: Message) -> bool:
    """Return whether a message is in people's own words."""
    return message.kind in BY_PEOPLE or message.kind.endswith(("-said", "-told", "-named", "-version"))


def read(found: Sequence[Found], into: Gathered, matrix: Matrix) -> None:
    """Read messages and the facts that they imply."""
    taken = [
        one._replace(message=replace(one.message, strength=Strength.STATED)) if told(one.message) else one
        for one in found
    ]
    messages = tuple(one.message for one in taken)
    into.messages = (*into.messages, *messages)
    for one in taken:
        into.strength = one.message.strength
        for (component, copy), facts in _implied(one, matrix).items():
            _take(component, copy, facts, one.message, into)
    into.strength = Strength.MESSAGE
    xids: list[JsonValue] = [
        _xid(one) for one in messages if one.kind == "xid" and one.values.get("code", "").isdecimal()
    ]
    kernel = [one.line for one in messages if one.kind in KERNEL]
    if xids or kernel:
        into.tell("kernel-log", messages[0].origin)
        log = into.copies["kernel-log"][HERE].facts
        known = log.get("xids")
        log["xids"] = (*(known if isinstance(known, tuple) else ()), *xids)
    into.strength = Strength.PRINTED


def past(found: Sequence[Found], into: Gathered) -> None:
    """Add the faults that are over, each once: they imply nothing of now."""
    over = {one.row.finding: one for one in found if one.row.finding not in {None, OWN_FAULT}}
    into.messages += tuple(
        replace(one.message, kind=IS_OVER, values={"finding": str(finding), "says": one.row.says})
        for finding, one in over.items()
    )


def implied(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts that a machine's messages imply, each from the row of its kind that matches its line."""
    into = Gathered(places={name: (one.layer, one.vendor) for name, one in matrix.systems.items()})
    into.machine(container=facts.host.container, wsl="yes" if facts.host.wsl else None)
    rows: dict[str, list[Pattern]] = {one.kind: [] for one in facts.messages}
    for row in patterns(matrix) if rows else ():
        if row.kind in rows:
            rows[row.kind].append(row)
    found = ((one, _row(one, rows[one.kind])) for one in facts.messages)
    read([Found(one, row, whole=True) for one, row in found if row], into, matrix)
    join(into, matrix)
    return into.facts()


def _row(message: Message, rows: Sequence[Pattern]) -> Pattern | None:
    """Return the row that a message was recognised by: the one of its kind matching its line, or the only one."""
    fitting = (row for row in rows if row.compiled().search(message.line))
    return next(fitting, rows[0] if len(rows) == 1 else None)


def _implied(found: Found, matrix: Matrix) -> dict[tuple[str, str], dict[str, JsonValue]]:
    """Return the facts that a message implies, by component and copy."""
    held: dict[tuple[str, str], dict[str, JsonValue]] = {}
    for implied in found.row.facts:
        for component, copy, path, value in implied.filled(found.message.values, matrix):
            held.setdefault((component, copy), {})[path] = value
    return held


def _take(component: str, copy: str, facts: dict[str, JsonValue], message: Message, into: Gathered) -> None:
    """Store what a message implies about one copy; a failure is ignored if the copy is known to work."""
    origin = f"{message.origin} {IN_WORDS}" if told(message) else message.origin
    if component == "gpu":
        name = str(facts.pop("name", ""))
        copy = _named_gpu(origin, name, into)
        if name and copy not in into.copies.get(component, {}):
            return  # by its name it is another maker's, which has no compute capability
    status = Status(facts.pop(STATUS, Status.PRESENT))
    if status is Status.FAILED and into.knows(component):
        return
    named = {name: str(facts.pop(name)) for name in NAMED if name in facts}
    into.tell(component, origin, copy, status=status, also=nested(facts), **named)


def _named_gpu(origin: str, said: str, into: Gathered) -> str:
    """Read a GPU's name, merge it with the GPU of that name, and return its key."""
    name = re.sub(r"^(?:.*?(?:Warning|Error): *|.*\bYour )", "", said).strip()
    same = (key for key, held in into.copies.get("gpu", {}).items() if str(held.facts.get("name")).endswith(name))
    key = next(same, None) or str(len(into.copies.get("gpu", {})))
    gathered.gpu(origin, name, into, key)
    return key


def nested(facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return facts by path as nested tables."""
    held: dict[str, Any] = {}
    for path, value in facts.items():
        *above, name = path.split(".")
        place = held
        for one in above:
            place = place.setdefault(one, {})
        place[name] = value
    return held


def _xid(message: Message) -> JsonValue:
    pci = re.sub(r"^PCI:", "", message.values.get("pci", "")).lower()
    pci = pci if "." in pci else f"{pci}.0"
    text = message.values.get("text", "")
    pid = re.search(r"pid='?(\d{1,9})", text)
    return {"pci": pci, "code": int(message.values["code"][:9]), "text": text, "pid": int(pid[1]) if pid else None}


KERNEL = frozenset({"probe-not-called", "open-module-unsupported", "no-nvidia-gpu", "rminit-failed", "api-mismatch"})


PINNED = re.compile(r"==(\d[\w.]*)$")
OWN = ("program-out-of-memory", "program-assert", "program-devices", "program-forks")
NOT_LOADED = frozenset({"nvml-not-loaded", "module-not-found", "module-vermagic", "module-format"})
LACKS = "container-no-smi"  # a container without the GPU, which says nothing about the module below it
OWN_FAULT = "application-fault"  # an error of a program that reached the GPU
USED = frozenset(
    {"ran-on-gpu", "hipblaslt-overridden", "gpu-used", "cuda-available-true", "tf-gpu-listed", "tf-numa-node", *OWN}
)
GPUS = ("gpu", "amd-gpu", "intel-gpu")
ASKED = frozenset({"gpu-asked", "gpu-listed"})  # a program is told to use a GPU, or has one
RATE = "rate-said"  # where a GPU is named and nobody complains, what computes so fast is it
UNWELL = frozenset(
    (
        *("ailing-said", "gpu-idle", "cpu-used", "ort-provider-create-failed", "gpu-unused-said", "gpu-complaint"),
        *("cuda-fails-said", "crash-said", "cuda-available-false"),
    )
)
TOGETHER = {"gpus-talk", "gpus-fail-together"}  # each GPU may work, and hand the others wrong numbers
# Also where one environment answers True, and another False.
NO_RESULT = re.compile(
    r"tensor\([^)]{0,200}?False|tensor\(\[{0,9}nan|is_available\(\)[^\n]{0,20}True\b.{0,160}: ?False\b"
)
OF_TORCH = "No CUDA GPUs are available"
NOT_FOUND = frozenset(
    {"smi-no-devices", "nvml-not-loaded", "no-device", "cuda-available-false", "gpu-unused-said", "no-nvidia-gpu"}
)
OF_NVIDIA = re.compile(r"nvidia(?:-current|-legacy-\w{1,20}|-\d{3}\w{0,10})?")  # as distributions name the module
RUNNING = re.compile(r"/lib/modules/([2-9]\.\d[\w.+~-]*)")


def join(into: Gathered, matrix: Matrix) -> None:
    """Add what follows from several facts together; explicit statements of a text are kept."""
    into.strength = Strength.MESSAGE
    for one in JOINS:
        one(into, matrix)
    if "microsoft" in (into.version("linux-kernel") or "").lower():
        into.machine(wsl="yes")
    into.strength = Strength.PRINTED


def _served(into: Gathered, matrix: Matrix) -> None:
    """Add the PyTorch that a server's release requires, if nothing says which is installed; two are only compared."""
    named = [server for server in ("vllm", "sglang") if into.version(server)]
    for server in named if len(named) == 1 else ():
        version = into.version(server)
        known = into.fact("packages", "distributions")
        if not version or "rocm" in version or into.knows("pytorch") or (isinstance(known, dict) and "torch" in known):
            continue
        row = vllm_of(matrix, version) if server == "vllm" else release_of(matrix, server, version)
        pin = PINNED.match(str(row.torch)) if row else None
        if row and row.cuda and pin:
            source = f"what {server} {version} requires"
            into.tell("pytorch", source, version=pin[1], cuda=str(row.cuda), accelerator="cuda")


def _other_maker(into: Gathered, _matrix: Matrix) -> None:
    """Add why a PyTorch for CUDA finds no GPU: it was requested for an Intel GPU, or only AMD GPUs exist."""
    asked = next((one for one in into.messages if one.kind == "xpu-no-devices"), None)
    if asked and into.fact("pytorch", "accelerator") == "cuda":
        into.tell("pytorch", asked.origin, available=False)
    said = next((one for one in into.messages if one.kind == "no-device" and OF_TORCH in one.line), None)
    if said and into.knows("amd-gpu") and not (into.knows("gpu") or into.knows("pytorch")):
        into.strength = Strength.STATED
        into.tell("pytorch", said.origin, accelerator="cuda", available=False)  # one for ROCm covers HIP GPUs
        into.strength = Strength.MESSAGE


def _closed(into: Gathered, _matrix: Matrix) -> None:
    """Add that the module is the proprietary one, if someone says so beside a GPU that is not found."""
    said = {one.kind: one for one in reversed(into.messages)}
    flavour = said.get("closed-module-named")
    if (
        flavour
        and said.keys() & NOT_FOUND
        and "open-module-named" not in said
        and not into.fact("nvidia.ko", "flavour")
    ):
        into.strength = Strength.STATED
        into.tell("nvidia.ko", flavour.origin, flavour="proprietary")
        into.strength = Strength.MESSAGE


def _no_devices(into: Gathered, _matrix: Matrix) -> None:
    """Add that the driver counts no GPU, and its module's flavour if only the file on disk is known."""
    said = next((one for one in into.messages if one.kind == "smi-no-devices"), None)
    if said and into.knows("nvidia.ko"):  # NVML starts only where the module is in memory
        into.tell("nvml", said.origin, gpu_count=0)
        into.tell("nvidia.ko", said.origin, loaded=True, flavour=into.fact("nvidia.ko", "flavour_on_disk"))


def _out(into: Gathered, _matrix: Matrix) -> None:
    """Add that the module is not in memory, and which other kernel it was built for."""
    found = (one for one in into.messages if one.kind in NOT_LOADED)
    said = [one for one in found if OF_NVIDIA.fullmatch(one.values.get("module", "nvidia"))]
    inside = any(into.host.get(name) for name in ("container", "wsl"))
    inside = inside or any(one.kind == LACKS for one in into.messages)
    if not said or inside or into.fact("nvidia.ko", "loaded") or into.knows("kernel-log"):
        return
    origin, into.strength = said[0].origin, said[0].strength
    for one in said:
        running = one.values.get("needs", "").partition(" ")[0] or _folder(one.values.get("folder", ""))
        if running and running[0].isdigit() and not into.version("linux-kernel"):
            into.tell("linux-kernel", origin, version=running)
        into.tell("nvidia.ko", origin, loaded=False, vermagic=one.values.get("found"))
    kernels = [str(copy.facts.get("kernel")) for copy in into.copies.get("dkms", {}).values() if _is_nvidia(copy.facts)]
    if kernels and into.version("linux-kernel") not in kernels:
        into.tell("nvidia.ko", origin, vermagic=kernels[-1])


def _at_work(into: Gathered, matrix: Matrix) -> None:
    """Add that a GPU is working: a program shows its result, and no fault is reported."""
    kinds = {one.kind for one in into.messages}
    here = kinds & ASKED or any(into.knows(name) for name in GPUS)
    rate = {RATE} if here and not kinds & UNWELL else set()
    shown = next((one for one in into.messages if one.kind in USED | rate and not NO_RESULT.search(one.line)), None)
    if shown is None:
        return
    faults = {one.kind for one in patterns(matrix) if one.finding and one.finding != OWN_FAULT}
    if not (kinds >= TOGETHER or any(one.kind in faults | ILL for one in into.messages)):
        into.messages = (*into.messages, replace(shown, kind=AT_WORK))


def _is_nvidia(facts: Mapping[str, JsonValue]) -> bool:
    return str(facts.get("module")).startswith("nvidia") and facts.get("state") == "installed"


def _folder(path: str) -> str | None:
    found = RUNNING.match(path)
    return found[1] if found else None


JOINS: tuple[Callable[[Gathered, Matrix], None], ...] = (_served, _other_maker, _closed, _no_devices, _out, _at_work)
