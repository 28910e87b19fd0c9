"""Which package a file belongs to, by the lists that pip, conda, dpkg and rpm keep of their files.

Only packages whose names begin as the caller says are examined: reading every list (``dpkg -S``) takes a second.
Sources: PyPA "Recording installed projects" (RECORD), conda's ``conda-meta``, dpkg(1) (``/var/lib/dpkg``), rpm(8).
"""

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Sequence

    from probes.host import Facts, Host

MOST_RECORD = 8 << 20
MOST_STATUS = 32 << 20
RPM = re.compile(r"([\w.+-]+) (\d[\w.+~^-]*)$", re.ASCII | re.MULTILINE)


def claims(host: "Host", copy: "Facts") -> "List[Facts]":
    """Return the packages that claim a copy {at, path, prefix}, the likeliest owner first; the row names them."""
    if "claims" not in copy:
        packages = [*host.row["packages"], *host.row.get("bundlers", ())]
        within = of_prefix(host, copy["at"], copy["prefix"], packages) if copy["prefix"] else None
        copy["claims"] = of_system(host, copy["path"], packages) if within is None else within
    return list(copy["claims"])


def own(host: "Host", copy: "Facts") -> "List[Facts]":
    """Return those of them whose version is the library's."""
    return [owner for owner in claims(host, copy) if owner["name"].startswith(tuple(host.row["packages"]))]


def of_prefix(host: "Host", path: str, prefix: str, packages: "Sequence[str]") -> "List[Facts]":
    """Return {kind, name, version, fits} of what claims a file in a site folder or conda prefix, fitting ones first.

    ``fits`` tells whether the record's size is the file's; two wheels may claim one path, since the last overwrites.
    """
    found = [*wheels(host, path, prefix, packages), *condas(host, path, prefix, packages)]
    return sorted(found, key=lambda owner: owner["fits"] is not True)


def of_system(host: "Host", path: str, packages: "Sequence[str]") -> "List[Facts]":
    """Return {kind, name, version, fits} of what claims a file of the system; its lists hold no sizes (fits: None)."""
    if host.exists("/var/lib/dpkg/status"):
        return list(debs(host, path, packages))
    return list(rpms(host, path))


def wheels(host: "Host", path: str, site: str, packages: "Sequence[str]") -> "Iterator[Facts]":
    """Yield the distributions in a site folder whose RECORD has the file; in X.libs or X/ it may be that of X."""
    inside = path[len(site) + 1 :]
    bundler = re.sub(r"\.libs$", "", inside.split("/")[0]).lower()
    begins = tuple(package.replace("-", "_") for package in packages)
    line = re.compile(r"^" + re.escape(inside) + r",[^,\n]*,(\d*)", re.MULTILINE)
    for folder in host.list(site):
        name, _, version = folder[: -len(".dist-info")].partition("-")
        if folder.endswith(".dist-info") and (name.lower().startswith(begins) or name.lower() == bundler):
            listed = line.search(host.read(site + "/" + folder + "/RECORD", MOST_RECORD) or "")
            if listed:
                fits = listed.group(1) == str((host.stat(path) or {}).get("size"))
                yield {"kind": "wheel", "name": name.replace("_", "-"), "version": version, "fits": fits}


def condas(host: "Host", path: str, prefix: str, packages: "Sequence[str]") -> "Iterator[Facts]":
    """Yield the conda packages of a prefix that list the file; a link to it may be another package's."""
    inside = host.real(path)[len(prefix) + 1 :]
    for meta in begun(host, prefix + "/conda-meta", packages, ".json"):
        try:
            said = json.loads(host.read(meta, MOST_RECORD) or "")
            listed = inside in said["files"]
            owner = {"kind": "conda", "name": said["name"], "version": said["version"], "fits": None}
        except (ValueError, KeyError, TypeError, RecursionError):  # a damaged record owns nothing
            listed, owner = False, {}
        if listed:
            yield owner


def debs(host: "Host", path: str, packages: "Sequence[str]") -> "Iterator[Facts]":
    """Yield the Debian packages that list the file, some of them as it was named before /lib became /usr/lib."""
    names = {path, path[len("/usr") :] if path.startswith("/usr/lib") else path}
    for listing in begun(host, "/var/lib/dpkg/info", packages, ".list"):
        if names & set((host.read(listing) or "").splitlines()):
            name = os.path.basename(listing)[: -len(".list")].partition(":")[0]
            yield {"kind": "deb", "name": name, "version": installed(host, name), "fits": None}


def begun(host: "Host", folder: str, packages: "Sequence[str]", ends: str) -> "List[str]":
    """Return the files of a folder whose names begin as one of the packages."""
    return [
        folder + "/" + name for name in host.list(folder) if name.startswith(tuple(packages)) and name.endswith(ends)
    ]


def installed(host: "Host", package: str) -> "Optional[str]":
    """Return the version of a Debian package that is installed."""
    status = "\n" + (host.read("/var/lib/dpkg/status", MOST_STATUS) or "")
    stanza = status.partition("\nPackage: " + package + "\n")[2].partition("\n\n")[0]
    version = re.search(r"^Version: (.+)$", stanza, re.MULTILINE)
    return version.group(1) if version else None


def rpms(host: "Host", path: str) -> "Iterator[Facts]":
    """Yield the RPM package of the file, where there is rpm."""
    try:
        said = host.run("rpm", "-qf", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", path, seconds=1.0)
    except OSError:  # TimeoutError is an OSError; the host has logged it
        return
    found = RPM.match(said["out"]) if said and said["code"] == 0 else None
    if found:
        yield {"kind": "rpm", "name": found.group(1), "version": found.group(2), "fits": None}
