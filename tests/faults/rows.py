"""The table: which fault of which library, where, and what the report must say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.faults.kinds import KINDS

FAILED, PRESENT, ABSENT = "failed", "present", "absent"
# How the report describes one of our processes that died or was killed, by fault.
ENDS = {
    "hang": "gave no answer in…(state S",
    "spin": "gave no answer in…(state R",
    "stop": "gave no answer in…(state T",
    "vfork": "gave no answer in…(state D",
    "late": "gave no answer in…(state S",
    "segv": "was killed by SIGSEGV",
    "bus": "was killed by SIGBUS",
    "fpe": "was killed by SIGFPE",
    "ill": "was killed by SIGILL",
    "kill": "was killed by SIGKILL",
    "abort": "was killed by SIGABRT",
    "exit0": "ended with exit code 0 before it answered",
    "exit7": "ended with exit code 7 before it answered",
    "smash": "was killed by SIGABRT",
    "deep": "was killed by SIGSEGV",
    "hog": "was killed by SIGABRT",
    "endless": "gave no answer in",
    "forge": "printed something that is not an answer",
    "shut": "before it answered",
}
# The same for a fork that queries one copy of a library.
FORK_ENDS = {
    "hang": "no answer in 0.7 s",
    "spin": "no answer in 0.7 s",
    "late": "no answer in 0.7 s",
    "segv": "killed by signal 11",
    "bus": "killed by signal 7",
    "fpe": "killed by signal 8",
    "ill": "killed by signal 4",
    "kill": "killed by signal 9",
    "abort": "killed by signal 6",
    "exit0": "ended with code 0 and no answer",
    "exit7": "ended with code 7 and no answer",
    "smash": "killed by signal 6",
    "deep": "killed by signal 11",
    "hog": "killed by signal 6",
    "shut": "ended with code 0 and no answer",
}
LOADING = {
    "undefined": "undefined symbol: nobody_has_this",
    "needs": "libc++-of-nobody.so.1: cannot open shared object file",
    "text": "invalid ELF header",
    "cut": "SIGBUS",
    "empty": "file too short",
    "folder": "Is a directory",
    "foreign": "cannot open shared object file",
    "loop": "Too many levels of symbolic links",
}
LEAST = {"slow": 0.06, "slow5": 5.0}
IN_FORKS = {"cut": "killed by signal 7"}
APART = frozenset({"level-zero", "rocm-smi", "nvlink"})  # another vendor's, or irrelevant to a single GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault at one place: which component shows it, with which status and which words in its reason."""

    fault: str
    library: str
    place: str
    component: str
    status: str
    says: str
    unkillable: bool = False
    harmless: bool = False  # the answer is that of a healthy library
    least: float = 0.0  # seconds that the call takes
    decides: bool = True  # whether the verdict of a machine with an NVIDIA GPU depends on it

    @property
    def name(self) -> str:
        """Its name among the tests."""
        return f"{self.kind}-{self.place}-{self.component}"

    @property
    def kind(self) -> str:
        """The key of its kind's description."""
        return f"unkillable{'-vfork' if self.fault == 'vfork' else ''}" if self.unkillable else self.fault

    @property
    def words(self) -> str:
        """The fault in words."""
        return KINDS.get(self.kind) or f"answers error {self.fault}"


def libraries() -> tuple[Row, ...]:
    """Return every row about libraries."""
    rows = (*_died(), *_stuck(), *_loaded(), *_refused(), *_copies(), *_answered())
    return tuple(replace(row, decides=_decides(row)) for row in rows)


def _decides(row: Row) -> bool:
    """Return whether a machine with this fault may not be called healthy.

    A single NVIDIA GPU does not depend on NVLink or other vendors' libraries, something else may already have loaded
    what a library lacks, and CUDA runs without NVML.
    """
    missed = row.fault == "needs" and row.library.startswith(("libcudart", "libcudnn", "libnccl"))
    lost = row.fault == "loop" and row.component == "libcuda"
    return row.component not in APART and not missed and (row.status == FAILED or lost)


