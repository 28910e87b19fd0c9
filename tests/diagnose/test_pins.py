"""What packages of the stack require of each other, judged; and extensions that need a name missing from torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.model.report import Severity
from tests.build import PYTHON, found, healthy, report, roots, seen, torch

if TYPE_CHECKING:
    from gpustack.model.facts import Component, Facts

GONE = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


def packages(pins: dict[str, dict[str, str]], **distributions: str) -> Component:
    named = {name.replace("_", "-"): version for name, version in distributions.items()}
    return seen("packages", {"key": PYTHON, "environment": PYTHON, "distributions": named, "pins": pins})


def extension(path: str, distribution: str | None, *missing: str, **facts: object) -> dict[str, object]:
    held = {"missing": list(missing), "absent": [], "checked": 40, "distribution": distribution, **facts}
    return {"key": path, "path": path, "version": "1.0", "environment": PYTHON, **held}


def with_torch(*others: Component, version: str = "2.9.1") -> Facts:
    return healthy(torch(version, "cu128", "12.8"), *others)


def test_a_server_beside_another_torch_is_a_warning_that_names_both() -> None:
    facts = with_torch(packages({"vllm": {"torch": "==2.8.0"}}, vllm="0.11.0", torch="2.9.1"))
    finding = found(facts, "pin-violated")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert finding.key == f"pin-violated@vllm:{PYTHON}"
    assert finding.title == "vllm 0.11.0 requires torch ==2.8.0, but torch 2.9.1 is installed"
    assert finding.fix is not None
    assert finding.fix.commands[0] == f"{PYTHON} -m pip install vllm==0.11.0 torch==2.8.0"


@pytest.mark.parametrize(
    ("name", "required", "versions", "here", "severity"),
    [
        ("torch", "triton", "==3.5.1", "3.4.0", Severity.WARNING),
        ("torch", "nvidia-cudnn-cu12", "==9.10.2.21", "9.14.0.64", Severity.INFO),
        ("torch", "nvidia-cudnn-cu12", "==9.10.2.21", "9.1.0.70", Severity.WARNING),
        ("torch", "nvidia-cublas-cu12", "==12.8.4.1", "13.0.0.19", Severity.WARNING),
        ("vllm", "transformers", ">=4.55.2", "4.40.0", Severity.WARNING),
        ("vllm", "transformers", "<5,>=4.55.2", "5.1.0", Severity.WARNING),
        ("vllm", "transformers", "==4.55.2", "4.57.0", Severity.INFO),
        ("tensorflow", "numpy", "<2.0,>=1.23", "2.1.0", Severity.WARNING),
        ("jax", "jaxlib", "<=0.9.0,>=0.9.0", "0.8.0", Severity.WARNING),
    ],
)
def test_how_much_a_violation_weighs(name: str, required: str, versions: str, here: str, severity: Severity) -> None:
    listed = {name: "1.0", required.replace("-", "_"): here}
    finding = found(healthy(packages({name: {required: versions}}, **listed)), "pin-violated")
    assert finding is not None
    assert finding.severity is severity
    assert here in finding.title
    assert (finding.fix is None) is (severity is Severity.INFO)


@pytest.mark.parametrize(
    ("name", "required", "versions", "here"),
    [
        ("vllm", "torch", "==2.8.0", "2.8.0+cu128"),
        ("vllm", "torch", "==2.8.0", "2.9.0a0+50eac811a6.nv25.9"),
        ("vllm", "torch", "==2.8.0", "2.9.0.dev20260101"),
        ("torchvision", "torch", "==2.8.0", "2.9.0"),
        ("vllm", "numpy", "<2.3,>=1.26", "2.4.0"),
        ("deepspeed", "transformers", ">=5", "4.0"),
        ("vllm", "torch", "what?", "2.9.0"),
        ("vllm", "torch", "==2.8.0", "no version"),
    ],
)
def test_what_is_not_a_violation_or_belongs_to_another_rule(name: str, required: str, versions: str, here: str) -> None:
    listed = {name: "1.0", required: here}
    assert found(healthy(packages({name: {required: versions}}, **listed)), "pin-violated") is None


def test_a_remark_alone_leaves_the_machine_healthy() -> None:
    facts = healthy(packages({"torch": {"nvidia-nccl-cu12": "==2.27.5"}}, torch="2.9.1", nvidia_nccl_cu12="2.28.3"))
    assert report(facts).verdict.status.value == "healthy"


def test_a_package_whose_files_fit_the_torch_here_is_a_remark() -> None:
    pins = packages({"vllm": {"torch": "==2.9.0"}}, vllm="0.13.0", torch="2.9.1")
    fits = seen("torch-extensions", extension("/s/vllm/_C.abi3.so", "vllm"))
    finding = found(with_torch(pins, fits), "pin-violated")
    assert finding is not None
    assert finding.severity is Severity.INFO
    assert "find all they call" in finding.detail
    far = packages({"vllm": {"torch": "==2.8.0"}}, vllm="0.11.0", torch="2.9.1")
    finding = found(with_torch(far, fits), "pin-violated")
    assert finding is not None
    assert finding.severity is Severity.WARNING


def test_the_name_that_is_missing_is_the_root_and_the_pin_follows_from_it() -> None:
    pins = packages({"vllm": {"torch": "==2.8.0"}}, vllm="0.11.0", torch="2.9.1")
    facts = with_torch(pins, seen("torch-extensions", extension("/s/vllm/_C.abi3.so", "vllm", GONE)))
    assert roots(facts) == ("extension-abi-mismatch",)
    pin = found(facts, "pin-violated")
    assert pin is not None
    assert pin.caused_by == f"extension-abi-mismatch@vllm:{PYTHON}"
    finding = found(facts, "extension-abi-mismatch")
    assert finding is not None
    assert finding.severity is Severity.ERROR
    assert GONE in finding.detail
    assert "2.8.0" in finding.detail


def test_a_file_at_the_top_of_a_site_is_known_by_its_name() -> None:
    path = "/s/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"
    finding = found(with_torch(seen("torch-extensions", extension(path, None, GONE))), "extension-abi-mismatch")
    assert finding is not None
    assert finding.component == "flash-attn"


def test_an_extension_for_gpus_beside_a_torch_for_cpus_is_another_rules_matter() -> None:
    lacking = seen("torch-extensions", extension("/s/x/_C.so", "xformers", absent=["libtorch_cuda.so"], checked=0))
    cpu = healthy(torch("2.9.1", "cpu", None, accelerator="cpu"), lacking)
    assert found(cpu, "extension-abi-mismatch") is None
    finding = found(with_torch(lacking), "extension-abi-mismatch")
    assert finding is not None
    assert "libtorch_cuda.so" in finding.detail


def test_extensions_that_fit_or_could_not_be_compared_say_nothing() -> None:
    fits = extension("/s/a/_C.so", "xformers")
    unread = extension("/s/b/_C.so", "apex", checked=0, unread="libx.so not found")
    rest = {"key": "the rest", "environment": PYTHON, "status": "unknown"}
    facts = with_torch(seen("torch-extensions", fits, unread, rest))
    assert report(facts).verdict.status.value == "healthy"


def runtime(*sonames: str) -> Component:
    return seen("cuda-runtime", *({"key": name, "soname": name, "version": "12.8"} for name in sonames))


def test_an_extension_for_another_cuda_whose_runtime_is_nowhere_is_reported() -> None:
    file = seen("torch-extensions", extension("/s/xformers/_C.so", "xformers", cuda="13"))
    finding = found(with_torch(file, runtime("libcudart.so.12")), "cuda-major-mismatch-wheel")
    assert finding is not None
    assert finding.severity is Severity.WARNING
    assert "CUDA 13" in finding.title
    assert "CUDA 12.8" in finding.title
    assert "libcudart.so.13" in finding.detail


@pytest.mark.parametrize(
    ("cuda", "sonames"), [("12", ("libcudart.so.12",)), ("13", ("libcudart.so.12", "libcudart.so.13")), (None, ())]
)
def test_an_extension_whose_runtime_is_here_is_fine(cuda: str | None, sonames: tuple[str, ...]) -> None:
    file = seen("torch-extensions", extension("/s/xformers/_C.so", "xformers", cuda=cuda))
    assert found(with_torch(file, runtime(*sonames)), "cuda-major-mismatch-wheel") is None
    unasked = seen("torch-extensions", extension("/s/xformers/_C.so", "xformers", cuda="13"))
    assert found(with_torch(unasked), "cuda-major-mismatch-wheel") is None
