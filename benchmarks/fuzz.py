"""Feed malformed input to each parser and each reader of probe results: ``python benchmarks/fuzz.py``.

``--inputs N`` is their total number (100000), ``--seed N`` selects them; ``--json FILE`` saves the figures. None may
raise anything but our own error, or take more than a second. Inputs are derived from real ones (truncated, doubled,
joined, with changed bytes and swapped JSON values) or made up.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from benchmarks.odd_inputs import SNAPSHOTS, TEXTS, OddHost, bent, spoilt, swapped  # noqa: E402 - of this checkout
from gpustack import bench, imports, policy, snapshots  # noqa: E402
from gpustack.ask import subjects  # noqa: E402
from gpustack.bench import listening, results, suite  # noqa: E402
from gpustack.collect import catalogue, probe_results, subprocesses  # noqa: E402
from gpustack.collect import updates as index  # noqa: E402
from gpustack.compare import compare  # noqa: E402
from gpustack.diagnose.engine import judge  # noqa: E402
from gpustack.errors import GpustackError  # noqa: E402
from gpustack.explain import explain  # noqa: E402
from gpustack.imports.sifting import sift  # noqa: E402
from gpustack.imports.texts import take as take_text  # noqa: E402
from gpustack.matrix import Matrix  # noqa: E402
from gpustack.model import versions, writing  # noqa: E402
from gpustack.model.facts import Facts, Host  # noqa: E402
from gpustack.redaction import form, redact  # noqa: E402
from tests.bench import lines  # noqa: E402
from tests.faults.tree import FILES as KERNEL  # noqa: E402
from tests.told import ToldHost, load  # noqa: E402

MOST_SECONDS, DEEP = 1.0, 0.1
MATRIX = Matrix()
SYSTEMS = catalogue.load()
FILES = ("driver/nvidia_driver.py", "kernel/linux_kernel.py", "kernel/kernel_log.py", "kernel/dkms.py",
         "kernel_module/nvidia_ko.py", "hardware/pci_display.py", "container/limits.py", "kernel/iommu.py")  # fmt: skip
FIGURES = json.loads((REPO / "docs/evidence/2026-11-21-h200/bench.json").read_text("utf-8"))
POLICY = "\n".join(re.findall(r"```toml\n(.*?)```", (REPO / "docs/policy.md").read_text("utf-8"), re.DOTALL))
TYPED = ("torch==2.7.1+cu128", "jax[cuda12]>=0.4", "driver==590.44.01", "sm_90", "Xid 79", "error 802", "kernel")
PIP = (
    'torch (2.9.1)\nAvailable versions: 2.9.1, 2.9.0\n{"install": [{"metadata": {"requires_dist": ["x>1"]}, '
    '"download_info": {"url": "https://x/torch-2.9.1-cp310-cp310-linux_x86_64.whl"}}]}'
)


@dataclass
class Target:
    """One parser, and its results; it gets ``share`` of all inputs."""

    name: str
    eat: Callable[[random.Random], object]
    share: int
    inputs: int = 0
    slowest: float = 0.0
    refused: int = 0
    broken: list[str] = field(default_factory=list)

    def feed(self, seed: int) -> None:
        """Feed it one input, identified by its seed."""
        begun = time.thread_time()  # processor time: a busy machine does not make a parser slow
        try:
            self.eat(random.Random(seed))  # noqa: S311 - no secret is made of it
        except GpustackError:
            self.refused += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self.broken.append(f"seed {seed}: {type(error).__name__}: {error}"[:300])
        took = time.thread_time() - begun
        self.inputs += 1
        self.slowest = max(self.slowest, took)
        if took > MOST_SECONDS:
            self.broken.append(f"seed {seed}: took {took:.1f} s")


def answer(dice: random.Random) -> dict[str, Any]:
    """Return a possible result of a probe."""
    said = {"id": "x", "status": "present", "seconds": 0.1, "log": [["read", "/x", "ok"]], "calls": [["f", 0.1, "ok"]],
            "instances": dice.choice(SNAPSHOTS)["components"][dice.randrange(3)]["instances"]}  # fmt: skip
    made = swapped(dice, said, 0.01)
    return made if isinstance(made, dict) else {"status": made}


def eat_answer(dice: random.Random) -> object:
    """Read a probe's result, and judge it."""
    replies = [
        catalogue.Reply(system=dice.choice(SYSTEMS), environment=None, answer=answer(dice))
        for _ in range(dice.randint(1, 3))
    ]
    replies += [replace(one, deep=True, answer=answer(dice)) for one in replies if dice.random() < DEEP]
    components, unseen = probe_results.parse(replies)
    return writing.render(judge(Facts(taken="x", host=Host(), components=components, not_seen=unseen), MATRIX))


