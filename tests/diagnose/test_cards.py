"""What several probes report about one GPU is shown together in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack.diagnose.environments import whole
from gpustack.matrix import Matrix
from gpustack.snapshots import read
from tests.build import PCI, healthy, log, report

RECORDED = Path(__file__).parent.parent / "hosts" / "recorded-h200.json"


def test_a_recorded_gpu_has_all_that_is_known_of_it() -> None:
    facts = read(json.dumps(json.loads(RECORDED.read_text("utf-8"))["facts"]))
    (gpu,) = [one for one in report(facts).components if one.id == "gpu"]
    (card,) = gpu.instances
    assert gpu.facts == card.facts
    assert card.facts["tensor_cores"] == {"generation": 4, "dtypes": ("tf32", "fp16", "bf16", "fp8", "int8")}
    assert card.facts["memory_kind"] == {"type": "HBM3e", "bandwidth_gb_s": 4814.3}
    assert card.facts["cuda"]["sms"] == 132  # type: ignore[index, call-overload]  # as recorded
    assert card.facts["xids"] == ()
    assert card.facts["name"] == "NVIDIA H200"


def test_the_kernel_logs_errors_of_a_gpu_are_shown_with_it_and_what_nvml_said_is_kept() -> None:
    facts = healthy(log(xids=[{"pci": PCI, "code": 94, "text": "x"}, {"pci": "0000:99:00.0", "code": 79, "text": "y"}]))
    (gpu,) = [one for one in whole(facts, Matrix()) if one.id == "gpu"]
    before = next(one for one in facts.components if one.id == "gpu").instances[0].facts
    assert [event["code"] for event in gpu.instances[0].facts["xids"]] == [94]  # type: ignore[union-attr, index, call-overload]  # as told
    assert before.items() <= gpu.instances[0].facts.items()


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("NVIDIA H200", "HBM3e"),
        ("NVIDIA A100-SXM4-80GB", "HBM2e"),
        ("NVIDIA A10", "GDDR6"),
        ("NVIDIA A1000", None),
        ("NVIDIA L4", "GDDR6"),
        ("a card nobody knows", None),
    ],
)
def test_the_kind_of_memory_goes_by_whole_words(product: str, kind: str | None) -> None:
    assert Matrix().memory_of(product) == kind
