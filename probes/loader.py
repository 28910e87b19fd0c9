"""Where the dynamic loader would find the libraries that a package needs: every candidate, in the loader's own order.

The order follows ld.so(8) and glibc's ``_dl_map_object``: DT_RPATH of the requesting file and of those that loaded it
(if the requesting file has no DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH, ld.so.cache, default folders. Sub-folders of
``glibc-hwcaps`` are skipped: no GPU library is shipped there. Nothing is loaded.
"""

import os
import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

    from probes.host import Facts, Host

    Chain = List[Tuple[str, Facts]]  # the requesting file, what loaded it, and so on; the program last

CACHE = "/etc/ld.so.cache"
CONFIGURED, MOST_CONFIGURED = "/etc/ld.so.conf", 64
MARK = b"glibc-ld.so.cache1.1"
HEAD, ENTRY = 48, struct.Struct("=iIIIQ")
CACHE_MACHINES = {"x86_64": 0x0300, "aarch64": 0x0A00}
MULTIARCH = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
BASE = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libgcc_s.so", "libstdc++.so", "ld-")


class Loader:
    """The loader as it would work for one Python: its program, its environment, this machine's cache."""

    def __init__(self, host: "Host") -> None:
        """Read what all searches share."""
        self.host = host
        here = host.interpreter()
        self.machine = here["machine"]
        program = host.real(here["executable"] or "")
        described = host.elf(program)
        self.program: "Chain" = [(program, described)] if described else []
        self.names: "Dict[str, List[str]]" = {}
        self.cache: "Optional[Dict[str, List[str]]]" = None

    def search(self, soname: str, chain: "Chain") -> "List[Facts]":
        """Return every file with this name, in the order in which the loader would find it, each with its step."""
        found: "List[Facts]" = []
        known = set()
        for step, by, folder in self._folders(soname, chain):
            if not self._has(folder, soname):
                continue
            path = folder + "/" + soname
            real = self.host.real(path)
            if real not in known and self.host.exists(real):
                known.add(real)
                found.append({"step": step, "folder": folder, "path": path, "real": real, "by": by})
        return found

    def load(
        self, roots: "List[str]", inside: "Sequence[str]", known: "Set[str]"
    ) -> "Tuple[Dict[str, List[Facts]], List[Facts]]":
        """Return candidates for each external library that the roots need, and the files of their own that were read.

        Their own files are those whose path or name begins with a word in ``inside``. Names in ``known`` are already
        loaded; new ones are added to it. Breadth first, like the loader.
        """
        own = tuple(inside)
        outside: "Dict[str, List[Facts]]" = {}
        read: "List[Facts]" = []
        for root in roots:
            waiting = self._chain(root, self.program)
            for chain in waiting:
                read.append(dict(chain[0][1], path=chain[0][0]))
                for soname in chain[0][1]["needed"]:
                    if soname in known or soname.startswith(BASE):
                        continue
                    known.add(soname)
                    found = self.search(soname, chain)
                    if found and (found[0]["path"].startswith(own) or soname.startswith(own)):
                        waiting += self._chain(found[0]["path"], chain)
                    else:
                        outside[soname] = found
        return outside, read

    def parts(self, candidates: "Dict[str, List[Facts]]") -> "Dict[str, List[Facts]]":
        """Return candidates for the parts that the first of each would itself load by name, from beside it.

        libcudnn.so.9 loads libcudnn_graph.so.9, libnvrtc.so.13 loads libnvrtc-builtins.so.13.0, each by its own search.
        """
        found: "Dict[str, List[Facts]]" = {}
        for soname, copies in candidates.items():
            stem, _, ending = soname.partition(".so.")
            part = re.compile(r"%s[_-][\w-]{1,60}\.so\.%s(\.\d+)?$" % (re.escape(stem), re.escape(ending)))
            for name in self._names(copies[0]["folder"]) if copies else ():
                if part.match(name) and name not in candidates:
                    for chain in self._chain(copies[0]["path"], self.program):
                        found[name] = self.search(name, chain)
        return found

    def behind(self, candidates: "Dict[str, List[Facts]]", asking: "Sequence[str]", asked: str) -> "Optional[Facts]":
        """Return which of the ``asking`` libraries first needs one with this prefix, and the candidates for it."""
        for soname, copies in candidates.items():
            for copy in copies[:1] if soname.startswith(tuple(asking)) else ():
                for chain in self._chain(copy["path"], self.program):
                    for name in chain[0][1]["needed"]:
                        if name.startswith(asked):
                            return {"by": copy["path"], "name": name, "found": self.search(name, chain)}
        return None

    def _chain(self, path: str, loaded_by: "Chain") -> "List[Chain]":
        described = self.host.elf(path)
        return [[(path, described), *loaded_by]] if described else []

    def _folders(self, soname: str, chain: "Chain") -> "Iterator[Tuple[str, str, str]]":
        """Yield step, the file or variable that names the folder, and the folder, in the loader's order."""
        asking = chain[:1]
        if not any(described["runpath"] for _, described in asking):
            for path, described in chain:
                if not described["runpath"]:
                    yield from _own(path, described["rpath"], "RPATH")
        for folder in (self.host.env("LD_LIBRARY_PATH") or "").replace(";", ":").split(":"):
            if folder.startswith("/"):
                yield "LD_LIBRARY_PATH", "LD_LIBRARY_PATH", os.path.normpath(folder)
        for path, described in asking:
            yield from _own(path, described["runpath"], "RUNPATH")
        yield from self._configured(soname)
        for folder in _defaults(self.machine):
            yield "default", "ld.so", folder

    def _configured(self, soname: str) -> "Iterator[Tuple[str, str, str]]":
        """Yield the folders that this machine's configuration names: those in the cache, and those not yet in it."""
        if self.cache is None:
            self.cache = cached(self.host.bytes(CACHE, 1 << 23) or b"", self.machine)
        for path in self.cache.get(soname, ()):
            yield "ld.so.cache", CACHE, os.path.dirname(path)
        for folder in unread(self.host):
            yield "ld.so.conf", CONFIGURED, folder

    def _has(self, folder: str, soname: str) -> bool:
        """Return whether the folder contains the file; if it cannot be listed, the file itself is tested."""
        names = self._names(folder)
        return soname in names or (
            not names and self.host.why(folder) == "denied" and self.host.exists(folder + "/" + soname)
        )

    def _names(self, folder: str) -> "List[str]":
        """Return the names in a folder, listed once."""
        if folder not in self.names:
            self.names[folder] = self.host.list(folder)
        return self.names[folder]


