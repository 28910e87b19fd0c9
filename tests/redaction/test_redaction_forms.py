"""The table of forms: each example is removed, each near-miss stays, the page says the same, and no pump takes long."""

from __future__ import annotations

import re
import runpy
import time
from dataclasses import replace
from itertools import pairwise
from math import log2
from pathlib import Path

import pytest

from gpustack.model.facts import Component, Facts, Host, Layer, Status
from gpustack.redaction import MOST_LINE, redact
from gpustack.redaction.form import FORMS, Form, find, shape
from tests.counting import each
from tests.patience import in_time
from tests.wide import WIDE, wide

REPO = Path(__file__).resolve().parents[2]
PAGE = runpy.run_path(str(REPO / "docs/redaction.py"))
examples, stays, bare, secrets = (PAGE[name] for name in ("examples", "stays", "bare", "secrets"))
EXAMPLES = [(form, example) for form in FORMS for example in examples(form)]
STAYS = [(form, stay) for form in FORMS for stay in stays(form)]
INVISIBLE = (
    "\u200b",
    "\u2060",
    "\u00ad",
    "\u3164",
    "\ufe0f",
    "\U000e0041",
    "\x1b[0m",
    "\x00",
    "\\u200b",
    "\\x1b[31m",
    "&#8203;",
    "%E2%80%8B",
)
# What must remain although it resembles a secret: it is next to nothing that a form knows.
HARMLESS = """
NVIDIA H100 80GB HBM3
nvidia-smi 580.95.05
CUDA 13.0, cuDNN 9.14.0.64, NCCL 2.27.7
0000:01:00.0
00000000:C1:00.0
6.8.0-50-generic #51-Ubuntu SMP
5.14.0-427.13.1.el9_4.x86_64
torch 2.11.0+cu130 (git 70d99e998b4955e0049d13a98d77ae1b14db1f45)
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
ghcr.io/org/image:v1.2@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
/usr/local/cuda-13.0/lib64:/usr/lib/x86_64-linux-gnu
mlx5_0, eth0, ib0, nvme0n1, card0, renderD128
sm_90a, compute_100f
[ 12.345678] NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python3
LD_LIBRARY_PATH=/opt/cuda/lib64
NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=mlx5_0:1
vBIOS 96.00.A5.00.01
the host and the device, on node 0 of 4
torch.cuda.OutOfMemoryError: tried to allocate 2.00 GiB
version `GLIBCXX_3.4.32' not found
gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0
/workspace/vllm/vllm/engine.py:42
model.layers.0.self_attn.q_proj.weight
2026-11-21T10:02:00+00:00
token throughput: 1234.5 tokens/s
pass 3 of 5
RuntimeError: CUDA error: no kernel image is available for execution on the device
""".strip().splitlines()
SECONDS, MEGABYTE = 2.0, 1_000_000
LEAST, DOUBLINGS, MOST_EXPONENT, FLOOR, MOST_PUMPS = 2_000, 3, 1.2, 0.002, 90 if WIDE else 30
ATTEMPTS = 5
ENOUGH = 0.25  # seconds for the longest text: out of all proportion, whatever the shorter one took


def shown(text: str) -> str:
    """Return the redacted form of one text under a name that reveals nothing."""
    one = Component(id="x", layer=Layer.DRIVER, vendor="v", status=Status.PRESENT, facts={"said": text})
    return str(redact(Facts(taken="", host=Host(), components=(one,))).components[0].facts["said"])


def of(form: Form, example: str) -> str:
    return f"{form.name}: {example[:60]}"


def test_the_table_has_enough_and_each_row_has_both_sides() -> None:
    assert len(EXAMPLES) >= 150
    assert {form.name for form in FORMS} == set(PAGE["TRIED"])
    assert len(PAGE["TRIED"]) == len(FORMS)
    assert [form.name for form in FORMS if not examples(form) or not form.context] == []
    assert [of(*one) for one in EXAMPLES if not secrets(one[1])] == []


@each(("form", "example"), EXAMPLES)
def test_what_is_marked_in_an_example_vanishes_and_nothing_else(form: Form, example: str) -> None:
    clean = shown(bare(example))
    assert [secret for secret in secrets(example) if secret in clean] == []
    kept = [part.partition("»")[2] or part for part in example.split("«")]
    assert [part for part in kept if part.strip() and part.strip() not in clean and not secrets(f"«{part}»»")] == []
    low = bare(example).lower()
    assert any(form.find(bare(example), ())), "its own expression finds it"
    assert not form.hints or any(hint in low for hint in form.hints)
    assert shown(clean) == clean


@each(("form", "stay"), STAYS)
def test_what_only_looks_alike_stays(form: Form, stay: str) -> None:
    assert shown(stay) == stay, form.name


@pytest.mark.parametrize("text", HARMLESS)
def test_what_a_diagnosis_needs_stays(text: str) -> None:
    assert shown(text) == text


