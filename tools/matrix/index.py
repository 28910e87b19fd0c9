"""The package index that pip is set to use, read by pip's own code: files of a distribution, and members of a wheel."""

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

METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
CHUNK = 1 << 18  # bytes of one range
LARGE = 1 << 24  # the same where a whole library is read


class NotReadError(Exception):
    """A source did not answer, not in the way that was expected, or was asked often enough for one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of the releases that count; how many are from before that time, and how many are pre-releases."""

    releases: Mapping[Version, Sequence[Link]]
    before: int
    prereleases: int


@dataclass(frozen=True, kw_only=True)
class Index:
    """The first index of pip's settings; nothing is installed, and what was read of it is kept in a folder.

    ``allowed`` is how often it may be asked for METADATA, one wheel after the other. The lists of files are
    asked for, or where it is ``kept`` those that an earlier run asked for.
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
        """Return the index's page of a distribution, as text whatever its encoding."""
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
        """Return the METADATA of a wheel: the index's copy where it has one, else a range of the wheel's bytes.

        Raises NotReadError where the index does not give it, or was asked as often as it may be.
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
            name = next(
                one for one in archive.namelist() if one.endswith(".dist-info/METADATA") and one.count("/") == 1
            )
            return archive.read(name).decode("utf-8")

    @contextmanager
    def opened(self, wheel: Link, chunk: int = CHUNK) -> Iterator[zipfile.ZipFile]:
        """Yield a wheel as an archive of which only the ranges that are read are fetched.

        Raises NotReadError where the index gives no ranges.
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
    """Return the files of each release that counts from a day on, and how many releases do not.

    A pre-release counts where there is no other release to resolve to: none at all, or all of them withdrawn.
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
    """Return whether a release is not withdrawn."""
    return any(one.yanked_reason is None for one in files)


def version_of(name: str) -> Version | None:
    """Return the version in the name of a file; None where it is no file of a release."""
    try:
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[1]
        return parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def day_of(files: Iterable[Link]) -> str | None:
    """Return the day of the first upload, where the index tells it."""
    days = (getattr(one, "upload_time", None) for one in files)  # pip knows it from 25.3 on
    return min((day.date().isoformat() for day in days if day), default=None)


@contextmanager
def opened(cache: Path | None = None, most: int | None = None, *, kept: bool = False) -> Iterator[Index]:
    """Yield the index that pip's settings name, with pip's session: its proxies, certificates and credentials."""
    command = cast("RequirementCommand", create_command("download"))
    options, _ = command.parse_args([])
    with command.main_context():
        session = command.get_default_session(options)
        collector = LinkCollector.create(session, options=options, suppress_no_index=True)
        usual = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "gpustack-matrix"
        allowed = iter(range(sys.maxsize if most is None else most))
        yield Index(session=session, collector=collector, cache=cache or usual, allowed=allowed, kept=kept)
