"""What is private to processes on the GPU: none of their arguments, variables and folders is in the facts."""

from __future__ import annotations

import json

from gpustack.collect.catalogue import load as catalogue
from gpustack.collect.probe_results import parse
from gpustack.collect.workers import Reply
from gpustack.model.facts import Facts, Host
from gpustack.model.writing import plain
from gpustack.redaction import redact
from tests.told import ToldHost, load

ROW = next(one for one in catalogue() if one.id == "gpu-processes")
PROBE = load("application/gpu_processes.py")
ARGUMENTS = (
    ("/home/adalovelace/env/bin/python", "serve.py", "--api-key", "sk-abcdefghijklmnopqrstuvwx"),
    ("python", "-c", "import os; os.environ['HF_TOKEN']='hf_abcdefghijklmnopqrstuv'"),
    ("python", "-m", "vllm.entrypoints.api_server", "--model", "https://adalovelace:hunter22@example.org/x"),
    ("env", "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "python"),
    ("postgres://adalovelace:hunter22@db.example.org/x",),
    ("ssh adalovelace@gpu-node-17.example.org",),
)
SECRETS = ("sk-abcdef", "hf_abc", "hunter22", "0123456789abcdef0123", "example.org", "gpu-node-17", "s3cr3t-folder")


def facts() -> Facts:
    """Return the facts of a machine on which everybody is careless."""
    files: dict[str, str | bytes | OSError] = {"/dev/nvidia0": "", "/etc/passwd": "adalovelace:x:0:0::/:/bin/sh\n"}
    links = {}
    for pid, line in enumerate(ARGUMENTS, 4_000_100):
        at = f"/proc/{pid}"
        files[f"{at}/comm"] = "python\n"
        files[f"{at}/stat"] = f"{pid} (python) S 1 {pid} {pid} 0 -1 0 0 0 0 0 7 3 0 0\n"
        files[f"{at}/cmdline"] = "\0".join(line) + "\0"
        files[f"{at}/environ"] = "AWS_SECRET_ACCESS_KEY=hunter22\0RANK=a b hunter22\0CUDA_VISIBLE_DEVICES=0\0"
        files[f"{at}/maps"] = "7f-7f r-xp 0 08:01 9 /home/adalovelace/env/lib/libcudnn.so.9.1.0\n"
        links[f"{at}/fd/5"] = "/dev/nvidia0"
        links[f"{at}/exe"] = "/home/adalovelace/env/bin/python3.12"
        links[f"{at}/cwd"] = "/srv/s3cr3t-folder"
    host = ToldHost(files, links=links, row=dict(ROW.data))
    answer = {"id": ROW.id, "status": "present", "instances": PROBE["probe"](host), "log": host.log, "calls": []}
    components, unseen = parse([Reply(system=ROW, environment=None, answer=json.loads(json.dumps(answer)))])
    return Facts(taken="2026-11-21T00:00:00+00:00", host=Host(), components=components, not_seen=unseen)


def test_no_secret_of_a_process_is_in_the_facts() -> None:
    made = facts()
    assert len(made.components[0].instances) == len(ARGUMENTS)
    said = json.dumps(plain(made))
    assert [secret for secret in SECRETS if secret in said] == []


def test_redacted_they_hold_no_name_and_redacting_again_finds_nothing() -> None:
    once = redact(facts())
    assert "adalovelace" not in json.dumps(plain(once))
    assert redact(once) == once
