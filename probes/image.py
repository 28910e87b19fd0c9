"""What is known about an unpacked image, read and never run: its system, its Pythons, the libcuda that it brings.

The row's ``place`` says which. A Python of the image cannot be asked, so what it would say of itself is put together
from its files: pyvenv.cfg (PEP 405), the layouts of ``site`` and of Debian's and Red Hat's Pythons, and .pth files.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Optional

    from probes.host import Answer, Facts, Host

MOST_PTH, MOST_TEXT = 50, 1 << 16
# Where images keep what their builders made, likeliest first.
FOLDERS = """/opt/venv /venv /.venv /opt/conda /opt/conda/envs/* /root/.venv /root/venv /workspace/.venv
/workspace/venv /app/.venv /app/venv /code/.venv /srv/.venv /src/.venv /home/*/.venv /home/*/venv /opt/*
/opt/*/venv /opt/*/.venv /usr/local/venv /root/miniconda3 /root/miniforge3 /root/micromamba/envs/*
/home/*/miniconda3 /home/*/miniforge3""".split()  # noqa: SIM905 - paths read better than a column of quotes
PROGRAMS = ("/usr/local/bin/python3*", "/usr/bin/python3*", "/opt/python/*/bin/python3")
FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow", "onnxruntime", "vllm", "tensorrt", "cupy")
# Where NVIDIA's container toolkit looks for a libcuda for forward compatibility, and which files must be there for it.
# Source: NVIDIA/nvidia-container-toolkit, cmd/nvidia-cdi-hook/cudacompat/cudacompat.go (015cc2f), read 2026-11-21.
COMPAT = "/usr/local/cuda/compat"
LIBC = re.compile(rb"GNU C Library[^\n]{0,200}?(?:release )?version (\d+\.\d+)")
LIBCS = ("/lib/{0}-linux-gnu/libc.so.6", "/usr/lib/{0}-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib64/libc.so.6")


def probe(host: "Host") -> "Answer":
    """Return what the row's place asks for."""
    return PLACES[host.row["place"]](host)


def about(host: "Host") -> "Facts":
    """Return the distribution, the C library, the kind of machine, and the variables of the image."""
    said = host.shared("pythons.py")["settings"](host.read("/etc/os-release") or host.read("/usr/lib/os-release") or "")
    kind = machine(host)
    return {
        "version": said.get("version_id", "").strip("\"'") or None,
        "os": said.get("pretty_name", "").strip("\"'") or None,
        "os_id": said.get("id", "").strip("\"'") or None,
        "machine": kind,
        "glibc": glibc(host, kind),
        "musl": bool(host.glob("/lib/ld-musl-*.so.1")),
        "variables": {name: value for name, value in sorted(host.environ.items()) if name.startswith("NVIDIA_")},
    }


def libcuda(host: "Host") -> "Facts":
    """Return the image's own copies of libcuda, in the loader's order; the driver's copy comes from outside."""
    copies = host.shared("nvidia.py")["copies"](host, "libcuda.so")
    looked_at = all(host.exists(path) for path in (COMPAT, "/etc/ld.so.cache", "/etc/ld.so.conf.d"))
    return {
        "copies": copies,
        "stub_on_path": host.shared("driver/libcuda.py")["stubs"](host),
        "compat_folder": host.real(COMPAT) if looked_at else None,
    }


def pythons(host: "Host") -> "List[Facts]":
    """Return each Python with what it would report about itself: the named ones first, then those with a framework."""
    shared = host.shared("pythons.py")
    kind = machine(host)
    libc = glibc(host, kind)
    found: "Dict[str, Facts]" = {}
    for path, by_program in candidates(host, shared):
        host.row = {"place": "system" if by_program else "here"}
        one = shared["described"](host, path, "system" if by_program else "venv")
        if one and one["key"] not in found:
            told = interpreter(host, one, shared) if not one["broken"] else None
            one.update(interpreter=dict(told, machine=kind, glibc=libc) if told else None)
            found[one["key"]] = dict(one, version=told["version"] if told else one["version"])
    return sorted(found.values(), key=lambda one: rank(host, one, shared))


