"""A faulty machine made of compiled stand-ins: real children of gpustack load and call them as they would elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.collect import catalogue, probing
from gpustack.collect.subprocesses import Door
from tests.faults.kinds import DAMAGES, FILES
from tests.leaving import leave_out

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts
    from tests.faults.rows import Row

FAKES = Path(__file__).resolve().parents[1] / "fakes"
NVML, CUDA, ZE = "libnvidia-ml.so.1", "libcuda.so.1", "libze_loader.so.1"
SHARED = ("libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "librocm_smi64.so.7")
SINGLE = (NVML, CUDA, ZE)
# Allowances for what the stand-in H200 has on purpose: with them the machine is healthy.
WELL = ";".join(
    f"{function}=3"
    for function in (
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetMemoryErrorCounter",
        "nvmlDeviceGetRetiredPages",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "field162",  # how often each NVLink had to recover
    )
)
FABRIC = str(0x1AA)  # its health mask: nothing is degraded, recovering, timing out or misconfigured
ASKED = [
    "linux-kernel",
    "pci-display",
    "nvidia.ko",
    "nvidia-driver",
    "libnvidia-ml",
    "nvml",
    "libcuda",
    "gpu",
    "nvlink",
    "cuda-runtime",
    "cudnn",
    "nccl",
    "rocm-smi",
    "level-zero",
]
BESIDE = ("linux-kernel", "nccl")
IN_GROUPS = frozenset({"cuda-runtime", "cudnn", "nccl"})
SECONDS, HURRIED = 8.0, 1.2  # for a probe; the shorter one only where something hangs
MOST_COPIES = 6
ON_NVML = ("nvml", "libnvidia-ml", "gpu", "nvlink")
STAND = {NVML: ON_NVML, "nvmlInit": ("nvml", "gpu", "nvlink"), CUDA: ("libcuda",), ZE: ("level-zero",)}
APART = frozenset({"nvmlSystemGetNVMLVersion", "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetNvLinkState"})  # one probe's
HANGS = frozenset({"hang", "spin", "stop", "endless", "vfork", "late"})
WAITS = HANGS | {"slow5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """The compiled stand-ins, by what they are made from and with."""

    folder: Path
    compiler: str

    def make(self, source: str, *flags: str) -> Path:
        """Return a stand-in, compiled once."""
        library = self.folder / (source + "".join(flags).replace("/", "_") + ".so")
        if not library.exists():
            command = [self.compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(FAKES / source), *flags]
            subprocess.run(command, check=True, capture_output=True)
        return library

    def put(self, name: str, folder: Path, damage: str = "") -> None:
        """Put the library of this name into a folder, intact or damaged."""
        folder.mkdir(parents=True, exist_ok=True)
        nvml = name == NVML
        flags = {"missing": ("-DnvmlInit_v2=no_1", "-DnvmlInitWithFlags=no_2") if nvml else ("-DMISSING",)}
        flags["undefined"] = ("-DUNDEFINED",)
        flags["needs"] = ("-Wl,--no-as-needed", str(self._needed()))
        source = self.make("libnvidia_ml.c" if nvml else "sick.c", *flags.get(damage, ()))
        if damage in FILES:
            FILES[damage](source, folder / name)
        else:
            shutil.copy(source, folder / name)

    def _needed(self) -> Path:
        """Return a library to link against that is missing at load time."""
        return self.make("shared_object.c", "-DSYMBOL=nobody", "-DSIZE=1", "-Wl,-soname,libc++-of-nobody.so.1")


def open_shop(folder: Path) -> Shop:
    """Return the compiled stand-ins; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        leave_out("no C compiler here: stand-in libraries cannot be built")
    return Shop(folder=folder, compiler=compiler)


class Refusing(Door):
    """A subprocess starter that cannot kill anything, as if the child were stuck in a driver."""

    def __init__(self) -> None:
        self.kept: list[subprocess.Popen[bytes]] = []

    def kill(self, child: subprocess.Popen[bytes]) -> None:
        if child.poll() is None:
            self.kept.append(child)

    def end(self) -> None:
        """Really kill them."""
        for child in self.kept:
            Door().kill(child)
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)


