"""The NVIDIA container toolkit: its release, its CDI descriptions of the GPUs, and which container engines know it.

Files: the toolkit's own (nvidia-container-runtime/config.toml), the folders of CDI (container-device-interface:
SPEC.md), and those that ``nvidia-ctk runtime configure`` writes: Docker's daemon.json, containerd's and CRI-O's own.
Podman has CDI, and had a hook. TOML and YAML are read by their lines, since a Python 3.8 has a reader for neither.
"""

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

PROGRAMS = (
    *("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli", "nvidia-container-runtime-hook"),
    "nvidia-cdi-hook",
)
PACKAGES = ("nvidia-container-toolkit", "nvidia-container-runtime", "nvidia-docker2")
OPERATOR = "/usr/local/nvidia/toolkit/"
VERSION = re.compile(r"(?<![\d.])(\d{1,3}\.\d{1,3}\.\d{1,3}(?:[~-]?rc\.?\d{1,2})?)")
FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
CONFIG = "/etc/nvidia-container-runtime/config.toml"
DOCKER = ("/etc/docker/daemon.json", "/var/snap/docker/current/config/daemon.json")
CONTAINERD = (
    *("/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"),
    *(
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    ),
)
CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*.conf")
PODMAN = ("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json", "/etc/containers/oci/hooks.d/*nvidia*.json")
RUNTIME = re.compile(r"""^[ \t]*\[[^\]\n]*runtimes\.["']?nvidia["']?\]""", re.MULTILINE)
SETTING = r"^[ \t]*%s[ \t]*=[ \t]{0,40}[\"']?([^\"'#\n]*?)[\"']?[ \t]{0,40}(?:#.*)?$"
DRIVER = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.])")
LIBRARY = re.compile(r"\.so\.(\d+\.\d+\.\d+)$")
NAME = re.compile(r"^([ \t]*(?:-[ \t]*)?)name:[ \t]*[\"']?([^\"'\s]+)", re.MULTILINE)
MOST = 4 << 20


def probe(host: "Host") -> "Answer":
    """Return the toolkit and what was set up for it; None if neither it nor anything of it is here."""
    programs = {name: path for name, path in ((name, find(host, name)) for name in PROGRAMS) if path}
    specs = [spec for spec in (cdi(host, path) for path in files(host)) if spec]
    engines = {name: said for name, said in configured(host).items() if said}
    if not programs and not specs and not any(said.get("runtime") for said in engines.values()):
        return None
    told, source, package = version(host, programs)
    return {
        "key": "nvidia-container-toolkit",
        "version": told,
        "version_from": source,
        "package": package,
        "path": programs.get("nvidia-ctk") or next(iter(programs.values()), None),
        "programs": programs,
        "libnvidia_container": library(host),
        "cdi": specs,
        "engines": engines,
        "mode": setting(host.read(CONFIG) or "", "mode"),
        "no_cgroups": {"true": True, "false": False}.get(setting(host.read(CONFIG) or "", "no-cgroups") or ""),
        # A description or an engine's configuration may outlive the toolkit that it names.
        "status": "present" if programs else "absent",
    }


def find(host: "Host", name: str) -> "Optional[str]":
    """Return the path of a program of the toolkit: as a command, or where the GPU operator of Kubernetes puts it."""
    return host.path(name) or (OPERATOR + name if host.exists(OPERATOR + name) else None)


def version(host: "Host", programs: "Dict[str, str]") -> "Tuple[Optional[str], Optional[str], Optional[str]]":
    """Return the release, how it is known, and the package: the package says it, else nvidia-ctk itself."""
    for path in programs.values():
        for owner in host.shared("owners.py")["of_system"](host, host.real(path), PACKAGES):
            found = VERSION.search(owner["version"] or "")
            if found:
                return found.group(1), "package", owner["name"]
    if "nvidia-ctk" in programs:
        try:
            said = host.run(programs["nvidia-ctk"], "--version", seconds=min(1.0, host.seconds)) or {"out": ""}
        except OSError:  # TimeoutError is an OSError; the host has logged it
            return None, None, None
        found = VERSION.search(said["out"])
        if found:
            return found.group(1), "program", None
    return None, None, None


def library(host: "Host") -> "Optional[str]":
    """Return the version of libnvidia-container, which its file has in its name."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        for name in host.list(folder) if host.exists(folder) else ():
            found = LIBRARY.search(name) if name.startswith("libnvidia-container.so.") else None
            if found:
                return found.group(1)
    return None


# CDI.


def files(host: "Host") -> "List[str]":
    """Return the files of CDI's folders, each once."""
    paths = [folder + "/" + name for folder in FOLDERS for name in host.list(folder)]
    return list(dict.fromkeys(host.real(path) for path in paths if path.endswith((".yaml", ".yml", ".json"))))


