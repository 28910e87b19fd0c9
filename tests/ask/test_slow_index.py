"""An index, or a pip, whose answer is endless, slow or huge: the command ends in time, with one clear line."""

from __future__ import annotations

import http.server
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from gpustack.collect import updates as asked
from gpustack.collect.subprocesses import Door
from gpustack.collect.updates import PARTS, Index, compare
from gpustack.errors import NothingSeenError
from tests.ask.questions import MATRIX, command
from tests.patience import in_time

if TYPE_CHECKING:
    import subprocess

pytestmark = in_time

Answer = Callable[[http.server.BaseHTTPRequestHandler, threading.Event], None]


def endless(handler: http.server.BaseHTTPRequestHandler, over: threading.Event) -> None:
    """Return an endless page of links."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    while not over.wait(0.01):
        handler.wfile.write(b"<a href='torch-1.0-py3-none-any.whl'>torch</a>\n" * 20)


def dripping(handler: http.server.BaseHTTPRequestHandler, over: threading.Event) -> None:
    """Return one byte at a time, each soon enough."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    while not over.wait(0.2):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def silent(_handler: http.server.BaseHTTPRequestHandler, over: threading.Event) -> None:
    """Read the request and never answer."""
    over.wait(60)


@pytest.fixture(params=[endless, dripping, silent], ids=lambda answer: str(answer.__name__))
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of an index that answers this way."""
    over, answer = threading.Event(), request.param

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                answer(self, over)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    over.set()
    server.shutdown()
    server.server_close()


def test_the_whole_command_ends_in_its_time(address: str) -> None:
    """All distributions are requested; without a limit on the whole, none of the requests would time out."""
    assert len(PARTS) > 3
    only = {"PIP_INDEX_URL": address, "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    begun = time.monotonic()
    done = command("update", "--timeout", "4", **only)
    assert time.monotonic() - begun < 6
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "gpustack: the package index did not answer within 3 s\n"


class Scripted(Door):
    """A subprocess starter that runs a script instead of pip."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.children: list[subprocess.Popen[bytes]] = []

    def start(
        self, argv: Sequence[str], environ: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.Popen[bytes]:
        self.children.append(super().start([sys.executable, "-I", "-S", "-c", self.script, *argv], environ, stdin))
        return self.children[-1]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pip_that_prints_without_end_is_stopped_at_a_bound(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "MOST_OUTPUT", 1 << 20)
    door = Scripted(f"import sys\nwhile True: sys.{stream}.write('x' * 65536)")
    with pytest.raises(NothingSeenError, match="pip printed over 1 MiB and was stopped"):
        Index(door=door, deadline=door.now() + 30).versions("torch")
    (child,) = door.children
    assert child.returncode is not None


@pytest.mark.parametrize(
    "script",
    [
        "import time; time.sleep(60)",
        "import time\nwhile True: print('Available versions: 1.0', flush=True); time.sleep(0.05)",
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
    ],
)
def test_what_is_left_of_the_time_is_for_all_questions_together(script: str) -> None:
    door = Scripted(script)
    begun = door.now()
    with pytest.raises(NothingSeenError, match="the package index did not answer within 1 s"):
        compare((), MATRIX, None, Index(door=door, deadline=begun + 1))
    assert door.now() - begun < 3
    assert len(door.children) == 1  # the rest is not requested


def test_what_was_read_in_time_is_shown_and_the_rest_is_named() -> None:
    script = """
import json, sys, time
if "torch" not in sys.argv and "torch==99.0" not in sys.argv: time.sleep(60)
if "versions" in sys.argv: print("Available versions: 99.0")
else: print(json.dumps({"install": [{"metadata": {"requires_python": ">=3.8"}, "download_info": {"url": "a.whl"}}]}))
"""
    door = Scripted(script)
    found = compare((), MATRIX, None, Index(door=door, deadline=door.now() + 3))
    assert [one.key for one in found.changes] == ["99.0"]
    assert found.unread[0].startswith(f"{PARTS[1].distribution}: the package index did not answer within ")
    assert found.unread[1:] == tuple(
        f"{part.distribution}: time ran out before the package index was asked" for part in PARTS[2:]
    )
