"""What the name of a PyTorch build says: 2.11.0+cu130 is for CUDA 13.0, +rocm6.4 for ROCm, +cpu for no GPU."""

from __future__ import annotations

import re
from typing import NamedTuple

TAG = re.compile(r"\+(?P<tag>(?:cu\d{2,3}|rocm[\d.]+|cpu|xpu)[\w.]*)")
KINDS = {"cu": "cuda", "rocm": "rocm", "cpu": "cpu", "xpu": "xpu"}


class Build(NamedTuple):
    """The tag of a build, the accelerator that it is for and the CUDA version; None where the name does not say."""

    tag: str | None
    accelerator: str | None
    cuda: str | None


def named(version: str) -> Build:
    """Give what a version such as 2.11.0+cu130 says of its build."""
    match = TAG.search(version)
    return tagged(match["tag"] if match else None)


def tagged(tag: str | None) -> Build:
    """Give what a tag such as cu130 says of a build."""
    kind = re.match(r"(cu|rocm|cpu|xpu)(\d*)", tag or "")
    if not kind:
        return Build(None, None, None)
    digits = kind[2] if kind[1] == "cu" else ""
    return Build(tag, KINDS[kind[1]], f"{digits[:-1]}.{digits[-1]}" if digits else None)
