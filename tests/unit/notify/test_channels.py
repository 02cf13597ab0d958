"""Messages really arrive: by mail at an SMTP server, and at a webhook."""

from __future__ import annotations

import asyncio
import email
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from steepest.errors import InputError
from steepest.notify.targets import PUSHED, read_targets

pytest.importorskip("apprise", reason="make dev")
pytest.importorskip("aiosmtpd", reason="make dev")

from aiosmtpd.smtp import SMTP

from steepest.notify.apprise_channel import channel_to

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # by Apprise
TITLE, BODY = "bert hangs: no step for 70 s", "bert hangs: no step for 70 s\nhttps://steepest.example/#/job/bert"


class Sink:
    """Takes mail."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:  # noqa: ARG002, N802 - a hook
        """Keep a mail."""
        self.mails.append(envelope)
        return "250 OK"


@pytest.fixture
def webhook() -> Iterator[tuple[int, list[bytes]]]:
    """A server that keeps what is posted."""
    posted: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, posted
    server.shutdown()
    thread.join()
    server.server_close()


def sent(name: str, url: str) -> bool:
    """Whether a message to this address is taken."""

    async def send() -> bool:
        return await channel_to(name, url)(TITLE, BODY)

    return asyncio.run(send())


def test_a_mail_arrives() -> None:
    """With its title as the subject, and the link in its text."""
    sink = Sink()

    async def send() -> bool:
        server = await asyncio.get_running_loop().create_server(lambda: SMTP(sink), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            url = f"mailto://127.0.0.1:{port}?from=steepest@example.org&to=ops@example.org&mode=insecure"
            return await channel_to("ops", url)(TITLE, BODY)

    assert asyncio.run(send())
    (mail,) = sink.mails
    read = email.message_from_bytes(mail.content)
    part = next(part for part in read.walk() if part.get_content_type() == "text/plain")
    assert mail.rcpt_tos == ["ops@example.org"]
    assert str(email.header.make_header(email.header.decode_header(read["Subject"]))) == TITLE
    assert "https://steepest.example/#/job/bert" in part.get_payload(decode=True).decode()  # type: ignore[union-attr]


def test_a_webhook_is_called(webhook: tuple[int, list[bytes]]) -> None:
    """With title and text as JSON."""
    port, posted = webhook
    assert sent("hook", f"json://127.0.0.1:{port}/")
    said = json.loads(posted[0])
    assert (said["title"], said["message"]) == (TITLE, BODY)


def test_a_target_that_nobody_serves_is_a_message_not_taken() -> None:
    """It raises nothing."""
    assert not sent("gone", "json://127.0.0.1:9/")


def test_an_address_that_apprise_does_not_know_is_refused_without_its_secret() -> None:
    """At the start, with the name of its target."""
    with pytest.raises(InputError, match="target ops of messages") as refused:
        channel_to("ops", "nothing://user:secret@host")
    assert "secret" not in str(refused.value)


def test_targets_are_read_from_a_closed_file(tmp_path: Path) -> None:
    """A table each; a target that names no kinds gets those of jobs that hold their places without effect."""
    file = tmp_path / "targets.toml"
    file.write_text('[ops]\nurl = "json://x"\n[paper]\nurl = "json://y"\nqueues = ["paper"]\nkinds = ["spike"]\n')
    file.chmod(0o600)
    found = read_targets(file)
    assert (found["ops"].kinds, found["paper"].queues) == (PUSHED, ("paper",))
    assert "json" not in repr(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[ops]\n", "url"),
        ('[ops]\nurl = "x"\nkind = []', "kind"),
        ("[ops", "names no targets"),
        ('[ops]\nurl = ""', "url"),
    ],
)
def test_a_wrong_file_of_targets_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """With its name and the place."""
    file = tmp_path / "targets.toml"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(InputError, match=says):
        read_targets(file)


def test_a_file_of_targets_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Addresses hold passwords."""
    file = tmp_path / "targets.toml"
    file.write_text('[ops]\nurl = "json://x"\n')
    file.chmod(0o644)
    with pytest.raises(InputError, match="other users may read") as refused:
        read_targets(file)
    assert "chmod 600" in str(refused.value.hint)