def eat_snapshot(dice: random.Random) -> object:
    """Read a snapshot and, if it is valid, judge and write it."""
    said = swapped(dice, dice.choice(SNAPSHOTS), dice.choice((0.0002, 0.001, 0.01)))
    facts = snapshots.take(said, "x") if isinstance(said, dict) else snapshots.read(json.dumps(said))
    again = snapshots.render(*redact((facts, snapshots.unknown(said, facts))))
    if dice.random() > 0.8:  # noqa: PLR2004
        return writing.render(compare(judge(facts, MATRIX), judge(snapshots.read(again), MATRIX)))
    return again


def eat_files(dice: random.Random) -> object:
    """Run a probe on nonsense files."""
    paths = ("/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/sys/module/nvidia/version", "/dev/kmsg",
             "/sys/module/nvidia/initstate", "/proc/cmdline", "/proc/mounts", "/proc/self/limits", "/proc/meminfo",
             "/proc/sys/kernel/osrelease", "/var/lib/dpkg/status", "/etc/os-release", "/etc/ld.so.cache",
             "/sys/bus/pci/devices/0000:01:00.0/class", "/sys/bus/pci/devices/0000:01:00.0/resource")  # fmt: skip
    files = {path: dice.randbytes(200) if dice.random() > 0.5 else spoilt(dice, dice.choice(TEXTS)) for path in paths}  # noqa: PLR2004
    host = ToldHost(files, row={"id": "nvidia.ko", "module": "nvidia", "nodes": []})
    try:
        return json.dumps(dice.choice(PROBES)(host))
    except OSError:
        return None  # a probe raises it on purpose: the runner turns it into a failed result


def eat_machine(dice: random.Random) -> object:
    """Run any probe on a nonsense machine, as the runner of probes does, and judge its result."""
    system = dice.choice(SYSTEMS)
    host = OddHost(dice, dict(system.data), KERNEL.values())
    said = json.loads(json.dumps(RUNNER["ask"](dict(system.data), lambda: host, "probe")))
    if said["status"] == "failed":
        UNFORESEEN.update([f"{said['id']}: {said['reason']}"[:120]])
    components, unseen = probe_results.parse(
        [catalogue.Reply(system=system, environment=host.environment, answer=said)]
    )
    return writing.render(judge(Facts(taken="x", host=Host(), components=components, not_seen=unseen), MATRIX))


def eat_figures(dice: random.Random) -> object:
    """Read a saved bench report and, if it is valid, compare with it."""
    path = Path(FOLDER.name) / "bench.json"
    path.write_text(json.dumps(swapped(dice, FIGURES, dice.choice((0.0001, 0.001, 0.01)))))
    with suppress(GpustackError):
        bench.load(path)
    return writing.render(bench.read(path))


def eat_line(dice: random.Random) -> object:
    """Read output of the bench's child process."""
    opened = swapped(dice, lines.OPENED, dice.choice((0.0, 0.02)))
    try:
        seen = results.opened(opened, 0)
    except results.MALFORMED:
        return None
    bench = dice.choice(suite.listed())
    said = swapped(dice, lines.measured(bench.id, 1e9, 0.001), dice.choice((0.005, 0.02)))
    return writing.render(results.measured(said, bench, seen, None))


def eat_pip(dice: random.Random) -> object:
    """Read output of pip."""

    class Told(index.Index):
        def _ask(self, *_words: str) -> str:
            return spoilt(dice, PIP)

    asked = Told(deadline=0.0)
    return asked.versions("torch"), asked.metadata("torch", "2.9.1")


def eat_input(dice: random.Random) -> object:
    """Read any piped input."""
    data = spoilt(dice, dice.choice((*TEXTS, json.dumps(SNAPSHOTS[0])))).encode(
        dice.choice(("utf-8", "utf-16", "latin-1")), "replace"
    )
    return imports.load(["-"], BytesIO(bent(dice, data[:4000]) if data else b""), MATRIX)


