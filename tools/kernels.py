"""Rebuild the PTX that ships with the benchmarks: ``python -m tools.kernels``.

It needs NVRTC 12.0 (``pip install nvidia-cuda-nvrtc-cu12==12.0.76``, no GPU): a newer release would write PTX that
driver branch 525, the oldest we support, cannot read. The head of each file names the source that it was built from,
and a test compares the two.
"""

# ruff: noqa: INP001 - a maintainers' program, whose folder is not a package
from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gpustack import assets
from gpustack.bench.compiling import Nvrtc
from gpustack.errors import NothingSeenError
from gpustack.model import writing

COMPILER = (12, 0)
ARCHITECTURE, ARCHITECTURES = "compute_60", {"probe.cu": "compute_80"}  # the oldest that the source compiles for
REMEDY = "pip install nvidia-cuda-nvrtc-cu12==12.0.76"
_HEAD = re.compile(r"// source (\S+) sha256 ([0-9a-f]{64})\n// compiler (.+)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a PTX file according to its head."""

    source: str
    sha256: str
    compiler: str


def sources() -> tuple[Path, ...]:
    """Return the kernel source files, by name."""
    return tuple(sorted(assets.MICROBENCH.glob("*.cu")))


def options(source: Path) -> tuple[str, ...]:
    """Return the compiler options for this source."""
    return (f"--gpu-architecture={ARCHITECTURES.get(source.name, ARCHITECTURE)}", "--std=c++17")


def expected(source: Path) -> Origin:
    """Return the expected head of this source's PTX."""
    compiler = f"NVRTC {COMPILER[0]}.{COMPILER[1]} {' '.join(options(source))}"
    return Origin(source=source.name, sha256=hashlib.sha256(source.read_bytes()).hexdigest(), compiler=compiler)


def origin(text: str) -> Origin | None:
    """Return the origin stated in the head of a PTX text, or None if there is none."""
    match = _HEAD.match(text)
    return Origin(source=match[1], sha256=match[2], compiler=match[3]) if match else None


def build(source: Path, nvrtc: Nvrtc) -> str:
    """Return the PTX of this source with its head."""
    made = expected(source)
    head = f"// source {made.source} sha256 {made.sha256}\n// compiler {made.compiler}\n"
    return head + nvrtc.ptx(source.read_text("utf-8"), source.name, options(source))


def find() -> Nvrtc:
    """Return the compiler from the wheel in this environment; raises NothingSeenError if it is not 12.0."""
    for folder in sys.path:
        path = Path(folder, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
        if path.is_file():
            found = Nvrtc(path)
            if found.version != COMPILER:
                raise NothingSeenError(f"{path} is NVRTC {found.version[0]}.{found.version[1]}, not 12.0: {REMEDY}")
            return found
    raise NothingSeenError(f"there is no NVRTC 12.0 here: {REMEDY}")


def main() -> None:
    """Write the PTX of every source file next to it."""
    nvrtc = find()
    for source in sources():
        made = source.with_suffix(".ptx")
        writing.write(made, build(source, nvrtc))
        sys.stdout.write(f"{made.name}: {made.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
