"""Who is on the GPUs of fake machines: found by the driver, open nodes or a mapped library; and what each uses."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.collect.catalogue import load as catalogue
from tests.told import ToldHost, load

PROBE = load("application/gpu_processes.py")
PROCESSES = load("processes.py")
ROW = dict(next(one.data for one in catalogue() if one.id == "gpu-processes"))
SITE = "/env/lib/python3.12/site-packages"
DENIED = OSError(errno.EACCES, "Permission denied")
PASSWD = {"/etc/passwd": "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n"}
NODES = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/proc/1/comm": "init\n"}
CUDNN = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"
TORCH = {
    "/usr/lib/libcuda.so.580.95.05": False,
    f"{SITE}/torch/lib/libtorch_cuda.so": False,
    CUDNN: False,
    "/usr/local/cuda/lib64/libcublas.so.12.8.4.1": False,
}
WHEELS = {
    f"{SITE}/torch-2.9.1+cu128.dist-info/METADATA": "",
    f"{SITE}/nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD": "nvidia/cudnn/lib/libcudnn.so.9,sha256=x,0\n",
    CUDNN: "",
}


def maps(libraries: dict[str, bool]) -> str:
    """Return /proc/PID/maps with two mappings of each library and some lines that are none."""
    rows = ["7f00-7f01 rw-s 00000000 00:05 12 /dev/nvidia0", "7f02-7f03 rw-p 00000000 00:00 0 [heap]"]
    for path, gone in libraries.items():
        rows += [
            f"7f10-7f11 {mode} 00000000 08:01 99 {path}{' (deleted)' if gone else ''}" for mode in ("r-xp", "r--p")
        ]
    return "\n".join(rows) + "\n"


def process(
    pid: int,
    *line: str,
    name: str = "python3",
    state: str = "S",
    libraries: dict[str, bool] | None = None,
    cgroup: str = "0::/user.slice\n",
    environ: str | OSError = "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\0",
    wchan: str = "0",
    parent: int = 1,
    group: int = 0,
    readable: bool = True,
) -> dict[str, Any]:
    """Return the files of one process."""
    at = f"/proc/{pid}"
    stat = f"{pid} ({name}) {state} {parent} {group or pid} {pid} 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 100\n"
    return {
        f"{at}/comm": f"{name[:15]}\n",
        f"{at}/stat": stat,
        f"{at}/task/{pid}/stat": stat,
        f"{at}/task/{pid}/wchan": wchan,
        f"{at}/cmdline": "\0".join(line) + "\0" if line else "",
        f"{at}/cgroup": cgroup,
        f"{at}/environ": environ if readable else DENIED,
        f"{at}/maps": maps(libraries or {}) if readable else DENIED,
        **({} if readable else {f"{at}/fd": DENIED}),
    }


class Told(ToldHost):
    """A fake machine on which folders may be inaccessible."""

    def list(self, folder: str, most: int | None = None) -> list[str]:  # noqa: ARG002 - told at once
        """Return the names, or record that the folder is inaccessible."""
        held = self.files.get(folder)
        if isinstance(held, OSError):
            self._note("list", folder, held)
            return []
        return super().list(folder)


def opened(pid: int, *paths: str) -> dict[str, str]:
    """Return the links of a process's open files."""
    return {f"/proc/{pid}/fd/{number}": path for number, path in enumerate(("/dev/null", *paths))}


def nvml(listed: dict[str, list[tuple[int, int | None]]], *, fails: Exception | None = None) -> dict[str, Any]:
    """Return a libnvidia-ml and a pynvml that list these processes with their MiB on one GPU."""

    def init() -> None:
        if fails:
            raise fails

    def lister(kind: str) -> Any:  # noqa: ANN401 - as nvidia-ml-py gives it
        rows = [
            SimpleNamespace(pid=pid, usedGpuMemory=None if used is None else used << 20)
            for pid, used in listed.get(kind, [])
        ]
        return lambda _: rows

    names = {f"nvmlDeviceGet{word}RunningProcesses": lister(kind) for kind, word in PROBE["LISTS"].items()}
    names["nvmlInit"] = init
    names["nvmlDeviceGetCount"] = lambda: 1
    names["nvmlDeviceGetHandleByIndex"] = lambda index: index
    names["nvmlDeviceGetPciInfo"] = lambda _: SimpleNamespace(busId="00000000:06:00.0")
    return {"libraries": {"libnvidia-ml.so.1": {}}, "modules": {"pynvml": names}}


def look(files: dict[str, Any], links: dict[str, str] | None = None, **said: Any) -> Any:  # noqa: ANN401 - a probe's answer
    """Return the probe's answer and the host that it examined."""
    devices = said.pop("devices", {})
    host = Told({**PASSWD, **files}, links=links, devices=devices, row=ROW, **said)
    return PROBE["probe"](host), host


