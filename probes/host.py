"""The only interface between a probe and the machine: read, run, env, glob, library. It logs what was examined.

Standard library and Python 3.8 syntax, since it runs in other people's Pythons. Everything is bounded: a file is read
up to a limit and never waited for, a command is killed when its time is up, a library's copy is loaded in a process of
its own. ``root`` moves the whole file system, for tests and for file systems unpacked in a folder: no link leads out of
it (rooted.py).
"""

import ctypes
import errno
import glob as globbing
import importlib
import os
import stat
import time
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs a tenth of a probe's time and is wanted by the type checkers alone
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

    Facts = Dict[str, Any]  # what will be JSON
    Answer = Union[None, str, Facts, List[Facts]]  # absent, not applicable (why), one thing, several
    Bytes = bytes  # Host has a method of this name

LIMIT, READ = 1 << 20, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
TOOLS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/nvidia/bin")
OF_PYTHON = ("PYTHONPATH", "PYTHONHOME")  # for the target, not for tools that are written in Python
_SHARED: "Dict[str, Facts]" = {}


class Host:
    """This machine as a probe may see it."""

    inert = False  # an unpacked image is: it is read, and nothing of it is run or loaded (inert.py)

    def __init__(self, root: str = "/", environ: "Optional[Dict[str, str]]" = None, seconds: float = 5.0) -> None:
        """Look at the file system below root, with these environment variables; commands get this many seconds."""
        self.root = root.rstrip("/")
        self.environ = dict(os.environ if environ is None else environ)
        self.seconds = seconds
        self.row: "Facts" = {}
        self.tell: "Callable[[str], object]" = str  # receives each step of a trial
        self.environment: "Optional[str]" = None  # the Python that is asked after; None: the machine as a whole
        self.log: "List[Tuple[str, str, str]]" = []
        self.calls: "List[Tuple[str, float, str]]" = []
        self.kept: "Facts" = {}  # what one probe of this process found out and the next needs as well

    # Files. A path is always the path that the machine itself would use, without root.

    def read(self, path: str, limit: int = LIMIT) -> "Optional[str]":
        """Return the text of a file, or None if there is none or it cannot be read: ``why(path)`` says which."""
        data = self.bytes(path, limit)
        return None if data is None else data.decode("utf-8", "replace")

    def bytes(self, path: str, limit: int = LIMIT, offset: int = 0) -> "Optional[bytes]":
        """Return at most ``limit`` bytes of a regular file from ``offset``, or None; never waits for a pipe."""
        try:
            handle = self._rooted("opened", path) if self.root else os.open(path, READ)
            try:
                if stat.S_ISDIR(os.fstat(handle).st_mode):
                    raise IsADirectoryError(errno.EISDIR, "is a folder")
                if offset:
                    os.lseek(handle, offset, os.SEEK_SET)
                data = _held(handle, limit)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self._note("read", path, error)
            return None
        self.log.append(("read", path, "ok"))
        return data

    def why(self, path: str) -> str:
        """Return the result of the last access to a path in a word: ok, missing, denied, or the system's error."""
        return next((outcome for _, asked, outcome in reversed(self.log) if asked == path), "not asked")

    def exists(self, path: str) -> bool:
        """Return whether the path leads to something."""
        return self.stat(path) is not None

    def stat(self, path: str) -> "Optional[Facts]":
        """Return mode, owner, group, device numbers, size, and whether this process may read and write it; or None."""
        try:
            if self.root:
                found, readable, writable = self._rooted("about", path)
            else:
                found, readable, writable = os.stat(path), os.access(path, os.R_OK), os.access(path, os.W_OK)
        except (OSError, ValueError) as error:
            self._note("stat", path, error)
            return None
        return {
            "mode": oct(found.st_mode & 0o7777),
            "kind": {stat.S_IFCHR: "char", stat.S_IFDIR: "dir", stat.S_IFREG: "file"}.get(stat.S_IFMT(found.st_mode)),
            "uid": found.st_uid,
            "gid": found.st_gid,
            "major": os.major(found.st_rdev),
            "minor": os.minor(found.st_rdev),
            "size": found.st_size,
            "readable": readable,
            "writable": writable,
        }

    def link(self, path: str) -> "Optional[str]":
        """Return what a symbolic link says, or None if it is not one."""
        try:
            return str(self._rooted("link", path)) if self.root else os.readlink(path)
        except (OSError, ValueError):
            return None

    def real(self, path: str) -> str:
        """Return the path with every symbolic link followed, as the machine itself would name it."""
        return str(self._rooted("real", path)) if self.root else os.path.realpath(path)

    def glob(self, pattern: str) -> "List[str]":
        """Return the paths that match, sorted."""
        return sorted(self._rooted("glob", pattern) if self.root else globbing.glob(pattern, recursive="**" in pattern))

    def list(self, folder: str, most: "Optional[int]" = None) -> "List[str]":
        """Return the names in a folder (the first ``most`` that come), sorted; none where it cannot be listed."""
        try:
            if self.root:
                return sorted(self._rooted("names", folder, most))
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in islice(entries, most))
        except (OSError, ValueError) as error:
            self._note("list", folder, error)
            return []

    def env(self, name: str) -> "Optional[str]":
        """Return an environment variable, or None if it is not set."""
        return self.environ.get(name)

    def path(self, tool: str) -> "Optional[str]":
        """Return the path of a command: on PATH first, then in the system's own folders (a prolog has no PATH)."""
        for folder in [*(self.env("PATH") or "").split(os.pathsep), *TOOLS]:
            found = os.path.join(folder, tool)
            runs = self._rooted("runs", found) if self.root else os.access(found, os.X_OK) and not os.path.isdir(found)
            if folder.startswith("/") and runs:
                return found
        return None

    def run(self, *argv: str, seconds: "Optional[float]" = None) -> "Optional[Facts]":
        """Return {code, out, err} of a command, or None if it is missing; raises TimeoutError when it is too slow."""
        found = argv[0] if argv[0].startswith("/") else self.path(argv[0])
        place = self.root + self.real(found) if self.root and found else found
        if found is None or not os.access(str(place), os.X_OK):
            self.log.append(("run", argv[0], "missing"))
            return None
        begun, limit = time.monotonic(), self.seconds if seconds is None else seconds
        environ = {**{name: held for name, held in self.environ.items() if name not in OF_PYTHON}, "LC_ALL": "C"}
        try:
            said = self.shared("children.py")["command"]([place, *argv[1:]], environ, limit)
        except OSError as error:
            self._note("run", " ".join(argv), error)
            raise
        outcome = "no answer" if said is None else "exit %d" % said[0]
        self._called(" ".join(argv), begun, outcome)
        self.log.append(("run", " ".join(argv), outcome))
        if said is None:
            raise TimeoutError("%s gave no answer in %.1f s" % (argv[0], limit))
        code, out, err = said
        return {"code": code, "out": out.decode("utf-8", "replace"), "err": err[:4096].decode("utf-8", "replace")}

    def library(self, name: str) -> "Library":
        """Load a shared library into this process; raises OSError with the loader's own words."""
        return self._loaded("dlopen " + name, lambda: ctypes.CDLL(name))

    def module(self, name: str) -> "Library":
        """Import a Python module by name and give it with its calls timed; raises what the import raises."""
        return self._loaded("import " + name, lambda: importlib.import_module(name))

    def _loaded(self, what: str, load: "Callable[[], object]") -> "Library":
        begun, outcome = time.monotonic(), "ok"
        try:
            return Library(self, load())
        except OSError as error:
            outcome = str(error)
            raise
        finally:
            self._called(what, begun, outcome)

    def interpreter(self) -> "Facts":
        """Return what this Python says of itself, and the C library under it; ``path`` is where it imports from."""
        described: "Facts" = self.shared("interpreter.py")["describe"]()
        return described

    def elf(self, path: str) -> "Optional[Facts]":
        """Return what the loader reads of an ELF file (soname, needed, rpath, runpath, glibc …), else None."""
        kept = len(self.log)
        read = self.shared("elf.py")["read"]
        described: "Optional[Facts]" = read(lambda offset, size: self.bytes(path, size, offset))
        del self.log[kept + 1 :]  # many small reads of one file are one look
        return described

    def pieces(self, path: str, word: "Bytes", around: int = 1024) -> "Iterator[Bytes]":
        """Return the text around each occurrence of a word in a file of any size, its end first (with constants)."""
        self.bytes(path, 1)
        kept = len(self.log)
        size = (self.stat(path) or {"size": 0})["size"]
        for piece in self.shared("elf.py")["pieces"](lambda at, much: self.bytes(path, much, at), size, word, around):
            del self.log[kept:]  # the first read showed whether it can be read
            yield piece
        del self.log[kept:]

    def shared(self, name: str) -> "Facts":
        """Return the names that a file beside this one defines: what several probes share, loaded once a process."""
        if name not in _SHARED:
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
            with open(path, encoding="utf-8") as source:
                names: "Facts" = {"__name__": "gpustack_shared", "__file__": path}
                exec(compile(source.read(), path, "exec"), names)  # noqa: S102 - our own file, as the runner runs probes
            _SHARED[name] = names
        return _SHARED[name]

    def mapped(self, word: str) -> "List[str]":
        """Return the files mapped into this process whose name has the word in it; none where /proc does not say."""
        lines = (Host().read("/proc/self/maps", 16 << 20) or "").split("\n")
        return sorted({line[line.index("/") :] for line in lines if word in line.rpartition("/")[2] and "/" in line})

    def apart(self, work: "Callable[[], Any]", seconds: "Optional[float]" = None) -> "Any":
        """Return what ``work()`` gives, done in a forked process of its own; raises OSError saying how it died."""
        answer = self.apart_all([work], seconds)[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def apart_all(self, works: "List[Callable[[], Any]]", seconds: "Optional[float]" = None) -> "List[Any]":
        """Return for each work what it gives or the OSError that ended it; each has a fork and one limit is for all."""
        known = len(self.calls)
        told = [lambda work=work: [work(), self.calls[known:]] for work in works]
        answers = self.shared("children.py")["fork_all"](told, self.seconds if seconds is None else seconds)
        for number, said in enumerate(answers):
            if not isinstance(said, OSError):
                answers[number], calls = said
                self.calls += [(name, spent, outcome) for name, spent, outcome in calls]
        return list(answers)

    def _rooted(self, name: str, path: str, *more: "Optional[int]") -> "Any":
        """Return what a function of rooted.py says of a path below the root."""
        return self.shared("rooted.py")[name](self.root, path, *more)

    def _note(self, verb: str, path: str, error: Exception) -> None:
        kinds = {errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.EACCES: "denied", errno.EPERM: "denied"}
        self.log.append((verb, path, kinds.get(getattr(error, "errno", 0) or 0, str(error))))

    def _called(self, name: str, begun: float, outcome: str) -> None:
        self.calls.append((name, round(time.monotonic() - begun, 6), outcome))


class Library:
    """A vendor's library whose every call is timed and logged."""

    def __init__(self, host: Host, loaded: "Any") -> None:
        """Wrap what was loaded."""
        self.host = host
        self.loaded = loaded

    def has(self, name: str) -> bool:
        """Return whether the library has this function; an old one may not."""
        return hasattr(self.loaded, name)

    def value(self, name: str, otherwise: "Any" = None) -> "Any":
        """Return a constant of the library, or ``otherwise`` where this version has no such name."""
        return getattr(self.loaded, name, otherwise)

    def call(self, name: str, *args: "Any") -> "Any":
        """Call a function; raises what it raises, AttributeError where this version has no such function."""
        begun = time.monotonic()
        try:
            answer = getattr(self.loaded, name)(*args)
        except Exception as error:
            self.host._called(name, begun, self.words(error))  # noqa: SLF001 - one file, one door
            raise
        self.host._called(name, begun, "ok")  # noqa: SLF001
        return answer

    @staticmethod
    def words(error: Exception) -> str:
        """Return the kind of an exception and what it says; a vendor's library may fail at making its text."""
        try:
            return "%s: %s" % (type(error).__name__, error)
        except Exception as worse:  # noqa: BLE001 - whatever came of asking, the kind is known
            return "%s: its text cannot be read (%s)" % (type(error).__name__, type(worse).__name__)


def _held(handle: int, limit: int) -> bytes:
    """Return what can be read now, up to the limit; the kernel's log has one record per read and skips lost ones."""
    data, part = bytearray(), b" "
    while part and len(data) < limit:
        try:
            part = os.read(handle, min(limit - len(data), 1 << 16))
        except BrokenPipeError:
            continue
        except BlockingIOError:
            break
        data += part
    if not data and limit and stat.S_ISFIFO(os.fstat(handle).st_mode):
        raise OSError(errno.ESPIPE, "is a pipe, which is not waited for")
    return bytes(data)
