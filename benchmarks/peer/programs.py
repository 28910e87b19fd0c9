"""How each peer is found on this machine and run, or what is missing for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer import outputs

HERE = Path(__file__).resolve().parent
LIMIT = 240.0  # seconds: no peer needs that long
CASES = (
    *("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy"),
    *("host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce"),
)
PAIRS = (
    *("device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"),
    *("host_to_all_memcpy_ce", "all_to_host_memcpy_ce"),
)
DOUBLES = 1 << 28  # elements of each array of BabelStream: 2 GiB
# Our shapes, those that mamf-finder's own pages name as the best on an H100, and whole waves of 132 tiles; the small
# ones were its best in a first sweep on an H200.
SWEEP = (
    *("--m", "2048", "2816", "4224", "8448", "--n", "1536", "2048", "4096"),
    *("--k", "8192", "13312", "16384"),
)
MAMF_TYPES = {"bf16": "bfloat16", "fp8": "float8_e4m3fn"}
MAMF_WARM = re.compile(r"^(\s*accelerator_warmup_seconds = )\d+$", re.MULTILINE)
BURN_SECONDS = 5


class AbsentError(Exception):
    """A peer was not found; the message says what was looked for."""


class FailedError(Exception):
    """A peer ran but failed; the message is its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer, ready to run: the command as shown, and a function that runs it and returns its output."""

    name: str
    command: str
    run: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where the peers are: the folder of checkouts and programs, the Python with torch, and how many GPUs there are.

    ``mamf_warm`` is mamf-finder's warm-up in seconds; None: its own default.
    """

    folder: Path
    python: str
    gpus: int
    shapes: Mapping[str, Sequence[Sequence[int]]]
    mamf_warm: int | None


def peers(where: Where, names: Sequence[str]) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that were found, and for each of the others the reason why not."""
    ready: list[Peer] = []
    missing: dict[str, str] = {}
    for name in names:
        found = _made(name, where)
        if isinstance(found, Peer):
            ready.append(found)
        else:
            missing[name] = found
    return ready, missing


def _made(name: str, where: Where) -> Peer | str:
    try:
        return MAKERS[name](where)
    except AbsentError as error:
        return str(error)


def said(argv: Sequence[str], *, limit: float = LIMIT, folder: Path | None = None) -> str:
    """Return a command's output; raises FailedError with its last lines if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=False, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"it was not done after {limit:.0f} s") from error
    if done.returncode:
        raise FailedError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def _program(where: Where, *names: str) -> str:
    for path in (folder / name for name in names for folder in (where.folder / "bin", where.folder)):
        if path.is_file():
            return str(path)
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise AbsentError(f"no program {' or '.join(names)} in the folder's bin or on PATH")
    return found


def _plain(name: str, program: str, *arguments: str) -> Peer:
    return Peer(name=name, command=" ".join([Path(program).name, *arguments]), run=lambda: said([program, *arguments]))


def _nvbandwidth(where: Where) -> Peer:
    cases = CASES + (PAIRS if where.gpus > 1 else ())
    program, arguments = _program(where, "nvbandwidth"), ["-j", "-t", *cases]

    def run() -> str:
        try:
            return said([program, *arguments])
        except FailedError:  # some containers refuse its NVML call that sets processor affinity
            return said([program, "-d", *arguments])

    return Peer(name="nvbandwidth", command=" ".join(["nvbandwidth", *arguments]), run=run)


def _babelstream(where: Where) -> Peer:
    program = _program(where, "babelstream", "cuda-stream")
    return _plain("babelstream", program, "--arraysize", str(DOUBLES), "--numtimes", "50")


def _l2_cache(where: Where) -> Peer:
    program = _program(where, "gpu-l2-cache")

    def run() -> str:
        """Read its lines until the set exceeds the cache: the rest would take a minute and measure memory."""
        lines = []
        with subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            for line in child.stdout or ():
                lines.append(line)
                if any(size > outputs.PAST for size, _ in outputs.l2_rows(line)):
                    child.kill()
                    break
        return "".join(lines)

    return Peer(name="gpu-l2-cache", command="gpu-l2-cache, ended after the set of 24 MiB", run=run)


def _mamf(where: Where, dtype: str) -> Peer:
    found = sorted(where.folder.glob("mamf-finder/**/mamf-finder.py"))
    if not found:
        raise AbsentError("no mamf-finder/**/mamf-finder.py in the folder")
    _torch_version(where)
    source, changed = found[0].read_text("utf-8"), ""
    if where.mamf_warm is not None:
        source, count = MAMF_WARM.subn(rf"\g<1>{where.mamf_warm}", source)
        changed = f", warming up {where.mamf_warm} s" if count else ""

    def run() -> str:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "mamf-finder.py"
            script.write_text(source, "utf-8")
            output = ["--output_file", str(Path(folder) / "out.txt")]
            return said([where.python, str(script), *SWEEP, "--dtype", MAMF_TYPES[dtype], *output])

    command = f"mamf-finder.py {' '.join(SWEEP)} --dtype {MAMF_TYPES[dtype]}{changed}"
    return Peer(name=f"mamf-finder {dtype}", command=command, run=run)


def _torch(where: Where) -> Peer:
    version = _torch_version(where)
    shapes = json.dumps({name: [list(shape) for shape in some] for name, some in where.shapes.items()})
    script = str(HERE / "torch_program.py")
    return Peer(
        name="torch", command=f"torch {version}, torch_program.py", run=lambda: said([where.python, script, shapes])
    )


def _torch_version(where: Where) -> str:
    try:
        return said([where.python, "-c", "import torch; print(torch.__version__)"]).strip()
    except (FailedError, OSError) as error:
        raise AbsentError(f"{where.python} has no torch") from error


def _gpu_burn(where: Where) -> Peer:
    program = _program(where, "gpu_burn")
    kernel = Path(program).parent / "compare.fatbin"
    arguments = ["-tc", "-m", "20%", "-stts", "2", "-c", str(kernel), str(BURN_SECONDS)]
    return Peer(
        name="gpu-burn",
        command=f"gpu_burn -tc -m 20% -stts 2 {BURN_SECONDS}",
        run=lambda: said([program, *arguments]).replace("\r", "\n"),
    )


def _nccl_tests(where: Where) -> Peer:
    if where.gpus < 2:  # noqa: PLR2004 - a pair
        raise AbsentError("an all-reduce needs two GPUs")
    many = str(where.gpus)
    return _plain("nccl-tests", _program(where, "all_reduce_perf"), "-b", "1G", "-e", "4G", "-f", "4", "-g", many)


MAKERS: Mapping[str, Callable[[Where], Peer]] = {
    "babelstream": _babelstream,
    "gpu-l2-cache": _l2_cache,
    "mamf-finder bf16": lambda where: _mamf(where, "bf16"),
    "mamf-finder fp8": lambda where: _mamf(where, "fp8"),
    "torch": _torch,
    "gpu-burn": _gpu_burn,
    "nccl-tests": _nccl_tests,
    "nvbandwidth": _nvbandwidth,  # last, because our suite, which is next, also begins with the link
}


def ours(names: Sequence[str], *more: str) -> str:
    """Return the JSON of our own bench; exit code 1 means that a figure is low, which is also a result."""
    argv = [sys.executable, "-m", "gpustack", "bench", *names, *more, "--format", "json", "--fail-on", "never"]
    return said(argv)