@each("between", INVISIBLE, ids=ascii)
@each(
    "secret",
    ["hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "alice.b@corp.example", "GPU-451607bd-f6e8-69f7-4b69-d39bbe37fccb"],
)
def test_a_secret_that_something_invisible_splits_vanishes(secret: str, between: str) -> None:
    split = f"{secret[:9]}{between}{secret[9:]}"
    clean = shown(f"before {split} after")
    assert secret[:8] not in clean
    assert secret[-8:] not in clean
    assert (clean.startswith("before "), clean.endswith(" after")) == (True, True)


def test_what_is_invisible_stays_where_it_hides_nothing() -> None:
    assert shown("/opt/cuda\u200b/lib \x1b[31mred") == "/opt/cuda\u200b/lib \x1b[31mred"


def test_the_page_is_what_the_table_says_today() -> None:
    assert PAGE["page"]() == (REPO / "docs/redaction.md").read_text("utf-8"), (
        "the table has changed: python docs/redaction.py"
    )


def pumps(form: Form) -> list[str]:
    """Return what may make its expression slow: pieces of its examples, above all those that it begins with."""
    found = [piece for sign in "a0.-:/ =" for piece in (sign, f"a{sign}")]
    for text in map(bare, examples(form)):
        low = text.lower()
        for at in (low.find(hint) for hint in form.hints if hint in low):
            found += [text[at : at + length] for length in (2, 3, 4, 8)] + [text[max(0, at - 2) : at + 5]]
        found += [text, text.replace(" ", ""), text[: len(text) // 2], *re.findall(r"[A-Za-z-]+\W?", text)[:6]]
        found += [head[-12:] for head, sign, _ in [example.partition("«") for example in examples(form)] if sign]
    return list(dict.fromkeys(filter(None, found)))[:MOST_PUMPS]


def seconds(text: str, form: Form, runs: int = 1) -> float:
    """Return the minimum CPU time of several runs."""
    times = []
    for _ in range(runs):
        begun = time.process_time()
        for _found in form.find(text, ()):
            pass
        times.append(time.process_time() - begun)
    return min(times)


def grows(form: Form, pump: str) -> bool:
    """Return whether the time grows faster than the text whenever measured; what is below the floor is fast enough."""
    first, last = ((pump * (size // len(pump) + 1))[:size] for size in (LEAST, LEAST << DOUBLINGS))
    once = seconds(last, form)
    if not FLOOR < once < ENOUGH:
        return once >= ENOUGH
    measured = ((seconds(first, form, 7), seconds(last, form, 5)) for _ in range(ATTEMPTS))  # where all is busy
    return all(high > FLOOR and log2(high / max(low, 1e-6)) / DOUBLINGS > MOST_EXPONENT for low, high in measured)


@wide
@in_time
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_twice_the_text_takes_twice_the_time(form: Form) -> None:
    """In CI on 30 texts for each, with ``GPUSTACK_WIDE=1`` on 90."""
    assert [pump for pump in pumps(form) if grows(form, pump)] == []


SLOW = (
    ("user and password of an address", r"://(?P<secret>[^\s@]*)@"),
    ("JWT", r"(?P<secret>eyJ[\w-]{8,}\.[\w-]{8,})"),
    ("assignment", r"[\w.-]+\s*(?:=)(?P<secret>\S+)"),
    ("e-mail address", r"(?P<email>[\w.+-]+@(?:[\w-]+\.)+[a-z]+)"),
)


@wide
@in_time
@pytest.mark.parametrize(("name", "pattern"), SLOW if WIDE else SLOW[:2])
def test_an_expression_that_is_not_in_proportion_is_noticed(name: str, pattern: str) -> None:
    """In CI two of the four, with ``GPUSTACK_WIDE=1`` all."""
    form = replace(next(form for form in FORMS if form.name == name), find=shape(pattern))
    assert any(grows(form, pump) for pump in pumps(form))


PUMPS = (
    "/home/a",
    "--token ",
    "token=",
    "://",
    "a@",
    "a",
    "1.",
    "f:",
    " ",
    "eyJ",
    "user:",
    '"',
    "=",
    "a.",
    "A ",
    "\u200b",
    "node7 ",
    "-----BEGIN PRIVATE KEY-----",
    "host=",
    "/scratch/",
    "~a",
)


@in_time
@pytest.mark.timeout(60)
@pytest.mark.parametrize("pump", PUMPS, ids=ascii)
def test_a_line_of_a_megabyte_is_redacted_in_time(pump: str) -> None:
    line = pump * (MEGABYTE // len(pump))
    begun = time.process_time()
    clean = shown(line)
    assert time.process_time() - begun < SECONDS
    assert "more letters were left out]" in clean or len(clean) < MOST_LINE


@in_time
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pump",
    ["/home/a{}\n", "--token a{}\n", "user=al{}x\n", "node{}x:1:2 [0] x\n", "https://u{}:p@h{}/\n", "10.2.3.{}:1\n"],
)
def test_many_lines_take_as_long_as_their_number(pump: str) -> None:
    """Whatever they show to be a name is then removed everywhere."""

    def took(lines: int) -> float:
        text = "".join(pump.replace("{}", str(number)) for number in range(lines))
        begun = time.process_time()
        shown(text)
        return time.process_time() - begun

    first, last = min(took(500) for _ in range(2)), min(took(4000) for _ in range(2))
    assert log2(last / max(first, FLOOR)) / 3 <= MOST_EXPONENT, (first, last)


def test_no_secret_is_found_within_another() -> None:
    found = find("https://bob:hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345@h/x?token=abc", ())
    assert all(one.end <= other.start for one, other in pairwise(found))
