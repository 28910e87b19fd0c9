"""Download a file: only over HTTPS, and limited in time, size and redirects."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    UnknownHandler,
)

from gpustack import __version__
from gpustack.errors import InputError, NothingSeenError, UsageError

if TYPE_CHECKING:
    from http.client import HTTPMessage
    from urllib.request import Request

SCHEME = "https://"
SECONDS, MOST_REDIRECTS, PIECE = 60.0, 5, 1 << 16


class Redirects(HTTPRedirectHandler):
    """Follows a few redirects, and none that leaves HTTPS."""

    max_redirections = MOST_REDIRECTS
    max_repeats = 1

    def redirect_request(  # noqa: PLR0917 - as the library calls it
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the next request; raises UsageError for an address without HTTPS."""
        with suppress(UsageError):
            return super().redirect_request(req, fp, code, msg, headers, checked(newurl))
        fp.close()
        raise UsageError(f"{req.full_url} leads to {newurl[:200]!r}: only {SCHEME} is followed")


def checked(address: str) -> str:
    """Return an address that may be fetched; raises UsageError for any other."""
    try:
        parts = urlsplit(address)
        fits = parts.scheme == "https" and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not address.isascii() or not address.isprintable() or " " in address:
        raise UsageError(f"{address[:200]!r} is not an address to fetch from: it must begin with {SCHEME}")
    return address


def fetch(address: str, most: int, seconds: float | None = None) -> bytes:
    """Return the content at an address; raises NothingSeenError if it is unavailable, InputError if it is too long.

    A server that sends a byte now and then gets no more time than one that sends nothing.
    """
    until = time.monotonic() + (seconds or SECONDS)
    outcome: list[bytes | Exception] = []
    asking = threading.Thread(target=_ask, args=(checked(address), most, until, outcome), daemon=True)
    asking.start()
    asking.join(until - time.monotonic())
    if not outcome:
        raise NothingSeenError(f"{address} did not answer in {seconds or SECONDS:g} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _ask(address: str, most: int, until: float, outcome: list[bytes | Exception]) -> None:
    try:
        outcome.append(_read(address, most, until))
    except (UsageError, InputError) as error:
        outcome.append(error)
    except HTTPError as error:
        error.close()
        outcome.append(NothingSeenError(f"{address} could not be fetched: HTTP {error.code}"))
    except Exception as error:  # noqa: BLE001 - a server may answer with anything, and the library raise it
        said = str(getattr(error, "reason", "") or error)
        line = "".join(one for one in said[:200] if one.isprintable())
        outcome.append(NothingSeenError(f"{address} could not be fetched: {line or type(error).__name__}"))


def _read(address: str, most: int, until: float) -> bytes:
    opener = OpenerDirector()
    for one in (ProxyHandler(), UnknownHandler(), HTTPDefaultErrorHandler(), Redirects(), HTTPSHandler()):
        opener.add_handler(one)
    opener.add_handler(HTTPErrorProcessor())
    opener.addheaders = [("User-Agent", f"gpustack/{__version__}")]
    pieces, size = [], 0
    with opener.open(address, timeout=max(0.1, until - time.monotonic())) as answer:
        while piece := answer.read1(PIECE):
            size += len(piece)
            if size > most:
                raise InputError(f"{address} is too large for a data bundle")
            pieces.append(piece)
    return b"".join(pieces)
