"""What the name of a PyTorch build says: 2.11.0+cu130 is for CUDA 13.0, +rocm6.4 for ROCm, +cpu for no GPU.

People write +cuda118 and +cu11.8 for the same.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TAG = re.compile(r"\+(?P<tag>(?:cu(?:da)?-?\d{2}\.?\d?|rocm[\d.]+|cpu|xpu)[\w.]*)")
CUDA = re.compile(r"cu(?:da)?-?(?P<major>\d{1,2})\.?(?P<minor>\d)(?!\d)")
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
    kind = re.match("cu|rocm|cpu|xpu", tag or "")
    if not kind:
        return Build(None, None, None)
    cuda = CUDA.match(tag or "")
    spelled = f"cu{cuda['major']}{cuda['minor']}{(tag or '')[cuda.end() :]}" if cuda else tag
    return Build(spelled, KINDS[kind[0]], f"{cuda['major']}.{cuda['minor']}" if cuda else None)
