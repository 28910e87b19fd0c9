"""Versions that people confuse, each with its own type, and how to tell them apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_DRIVER = re.compile(r"(\d{3,4})\.(\d{1,3})(?:\.(\d{1,3}))?")
_CUDA = re.compile(r"(\d{1,2})\.(\d{1,2})")
_PACKED = 1000
_ARCH = re.compile(r"(sm|compute|lto)_(\d{2,3})([af]?)")


@dataclass(frozen=True, slots=True, order=True)
class DriverRelease:
    """A release of NVIDIA's driver, such as 580.159.04: what ``nvidia-smi`` calls *Driver Version*.

    It is not the CUDA version that the driver supports (13.0), which is a ``CudaVersion``: a driver release begins with
    a branch of three digits (580).
    """

    branch: int
    minor: int = 0
    patch: int = 0
    text: str = field(default="", compare=False)  # as read from a Jetson: without leading zeros (540.4.0)

    @classmethod
    def parse(cls, text: str | None) -> DriverRelease | None:
        """Return the release that the text spells, or None if it is not one."""
        match = _DRIVER.fullmatch(text.strip()) if text else None
        if not match:
            return None
        branch, minor, patch = (int(part or 0) for part in match.groups())
        return cls(branch, minor, patch, match[0] if len(match[2]) == 1 else "")

    def __str__(self) -> str:
        return self.text or f"{self.branch}.{self.minor:02d}" + (f".{self.patch:02d}" if self.patch else "")


@dataclass(frozen=True, slots=True, order=True)
class CudaVersion:
    """A CUDA version by major and minor, such as 13.0: of a toolkit, a runtime, a build, or the highest of a driver.

    Always state which of these it is: ``nvidia-smi`` shows the highest that the *driver* supports, ``nvcc`` that of the
    toolkit, ``torch.version.cuda`` that of the build. Only the last two say what is installed.
    """

    major: int
    minor: int = 0

    @classmethod
    def parse(cls, text: str | None) -> CudaVersion | None:
        """Return the version at the start of the text (12.8, 12.8.93), or None if there is none."""
        match = _CUDA.match(text.strip()) if text else None
        return cls(*map(int, match.groups())) if match else None

    @classmethod
    def decode(cls, number: object) -> CudaVersion | None:
        """Return the version that CUDA packs into an integer (13000 is 13.0), or None for any other value."""
        if not isinstance(number, int) or isinstance(number, bool) or number < _PACKED:
            return None
        return cls(number // _PACKED, number % _PACKED // 10)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """The architecture number of a GPU, such as 9.0: its machine code (SASS) must be built for it.

    A higher number does not imply more features: 12.0 (GeForce Blackwell) lacks what 10.0 has.
    """

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str | None) -> ComputeCapability | None:
        """Return the capability that the text spells (9.0 or sm_90), or None if it is not one."""
        if text and (arch := CodeArch.parse(text)):
            return arch.capability
        match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip()) if text else None
        return cls(*map(int, match.groups())) if match else None

    @property
    def sm(self) -> str:
        """Its name in compilers and builds, such as sm_90."""
        return f"sm_{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class CodeArch:
    """What one piece of GPU code in a build is compiled for: ``sm_90a`` is machine code, ``compute_90`` is PTX."""

    kind: str
    capability: ComputeCapability
    suffix: str = ""

    @classmethod
    def parse(cls, text: str | None) -> CodeArch | None:
        """Return the architecture that the text names, or None if it names none."""
        match = _ARCH.fullmatch(text.strip()) if text else None
        if not match:
            return None
        kind, digits, suffix = match.groups()
        return cls(kind, ComputeCapability(int(digits[:-1]), int(digits[-1])), suffix)

    def runs_on(self, gpu: ComputeCapability) -> bool:
        """Return whether this code can run on the GPU.

        Machine code runs on the same major architecture with the same or a higher minor; with suffix ``a`` only on
        exactly its own, with ``f`` on its family. PTX is compiled by the driver for any GPU that is not older; suffixes
        restrict it likewise. Source: CUDA C++ Programming Guide, "Application Compatibility" and "Feature Set Compiler
        Targets".
        """
        same_major = self.capability.major == gpu.major and self.capability.minor <= gpu.minor
        if self.suffix == "a":
            return self.capability == gpu
        return same_major if self.suffix == "f" or self.kind == "sm" else self.capability <= gpu

    def __str__(self) -> str:
        return f"{self.kind}_{self.capability.major}{self.capability.minor}{self.suffix}"
