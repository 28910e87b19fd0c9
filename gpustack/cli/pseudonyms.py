"""Pseudonyms instead of names: the option for them, and the key that makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from gpustack.errors import InputError

Thing = TypeVar("Thing")
LEAST_KEY, MOST_KEY = 16, 4096  # bytes
Pseudonyms = Annotated[
    Path | None,
    typer.Option(
        "--pseudonyms", metavar="KEYFILE", help="Replace names with keyed hashes: a machine keeps its pseudonym."
    ),
]


def read_key(path: Path) -> bytes:
    """Return the key in a file; raises InputError if it cannot be read, or is too short to keep a secret."""
    try:
        with path.open("rb") as file:
            key = file.read(MOST_KEY).strip()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise InputError(f"{path} holds {len(key)} bytes: a key needs {LEAST_KEY} or more (head -c 32 /dev/urandom)")
    return key


class Hidden:
    """Removes names from a fleet's files and reports, with the key in a file."""

    def __init__(self, keyfile: Path) -> None:
        from gpustack.redaction import pseudonyms

        self.key, self.hosts = read_key(keyfile), list[str]()
        self.called = pseudonyms(self.key)

    def know(self, *folders: Path) -> None:
        """Learn the names of the nodes whose files are in folders."""
        from gpustack.fleet import nodes

        for there, missing in map(nodes.look, folders):
            self.hosts += [*(one.name for one in there), *missing]

    def out_of(self, thing: Thing) -> Thing:
        """Return JSON or a report without serials, UUIDs, addresses and the names of nodes."""
        from gpustack.redaction import redact

        return redact(thing, key=self.key, hosts=self.hosts)
