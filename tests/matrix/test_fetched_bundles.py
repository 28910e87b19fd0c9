"""A bundle of data from an address: over HTTPS, pinned, bounded; requested only from a server on this machine."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpustack.collect.fetching import fetch
from gpustack.errors import InputError, NothingSeenError, UsageError
from gpustack.matrix import Matrix
from tests.ask.questions import command
from tests.patience import idle
from tools.matrix.__main__ import main

OPENSSL = shutil.which("openssl")
pytestmark = [
    pytest.mark.skipif(OPENSSL is None, reason="needs openssl, which makes the server's certificate"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # clients disconnect part-way
]
MOST = 1 << 16
ELSEWHERE = {
    "/plain": "http://127.0.0.1/data.zip",
    "/file": "file:///etc/hostname",
    "/ftp": "ftp://127.0.0.1/data.zip",
    "/loop": "/loop",
    "/many0": "/many1",
    **{f"/many{one}": f"/many{one + 1}" for one in range(1, 9)},
    "/once": "/data",
}


class Server(BaseHTTPRequestHandler):
    """Answers each path in its own bad way, ``/data`` with bytes and ``/bundle`` with a file."""

    bundle = Path()

    def do_GET(self) -> None:
        if self.path in ELSEWHERE:
            self.send_response(302)
            self.send_header("Location", ELSEWHERE[self.path])
            self.end_headers()
            return
        if self.path == "/absent":
            self.send_error(404, "\x1b]0;gone\x07")
            return
        if self.path == "/garbage":
            self.wfile.write(b"\x00\xffno answer of HTTP\r\n\r\n")
            return
        if self.path == "/silent":
            time.sleep(2)
            return
        self.send_response(200)
        self.end_headers()
        self._body()

    def _body(self) -> None:
        pieces = {"/long": [b"x" * MOST] * 50, "/slow": [b"x"] * 40, "/bundle": [b""]}.get(self.path, [b"data"])
        for one in pieces:
            time.sleep(0.1 if self.path == "/slow" else 0)
            self.wfile.write(self.bundle.read_bytes() if self.path == "/bundle" else one)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """Lets clients disconnect in the middle of an answer."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the address of a server with a certificate of its own, and that certificate."""
    folder = tmp_path_factory.mktemp("server")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = [OPENSSL or "", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    Server.bundle = folder / "bundle.zip"
    assert main(["bundle", str(Server.bundle), "--date", "2030-03-01"]) == 0
    server = Quiet(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    server.shutdown()
    server.server_close()


@pytest.fixture
def address(home: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a trusted server, with a data folder for this test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(home[1]))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return home[0]


def test_what_is_there_comes_also_from_where_it_moved_to(address: str) -> None:
    assert fetch(f"{address}/data", MOST) == fetch(f"{address}/once", MOST) == b"data"


@pytest.mark.parametrize(
    "asked", ["http://127.0.0.1/", "file:///etc/hostname", "https://", "https://a:b@c/", "https://a b/"]
)
def test_only_plain_addresses_of_https_are_asked(asked: str) -> None:
    with pytest.raises(UsageError, match="is not an address to fetch from"):
        fetch(asked, MOST)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("plain", UsageError),
        ("file", NothingSeenError),
        ("ftp", UsageError),
        ("loop", NothingSeenError),
        ("many0", NothingSeenError),
        ("absent", NothingSeenError),
        ("garbage", NothingSeenError),
        ("silent", NothingSeenError),
        ("slow", NothingSeenError),
        ("long", InputError),
    ],
)
def test_what_leaves_https_never_ends_or_is_not_an_answer_is_refused_in_time(
    address: str, path: str, error: type[Exception]
) -> None:
    began = time.monotonic()
    with pytest.raises(error) as refused:
        fetch(f"{address}/{path}", MOST, 1.0)
    assert time.monotonic() - began < idle(1.8)
    assert str(refused.value).isprintable()


def test_a_server_without_a_trusted_certificate_is_not_believed(
    home: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(NothingSeenError, match="certificate"):
        fetch(f"{home[0]}/data", MOST)


def test_a_bundle_is_fetched_held_to_its_pin_used_and_left_again(address: str) -> None:
    digest = hashlib.sha256(Server.bundle.read_bytes()).hexdigest()
    bundle, before = f"{address}/bundle", Matrix().date
    for wrong, says in (((), "must be pinned"), (("--sha256", "0" * 64), f"its SHA-256 is {digest}")):
        said = command("update", "--from", bundle, *wrong)
        assert (said.returncode, len(said.stderr.splitlines())) == (2, 1)
        assert says in said.stderr
    absent = command("update", "--from", f"{address}/absent", "--sha256", digest)
    assert (absent.returncode, "HTTP 404" in absent.stderr, absent.stdout) == (3, True, "")
    assert Matrix().date == before
    said = command("update", "--from", bundle, "--sha256", digest)
    assert (said.returncode, said.stdout.split(",")[0]) == (0, "Data used now: 2030-03-01")
    assert command("update", "--from", bundle, "--sha256", digest).returncode == 2  # not newer
    assert command("update", "--back").returncode == 0
    assert Matrix().date == before
