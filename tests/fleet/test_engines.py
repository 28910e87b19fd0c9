"""Collecting through real launchers on this machine: ``nox -s engines``, as root for Slurm.

For Kubernetes kubectl is real, and the API server is kmock's: see cluster.py.
Each launcher that is not installed here is skipped, with the name of the package that provides it.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.integrations.recorded import record
from tests.integrations.slurm import NODES, Cluster, path, running

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]
GPUSTACK = Path(sys.executable).with_name("gpustack")
SICK, FIT = "gpu-fell-off-bus", "healthy-h200"
HOOKS = re.compile(r"^(HealthCheck\w+|Prolog\w*|Epilog)=.*\n", re.MULTILINE)
DOCUMENTED = Path(__file__).resolve().parents[2] / "docs/fleet.md"
CLUSTER = Path(__file__).with_name("cluster.py")
KUBERNETES = Path(__file__).resolve().parents[2] / "integrations/kubernetes"
RAY = """
import os, subprocess, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "node_name": "r0"})
for name in ("r1", "r2"):
    cluster.add_node(num_cpus=1, node_name=name)
cluster.wait_for_nodes()
done = subprocess.run(sys.argv[1:], env={**os.environ, "RAY_ADDRESS": cluster.address})
cluster.shutdown()
sys.exit(done.returncode)
"""
PLACED = f"""
import sys, time
sys.path.insert(0, {str(KUBERNETES.parent / "ray")!r})
import ray
from placement import fit
ray.init(log_to_driver=False)
def where():
    time.sleep(0.2)
    return ray.get_runtime_context().get_node_id()
names = {{one["NodeID"]: one["NodeName"] for one in ray.nodes()}}
work = ray.remote(where).options(label_selector=fit(sys.argv[1]), num_cpus=1)
print(*(names[one] for one in ray.get([work.remote() for _ in range(12)])))
from dataclasses import replace
from pathlib import Path
from gpustack.fleet.judging import judge
alone, spread = (judge(Path(sys.argv[1]).parent, ray=one).report for one in (False, True))
assert replace(alone, seconds=0) == replace(spread, seconds=0), (alone, spread)
"""


def collect(*words: str, environ: Mapping[str, str], before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run gpustack fleet collect with gpustack itself as the nodes' command."""
    program = () if "--program" in words else ("--program", str(GPUSTACK))
    command = (*before, str(GPUSTACK), "fleet", "collect", *program, *words)
    whole = {**os.environ, **environ}
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=290, check=False)


def nodes_of(folder: Path) -> set[str]:
    """Return the nodes that the fleet's own judgement finds in a folder."""
    judged = subprocess.run(
        [str(GPUSTACK), "fleet", "judge", str(folder), "--format", "json"], capture_output=True, text=True, check=False
    )
    assert judged.returncode in {0, 1}, judged.stderr
    said = json.loads(judged.stdout)
    return {name for one in said["classes"] for name in one["nodes"]}


