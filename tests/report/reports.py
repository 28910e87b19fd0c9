"""Reports made by hand: a healthy H200, a driver too old, eight GPUs, no GPU, and malicious text."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack.model.command import sh
from gpustack.model.facts import Call, Component, Host, Instance, JsonValue, Layer, Status, Unseen
from gpustack.model.fleet import Drift, Figures, FleetReport, Low, Missing, NodeClass, Odd, Outlier, Told
from gpustack.model.report import (
    Because,
    Confidence,
    Contract,
    EnvironmentVerdict,
    Finding,
    Fix,
    Health,
    Kept,
    Report,
    Row,
    Severity,
    Tool,
    Verdict,
)

TOOL = Tool(name="gpustack", version="0.1.0", matrix_date="2026-11-21")
VENV = "/opt/torch/.venv"
PYTHON = f"{VENV}/bin/python3"
SITE = f"{VENV}/lib/python3.12/site-packages"
DRIVER_ROW = Row(
    table="cuda-driver",
    text="CUDA 13 needs driver 580 or newer on Linux x86-64",
    source="https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
    checked="2026-11-21",
)


def seen(
    id_: str,
    layer: Layer,
    version: str | None = None,
    *,
    build: str | None = None,
    path: str | None = None,
    facts: Mapping[str, JsonValue] | None = None,
    status: Status = Status.PRESENT,
    reason: str | None = None,
    vendor: str = "nvidia",
    source: str = "",
    seconds: float = 0.0004,
    instances: tuple[Instance, ...] | None = None,
    calls: tuple[Call, ...] = (),
) -> Component:
    """Return a component with one copy, unless specified otherwise."""
    copy = Instance(key=path or "0", version=version, build=build, path=path, facts=facts or {}, status=status)
    copies = (copy,) if instances is None and status is Status.PRESENT else instances or ()
    return Component(
        id=id_,
        layer=layer,
        vendor=vendor,
        status=status,
        version=version,
        build=build,
        path=path,
        facts=facts or {},
        source=source,
        reason=reason,
        seconds=seconds,
        instances=copies,
        calls=calls,
    )


def gpu(uuid: str, index: int) -> Instance:
    """Return one H200 as NVML reports it."""
    return Instance(
        key=uuid,
        facts={
            "index": index,
            "name": "NVIDIA H200",
            "uuid": uuid,
            "pci": f"0000:{index:02x}:06.0",
            "cc": "9.0",
            "memory": {"total_mib": 143771, "used_mib": 0},
            "pcie": {"generation": 5, "width": 16, "max_generation": 5, "max_width": 16},
            "power": {"watts": 107.0, "limit_watts": 700.0},
            "temperature": {"gpu_c": 38 + index},
            "mig": {"enabled": False},
        },
    )


def edge(from_: str, to: str, needs: str, found: str, status: Kept = Kept.OK) -> Contract:
    """Return a contract without a row."""
    return Contract(from_=from_, to=to, kind="version", needs=needs, found=found, status=status)


H200_HOST = Host(
    hostname="gpu-vm",
    os="Ubuntu 24.04.3 LTS",
    kernel="6.18.44-fc-v657-gpu",
    machine="x86_64",
    virtualisation="firecracker",
    container="docker",
)
CUDNN = tuple(
    Instance(key=path, version=version, path=path)
    for version, path in (
        ("9.19.0", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"),
        ("9.14.0", "/usr/lib/x86_64-linux-gnu/libcudnn.so.9.14.0"),
    )
)
H200_COMPONENTS = (
    seen("linux-kernel", Layer.KERNEL, "6.18.44-fc-v657-gpu", vendor="any", source="/proc/sys/kernel/osrelease"),
    seen("kernel-headers", Layer.KERNEL, status=Status.NOT_APPLICABLE, reason="no /lib/modules here", vendor="any"),
    seen("dkms", Layer.KERNEL, status=Status.ABSENT, vendor="any"),
    seen(
        "pci-display",
        Layer.HARDWARE,
        vendor="any",
        facts={"vendor": "nvidia", "device_id": "0x2335", "driver": "nvidia"},
    ),
    seen("nvidia.ko", Layer.KERNEL_MODULE, "580.159.04", facts={"loaded": True, "flavour": "open"}),
    seen("nvidia-uvm.ko", Layer.KERNEL_MODULE, "580.159.04", facts={"loaded": True}),
    *(seen(f"nvidia-{name}.ko", Layer.KERNEL_MODULE, status=Status.ABSENT) for name in ("modeset", "drm", "peermem")),
    seen("nvidia-driver", Layer.DRIVER, "580.159.04", path="/usr/local/nvidia/lib64"),
    seen("libnvidia-ml", Layer.DRIVER, "580.159.04", path="/usr/local/nvidia/lib64/libnvidia-ml.so.580.159.04"),
    seen(
        "nvml",
        Layer.DRIVER,
        "580.159.04",
        source="nvmlInit_v2",
        seconds=0.0213,
        calls=(
            Call(name="nvmlInit_v2", seconds=0.0187, outcome="ok"),
            Call(name="nvmlSystemGetDriverVersion", seconds=0.00002, outcome="ok"),
        ),
    ),
    seen(
        "libcuda",
        Layer.DRIVER,
        "580.159.04",
        path="/usr/local/nvidia/lib64/libcuda.so.580.159.04",
        facts={"driver_cuda": 13000, "cu_init": 0},
        source="/proc/self/maps, cuInit",
        seconds=0.132,
    ),
    seen(
        "gpu",
        Layer.HARDWARE,
        instances=(gpu("GPU-1", 0),),
        seconds=0.041,
    ),
    seen("nvlink", Layer.HARDWARE, status=Status.NOT_APPLICABLE, reason="no NVLink on this card"),
    seen("cuda-toolkit", Layer.RUNTIME, "13.0.88", path="/usr/local/cuda-13.0"),
    seen("cuda-runtime", Layer.RUNTIME, "13.0.96", path=f"{SITE}/nvidia/cu13/lib/libcudart.so.13"),
    seen("nvrtc", Layer.RUNTIME, "13.0.88", path=f"{SITE}/nvidia/cu13/lib/libnvrtc.so.13"),
    seen("cuda-core", Layer.RUNTIME, "1.2.0", path=SITE),
    seen("cuda-bindings", Layer.RUNTIME, "13.3.1", path=SITE),
    seen("cublas", Layer.LIBRARY, "13.1.0.3", path=f"{SITE}/nvidia/cu13/lib/libcublas.so.13"),
    seen("cudnn", Layer.LIBRARY, "9.19.0", path=CUDNN[0].path, instances=CUDNN, source="cudnnGetVersion"),
    seen("nccl", Layer.LIBRARY, "2.28.9", path=f"{SITE}/nvidia/nccl/lib/libnccl.so.2"),
    seen("python", Layer.ENVIRONMENT, "3.12.3", path=PYTHON, vendor="any", facts={"kind": "venv", "glibc": "2.39"}),
    seen("pytorch", Layer.FRAMEWORK, "2.11.0+cu130", build="cu130", path=f"{SITE}/torch", vendor="any"),
    seen("jax", Layer.FRAMEWORK, "0.11.2", build="cuda13", path=f"{SITE}/jax", vendor="any"),
    seen("onnxruntime", Layer.FRAMEWORK, "1.30.0", build="cpu", path=f"{SITE}/onnxruntime", vendor="any"),
)
H200_CONTRACTS = (
    edge("gpu", "nvidia-driver", "branch 525 or newer, either flavour", "580.159.04, open"),
    edge("nvidia-driver", "nvidia.ko", "580.159.04", "580.159.04"),
    edge("pytorch", "nvidia-driver", "CUDA 13.0, so driver 580 or newer", "580.159.04"),
    edge("pytorch", "gpu", "code for sm_90", "sm_90"),
    edge("pytorch", "cudnn", "9.19.0", "9.19.0 from its wheel"),
    edge("pytorch", "nccl", "2.28.9", "2.28.9"),
    edge("jax", "nvidia-driver", "CUDA 13, so driver 580 or newer", "580.159.04"),
    edge("jax", "cudnn", "9.8 or newer", "9.19.0", Kept.OK),
)
CPU_BUILD = Finding(
    id="cpu-only-build",
    severity=Severity.WARNING,
    layer=Layer.FRAMEWORK,
    component="onnxruntime",
    title="ONNX Runtime 1.30.0 is a build for the CPU alone; this machine has an NVIDIA H200",
    detail="It imports and runs, but never on the GPU: the package brings no CUDA provider.",
    because=(
        Because(component="onnxruntime", fact="distributions", value=("onnxruntime 1.30.0",), source=SITE),
        Because(component="onnxruntime", fact="providers", value=("cpu",), source=f"{SITE}/onnxruntime/capi"),
        Because(component="gpu", fact="name", value="NVIDIA H200", source="nvmlDeviceGetName"),
    ),
    fix=Fix(
        text="install the GPU build in its place.",
        commands=(
            sh(f"{PYTHON} -m pip uninstall -y onnxruntime"),
            sh(f"{PYTHON} -m pip install onnxruntime-gpu"),
        ),
        verify=sh(f'{PYTHON} -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
    ),
)
STUBS = Finding(
    id="stubs-on-library-path",
    severity=Severity.INFO,
    layer=Layer.ENVIRONMENT,
    component="libcuda",
    title="LIBRARY_PATH names a folder of CUDA stubs; only a linker reads it, so programs are not touched",
    because=(
        Because(
            component="libcuda",
            fact="stub_on_path",
            value={"LIBRARY_PATH": ("/usr/local/cuda/lib64/stubs",)},
            source="LIBRARY_PATH",
        ),
    ),
)


def h200() -> Report:
    """Return the machine on which everything works, except that one framework is a build without a GPU."""
    return Report(
        tool=TOOL,
        host=H200_HOST,
        components=H200_COMPONENTS,
        contracts=H200_CONTRACTS,
        findings=(CPU_BUILD, STUBS),
        not_seen=(
            Unseen(what="/dev/kmsg", why="permission denied", enable_by="run gpustack as root"),
            Unseen(what="/sys/kernel/security/lockdown", why="permission denied", enable_by="run gpustack as root"),
        ),
        environments=(
            EnvironmentVerdict(
                python=PYTHON, kind="venv", version="3.12.3", works={"pytorch": True, "jax": True, "onnxruntime": False}
            ),
        ),
        verdict=Verdict(
            status=Health.DEGRADED,
            root_causes=("cpu-only-build",),
            root_keys=("cpu-only-build",),
            works={"pytorch": True, "jax": True, "onnxruntime": False},
        ),
        taken="2026-11-21T10:02:00+00:00",
        seconds=0.31,
    )


def healthy() -> Report:
    """Return the same machine without a finding."""
    report = h200()
    return Report(
        tool=TOOL,
        host=report.host,
        components=report.components,
        contracts=report.contracts,
        findings=(),
        not_seen=(),
        environments=report.environments,
        verdict=Verdict(status=Health.HEALTHY, works={"pytorch": True, "jax": True}),
        seconds=0.31,
    )


DRIVER = Finding(
    id="driver-too-old-for-cuda-build",
    severity=Severity.ERROR,
    layer=Layer.DRIVER,
    component="nvidia-driver",
    title="the driver 550.54.15 is too old for PyTorch 2.11.0+cu130",
    detail="This build of PyTorch is made with CUDA 13.0. The driver is for CUDA up to 12.4, and minor-version "
    "compatibility does not reach over a major version.",
    because=(
        Because(component="pytorch", fact="build", value="cu130", source=f"{SITE}/torch/version.py"),
        Because(component="nvidia-driver", fact="version", value="550.54.15", source="/usr/lib/x86_64-linux-gnu"),
        Because(component="libcuda", fact="driver_cuda", value=12040, source="cuDriverGetVersion"),
    ),
    row=DRIVER_ROW,
    fix=Fix(
        text="install a driver of branch 580.",
        commands=(sh("sudo apt-get install -y nvidia-driver-580-open"), sh("sudo reboot")),
        needs_root=True,
        needs_reboot=True,
        verify=sh("nvidia-smi"),
    ),
)


def driver_too_old() -> Report:
    """Return a machine whose driver is too old for PyTorch, with what follows from that."""
    followers = tuple(
        Finding(
            id=id_,
            severity=Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=component,
            title=title,
            caused_by="driver-too-old-for-cuda-build",
        )
        for id_, component, title in (
            ("framework-without-gpu", "pytorch", "PyTorch cannot start CUDA"),
            ("jax-on-cpu", "jax", "JAX falls back to the CPU"),
        )
    )
    flavour = Finding(
        id="toolkit-newer-than-driver",
        severity=Severity.WARNING,
        layer=Layer.RUNTIME,
        component="cuda-toolkit",
        title="nvcc 13.0 makes PTX that this driver cannot compile",
        because=(
            Because(component="cuda-toolkit", fact="version", value="13.0.88", source="/usr/local/cuda/version.json"),
        ),
        confidence=Confidence.LIKELY,
        fix=Fix(text="compile for sm_90 itself, or install a driver of branch 580."),
    )
    old = {"nvidia.ko", "nvidia-uvm.ko", "nvidia-driver", "libnvidia-ml", "nvml"}
    components = tuple(
        seen(one.id, one.layer, "550.54.15", path=one.path, facts=one.facts)
        if one.id in old
        else seen("libcuda", Layer.DRIVER, "550.54.15", path=one.path, facts={"driver_cuda": 12040})
        if one.id == "libcuda"
        else one
        for one in H200_COMPONENTS
    )
    contracts = (
        edge("pytorch", "nvidia-driver", "CUDA 13.0, so driver 580 or newer", "550.54.15", Kept.BROKEN),
        edge("pytorch", "gpu", "code for sm_90", "sm_90"),
        edge("jax", "nvidia-driver", "CUDA 13, so driver 580 or newer", "550.54.15", Kept.BROKEN),
        edge("cuda-toolkit", "nvidia-driver", "driver 580 or newer for its PTX", "550.54.15", Kept.LIMITED),
        edge("nvidia-driver", "nvidia.ko", "550.54.15", "550.54.15"),
        edge("gpu", "nvidia-driver", "branch 525 or newer, either flavour", "550.54.15, open"),
    )
    return Report(
        tool=TOOL,
        host=Host(hostname="node-7", os="Ubuntu 22.04.5 LTS", kernel="6.8.0-50-generic", machine="x86_64"),
        components=components,
        contracts=contracts,
        findings=(DRIVER, *followers, flavour, STUBS),
        not_seen=(),
        environments=(
            EnvironmentVerdict(python=PYTHON, kind="venv", version="3.12.3", works={"pytorch": False, "jax": False}),
        ),
        verdict=Verdict(
            status=Health.BROKEN,
            root_causes=(DRIVER.id,),
            root_keys=(DRIVER.key,),
            works={"pytorch": False, "jax": False, "onnxruntime": None},
        ),
        seconds=0.47,
    )


def eight() -> Report:
    """Return eight GPUs with two slow links, many Pythons, and many things that could not be checked."""
    uuids = [f"GPU-{number}" for number in range(1, 9)]
    gpus = tuple(gpu(uuid, index) for index, uuid in enumerate(uuids))
    links = tuple(Instance(key=uuid, facts={"active": 18, "total": 18}) for uuid in uuids)
    slow = tuple(
        Finding(
            id="pcie-link-degraded",
            severity=Severity.WARNING,
            layer=Layer.HARDWARE,
            component="gpu",
            instance=uuid,
            title=f"the PCIe link of {uuid} runs at width 8 of 16",
            because=(Because(component="gpu", fact="pcie.width", value=8, source="nvmlDeviceGetCurrPcieLinkWidth"),),
            fix=Fix(text="reseat the card, and look at the slot's setting in the firmware."),
            confidence=Confidence.LIKELY,
        )
        for uuid in uuids[:3]
    )
    unknown = Finding(
        id="kernel-log-unread",
        severity=Severity.UNKNOWN,
        layer=Layer.KERNEL,
        component="kernel-log",
        title="whether the kernel logged GPU errors (Xid) is not known",
    )
    other = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m")
    pythons = (f"/srv/{name}/bin/python" for name in other)
    components = tuple(
        seen("gpu", Layer.HARDWARE, instances=gpus)
        if one.id == "gpu"
        else seen("nvlink", Layer.HARDWARE, instances=links)
        if one.id == "nvlink"
        else one
        for one in H200_COMPONENTS
    )
    report = h200()
    return Report(
        tool=TOOL,
        host=Host(kernel="6.8.0-50-generic", wsl=True),
        components=components,
        contracts=(
            *(edge("gpu", "nvidia-driver", "branch 525 or newer", "580.159.04") for _ in uuids),
            edge("vllm", "libfoo", "1", "nobody knows", Kept.UNKNOWN),
        ),
        findings=(*slow, unknown),
        not_seen=(
            *(Unseen(what=f"/proc/{number}/maps", why="permission denied") for number in range(9)),
            Unseen(what="cuda-toolkit", why="no answer in 2 s", enable_by="a longer --timeout"),
        ),
        environments=(
            *report.environments,
            *(EnvironmentVerdict(python=python, kind="venv", works={"pytorch": None}) for python in pythons),
        ),
        verdict=Verdict(
            status=Health.DEGRADED,
            root_causes=("pcie-link-degraded",),
            root_keys=tuple(one.key for one in slow),
            works={"pytorch": True},
        ),
        seconds=1.2,
    )


def no_gpu() -> Report:
    """Return a machine without a GPU."""
    return Report(
        tool=TOOL,
        host=Host(hostname="laptop", os="Debian GNU/Linux 12 (bookworm)", kernel="6.1.0-28-amd64", machine="x86_64"),
        components=(
            seen("linux-kernel", Layer.KERNEL, "6.1.0-28-amd64", vendor="any"),
            seen("pci-display", Layer.HARDWARE, status=Status.ABSENT, vendor="any"),
            seen("gpu", Layer.HARDWARE, status=Status.ABSENT),
            seen("nvidia-driver", Layer.DRIVER, status=Status.ABSENT),
            seen("nvml", Layer.DRIVER, status=Status.ABSENT),
            seen("python", Layer.ENVIRONMENT, "3.11.2", path="/usr/bin/python3", vendor="any"),
        ),
        contracts=(),
        findings=(),
        not_seen=(),
        environments=(EnvironmentVerdict(python="/usr/bin/python3", kind="system", version="3.11.2"),),
        verdict=Verdict(status=Health.NO_GPU),
        seconds=0.2,
    )


def hostile() -> Report:
    """Return a report whose every text tries to control the terminal, to forge a line, or to be markup."""
    evil = "[red]x[/red] \x1b[2J\x1b]0;owned\x07 \u202egnp.exe \x9b31m\r\n✓ HEALTHY: all is well [/] \ud800 :smile:"
    finding = Finding(
        id="evil",
        severity=Severity.ERROR,
        layer=Layer.KERNEL,
        component=evil,
        title=evil,
        detail=evil,
        instance=evil,
        because=(Because(component=evil, fact=evil, value={evil: (evil, None, True, 1.5)}, source=evil),),
        row=Row(table=evil, text=evil, source=evil, checked=evil),
        fix=Fix(text=evil, commands=(sh(evil),), verify=sh(evil)),
    )
    broken = seen("pytorch", Layer.FRAMEWORK, status=Status.FAILED, reason=evil, source=evil)
    copies = tuple(Instance(key=evil, version=evil, path=evil, facts={"name": evil}) for _ in range(2))
    return Report(
        tool=Tool(name=evil, version=evil, matrix_date=evil),
        host=Host(hostname=evil, os=evil),
        components=(broken, seen("gpu", Layer.HARDWARE, evil, build=evil, path=evil, instances=copies)),
        contracts=(edge(evil, evil, evil, evil, Kept.BROKEN),),
        findings=(finding,),
        not_seen=(Unseen(what=evil, why=evil, enable_by=evil),),
        environments=(EnvironmentVerdict(python=evil, kind=evil, works={evil: True}),) * 2,
        verdict=Verdict(status=Health.BROKEN, root_causes=("evil",), root_keys=(finding.key,), works={evil: None}),
    )


ALL = {
    "h200": h200,
    "healthy": healthy,
    "driver-too-old": driver_too_old,
    "eight": eight,
    "no-gpu": no_gpu,
    "hostile": hostile,
}


def fleet() -> FleetReport:
    """Return a fleet of six nodes in two racks: one broken, one slow, one odd and one silent."""
    names = ("node-1", "node-2", "node-3", "node-4", "node-5")
    old = Told(
        id="driver-library-mismatch", key="driver-library-mismatch", severity=Severity.ERROR, title="Two releases"
    )
    kind = "8 x NVIDIA H200"
    slow = Outlier(node="node-3", gpus=(2,), value=2410.0, ratio=0.52, of="median", verdict=Low.LOW, measured=2)
    once = Outlier(node="node-4", gpus=(0,), value=4100.0, ratio=0.89, of="median", verdict=Low.SUSPECT, measured=1)
    return FleetReport(
        tool=TOOL,
        taken="2026-11-23T10:00:00+00:00",
        nodes=6,
        status={"healthy": 4, "broken": 1, "missing": 1},
        classes=(
            NodeClass(status=Health.HEALTHY, kind=kind, root_causes=(), findings=(), nodes=names[1:]),
            NodeClass(status=Health.BROKEN, kind=kind, root_causes=(old.id,), findings=(old,), nodes=names[:1]),
        ),
        drift=(
            Drift(
                kind=kind,
                component="host",
                fact="kernel",
                instances=(),
                usual="6.8.0-50-generic",
                count=4,
                odd=(Odd(value="6.8.0-31-generic", nodes=("node-5",)),),
            ),
        ),
        figures=(
            Figures(
                id="hbm.read",
                kind=kind,
                branch="580",
                unit="GB/s",
                gpus=40,
                median=4633.0,
                mad=8.0,
                least=2410.0,
                greatest=4660.0,
                outliers=(slow, once),
            ),
        ),
        missing=(Missing(node="node-6", why="no snapshot was collected"),),
        labels={name: {"rack": f"rack {number // 3}"} for number, name in enumerate((*names, "node-6"))},
    )
