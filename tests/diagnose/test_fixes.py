"""Rules for every fix: it can be typed as it is, harms no remote server, and downloads nothing from unknown sources."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from gpustack.ask.commands import compat
from gpustack.ask.given import Given, apply
from gpustack.diagnose import fixes
from gpustack.diagnose.change_sets import FAMILY, place
from gpustack.diagnose.driver_packages import DISTRIBUTIONS
from gpustack.diagnose.engine import judge
from gpustack.diagnose.machine.values import copies, table
from gpustack.imports import load_texts
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, generated, torch
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.command import REBOOT, Command, apart, blanks
from gpustack.model.facts import Facts, Host, Message
from gpustack.model.report import Purpose
from tests.build import PYTHON, kernel, merged, report, seen
from tests.diagnose.test_rules import MACHINES, judged
from tests.wide import wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.model.report import Finding, Report

MATRIX = Matrix()
SYSTEMS = ("debian", "rocky", "fedora", "azurelinux", "opensuse-leap", "sles", "arch", "pop", "linuxmint", "gentoo")
INSTALLS = re.compile(r"(?:apt-get|dnf|tdnf|zypper|pacman)(?: -\S+)* (?:install|-S\w*)((?: [^\s&|;]+)+)")
OF_A_LISTING = {"branch": r"\d{3}", "cuda": r"\d+-\d+", "gcc": r"\d+", "kernel": r"[\w.+~$()-]+"}
# What our commands name to pip besides what is listed as installed: each is a distribution of the project it names.
KNOWN = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "jax", "jaxlib", "tensorflow", "tensorflow-cpu", "tensorflow-rocm"),
        *("onnxruntime", "onnxruntime-gpu", "onnxruntime-rocm", "bitsandbytes", "cuda-core", "cuda-bindings", "numba"),
        "numba-cuda",
        *("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "ctranslate2", "xgboost", "lightgbm", "triton"),
        *("paddlepaddle", "paddlepaddle-gpu", "llama-cpp-python", "mxnet", "mxnet-cu112", "cupy-cuda101"),
        *("flash-attn", "flashinfer-python", "vllm", "sglang", "sgl-kernel", "xformers", "lmdeploy", "deepspeed"),
        *("auto-gptq", "autoawq", "exllamav2", "mamba-ssm", "causal-conv1d", "torch-scatter", "torch-sparse"),
        *("torch-cluster", "torch-spline-conv", "torchao", "torchtext", "torchcodec", "torch-tensorrt", "natten"),
        *("gsplat", "spconv", "horovod", "nixl", "lmcache", "sageattention", "mmcv", "mmcv-full", "fbgemm-gpu"),
        *("transformer-engine", "tensorrt", "tensorrt-llm", "open3d", "xinference"),
        *("numpy", "setuptools", "wheel", "packaging", "ninja", "openmim"),
    }
)
OF_NVIDIA = re.compile(
    r"nvidia-[a-z]+(?:-[a-z]+)*-cu\d+|jax-(?:cuda\d+|rocm\d+)-(?:plugin|pjrt)|jax-cuda\d+-.*"
    r"|nvidia-(?:cublas|cuda-runtime|cuda-nvrtc|cufft|cufile|curand|cusolver|cusparse|nvjitlink)"  # from CUDA 13 on
)
VALUED = ("--index-url", "--extra-index-url", "--no-binary", "-i", "-f")
# Packages that no distribution except Arch has itself; Ubuntu has those of the driver, too.
NVIDIAS = re.compile(
    r"install\b.*\b(nvidia-open|nvidia-container-toolkit|nvidia-driver-cuda|cuda-(libraries|toolkit)-\d+)"
)
DRIVERS = re.compile(
    r"install\b.*\b(nvidia-(driver|fabricmanager)-\d+|libnvidia-compute-\d+|ubuntu-drivers)|ubuntu-drivers"
)
HARM = re.compile(r"\b(poweroff|shutdown|halt|mkfs|snap remove|dist-upgrade|full-upgrade|chmod|rm|dd)\b(?! --rm)")


def fixes_of(made: Report) -> Iterator[Finding]:
    return (finding for finding in made.findings if finding.fix)


def commands(facts: Facts) -> list[str]:
    return [one for finding in report(facts, Purpose.ANY).findings if finding.fix for one in finding.fix.commands]


def words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def to_pip(command: str) -> Iterator[str]:
    """Yield what a command has pip install or remove, by name."""
    asked = False
    before = ""
    for word in words(command):
        if word in {"&&", "||", ";", "|"}:
            asked = False
        elif asked and not word.startswith("-") and before not in VALUED:
            yield re.split(r"[\[=<>!~]", word)[0].lower().replace("_", "-")
        asked = asked or (word in {"install", "uninstall"} and before == "pip")
        before = word


def pip_is_given_no_name_but_known_and_installed_ones(facts: Facts, finding: Finding, typed: Sequence[str]) -> None:
    listed = {name for copy in copies(facts, "packages") for name in table(copy.facts, "distributions")}
    for command in typed:
        named = {name for name in to_pip(command) if not OF_NVIDIA.fullmatch(name)}
        assert named <= KNOWN | {one.lower().replace("_", "-") for one in listed}, (finding.id, command)


def what_harms_is_not_to_be_typed_unread(_: Facts, finding: Finding, typed: Sequence[str]) -> None:
    for command in typed:
        bare = command
        assert not HARM.search(bare.replace("--rm", "").replace("wsl.exe --shutdown", "")), (finding.id, command)
        assert "reboot" not in bare or bare == REBOOT, (finding.id, command)
        assert not re.search("purge.*'[^']*[*]", command), (finding.id, command)
        assert "--gpureset" not in bare or "--gpu " in bare, (finding.id, command)
        assert "export LD_LIBRARY_PATH=" not in bare or "$LD_LIBRARY_PATH" in bare, (finding.id, command)
    assert REBOOT not in typed[:-1], finding.id


def every_command_is_one_and_no_comment(_: Facts, finding: Finding, typed: Sequence[str]) -> None:
    for command in (*typed, *([finding.fix.verify] if finding.fix and finding.fix.verify else [])):
        assert words(command) == shlex.split(command), (finding.id, command)
    starts = [one for one in typed if one.startswith("docker run ")]
    assert len(starts) <= 1, (finding.id, starts)


def a_package_of_nvidia_alone_is_said_to_be_in_its_repository(
    facts: Facts, finding: Finding, typed: Sequence[str]
) -> None:
    for command in typed:
        if NVIDIAS.search(command) and "pacman" not in command:
            assert finding.fix is not None
            assert "NVIDIA's repository" in finding.fix.text, (finding.id, command)
        if DRIVERS.search(command):
            said = finding.fix is not None and "for Ubuntu releases that package this branch" in finding.fix.text
            assert fixes.ubuntu(facts) or (fixes.manager(facts) is None and said), (finding.id, command)


def it_can_be_typed_as_it_stands(_: Facts, finding: Finding, typed: Sequence[str]) -> None:
    """No blank for a person to fill in, and no matrix query instead of a change."""
    assert finding.fix is not None
    for command in filter(None, (*typed, finding.fix.verify)):
        assert not re.search(r"…|\.\.\.|<[a-z]+>", command), (finding.id, command)
        assert not list(blanks([Command(command)])), (finding.id, command)
    assert not [one for one in typed if re.match("gpustack (matrix|explain)", one)], (finding.id, typed)


def unpinned(command: str) -> Iterator[str]:
    """Yield what a command installs in whatever release is the newest that day."""
    asked = False
    before = ""
    for word in words(command):
        asked = asked and word not in {"&&", "||", ";", "|"}
        if asked and not word.startswith("-") and before not in VALUED and not re.search("[=<>~]", word):
            yield word
        asked = asked or (word in {"install", "add"} and before in {"pip", "poetry", "--pypi", "conda"})
        before = word


def known_pin(name: str, facts: Facts, environment: str | None) -> bool:
    """Return whether the matrix knows a release of a distribution that fits this machine."""
    plain = name.partition("[")[0]
    here = place(facts, environment)
    if plain in FAMILY:
        return here.release is not None and any(
            one.torch.holds(here.release) and (here.python is None or one.python.holds(here.python))
            for one in FAMILY[plain](MATRIX)
        )
    if plain.startswith("nvidia-"):
        torch_ = generated.release_of(MATRIX, "torch", here.release) if here.release else None
        return torch_ is not None and torch_.pin(plain, python=here.python) is not None
    known = {
        "torch": [one.pythons for one in torch.releases(MATRIX)],
        "jax": [one.pythons for one in frameworks.jax_releases(MATRIX)],
        "tensorflow": [one.pythons for one in frameworks.tensorflow_releases(MATRIX)],
        "onnxruntime-gpu": [one.pythons for one in frameworks.onnxruntime_releases(MATRIX)],
    }
    return any(here.python in pythons for pythons in known.get(plain, ()))


def what_the_matrix_can_pin_is_pinned(facts: Facts, finding: Finding, typed: Sequence[str]) -> None:
    for command in typed:
        python = next(iter(words(command)), "")
        at = python if any(one.python == python for one in facts.environments) else None
        loose = [one for one in unpinned(command) if known_pin(one, facts, at)]
        assert not loose or "wsl.exe" in command, (finding.id, command)


def hold(facts: Facts, made: Report) -> None:
    """Raise AssertionError where a fix in the report breaks one of these rules."""
    for finding in fixes_of(made):
        typed = finding.fix.commands if finding.fix else ()
        pip_is_given_no_name_but_known_and_installed_ones(facts, finding, typed)
        what_harms_is_not_to_be_typed_unread(facts, finding, typed)
        every_command_is_one_and_no_comment(facts, finding, typed)
        a_package_of_nvidia_alone_is_said_to_be_in_its_repository(facts, finding, typed)
        it_can_be_typed_as_it_stands(facts, finding, typed)
        what_the_matrix_can_pin_is_pinned(facts, finding, typed)


@wide
def test_every_fix_keeps_to_this_on_every_machine() -> None:
    """On all recorded and invented machines and a sample of the cases; test_cases.py checks all cases."""
    for facts, made in judged():
        hold(facts, made)


def listing(system: str) -> re.Pattern[str]:
    """Return the names of packages that a distribution and NVIDIA's repository for it are recorded to have."""
    rows = [one for one in MATRIX.table("distributions")["documented"] if system in one["of"]]
    names = (re.escape(name).replace(r"\{", "{").replace(r"\}", "}") for one in rows for name in one["names"])
    return re.compile("|".join(name.format(**OF_A_LISTING) for name in names) or "(?!)")


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_fix_keeps_to_this_on_every_distribution(system: str) -> None:
    there, named = listing(system), set()
    for one in MACHINES:
        facts = merged(one, kernel(os_id=system))
        made = report(facts, Purpose.ANY)
        hold(facts, made)
        for finding in fixes_of(made):
            for typed in INSTALLS.findall(" && ".join(finding.fix.commands if finding.fix else ())):
                named |= {name for name in typed.split() if not name.startswith("-")}
    assert not [name for name in named if not there.fullmatch(name)]
    assert named or system == "gentoo"  # whose packages are not recorded: no command names one there