def test_without_a_gpus_node_no_process_can_be_on_one() -> None:
    answer, _ = look(process(7, "python3", "train.py"))
    assert "no GPU's device node" in answer


def test_nobody_is_on_the_gpu() -> None:
    answer, _ = look({**NODES, **process(7, "bash", name="bash")}, opened(7), **nvml({}))
    assert answer is None


def test_a_training_script_with_what_it_has_mapped() -> None:
    line = ("/env/bin/python3", "-u", "/home/ada/secret-project/train.py", "--api-key", "hunter2", "--data=s3://bucket")
    files = {**NODES, **WHEELS, **process(70, *line, libraries=TORCH, environ="RANK=0\0AWS_SECRET_ACCESS_KEY=x\0")}
    links = {**opened(70, "/dev/nvidiactl", "/dev/nvidia0"), "/proc/70/exe": "/usr/bin/python3.12"}
    devices = {"/proc/70": {"uid": 1000}}
    (one,), _ = look(files, links, devices=devices, **nvml({"compute": [(70, 612)]}))
    assert (one["key"], one["user"], one["command"], one["path"]) == (
        "pid 70",
        "ada",
        "python3 train.py",
        "/usr/bin/python3.12",
    )
    assert one["application"] == "training script"
    assert one["gpus"] == [{"gpu": "0000:06:00.0", "index": 0, "vendor": "nvidia", "kind": "compute", "used_mib": 612}]
    assert one["found_by"] == ["driver", "open device"]
    assert one["frameworks"] == [{"name": "pytorch", "version": "2.9.1+cu128", "folder": SITE}]
    assert {name: row["version"] for name, row in one["libraries"].items()} == {
        "libcuda": "580.95.05",
        "cudnn": "9.10.2.21",
        "cublas": "12.8.4.1",
    }
    assert one["variables"] == {"RANK": "0"}
    assert "hunter2" not in str(one) + str(_.log)
    assert "bucket" not in str(one)


def test_what_may_not_be_read_is_said() -> None:
    files = {**NODES, **process(70, "python3", "a.py", readable=False)}
    (one,), host = look(files, **nvml({"compute": [(70, None)]}))
    assert one["denied"] == ["maps", "environ"]
    assert (one["libraries"], one["frameworks"], one["variables"], one["used_mib"]) == (None, None, None, None)
    assert ("read", "/proc/70/maps", "denied") in host.log


def test_others_that_may_not_be_asked_are_one_line_and_nobody_is_certain() -> None:
    closed = {**process(70, "x", readable=False), **process(71, "y", readable=False)}
    answer, host = look({**NODES, **closed}, **nvml({}, fails=RuntimeError("NVMLError_LibRmVersionMismatch")))
    assert (answer["status"], "2 processes may not be asked" in answer["why"]) == ("unknown", True)
    assert [row for row in host.log if row[2] == "denied"] == [("list", "/proc/*/fd of 2 processes", "denied")]
    hidden = {path: said for path, said in NODES.items() if path != "/proc/1/comm"}
    answer, _ = look(hidden, **nvml({}, fails=RuntimeError("NVMLError_LibRmVersionMismatch")))
    assert (answer["status"], "those of others may not be asked" in answer["why"]) == ("unknown", True)
    answer, host = look({**NODES, **closed}, **nvml({}))
    assert answer is None
    assert "denied" not in {row[2] for row in host.log}, "the driver itself said that nobody is there"