def candidates(host: "Host", shared: "Facts") -> "Iterator[tuple[str, bool]]":
    """Yield each path that may be an environment's folder, or (True) a program."""
    named = [host.env(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    for folder in [*(folder for folder in named if folder), *(p for f in FOLDERS for p in host.glob(f))]:
        yield folder, False
    for folder in shared["split"](host.env("PATH")):
        yield folder + "/python3", True
    for pattern in PROGRAMS:
        yield from ((path, True) for path in host.glob(pattern) if shared["PROGRAM"].fullmatch(path.rpartition("/")[2]))


def rank(host: "Host", one: "Facts", shared: "Facts") -> "tuple[bool, bool, bool]":
    """Return the place of a Python: those that variables name first, then those with a framework, then environments."""
    told = [host.env("VIRTUAL_ENV"), host.env("CONDA_PREFIX")]
    told += [folder.rpartition("/")[0] for folder in shared["split"](host.env("PATH")) if folder.endswith("/bin")]
    active = one["prefix"] in told and one["prefix"] not in ("/usr", "/usr/local", "")
    path = one["interpreter"]["path"] if one["interpreter"] else []
    holds = any(host.exists(folder + "/" + name) for folder in path for name in FRAMEWORKS)
    return not active, not holds, one["kind"] == "system"


# What a Python would say of itself.


def interpreter(host: "Host", one: "Facts", shared: "Facts") -> "Optional[Facts]":
    """Return what the Python would say; None if its version is unknown, without which nothing else can."""
    prefix, number = one["prefix"], minor(one["version"])
    settings = shared["settings"](host.read(prefix + "/pyvenv.cfg", MOST_TEXT) or "")
    home = settings.get("home", "").rstrip("/")
    base = home.rpartition("/")[0] if home.endswith("/bin") else prefix
    if number is None:
        return None
    sites = own_sites(host, prefix, number)
    if "home" not in settings:
        sites = [(host.env("HOME") or "/root") + "/.local/lib/python%s/site-packages" % number, *sites]
    elif settings.get("include-system-site-packages", "").lower() == "true":
        sites += own_sites(host, base, number)
    library = next((path for path in (base + "/lib", base + "/lib64") if host.exists(path + "/python" + number)), "")
    path = [*shared["split"](host.env("PYTHONPATH")), "%s/python%s" % (library or base + "/lib", number)]
    path += [path[-1] + "/lib-dynload", *(found for site in sites for found in with_pth(host, site))]
    return {
        "executable": one["path"],
        "version": patch(host, base, number) or one["version"],
        "prefix": prefix,
        "base_prefix": base,
        "implementation": "cpython",
        "tag": "cpython-" + number.replace(".", ""),
        "path": list(dict.fromkeys(folder for folder in path if host.exists(folder))),
        "bits": 64,
        "gil": not one["path"].endswith("t"),
    }


def minor(version: "Optional[str]") -> "Optional[str]":
    """Return 3.12 of 3.12.4."""
    match = re.match(r"3\.\d+", version or "")
    return match.group() if match else None


def own_sites(host: "Host", prefix: str, number: str) -> "List[str]":
    """Return the package folders of a prefix: Debian's own Python has others than one that was built or installed."""
    tails = ["/lib/python%s/site-packages" % number, "/lib64/python%s/site-packages" % number]
    if prefix != "/usr":
        return [prefix + tail for tail in tails]
    if host.exists("/usr/lib/python3/dist-packages"):
        return ["/usr/local/lib/python%s/dist-packages" % number, "/usr/lib/python3/dist-packages"]
    return [part + tail for part in ("/usr/local", "/usr") for tail in reversed(tails)]


def with_pth(host: "Host", site: str) -> "Iterator[str]":
    """Yield a folder of packages and those that its .pth files name; lines that would run code are skipped."""
    yield site
    for name in [name for name in host.list(site) if name.endswith(".pth")][:MOST_PTH]:
        for line in (host.read(site + "/" + name, MOST_TEXT) or "").splitlines():
            if line.strip() and not line.startswith(("import ", "import\t", "#")):
                yield line.strip() if line.startswith("/") else site + "/" + line.strip()


def patch(host: "Host", base: str, number: str) -> "Optional[str]":
    """Return the whole version of a Python by its header, by conda's record or by its Debian package."""
    header = host.read("%s/include/python%s/patchlevel.h" % (base, number), MOST_TEXT) or ""
    said = [found.group(1) for found in [re.search(r'#define\s+PY_VERSION\s+"([\d.]+)', header)] if found]
    said += [name[len("python-") :] for name in host.list(base + "/conda-meta") if name.startswith("python-" + number)]
    owners = host.shared("owners.py")
    packages = ("python%s-minimal", "libpython%s-minimal", "python%s") if base == "/usr" else ()
    said += [owners["installed"](host, package % number) or "" for package in packages]
    return next((m.group() for m in (re.match(re.escape(number) + r"\.\d+", text) for text in said) if m), None)


def machine(host: "Host") -> str:
    """Return the kind of machine that the image's programs are for."""
    for path in ("/bin/sh", "/usr/bin/env", "/bin/busybox", "/usr/bin/python3", "/usr/local/bin/python3"):
        described = host.elf(path)
        if described:
            return str(described["machine"])
    return ""


def glibc(host: "Host", kind: str) -> "Optional[str]":
    """Return the version of the image's C library, by the words in it; None if it has none, or another."""
    for path in (pattern.format(kind) for pattern in LIBCS):
        for piece in host.pieces(path, b"GNU C Library") if host.exists(path) else ():
            match = LIBC.search(piece)
            if match:
                return match.group(1).decode("ascii")
    return None


PLACES: "Dict[str, Callable[[Host], Answer]]" = {"about": about, "pythons": pythons, "libcuda": libcuda}