PROBES = [load(name)["probe"].__wrapped__ for name in FILES]  # rows may be about any system, so no schema applies
RUNNER = load("__main__.py")
FOLDER = TemporaryDirectory()
UNFORESEEN: Counter[str] = Counter()


def targets() -> tuple[Target, ...]:
    """Return every parser, with its share of the inputs."""
    elf = load("elf.py")["read"]
    cached = load("loader.py")["cached"]
    said = b'{"id": "x", "status": "present", "instances": []}'
    parse_all = [kind.parse for kind in vars(versions).values() if isinstance(kind, type) and hasattr(kind, "parse")]
    return (
        Target("answers of probes", eat_answer, 10),
        Target("lines of probes", lambda dice: subprocesses.answered(bent(dice, said)), 12),
        Target("probes on odd machines", eat_machine, 20),
        Target("files of the kernel", eat_files, 12),
        Target("ELF files", lambda dice: _elf(elf, dice), 10),
        Target("ld.so.cache", lambda dice: cached(bent(dice, CACHE), "x86_64"), 10),
        Target("versions", lambda dice: [parse(spoilt(dice, "580.159.04+cu128")) for parse in parse_all], 10),
        Target("snapshots", eat_snapshot, 6),
        Target("snapshots as text", lambda dice: snapshots.read(spoilt(dice, json.dumps(SNAPSHOTS[0]))), 4),
        Target("secrets", lambda dice: form.find(spoilt(dice, dice.choice(TEXTS))[:2000], ["x"]), 2),
        Target("policies", lambda dice: policy.read(spoilt(dice, POLICY)), 4),
        Target("saved figures", eat_figures, 3),
        Target("lines of the bench", lambda dice: listening._line(bent(dice, said)), 4),  # noqa: SLF001 - what reads them
        Target("figures of the bench", eat_line, 4),
        Target("subjects", lambda dice: subjects.parse(spoilt(dice, dice.choice(TYPED)), MATRIX), 3),
        Target("typed words", lambda dice: explain(spoilt(dice, dice.choice(TYPED))[:400].split(), MATRIX), 2),
        Target("pip's output", eat_pip, 3),
        Target("inputs", eat_input, 2),
        Target("large inputs", lambda dice: sift(spoilt(dice, dice.choice(TEXTS)).encode() * 4), 1),
        Target("pasted texts", lambda dice: take_text([("x", spoilt(dice, dice.choice(TEXTS))[:4000])], MATRIX), 2),
    )


CACHE = b"glibc-ld.so.cache1.1" + bytes([2, 0, 0, 0]) + bytes(24) + bytes(48) + b"libcuda.so.1\0/usr/lib/libcuda.so.1\0"
PROGRAM = Path(sys.executable).resolve().read_bytes()[:4096]


def _elf(read: Callable[..., object], dice: random.Random) -> object:
    data = bent(dice, PROGRAM[: dice.randint(16, 4096)])
    return read(lambda offset, size: data[offset : offset + size])


def turns(every: tuple[Target, ...]) -> Iterator[Target]:
    """Yield the targets endlessly, each in proportion to its share."""
    while True:
        for target in every:
            for _ in range(target.share):
                yield target


def run(inputs: int, seed: int) -> tuple[Target, ...]:
    """Feed this many inputs; return the results of each target."""
    every = targets()
    for number, target in zip(range(inputs), turns(every)):  # noqa: B905 - the second has no end
        target.feed(seed * 1_000_003 + number)
    return every


def main() -> int:
    """Run it and print the results; return 1 if anything raised or was slow."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--inputs", type=int, default=100_000)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--json", type=Path)
    reader.add_argument("--verbose", action="store_true", help="how probes failed on odd machines")
    asked = reader.parse_args()
    begun = time.perf_counter()
    every = run(asked.inputs, asked.seed)
    for one in every:
        print(f"{one.inputs:7d} {one.name:22s} slowest {one.slowest:.4f} s, refused {one.refused}", *one.broken[:20])
    for words, times in UNFORESEEN.most_common() if asked.verbose else ():
        print(f"{times:7d} {words}")
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
