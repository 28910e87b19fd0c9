"""The package index that pip is configured to use, read by pip's own code: distributions' files and wheels' members."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version
from pip._internal.commands import create_command
from pip._internal.exceptions import PipError
from pip._internal.index.collector import IndexContent, LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._internal.network.lazy_wheel import HTTPRangeRequestUnsupported, LazyZipOverHTTP
from pip._vendor.requests.exceptions import RequestException

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import IO

    from pip._internal.cli.req_command import RequirementCommand
    from pip._internal.network.session import PipSession
METADATA = re.compile(r"[^/]+\.dist[-.]info/METADATA")
CHUNK = 1 << 18  # bytes in one range
MEDIUM = 1 << 22  # the same for a header, or a program
LARGE = 1 << 24  # the same if a whole library is read


class NotReadError(Exception):
    """A source did not answer, gave an unexpected answer, or reached its request limit for one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of the releases that count; how many releases are too old, and how many are pre-releases."""

    releases: Mapping[Version, Sequence[Link]]
    before: int
    prereleases: int


@dataclass(frozen=True, kw_only=True)
class Index:
    """The first index in pip's settings; nothing is installed, and what was read is kept in a folder.

    ``allowed`` is how many METADATA requests may be made, one after the other. Lists of files are requested,
    or those of an earlier run are used (``kept``).
    """

    session: PipSession
    collector: LinkCollector
    cache: Path
    allowed: Iterator[int]
    kept: bool = False

    def files(self, name: str) -> tuple[Link, ...]:
        """Return all files of a distribution; raises NotReadError if the index does not answer."""
        path = self.cache / f"{canonicalize_name(name)}.files"
        if self.kept and not path.exists():
            raise NotReadError("no earlier run has kept the list of its files")
        if not self.kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self._listed(name)), "utf-8")
        said = json.loads(path.read_text("utf-8"))
        return tuple(
            parse_links(
                IndexContent(**{**said, "content": said["content"].encode("latin-1"), "cache_link_parsing": False})
            )
        )

    def _listed(self, name: str) -> Mapping[str, str | None]:
        """Return the index's page for a distribution, as text whatever its encoding."""
        base = self.collector.search_scope.index_urls[0].rstrip("/")
        try:
            page = self.collector.fetch_response(Link(f"{base}/{canonicalize_name(name)}/"))
        except PipError as error:
            raise NotReadError(f"{name}: {error}") from error
        if page is None:
            raise NotReadError(f"the index has no {name}")
        said = {"content_type": page.content_type, "encoding": page.encoding, "url": page.url}
        return {**said, "content": page.content.decode("latin-1")}

    def metadata(self, wheel: Link) -> str:
        """Return the METADATA of a wheel: the index's copy if it has one, else read from a range of the wheel's bytes.

        Raises NotReadError if the index does not serve it, or if the request limit is reached.
        """
        kept = self.cache / f"{wheel.hash or wheel.filename}.metadata"
        if not kept.exists():
            if next(self.allowed, None) is None:
                raise NotReadError(f"{wheel.filename}: the index was asked as often as --most allows")
            try:
                text = self._metadata(wheel)
            except (RequestException, PipError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as error:
                raise NotReadError(f"{wheel.filename}: {error!r}") from error
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(text, "utf-8")
        return kept.read_text("utf-8")

    def _metadata(self, wheel: Link) -> str:
        apart = wheel.metadata_link()
        if apart is not None:
            answer = self.session.get(apart.url_without_fragment)
            answer.raise_for_status()
            return str(answer.content.decode("utf-8"))
        with self.opened(wheel) as archive:
            names = archive.namelist()  # .dist.info: torch 1.7.0 for Windows
            return archive.read(next(one for one in names if METADATA.fullmatch(one))).decode("utf-8")

    @contextmanager
    def opened(self, wheel: Link, chunk: int = CHUNK) -> Iterator[zipfile.ZipFile]:
        """Yield a wheel as an archive that fetches only the ranges that are read.

        Raises NotReadError if the index does not support ranges.
        """
        if wheel.is_file:
            with zipfile.ZipFile(wheel.file_path) as archive:
                yield archive
            return
        try:
            with (
                LazyZipOverHTTP(wheel.url_without_fragment, self.session, chunk) as ranges,
                zipfile.ZipFile(cast("IO[bytes]", ranges)) as archive,
            ):
                yield archive
        except HTTPRangeRequestUnsupported as error:
            raise NotReadError(f"{wheel.filename}: the index gives no ranges") from error


def listing(files: Iterable[Link], since: str) -> Listing:
    """Return the files of each release that counts, from a date on, and how many releases do not count.

    A pre-release counts only if no other release can be resolved: there is none, or all of them were withdrawn.
    """
    there: dict[Version, list[Link]] = defaultdict(list)
    for file in files:
        version = version_of(file.filename)
        if version is not None:
            there[version].append(file)
    recent = {version: held for version, held in there.items() if (day_of(held) or since) >= since}
    final = {version: held for version, held in recent.items() if not version.is_prerelease}
    counted = final if any(map(offered, final.values())) else recent
    early = len(recent) - len(counted)
    return Listing(releases=counted, before=len(there) - len(recent), prereleases=early)


def offered(files: Iterable[Link]) -> bool:
    """Return whether a release was not withdrawn."""
    return any(one.yanked_reason is None for one in files)


def version_of(name: str) -> Version | None:
    """Return the version in a file name; None if it is not a file of a release."""
    try:
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[1]
        return parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def day_of(files: Iterable[Link]) -> str | None:
    """Return the date of the first upload, if the index states it."""
    days = (getattr(one, "upload_time", None) for one in files)  # pip reads it since 25.3
    return min((day.date().isoformat() for day in days if day), default=None)


@contextmanager
def opened(cache: Path | None = None, most: int | None = None, *, kept: bool = False) -> Iterator[Index]:
    """Yield the index from pip's settings, with pip's session: its proxies, certificates and credentials."""
    command = cast("RequirementCommand", create_command("download"))
    options, _ = command.parse_args([])
    with command.main_context():
        session = command.get_default_session(options)
        collector = LinkCollector.create(session, options=options, suppress_no_index=True)
        usual = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "gpustack-matrix"
        allowed = iter(range(sys.maxsize if most is None else most))
        yield Index(session=session, collector=collector, cache=cache or usual, allowed=allowed, kept=kept)