def _died() -> Iterator[Row]:
    """Yield what ends or blocks the probe's process: each kind at each of five functions."""
    for fault, says in ENDS.items():
        for library, place, component in (
            ("libcuda.so.1", "cuInit", "libcuda"),
            ("libnvidia-ml.so.1", "nvmlSystemGetNVMLVersion", "nvml"),
            ("libnvidia-ml.so.1", "nvmlDeviceGetVbiosVersion", "gpu"),
            ("libnvidia-ml.so.1", "nvmlDeviceGetNvLinkState", "nvlink"),
            ("libze_loader.so.1", "zeInit", "level-zero"),
        ):
            yield Row(fault=fault, library=library, place=place, component=component, status=FAILED, says=says)


def _stuck() -> Iterator[Row]:
    """Yield what cannot be killed."""
    left = "it could not be ended and is left behind"
    for fault, letter in (("hang", "S"), ("vfork", "D")):
        says = f"(state {letter}…{left}"
        for library, place, component in (
            ("libcuda.so.1", "cuDriverGetVersion", "libcuda"),
            ("libnvidia-ml.so.1", "nvmlInit", "nvml"),
            ("libze_loader.so.1", "zeDriverGet", "level-zero"),
        ):
            yield Row(
                fault=fault, library=library, place=place, component=component, status=FAILED, says=says,
                unkillable=True,
            )  # fmt: skip


def _loaded() -> Iterator[Row]:
    """Yield what is wrong with the file, or with the code that runs while it is loaded."""
    singles = (
        ("libcuda.so.1", "libcuda"),
        ("libnvidia-ml.so.1", "nvml"),
        ("libze_loader.so.1", "level-zero"),
    )
    for fault, says in LOADING.items():
        for library, component in singles:
            if fault != "undefined" or library != "libnvidia-ml.so.1":
                status = ABSENT if fault == "loop" else FAILED  # to the loader a dangling link is a missing file
                yield Row(fault=fault, library=library, place=library, component=component, status=status, says=says)
    for fault in ("hang", "segv", "exit0", "abort"):
        for library, component in (*singles, ("libnvidia-ml.so.1", "libnvidia-ml")):
            yield Row(fault=fault, library=library, place=library, component=component, status=FAILED, says=ENDS[fault])


