"""A file that somebody names, read up to a bound: it may be anything, a device without an end among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 130_000_000


def text(path: Path, most: int = MOST_BYTES) -> str:
    """Give the text of a file; raises InputError where it cannot be read, is too long or is not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > most:
        raise InputError(f"{path}: more than {most // 1_000_000} MB is too much to read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read: it is not UTF-8") from error
