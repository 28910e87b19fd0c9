"""Faults that a program's message states outright: what it needs is missing, of another version, or out of reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.fixes import manager
from gpustack.diagnose.installing import FROM_SOURCE
from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.events import because_said, grounds, heard, said, value
from gpustack.diagnose.machine.values import version
from gpustack.diagnose.rule import rule
from gpustack.model.command import sh, step
from gpustack.model.facts import IS_OVER, Facts, Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix

ABSENT, BUILDING = "python-module-absent", ("package-build", "package-build-hint", "isolation-off-helps-said")
INSTALLING = {"pip", "install", "installing", "uv", "requirements.txt"}
HERE, INSTALLS, BUILDS = "torch-here-said", "package-install-said", "package-build-said"
# What follows "pip install" and is no other package than PyTorch.
NOT_OTHERS = {
    "",
    "-u",
    "--upgrade",
    "--user",
    "--pre",
    "and",
    "then",
    "torch",
    "torchvision",
    "torchaudio",
    "pip",
    "wheel",
}
FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "jaxlib": "JAX", "cupy": "CuPy"}
FRAMEWORKS |= {"paddle": "PaddlePaddle", "onnxruntime": "ONNX Runtime", "vllm": "vLLM", "tensorrt": "TensorRT"}


def _isolated(facts: Facts) -> bool:
    """Return whether PyTorch is missed in the environment in which pip or uv builds a package."""
    missed = any(one.values.get("module") == "torch" for one in said(facts, ABSENT))
    named = (re.split(r"[=<>~!\[;,:'`\"]", name)[0] for one in said(facts, INSTALLS) for name in one.values.values())
    others = {name.lower().replace("_", "-") for name in named} - NOT_OTHERS
    others |= FROM_SOURCE & {word.replace("_", "-") for word in facts.words if INSTALLING & {*facts.words}}
    here = heard(facts, HERE) or version(facts, "pytorch") is not None
    return missed and (heard(facts, *BUILDING, BUILDS) or bool(FROM_SOURCE & others) or bool(here and others))


@rule("build-isolation-hides-torch", Layer.ENVIRONMENT, "python", in_one_python=True, from_messages=True)
def build_isolation_hides_torch(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """An extension is built in an isolated environment, in which PyTorch is not installed.

    pip and uv build a package in an isolated environment, with only what the package declares. Extensions such as
    flash-attn import torch in their setup.py without declaring it, so the build ends with "No module named 'torch'"
    though PyTorch is installed. Build in the environment itself, with its PyTorch: --no-build-isolation.
    """
    if not _isolated(facts):
        return
    yield build_isolation_hides_torch.finding(
        title="The package is built in an isolated environment, where torch cannot be imported",
        detail="Its setup.py imports torch, which is not among the packages that it declares for building.",
        because=grounds(facts, ABSENT, *BUILDING, BUILDS, HERE, INSTALLS),
        confidence=Confidence.CERTAIN if heard(facts, *BUILDING) else Confidence.LIKELY,
        fix=fixes.advice(
            "With PyTorch installed, install the build tools, then build without isolation.",
            sh("pip install setuptools wheel packaging ninja"),
            step("repeat the installation with pip install --no-build-isolation"),
            verify=sh('python -c "import torch; print(torch.__version__)"'),
        ),
    )


@rule("framework-not-installed", Layer.FRAMEWORK, "python", in_one_python=True, from_messages=True)
def framework_not_installed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The framework is not installed in the Python that runs the program.

    Another environment, the system's Python or another pip may have it: what counts is the Python that was started.
    Install it with that Python's own pip (python -m pip), or start the program with the Python that has it.
    """
    module = value(facts, ABSENT, "module")
    if module is None or _isolated(facts):
        return
    name = FRAMEWORKS.get(module, "the framework")
    yield framework_not_installed.finding(
        title=f"{name} is not installed in the Python that runs the program",
        because=grounds(facts, ABSENT),
        confidence=Confidence.LIKELY,  # or a build that hides it, or a second Python that has it
        fix=fixes.advice(
            f"Install {name} into this Python, or start the program with the one that has it.",
            sh('python -c "import sys; print(sys.executable)"'),
            step(f"install {name} with this Python's own pip (python -m pip install ...)"),
            verify=sh("python -m pip list"),
        ),
    )


NUMPY = ("numpy-compiled-1", "numpy-dtype-size", "numpy-api-version", "numpy-array-api", "numpy-unavailable")