def planted(shop: Shop, folder: Path, rows: Sequence[Row]) -> dict[str, str]:
    """Set up the machine of these rows, at most one of which concerns any one library; return its environment."""
    shared = [row for row in rows if row.library in SHARED]
    plans = [WELL]
    for name in SINGLE:
        mine = [row for row in rows if row.library == name]
        shop.put(name, folder / "one", next((row.fault for row in mine if row.fault in DAMAGES), ""))
        plans += [f"{row.place}={row.fault}" for row in mine if row.fault not in DAMAGES]
    for number, row in enumerate(shared):
        shop.put(row.library, folder / f"copy{number}", row.fault if row.fault in DAMAGES else "")
        plans += [] if row.fault in DAMAGES else [f"copy{number}/{row.place}={row.fault}"]
    if not shared:
        for name in SHARED:
            shop.put(name, folder / "copy")
    path = ":".join(str(one) for one in sorted(folder.iterdir()))
    plan = ";".join(plans)
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "LD_LIBRARY_PATH": path,
        "NV_SICK": plan,
        "NVML_FAKE": plan,
        "NVML_FAKE_NVLINK": "4",
        "NVML_FAKE_FABRIC": FABRIC,
    }


def asked(rows: Sequence[Row]) -> set[str]:
    """Return the components to probe on the machine of these rows: those affected, and those that must not be."""
    return {*BESIDE, *(row.component for row in rows)} if rows else set(ASKED)


def hangs(rows: Sequence[Row]) -> bool:
    """Return whether probing the machine of these rows waits for something that hangs."""
    return any(row.fault in HANGS for row in rows)


def waits(rows: Sequence[Row]) -> bool:
    """Return whether probing the machine of these rows takes seconds, but hardly any CPU time."""
    return any(row.fault in WAITS for row in rows)


def look(environ: Mapping[str, str], rows: Sequence[Row] = (), door: Door | None = None) -> Facts:
    """Return the facts of that machine: every library is loaded and called in real children."""
    wanted = asked(rows)
    hung = {one for row in rows if hangs([row]) for one in STAND.get(row.place, (row.component,))}
    systems = [
        replace(one, seconds=HURRIED if one.id in hung else SECONDS)
        for one in catalogue.load()
        if one.id in wanted and one.here
    ]
    grouped = [replace(one, target=False, seconds=HURRIED if hung & IN_GROUPS and one.group else one.seconds)
               for one in systems]  # fmt: skip
    return probing.look(pythons=[sys.executable], systems=grouped, environ=environ, door=door, timeout=40.0)


def transplanted(well: Facts, sick: Facts, ids: Iterable[str]) -> Facts:
    """Return the facts of the healthy machine with these components of the faulty one."""
    taken: dict[str, Component] = {one.id: one for one in sick.components if one.id in set(ids)}
    return replace(well, components=tuple(taken.get(one.id, one) for one in well.components))


def packed(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows in as few groups as possible."""
    looks: list[list[Row]] = []
    for row in rows:
        look_ = next((one for one in looks if _fits(row, one)), None)
        if look_ is None:
            looks.append(look_ := [])
        look_.append(row)
    return looks


def _manner(row: Row) -> tuple[bool, bool, bool]:
    return row.fault in HANGS, row.fault in WAITS, row.unkillable


def _fits(row: Row, rows: Sequence[Row]) -> bool:
    """Return whether a row can be told apart from the others of a group: each library has only one fault there."""
    alike = all(_manner(row) == _manner(one) for one in rows)
    same = [one for one in rows if one.library == row.library]
    if row.library in SHARED:
        return alike and len(same) < MOST_COPIES
    apart = row.place in APART and all(one.place in APART and one.component != row.component for one in same)
    return alike and (apart or not same)