@pytest.mark.parametrize("system", ["ubuntu-24.04", "debian-13", "rocky-9", "rhel-10", "fedora-42", "sles-15", "arch"])
def test_drivers_compilers_and_toolkits_are_named_as_the_listing_has_them(system: str) -> None:
    there = listing(DISTRIBUTIONS[system.partition("-")[0]])
    for gpu in ("V100", "RTX 5090", "H100"):
        facts = apply(Given(os=system, gpu=gpu, kernel="6.8.0-50-generic"), None, MATRIX)
        typed = [fixes.headers(facts), *fixes.older_gcc(facts, MATRIX, 13), *compat("cuda-compat-12-8", facts)]
        typed += [one for branch in (535, 570, 580, 595) for one in fixes.driver(facts, MATRIX, branch=branch)]
        named = [name for found in INSTALLS.findall(" && ".join(apart(typed)[0])) for name in found.split()]
        assert len(named) > 2
        assert not [name for name in named if not name.startswith("-") and not there.fullmatch(name)]


@pytest.mark.parametrize("system", ["ubuntu", "rocky", "arch", "sles"])
def test_a_driver_of_the_runfile_is_removed_before_a_package_is_installed(system: str) -> None:
    """Packages over a .run installation leave two versions of the libraries, and neither removes the other."""
    facts = apply(Given(os=system, gpu="RTX 4090"), None, MATRIX)
    ran = seen("nvidia-driver", {"packages": [{"kind": "runfile", "name": "nvidia-installer", "version": None}]})
    typed, by_hand = apart(fixes.driver(merged(facts, ran), MATRIX, branch=580))
    assert typed[0] == "sudo nvidia-uninstall"
    assert len(typed) > 1
    assert ".run installer" in by_hand
    assert "sudo nvidia-uninstall" not in fixes.driver(facts, MATRIX, branch=580)


