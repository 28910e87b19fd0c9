"""The Slurm hooks on a real Slurm: ``pytest -m slurm tests/integrations/test_slurm.py``, as root.

``GPUSTACK_EVIDENCE=FILE`` saves the commands and their output.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integrations.slurm import NODES, Cluster, running

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]
SICK, FIT, UNTOLD = "gpu-fell-off-bus", "healthy-h200", "nvml-hung"
DRAINED = {"drained", "draining", "drained*", "draining*"}
SINFO = ("sinfo", "--Node", "--format", "%N %T %E")


@pytest.fixture(scope="module", name="running")
def _running() -> Iterator[Cluster]:
    """Yield a cluster whose nodes are healthy."""
    with running(FIT) as cluster:
        yield cluster
        if evidence := os.environ.get("GPUSTACK_EVIDENCE"):
            with Path(evidence).open("a", encoding="utf-8") as file:
                file.write("\n".join((*cluster.said, "")))


@pytest.fixture
def cluster(running: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """Return the cluster with both nodes healthy and idle."""
    running.said.append(f"\n## {request.node.name.replace('_', ' ')}\n")
    running.is_(FIT, *NODES)
    running.run("scancel", "--user=root")
    for node in NODES:
        if running.node(node)[0] in DRAINED:
            running.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert running.until(lambda: all(running.node(node)[0] == "idle" for node in NODES)), running.logs()
    return running


def drained(cluster: Cluster, node: str) -> bool:
    state, reason = cluster.node(node)
    return state in DRAINED and reason.startswith("gpustack bad-host: ")


def test_a_sick_node_is_drained_with_our_text_and_comes_back_when_it_passes(cluster: Cluster) -> None:
    cluster.is_(SICK, "n1")
    assert cluster.until(lambda: drained(cluster, "n1")), cluster.logs()
    assert "fallen off the PCI Express bus" in cluster.node("n1")[1]
    assert cluster.node("n2")[0] == "idle"
    cluster.tell(*SINFO)
    assert cluster.tell("srun", "--nodes=1", "sh", "-c", "echo $SLURMD_NODENAME") == "n2"
    cluster.is_(FIT, "n1")
    assert cluster.until(lambda: cluster.node("n1") == ("idle", "none")), cluster.logs()
    cluster.tell(*SINFO)


def test_a_node_that_somebody_else_has_drained_keeps_its_reason_and_stays_drained(cluster: Cluster) -> None:
    cluster.tell("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=new fan")
    cluster.is_(SICK, *NODES, modes=["health"])
    assert cluster.until(lambda: drained(cluster, "n2")), cluster.logs()  # so a round of checks is over
    assert cluster.node("n1")[1] == "new fan"
    cluster.tell(*SINFO)
    cluster.is_(FIT, *NODES)
    assert cluster.until(lambda: cluster.node("n2")[0] == "idle"), cluster.logs()
    assert cluster.node("n1")[0] in DRAINED
    assert cluster.node("n1")[1] == "new fan"
    cluster.tell(*SINFO)


def test_what_cannot_be_told_drains_nothing_and_resumes_nothing(cluster: Cluster) -> None:
    cluster.is_(SICK, "n1")
    assert cluster.until(lambda: drained(cluster, "n1")), cluster.logs()
    cluster.is_(UNTOLD, "n1", modes=["health"])
    (cluster.folder / "health.n2.json").write_text("{ not JSON", "utf-8")
    cluster.said.append("# n2: health has no answer at all")
    time.sleep(8)
    assert drained(cluster, "n1")
    assert cluster.node("n2")[0] == "idle"
    cluster.tell(*SINFO)


def test_a_prolog_on_a_sick_node_drains_it_and_the_job_runs_elsewhere(cluster: Cluster) -> None:
    cluster.is_(UNTOLD, "n1", modes=["health"])
    cluster.is_(SICK, "n1", modes=["prolog"])
    output = cluster.folder / "job.out"
    job = ("sbatch", "--parsable", "--nodes=1", "--requeue", "--output=job.out", "--wrap=echo ran on $SLURMD_NODENAME")
    cluster.tell(*job)
    assert cluster.until(lambda: drained(cluster, "n1")), cluster.logs()
    cluster.tell(*SINFO)
    assert cluster.until(lambda: output.exists() and bool(output.read_text("utf-8")), 90), cluster.logs()
    cluster.tell("cat", "job.out")
    assert output.read_text("utf-8") == "ran on n2\n"
    assert drained(cluster, "n1"), "the reason is ours, and not Slurm's own 'Prolog error'"


def test_an_epilog_drains_the_node_that_a_job_leaves_sick(cluster: Cluster) -> None:
    cluster.is_(UNTOLD, "n2", modes=["health"])
    cluster.is_(SICK, "n2", modes=["epilog"])
    assert cluster.tell("srun", "--nodelist=n2", "echo", "done") == "done"
    assert cluster.until(lambda: drained(cluster, "n2")), cluster.logs()
    cluster.tell(*SINFO)