def needs(program: str, package: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed here (Debian: {package})")


def test_mpirun_reaches_two_hosts(tmp_path: Path) -> None:
    needs("mpirun", "openmpi-bin")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    folder = tmp_path / "nodes"
    done = collect("--engine", "mpi", "--nodes", "localhost,127.0.0.1", str(folder), environ=root)
    assert "2 answered" in done.stderr + done.stdout, done.stderr
    assert nodes_of(folder) == {"localhost", "127.0.0.1"}


def test_clustershell_reaches_its_workers_and_names_one_that_is_not_there(tmp_path: Path) -> None:
    needs("clush", "clustershell")
    (tmp_path / "defaults.conf").write_text("[task.default]\ndistant_workername: exec\n")
    local = {"CLUSTERSHELL_CFGDIR": str(tmp_path)}
    folder = tmp_path / "nodes"
    done = collect("--engine", "ssh", "--nodes", "w[1-2]", str(folder), environ=local)
    assert "2 answered" in done.stderr + done.stdout, done.stderr
    over_ssh = collect("--engine", "ssh", "--nodes", "no-such-host.invalid", "--attempts", "1", str(folder), environ={})
    assert "no-such-host.invalid: clush ended with" in over_ssh.stderr + over_ssh.stdout
    assert nodes_of(folder) >= {"w1", "w2"}


def test_ray_asks_three_nodes(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed here (pip install ray)")
    folder = tmp_path / "nodes"
    patient = {"RAY_raylet_start_wait_time_s": "240"}  # a busy machine takes longer than Ray waits by default
    around = (sys.executable, "-W", "ignore", "-c", RAY)
    done = collect("--engine", "ray", str(folder), environ=patient, before=around)
    assert "3 answered" in done.stderr + done.stdout, done.stderr
    assert nodes_of(folder) == {"r0", "r1", "r2"}


@contextmanager
def kubernetes(folder: Path, roles: str, *names: str) -> Iterator[tuple[int, Path]]:
    """Return the port of an API server with these nodes, and its log of requests."""
    if importlib.util.find_spec("kmock") is None:
        pytest.skip("kmock is not installed here (pip install kmock)")
    asked = folder / "asked"
    command = (sys.executable, str(CLUSTER), str(KUBERNETES / roles), str(asked), *names)
    environ = {**os.environ, "PATH": f"{GPUSTACK.parent}:{os.environ['PATH']}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout
        try:
            yield int(server.stdout.readline()), asked
        finally:
            server.terminate()


def rights(roles: str) -> set[tuple[str, str, str]]:
    """Return every verb, group and resource that the roles of a manifest grant."""
    held = yaml.safe_load_all((KUBERNETES / roles).read_text("utf-8"))
    rules = [rule for one in held if one["kind"] in {"Role", "ClusterRole"} for rule in one["rules"]]
    return {asked for rule in rules for asked in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])}


def asked_of(log: Path) -> set[tuple[str, ...]]:
    return {tuple(json.loads(line)) for line in log.read_text("utf-8").splitlines()}


def test_kubernetes_runs_a_job_on_each_node_with_the_least_rights(tmp_path: Path) -> None:
    """Following the documentation: an administrator applies the manifest, and its account collects."""
    needs("kubectl", "kubernetes-client")
    with kubernetes(tmp_path, "fleet.yaml", "k1", "k2.example") as (port, asked):
        config: dict[str, object] = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
        config |= {"contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}]}
        config |= {"clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}]}
        config |= {"users": [{"name": "here", "user": {"as": "admin"}}]}
        (tmp_path / "config").write_text(json.dumps(config))
        there = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
        [block] = [one for one in re.findall(r"```sh\n(.*?)```", DOCUMENTED.read_text(), re.DOTALL) if "kubectl" in one]
        *prepare, ask = block.replace("integrations/kubernetes", str(KUBERNETES)).splitlines()
        whole = {**os.environ, **there, "PATH": f"{GPUSTACK.parent}:{os.environ['PATH']}"}
        for line in (*prepare, "kubectl config unset users.here", ask):  # who queries has the manifest's permissions
            done = subprocess.run(
                shlex.split(line), env=whole, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (line, done.stderr)
        assert "2 answered" in done.stdout
        folder = tmp_path / "nodes"
        bindings = f"http://127.0.0.1:{port}/apis/rbac.authorization.k8s.io/v1/rolebindings"
        with urlopen(Request(bindings, headers={"Impersonate-User": "admin"})) as made:
            assert [one["metadata"]["namespace"] for one in json.load(made)["items"]] == ["gpustack"]
        with urlopen(f"http://127.0.0.1:{port}/apis/batch/v1/jobs") as left:
            assert json.load(left)["items"] == []
        late = collect(
            *("--engine", "kubernetes", "--image", "gpustack:1", "--timeout", "2", "--attempts", "1", "--again"),
            *("--program", "sh -c 'sleep 9'", str(folder)),
            environ=there,
        )
    assert nodes_of(folder) == {"k1", "k2.example"}
    assert "k1: kubectl ended with 1: error: timed out waiting" in late.stderr + late.stdout
    assert asked_of(asked) == rights("fleet.yaml")


def judged(folder: Path, **nodes: str) -> str:
    """Return the store of a judged fleet in which each node is a recorded machine."""
    for name, machine in nodes.items():
        shutil.copy(record(machine, folder.parent), folder / f"{name}.json")
    store = str(folder / "fleet.sqlite")
    words = [str(GPUSTACK), "fleet", "judge", str(folder), "--store", store]
    assert subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode in {0, 1}
    return store


def test_kubernetes_taints_nodes_that_are_held_back_and_frees_those_that_are_healthy_again(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "token").write_text("secret")
    held = yaml.safe_load_all((KUBERNETES / "fleet-gate.yaml").read_text("utf-8"))
    (tmp_path / "gate.py").write_text(next(one["data"]["gate.py"] for one in held if one["kind"] == "ConfigMap"))

    with kubernetes(tmp_path, "fleet-gate.yaml", "k1", "k2") as (port, asked):
        server = f"http://127.0.0.1:{port}"
        environ = {**os.environ, "API_SERVER": server, "ACCOUNT": str(tmp_path)}
        environ["PATH"] = f"{GPUSTACK.parent}:{environ['PATH']}"

        def gate(store: str) -> tuple[int, dict[str, list[str]]]:
            command = (sys.executable, str(tmp_path / "gate.py"), store)
            done = subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=False)
            with urlopen(f"{server}/api/v1/nodes") as answer:  # noqa: S310 - our own server
                items = json.load(answer)["items"]
            return done.returncode, {
                one["metadata"]["name"]: [taint["key"] for taint in one["spec"].get("taints", ())] for one in items
            }

        store = judged(tmp_path / "nodes", k1=SICK, k2=FIT)
        assert gate(store) == (0, {"k1": ["gpustack"], "k2": []})
        assert gate(str(tmp_path / "no-store")) == (1, {"k1": ["gpustack"], "k2": []})
        assert gate(judged(tmp_path / "nodes", k1=FIT)) == (0, {"k1": [], "k2": []})
        assert asked_of(asked) == rights("fleet-gate.yaml")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with running(FIT) as cluster:
        conf = cluster.folder / "slurm.conf"
        conf.write_text(HOOKS.sub("", conf.read_text()))  # the hooks have tests of their own, and take time
        cluster.run("scontrol", "reconfigure")
        assert cluster.until(lambda: all(cluster.node(node)[0] == "idle" for node in NODES)), cluster.logs()
        yield cluster


def test_slurm_lists_and_reaches_its_nodes_and_a_second_collect_resumes(slurm: Cluster, tmp_path: Path) -> None:
    environ = {"SLURM_CONF": f"{slurm.folder}/slurm.conf", "PATH": f"{path()}:{os.environ['PATH']}"}
    folder = tmp_path / "nodes"
    slurm.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    first = collect("--engine", "slurm", "--attempts", "1", "--timeout", "120", str(folder), environ=environ)
    said = first.stderr + first.stdout
    assert "1 answered" in said, said
    assert "n2: srun ended with" in said, said
    slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    assert slurm.until(lambda: slurm.node("n2")[0] == "idle"), slurm.logs()
    second = collect("--engine", "slurm", "--timeout", "120", str(folder), environ=environ)
    assert "1 answered, 1 had answered before" in second.stderr + second.stdout, second.stderr
    assert nodes_of(folder) == {"n1", "n2"}


def test_slurm_drains_nodes_that_are_held_back_and_takes_back_those_that_are_healthy_again(
    slurm: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "nodes").mkdir()
    hook = str(slurm.folder / "hooks/fleet.sh")
    slurm.run(hook, judged(tmp_path / "nodes", n1=SICK, n2=FIT))
    state, reason = slurm.node("n1")
    assert state in {"drained", "drained*"}
    assert reason.startswith("gpustack-fleet: ")
    assert slurm.node("n2")[0] == "idle"
    slurm.run(hook, str(tmp_path / "no-store"))
    assert slurm.node("n1")[0] == state
    slurm.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=somebody else")
    slurm.run(hook, judged(tmp_path / "nodes", n1=FIT))
    assert slurm.until(lambda: slurm.node("n1")[0] == "idle"), slurm.logs()
    assert slurm.node("n2")[1] == "somebody else"
    slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    assert slurm.until(lambda: slurm.node("n2")[0] == "idle"), slurm.logs()


def test_every_command_of_the_documentation_runs(slurm: Cluster, tmp_path: Path) -> None:
    """Except pip's (tests of the packages) and kubectl's (above); srun on a pair is a stand-in: here are two nodes."""
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```", DOCUMENTED.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    programs = tmp_path / "bin"
    programs.mkdir()
    environ = {"SLURM_CONF": f"{slurm.folder}/slurm.conf", "PATH": f"{GPUSTACK.parent}:{path()}", "HOME": str(tmp_path)}
    ran = 0
    for indent, block in blocks:
        commands = textwrap.dedent(indent + block if block.startswith(indent) else block)
        commands = commands.replace("/shared/gpustack/bin/gpustack", str(GPUSTACK)).replace("/shared", str(tmp_path))
        if "pip install" in commands or "kubectl" in commands:
            continue
        pair = "all_reduce_perf" in commands
        if pair:
            (programs / "srun").write_text("#!/bin/sh\necho '# Avg bus bandwidth    : 341.2'\n")
            (programs / "srun").chmod(0o755)
        whole = {**environ, "PATH": f"{programs}:{environ['PATH']}"} if pair else environ
        for line in [commands] if pair else commands.splitlines():
            done = subprocess.run(
                ["/bin/sh", "-ec", line], cwd=tmp_path, env=whole, capture_output=True, text=True, check=False
            )
            assert done.returncode in {0, 1}, (line, done.stdout, done.stderr)
            assert "rror" not in done.stderr, (line, done.stderr)
            ran += 1
        if pair:
            assert "No node and no uplink is slow in 12 pairs." in done.stdout
    assert ran == 17
    assert nodes_of(tmp_path / "nodes") == {"n1", "n2"}
    assert "n1" not in "".join(one.name for one in (tmp_path / "hidden").iterdir())


def test_slurm_asks_the_store_as_the_documentation_says(slurm: Cluster, tmp_path: Path) -> None:
    """With the page's own lines of slurm.conf, except the interval: the health check drains, the prolog requeues."""
    (tmp_path / "nodes").mkdir()
    judged(tmp_path / "nodes", n1=SICK, n2=FIT)
    [block] = re.findall(r"```conf\n(.*?)```", DOCUMENTED.read_text("utf-8"), re.DOTALL)
    lines = textwrap.dedent(block).replace("/etc/slurm/gpustack", f"{slurm.folder}/hooks")
    conf, settings = slurm.folder / "slurm.conf", slurm.folder / "hooks/settings.sh"
    before = conf.read_text()
    with settings.open("a") as file:
        file.write(f"fleet_store={tmp_path}/nodes/fleet.sqlite\n")
    try:
        conf.write_text(before + re.sub(r"HealthCheck.*\n", "", lines))
        slurm.run("scontrol", "reconfigure")
        placed = tmp_path / "placed"
        slurm.run("sbatch", "--nodes=1", f"--output={placed}", "--wrap", "echo $SLURMD_NODENAME")
        assert slurm.until(lambda: placed.exists() and placed.read_text() == "n2\n", 120), slurm.logs()
        assert slurm.node("n1")[1].startswith("gpustack-fleet: ")
        slurm.run("scontrol", "update", "NodeName=n1", "State=RESUME")
        assert slurm.until(lambda: slurm.node("n1")[0] == "idle"), slurm.logs()
        conf.write_text(before + lines.replace("HealthCheckInterval=300", "HealthCheckInterval=3"))
        slurm.run("scontrol", "reconfigure")
        assert slurm.until(lambda: slurm.node("n1")[1].startswith("gpustack-fleet: "), 120), slurm.logs()
        judged(tmp_path / "nodes", n1=FIT)
        assert slurm.until(lambda: slurm.node("n1") == ("idle", "none"), 120), slurm.logs()
    finally:
        conf.write_text(before)
        slurm.run("scontrol", "reconfigure")


def test_ray_places_nothing_on_who_is_held_back_and_judges_as_we_do(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed here (pip install ray)")
    (tmp_path / "nodes").mkdir()
    store = judged(tmp_path / "nodes", r0=FIT, r1=SICK, r2=FIT)
    environ = {**os.environ, "RAY_raylet_start_wait_time_s": "240", "PATH": f"{GPUSTACK.parent}:{os.environ['PATH']}"}
    command = (sys.executable, "-W", "ignore", "-c", RAY, sys.executable, "-W", "ignore", "-c", PLACED, store)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"r0", "r2"}
