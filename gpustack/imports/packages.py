"""Packages as their managers list them: pip, uv and conda."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpustack.imports import devices, system_packages
from gpustack.imports.gathered import HERE, Gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.model.facts import JsonValue

FROZEN = re.compile(
    r"^(?:\[(?:pip3?|conda)\] |[^\n]{0,40}\b(?:list|freeze|installed|grep \S{1,30}) ?[-=]> ?"
    r"|(?!-[A-Za-z])[+~ \t-]{0,4})?"
    r"(?P<name>[A-Za-z][\w.-]{0,60})==(?P<version>\d[\w.+!-]{0,60})(?:[ \t]*[;#\\][^\n]*)?[ \t]*$",
    re.MULTILINE,
)
HEADER = re.compile(
    r"^Package +Version[^\n]*\n-{3}[ -]{0,400}\n(?P<rows>(?:[A-Za-z][\w.-]{0,60} +\d[^\n]*(?:\n|\Z)){1,10000})",
    re.MULTILINE,
)
COLUMNS = re.compile(r"^(?P<name>[A-Za-z][\w.-]{0,60})[ \t]+(?P<version>\d[\w.+!-]{0,60})(?: [^\n]*)?$", re.MULTILINE)
SATISFIED = re.compile(
    r"^Requirement already satisfied: (?P<name>[A-Za-z][\w.-]{0,60})(?:\[[\w,-]*\])?[^\n]{0,120}?"
    r" in \S{1,300}-packages\S*(?: \(from [^\n]{1,200}\))? \((?P<version>\d[\w.+!-]{0,60})\)",
    re.MULTILINE,
)
# Rows below a list command, whatever its filter, and columns without a header.
LISTED = re.compile(
    r"\b(?:pip3?(?:\.exe)?|conda|mamba|micromamba)[\"']? (?:-\S+ )?(?:list|freeze)\b[^\n]{0,80}\n"
    r"(?P<rows>(?:[A-Za-z][\w.-]{0,60} +\d[^\n]*(?:\n|\Z)){1,10000})"
)
ALIGNED = re.compile(
    r"(?P<rows>(?:^[a-z][a-z0-9_.-]{2,60}(?: {3,}|\t+)\d+\.\d[\w.+!]{0,40}[ \t]*$\n?){2,})", re.MULTILINE
)
# Packages for which one row of such columns is enough.
KNOWN = re.compile(
    r"^(?P<name>cudatoolkit|cudnn|cuda-(?:runtime|cudart|version|toolkit|nvcc)|pytorch(?:-cuda|-gpu)?|torch"
    r"|torch(?:vision|audio)|tensorflow(?:-gpu|-cpu)?|onnxruntime(?:-gpu)?|jaxlib|vllm|flash[-_]attn)"
    r"(?: {2,}|\t+)(?P<version>\d+\.\d[\w.+]{0,40})[ \t]*$",
    re.MULTILINE,
)
SHOWN = re.compile(
    r"^Name: (?P<name>[\w.-]+)\nVersion: (?P<version>\d[\w.+!-]*)(?:\n[^\n]+){0,12}?(?:\nLocation: (?P<path>[^\n]+))?",
    re.MULTILINE,
)
# Wheels of CUDA's libraries, which one sentence may list.
OF_CUDA = re.compile(
    r"(?<![\w/.-])(?P<name>nvidia-[a-z]+(?:-[a-z]+)*-cu1\d)(?: |: ?| ?= ?| \()v?(?P<version>\d+\.\d[\w.]*\w)"
)
FILTERED = re.compile(r"\bpip3? show (?P<name>[\w.-]{1,60}) *\|[^\n]{0,60}\n[ \t]*Version: (?P<version>\d[\w.+!-]*)")
LABELLED = re.compile(
    r"^[ \t*-]*(?P<name>[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)(?: [Vv]ersion)?[ \t]*[:=][ \t]*"
    r"(?P<version>\d+\.\d[\w.+]{0,40})[ \t]*$",
    re.MULTILINE,
)
SOLVED = re.compile(
    r"::(?P<name>[a-z_][\w.-]{0,60}?)-(?P<version>\d[\w.]{0,30})-(?P<build>[\w.]{2,60})[ \t]*$", re.MULTILINE
)
# A row of a pending conda download: "pytorch-2.0.0 | py3.8_cpu_0 84.2 MB pytorch".
PLANNED = re.compile(
    r"^[ \t]*(?P<name>[a-z_][\w.-]{0,60}?)-(?P<version>\d[\w.]{0,30})[ \t]*\|[ \t]*(?P<build>[\w.]{2,60})[ \t]+"
    r"[\d.]{1,8} [KMG]?B\b",
    re.MULTILINE,
)
# As "conda env export" and specifications write them: pytorch=1.9.0=py3.8_cpu_0.
SPECIFIED = re.compile(
    r"(?<![\w=-])(?P<name>[a-z_][\w.-]{0,60})=(?P<version>\d[\w.]{0,30})=(?P<build>[\w.]*(?:py\d|cuda|cpu|h[0-9a-f]{5}|_\d)"
    r"[\w.]*)(?![\w=])"
)
NO_PACKAGES = re.compile(r"(?:nvidia|cuda|linux|driver|python|os|gpu)[-_]")
CONDA = re.compile(
    r"^(?:\[conda\] )?(?P<name>[a-z_][\w.-]{0,60})[ \t]+(?P<version>\d[\w.+]{0,40})[ \t]+"
    r"(?P<build>[\w.][\w.+]{0,80}|<pip>)(?:[ \t]+\[[\w, ]{1,40}\])?(?:[ \t]+(?P<channel>\S+))?[ \t]*$",
    re.MULTILINE,
)
BUILT = re.compile(r"py|cuda|cpu|cu\d|h[0-9a-f]{5}|_\d|mkl|<pip>")  # what a build of conda's has in its name
# Rows of "conda list" below its head, and those that PyTorch's report quotes: a build may be any word, or missing.
CONDA_LIST = re.compile(r"^# Name +Version +Build", re.MULTILINE)
CONDA_ROW = re.compile(
    r"^(?P<name>[a-z_][\w.-]{0,60})[ \t]+(?P<version>\d[\w.+!]{0,40})[ \t]+(?P<build>[\w.]{1,60}|<pip>)"
    r"(?:[ \t]+\S+)?[ \t]*$",
    re.MULTILINE,
)
CONDA_REPORTED = re.compile(
    r"^\[conda\] (?P<name>[a-z_][\w.-]{0,60})[ \t]+(?P<version>\d[\w.+!]{0,40})(?:[ \t]+(?P<build>[\w.]{1,60}"
    r"|<pip>))?(?:[ \t]+\S+)?[ \t]*$",
    re.MULTILINE,
)
# A wheel that pip freeze names by address, pip's report of an installation, and its JSON lists.
WHEEL = re.compile(
    r"^(?P<name>[A-Za-z][\w.-]{0,60}) @ \S{1,300}/[\w.]{1,60}-(?P<version>\d(?:[\w.+!]|%2B){0,80})-(?:cp"
    r"|py)\d[^\s/]*\.whl",
    re.MULTILINE,
)
DIST_INFO = re.compile(
    r"(?:^|[\s/\\])(?P<name>[A-Za-z][\w.]{0,60})-(?P<version>\d[\w.+!]{0,40})\.dist-info\b", re.MULTILINE
)
DONE = re.compile(r"^Successfully installed (?P<rows>[^\n]{1,4000})$", re.MULTILINE)
PART = re.compile(r"(?P<name>[A-Za-z][\w.-]{0,60}?)-(?P<version>\d[\w.+!]{0,60})(?= |$)")
JSON = re.compile(
    r'\{(?:\s*"(?:base_url|build_number|channel|dist_name|platform|build_string)": ?[^,{}\n]{1,120},){0,8}'
    r'(?:\s*"build_string": ?"(?P<build>[\w.]{1,60})",)?'
    r'(?:\s*"(?:channel|dist_name)": ?"[^"\n]{0,120}",){0,3}\s*"name": ?"(?P<name>[A-Za-z][\w.-]{0,60})",'
    r'(?:\s*"platform": ?"[^"\n]{0,40}",)?'
    r'\s*"version": ?"(?P<version>\d[\w.+!-]{0,60})"'
)
# One package, by word: "conda list: pytorch 1.13.1", "pip show torch: 2.1.0".
BY_WORD = re.compile(
    r"\b(?P<manager>conda|pip3?) (?:list|show|freeze)(?: (?:shows?|says|has|gives|lists?|[|] ?grep \S{1,40}))?[: ]{1,8}"
    r"(?P<name>pytorch|torch)[: =]{1,8}(?P<version>\d+\.\d+\.\d+[\w.+]{0,40})"
    r"(?:[ =]{1,8}(?P<build>\w{0,40}py\d[\w.]{0,40}))?"
)
MOST = 5000
TAG = re.compile(r"\+(?P<tag>(?:cu\d+|rocm[\d.]+|cpu|xpu)\w*)")
CONDA_CUDA = re.compile(r"cuda(?P<cuda>\d+(?:\.\d+)+|\d{2,3})")
# The distribution and the component that it is.
COMPONENTS = {"torch": "pytorch", "pytorch": "pytorch", "pytorch-cpu": "pytorch", "pytorch-gpu": "pytorch"}
SYSTEMS = frozenset({"vllm", "tensorflow", "triton", "deepspeed", "sglang", "openvino", "cuda-core", "cuda-bindings"})


class Package(NamedTuple):
    """One installed distribution, its name as indexes compare it."""

    name: str
    version: str
    build: str | None = None
    path: str | None = None


def read(origin: str, text: str, into: Gathered) -> None:
    """Read every list of packages in this text."""
    found: dict[str, list[str]] = {}
    for package in (*_pip(text), *_conda(text)):
        versions = found.setdefault(package.name, [])
        if package.version not in versions:
            versions.append(package.version)
        _component(origin, package, into)
    if found:
        first: dict[str, JsonValue] = {name: versions[0] for name, versions in found.items()}
        double: dict[str, JsonValue] = {name: tuple(held) for name, held in found.items() if len(held) > 1}
        held = into.fact("packages", "distributions")
        into.tell("packages", origin)
        facts = into.copies["packages"][HERE].facts
        facts["distributions"] = {**first, **(held if isinstance(held, dict) else {})}
        facts["duplicates"] = double
        _frameworks(origin, first, into)
    system_packages.read(origin, text, into)


def take(origin: str, found: Mapping[str, str], into: Gathered) -> None:
    """Store distributions that a command requested; known facts about a framework are kept."""
    for name, version in found.items():
        component = COMPONENTS.get(name) or name
        if not into.version(component):
            _component(origin, Package(name, version), into)
    if found:
        held = into.fact("packages", "distributions")
        into.tell("packages", origin)
        known = {**found, **(held if isinstance(held, dict) else {})}
        into.copies["packages"][HERE].facts["distributions"] = known


def _pip(text: str) -> Iterator[Package]:
    for pattern in (FROZEN, SATISFIED, KNOWN, OF_CUDA, FILTERED, DIST_INFO):
        for match in islice(pattern.finditer(text), MOST):
            yield Package(_normal(match["name"]), match["version"])
    for match in islice(WHEEL.finditer(text), MOST):
        yield Package(_normal(match["name"]), match["version"].replace("%2B", "+"))
    for block in islice(DONE.finditer(text), MOST):
        for match in PART.finditer(block["rows"]):
            yield Package(_normal(match["name"]), match["version"])
    for match in islice(JSON.finditer(text), MOST):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])
    for block in (*HEADER.finditer(text), *LISTED.finditer(text), *ALIGNED.finditer(text)):
        for match in COLUMNS.finditer(block["rows"]):
            yield Package(_normal(match["name"]), match["version"])
    for match in SHOWN.finditer(text):
        yield Package(_normal(match["name"]), match["version"], path=match["path"])
    yield from _labelled(text)


def _labelled(text: str) -> Iterator[Package]:
    """Yield packages written as "flash-attn: 2.5.7" or "mamba-ssm Version: 2.2.4", one per line, or in words."""
    for match in islice(BY_WORD.finditer(text), MOST):
        name = "pytorch" if match["manager"] == "conda" else "torch"
        yield Package(name, match["version"], build=match["build"])
    for match in LABELLED.finditer(text):
        if not NO_PACKAGES.match(match["name"]):
            yield Package(_normal(match["name"]), match["version"])


def _conda(text: str) -> Iterator[Package]:
    for match in (*SOLVED.finditer(text), *PLANNED.finditer(text)):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])
    listed = CONDA_LIST.search(text)
    for match in islice(SPECIFIED.finditer(text), MOST):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])
    for match in islice((one for one in CONDA.finditer(text) if BUILT.search(one["build"])), MOST):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])
    for match in islice(CONDA_ROW.finditer(text, listed.end() if listed else len(text)), MOST):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])
    for match in islice(CONDA_REPORTED.finditer(text), MOST):
        yield Package(_normal(match["name"]), match["version"], build=match["build"])


def _component(origin: str, package: Package, into: Gathered) -> None:
    """Store a package that is a component of the stack."""
    name, version, build = package.name, package.version, package.build
    component = COMPONENTS.get(name) or (name if name in SYSTEMS else None)
    if component is None:
        return
    tag = devices.named(version)
    accelerator = tag.accelerator
    cuda = CONDA_CUDA.search(build or "")
    number = _dotted(cuda["cuda"]) if cuda else tag.cuda
    if component == "pytorch" and build and not tag.tag:
        accelerator = "cuda" if cuda else "cpu" if "cpu" in build else None
    known = into.copies.get(component, {}).get(HERE)
    same = known is None or not known.version or known.version.partition("+")[0] == version.partition("+")[0]
    into.tell(
        component,
        origin,
        HERE if same else f"{name} {version}",
        version=version,
        build=tag.tag,
        path=package.path,
        accelerator=accelerator,
        cuda=number,
        conda_build=build,
    )


def _frameworks(origin: str, found: dict[str, JsonValue], into: Gathered) -> None:
    """Store the frameworks that consist of several distributions."""
    named: dict[str, JsonValue] = {
        name: held for name, held in found.items() if name.startswith(("onnxruntime", "ort-nightly"))
    }
    if named:
        gpu = any("gpu" in name for name in named)
        version = str(next(iter(named.values())))
        into.tell(
            "onnxruntime",
            origin,
            version=version,
            distributions=named,
            accelerator="cuda" if gpu and len(named) == 1 else None if gpu else "cpu",
        )
    jax = {name: held for name, held in found.items() if name.startswith("jax")}
    if "jaxlib" in jax or "jax" in jax:
        plugins: dict[str, JsonValue] = {name: held for name, held in jax.items() if "cuda" in name or "rocm" in name}
        major = next((part for name in plugins if (part := re.search(r"cuda\d+", name))), None)
        into.tell(
            "jax",
            origin,
            version=str(jax.get("jax") or jax["jaxlib"]),
            build=major[0] if major else None,
            jaxlib=jax.get("jaxlib"),
            plugins=plugins,
        )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _dotted(cuda: str) -> str:
    """Return the CUDA version that a conda build names: 11.8 unchanged, 118 as 11.8, 112 as 11.2."""
    return cuda if "." in cuda else f"{cuda[:2]}.{cuda[2:] or '0'}"
