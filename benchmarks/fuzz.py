"""Feed each parser and each reader of a probe's answer what nobody would send: ``python benchmarks/fuzz.py``.

``--inputs N`` is how many for all together (100000), ``--seed N`` which; ``--json FILE`` keeps the figures. None may
raise anything but our own error, nor take more than a second. Inputs are made from real ones: cut, doubled, joined,
with bytes changed and JSON values put in the place of others, and from nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from gpustack import answers, catalogue, secret_shapes, snapshots, tasks, workers  # noqa: E402 - of this checkout
from gpustack.errors import GpustackError  # noqa: E402
from gpustack.imports.texts import take as take_text  # noqa: E402
from gpustack.judging import judge  # noqa: E402
from gpustack.matrix import Matrix  # noqa: E402
from gpustack.model import versions  # noqa: E402
from gpustack.redaction import redact  # noqa: E402
from gpustack.render import plain  # noqa: E402
from tests.told import ToldHost, load  # noqa: E402

MOST_SECONDS, MOST_TEXT = 1.0, 20_000
MATRIX = Matrix()
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    2**63,
    "",
    "\x00",
    "\ud800",
    "9" * 400,
    [],
    {},
    [[]],
    {"": None},
    "present",
    "[" * 300,
)
BITS = (
    "\x1b[2J",
    "\u202e",
    "\x00",
    "\r\n",
    "Xid (PCI:0000:65:00): 79",
    "::error::",
    "%s%n",
    "\ufffd",
    "=" * 50,
    "(" * 60,
)
FILES = ("driver/nvidia_driver.py", "kernel/linux_kernel.py", "kernel/kernel_log.py", "kernel/dkms.py",
         "kernel_module/nvidia_ko.py", "hardware/pci_display.py", "container/limits.py", "kernel/iommu.py")  # fmt: skip


@dataclass
class Target:
    """One parser, and how it bore up; of every so many inputs it gets ``share``."""

    name: str
    eat: Callable[[random.Random], object]
    share: int
    inputs: int = 0
    slowest: float = 0.0
    refused: int = 0
    broken: list[str] = field(default_factory=list)

    def feed(self, seed: int) -> None:
        """Give it one input, known by its seed."""
        begun = time.perf_counter()
        try:
            self.eat(random.Random(seed))  # noqa: S311 - no secret is made of it
        except GpustackError:
            self.refused += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.broken.append(f"seed {seed}: {type(error).__name__}: {error}"[:300])
        took = time.perf_counter() - begun
        self.inputs += 1
        self.slowest = max(self.slowest, took)
        if took > MOST_SECONDS:
            self.broken.append(f"seed {seed}: took {took:.1f} s")


def samples(*patterns: str) -> list[str]:
    """Give the real texts that inputs are made from."""
    paths = [path for pattern in patterns for path in sorted((REPO / "tests").glob(pattern))]
    return [path.read_text("utf-8", "replace")[:MOST_TEXT] for path in paths]


TEXTS = samples("cases/*/*.txt")
SNAPSHOTS = [json.loads(path.read_text("utf-8")) for path in sorted((REPO / "examples").glob("*.json"))]
SYSTEMS = catalogue.load()


def spoilt(dice: random.Random, text: str) -> str:
    """Give a text that was cut, doubled, joined with another or peppered."""
    for _ in range(dice.randint(1, 4)):
        at, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        text = dice.choice((
            text[:at] + text[end:],
            text[:at] + text[at:end] * 2 + text[end:],
            text[:at] + dice.choice(BITS) + text[at:],
            text[:at] + dice.choice(TEXTS)[:2000],
            "".join(map(chr, dice.choices(range(1, 0x2FF), k=40))) + text[at:end],
        ))[:MOST_TEXT]  # fmt: skip
    return text


def swapped(dice: random.Random, value: Any, often: float) -> Any:  # noqa: ANN401 - JSON
    """Give JSON with some values left out, or put in the place of others."""
    if dice.random() < often:
        return dice.choice(ODD)
    if isinstance(value, dict):
        kept = {name: swapped(dice, held, often) for name, held in value.items() if dice.random() > often / 2}
        return kept if dice.random() > often else {**kept, dice.choice(BITS): dice.choice(ODD)}
    return [swapped(dice, held, often) for held in value] if isinstance(value, list) else value


def answer(dice: random.Random) -> dict[str, Any]:
    """Give what a probe might say."""
    said = {"id": "x", "status": "present", "seconds": 0.1, "log": [["read", "/x", "ok"]], "calls": [["f", 0.1, "ok"]],
            "instances": dice.choice(SNAPSHOTS)["components"][dice.randrange(3)]["instances"]}  # fmt: skip
    made = swapped(dice, said, 0.01)
    return made if isinstance(made, dict) else {"status": made}


def eat_answer(dice: random.Random) -> object:
    """Read an answer of a probe, and judge what it says."""
    replies = [
        tasks.Reply(system=dice.choice(SYSTEMS), environment=None, answer=answer(dice))
        for _ in range(dice.randint(1, 3))
    ]
    return plain.render(answers.parse(replies))


def eat_snapshot(dice: random.Random) -> object:
    """Read a snapshot, and where it is one, judge and write it."""
    said = swapped(dice, dice.choice(SNAPSHOTS), dice.choice((0.0002, 0.001, 0.01)))
    facts = snapshots.take(said, "x") if isinstance(said, dict) else snapshots.read(json.dumps(said))
    if dice.random() > 0.8:  # noqa: PLR2004
        facts = redact(facts)
    return plain.render(judge(facts, MATRIX)) if dice.random() > 0.9 else plain.render(facts)  # noqa: PLR2004


def eat_files(dice: random.Random) -> object:
    """Run a probe on files of nonsense."""
    paths = ("/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/sys/module/nvidia/version", "/dev/kmsg",
             "/sys/module/nvidia/initstate", "/proc/cmdline", "/proc/mounts", "/proc/self/limits", "/proc/meminfo",
             "/proc/sys/kernel/osrelease", "/var/lib/dpkg/status", "/etc/os-release", "/etc/ld.so.cache",
             "/sys/bus/pci/devices/0000:01:00.0/class", "/sys/bus/pci/devices/0000:01:00.0/resource")  # fmt: skip
    files = {path: dice.randbytes(200) if dice.random() > 0.5 else spoilt(dice, dice.choice(TEXTS)) for path in paths}  # noqa: PLR2004
    host = ToldHost(files, row={"id": "nvidia.ko", "module": "nvidia", "nodes": []})
    try:
        return json.dumps(dice.choice(PROBES)["probe"](host))
    except OSError:
        return None  # what a probe raises on purpose: the runner makes a failed answer of it


PROBES = [load(name) for name in FILES]


def targets() -> tuple[Target, ...]:
    """Give every parser, with its share of the inputs."""
    elf = load("elf.py")["read"]
    cached = load("loader.py")["cached"]
    lines = b'{"id": "x", "status": "present", "instances": []}'
    parse_all = [kind.parse for kind in vars(versions).values() if isinstance(kind, type) and hasattr(kind, "parse")]
    return (
        Target("answers of probes", eat_answer, 25),
        Target("lines of probes", lambda dice: workers._object(_bytes(dice, lines)), 20),  # noqa: SLF001 - what reads them
        Target("files of the kernel", eat_files, 12),
        Target("ELF files", lambda dice: _elf(elf, dice), 10),
        Target("ld.so.cache", lambda dice: cached(_bytes(dice, CACHE), "x86_64"), 10),
        Target("versions", lambda dice: [parse(spoilt(dice, "580.159.04+cu128")) for parse in parse_all], 10),
        Target("snapshots", eat_snapshot, 6),
        Target("snapshots as text", lambda dice: snapshots.read(spoilt(dice, json.dumps(SNAPSHOTS[0]))), 4),
        Target("secrets", lambda dice: secret_shapes.find(spoilt(dice, dice.choice(TEXTS))[:2000], ["x"]), 2),
        Target("pasted texts", lambda dice: take_text([("x", spoilt(dice, dice.choice(TEXTS))[:4000])], MATRIX), 2),
    )


CACHE = b"glibc-ld.so.cache1.1" + bytes([2, 0, 0, 0]) + bytes(24) + bytes(48) + b"libcuda.so.1\0/usr/lib/libcuda.so.1\0"
PROGRAM = Path(sys.executable).resolve().read_bytes()[:4096]


def _bytes(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randint(1, 12)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)[: dice.randint(0, len(changed) * 2)]


def _elf(read: Callable[..., object], dice: random.Random) -> object:
    data = _bytes(dice, PROGRAM[: dice.randint(16, 4096)])
    return read(lambda offset, size: data[offset : offset + size])


def turns(every: tuple[Target, ...]) -> Iterator[Target]:
    """Give the targets again and again, each as often as its share is."""
    while True:
        for target in every:
            for _ in range(target.share):
                yield target


def run(inputs: int, seed: int) -> tuple[Target, ...]:
    """Feed so many inputs; give how each bore up."""
    every = targets()
    for number, target in zip(range(inputs), turns(every)):  # noqa: B905 - the second has no end
        target.feed(seed * 1_000_003 + number)
    return every


def main() -> int:
    """Run it and say how it went; 1 where anything raised or was slow."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--inputs", type=int, default=100_000)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--json", type=Path)
    asked = reader.parse_args()
    begun = time.perf_counter()
    every = run(asked.inputs, asked.seed)
    for one in every:
        print(f"{one.inputs:7d} {one.name:22s} slowest {one.slowest:.4f} s, refused {one.refused}", *one.broken[:20])
    print(f"{sum(one.inputs for one in every)} inputs in {time.perf_counter() - begun:.0f} s, seed {asked.seed}")
    if asked.json:
        rows = [
            {"name": one.name, "inputs": one.inputs, "slowest_seconds": one.slowest, "broken": one.broken}
            for one in every
        ]
        asked.json.write_text(json.dumps({"seed": asked.seed, "targets": rows}, indent=1) + "\n", "utf-8")
    return int(any(one.broken for one in every))


if __name__ == "__main__":
    sys.exit(main())