@rule("numpy-abi-mismatch", Layer.LIBRARY, "numpy", in_one_python=True, from_messages=True)
def numpy_abi_mismatch(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """An extension was compiled for a different NumPy than the one that is installed.

    NumPy 2 changed its binary interface: what was compiled with NumPy 1 does not run with it, and what was compiled
    with a newer NumPy does not run with an older one. Install releases that were built for this NumPy, or the NumPy
    that they were built for (numpy<2).
    """
    if not heard(facts, *NUMPY):
        return
    found = value(facts, NUMPY[0], "found")
    yield numpy_abi_mismatch.finding(
        title=f"An extension was compiled for a different NumPy than the installed {found or 'one'}",
        because=grounds(facts, *NUMPY),
        fix=fixes.advice(
            "Update the package that was compiled for the other NumPy; until there is one, stay below NumPy 2.",
            sh("pip install 'numpy<2'"),
            verify=sh('python -c "import numpy; print(numpy.__version__)"'),
        ),
    )


TRT_VERSION, TRT_DEVICE = ("trt-plan-version", "trt-serialization-version"), "trt-plan-device"
NO_ENGINE = "0.0.0"  # the release of a file that is empty, or was not written as binary data


@rule("tensorrt-engine-version-mismatch", Layer.LIBRARY, "tensorrt", from_messages=True)
def tensorrt_engine_version_mismatch(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A serialized TensorRT engine was built by another release of TensorRT, or for another GPU.

    An engine (plan) runs with the TensorRT that built it, on the kind of GPU that it was built on, unless it was built
    version- or hardware-compatible. Rebuild it on the machine that will run it, or install the release that built it.
    """
    kind = TRT_DEVICE if heard(facts, TRT_DEVICE) else TRT_VERSION[0]
    if not heard(facts, *TRT_VERSION, TRT_DEVICE) or value(facts, kind, "found") == NO_ENGINE:
        return
    built, here = value(facts, kind, "found"), value(facts, kind, "needs")
    by = "for compute capability" if kind == TRT_DEVICE else "by TensorRT"
    yield tensorrt_engine_version_mismatch.finding(
        title=f"The engine was built {by} {built or 'another'}; this machine has {here or 'another version'}",
        because=grounds(facts, *TRT_VERSION, TRT_DEVICE),
        fix=fixes.advice(
            "Delete the engine file and build it again on this machine, from the ONNX or the original model.",
            step("build the engine again with this TensorRT, for example with trtexec --onnx=... "),
            verify=sh('python -c "import tensorrt; print(tensorrt.__version__)"'),
        ),
    )


NETWORK = ("nccl-connect-failed", "nccl-no-interface", "nccl-ib-failed", "gloo-not-connected")
BETWEEN, FAILED = "nccl-between-machines", "nccl-system-error"  # which is a system call that failed


@rule("nccl-network-fault", Layer.LIBRARY, "nccl", from_messages=True, explained_by=("memlock-too-small",))
def nccl_network_fault(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """NCCL cannot use the network between the nodes: its interface, a firewall, or InfiniBand.

    NCCL takes the first interface that is neither a loopback nor Docker's, which other nodes may not reach; a firewall
    drops its ports; an InfiniBand transfer fails for a cable, a port or a GID. Name the right interface, and check in
    NCCL's output which one it uses.
    """
    between = heard(facts, BETWEEN) and heard(facts, FAILED)
    if not (between or heard(facts, *NETWORK)) or heard(facts, "rdma-port-event"):  # a port that failed explains it
        return
    told = value(facts, NETWORK[0], "why")
    what = {NETWORK[0]: f"a connection to another rank failed ({told})" if told else "a connection failed"}
    what |= {NETWORK[1]: "it finds no network interface", NETWORK[2]: "an InfiniBand transfer failed"}
    what |= {NETWORK[3]: "Gloo cannot connect all processes with each other", FAILED: "a system call of it failed"}
    yield nccl_network_fault.finding(
        title=f"NCCL cannot use the network: {next(text for kind, text in what.items() if heard(facts, kind))}",
        because=grounds(facts, *NETWORK, *((FAILED, BETWEEN) if between else ())),
        confidence=Confidence.LIKELY,
        fix=fixes.advice(
            "Set the interface through which the nodes reach each other, open NCCL's ports, check the fabric.",
            sh("ip -brief address"),
            step("set NCCL_SOCKET_IFNAME to the interface that all nodes share, on every node"),
            step("where InfiniBand fails: ibstat on every node, and a run with NCCL_IB_DISABLE=1 to compare"),
            verify=sh("export NCCL_DEBUG=INFO"),
        ),
    )


PACKAGES = ("apt-unmet", "dpkg-overwrite", "dnf-conflict", "pacman-conflict", "driver-packages-exclude")
AGAIN = {
    "apt": (sh("sudo apt-get --fix-broken install"), sh("apt-mark showhold")),
    "dnf": (sh("sudo dnf distro-sync"),),
}


@rule("driver-packages-conflict", Layer.DRIVER, "nvidia-driver", from_messages=True)
def driver_packages_conflict(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Packages of two releases or branches of the driver hold each other back.

    The driver's packages of one release depend on each other exactly. If some come from another repository or branch,
    or were held back, the package manager can install neither. Remove the driver's packages, keep one repository, and
    install one branch as a whole.
    """
    if not heard(facts, *PACKAGES):
        return
    package = next((one.values["package"] for one in said(facts, *PACKAGES) if "package" in one.values), None)
    yield driver_packages_conflict.finding(
        title=f"Driver packages conflict with each other{f': {package}' if package else ''}",
        because=grounds(facts, *PACKAGES),
        fix=fixes.advice(
            "Remove the driver's packages of the other branch, keep one repository for them, and install one branch.",
            *AGAIN.get(manager(facts) or "apt", ()),
            step("remove the driver's packages of the other branch, then install one branch as a whole"),
            root=True,
            reboot=True,
            verify=sh("nvidia-smi"),
        ),
    )


COMPILER = ("compiler-missing", "msvc-missing", "python-headers-missing")
INSTALL = {"apt": sh("sudo apt-get install -y build-essential"), "dnf": sh("sudo dnf install -y gcc gcc-c++ make")}
HEADERS = {"apt": sh("sudo apt-get install -y python3-dev"), "dnf": sh("sudo dnf install -y python3-devel")}


@rule(
    "host-compiler-missing",
    Layer.COMPILER,
    "gcc",
    from_messages=True,
    explained_by=("oneapi-env-not-sourced",),
)
def host_compiler_missing(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """There is no C or C++ compiler, and one is needed to build or at run time.

    torch.compile and Triton compile small modules when a program runs; extensions and nvcc need a host compiler when
    they are built. Slim images and fresh machines have none, or no headers of Python (Python.h). Install gcc, g++ and
    the headers (on Windows the build tools of Visual Studio), or name the compiler that is there with CC and CXX.
    """
    if not heard(facts, *COMPILER):
        return
    if not heard(facts, *COMPILER[:2]):
        yield _headers(facts)
        return
    windows = heard(facts, COMPILER[1])
    found = INSTALL.get(manager(facts) or "apt", sh("gcc --version"))
    yield host_compiler_missing.finding(
        title="There is no C++ compiler (cl.exe)" if windows else "There is no C compiler",
        because=grounds(facts, *COMPILER),
        fix=fixes.advice(
            "Install a compiler, or name the one that is there with CC and CXX.",
            *(
                (step("install Visual Studio's build tools with the C++ workload, and use its own prompt"),)
                if windows
                else (found,)
            ),
            root=True,
            verify=sh("where cl") if windows else sh("gcc --version"),
        ),
    )


def _headers(facts: Facts) -> Finding:
    embedded = step("install the whole Python of the same version, and copy its folders Include and libs into this one")
    install = HEADERS.get(manager(facts) or "apt", step("install the development package of Python"))
    return host_compiler_missing.finding(
        title="Python's C headers (Python.h) are missing, which a module that is compiled here needs",
        because=grounds(facts, COMPILER[2]),
        fix=fixes.advice(
            "Install the headers of the Python that runs the program (python3.11-dev for a second Python 3.11); a "
            "virtual environment takes those of the Python it was made with.",
            embedded if value(facts, COMPILER[2], "windows") else install,
            root=not value(facts, COMPILER[2], "windows"),
            verify=sh(
                "python -c \"import sysconfig as s, os; print(os.path.exists(s.get_path('include') + '/Python.h'))\""
            ),
        ),
    )


CAPABILITIES = "driver-capabilities"
NO_VIDEO, NO_SMI, SMI_NO_CUDA = "video-library-missing", "container-no-smi", "smi-no-cuda"
NO_DRAWING = "egl-no-device"
NO_CUDA = (
    *("missing-library", "cuda-available-false", "no-driver-found", "cuinit-no-device", "nvml-missing"),
    SMI_NO_CUDA,
)
BY_RUNTIME = re.compile(r"--runtime[= ]+[\"']?nvidia")
OPTIONS = frozenset({"gpus all", "runtime nvidia"})  # with which Docker passes GPUs on
INSIDE = ("container-told", "container-inside-said", "docker-run", "docker-compose-gpu", "visible-devices")


@rule("container-capabilities-missing", Layer.CONTAINER, "nvidia-container-toolkit", from_messages=True)
def container_capabilities_missing(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """A container got the GPU without the capability that the program needs, so a driver library is missing in it.

    NVIDIA_DRIVER_CAPABILITIES says which of the driver's libraries a container gets: utility brings nvidia-smi,
    compute libcuda, video the encoder and decoder, graphics OpenGL and Vulkan. Without the variable it is
    utility and compute. Set what is needed, or all, in the image or when the container is started.
    """
    given = {one.strip() for one in (value(facts, CAPABILITIES, "capabilities") or "").split(",")} - {""}
    inside = bool(facts.host.container) or heard(facts, *INSIDE) or not OPTIONS.isdisjoint(facts.words)
    video = heard(facts, NO_VIDEO) and (bool(given) or inside or heard(facts, "nvenc-driver"))
    compute = bool(given) and "compute" not in given and heard(facts, *NO_CUDA)
    compute = compute or (inside and heard(facts, SMI_NO_CUDA))
    runtime = any(BY_RUNTIME.search(one.line) for one in said(facts, "docker-run"))
    absent = heard(facts, NO_SMI) or (heard(facts, "smi-missing") and heard(facts, *INSIDE))
    utility = absent and ((bool(given) and "utility" not in given) or runtime)
    drawing = inside and heard(facts, NO_DRAWING) and not amd.foreign(facts)
    lacking = {
        "compute": compute,
        "video": video and "video" not in given,
        "utility": utility,
        "graphics": drawing and given.isdisjoint({"graphics", "display"}),
    }
    missing = next((one for one, lacks in lacking.items() if lacks), None)
    if "all" in given or missing is None:
        return
    yield container_capabilities_missing.finding(
        title=f"The container got the GPU without the capability {missing!r}, so its library is missing",
        because=grounds(
            facts, CAPABILITIES, NO_VIDEO, NO_DRAWING, *NO_CUDA, *(("docker-run", NO_SMI) if utility else ())
        ),
        confidence=Confidence.CERTAIN if given else Confidence.LIKELY,
        fix=fixes.advice(
            "Start the container with the capability, or with all. With --runtime=nvidia alone, an image that names no "
            "GPUs itself gets none.",
            step(
                "add -e NVIDIA_VISIBLE_DEVICES=all -e NVIDIA_DRIVER_CAPABILITIES=all to the command that starts the "
                "container"
            ),
            verify=sh("ldconfig -p | grep -E 'libcuda|libnvidia-encode|libnvcuvid|libEGL_nvidia|libnvoptix'"),
        ),
    )


STALE = ("cdi-stale-file", "cdi-stale-device")


@rule("cdi-spec-stale", Layer.CONTAINER, "nvidia-container-toolkit", from_messages=True)
def cdi_spec_stale(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The CDI specification, which describes the GPUs to containers, names files or devices that no longer exist.

    nvidia-ctk cdi generate writes the driver's libraries with their release, and the device nodes, into a file.
    After an update of the driver, or a change of GPUs or MIG instances, it names things that are gone, and no container
    with a GPU starts. Regenerate it; nvidia-cdi-refresh.service does so after each update.
    """
    others = heard(facts, "cdi-unresolvable") and heard(facts, "cdi-spec-there")
    if not (others or heard(facts, *STALE)):
        return
    path = next((one.values["path"] for one in said(facts, *STALE) if "path" in one.values), None)
    yield cdi_spec_stale.finding(
        title="The CDI specification does not have the GPU that is asked for"
        if others
        else f"The CDI specification of the GPUs names {path or 'a file'}, which does not exist",
        because=grounds(facts, *STALE, "cdi-unresolvable", "cdi-spec-there"),
        confidence=Confidence.LIKELY if others else Confidence.CERTAIN,
        fix=fixes.advice(
            "Generate the specification again, and after every driver update.",
            sh("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),
            sh("sudo systemctl enable --now nvidia-cdi-refresh.path"),
            verify=sh("docker run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi"),
        ),
    )


@rule("former-fault", Layer.ENVIRONMENT, "host", Severity.INFO, from_messages=True)
def former_fault(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The text reports a fault that is over, by its own words.

    "It works again since the reboot" below an error: the error says what was wrong, not what is. It is named, so that
    the cure can be understood and the fault recognised if it returns, and it counts for nothing in the verdict.
    """
    for one in said(facts, IS_OVER):
        yield former_fault.finding(
            instance=one.values["finding"],
            title=f"The text reports a fault that is over: {one.values['finding']}",
            detail=one.values["says"],
            because=(because_said(one),),
        )