def in_cache(host: "Host") -> "Dict[str, List[str]]":
    """Return the content of the loader's cache, read once per process: two dozen rows of one child use it."""
    if CACHE in host.kept:
        host.log.append(("read", CACHE, "ok"))
    else:
        host.kept[CACHE] = cached(host.bytes(CACHE, 1 << 23) or b"", host.interpreter()["machine"])
    names: "Dict[str, List[str]]" = host.kept[CACHE]
    return names


def cached(data: bytes, machine: str) -> "Dict[str, List[str]]":
    """Return the paths for each name in ld.so.cache, in its order; only those for this machine type if it is known."""
    start = data.find(MARK)
    found: "Dict[str, List[str]]" = {}
    if start < 0 or len(data) < start + HEAD:
        return found
    data = data[start:]
    count = min(struct.unpack_from("=I", data, len(MARK))[0], (len(data) - HEAD) // ENTRY.size)
    wanted = CACHE_MACHINES.get(machine)
    for flags, name, path, _, _ in ENTRY.iter_unpack(data[HEAD : HEAD + count * ENTRY.size]):
        if wanted is None or flags & 0xFF00 == wanted:
            found.setdefault(_text(data, name), []).append(_text(data, path))
    return found


def unread(host: "Host") -> "List[str]":
    """Return the folders that ld.so.conf names and ldconfig will read when an image is started with a GPU.

    None on a running machine, whose cache counts. Source: ldconfig(8) and the hook update-ldcache of NVIDIA's
    container toolkit.
    """
    if not host.inert:
        return []
    waiting, folders = [CONFIGURED], []
    for number, path in enumerate(waiting):
        for line in (host.read(path) or "").splitlines() if number < MOST_CONFIGURED else ():
            words = line.partition("#")[0].split()
            if words[:1] == ["include"]:
                patterns = [os.path.join(os.path.dirname(path), word) for word in words[1:]]
                waiting += [found for pattern in patterns for found in host.glob(pattern) if found not in waiting]
            elif words and words[0].startswith("/"):
                folders.append(os.path.normpath(words[0]))
    return list(dict.fromkeys(folders))


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    return data[offset : end if end >= 0 else offset].decode("utf-8", "replace")


def _own(path: str, folders: "List[str]", step: str) -> "Iterator[Tuple[str, str, str]]":
    """Yield the folders that a file itself names, with $ORIGIN expanded."""
    origin = os.path.dirname(path)
    for folder in folders:
        named = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        if named.startswith("/"):
            yield step, path, os.path.normpath(named)


def _defaults(machine: str) -> "Iterator[str]":
    multiarch = MULTIARCH.get(machine)
    for folder in ("/lib", "/usr/lib"):
        if multiarch:
            yield folder + "/" + multiarch
    yield from ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