def test_inside_wsl_nothing_of_the_driver_for_linux_is_installed() -> None:
    for facts in MACHINES:
        inside = dataclasses.replace(facts, host=dataclasses.replace(facts.host, wsl=True))
        for command in commands(inside):
            assert not re.search(r"nvidia-driver|libnvidia-compute|ubuntu-drivers", command), command
            assert "nvidia-open" not in command, command


def respelled(held: object, before: str, after: str) -> object:
    """Return the same facts with one text replaced by another."""
    if isinstance(held, str):
        return held.replace(before, after) if type(held) is str else held
    if isinstance(held, Mapping):
        return {respelled(key, before, after): respelled(value, before, after) for key, value in held.items()}
    if isinstance(held, tuple):
        return tuple(respelled(one, before, after) for one in held)
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        fields = {one.name: respelled(getattr(held, one.name), before, after) for one in dataclasses.fields(held)}
        return dataclasses.replace(held, **fields)
    return held


@pytest.mark.parametrize(("before", "after"), [(PYTHON, "/home/me/my project/bin/python"), ("/etc/x", "/etc/a b/x")])
def test_a_path_with_a_space_is_one_word_for_the_shell(before: str, after: str) -> None:
    elsewhere = [facts for one in MACHINES if isinstance(facts := respelled(one, before, after), Facts)]
    spoken = [one for facts in elsewhere for one in commands(facts) if after in one]
    assert spoken
    for command in spoken:
        assert any(word.startswith(after) for word in words(command)), command


