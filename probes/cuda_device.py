"""The first GPU, using only the driver's own library: whether CUDA has one here, its name, and memory on it.

For trials, which must fail only if the library under trial is at fault. Its arrays work with every library that
supports ``__cuda_array_interface__``; the primary context, which libraries share, is made current. Also one kernel
(saxpy) in two forms: PTX that every GPU since Maxwell runs, and CUDA C++ for trials that compile.
"""

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from probes.host import Host, Library

NAME = "libcuda.so.1"
KINDS: "Dict[str, Tuple[str, Any]]" = {"float32": ("<f4", ctypes.c_float), "int32": ("<i4", ctypes.c_int32)}
SOURCE = """
extern "C" __global__ void saxpy(float *out, float factor, const float *left, const float *right, unsigned count)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) out[at] = factor * left[at] + right[at];
}
"""
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry saxpy(
    .param .u64 out, .param .f32 factor, .param .u64 left, .param .u64 right, .param .u32 count)
{
    .reg .pred %none;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %d<8>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [count];
    setp.ge.u32 %none, %r4, %r5;
    @%none bra done;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [left];
    ld.param.u64 %d3, [right];
    ld.param.f32 %f1, [factor];
    mul.wide.u32 %d4, %r4, 4;
    add.u64 %d5, %d2, %d4;
    ld.global.f32 %f2, [%d5];
    add.u64 %d6, %d3, %d4;
    ld.global.f32 %f3, [%d6];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    add.u64 %d7, %d1, %d4;
    st.global.f32 [%d7], %f4;
done:
    ret;
}
\0"""


class DriverError(Exception):
    """The driver returned an error."""


def find(host: "Host") -> "Tuple[Optional[Gpu], Optional[str]]":
    """Return the first GPU, or why CUDA has none here."""
    try:
        cuda = host.library(NAME)
        gpu = Gpu(cuda)
    except (OSError, DriverError) as error:
        return None, str(error)
    return gpu, None


class Gpu:
    """The first GPU, its primary context made current; raises DriverError if there is none."""

    def __init__(self, cuda: "Library") -> None:
        """Start the driver."""
        self.cuda = cuda
        self.must("cuInit", 0)
        count = ctypes.c_int()
        self.must("cuDeviceGetCount", ctypes.byref(count))
        if count.value < 1:
            raise DriverError("cuDeviceGetCount: there is no GPU that CUDA may use")
        self.device = ctypes.c_int()
        self.must("cuDeviceGet", ctypes.byref(self.device), 0)
        context = ctypes.c_void_p()
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.must("cuCtxSetCurrent", context)

    def name(self) -> str:
        """Return the GPU's name."""
        words = ctypes.create_string_buffer(256)
        self.must("cuDeviceGetName", words, len(words), self.device)
        return words.value.decode("utf-8", "replace")

    def array(self, numbers: "Sequence[int]", kind: str = "float32") -> "Array":
        """Return these numbers on the GPU."""
        return Array(self, numbers, kind)

    def write(self, address: int, numbers: "Sequence[int]", kind: str = "float32") -> None:
        """Write numbers to an address on the GPU."""
        held = (KINDS[kind][1] * len(numbers))(*numbers)
        self.must("cuMemcpyHtoD_v2", ctypes.c_uint64(address), held, ctypes.c_size_t(ctypes.sizeof(held)))

    def read(self, address: int, count: int, kind: str = "float32") -> "List[Any]":
        """Return numbers from an address on the GPU, after all work there."""
        held = (KINDS[kind][1] * count)()
        self.must("cuCtxSynchronize")
        self.must("cuMemcpyDtoH_v2", held, ctypes.c_uint64(address), ctypes.c_size_t(ctypes.sizeof(held)))
        return list(held)

    def must(self, name: str, *args: "Any") -> None:
        """Call the driver; raises DriverError with its error message."""
        if not self.cuda.has(name):
            raise DriverError("%s: this driver has no such function" % name)
        code = self.cuda.call(name, *args)
        if code:
            raise DriverError("%s: %s (%d)" % (name, self.words(code), code))

    def words(self, code: int) -> str:
        """Return the driver's message for an error."""
        said = ctypes.c_char_p()
        if self.cuda.has("cuGetErrorString"):
            self.cuda.call("cuGetErrorString", code, ctypes.byref(said))
        return (said.value or b"an error without a name").decode("utf-8", "replace")


class Array:
    """Consecutive numbers on the GPU, in the form that other libraries accept."""

    def __init__(self, gpu: Gpu, numbers: "Sequence[int]", kind: str) -> None:
        """Allocate and copy; the process ends before anything would have to be freed."""
        self.gpu, self.dtype, self.shape = gpu, kind, (len(numbers),)
        address = ctypes.c_uint64()
        gpu.must("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * len(numbers)))
        self.address = int(address.value)
        gpu.write(self.address, numbers, kind)

    @property
    def __cuda_array_interface__(self) -> "Dict[str, Any]":
        """Return the address and the type of the numbers."""
        kind = KINDS[self.dtype][0]
        return {"shape": self.shape, "typestr": kind, "data": (self.address, False), "strides": None, "version": 3}

    def data_ptr(self) -> int:
        """Return the address, as PyTorch's tensors do."""
        return self.address

    def tolist(self) -> "List[Any]":
        """Return the numbers."""
        return self.gpu.read(self.address, self.shape[0], self.dtype)
