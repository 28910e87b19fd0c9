"""An unpacked image as a host: it is read, and nothing of it is run or loaded.

Its Python and its variables are told, since neither can be asked. Standard library and Python 3.8 syntax; loaded by
path by the runner of probes.
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
    """What files alone do not tell. No OSError: a probe would take that for a failure of the library."""

    unread = True


def inert(base: "Type[Host]", told: "Optional[Facts]" = None) -> "Type[Host]":
    """Return the kind of host that runs nothing; ``told`` is what its Python would say of itself."""

    class Inert(base):  # type: ignore[valid-type,misc]  # the class was loaded by path
        """A file system in a folder."""

        inert = True

        def interpreter(self) -> "Facts":
            """Return what is known of the Python; without one, what is known of the image alone."""
            return dict(NOBODY, **(told or {}))

        def run(self, *argv: str, seconds: "Optional[float]" = None) -> "Optional[Facts]":  # noqa: ARG002 - never runs
            """Return None, as for a command that is missing."""
            self.log.append(("run", argv[0], "not run"))
            return None

        def library(self, name: str) -> "Library":
            """Raise: nothing is loaded."""
            raise UnreadError(name + ": " + WHY)

        def module(self, name: str) -> "Library":
            """Raise: nothing is imported."""
            raise UnreadError(name + ": " + WHY)

        def apart_all(self, works: "List[Callable[[], Any]]", seconds: "Optional[float]" = None) -> "List[Any]":  # noqa: ARG002 - never runs
            """Raise where there is any work: what is put apart is what loads a library."""
            if works:
                raise UnreadError(WHY)
            return []

    return Inert
