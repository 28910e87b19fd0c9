"""The Python that is examined: version, prefixes, kind, where it imports from, the C and C++ libraries under it."""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Facts, Host


def probe(host: "Host") -> "Answer":
    """Return the facts of the Python that runs this."""
    here = host.interpreter()
    prefix = here["prefix"]
    venv = _settings(host.read(prefix + "/pyvenv.cfg"))
    conda = host.exists(prefix + "/conda-meta")
    site = [folder for folder in here["path"] if folder.rstrip("/").endswith(("/site-packages", "/dist-packages"))]
    return {
        "key": here["executable"],
        "version": here["version"],
        "path": here["executable"],
        "prefix": prefix,
        "base_prefix": here["base_prefix"],
        "kind": "venv" if venv is not None else "conda" if conda else "system",
        "conda": conda or host.exists(here["base_prefix"] + "/conda-meta"),
        "system_site_packages": None if venv is None else venv.get("include-system-site-packages") == "true",
        "implementation": here["implementation"],
        "tag": here["tag"],
        "gil": here["gil"],
        "machine": here["machine"],
        "bits": here["bits"],
        "glibc": here["glibc"],
        "musl": bool(host.glob("/lib/ld-musl-*.so.1")),
        "libstdcxx": _libstdcxx(host),
        "search_path": here["path"],
        "site_packages": site,
        "pythonpath": [folder for folder in (host.env("PYTHONPATH") or "").split(":") if folder],
        "pythonhome": host.env("PYTHONHOME"),
        "externally_managed": bool(host.glob("%s/lib/python3*/EXTERNALLY-MANAGED" % here["base_prefix"])),
        "leftovers": [folder + "/" + name for folder in site for name in host.list(folder) if name.startswith("~")],
    }


def _settings(text: "Optional[str]") -> "Optional[Facts]":
    """Return the settings of pyvenv.cfg, names and values in lower case; None if there is no such file."""
    if text is None:
        return None
    rows = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip().lower() for name, equals, value in rows if equals}


def _libstdcxx(host: "Host") -> "Optional[Facts]":
    """Return the C++ library that a package would load, and the others of that name; 6.0.33 offers GLIBCXX_3.4.33."""
    loader = host.shared("loader.py")["Loader"](host)
    found: "List[Facts]" = loader.search("libstdc++.so.6", loader.program)
    if not found:
        return None
    match = re.search(r"\.so\.6\.0\.(\d+)$", found[0]["real"])
    return {
        "path": found[0]["real"],
        "step": found[0]["step"],
        "glibcxx": "3.4." + match.group(1) if match else None,
        "others": [copy["real"] for copy in found[1:]],
    }
