"""Which wheel to install instead: of a framework for this driver and these GPUs, of an extension for this torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes, installing
from gpustack.diagnose.change_sets import FAMILY, change_set, place
from gpustack.diagnose.installing import clause, pinned
from gpustack.diagnose.machine import naming
from gpustack.diagnose.machine.extensions import distribution_of, sources
from gpustack.diagnose.machine.frameworks import installed, torch, torch_cuda, torch_version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.matrix.subjects.torch import companions, torch_for_torchaudio, torch_for_torchvision
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    DISTRIBUTION,
    HERE,
    MODULE,
    PYTHON,
    VERSION,
    Command,
    Word,
    code,
    either,
    requirement,
    sh,
    step,
)
from gpustack.model.report import Fix, Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.diagnose.machine.extensions import Extension
    from gpustack.diagnose.machine.inventory import Build
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.torch import Companions
    from gpustack.model.facts import Facts


if TYPE_CHECKING:
    Wheel = tuple[str, tuple[Command, ...]]


def wheel_for_driver(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    """Give in words and as commands the build of this framework that runs on this driver; None where none is known."""
    if build.component == "pytorch":
        return fixes.torch_wheel(build, facts, matrix)
    return _jax(build, facts, matrix) if build.component == "jax" else _onnxruntime(build, facts, matrix)


def _jax(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    for one in matrix.jax_extras:
        if _runs(one.cuda, facts, matrix):
            command = sh(
                "{python} -m pip install --upgrade {jax}",
                python=build.python,
                jax=pinned(f"jax[{one.extra}]", facts, matrix, build.copy.environment),
            )
            return f"Install JAX with the plugin for CUDA {one.cuda}.", (command,)
    return None


def _onnxruntime(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    for one in reversed(matrix.onnxruntime):
        if _runs(one.cuda, facts, matrix):
            known = clause("onnxruntime-gpu", facts, matrix, build.copy.environment)
            wanted = requirement("onnxruntime-gpu", known or (f"<{_after(one.last)}" if one.last else ""))
            commands = (
                sh("{python} -m pip uninstall -y onnxruntime onnxruntime-gpu", python=build.python),
                sh("{python} -m pip install {wanted}", python=build.python, wanted=wanted),
            )
            return f"Install onnxruntime-gpu, made for CUDA {one.cuda}, instead of this one.", commands
    return None


def _runs(major: int, facts: Facts, matrix: Matrix) -> bool:
    return driver_fit(CudaVersion(major), facts, matrix).kept in {Kept.OK, Kept.LIMITED}


def _after(minor: str) -> str:
    """Return the minor release after this one."""
    major, _, number = minor.partition(".")
    return f"{major}.{int(number) + 1}"


BUILT_HERE = "{python} -m pip install --force-reinstall --no-deps --no-build-isolation {wheel}"
NO_WHEEL = "{again} --no-build-isolation --no-binary {name} {wheel}"
BUILT_FOR = "{python} -m pip install {torch}"
TORCH_ALONE = code("import torch")


def together(facts: Facts, matrix: Matrix, environment: str | None, verify: Command) -> Fix | None:
    """Return the one set of changes after which torch and all that is bound to it fit; None where none is known."""
    change = change_set(facts, matrix, environment)
    if change is None:
        return None
    return Fix(
        text=installing.words(change, place(facts, environment).held),
        commands=installing.commands(change, facts, environment),
        verify=verify,
    )


def made_for(matrix: Matrix, package: str, version: str) -> Companions | None:
    """Return the torch, and the others, that go with a release of torchvision or torchaudio."""
    if package == "torchvision":
        return torch_for_torchvision(matrix, version)
    return torch_for_torchaudio(matrix, version) if package == "torchaudio" else None


def companions_fix(facts: Facts, matrix: Matrix, package: str) -> Fix:
    """Return how torch and torchvision or torchaudio are brought to releases of one day, with all beside them."""
    build = torch(facts)
    environment = build.copy.environment if build else None
    verify = sh("{python} -c {code}", python=PYTHON(environment), code=_imports(package))
    known = together(facts, matrix, environment, verify)
    if known:
        return known
    made, held = companions(matrix, (torch_version(facts) or "").partition("+")[0]), installed(facts, package)
    made = made or (made_for(matrix, package, held) if held else None)
    fit = {"torchvision": made.torchvision, "torchaudio": made.torchaudio}.get(package) if made else None
    pins = {"torch": made.torch, package: fit} if made and fit else {"torch": None, package: None}
    wanted = tuple(requirement(name, f"=={release}" if release else "") for name, release in pins.items())
    cuda = torch_cuda(facts)
    tag = (build.copy.build if build else None) or (f"cu{cuda.major}{cuda.minor}" if cuda else None)
    page = (installing.index(tag),) if BUILD_TAG.holds(tag) else ()
    return Fix(
        text=f"Install matching releases of torch and {package} together, in one command, from one index.",
        commands=(installing.install(facts, environment, wanted, *page, sh("--force-reinstall --no-deps")),),
        verify=verify,
    )


def extension_fix(
    extension: Extension,
    release: str | None,
    facts: Facts,
    matrix: Matrix,
    *,
    built: str | None = None,
    environment: str | None = None,
) -> Fix:
    """Return how an extension is had for the torch that is here, or the torch for it, with all beside them."""
    name, python = extension.name, PYTHON(environment)
    module = name.replace("-", "_")
    shown = sh("{python} -c {code}", python=python, code=_imports(module if module.isidentifier() else "torch"))
    known = together(facts, matrix, environment, shown) if extension.version else None
    if known:
        return known
    wanted = built or (extension.torch or "").lstrip("=")
    plain = wanted.partition("+")[0]
    exact = plain.replace(".", "").isdecimal() and plain.count(".") == len("..")
    return Fix(
        text=f"Install the build of {name} for torch {release or 'here'} (same minor release, CUDA and C++ ABI)"
        + (f", or torch {wanted}, for which this one was built." if wanted else ", or build it from source here."),
        commands=either(
            *_again(extension, release, distribution_of(name, facts), clause(name, facts, matrix, environment), python),
            *((sh(BUILT_FOR, python=python, torch=requirement("torch", f"=={plain}")),) if exact else ()),
        ),
        verify=shown,
    )


def _imports(module: str) -> Word:
    return code("import torch, {module}", module=MODULE(module)) if module != "torch" else TORCH_ALONE


def _again(
    extension: Extension, release: str | None, wanted: str | None, pin: str, python: Word
) -> tuple[Command, ...]:
    """Return how it is reinstalled in its release that fits, or built here; in words where pip may not have it."""
    torch_ = VERSION(release) if release else HERE
    if wanted is None:
        name, source = DISTRIBUTION(extension.name), sources().get(extension.name)
        if source is None:
            return (step("build {name} for torch {torch} from where it came", name=name, torch=torch_),)
        return (step("build {name} for torch {torch} ({source})", name=name, torch=torch_, source=ADDRESS(source)),)
    if wanted in FAMILY and wanted not in installing.FROM_SOURCE and not pin:
        return (
            step(
                "install the release of {name} that was built for torch {torch}: the newest is for another torch",
                name=DISTRIBUTION(wanted),
                torch=torch_,
            ),
        )
    wheel = requirement(wanted, pin)
    if wanted in installing.FROM_SOURCE:
        return (sh(BUILT_HERE, python=python, wheel=wheel),)
    again = sh("{python} -m pip install --force-reinstall --no-deps", python=python)
    return (
        sh("{again} {wheel}", again=again, wheel=wheel),
        sh(NO_WHEEL, again=again, name=DISTRIBUTION(wanted), wheel=wheel),
    )


# Paddle's own index; its build for CUDA 12.6 wants a driver of 550.54.14, that for 11.8 one of 450.80.02.
# Source: Paddle's installation guide, pip on Linux.
PADDLE, PADDLE_INDEX = "paddlepaddle", "https://www.paddlepaddle.org.cn/packages/stable"
PADDLE_CUDA = CudaVersion(12, 4)  # of driver 550
# Of a framework for NVIDIA's GPUs: what is removed, what is installed, and the check.
INSTALLED: Mapping[str, tuple[str, tuple[str, ...], str, Command]] = {
    "jax": ("Install JAX with its CUDA plugin.", (), "jax[cuda12]", sh('python -c "import jax; print(jax.devices())"')),
    "tensorflow": (
        "Install the CUDA build (on Windows only TensorFlow up to 2.10 has one, or use WSL2).",
        ("tensorflow-cpu",),
        "tensorflow[and-cuda]",
        sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""),
    ),
    "onnxruntime": (
        "Install onnxruntime-gpu instead of onnxruntime.",
        ("onnxruntime",),
        "onnxruntime-gpu",
        sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
    ),
}
NIX = fixes.advice(
    "Use torch-bin (formerly pytorch-bin), or set cudaSupport = true in the nixpkgs configuration.",
    sh("nix-shell -p python3Packages.torch-bin"),
    verify=fixes.TORCH_SEES,
)


def with_gpu_code(component: str, facts: Facts, matrix: Matrix) -> Fix:
    """Return how the build of a framework with GPU code is installed instead of the one without."""
    text_, without, wanted, verify = INSTALLED[component]
    removed = tuple(sh("python -m pip uninstall -y {name}", name=DISTRIBUTION(one)) for one in without)
    added = sh("python -m pip install {wanted}", wanted=pinned(wanted, facts, matrix))
    return fixes.advice(text_, *removed, added, verify=verify)


def paddle(facts: Facts, matrix: Matrix) -> Fix:
    """Return how PaddlePaddle with GPU code is installed: from its own index, by the CUDA of the driver."""
    highest = naming.cuda_of_driver(facts, matrix)
    tag = BUILD_TAG("cu118" if highest and highest < PADDLE_CUDA else "cu126")
    index = sh("python -m pip install paddlepaddle-gpu -i {index}/{tag}/", index=ADDRESS(PADDLE_INDEX), tag=tag)
    return fixes.advice(
        "Install the CUDA build from Paddle's own index; its installation guide has one for each CUDA version.",
        sh("python -m pip uninstall -y paddlepaddle"),
        index,
        verify=sh('python -c "import paddle; paddle.utils.run_check()"'),
    )
