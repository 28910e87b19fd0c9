"""Every error number of NVML and CUDA at each stage: the report names it, and never says healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.model.facts import Status
from gpustack.model.report import Health, Severity
from tests.counting import each
from tests.fakes.nvml import CODES
from tests.told import load

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, JsonValue

MATRIX = Matrix()
CUDA = sorted({*load("driver/libcuda.py")["ERRORS"], *MATRIX.cuda_codes} - {0})
SPOKEN = frozenset({15, 16})  # lost and reset required have rules of their own


def sick(well: Facts, component: str, **facts: JsonValue) -> Facts:
    """Return the facts of the healthy machine, on which one component has failed with these words."""
    components = tuple(
        replace(
            one,
            status=Status.FAILED,
            instances=tuple(
                replace(copy, status=Status.FAILED, facts={**_kept(copy.facts, component), **facts})
                for copy in one.instances
            ),
        )
        if one.id == component
        else one
        for one in well.components
    )
    return replace(well, components=components)


def _kept(facts: Mapping[str, JsonValue], component: str) -> Mapping[str, JsonValue]:
    return {} if component == "gpu" else {name: facts[name] for name in facts if name not in {"devices", "gpu_count"}}


def told(facts: Facts) -> tuple[Health, str]:
    """Return the verdict and the text of all errors, warnings and open questions."""
    report = judge(facts, MATRIX)
    findings = [one for one in report.findings if one.severity is not Severity.INFO]
    return report.verdict.status, " ".join(f"{one.title} {one.detail}" for one in findings)


def test_without_any_code_the_machine_is_healthy_and_nothing_is_said(well: Facts) -> None:
    assert told(well) == (Health.HEALTHY, "")


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_nvml_at_its_start(well: Facts, code: int) -> None:
    status, said = told(sick(well, "nvml", code=code, code_name=None, error=f"NVMLError: {code}"))
    assert status in {Health.BROKEN, Health.UNKNOWN}
    assert str(code) in said or (MATRIX.nvml_codes.get(code) and MATRIX.nvml_codes[code].name in said)


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_nvml_at_a_gpu(well: Facts, code: int) -> None:
    status, said = told(sick(well, "gpu", index=0, code=code, error=f"NVMLError_Number{code}"))
    assert status is not Health.HEALTHY
    assert f"Number{code}" in said or code in SPOKEN


@each("code", CUDA)
def test_every_code_of_cuda_at_its_start(well: Facts, code: int) -> None:
    name = f"CUDA_ERROR_OF_{code}"
    status, said = told(sick(well, "libcuda", cu_init=code, cu_init_name=name, code=code, error=f"cuInit: {name}"))
    assert status in {Health.BROKEN, Health.UNKNOWN}
    assert str(code) in said


@each("code", CUDA)
@each("stage", ["cuDeviceGetCount", "cuDeviceGet"])
def test_every_code_of_cuda_after_its_start(well: Facts, stage: str, code: int) -> None:
    status, said = told(sick(well, "libcuda", cu_init=0, error=f"{stage}: CUDA_ERROR_OF_{code}"))
    assert status in {Health.BROKEN, Health.UNKNOWN}
    assert f"{stage}: CUDA_ERROR_OF_{code}" in said
