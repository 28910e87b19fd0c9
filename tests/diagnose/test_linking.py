"""Which project symbols and shared libraries belong to, by their names."""

from __future__ import annotations

import pytest

from gpustack.diagnose.machine.linking import TORCH, cuda_majors, cuda_named, demangled, soname_library, symbol_owner
from gpustack.matrix import Matrix


@pytest.mark.parametrize(
    ("symbol", "owner"),
    [
        ("_ZN3c104cuda9SetDeviceEi", TORCH),
        ("_ZNK3c107SymBool10guard_boolEPKcl", TORCH),
        ("_ZTVN5torch3jit6ModuleE", TORCH),
        ("_Z16THPVariable_WrapN2at10TensorBaseE", TORCH),
        ("?SetDevice@cuda@c10@@YAXH@Z", TORCH),
        ("aoti_torch_abi_version", TORCH),
        ("ncclCommRegister", "nccl"),
        ("__nvJitLinkComplete_12_4", "nvjitlink"),
        ("cublasLtGetStatusString", "cublaslt"),
        ("cudnnGetVersion", "cudnn"),
        ("cudaGetDriverEntryPointByVersion", "cuda-runtime"),
        ("cuMemCreate", "libcuda"),
        ("_PyUnicode_Ready", "python"),
        ("_ZN10tensorflow8OpKernel11TraceStringE", "tensorflow"),
        ("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv", "libstdc++"),
        ("current_thread", None),
    ],
)
def test_a_symbol_tells_whose_it_is(symbol: str, owner: str | None) -> None:
    assert symbol_owner(symbol) == owner


def test_a_mangled_symbol_is_spelled_out() -> None:
    assert demangled("_ZN2at4_ops15to_dtype_layout4callERKNS_6TensorE") == "at::_ops::to_dtype_layout::call"
    assert demangled("ncclMemFree") == "ncclMemFree"


@pytest.mark.parametrize(
    ("soname", "library"),
    [
        ("libcudart.so.11.0", ("cuda-runtime", "11")),
        ("/usr/lib/libcublasLt.so.12", ("cublaslt", "12")),
        ("cudart64_110.dll", ("cuda-runtime", "11")),
        ("cudnn64_8.dll", ("cudnn", "8")),
        ("libcudnn_ops_infer.so.8", ("cudnn", "8")),
        ("libtorch_cuda_cu.so", ("pytorch", "")),
        ("libmpi.so.12", None),
    ],
)
def test_a_soname_tells_library_and_number(soname: str, library: tuple[str, str] | None) -> None:
    assert soname_library(soname) == library


def test_a_number_in_a_soname_is_mostly_not_cudas() -> None:
    matrix = Matrix()
    assert cuda_majors("libcufft.so.10", matrix) == (11,)
    assert cuda_majors("libcudart.so.10.2", matrix) == (10,)
    assert cuda_majors("libcudnn_ops_infer.so.8", matrix) == ()
    assert str(cuda_named("libcudart.so.10.2")) == "10.2"
    assert cuda_named("libcufft.so.10") is None
