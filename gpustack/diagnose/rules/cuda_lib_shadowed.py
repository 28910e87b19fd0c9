"""A framework loads a CUDA library (cuBLAS, cuFFT, …) of the system in the place of its own.

The loader looks into LD_LIBRARY_PATH before the folders that a wheel names, so a toolkit there puts its libraries
before those that the framework was built and tested with. An older one lacks functions (undefined symbol: cublasLt…)
or fails later (CUBLAS_STATUS_NOT_INITIALIZED); a newer one mostly works, and is only told. Take the folder off
LD_LIBRARY_PATH: wheels bring what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.foreign import cuda_number, lacking, off_path, older, path_grounds, place
from gpustack.diagnose.rules.libraries import clash
from gpustack.diagnose.rules.reading import because, table, text, told, version
from gpustack.diagnose.rules.saying import because_said, grounds, heard, holding, value
from gpustack.diagnose.rules.seen import builds
from gpustack.diagnose.rules.toolchain import toolkits
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.diagnose.rules.libraries import Clash
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# Library, component that tells its version, wheel. In the first two an older one breaks what was built with a newer.
DECISIVE = (("libcublas", "cublas", "nvidia-cublas"), ("libcublasLt", "cublaslt", "nvidia-cublas"))
OTHERS = (
    ("libcudart", "cuda-runtime", "nvidia-cuda-runtime"),
    ("libnvrtc", "nvrtc", "nvidia-cuda-nvrtc"),
    ("libcufft", "cufft", "nvidia-cufft"),
    ("libcurand", "curand", "nvidia-curand"),
    ("libcusolver", "cusolver", "nvidia-cusolver"),
    ("libcusparse", "cusparse", "nvidia-cusparse"),
)
# Whose symbols, missing in the copy that was loaded, show that it is a foreign one.
OWNERS = (
    "cublas",
    "cublaslt",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
    "cusparselt",
    "nvrtc",
    "cupti",
    "cuda-runtime",
)
STATUS = "cublas-status"
OUTDATED = "jax-library-older"
NAMED_BY_JAX = {"cuda": "cuda-runtime"}
WHEELS = {
    "cuda-runtime": "nvidia-cuda-runtime",
    "cublas": "nvidia-cublas",
    "cufft": "nvidia-cufft",
    "cupti": "nvidia-cuda-cupti",
    "cusolver": "nvidia-cusolver",
    "cusparse": "nvidia-cusparse",
}
BLAMED = "ld-library-path-blamed-said"
NCCL = ("libnccl", "nccl", "nvidia-nccl")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework that uses other CUDA libraries than its own; only an older one is a fault."""
    found = list(_seen(facts))
    yield from found or _of_jax(facts) or _said(facts)


def _of_jax(facts: Facts) -> tuple[Finding, ...]:
    """Give the library of CUDA of which JAX says that it is older than the one that it was built with."""
    message = next(iter(holding(facts, OUTDATED, "library", "found", "built")), None)
    if message is None:
        return ()
    library = message.values["library"]
    component = NAMED_BY_JAX.get(library.lower(), library.lower())
    if component not in WHEELS:
        return ()
    loaded, built = (cuda_number(message.values[name], library.lower()) for name in ("found", "built"))
    wheel = next(
        (one for one in table(told(facts, "packages"), "distributions") if one.startswith(WHEELS[component])), None
    )
    own = text(table(told(facts, "packages"), "distributions"), wheel) if wheel else None
    proper = bool(own and not older(own, built))
    jax = f"JAX {release}" if (release := version(facts, "jax")) else "JAX"
    return (
        Finding(
            id="cuda-lib-shadowed",
            severity=Severity.ERROR,
            layer=Layer.LIBRARY,
            component=component,
            title=f"{jax} loads {library} {loaded} ({message.values['found']}) and was built with {built}"
            f" ({message.values['built']})",
            detail=(
                f"{wheel} {own} is installed as a wheel, so an older one of the system is found before it, "
                if proper
                else "An older one is found first, "
            )
            + "mostly by LD_LIBRARY_PATH or an older toolkit.",
            confidence=Confidence.CERTAIN if proper else Confidence.LIKELY,
            because=(
                because_said(message),
                *((because(facts, "packages", "distributions", wheel),) if wheel else ()),
                *path_grounds(facts),
            ),
            fix=off_path(facts, library, sh('python -c "import jax; print(jax.devices())"')),
        ),
    )


def _said(facts: Facts) -> Iterator[Finding]:
    """Give the library that lacks what another of its release asks of it."""
    lack = [one for one in lacking(facts, *OWNERS) if one.by_a_framework]
    invalid = value(facts, STATUS, "status") == "INVALID_VALUE" and bool(path_grounds(facts))
    blamed = heard(facts, STATUS) and (invalid or heard(facts, BLAMED))
    if not lack and not blamed:
        return
    first = lack[0] if lack else None
    soname = (first.soname or f"lib{first.owner}") if first else "libcublas"
    where = place(facts, first.owner if first else "cublas")
    release = f"PyTorch {version_}" if (version_ := version(facts, "pytorch")) else "the framework"
    yield Finding(
        id="cuda-lib-shadowed",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=first.owner if first else "cublas",
        title=f"Another {soname} is loaded in the place of the one that belongs to {release}"
        + (f": it has no {first.symbol}" if first and first.symbol != soname else ""),
        detail=(f"{first.asking or 'A library'} was released with a newer {soname}. " if first else "")
        + (f"The other one is that of {where}." if where else "Mostly LD_LIBRARY_PATH or the system's CUDA gives it."),
        confidence=Confidence.LIKELY if first else Confidence.POSSIBLE,
        because=(
            *(because_said(one.message) for one in lack[:2]),
            *(grounds(facts, STATUS, most=1) if not lack else ()),
            *path_grounds(facts),
            *(one.because for one in toolkits(facts)[:1]),
        ),
        fix=off_path(
            facts,
            soname,
            sh('python -c "import torch; print(torch.ones(2, 2, device=0) @ torch.ones(2, 2, device=0))"'),
        ),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        found = [one for row in (*DECISIVE, *OTHERS) if (one := clash(build, *row, facts))]
        nccl = clash(build, *NCCL, facts)
        found += [nccl] if nccl and not nccl.older else []  # an older one is nccl-version-clash
        if found:
            yield _finding(sorted(found, key=lambda one: not one.older))


def _finding(found: Sequence[Clash]) -> Finding:
    first, build = found[0], found[0].build
    more = f", and {len(found) - 1} more of its libraries" if found[1:] else ""
    return Finding(
        id="cuda-lib-shadowed",
        instance=build.mark,
        severity=_severity(found),
        layer=Layer.LIBRARY,
        component=first.component,
        title=f"{build.name} {first.one.how} {first.library} {first.found} in the place of its own {first.own}{more}",
        detail="; ".join(f"{one.library} {one.found} from {one.one.path}, own {one.own}" for one in found),
        confidence=Confidence.CERTAIN if first.one.loaded else Confidence.LIKELY,
        because=tuple(ground for one in found for ground in one.because),
        fix=first.fix,
    )


def _severity(found: Sequence[Clash]) -> Severity:
    decisive = {library for library, _, _ in DECISIVE}
    if not any(one.older for one in found):
        return Severity.INFO
    ran = found[0].build.ran_on_gpu
    return (
        Severity.ERROR if not ran and any(one.older and one.library in decisive for one in found) else Severity.WARNING
    )
