"""A Slurm of two nodes on this machine, loopback only, with our hooks and recorded machines for them to judge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpustack.collect.subprocesses import ended
from tests.integrations.recorded import record

HOOKS = Path(__file__).resolve().parents[2] / "integrations/slurm"
PROGRAMS = ("slurmctld", "slurmd", "munged", "scontrol", "sinfo", "sbatch", "srun", "squeue", "scancel")
MODES = ("health", "prolog", "epilog")
NODES = ("n1", "n2")
CONF = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge/socket,cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/controller.pid
SlurmctldLogFile={folder}/controller.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SchedulerParameters=batch_sched_delay=1,nohold_on_prolog_fail
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=2 RealMemory=500 Weight=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=2 RealMemory=500 Weight=9 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
SETTINGS = """
gpustack={gpustack}
export SLURM_CONF={folder}/slurm.conf
set -- --no-bench --from "{folder}/$mode.$node.json"
"""


@contextmanager
def running(machine: str) -> Iterator[Cluster]:
    """Return a cluster whose nodes all see this recorded machine; skip the test where Slurm is not installed."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = Path(tempfile.mkdtemp(prefix="gpustack-slurm-"))
    folder.chmod(0o755)  # munge refuses a socket that others cannot reach
    cluster = Cluster(folder=folder)
    try:
        cluster.is_(machine, *NODES)
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def missing() -> str | None:
    """Return what this machine lacks for a Slurm of its own; None if nothing is missing."""
    absent = [one for one in PROGRAMS if not shutil.which(one, path=path())]
    if absent:
        return f"not installed here: {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"
    return None if os.geteuid() == 0 else "Slurm's daemons need root here"


def path() -> str:
    """Return where Slurm's programs are installed."""
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Cluster:
    """The running cluster: the fault of each node is a file for each hook and node."""

    folder: Path
    said: list[str] = field(default_factory=list)
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Write the configuration and start munged, slurmctld and both slurmd, in the foreground as our children."""
        ports = dict(zip(("controller", *NODES), _free_ports(3), strict=True))
        host = socket.gethostname().partition(".")[0]
        hooks = self.folder / "hooks"
        shutil.copytree(HOOKS, hooks)
        gpustack = Path(sys.executable).with_name("gpustack")
        with (hooks / "settings.sh").open("a", encoding="utf-8") as file:
            file.write(SETTINGS.format(folder=self.folder, gpustack=gpustack))
        ours = (HOOKS / "slurm.conf.part").read_text("utf-8").replace("/etc/slurm/gpustack", str(hooks))
        ours = ours.replace("HealthCheckInterval=300", "HealthCheckInterval=3")
        conf = CONF.format(folder=self.folder, host=host, **ports) + ours
        (self.folder / "slurm.conf").write_text(conf, "utf-8")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n", "utf-8")
        (self.folder / "state").mkdir()
        self._munge()
        configured = ("-D", "-f", f"{self.folder}/slurm.conf")
        self._daemon("slurmctld", *configured)
        for node in NODES:
            self._daemon("slurmd", *configured, "-N", node)

    def stop(self) -> None:
        """End what was started, in reverse order."""
        for daemon in reversed(self.daemons):
            daemon.terminate()
            if ended(daemon, 10) is None:
                daemon.kill()
                daemon.wait()

    def is_(self, machine: str, *nodes: str, modes: Sequence[str] = MODES) -> None:
        """Let the hooks see this recorded machine on these nodes; each file is replaced as a whole."""
        taken = record(machine, self.folder)
        for name in (f"{mode}.{node}.json" for mode in modes for node in nodes):
            shutil.copy(taken, self.folder / "next")
            (self.folder / "next").replace(self.folder / name)
        self.said.append(f"# {', '.join(nodes)}: {', '.join(modes)} now sees tests/hosts/{machine}.json")

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands and return its output."""
        done = subprocess.run(
            command,
            env={"PATH": path(), "SLURM_CONF": f"{self.folder}/slurm.conf"},
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return (done.stdout + done.stderr).strip()

    def tell(self, *command: str) -> str:
        """Run a command and keep it, with its output, for the evidence."""
        answer = self.run(*command)
        self.said.append(f"$ {' '.join(command)}\n{answer}".rstrip())
        return answer

    def node(self, name: str) -> tuple[str, str]:
        """Return the state of a node (with a star while it does not respond) and the recorded reason."""
        state, _, reason = self.run("sinfo", "--noheader", "--nodes", name, "--format", "%T|%E").partition("|")
        return state, reason

    def until(self, what: Callable[[], bool], seconds: float = 45) -> bool:
        """Wait for a condition, and return whether it was met."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if what():
                return True
            time.sleep(0.3)
        return False

    def logs(self) -> str:
        """Return the ends of the logs, for a test that failed."""
        return "\n".join(log.read_text("utf-8", "replace")[-1500:] for log in sorted(self.folder.glob("*.log")))

    def _munge(self) -> None:
        folder = self.folder / "munge"
        folder.mkdir()
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = (f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed"))
        self._daemon("munged", "--foreground", f"--socket={folder / 'socket'}", *files)
        assert self.until((folder / "socket").exists, 10), "munged did not start"

    def _daemon(self, *command: str) -> None:
        quiet = subprocess.DEVNULL
        self.daemons.append(
            subprocess.Popen(command, env={"PATH": path()}, cwd=self.folder, stdin=quiet, stdout=quiet, stderr=quiet)
        )


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
