"""Secrets planted all over a real machine are in no redacted snapshot of it, and the unredacted one shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.assets import EXAMPLES
from gpustack.model.writing import render
from gpustack.redaction import redact
from tests.faults import command, machine, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.machine import Shop

ACCOUNT, KEY, TOKEN = "zacharias7", "sk-proj-" + "Zq8" * 12, "hf_" + "Qx7Lm2" * 6
PASSWORD, ADDRESS, MAC = "h0rse-battery-staple", "10.77.31.9", "52:54:00:be:ef:77"
UUID, SERIAL, HOST = "GPU-77aa77bb-1234-5678-9abc-def012345678", "1654024030777", "secret-rack-77"
SECRETS = (ACCOUNT, KEY, TOKEN, PASSWORD, ADDRESS, MAC, UUID, UUID.lower()[4:], SERIAL, HOST)
PLANTED = {
    "CUDA_VISIBLE_DEVICES": UUID,
    "LD_LIBRARY_PATH": f"/home/{ACCOUNT}/lib",
    "CUDA_HOME": f"/home/{ACCOUNT}/cuda",
    "NCCL_SOCKET_IFNAME": f"eth0:{ADDRESS}",
    "XLA_FLAGS": f"--api-key={KEY} --xla_dump_to=/home/{ACCOUNT}/x",
    "NCCL_HOSTID": HOST,
    "HF_TOKEN": TOKEN,
    "TORCH_HOME": f"https://{ACCOUNT}:{PASSWORD}@{HOST}.example.org/torch",
    "WANDB_API_KEY": KEY,
    "NV_SERIAL": f"Serial Number: {SERIAL}",
    "UCX_NET_DEVICES": f"mlx5_0 {MAC} {ADDRESS}:8080",
    "USER": ACCOUNT,
    "LOGNAME": ACCOUNT,
}
FORMS = ("text", "json", "prometheus", "nagios", "markdown", "html", "junit", "sarif", "github")


@pytest.fixture(scope="module")
def environ(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of a machine with secrets in its variables, paths and the arguments of a process."""
    folder = tmp_path_factory.mktemp("machine")
    home = folder / "home" / ACCOUNT
    home.mkdir(parents=True)
    told = machine.planted(shop, folder / "stand", ())
    program = f"import time; time.sleep(120)  # --password={PASSWORD} --token {TOKEN} {KEY}"
    beside = subprocess.Popen([sys.executable, "-c", program, f"--api-key={KEY}", f"http://x:{PASSWORD}@{HOST}/"])
    try:
        path = f"{told['LD_LIBRARY_PATH']}:/home/{ACCOUNT}/lib"
        yield {**told, **PLANTED, "LD_LIBRARY_PATH": path, "HOME": f"/home/{ACCOUNT}"}
    finally:
        beside.kill()
        beside.wait()


@pytest.fixture(scope="module")
def told(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot of that machine with all its secrets."""
    path = tmp_path_factory.mktemp("told") / "snapshot.json"
    ran = command.run(("snapshot", "--no-redact", "-o", str(path)), environ)
    assert (ran.code, ran.err) == (0, "")
    return path


def test_without_redaction_the_planted_things_are_seen(told: Path) -> None:
    said = told.read_text()
    assert ACCOUNT in said
    assert UUID in said


def test_no_planted_secret_is_in_a_snapshot(environ: dict[str, str]) -> None:
    ran = command.run(("snapshot",), environ)
    assert (ran.code, len(ran.out) > 10_000) == (0, True)
    assert _found(ran.out + ran.err) == []


def test_no_planted_secret_is_in_a_report_in_any_form(told: Path, tmp_path: Path) -> None:
    """One report, written in every form."""
    written = [word for form in FORMS for word in ("--format", form, "-o", str(tmp_path / form))]
    ran = command.run(("doctor", "--redact", "--from", str(told), *written), {})
    assert ran.code in {0, 1}, ran.err
    said = {form: (tmp_path / form).read_text() for form in FORMS}
    assert all(len(text) > 200 or form == "nagios" for form, text in said.items())
    assert {form: words for form, text in said.items() if (words := _found(text))} == {}
    assert _found(ran.out + ran.err) == []


@pytest.mark.parametrize(
    "argv",
    [
        *(("doctor", "--format", form) for form in ("markdown", "html", "junit", "sarif", "github")),
        ("stack", "--format", "html"),
        ("snapshot",),
        ("diff", "--redact"),
    ],
    ids=" ".join,
)
def test_what_is_for_others_is_redacted_without_asking(argv: tuple[str, ...], told: Path) -> None:
    given = (str(told), str(EXAMPLES / "driver-too-old.json")) if argv[0] == "diff" else ("--from", str(told))
    ran = command.run((*argv, *given), {})
    assert ran.code in {0, 1}, ran.err
    assert len(ran.out) > 200
    assert _found(ran.out + ran.err) == []


def _found(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_what_the_kernel_s_files_hold_of_secrets_does_not_come_out(tmp_path: Path) -> None:
    tree.plant(tmp_path)
    (tmp_path / "proc/sys/kernel/hostname").write_text(HOST + "\n")
    line = f"NVRM: GPU at PCI:0000:00:1a: {UUID}\n6,2,101,-;NVRM: GPU Board Serial Number: {SERIAL}\n"
    (tmp_path / "dev/kmsg").write_text(f"6,1,100,-;{line}6,3,102,-;nvidia: {HOST} {ADDRESS} {MAC}\n")
    facts = tree.look(tmp_path)
    assert HOST in render(facts)
    assert _found(render(redact(facts))) == []
