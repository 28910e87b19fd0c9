"""CUDA errors 803 and 804 as programs print them: which libcuda it must be, and which driver or image would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, naming
from gpustack.diagnose.rules.reading import copies, number, text, told
from gpustack.diagnose.rules.saying import grounds, heard, holding, said, value
from gpustack.diagnose.rules.seen import builds
from gpustack.model.command import PATH, either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

PAIR, HARDWARE = 803, 804
USUAL = "/usr/local/cuda/compat"
MOUNTED = "/usr/local/nvidia/lib64:/usr/local/nvidia/lib"  # where the container toolkit is told to put the driver


def finding(slug: str, code: int, facts: Facts, matrix: Matrix) -> Finding | None:
    """Give the finding on this error, or None where no program said it."""
    if not heard(facts, f"cuda-{code}") and not (code == PAIR and of_compat(facts)):
        return None
    row = matrix.cuda_codes.get(code)
    return Finding(
        id=slug,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="libcuda",
        title=_title(code, facts, matrix),
        detail=_detail(code, facts, matrix),
        confidence=Confidence.CERTAIN if code == HARDWARE else Confidence.LIKELY,
        because=(
            *grounds(facts, f"cuda-{code}", "compat-folder", "tf-driver-mismatch"),
            *_smi(facts, matrix),
            *naming.of_driver(facts),
        ),
        row=row.row if row else None,
        fix=_without_compat(facts) if code == PAIR else _newer(facts, matrix),
    )


def of_compat(facts: Facts) -> bool:
    """Tell whether TensorFlow or JAX names a libcuda of another release than the module, and a compat package is it."""
    short = (one.values["client"].rpartition(".")[0] for one in holding(facts, "tf-driver-mismatch", "client"))
    spoken = [one.line for one in said(facts, "compat-folder")]
    return any(release in line for release in short if release for line in spoken)


def _title(code: int, facts: Facts, matrix: Matrix) -> str:
    driver = naming.driver_name(facts, matrix) or "the driver"
    if code == PAIR:
        return f"A compat libcuda is loaded that does not pair with the kernel module of {driver} (CUDA error 803)"
    where = naming.gpu_names(facts) or "a GPU"
    return f"A compat libcuda newer than {driver} is loaded on {where}, which does not support that (CUDA error 804)"


def _detail(code: int, facts: Facts, matrix: Matrix) -> str:
    own = naming.own_cuda(facts, matrix) or _told_of_driver(facts)
    wanted = _wanted(facts, matrix)
    if code == PAIR:
        parts = [f"An image brings a libcuda of its own (mostly in {USUAL}), which is found before the driver's."]
        parts += ["The same is said after an update of the driver, until the module is loaded again."]
    else:
        parts = ["Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs alone."]
        parts += [f"CUDA {wanted} came with {naming.native_driver(wanted, facts, matrix)}."] if wanted else []
    parts += [f"The driver itself is of CUDA {own}."] if own else []
    return " ".join(parts)


def _told_of_driver(facts: Facts) -> CudaVersion | None:
    """Give the CUDA version that somebody names as that of the driver."""
    named = (copy.version for copy in copies(facts, "cuda-toolkit") if text(copy.facts, "whose") == "driver")
    return next((CudaVersion.parse(one) for one in named if one), None)


def _smi(facts: Facts, matrix: Matrix) -> tuple[Because, ...]:
    """Give what nvidia-smi betrays: a CUDA version above that of the driver's own branch is the compat libcuda's."""
    shown, own = CudaVersion.decode(number(told(facts, "nvml"), "cuda_version")), naming.own_cuda(facts, matrix)
    if not shown or not own or shown <= own:
        return ()
    said = f"CUDA {shown}, though the driver's own branch is of CUDA {own}: that of the compat libcuda"
    return (Because(component="nvml", fact="cuda_version", value=said, source="nvidia-smi"),)


def _wanted(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Give the CUDA version of the image: what is here and newer than the driver's own."""
    own = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    held = [build.cuda for build in builds(facts)]
    held += [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit")]
    held += [CudaVersion.decode(number(told(facts, "nvml"), "cuda_version"))]
    return next((one for one in held if one and own and one > own), None)


def _without_compat(facts: Facts) -> Fix:
    folder = value(facts, "compat-folder", "path") or USUAL
    return Fix(
        text=f"Have the driver's own libcuda found first: take {folder} off LD_LIBRARY_PATH and out of "
        "/etc/ld.so.conf.d, in the image or when the container starts; or remove the libcuda that the image brings.",
        commands=either(
            sh("docker run --gpus all -e LD_LIBRARY_PATH={folder} …", folder=PATH(MOUNTED)),
            sh(
                "sudo sed -i --follow-symlinks '\\,cuda.*/compat,s/^/#/' "
                "$(grep -ls 'cuda.*/compat' /etc/ld.so.conf.d/*.conf) && sudo ldconfig"
            ),
        ),
        needs_root=True,
        verify=sh("ldconfig -p | grep libcuda.so.1"),
    )


def _newer(facts: Facts, matrix: Matrix) -> Fix:
    own, wanted = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix), _wanted(facts, matrix)
    newer = naming.native_driver(wanted, facts, matrix) if wanted else "a driver of the image's CUDA or newer"
    older = f"on CUDA {own} or older" if own else "for the driver's own CUDA"
    return Fix(
        text=f"On the machine itself, install {newer}. Or take an image or build {older}, or keep the compat folder "
        f"({USUAL}) off the library path.",
        commands=fixes.driver(facts, matrix),
        needs_root=True,
        needs_reboot=True,
        verify=sh("nvidia-smi"),
    )