def test_where_nvml_tells_of_nobody_the_open_nodes_do() -> None:
    files = {**NODES, **process(70, "python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "x")}
    (one,), _ = look(files, opened(70, "/dev/nvidia0 (deleted)"), **nvml({}))
    assert (one["found_by"], one["devices"], one["gpus"]) == (["open device"], ["/dev/nvidia0"], [])
    assert (one["command"], one["application"]) == ("python3 -m vllm.entrypoints.openai.api_server", "LLM server")


def test_where_neither_tells_of_anybody_the_mapped_library_does() -> None:
    files = {**NODES, **process(70, "a.out", name="a.out", libraries=TORCH), **process(71, "bash", name="bash")}
    (one,), _ = look(files, **nvml({}))
    assert (one["pid"], one["found_by"], one["application"]) == (70, ["mapped libcuda"], "program with pytorch")


def test_a_number_of_the_host_is_nobody_here() -> None:
    files = {**NODES, **process(70, "bash", name="bash")}
    answer, _ = look(files, opened(70), **nvml({"compute": [(70, 5), (4711, 9)]}))
    assert [(one["pid"], one["seen"], one["name"], one["used_mib"]) for one in answer] == [
        (4711, False, None, 9),
        (70, False, None, 5),
    ]


def test_a_replaced_driver_is_seen_and_other_deleted_files_are_not() -> None:
    gone = {
        "/usr/lib/libcuda.so.550.54.15": True,
        "/srv/libx.so.1": True,
        "/usr/lib/libnvidia-ptxjitcompiler.so.550.54.15": True,
    }
    files = {**NODES, **process(70, "python3", "a.py", libraries=gone)}
    (one,), _ = look(files, opened(70, "/dev/nvidia0"), **nvml({"compute": [(70, 1)]}))
    assert [row["release"] for row in one["gone"]] == ["550.54.15", "550.54.15"]


CLIENT = "pos:\t0\ndrm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-resident-vram0:\t51200 KiB\n"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROBE, "PAUSE", 0.0)


@pytest.mark.usefixtures("at_once")
def test_one_that_has_ended_and_left_its_memory_to_its_group() -> None:
    files = {
        **NODES,
        **process(70, name="python3", state="Z", readable=False),
        **process(71, "python3", "a.py", group=70),
    }
    answer, _ = look(files, opened(71, "/dev/nvidia0"), **nvml({"compute": [(70, 5371)]}))
    ended = next(one for one in answer if one["pid"] == 70)
    assert (ended["stuck"]["how"], ended["stuck"]["heirs"], ended["used_mib"]) == ("ended", [71], 5371)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("state", "wchan", "stuck"),
    [
        ("D", "os_acquire_rwlock_write", True),
        ("D", "uvm_va_space_destroy", True),
        ("D", "nvme_submit_sync", False),
        ("D", "folio_wait_bit_common", False),
        ("D", "0", False),
        ("S", "nvidia_poll", False),
    ],
)
def test_one_that_waits_in_the_driver(state: str, wchan: str, stuck: bool) -> None:  # noqa: FBT001 - a case
    files = {**NODES, **process(70, "python3", "a.py", state=state, wchan=wchan)}
    (one,), _ = look(files, opened(70, "/dev/nvidia0"), **nvml({"compute": [(70, 1)]}))
    assert ("stuck" in one) is stuck


@pytest.mark.usefixtures("at_once")
def test_one_that_moves_on_is_not_stuck() -> None:
    class Moving(Told):
        """A machine on which the process uses time between two readings."""

        looks = 0

        def bytes(self, path: str, limit: int = 1 << 20, offset: int = 0) -> bytes | None:
            if path == "/proc/70/stat":
                self.looks += 1
                self.files[path] = f"70 (p) D 1 70 70 0 -1 0 0 0 0 0 {self.looks} 3 0 0 20\n"
            return super().bytes(path, limit, offset)

    files = {**PASSWD, **NODES, **process(70, "p", state="D", wchan="uvm_x")}
    host = Moving(files, links=opened(70, "/dev/nvidia0"), row=ROW, **nvml({"compute": [(70, 1)]}))
    (one,) = PROBE["probe"](host)
    assert "stuck" not in one


def test_amd_by_kfd_and_intel_by_what_the_kernel_counts() -> None:
    topology = "/sys/class/kfd/kfd/topology/nodes/1"
    files = {
        "/dev/kfd": "",
        "/dev/dri/renderD128": "",
        f"{topology}/properties": "simd_count 304\nlocation_id 768\ndomain 0\ngfx_target_version 90402\n",
        f"{topology}/gpu_id": "51545\n",
        "/sys/class/kfd/kfd/proc/70/vram_51545": f"{3 << 30}\n",
        "/sys/class/kfd/kfd/proc/70/pasid": "32770\n",
        **process(70, "python3", "a.py"),
        **process(71, "Xorg", name="Xorg"),
        "/proc/71/fdinfo/1": CLIENT,
        "/proc/71/fdinfo/2": CLIENT,
        **process(72, "systemd-logind", name="systemd-logind"),
    }  # fmt: skip
    links = {
        **opened(70, "/dev/kfd"),
        **opened(71, "/dev/dri/renderD128", "/dev/dri/card0"),
        **opened(72, "/dev/dri/card0"),
    }
    answer, _ = look(files, links)
    assert [(one["pid"], one["used_mib"], one["gpus"][0]["gpu"], one["gpus"][0]["vendor"]) for one in answer] == [
        (70, 3072, "0000:03:00.0", "amd"),
        (71, 50, "0000:03:00.0", "xe"),
    ]
    assert answer[1]["application"] == "display"


