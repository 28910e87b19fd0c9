"""The shipped PTX: what the kernels' sources become, so that a driver alone can run them.

``python -m gpustack.bench.ptx`` makes it anew. It needs NVRTC 12.0 (``pip install nvidia-cuda-nvrtc-cu12==12.0.76``, no
GPU): a newer one would write PTX that the driver branch 525, our floor, cannot read. The head of each file says from
which source it was made, and a test holds the two together.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gpustack import assets
from gpustack.errors import BrokenError, NothingSeenError

COMPILER = (12, 0)
OPTIONS = ("--gpu-architecture=compute_60", "--std=c++17")
REMEDY = "pip install nvidia-cuda-nvrtc-cu12==12.0.76"
_HEAD = re.compile(r"// source (\S+) sha256 ([0-9a-f]{64})\n// compiler (.+)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the head of a PTX file says of where it comes from."""

    source: str
    sha256: str
    compiler: str


def sources() -> tuple[Path, ...]:
    """Give the files of kernels, in the order of their names."""
    return tuple(sorted(assets.MICROBENCH.glob("*.cu")))


def expected(source: Path) -> Origin:
    """Give what the head of the PTX of this source must say."""
    compiler = f"NVRTC {COMPILER[0]}.{COMPILER[1]} {' '.join(OPTIONS)}"
    return Origin(source=source.name, sha256=hashlib.sha256(source.read_bytes()).hexdigest(), compiler=compiler)


def origin(text: str) -> Origin | None:
    """Give what the head of a PTX text says of its origin, or None where it says nothing."""
    match = _HEAD.match(text)
    return Origin(source=match[1], sha256=match[2], compiler=match[3]) if match else None


def build(source: Path, nvrtc: Nvrtc) -> str:
    """Give the PTX of this source with its head."""
    made = expected(source)
    head = f"// source {made.source} sha256 {made.sha256}\n// compiler {made.compiler}\n"
    return head + nvrtc.compile(source.read_text("utf-8"), source.name)


class Nvrtc:
    """NVIDIA's run-time compiler, in the version that our PTX is made with."""

    def __init__(self, path: Path) -> None:
        """Load the library; raises NothingSeenError where it is another version."""
        self._library = ctypes.CDLL(str(path))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        if (major.value, minor.value) != COMPILER:
            raise NothingSeenError(f"{path} is NVRTC {major.value}.{minor.value}, not 12.0: {REMEDY}")

    @classmethod
    def find(cls) -> Nvrtc:
        """Give the compiler of the wheel installed beside us; raises NothingSeenError where there is none."""
        for folder in sys.path:
            path = Path(folder, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
            if path.is_file():
                return cls(path)
        raise NothingSeenError(f"there is no NVRTC 12.0 here: {REMEDY}")

    def compile(self, source: str, name: str) -> str:
        """Give the PTX of a source text; raises BrokenError with the compiler's words where it refuses it."""
        program = ctypes.c_void_p()
        self._must(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        )
        options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
        code = self._library.nvrtcCompileProgram(program, len(OPTIONS), options)
        if code:
            raise BrokenError(f"{name} does not compile:\n{self._text(program, 'ProgramLog')}")
        return self._text(program, "PTX")

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        self._must(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._must(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.value.decode("utf-8", "replace")

    @staticmethod
    def _must(code: int) -> None:
        if code:
            raise BrokenError(f"NVRTC answered {code}")


def main() -> None:
    """Write the PTX of every source beside it."""
    nvrtc = Nvrtc.find()
    for source in sources():
        made = source.with_suffix(".ptx")
        made.write_text(build(source, nvrtc), "utf-8")
        sys.stdout.write(f"{made.name}: {made.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
