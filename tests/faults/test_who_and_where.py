"""A default snapshot reveals neither the user nor the host, wherever our probes read their names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import targets
from gpustack.model.writing import render
from gpustack.redaction import ourselves, redact
from tests.faults import command, machine, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.machine import Shop

USER, HOST = "zacharias7", "secret-rack-77"
PROBES = Path(__file__).resolve().parents[2] / "probes"
NAMED = re.compile(r"\"([A-Z][A-Z0-9_]*_[A-Z0-9_]+)\"")
KEPT = {"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONDONTWRITEBYTECODE", "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING"}
PLACES = (
    "/srv/proj/{u}/x on {h}", "/home/{u}/{h}", "/data/users/{u}:{h}", "/scratch/{u}/{h}-env", "~{u}/x,{h}", "{u} {h}",
    "{u}@{h}:~$", "{h}.corp.example:8000 x_{u}", "{h}:/export/{u}", "--user={u} --host {h}", "/afs/{h}/{u}-env",
)  # fmt: skip
SILENT = ("/srv/proj/{u}/{h}/x",)  # nothing marks it as a name
LAUNCHED: tuple[tuple[dict[str, str], tuple[str, ...]], ...] = (
    ({"USER": USER, "LOGNAME": USER, "HOSTNAME": HOST}, PLACES),
    ({"USER": "root", "LOGNAME": "root", "SUDO_USER": USER, "HOSTNAME": f"{HOST}.corp.example"}, SILENT),
    ({"SLURM_JOB_USER": USER, "SLURMD_NODENAME": HOST}, SILENT),
)
FILES = {
    "/proc/sys/kernel/hostname": f"{HOST}\n",
    "/proc/cmdline": f"root=/dev/mapper/{HOST}-root ip=10.0.0.7::10.0.0.1:255.0.0.0:{HOST}:eth0:off iommu=pt "
    f"nvidia.x=/home/{USER}/y systemd.hostname={HOST}\n",
    "/proc/mounts": f"tmpfs /dev/shm tmpfs rw,size=67108864k 0 0\n{HOST}:/export/{USER} /home/{USER} nfs4 rw 0 0\n",
    "/proc/driver/nvidia/params": f"EnableGpuFirmware: 18\nTemporaryFilePath: /scratch/{USER}\n",
    "/etc/os-release": f'ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04 of {USER} on {HOST}"\n',
    "/dev/kmsg": f"6,1,100,-;NVRM: Xid (PCI:0000:00:1a): 13, pid=77, name=/home/{USER}/a.out\n"
    f"6,2,101,-;NVRM: {HOST}: {USER} loading NVIDIA UNIX Open Kernel Module\n",
}


def variables() -> list[str]:
    """Return every environment variable that a probe names and can see, except those that the stand-in needs."""
    texts = (path.read_text("utf-8") for path in (*PROBES.rglob("*.py"), PROBES / "catalogue.json"))
    named = dict.fromkeys((name for text in texts for name in NAMED.findall(text)), "x")
    return sorted(set(targets.environment_of(named)) - KEPT)


@pytest.fixture(scope="module")
def stand(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of a machine that names both in every variable, in folders and in a process."""
    folder = tmp_path_factory.mktemp("machine")
    told = machine.planted(shop, folder / "stand", ())
    site = folder / "srv" / USER / "site"
    site.mkdir(parents=True)
    beside = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", f"/srv/{USER}", HOST])
    try:
        paths = {
            "LD_LIBRARY_PATH": f"{told['LD_LIBRARY_PATH']}:/srv/{USER}/lib",
            "PYTHONPATH": f"{site}:/srv/{USER}/lib",
        }
        yield {**told, **paths}
    finally:
        beside.kill()
        beside.wait()


@pytest.mark.parametrize(("launched", "places"), LAUNCHED, ids=["self", "sudo", "slurm"])
def test_a_default_snapshot_names_neither_user_nor_host(
    stand: dict[str, str], launched: dict[str, str], places: tuple[str, ...]
) -> None:
    named = {name: places[number % len(places)].format(u=USER, h=HOST) for number, name in enumerate(variables())}
    environ = {**named, **stand, **launched}
    whole = command.run(("snapshot", "--no-redact"), environ)
    assert (whole.code, whole.out.count(USER) > 20, whole.out.count(HOST) > 5) == (0, True, True), "nothing was planted"
    ran = command.run(("snapshot",), environ)
    assert (ran.code, len(ran.out) > 10_000) == (0, True)
    assert [line for line in (ran.out + ran.err).splitlines() if USER in line.lower() or HOST in line.lower()] == []


def test_what_the_files_of_the_kernel_hold_of_both_does_not_come_out(tmp_path: Path) -> None:
    tree.plant(tmp_path)
    for path, said in FILES.items():
        (tmp_path / path[1:]).write_text(said)
    facts = tree.look(tmp_path)
    assert (USER in render(facts), HOST in render(facts)) == (True, True)
    clean = render(redact(facts, ourselves(LAUNCHED[0][0])))
    assert [line for line in clean.splitlines() if USER in line or HOST in line] == []
    assert {one["id"] for one in json.loads(clean)["components"]} == {one.id for one in facts.components}
