"""What somebody names, read up to a bound: it may be anything, a device without an end or endless lists among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 130_000_000  # of text: logs are as long as this
MOST_JSON, MOST_VALUES = 32_000_000, 2_000_000  # letters and values of JSON; one value costs up to 100 bytes of memory


def json_text(path: Path) -> str:
    """Return the text of a file of JSON; raises InputError where it cannot be read, or holds more than we decode."""
    held = text(path, MOST_JSON)
    measure(held, str(path))
    return held


def measure(json: str, origin: str) -> None:
    """Raise InputError, naming the origin, for JSON that is too much to decode: nothing is decoded to find out."""
    if len(json) > MOST_JSON:
        raise InputError(f"{origin}: more than {MOST_JSON // 1_000_000} MB of JSON is too much to read")
    if len(json) > MOST_VALUES and sum(map(json.count, ",[{")) > MOST_VALUES:
        raise InputError(f"{origin}: more than {MOST_VALUES // 1_000_000} million values of JSON are too much to read")


def text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file; raises InputError where it cannot be read, is too long or is not UTF-8."""
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
