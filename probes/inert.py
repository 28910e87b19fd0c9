"""An unpacked image as a host: it is only read, and nothing in it is run or loaded.

Its Python and its variables are passed in, since they cannot be queried. Standard library and Python 3.8 syntax; the
runner of probes loads it by path.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Type

    from probes.host import Facts, Host, Library

NOBODY: "Facts" = {
    "executable": "",
    "version": "",
    "prefix": "/usr",
    "base_prefix": "/usr",
    "implementation": "cpython",
    "tag": None,
    "path": [],
    "machine": "",
    "bits": 64,
    "glibc": None,
    "gil": True,
}
WHY = "it would have to be run, and an unpacked file system is only read"


class UnreadError(Exception):
    """Something that files alone do not show. Not an OSError: a probe would treat that as a failure of the library."""

    unread = True


def inert(base: "Type[Host]", told: "Optional[Facts]" = None) -> "Type[Host]":
    """Return the class of hosts that run nothing; ``told`` is what its Python would report about itself."""

    class Inert(base):  # type: ignore[valid-type,misc]  # the class was loaded by path
        """A file system in a folder."""

        inert = True

        def interpreter(self) -> "Facts":
            """Return what is known about the Python or, without one, about the image."""
            return dict(NOBODY, **(told or {}))

        def run(self, *argv: str, seconds: "Optional[float]" = None) -> "Optional[Facts]":  # noqa: ARG002 - never runs
            """Return None, as for a missing command."""
            self.log.append(("run", argv[0], "not run"))
            return None

        def library(self, name: str) -> "Library":
            """Raise: nothing is loaded."""
            raise UnreadError(name + ": " + WHY)

        def module(self, name: str) -> "Library":
            """Raise: nothing is imported."""
            raise UnreadError(name + ": " + WHY)

        def apart_all(self, works: "List[Callable[[], Any]]", seconds: "Optional[float]" = None) -> "List[Any]":  # noqa: ARG002 - never runs
            """Raise if there is any work: only work that loads a library is isolated."""
            if works:
                raise UnreadError(WHY)
            return []

    return Inert