def _refused() -> Iterator[Row]:
    """Yield errors and nonsense that a function returns, and functions that are missing."""
    for fault, library, place, component, status, says in (
        ("999", "libcuda.so.1", "cuInit", "libcuda", FAILED, "cuInit: CUDA_ERROR_UNKNOWN"),
        ("803", "libcuda.so.1", "cuInit", "libcuda", FAILED, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("3", "libcuda.so.1", "cuDeviceGetCount", "libcuda", FAILED, "cuDeviceGetCount: CUDA_ERROR_NOT_INITIALIZED"),
        ("garbage", "libcuda.so.1", "cuDeviceGetCount", "libcuda", FAILED, "cuDeviceGetCount: answered -286331154"),
        ("101", "libcuda.so.1", "cuDeviceGet", "libcuda", FAILED, "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE"),
        ("1", "libcuda.so.1", "cuDriverGetVersion", "libcuda", PRESENT, "CUDA_ERROR_INVALID_VALUE"),
        ("46", "libcuda.so.1", "cuDeviceGetAttribute", "libcuda", PRESENT, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        ("missing", "libcuda.so.1", "cuInit", "libcuda", FAILED, "this libcuda has no such function"),
        ("9", "libnvidia-ml.so.1", "nvmlInit", "nvml", FAILED, "NVML_ERROR_DRIVER_NOT_LOADED"),
        ("18", "libnvidia-ml.so.1", "nvmlInit", "nvml", FAILED, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
        ("15", "libnvidia-ml.so.1", "nvmlDeviceGetHandleByIndex_v2", "gpu", FAILED, "NVMLError_GpuIsLost"),
        ("999", "libnvidia-ml.so.1", "nvmlDeviceGetCount_v2", "gpu", FAILED, "NVMLError_Unknown"),
        ("missing", "libnvidia-ml.so.1", "nvmlInit", "nvml", FAILED, "NVML_ERROR_FUNCTION_NOT_FOUND"),
        ("garbage", "libnvidia-ml.so.1", "nvmlSystemGetDriverVersion", "nvml", PRESENT, "UnicodeDecodeError"),
        ("garbage", "libnvidia-ml.so.1", "nvmlDeviceGetName", "gpu", PRESENT, "UnicodeDecodeError"),
        ("2013265921", "libze_loader.so.1", "zeInit", "level-zero", PRESENT, "ZE_RESULT_ERROR_UNINITIALIZED"),
        ("1879048193", "libze_loader.so.1", "zeInit", "level-zero", FAILED, "ZE_RESULT_ERROR_DEVICE_LOST"),
        ("missing", "libze_loader.so.1", "zeInit", "level-zero", FAILED, "undefined symbol: zeInit"),
        ("8", "librocm_smi64.so.7", "rsmi_init", "rocm-smi", PRESENT, "INIT_ERROR"),
        ("missing", "librocm_smi64.so.7", "rsmi_init", "rocm-smi", FAILED, "undefined symbol: rsmi_init"),
        ("3", "libcudart.so.13", "cudaRuntimeGetVersion", "cuda-runtime", PRESENT, "answered error 3"),
        ("garbage", "libcudart.so.13", "cudaRuntimeGetVersion", "cuda-runtime", PRESENT, "which is no version"),
        ("missing", "libcudart.so.13", "cudaRuntimeGetVersion", "cuda-runtime", PRESENT, "it has no symbol"),
        ("garbage", "libcudnn.so.9", "cudnnGetVersion", "cudnn", PRESENT, "which is no version"),
        ("missing", "libcudnn.so.9", "cudnnGetVersion", "cudnn", PRESENT, "it has no symbol"),
        ("3", "libnccl.so.2", "ncclGetVersion", "nccl", PRESENT, "answered error 3"),
        ("garbage", "libnccl.so.2", "ncclGetVersion", "nccl", PRESENT, "which is no version"),
        ("missing", "libnccl.so.2", "ncclGetVersion", "nccl", PRESENT, "it has no symbol"),
    ):
        yield Row(fault=fault, library=library, place=place, component=component, status=status, says=says)


def _copies() -> Iterator[Row]:
    """Yield what ends the fork that queries one copy of a library of which there may be many."""
    for library, place, component, faults in (
        ("libcudart.so.13", "cudaRuntimeGetVersion", "cuda-runtime", tuple(FORK_ENDS)),
        ("libcudnn.so.9", "cudnnGetVersion", "cudnn", ("hang", "segv", "abort", "exit0", "exit7", "smash")),
        ("libnccl.so.2", "ncclGetVersion", "nccl", ("hang", "segv", "abort", "exit0", "bus", "deep")),
        ("librocm_smi64.so.7", "rsmi_init", "rocm-smi", ("hang", "segv", "exit0", "smash")),
    ):
        for fault in faults:
            yield Row(
                fault=fault, library=library, place=place, component=component, status=FAILED, says=FORK_ENDS[fault]
            )
        for fault in ("text", "cut", "foreign", "needs"):
            yield Row(
                fault=fault,
                library=library,
                place=library,
                component=component,
                status=FAILED,
                says=IN_FORKS.get(fault, LOADING[fault]),
            )


def _answered() -> Iterator[Row]:
    """Yield what is odd but no fault: the answer is accepted."""
    for fault in ("slow", "slow5", "chatter", "litter"):
        start = "zeInit" if fault == "slow5" else "zeDriverGet"  # which is called twice
        for library, place, component, says in (
            ("libcuda.so.1", "cuDeviceGetCount", "libcuda", "NVIDIA H200"),
            ("libnvidia-ml.so.1", "nvmlSystemGetNVMLVersion", "nvml", "580.159.04"),
            ("libze_loader.so.1", start, "level-zero", "ZE_RESULT_SUCCESS"),
        ):
            yield Row(
                fault=fault, library=library, place=place, component=component, status=PRESENT, says=says,
                harmless=True, least=LEAST.get(fault, 0.0),
            )  # fmt: skip
