"""A server over TLS with given answers, and certificates for it, in the place of a cluster's API server."""

from __future__ import annotations

import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

NAME = "steepest.test"
"""The name in the server's certificate, beside its address."""


class Keys:
    """An authority with a server's and a client's certificate, as files of a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl to make keys with; get it with: apt-get install openssl")
        folder.mkdir(parents=True)
        self.authority = folder / "ca.pem"
        self.server = (folder / "server.pem", folder / "server-key.pem")
        self.client = (folder / "client.pem", folder / "client-key.pem")
        self._folder = folder
        new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        self._run("req", "-x509", *new_key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
        for part, names in (("server", f"DNS:{NAME}"), ("client", "DNS:client")):
            (folder / part).write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
            self._run("req", *new_key, "-keyout", f"{part}-key.pem", "-out", "request.pem", "-subj", f"/CN={part}")
            signed = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2", "-extfile", part)
            self._run("x509", "-req", "-in", "request.pem", "-out", f"{part}.pem", *signed)

    def _run(self, *order: str) -> None:
        subprocess.run(["openssl", *order], cwd=self._folder, check=True, capture_output=True)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request that has come.

    Attributes:
        headers: Their names in lower case.
        certificate: The name in the caller's certificate; empty: it has shown none.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    certificate: str


Reply = tuple[int, bytes]


class HttpsStub(http.server.ThreadingHTTPServer):
    """Serves until it is ended.

    Attributes:
        asked: What has come, in order.
        reply: What is answered: a status and a body.
        location: Where a redirection leads.
    """

    daemon_threads = True

    def __init__(self, keys: Keys, reply: Callable[[Asked], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*keys.server)
        tls.load_verify_locations(keys.authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
        self._tls = tls
        self.asked: list[Asked] = []
        self.reply = reply
        self.location = ""
        self._serving = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._serving.start()

    @property
    def address(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: object, client_address: object) -> None:
        """Serve a connection, in its own thread: a caller that does not trust the certificate ends it in the handshake."""
        assert not isinstance(request, tuple)
        try:
            wrapped = self._tls.wrap_socket(request, server_side=True)  # type: ignore[arg-type]
        except OSError:
            return
        with wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)  # type: ignore[arg-type]

    def end(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._serving.join()


class _Exchange(http.server.BaseHTTPRequestHandler):
    server: HttpsStub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        shown = self.connection.getpeercert() or {}
        names = {name: value for part in shown.get("subject", ()) for name, value in part}
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(method=self.command, path=self.path, headers=headers, certificate=names.get("commonName", ""))
        self.server.asked.append(asked)
        status, body = self.server.reply(asked)
        self.send_response(status)
        if status == HTTPStatus.TEMPORARY_REDIRECT:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names
