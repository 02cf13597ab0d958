"""The webhook as its own process: what it answers over TLS, what it refuses, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.admission.test_gating import question, users_job

from steepest.admission.webhook import BODY_MOST, PATH
from steepest_services.admission_webhook import main

ORDER = (
    sys.executable,
    "-m",
    "steepest_services.admission_webhook",
    "--claim=shared",
    "--folder=trial",
    "--host=127.0.0.1",
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


def make_certificate(folder: Path) -> None:
    """Make ``tls.crt`` for 127.0.0.1, and ``tls.key``."""
    order = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    order += ["-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*order, "-keyout", "tls.key", "-out", "tls.crt"], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def port(certificate: Path) -> Iterator[int]:
    """Where a webhook listens that runs for these tests, and that ends well afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
    files = (f"--certificate={certificate}/tls.crt", f"--key={certificate}/tls.key")
    with subprocess.Popen([*ORDER, *files, f"--port={number}"]) as process:
        try:
            await_port(number, process)
            yield number
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) in (0, -signal.SIGTERM)


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a webhook listens."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the webhook ended with {process.returncode}")


def asked(port: int, certificate: Path, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Status and body of an answer."""
    trusted = ssl.create_default_context(cafile=str(certificate / "tls.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_answers_an_api_server(port: int, certificate: Path) -> None:
    """Over TLS, with a certificate that the caller was given."""
    status, body = asked(port, certificate, "POST", PATH, question(users_job()))

    assert status == 200
    assert json.loads(body)["response"]["allowed"] is True
    assert asked(port, certificate, "GET", "/healthz") == (200, b"yes\n")


@pytest.mark.parametrize(("body", "status"), [(b"{}", 400), (b" " * (BODY_MOST + 1), 413)])
def test_another_question_is_refused_and_the_next_one_answered(
    port: int, certificate: Path, body: bytes, status: int
) -> None:
    """An error is its caller's alone."""
    assert asked(port, certificate, "POST", PATH, body)[0] == status
    assert asked(port, certificate, "POST", PATH, question(users_job()))[0] == 200


def test_wrong_files_and_queues_are_named(certificate: Path) -> None:
    """Before it listens."""
    key, pem = f"--key={certificate}/tls.key", f"--certificate={certificate}/tls.crt"
    swapped = [f"--certificate={certificate}/tls.key", key]
    alone = ["--claim=shared", "--folder=trial"]
    done = CliRunner().invoke(main, [*alone, *swapped])
    wrong = CliRunner().invoke(main, [*alone, pem, key, "--queue=images"])

    assert (done.exit_code, wrong.exit_code) == (2, 2)
    assert "tls.key" in done.stderr
    assert "QUEUE=PATH" in wrong.stderr
