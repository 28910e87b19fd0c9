"""Redaction: planted secrets do not leak, what rules need remains, the same secret gets the same placeholder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.facts import Call, Component, Environment, Facts, Host, Instance, JsonValue, Layer, Status, Unseen
from gpustack.model.report import Because
from gpustack.model.writing import render
from gpustack.redaction import ourselves, redact
from tests.report import reports

UUID = "GPU-451607bd-f6e8-69f7-4b69-d39bbe37fccb"
OTHER = "GPU-0a1b2c3d-0000-1111-2222-333344445555"
HF = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----"


def facts(held: Mapping[str, JsonValue], *, hostname: str = "rack7-gpu3", more: tuple[Component, ...] = ()) -> Facts:
    """Return facts of a machine on which one component has these."""
    copy = Instance(key="0", facts=held)
    one = Component(
        id="nvml", layer=Layer.DRIVER, vendor="nvidia", status=Status.PRESENT, facts=held, instances=(copy,)
    )
    return Facts(taken="2026-11-21T10:02:00+00:00", host=Host(hostname=hostname), components=(one, *more))


def shown(held: JsonValue) -> str:
    """Return the redacted form of one text under a name that reveals nothing."""
    found = redact(facts({"said": held})).components[0].facts["said"]
    return found if isinstance(found, str) else json.dumps(found)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"uuid {UUID}", "uuid GPU-1"),
        (f"MIG-{UUID}/1/0 and MIG-451607bd-f6e8-69f7-4b69-d39bbe37fccb", "MIG-GPU-1/1/0 and MIG-1"),
        ("boot 451607bd-f6e8-69f7-4b69-d39bbe37fccb", "boot uuid-1"),
        ("Serial Number                         : 1654024030449", "Serial Number                         : serial-1"),
        ("/home/alice/venv/bin/python", "~/venv/bin/python"),
        ("file:///home/alice/x:/Users/alice/y", "file://~/x:~user-1/y"),
        ("/root/.cache", "~/.cache"),
        ("[sybil@login02 proj]$ ls /scratch/sybil", "[user-1@host-2 proj]$ ls /scratch/user-1"),
        ("SLURM_JOB_USER=erin; /gpfs/erin/x", "SLURM_JOB_USER=user-1; /gpfs/user-1/x"),
        ("SLURMD_NODENAME=node42 and node42:7:7 [0]", "SLURMD_NODENAME=host-2 and host-2:7:7 [0]"),
        ("MASTER_ADDR=node17.cluster.corp; node17 up", "MASTER_ADDR=host-2; host-3 up"),
        ("rank0: node0042:1234:1234 [0] NCCL INFO", "rank0: host-2:1234:1234 [0] NCCL INFO"),
        ("ssh -p 22 carol@10.2.3.4; ls /u/carol", "ssh -p 22 user-1@ip-1; ls /u/user-1"),
        ("AccountName=x;AccountKey=abcDEF123456==;", "AccountName=x;AccountKey=secret-1;"),
        ("/Users/John Doe/x", "~/x"),
        ("C:\\Users\\John Doe\\AppData", "C:\\Users\\user-1\\AppData"),
        ("/mnt/c/Users/alice/x", "/mnt/c/Users/user-1/x"),
        ("/export/lab/home/alice/x", "/export/lab/home/user-1/x"),
        ("see /home/alice and /opt/x", "see ~ and /opt/x"),
        ("link/ether 52:54:00:ab:cd:ef brd", "link/ether mac-1 brd"),
        ("inet 192.168.1.17/24", "inet ip-1/24"),
        ("connect to 13.92.4.5 failed", "connect to ip-1 failed"),
        ("10.0.0.5:29500", "ip-1:29500"),
        ("tried 12.0.0.1:8080 and 12.0.0.1/8", "tried ip-1:8080 and ip-1/8"),
        ("nfs: server 10.1.2.3 not responding", "nfs: server ip-1 not responding"),
        ("tcp://8.8.4.4", "tcp://ip-1"),
        ("dns 8.8.8.8", "dns ip-1"),
        ("203.0.113.9", "ip-1"),
        ("2001:db8::8a2e:370:7334", "ip-1"),
        ("fe80::5054:ff:fe12:3456%eth0", "ip-1%eth0"),
        ("ip-10-1-2-3.ec2.internal", "host-2"),
        ("mail alice.b+x@corp.example.com now", "mail email-1 now"),
        ("https://bob:s3cr3t@pypi.corp.example/simple", "https://secret-1@host-2/simple"),
        ("https://tok3n@gitlab.corp.example/x.git", "https://secret-1@host-2/x.git"),
        ("https://a.example/x?sig=abc%2Bdef&y=1", "https://a.example/x?sig=secret-1&y=1"),
        (f"HF is {HF}.", "HF is secret-1."),
        (f"{GITHUB} {JWT}", "secret-1 secret-2"),
        (PEM, "secret-1"),
        ("AKIAIOSFODNN7EXAMPLE", "secret-1"),
        ("WANDB_API_KEY=0123456789abcdef", "WANDB_API_KEY=secret-1"),
        ("AWS_SECRET_ACCESS_KEY='a b/c'", "AWS_SECRET_ACCESS_KEY='secret-1'"),
        ("MYTOKEN=abc", "MYTOKEN=secret-1"),
        ("password: 12345678, DB_PASSWORD=4711", "password: secret-1, DB_PASSWORD=secret-2"),
        ("sent: Bearer abcdefgh12345678", "sent: Bearer secret-1"),
        ('{"password": "hunter2", "n": 1}', '{"password": "secret-1", "n": 1}'),
        ("vllm serve --api-key abc123 --hf-token=def456", "vllm serve --api-key secret-1 --hf-token=secret-2"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer secret-1"),
        ("uid=1000(alice) gid=1000(alice)", "uid=1000(user-1) gid=1000(user-1)"),
        ("(base) alice@rack7-gpu3:~$ nvidia-smi", "(base) user-1@host-1:~$ nvidia-smi"),
        ("Nov 21 10:02:33 rack9 kernel: NVRM: Xid on rack9", "Nov 21 10:02:33 host-2 kernel: NVRM: Xid on host-2"),
        ("Linux rack7-gpu3 6.8.0-50-generic x86_64", "Linux host-1 6.8.0-50-generic x86_64"),
        ("rack7-gpu3.corp.example is rack7-gpu3", "host-1.corp.example is host-1"),
    ],
)
def test_a_secret_becomes_a_placeholder(text: str, wanted: str) -> None:
    assert shown(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "580.159.04",
        "13.0.88.1",
        "9.14.0.64",
        "nvidia-cublas==13.1.0.3",
        "nvidia-curand 10.4.0.35",
        "libcurand.so.10.4.0.35",
        "/opt/tensorrt/10.13.3.9/lib",
        "nvidia_curand-10.4.0.35.dist-info",
        "TensorRT 10.13.3.9 needs cuDNN >=9.10.2.21,<10",
        "Driver version: 10.2.3.4",
        "5.15.167.4-microsoft-standard-WSL2",
        "96.00.A5.00.1A",
        "96.00.89.00.01",
        "0000:00:06.0",
        "00000000:00:06.0",
        "0000:00:06.0/0000:01:00.0",
        "6.18.44-fc-v657-gpu",
        "127.0.0.1:8000, ::1, 0.0.0.0",
        "10:18:26",
        "2026:11:21:10",
        "999.1.1.1",
        "ssh://git@github.com/x/y",
        "2026-11-21T10:02:00+00:00",
        "c10::add(at::Tensor) and std::vector",
        "torch/csrc 70d99e998b4955e0049d13a98d77ae1b14db1f45",
        "max_tokens=128, tokenizer: x, token: 5",
        "TOKENIZERS_PARALLELISM=false",
        "git+https://github.com/vllm-project/vllm@v0.10.1",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/var/lib/docker/rootfs/home",
        "pcie-link-degraded@0000:00:06.0",
        "sm_90a, compute_90",
        "Xid (PCI:0000:01:00): 79, pid=1234",
    ],
)
def test_what_a_rule_needs_stays(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("driver_version", "13.92.4.5"),
        ("pins", "10.4.0.35"),
        ("google-auth", "2.30.0"),
        ("serial", "N/A"),
        ("api_key", ""),
        ("user", "1000"),
    ],
)
def test_a_name_can_say_that_it_is_no_secret(name: str, text: str) -> None:
    assert redact(facts({name: text})).components[0].facts[name] == text


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("serial", "1654024030449", "serial-1"),
        ("serial_number", 1654024030449, "serial-1"),
        ("pdi", "0x90525124159bd852", "serial-1"),
        ("NGC_API_KEY", "abc def", "secret-1"),
        ("hf_token", "abc", "secret-1"),
        ("password", "hunter2", "secret-1"),
        ("SLURMD_NODENAME", "rack8", "host-2"),
        ("MASTER_ADDR", "10.4.0.35", "host-2"),
        ("local_addr", "13.92.4.5", "ip-1"),
        ("SUDO_USER", "mallory", "user-1"),
    ],
)
def test_a_name_can_say_that_it_is_a_secret(name: str, value: JsonValue, wanted: str) -> None:
    assert redact(facts({name: value})).components[0].facts[name] == wanted


def test_the_same_secret_has_the_same_placeholder_everywhere_so_that_facts_still_join() -> None:
    gpus = tuple(Instance(key=uuid, facts={"uuid": uuid, "pci": "0000:00:06.0"}) for uuid in (UUID, OTHER))
    known = Component(id="gpu", layer=Layer.HARDWARE, vendor="nvidia", status=Status.PRESENT, instances=gpus)
    links = replace(known, id="nvlink", instances=(Instance(key=OTHER.upper().replace("GPU", "GPU")),))
    cuda: dict[str, JsonValue] = {"devices": ({"uuid": OTHER, "pci": "0000:00:07.0"}, {"uuid": UUID})}
    clean = redact(facts(cuda, more=(known, links)))
    devices, first, second = clean.components[0].facts["devices"], *clean.components[1].instances
    assert isinstance(devices, tuple)
    assert [one["uuid"] for one in devices if isinstance(one, Mapping)] == ["GPU-1", "GPU-2"]
    assert (second.key, first.key) == ("GPU-1", "GPU-2") == (second.facts["uuid"], first.facts["uuid"])
    assert clean.components[2].instances[0].key == "GPU-1"
    assert first.facts["pci"] == "0000:00:06.0"


def test_a_placeholder_that_was_there_before_is_not_given_again() -> None:
    clean = redact(facts({"old": "GPU-1", "new": UUID}))
    assert clean.components[0].facts == {"old": "GPU-1", "new": "GPU-2"}


def test_two_homes_stay_two() -> None:
    said = {"a": "/root/x", "b": "/home/alice/x", "c": "/home/bob/x", "d": "/home/alice/y", "e": "/root/y"}
    clean = redact(facts(said)).components[0].facts
    assert clean == {"a": "~/x", "b": "~user-1/x", "c": "~user-2/x", "d": "~user-1/y", "e": "~/y"}


def test_names_that_many_share_do_not_spoil_the_words_of_the_stack() -> None:
    said = {"home": "/home/nvidia/x", "driver": "nvidia 580.159.04", "os": "ubuntu", "max_link": "alice"}
    clean = redact(facts({**said, "user": "ubuntu"}, hostname="gpu")).components[0].facts
    assert clean == {
        "home": "~/x",
        "driver": "nvidia 580.159.04",
        "os": "ubuntu",
        "max_link": "alice",
        "user": "user-1",
    }


def test_who_runs_this_is_shown_nowhere_wherever_his_home_lies() -> None:
    ours = ourselves({"USER": "jdoe", "LOGNAME": "jdoe", "HOME": "/scratch/jdoe"})
    said = {"python": "/scratch/jdoe/env/bin/python", "line": "jdoe has /gpfs/proj/jdoe", "other": "/mnt/scratch/jdoe2"}
    clean = redact(facts(said), ours).components[0].facts
    assert clean == {
        "python": "~/env/bin/python",
        "line": "user-1 has /gpfs/proj/user-1",
        "other": "/mnt/scratch/user-2",
    }
    for home in ("/", "/data", "/scratch/data", ""):
        assert home not in ourselves({"HOME": home}), "many share it"


def test_the_short_name_of_a_host_is_found_as_well_and_a_longer_name_before_one_within_it() -> None:
    clean = redact(facts({"said": "rack9 up, rack9-gpu1 down"}, hostname="rack9.corp.example")).components[0].facts
    assert clean["said"] == "host-2 up, host-2-gpu1 down"
    both = redact(facts({"login": "rack7", "said": "rack7-gpu3 for rack7"})).components[0].facts
    assert both["said"] == "host-1 for user-1"


def test_a_name_that_only_the_name_of_a_fact_tells_is_found_in_all_others() -> None:
    clean = redact(facts({"/home/mallory/x": 1, "said": "mallory was here"})).components[0].facts
    assert clean == {"~/x": 1, "said": "user-1 was here"}


def test_a_user_named_like_a_component_or_a_fact_does_not_rename_it() -> None:
    clean = redact(facts({"home": "/home/nvml/x", "said": "nvml", "max_width": 16, "login": "max"}))
    assert clean.components[0].id == "nvml"
    assert clean.components[0].facts == {"home": "~/x", "said": "nvml", "max_width": 16, "login": "user-1"}


def test_names_of_facts_that_hold_secrets_are_redacted_and_none_is_lost() -> None:
    clean = redact(facts({"/home/alice/x": 1, "~/x": 2, UUID: 3})).components[0].facts
    assert clean == {"~/x": 1, "~/x'": 2, "GPU-1": 3}


def planted(secret: str) -> Facts:
    """Return facts with one secret in every place that holds text."""
    copy = Instance(key=secret, version=secret, build=secret, path=secret, environment=secret, facts={secret: secret})
    one = Component(
        id="nvml",
        layer=Layer.DRIVER,
        vendor=secret,
        status=Status.FAILED,
        version=secret,
        build=secret,
        path=secret,
        facts={"list": (secret, {"deep": (secret,)})},
        source=secret,
        reason=f"what was read: {secret}",
        instances=(copy,),
        calls=(Call(name=secret, seconds=0.1, outcome=secret),),
    )
    return Facts(
        taken="2026-11-21T10:02:00+00:00",
        host=Host(hostname="rack7-gpu3", os=secret, kernel=secret),
        components=(one,),
        environments=(Environment(python=secret, kind=secret, version=secret, prefix=secret),),
        not_seen=(Unseen(what=secret, why=secret, enable_by=secret),),
    )


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (UUID, UUID[4:]),
        ("/home/alice/venv", "alice"),
        ("alice@rack7-gpu3:~$ ls", "alice"),
        ("rack7-gpu3", "rack7"),
        ("192.168.1.17", "192.168.1.17"),
        ("2001:db8::1234", "2001:db8"),
        ("52:54:00:ab:cd:ef", "52:54:00"),
        ("alice@corp.example", "alice"),
        ("https://bob:s3cr3t@corp.example/simple", "s3cr3t"),
        (HF, HF),
        (GITHUB, GITHUB),
        (JWT, JWT),
        (PEM, "b3BlbnNzaC1rZXk"),
        ("HF_TOKEN=abcdef", "abcdef"),
        ("serial: 1654024030449", "1654024030449"),
    ],
)
def test_a_secret_planted_everywhere_is_nowhere_in_the_snapshot(text: str, secret: str) -> None:
    assert secret in render(planted(text))
    assert secret not in render(redact(planted(text)))


def test_a_report_is_redacted_like_facts_and_its_keys_still_join() -> None:
    finding = replace(reports.DRIVER, instance=UUID, because=())
    report = replace(
        reports.driver_too_old(),
        findings=(finding, replace(reports.STUBS, caused_by=finding.key)),
        verdict=replace(reports.driver_too_old().verdict, root_keys=(finding.key,)),
    )
    clean = redact(report)
    assert clean.findings[0].key == clean.findings[1].caused_by == clean.verdict.root_keys[0]
    assert clean.findings[0].key == "driver-too-old-for-cuda-build@GPU-2"
    assert clean.host.hostname == "host-1"
    assert (clean.host.kernel, clean.tool) == (report.host.kernel, report.tool)


def test_a_reason_is_judged_by_the_fact_that_it_states() -> None:
    because = Because(component="gpu", fact="board.serial", value="1654024030449")
    version = Because(component="cudnn", fact="version", value="10.14.0.64")
    clean = redact(replace(reports.h200(), findings=(replace(reports.STUBS, because=(because, version)),)))
    assert [one.value for one in clean.findings[0].because] == ["serial-1", "10.14.0.64"]


def test_a_healthy_report_loses_nothing_but_its_host() -> None:
    report = reports.healthy()
    assert redact(report) == replace(report, host=replace(report.host, hostname="host-1"))


WORDS = (
    UUID,
    OTHER,
    HF,
    "rack7-gpu3",
    "alice",
    "host-1",
    "user-1",
    "secret-1",
    "GPU-1",
    "10.0.0.5",
    "9.14.0.64",
    "fe80::1",
)
MARKS = "/home/alice /root /Users/bob/x TOKEN= --api-key Bearer https://u:p@h/x a@b.example serial:123456 Linux :~$ ://"
PIECES = st.sampled_from([*WORDS, *MARKS.split(), *"@~:/ =-.'\""])
TEXTS = st.text(max_size=40) | st.lists(PIECES, max_size=8).map("".join)
NAMES = st.sampled_from(["serial", "user", "hostname", "token", "API_KEY", "version", "addr", "said"]) | TEXTS
HELD = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(held=st.dictionaries(NAMES, HELD, max_size=4), hostname=TEXTS)
def test_any_facts_can_be_redacted_and_doing_it_twice_changes_nothing(
    held: dict[str, JsonValue], hostname: str
) -> None:
    once = redact(facts(held, hostname=hostname))
    assert redact(once) == once
    assert UUID[4:] not in render(once)
    assert HF not in render(once)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a-", "a@", "1.", "://", "token=", "f", ":", "/home/", "A ", "eyJa."])
def test_a_long_text_of_one_kind_does_not_hold_us_up(part: str) -> None:
    assert len(shown(part * (20_000 // len(part)))) > 0


# Log lines as people share them, the secret in each, and what a message keeps of it.
LINES = (
    (
        "ImportError: /home/alice/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
        "alice",
    ),
    ("OSError: C:\\Users\\John Doe\\torch\\lib\\fbgemm.dll: undefined symbol: x", "John Doe"),
    (
        "ERROR: /data/users/mallory/x/libcudart.so.12: cannot open shared object file: No such file or directory",
        "mallory",
    ),
    (
        "rack7-gpu3:2143:2561 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "rack7",
    ),
    (f"docker run -e HF_TOKEN={HF} --gpus all nvidia/cuda", HF),
    (f"CUDA_VISIBLE_DEVICES={UUID}", UUID[4:]),
    ("LD_LIBRARY_PATH=/home/alice/cuda/lib64:/usr/local/cuda/lib64", "alice"),
    ("docker: Error response from daemon: unknown or invalid runtime name: nvidia. host 192.168.1.17", "192.168.1.17"),
)


@pytest.mark.parametrize(("line", "secret"), LINES, ids=lambda text: text[:24])
def test_the_lines_of_logs_in_messages_are_redacted(line: str, secret: str) -> None:
    told, _ = take([("/home/alice/error.txt", line + "\n")], Matrix())
    assert told.messages, "no message was recognised, so this proves nothing"
    assert any(secret in message.line or secret in str(message.values) for message in told.messages)
    clean = redact(told)
    assert secret not in render(clean)
    assert [message.kind for message in clean.messages] == [message.kind for message in told.messages]
    assert "alice" not in clean.messages[0].origin


def test_what_a_message_is_about_outlives_redaction() -> None:
    told, _ = take(
        [("log", "[605633.37] NVRM: Xid (PCI:0000:06:00): 79, pid=1234, GPU has fallen off the bus.\n")], Matrix()
    )
    assert redact(told).messages == told.messages


def test_with_a_key_a_machine_has_the_same_pseudonyms_everywhere_and_another_has_others() -> None:
    def facts(host: str, uuid: str) -> Facts:
        gpu = Component(id="gpu", layer=Layer.HARDWARE, status=Status.PRESENT, facts={"uuid": uuid})
        return Facts(host=Host(hostname=host), components=(gpu,))

    uuids = [f"GPU-0{number}cc1d2e-1111-2222-3333-444455556666" for number in (1, 2)]
    one, twin = (redact(facts("node-one", uuids[0]), key=b"k" * 16) for _ in range(2))
    other = redact(facts("node-two", uuids[1]), key=b"k" * 16)
    elsewhere = redact(facts("node-one", uuids[0]), key=b"x" * 16)
    assert one == twin
    names = {found.host.hostname for found in (one, other, elsewhere)}
    assert len(names) == 3
    assert len({found.components[0].facts["uuid"] for found in (one, other, elsewhere)}) == 3
    assert not {"node-one", "node-two"} & names
    assert redact(one, key=b"y" * 16) == one
