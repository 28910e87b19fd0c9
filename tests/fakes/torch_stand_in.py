"""A stand-in for torch, in pure Python: the few functions that a trial calls, on small whole numbers.

Not PyTorch. It loads ``lib/libtorch_global_deps.so`` as PyTorch does, where there is one. The variable STAND_IN says
what is wrong with it: no-gpu, old-driver, other-cudnn, wrong-product, wrong-convolution, dies, fails.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

WRONG = os.environ.get("STAND_IN", "")
__version__ = "2.11.0+cu130"
float32, float16, int64 = "float32", "float16", "int64"
version = SimpleNamespace(cuda="13.0", hip=None)
_C = SimpleNamespace(_nccl_version=lambda: (2, 28, 9))

_deps = Path(__file__).parent / "lib" / "libtorch_global_deps.so"
if _deps.exists():
    ctypes.CDLL(str(_deps), mode=ctypes.RTLD_GLOBAL)
if WRONG == "dies":
    os.abort()
if WRONG == "fails":
    raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory")


class Tensor:
    """Numbers in one row, with a shape."""

    def __init__(self, numbers: list[int], shape: tuple[int, ...]) -> None:
        """Store them."""
        self.numbers, self.shape = numbers, shape

    def to(self, *_: str) -> Tensor:
        """Return the same numbers, whatever the device or type."""
        return self

    def reshape(self, *shape: int) -> Tensor:
        """Return the same numbers in another shape."""
        return Tensor(self.numbers, shape)

    def tolist(self) -> list[list[int]]:
        """Return the numbers as rows."""
        width = self.shape[-1]
        return [self.numbers[at : at + width] for at in range(0, len(self.numbers), width)]


def tensor(rows: list[list[int]]) -> Tensor:
    """Return a matrix."""
    return Tensor([number for row in rows for number in row], (len(rows), len(rows[0])))


def arange(end: int) -> Tensor:
    """Return the numbers counting from zero."""
    return Tensor(list(range(end)), (end,))


def ones(*shape: int) -> Tensor:
    """Return ones."""
    return Tensor([1] * shape[-1] * shape[-2], shape)


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return the product of two square matrices."""
    columns = list(zip(*right.tolist(), strict=True))
    product = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left.tolist()]
    product[0][0] += WRONG == "wrong-product"
    return tensor(product)


def conv2d(image: Tensor, _kernel: Tensor, _bias: None, stride: int) -> Tensor:
    """Return the sums of windows of three by three."""
    rows = image.tolist()
    places = range(0, len(rows) - 2, stride)
    sums = [
        sum(rows[top + down][left + on] for down in range(3) for on in range(3)) for top in places for left in places
    ]
    sums[-1] += WRONG == "wrong-convolution"
    return Tensor(sums, (1, 1, len(places), len(places)))


def _cudnn() -> int:
    if WRONG == "other-cudnn":
        raise RuntimeError("cuDNN version incompatibility: compiled against (9, 19, 0) but found (9, 14, 0)")
    return 91900


def _available() -> bool:
    if WRONG == "old-driver":
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old", stacklevel=2)
    return WRONG not in {"no-gpu", "old-driver"}


def _init() -> None:
    if not _available():
        raise RuntimeError("Found no NVIDIA driver on your system.")


backends = SimpleNamespace(cudnn=SimpleNamespace(version=_cudnn))
cuda = SimpleNamespace(
    is_available=_available,
    init=_init,
    device_count=lambda: 2,
    get_device_name=lambda _: "Stand-in GPU",
    synchronize=lambda: sys.stderr.write("synchronised\n"),
    nccl=SimpleNamespace(version=lambda: (2, 28, 9)),
)