def cdi(host: "Host", path: str) -> "Optional[Facts]":
    """Return one description of NVIDIA's devices: kind, names and the driver releases it names; None for others."""
    text = host.read(path, MOST)
    if text is None:
        return {"path": path, "kind": None, "why": host.why(path)}
    said = from_json(text) if text.lstrip().startswith("{") else from_yaml(text)
    if not str(said["kind"] or "").startswith("nvidia.com/"):
        return None
    releases = sorted(set(DRIVER.findall(text)))
    return dict(said, path=path, drivers=releases)


def from_json(text: str) -> "Facts":
    """Return kind, version and names of the devices of a description in JSON."""
    try:
        said: "Any" = json.loads(text)
        names = [str(one["name"]) for one in said["devices"]]
        return {"kind": said["kind"], "cdi_version": said.get("cdiVersion"), "devices": names}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"kind": None, "cdi_version": None, "devices": []}


def from_yaml(text: str) -> "Facts":
    """Return the same of one in YAML as nvidia-ctk writes it: a device's name is a key of the list's own depth."""
    block = re.search(r"^devices:[ \t]*\n((?:[ \t-][^\n]*\n?|\n)*)", text, re.MULTILINE)
    rows = NAME.findall(block.group(1)) if block else []
    names = [name for before, name in rows if len(before) == min(len(first) for first, _ in rows)]
    return {"kind": yaml(text, "kind"), "cdi_version": yaml(text, "cdiVersion"), "devices": names}


def yaml(text: str, name: str) -> "Optional[str]":
    """Return the value of a name at the top of a YAML text."""
    found = re.search(r"^%s:[ \t]*[\"']?([^\"'\s#]+)" % name, text, re.MULTILINE)
    return found.group(1) if found else None


# Engines.


def configured(host: "Host") -> "Dict[str, Facts]":
    """Return for each container engine that has a configuration here what it says of NVIDIA's runtime."""
    return {
        "docker": docker(host),
        "containerd": toml(host, CONTAINERD, "default_runtime_name", "enable_cdi"),
        "crio": toml(host, CRIO, "default_runtime", ""),
        "podman": {"hook": hooks[0], "runtime": True} if (hooks := _there(host, PODMAN)) else {},
    }


def docker(host: "Host") -> "Facts":
    """Return what Docker's configuration says; of one that cannot be read, why."""
    home = host.env("HOME") or ""
    for path in (*DOCKER, *([home + "/.config/docker/daemon.json"] if home.startswith("/") else [])):
        text = host.read(path)
        if text is None and host.why(path) != "missing":
            return {"path": path, "why": host.why(path)}
        if text is not None:
            return dict(in_json(text), path=path)
    return {}


def in_json(text: str) -> "Facts":
    """Return whether a daemon.json knows NVIDIA's runtime, whether that is the default, and whether CDI is on."""
    try:
        said: "Any" = json.loads(text or "{}")
        runtimes, features = said.get("runtimes") or {}, said.get("features") or {}
        return {
            "runtime": "nvidia" in runtimes,
            "default": said.get("default-runtime"),
            "cdi": bool(features["cdi"]) if "cdi" in features else None,
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {"why": "it is not JSON"}


def toml(host: "Host", patterns: "Tuple[str, ...]", default: str, cdi: str) -> "Facts":
    """Return the same of an engine that is configured in TOML; all its files count together."""
    paths = _there(host, patterns)
    texts = [text for text in map(host.read, paths) if text is not None]
    if not texts:
        why = next((host.why(path) for path in paths if host.why(path) != "ok"), None)
        return {"path": paths[0], "why": why} if why else {}
    said = {name: [one for one in (setting(text, name) for text in texts) if one] for name in (default, cdi) if name}
    return {
        "path": next((path for path, text in zip(paths, texts) if RUNTIME.search(text)), paths[0]),
        "runtime": any(RUNTIME.search(text) for text in texts),
        "default": said[default][-1] if said[default] else None,
        "cdi": {"true": True, "false": False}.get(said[cdi][-1]) if said.get(cdi) else None,
    }


def setting(text: str, name: str) -> "Optional[str]":
    """Return the first value that a TOML text assigns to a name, whatever table it is in."""
    found = re.search(SETTING % re.escape(name), text, re.MULTILINE)
    return found.group(1) or None if found else None


def _there(host: "Host", patterns: "Tuple[str, ...]") -> "List[str]":
    return [path for pattern in patterns for path in host.glob(pattern)]
