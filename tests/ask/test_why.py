"""Whether one thing works with another: well-known facts that anybody can check, asked of the shipped matrix."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as some

from gpustack.errors import UsageError
from gpustack.matrix.subjects import drivers
from gpustack.model.matrix_answer import Change, Compatibility
from tests.ask.questions import MATRIX, judged, verdict, why, written

WORKS, LIMITED, FAILS, UNKNOWN = (one.value for one in Compatibility)
TRUTHS = [
    # a build for CUDA 13 needs branch 580; those for 12 run from 525.60.13 on, with limits below their own driver
    (("torch==2.11.0",), {"driver": "550.54.15"}, FAILS),
    (("torch==2.11.0",), {"driver": "580.65.06"}, WORKS),
    (("torch==2.7.1+cu128",), {"driver": "535.183.01"}, LIMITED),
    (("torch==2.7.1+cu128",), {"driver": "570.124.06"}, WORKS),
    (("torch==2.7.1+cu128",), {"driver": "470.256.02"}, FAILS),
    (("torch==1.13.1+cu117",), {"driver": "450.80.02", "gpu": "Tesla V100"}, LIMITED),
    (("torch==1.13.1+cu117",), {"driver": "470.82.01", "gpu": "A100"}, LIMITED),
    (("torch==1.13.1+cu117",), {"driver": "515.65.01", "gpu": "A100"}, WORKS),
    (("torch==2.7.1+cpu",), {"driver": "384.81"}, WORKS),
    # GPU code: machine code of the same major version, PTX with limits, none at all
    (("torch==2.11.0",), {"gpu": "sm_90"}, WORKS),
    (("torch==2.11.0",), {"gpu": "sm_61"}, FAILS),
    (("torch==2.11.0+cu126",), {"gpu": "GeForce GTX 1080 Ti"}, WORKS),
    (("torch==2.7.1+cu126",), {"gpu": "RTX 5090"}, FAILS),
    (("torch==2.7.1+cu128",), {"gpu": "RTX 5090"}, WORKS),
    (("tensorflow==2.17.0",), {"gpu": "sm_120"}, LIMITED),
    (("torch==2.7.1",), {"gpu": "gfx1100"}, FAILS),
    (("torch==2.4.1+rocm6.1",), {"gpu": "RX 7900 XTX"}, WORKS),
    (("torch==2.4.1+rocm6.1",), {"gpu": "sm_90"}, FAILS),
    (("torch==2.7.1+cpu",), {"gpu": "sm_90"}, FAILS),
    # NVIDIA's monthly images: by minor version, by the compat libraries inside, by GPUs that were dropped or are newer
    (("nvcr.io/nvidia/pytorch:23.11-py3",), {"driver": "535.129.03", "gpu": "H100"}, LIMITED),
    (("nvcr.io/nvidia/pytorch:23.11-py3",), {"driver": "550.54.15", "gpu": "H100"}, WORKS),
    (("nvcr.io/nvidia/pytorch:25.10-py3",), {"driver": "535.129.03", "gpu": "A100"}, LIMITED),
    (("nvcr.io/nvidia/pytorch:25.10-py3",), {"driver": "535.129.03", "gpu": "RTX 3090"}, FAILS),
    (("nvcr.io/nvidia/pytorch:25.10-py3",), {"driver": "535.129.03", "gpu": "sm_80"}, UNKNOWN),
    (("nvcr.io/nvidia/pytorch:25.10-py3",), {"driver": "535.129.03", "gpu": "RTX A6000"}, UNKNOWN),
    (("nvcr.io/nvidia/pytorch:24.05-py3",), {"driver": "570.124.06", "gpu": "RTX 5090"}, FAILS),
    (("nvcr.io/nvidia/pytorch:25.01-py3",), {"driver": "570.124.06", "gpu": "RTX 5090"}, WORKS),
    (("nvcr.io/nvidia/pytorch:25.10-py3",), {"gpu": "V100"}, FAILS),
    (("nvcr.io/nvidia/pytorch:22.05-py3",), {"gpu": "RTX 4090"}, WORKS),
    (("nvcr.io/nvidia/pytorch:24.09-py3",), {"gpu": "A100"}, UNKNOWN),
    (("nvcr.io/nvidia/jax:24.10-py3",), {"gpu": "A100"}, UNKNOWN),
    (("nvcr.io/nvidia/pytorch:27.01-py3",), {"gpu": "A100"}, UNKNOWN),
    # Python and glibc
    (("torch==2.11.0",), {"python": "3.9"}, FAILS),
    (("torch==2.11.0",), {"python": "3.12.3", "glibc": "2.28"}, WORKS),
    (("torch==2.11.0",), {"glibc": "2.17"}, FAILS),
    (("onnxruntime-gpu==1.20.1",), {"python": "3.9"}, FAILS),
    (("vllm==0.9.2",), {"python": "3.13"}, FAILS),
    (("jax==0.7.0",), {"python": "3.10"}, FAILS),
    # the driver itself
    (("nvidia-driver==590.44.01",), {"gpu": "sm_61"}, FAILS),
    (("nvidia-driver==580.95.05",), {"gpu": "sm_61"}, WORKS),
    (("driver==550.54.15",), {"gpu": "RTX 5090"}, FAILS),
    (("nvidia-driver==580.95.05",), {"gpu": "RTX 5090", "kernel_module": "proprietary"}, FAILS),
    (("nvidia-driver==580.95.05",), {"gpu": "GTX 1080", "kernel_module": "open"}, FAILS),
    (("nvidia-driver==580.95.05",), {"gpu": "L40S", "kernel_module": "open"}, WORKS),
    (("nvidia-driver==580.119.02",), {"kernel": "7.0.9"}, FAILS),
    # the toolkit
    (("cuda-toolkit==12.4",), {"gcc": "14"}, FAILS),
    (("cuda-toolkit==12.4",), {"gcc": "13.2"}, WORKS),
    (("cuda-toolkit==12.8",), {"gcc": "14"}, WORKS),
    (("cuda-toolkit==12.4",), {"driver": "535.54.03"}, LIMITED),
    (("cuda==13.0",), {"gpu": "sm_61"}, FAILS),
    (("cuda-toolkit==12.6",), {"gpu": "sm_120"}, FAILS),
    (("cuda-toolkit==12.8.1",), {"gpu": "sm_120"}, WORKS),
    # libraries
    (("onnxruntime-gpu==1.20.1",), {"cudnn": "8"}, FAILS),
    (("onnxruntime-gpu==1.20.1",), {"cudnn": "9.1.0"}, WORKS),
    (("onnxruntime-gpu==1.18.0",), {"cudnn": "8.9"}, WORKS),
    (("tensorflow==2.18.0",), {"cudnn": "8.9"}, FAILS),
    (("torch==2.7.1+cu126",), {"cudnn": "9"}, WORKS),
    (("torch==2.7.1+cu126",), {"cudnn": "9.1"}, FAILS),
    (("cudnn==9.11.0",), {"gpu": "sm_61"}, FAILS),
    (("nvidia-cudnn-cu12==9.10.2.21",), {"gpu": "sm_61", "driver": "535.54.03"}, WORKS),
    (("nvidia-nccl-cu12==2.27.7",), {"driver": "470.256.02"}, FAILS),
    (("tensorrt==10.9.0",), {"gpu": "sm_61"}, FAILS),
    # systems
    (("tensorflow==2.17.0",), {"os": "windows"}, LIMITED),  # wheels exist, but do not depend on the GPU
    (("tensorflow==2.17.0",), {"os": "windows", "gpu": "RTX 3090"}, FAILS),
    (("tensorflow==2.17.0",), {"os": "wsl", "driver": "551.61"}, WORKS),
    (("torch==2.11.0+cu130",), {"os": "windows", "driver": "551.61"}, FAILS),
    (("torch==2.11.0+cu130",), {"os": "windows", "driver": "581.15"}, WORKS),
    (("torch==2.7.1+cu126",), {"os": "wsl", "driver": "537.13"}, LIMITED),
    # JAX is judged with the matching plugin, unless one is named
    (("jax==0.9.0",), {"driver": "550.54.15"}, WORKS),
    (("jax[cuda13]==0.9.0",), {"driver": "550.54.15"}, FAILS),
    (("jax==0.9.0",), {"driver": "470.256.02"}, FAILS),
    # what is built on PyTorch
    (("vllm==0.9.2", "torch==2.8.0"), {}, FAILS),
    (("vllm==0.9.2", "torch==2.7.0"), {}, WORKS),
    (("vllm==0.9.2",), {"gpu": "sm_61"}, FAILS),
    (("flash-attn==2.8.3", "torch==2.8.0"), {"gpu": "A100"}, WORKS),
    (("flash-attn==2.8.3", "torch==2.11.0"), {"gpu": "A100"}, LIMITED),
    (("flash-attn==2.8.3",), {"gpu": "T4"}, FAILS),
    (("torchvision==0.22.1", "torch==2.6.0"), {}, FAILS),
    (("xformers==0.0.30", "torch==2.7.0"), {}, WORKS),
    # a branch as a subject means its newest release, as with --driver
    (("driver==470",), {"gpu": "H100"}, FAILS),
    (("driver==590",), {"gpu": "GTX 1080"}, FAILS),
    (("driver==580",), {"gpu": "GTX 1080"}, WORKS),
    (("nvidia-driver==550", "torch==2.7.1"), {}, LIMITED),
    (("cuda==12.8", "driver==470"), {}, FAILS),
    # what depends on what was given: the driver on the kernel, the GPU on the driver
    (
        ("torch==2.11.0",),
        {"driver": "580", "gpu": "H100", "kernel": "6.8.0-50-generic", "kernel_module": "open"},
        WORKS,
    ),
    (("torch==2.11.0",), {"driver": "580.119.02", "gpu": "H100", "kernel": "7.0.9"}, FAILS),
    (("torch==2.7.1+cu128",), {"driver": "550", "gpu": "RTX 5090"}, FAILS),
    (("torch==2.7.1+cu118",), {"gpu": "sm_120"}, FAILS),
    (("torch==2.11.0",), {"driver": "580", "gpu": "A100", "python": "3.12", "glibc": "2.35", "os": "linux"}, WORKS),
    (("RTX 4090",), {"driver": "550.54.15"}, WORKS),
    (("H100",), {"driver": "470.256.02"}, FAILS),
    # a toolkit beside a build: wheels bring their own CUDA, ONNX Runtime uses the installed one
    (("torch==2.7.1", "cuda==12.8"), {}, WORKS),
    (("torch==2.7.1", "cuda==11.8"), {}, LIMITED),
    (("onnxruntime-gpu==1.20.1", "cuda==12.6"), {}, WORKS),
    (("onnxruntime-gpu==1.20.1", "cuda==11.8"), {}, FAILS),
    (("cudnn==9.10.2", "cuda==12.8"), {}, WORKS),
    (("cudnn==9.10.2", "cuda==13.0"), {}, FAILS),
    (("nccl==2.27.7", "cuda==12.8"), {}, WORKS),
    (("tensorrt==10.9.0", "cuda==12.8"), {}, WORKS),
    (("cuda==12.8", "gcc==13"), {}, WORKS),
    (("gcc==14", "cuda==12.4"), {}, FAILS),
    (("cuda==12.8",), {"driver": "570", "kernel": "6.8", "gcc": "13", "gpu": "H100"}, WORKS),
    (("cuda==12.8",), {"kernel": "6.8"}, UNKNOWN),
    # libraries and servers with what they run on
    (("cudnn==9.10.2",), {"driver": "550.54.15", "gpu": "A100"}, WORKS),
    (("nccl==2.27.7",), {"driver": "550.54.15", "gpu": "H100"}, WORKS),
    (("tensorrt==10.9.0",), {"driver": "570.124.06", "gpu": "L40S"}, WORKS),
    (("tensorrt==10.9.0",), {"driver": "390.157"}, FAILS),
    (("onnxruntime-gpu==1.22.0",), {"driver": "550.54.15", "gpu": "H100", "python": "3.12"}, WORKS),
    (("onnxruntime-gpu==1.22.0",), {"gpu": "RTX 5090"}, LIMITED),
    (("onnxruntime-gpu==1.20.1",), {"gpu": "Tesla K80"}, FAILS),
    (("nccl==2.26.2",), {"gpu": "Tesla K80"}, FAILS),
    (("vllm==0.9.2",), {"gpu": "H100", "driver": "570", "python": "3.12"}, WORKS),
    (("onnxruntime==1.20.1",), {"driver": "550.54.15", "python": "3.12"}, WORKS),
    (("torchvision==0.22.1", "torch==2.7.1"), {"gpu": "A100", "driver": "570"}, WORKS),
    # another vendor's GPU
    (("cuda==12.8",), {"gpu": "gfx1100"}, FAILS),
    (("vllm==0.9.2",), {"gpu": "MI300X"}, FAILS),
    (("driver==580.65.06",), {"gpu": "RX 7900 XTX"}, FAILS),
    (("gfx1100", "cuda==12.8"), {}, FAILS),
    (("rocm==6.1",), {"gpu": "H100"}, FAILS),
    (("torch==2.4.1+rocm6.1",), {"gpu": "gfx1100", "python": "3.12"}, WORKS),
    # no row is about any of what was given
    (("torchvision==0.22.1",), {"gpu": "Tesla K80"}, UNKNOWN),
    (("bitsandbytes==0.45.0",), {"python": "3.7"}, WORKS),  # a wheel for any Python 3, whose metadata states no limit
    (("flash-attn==2.8.3",), {"driver": "390.157"}, UNKNOWN),
    (("torch==2.7.1",), {"gcc": "13"}, UNKNOWN),
    (("vllm==0.9.2",), {"os": "windows"}, FAILS),
    (("jax==0.9.0",), {"os": "windows", "driver": "551.61"}, UNKNOWN),
    (("driver==570.133.20",), {"driver": "470.256.02"}, UNKNOWN),
    # what no row states is unknown, whatever is given
    (("torch==99.0",), {"driver": "550.54.15"}, UNKNOWN),
    (("torch==2.7.1+cu999",), {"driver": "550.54.15"}, UNKNOWN),
    (("torch>=99",), {"driver": "550.54.15"}, UNKNOWN),
    (("no-such-thing==1.0",), {"python": "3.12"}, UNKNOWN),
    (("nvidia-driver==999.10",), {"gpu": "sm_90"}, UNKNOWN),
    (("torch==2.11.0",), {"driver": "999.10"}, UNKNOWN),
]


@pytest.mark.parametrize(("subjects", "given", "expected"), TRUTHS, ids=lambda one: " ".join(one) if one else "-")
def test_what_goes_with_what(subjects: tuple[str, ...], given: dict[str, str], expected: str) -> None:
    answer = why(*subjects, **given)
    assert answer.verdict.value == expected, [one.text for one in answer.reasons]
    written(answer, "matrix")
    if expected != UNKNOWN:
        assert answer.reasons


def test_every_reason_against_something_names_its_row_and_source() -> None:
    for subjects, given, expected in TRUTHS:
        for one in judged(*subjects, **given).reasons:
            if expected == FAILS and one.verdict is Compatibility.INCOMPATIBLE and "build" not in one.text:
                assert one.row is not None, (subjects, given, one.text)
                assert one.source == one.row.source != ""


def test_what_was_not_given_decides_nothing() -> None:
    answer = why("torch==2.11.0", gpu="sm_90")
    assert [one.text.partition(";")[0] for one in answer.reasons] == ["PyTorch 2.11.0 (cu130) needs code for sm_90"]


def test_a_subject_without_a_build_is_what_a_plain_install_takes() -> None:
    assert why("torch==2.7.1", driver="570.124.06").meant.startswith(
        "pytorch 2.7.1 (cu126): the build that a plain pip"
    )
    assert why("torch==2.7.1", driver="570.124.06", os="windows").meant.startswith("pytorch 2.7.1 (cu126)")
    assert why("torch", python="3.12").meant.startswith("pytorch 2.15.0")


def test_a_driver_too_old_has_other_builds_as_alternatives() -> None:
    answer = why("torch==2.11.0", driver="550.54.15", gpu="sm_90", python="3.12")
    wheels = [one.subject for one in answer.alternatives if one.kind is Change.WHEEL]
    assert {"torch==2.11.0+cu126", "torch==2.11.0+cu128"} <= set(wheels)
    first = answer.alternatives[0]
    assert (
        "python -m pip install torch==2.11.0+cu126 --index-url https://download.pytorch.org/whl/cu126" in first.commands
    )
    assert len(first.commands) == 1  # everything there is to type: an alternative that works as well is named beside it
    assert "`uv pip install torch==2.11.0+cu126 --index-url" in first.steps
    assert "conda" not in first.steps  # conda-forge has built 2.11.0 only for CUDA 12.9 and 13.0
    compat = next(one for one in answer.alternatives if one.kind is Change.COMPAT)
    assert "cuda-compat-13-0" in compat.change  # the CUDA 13.0 images list 550 among the branches that they accept


def test_a_compat_package_is_for_data_centre_gpus_and_their_branches_alone() -> None:
    def compats(**given: str) -> list[str]:
        return [one.subject for one in why("torch==2.11.0", **given).alternatives if one.kind is Change.COMPAT]

    assert compats(driver="535.183.01", gpu="H100") == ["cuda-compat-13-0"]
    assert compats(driver="535.183.01", gpu="GeForce RTX 3060") == []
    assert compats(driver="535.183.01", gpu="sm_89") != compats(driver="535.183.01", gpu="GeForce RTX 4090")
    assert compats(driver="537.13", gpu="H100", os="wsl") == []


def test_a_branch_alone_is_its_newest_release() -> None:
    assert "driver 550.163.01" in why("torch==2.11.0", driver="550").reasons[0].text


BAD = [
    {"driver": "banana"},
    {"driver": "5"},
    {"driver": "777"},
    {"gpu": "sm_5"},
    {"gpu": "a potato"},
    {"python": "two"},
    {"python": "2.7.18.1.2"},
    {"glibc": "x"},
    {"cudnn": "nine"},
    {"gcc": "-1"},
    {"kernel_module": "half-open"},
    {"os": "plan9"},
]


@pytest.mark.parametrize("given", BAD, ids=str)
def test_a_flag_that_says_nothing_is_one_clear_line(given: dict[str, str]) -> None:
    with pytest.raises(UsageError) as error:
        why("torch==2.11.0", **given)
    assert "\n" not in str(error.value)
    assert str(next(iter(given.values()))) in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "torch=2.7", "torch==", "==2.0", "torch @ https://example.org/x.whl", "a b c", f"gcc=={9:05000}"]
)
def test_a_subject_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        why(text, driver="550.54.15")


def test_one_thing_is_asked_about_at_a_time() -> None:
    with pytest.raises(UsageError, match="same thing"):
        why("torch==2.7.1", "pytorch==2.6.0")
    with pytest.raises(UsageError, match="different values for nvidia-driver"):
        why("torch==2.7.1", "driver==550.54.15", driver="470.256.02")


def test_a_branch_of_which_no_newest_release_is_known_is_refused_as_behind_the_option() -> None:
    for subject, given in (("driver==777", {"gpu": "H100"}), ("driver==777", {"os": "windows"})):
        with pytest.raises(UsageError, match="give it in full"):
            why(subject, **given)


NAMES = (
    "torch",
    "jax",
    "tensorflow",
    "onnxruntime-gpu",
    "vllm",
    "cuda-toolkit",
    "nvidia-driver",
    "cudnn",
    "flash-attn",
)
NUMBERS = some.lists(some.integers(0, 60), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))

SMALL = some.integers(0, 20)


@drawn(
    name=some.sampled_from(NAMES),
    version=NUMBERS,
    driver=some.none() | some.builds("{}.{:02d}.{:02d}".format, some.integers(300, 700), some.integers(0, 200), SMALL),
    gpu=some.none() | some.sampled_from([f"sm_{one.major}{one.minor}" for one in MATRIX.architectures]),
    python=some.none() | some.integers(6, 16).map("3.{}".format),
    cudnn=some.none() | NUMBERS.filter(lambda text: text.count(".") < 4),
    gcc=some.none() | some.integers(4, 20).map(str),
    os=some.none() | some.sampled_from(["linux", "windows", "wsl"]),
)
def test_any_question_has_an_answer(name: str, version: str, **given: str | None) -> None:
    answer = why(f"{name}=={version}", **{flag: said for flag, said in given.items() if said})
    written(answer, "matrix")
    order = list(Compatibility)
    told = [one.verdict for one in answer.reasons]
    assert told
    if answer.verdict is not Compatibility.UNKNOWN:
        assert answer.verdict in told
        assert Compatibility.INCOMPATIBLE not in told or answer.verdict is Compatibility.INCOMPATIBLE
    better = [order.index(one.verdict) for one in answer.alternatives]
    assert all(rank < order.index(answer.verdict) for rank in better)


def test_more_drivers_never_make_it_worse() -> None:
    """A newer driver runs what an older one runs, as long as it supports the GPU."""
    rank = {WORKS: 2, LIMITED: 1, FAILS: 0}
    for subject in ("torch==2.11.0", "torch==2.7.1+cu128", "cuda-toolkit==12.4", "tensorflow==2.17.0", "vllm==0.9.2"):
        found = [verdict(subject, driver=str(one.last)) for one in drivers.branches(MATRIX) if one.last]
        ranks = [rank[one] for one in found]
        assert ranks == sorted(ranks), (subject, found)
        assert ranks[-1] == 2