HOSTILE = "a b; touch x"


def test_no_value_of_a_message_is_a_command_of_its_own() -> None:
    told = {
        (one.kind, name, tuple(one.values.items())): {**one.values, name: HOSTILE}
        for one in patterns(MATRIX)
        for name in one.names
    }
    for (kind, *_), values in told.items():
        message = Message(kind=kind, line="a line", origin="a.txt", values=values)
        for command in commands(Facts(taken="", host=Host(), messages=(message,))):
            assert "touch" not in words(command), (message.kind, command)


@pytest.mark.parametrize(
    ("cards", "module", "none"),
    [
        ({"1b06": "GeForce GTX 1080 Ti", "2b85": "GeForce RTX 5090"}, "Open Kernel Module for x86_64  575.57.08", True),
        ({"102d": "Tesla K80", "2b85": "GeForce RTX 5090"}, "x86_64 Kernel Module  470.256.02", True),
        ({"102d": "Tesla K80", "2684": "GeForce RTX 4090"}, "x86_64 Kernel Module  550.54.14", True),
        (
            {"1b06": "GeForce GTX 1080 Ti", "2684": "GeForce RTX 4090"},
            "Open Kernel Module for x86_64  575.57.08",
            False,
        ),
        ({"2b85": "GeForce RTX 5090", "2684": "GeForce RTX 4090"}, "x86_64 Kernel Module  575.57.08", False),
    ],
)
def test_for_gpus_that_no_driver_runs_together_none_is_advised(
    cards: dict[str, str], module: str, *, none: bool
) -> None:
    lines = [f"0{at}:00.0 3D controller [0302]: NVIDIA Corporation X [{name}] [10de:{device}]"
             for at, (device, name) in enumerate(cards.items(), 1)]  # fmt: skip
    pasted = "\n".join([*lines, f"NVRM: loading NVIDIA UNIX {module}", "No devices were found", "Ubuntu 24.04"])
    report = judge(load_texts({"paste.txt": pasted.encode()}, MATRIX), MATRIX)
    said = " ".join(f"{one.fix.text} {' '.join(map(str, one.fix.commands))}" for one in report.findings if one.fix)
    assert ("No driver runs" in said) == none
    assert ("sudo apt-get" in said) != none
