"""What a finding calls the driver, the GPUs and the driver that would do, so that it names what decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import DRIVER, driver_cuda, driver_release, gpus, on_windows, user_release
from gpustack.diagnose.machine.values import because, number, told
from gpustack.matrix.subjects import drivers, toolkits

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because
    from gpustack.model.versions import CudaVersion, DriverRelease


MOST_GPUS = 2
BRANCH_ALONE = 580  # from CUDA 13 on, Windows needs this branch and no release of it is named


def driver_name(facts: Facts, matrix: Matrix) -> str:
    """Return what is known of the driver: "driver 470.86 (CUDA 11.4)"; empty where nothing is."""
    release, branch, cuda = _release(facts), number(told(facts, DRIVER), "branch"), cuda_of_driver(facts, matrix)
    if release or branch:
        return f"driver {release or branch}" + (f" (CUDA {cuda})" if cuda else "")
    return f"a driver for CUDA {cuda}" if cuda else ""


def cuda_of_driver(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the highest CUDA version of the driver, of one that is only known by its branch too."""
    known = driver_cuda(facts, matrix)
    branch = number(told(facts, DRIVER), "branch")
    if known or not branch:
        return known
    row = drivers.for_windows(matrix, branch) if on_windows(facts) else drivers.branch_of(matrix, branch)
    return row.cuda if row else None


def own_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the kernel driver's branch, whatever a compat libcuda makes nvidia-smi say."""
    release = driver_release(facts)
    row = matrix.branches.get(release.branch) if release else None
    return row.cuda if row else None


def gpu_names(facts: Facts) -> str:
    """Return the NVIDIA GPUs, each name once and the first few: "Tesla T4 (sm_75)"; empty where none is known."""
    named = (f"{gpu.name[:60]} ({gpu.capability.sm})" if gpu.capability else gpu.name[:60] for gpu in gpus(facts))
    return ", ".join([*dict.fromkeys(named)][:MOST_GPUS])


def needed_driver(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> str:
    """Return the oldest driver that runs what is built for this CUDA version: "driver 525.60.13 or newer"."""
    floor, native = toolkits.floor_of(matrix, cuda), _native(cuda, matrix)
    linux = floor.linux if floor else native.driver if native else None
    windows = floor.windows if floor else native.windows if native else None
    if linux is None:
        return f"a driver for CUDA {cuda} or newer"
    if on_windows(facts):
        return f"a Windows driver {windows or f'of branch {BRANCH_ALONE}'} or newer (Linux: {linux})"
    return f"driver {linux} or newer"


def native_driver(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> str:
    """Return the driver that came with this CUDA version and runs all of it: "driver 570.26 or newer"."""
    native = _native(cuda, matrix)
    if native is None or native.driver is None:
        return needed_driver(cuda, facts, matrix)
    if on_windows(facts):
        return f"a Windows driver {native.windows or f'of branch {BRANCH_ALONE}'} or newer (Linux: {native.driver})"
    return f"driver {native.driver} or newer"


def known(facts: Facts, *wanted: tuple[str, str]) -> tuple[Because, ...]:
    """Return those of these facts, each by component and name, that anybody told."""
    found = (because(facts, component, *name.split(".")) for component, name in wanted)
    return tuple(one for one in found if one.value is not None)


def of_driver(facts: Facts) -> tuple[Because, ...]:
    """Return what is known of the driver as grounds."""
    return known(
        facts,
        ("nvidia.ko", "version_loaded"),
        (DRIVER, "version"),
        (DRIVER, "branch"),
        ("nvml", "cuda_version"),
        ("libcuda", "driver_cuda"),
        ("gpu", "name"),
        ("gpu", "cc"),
    )


def _native(cuda: CudaVersion, matrix: Matrix) -> toolkits.Release | None:
    """Return the first release of the toolkit of this minor version."""
    fitting = [one for one in toolkits.releases(matrix) if one.cuda == cuda]
    return fitting[0] if fitting else None


def _release(facts: Facts) -> DriverRelease | None:
    return driver_release(facts) or user_release(facts)
