"""The entry point of gpustack.pyz: unpack the archive into the user's cache, once, and run it from there.

Probes are programs that child processes run, so they must be files. This file is valid in Python 3.6, so that it can
report a Python that is too old for the rest. If no cache is writable, a temporary folder is used and removed at the
end.
"""

import atexit
import os
import runpy
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

LEAST = (3, 10)
OTHERS_MAY_WRITE = 0o022


def main() -> None:
    """Run the command line."""
    if sys.version_info < LEAST:
        needed, found = (".".join(map(str, one)) for one in (LEAST, sys.version_info[:3]))
        sys.exit(f"gpustack: Python {needed} or newer is needed; this is Python {found} ({sys.executable})")
    sys.path[:1] = [str(unpacked(sys.path[0]) / "site")]
    runpy.run_module("gpustack", run_name="__main__")


def unpacked(archive: str) -> Path:
    """Return the folder with the unpacked archive."""
    with zipfile.ZipFile(archive) as held:
        name = held.read("DIGEST").decode()
        above = cache()
        if above and (above / name).is_dir():
            return above / name
        for place in (above, None) if above else (None,):
            try:
                return placed(held, place, name)
            except OSError as error:  # noqa: PERF203 - two places, each tried once
                said = error
    sys.exit(f"gpustack: {archive} cannot be unpacked: {said.strerror or said}")


def cache() -> "Path | None":
    """Return the folder in the user's cache; None if there is none, or if others may write to it."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(root if root.startswith("/") else os.path.expanduser("~/.cache"), "gpustack", "pyz")  # noqa: PTH111 - where there is no home
    if not folder.is_absolute():
        return None
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError:
        return None
    return folder if about.st_uid == os.getuid() and not about.st_mode & OTHERS_MAY_WRITE else None


def placed(held: zipfile.ZipFile, above: "Path | None", name: str) -> Path:
    """Return the filled folder: moved into the cache at once, so that no other run finds half of it, or temporary."""
    made = Path(tempfile.mkdtemp(prefix=".new-" if above else "gpustack-", dir=above))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    held.extractall(made)
    if above is None:
        return made
    try:
        made.rename(above / name)
    except OSError:  # another run was faster
        if not (above / name).is_dir():
            raise
    return above / name


main()
