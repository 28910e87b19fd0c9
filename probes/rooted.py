"""Paths of a file system that lies in a folder: links are followed as its own programs would, and never lead out of it.

An absolute link begins at the folder, and ``..`` ends there (as after chroot). Standard library and Python 3.8 syntax;
loaded by path through the host.
"""

import errno
import fnmatch
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

MOST_LINKS = 40  # as many as Linux follows
MOST_NAMES = 1 << 16
MAGIC = re.compile(r"[*?\[]")


def resolve(root: str, path: str) -> str:
    """Give the path, as the file system itself would name it, with every link followed; what is not there stays."""
    left = path.split("/")[::-1]
    done: "List[str]" = []
    links = 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del done[-1:]
            continue
        said = _link("/".join([root, *done, part]))
        if said is None:
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, "Too many levels of symbolic links")
        if said.startswith("/"):
            done = []
        left += said.split("/")[::-1]
    return "/" + "/".join(done)


def real(root: str, path: str) -> str:
    """Give the path with every link followed, or as it is where links lead to each other."""
    try:
        return resolve(root, path)
    except OSError:
        return path


def place(root: str, path: str, *, device: bool = False) -> str:
    """Give where a path lies on this machine; raises OSError for a device node unless that alone is asked after.

    To open a device is to act on it, whoever made its node.
    """
    found = root + resolve(root, path)
    if not device:
        try:
            kind = os.lstat(found).st_mode
        except OSError:
            return found  # whoever opens it gets the reason
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise OSError(errno.ENODEV, "is a device node, which is not opened")
    return found


def glob(root: str, pattern: str) -> "List[str]":
    """Give the paths that match, each star within one name; hidden names only where the pattern says the dot."""
    found = [""]
    known: "Dict[str, List[str]]" = {}
    for part in pattern.strip("/").split("/"):
        if MAGIC.search(part):
            found = [path + "/" + name for path in found for name in _matching(root, path, part, known)]
        else:
            found = [path + "/" + part for path in found]
    return [path for path in found if _exists(root, path)]


def _matching(root: str, folder: str, pattern: str, known: "Dict[str, List[str]]") -> "List[str]":
    """Give the names in a folder that match; those of a folder that cannot be listed are none."""
    if folder not in known:
        try:
            with os.scandir(place(root, folder)) as entries:
                known[folder] = [entry.name for entry, _ in zip(entries, range(MOST_NAMES))]
        except OSError:
            known[folder] = []
    hidden = pattern.startswith(".")
    return [name for name in fnmatch.filter(known[folder], pattern) if hidden or not name.startswith(".")]


def beside(root: str, path: str) -> str:
    """Give where the last name of a path lies, that name itself not followed."""
    folder, name = os.path.split(path)
    return os.path.join(root + resolve(root, folder), name)


def _exists(root: str, path: str) -> bool:
    try:
        return os.path.lexists(beside(root, path))
    except OSError:  # links that lead to each other
        return False


def _link(path: str) -> "Optional[str]":
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