def test_our_own_look_is_left_out() -> None:
    me, parent = os.getpid(), os.getppid()
    files = {
        **NODES,
        **process(parent, "python3", "/usr/bin/gpustack", "doctor"),
        **process(me, "python3", "probes", parent=parent),
        **process(999_999, "python3", "probes", parent=parent),
        **process(999_998, "python3", "probes", parent=999_999),
    }
    links = {key: to for pid in (me, 999_999, 999_998) for key, to in opened(pid, "/dev/nvidia0").items()}
    answer, _ = look(files, links, **nvml({}))
    assert answer is None


def test_a_container_has_its_own_files() -> None:
    inner = f"/proc/70/root{SITE}"
    cgroup = "0::/system.slice/docker-" + "a" * 64 + ".scope\n"
    files = {**NODES, **process(70, "python3", "a.py", libraries=TORCH, cgroup=cgroup)}
    files[f"{inner}/torch-2.8.0.dist-info/METADATA"] = ""
    links = {**opened(70, "/dev/nvidia0"), "/proc/70/ns/mnt": "mnt:[2]", "/proc/self/ns/mnt": "mnt:[1]"}
    (one,), _ = look(files, links, **nvml({"compute": [(70, 1)]}))
    assert one["container"] == {"engine": "docker", "id": "a" * 12}
    assert one["frameworks"][0]["version"] == "2.8.0"


@pytest.mark.parametrize(
    ("cgroup", "told"),
    [
        (f"0::/kubepods.slice/kubepods-podx.slice/cri-containerd-{'b' * 64}.scope\n", ("kubernetes", None, None)),
        (f"0::/machine.slice/libpod-{'c' * 64}.scope\n", ("podman", None, None)),
        ("0::/lxc.payload.web/x\n", ("lxc", None, None)),
        ("5:freezer:/slurm/uid_1000/job_4711/step_0\n", (None, "4711", None)),
        ("0::/system.slice/slurmstepd.scope/job_12/step_0/user\n", (None, "12", None)),
        ("0::/system.slice/vllm.service\n", (None, None, "vllm.service")),
        ("0::/user.slice/user-1000.slice/user@1000.service\n", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_where_a_process_belongs(cgroup: str, told: tuple[str | None, ...]) -> None:
    place = PROCESSES["place"](ToldHost({"/proc/7/cgroup": cgroup}), 7)
    engine = place["container"]["engine"] if place["container"] else None
    assert (engine, place["slurm_job"], place["unit"]) == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["/usr/bin/python3", "-c", "import os; key='sk-abc'"], "python3 -c …"),
        (["python", "-X", "dev", "-O", "/srv/app/main.py", "--token=x"], "python main.py"),
        (["python3", "-m", "torch.distributed.run", "--nnodes", "2", "/a/train.py", "--key", "k"],
         "python3 -m torch.distributed.run train.py"),
        (["/env/bin/python", "/env/bin/vllm", "serve", "org/model", "--api-key", "s"], "python vllm serve"),
        (["/env/bin/python", "/env/bin/torchrun", "pre.py"], "python torchrun pre.py"),
        (["VLLM::EngineCore"], "VLLM::EngineCore"),
        (["ray::Worker.run()"], "…"),
        (["sshd: ada@pts/0"], "sshd:"),
        (["./solver", "password"], "solver"),
        (["python3"], "python3"),
        ([], None),
    ],
)  # fmt: skip
def test_of_a_command_line_only_what_tells_no_secret(line: list[str], told: str | None) -> None:
    assert PROCESSES["command"](line) == told


@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_command_line_is_told_in_few_plain_words(line: list[str]) -> None:
    told = PROCESSES["command"](line)
    assert told is None or (len(told.split()) <= 5 and "/" not in told and "=" not in told)


@given(st.text(max_size=200))
def test_any_text_is_read_or_passed_over(text: str) -> None:
    PROCESSES["usage"](f"drm-driver:\t{text}\n{text}")
    host = ToldHost({"/proc/7/stat": text, "/proc/7/maps": text, "/proc/7/cgroup": text, "/proc/7/environ": text})
    for function in ("status", "mapped", "place", "variables", "stuck"):
        PROCESSES[function](host, 7)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("drm-driver:\tamdgpu\ndrm-memory-vram:\t2048 KiB\n", 2 << 20),
        ("drm-driver:\ti915\ndrm-total-local0:\t3 MiB\ndrm-resident-local0:\t1 MiB\n", 1 << 20),
        ("drm-driver:\txe\ndrm-total-vram0:\t5\ndrm-total-vram1:\t6\n", 11),
        ("drm-driver:\tnvidia-drm\n", None),
    ],
)
def test_memory_as_each_driver_counts_it(text: str, used: int | None) -> None:
    assert PROCESSES["usage"](text)["used"] == used
