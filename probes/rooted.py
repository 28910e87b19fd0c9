"""A file system in a folder: its links are followed as its own programs would, and never lead out of it.

An absolute link begins at the folder, and ``..`` ends there (as after chroot). Every name is opened below a descriptor
of the folder before it, links are read and never followed by the kernel: swapping a file or a folder for a link at any
moment makes a read fail, and no file outside is opened. Standard library and Python 3.8 syntax; loaded by path through
the host.
"""

import errno
import fnmatch
import os
import re
import stat
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

MOST_LINKS = 40  # as many as Linux follows
MOST_NAMES = 1 << 16
MAGIC = re.compile(r"[*?\[]")
ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
HERE = "."


class Way:
    """Where a path leads: ``done`` are its names with links followed, ``folder`` a descriptor of what is ``deep`` in.

    What is not there stays in the path as it is; ``error`` then says why it could not be entered.
    """

    def __init__(self, root: str, path: str, *, follow: bool = True) -> None:
        """Go there; a link that is the last name is followed where that is wanted. ``close`` has to be called."""
        self.root, self.follow, self.links = root, follow, 0
        self.done: "List[str]" = []
        self.folder: "Optional[int]" = None
        try:
            self._restart()
            self._go([part for part in path.split("/")[::-1] if part not in ("", HERE)])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the descriptor."""
        if self.folder is not None:
            os.close(self.folder)
        self.folder = None

    def within(self) -> "Tuple[int, str]":
        """Return a descriptor of a folder, and the name in it; raises OSError if there is no such folder."""
        self._enter(len(self.done) - 1)
        if self.folder is None:
            raise self.error
        return self.folder, self.done[self.deep] if self.deep < len(self.done) else HERE

    def _go(self, left: "List[str]") -> None:
        while left:
            part = left.pop()
            if part == "..":
                del self.done[-1:]
                if self.deep > len(self.done):
                    self._restart()
                continue
            self._enter(len(self.done))
            said = self._link(part) if self.follow or left else None
            if said is None:
                self.done.append(part)
                continue
            self.links += 1
            if self.links > MOST_LINKS:
                raise OSError(errno.ELOOP, "Too many levels of symbolic links")
            if said.startswith("/"):
                self.done = []
                self._restart()
            left += [part for part in said.split("/")[::-1] if part not in ("", HERE)]

    def _restart(self) -> None:
        """Begin at the root once more."""
        self.close()
        self.deep = 0
        self.error = OSError(errno.ENOENT, "No such file or directory")
        self.folder = os.open(self.root, ENTER)

    def _enter(self, depth: int) -> None:
        """Go down to so many names."""
        while self.folder is not None and self.deep < depth:
            above = self.folder
            try:
                self.folder = os.open(self.done[self.deep], ENTER, dir_fd=above)
                self.deep += 1
            except (OSError, ValueError) as error:
                self.folder = None
                self.error = error if isinstance(error, OSError) else OSError(errno.EINVAL, str(error))
            finally:
                os.close(above)

    def _link(self, name: str) -> "Optional[str]":
        try:
            return None if self.folder is None else os.readlink(name, dir_fd=self.folder)
        except (OSError, ValueError):
            return None


def within(root: str, path: str, act: "Callable[[int, str], Any]", *, follow: bool = True) -> "Any":
    """Return what ``act`` gives for a folder's descriptor and the name in it, which it must not follow."""
    way = Way(root, path, follow=follow)
    try:
        return act(*way.within())
    finally:
        way.close()


def real(root: str, path: str) -> str:
    """Return the path as the file system itself would name it, or as it is where links lead to each other."""
    try:
        way = Way(root, path)
    except OSError:
        return path
    way.close()
    return "/" + "/".join(way.done)


def opened(root: str, path: str) -> int:
    """Return a descriptor to read from; raises OSError for a device node: to open one is to act on it."""
    return int(within(root, path, _opened))


def _opened(folder: int, name: str) -> int:
    _refuse_device(os.stat(name, dir_fd=folder, follow_symlinks=False))
    handle = os.open(name, READ, dir_fd=folder)
    try:
        _refuse_device(os.fstat(handle))  # what was opened may be another than what was there a moment ago
    except BaseException:
        os.close(handle)
        raise
    return handle


def _refuse_device(found: os.stat_result) -> None:
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        raise OSError(errno.ENODEV, "is a device node, which is not opened")


def about(root: str, path: str) -> "Tuple[os.stat_result, bool, bool]":
    """Return what the file system says of a path, and whether this process may read and write it."""

    def look(folder: int, name: str) -> "Tuple[os.stat_result, bool, bool]":
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return found, _may(os.R_OK, folder, name), _may(os.W_OK, folder, name)

    answer: "Tuple[os.stat_result, bool, bool]" = within(root, path, look)
    return answer


def runs(root: str, path: str) -> bool:
    """Return whether a path leads to a program."""

    def look(folder: int, name: str) -> bool:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        return not stat.S_ISDIR(kind) and _may(os.X_OK, folder, name)

    try:
        return bool(within(root, path, look))
    except (OSError, ValueError):
        return False


def _may(what: int, folder: int, name: str) -> bool:
    return os.access(name, what, dir_fd=folder, follow_symlinks=False)


def link(root: str, path: str) -> str:
    """Return what a link says; raises OSError if it is not one."""
    return str(within(root, path, lambda folder, name: os.readlink(name, dir_fd=folder), follow=False))


def names(root: str, folder: str, most: "Optional[int]") -> "List[str]":
    """Return the names in a folder, so many at most or all; raises OSError if it cannot be listed."""
    handle = opened(root, folder)
    try:
        with os.scandir(handle) as entries:
            return [entry.name for entry in islice(entries, most)]
    finally:
        os.close(handle)


def glob(root: str, pattern: str) -> "List[str]":
    """Return the paths that match, each star within one name; hidden names only where the pattern says the dot."""
    found = [""]
    known: "Dict[str, List[str]]" = {}
    for part in pattern.strip("/").split("/"):
        if MAGIC.search(part):
            found = [path + "/" + name for path in found for name in _matching(root, path, part, known)]
        else:
            found = [path + "/" + part for path in found]
    return [path for path in found if _exists(root, path)]


def _matching(root: str, folder: str, pattern: str, known: "Dict[str, List[str]]") -> "List[str]":
    """Return the names in a folder that match; those of a folder that cannot be listed are none."""
    if folder not in known:
        try:
            known[folder] = names(root, folder, MOST_NAMES)
        except (OSError, ValueError):
            known[folder] = []
    hidden = pattern.startswith(".")
    return [name for name in fnmatch.filter(known[folder], pattern) if hidden or not name.startswith(".")]


def _exists(root: str, path: str) -> bool:
    try:
        within(root, path, lambda folder, name: os.stat(name, dir_fd=folder, follow_symlinks=False), follow=False)
    except (OSError, ValueError):
        return False
    return True
