"""TLS and SASL on a real broker: clients connect with the right settings and report why wrong ones fail."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.kafka.conftest import HOME

from steepest.app.installation import apply_topics
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.errors import InputError, LogUnavailableError, SteepestError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.broker import PROPERTIES, Broker, _free_port, cluster_id, missing
from steepest.log.kafka.consumer_group import KafkaAssignment
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.layout import Layout

LISTENERS = """
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},{secure}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.crt
listener.name.ssl.ssl.client.auth=required
listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} user_steepest="plain-word";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram};
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain} user_steepest="plain-word";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={scram};
"""
MODULES = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule required",
    "scram": "org.apache.kafka.common.security.scram.ScramLoginModule required",
}
PLAIN = {"sasl_mechanism": "PLAIN", "username": "steepest", "password": "plain-word"}
AT = TopicPartition("loss", 1)


class Secure:
    """A broker with a listener of each kind, and the certificates for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: _free_port() for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")}
        self.broker = Broker(folder, home=HOME)

    def start(self) -> None:
        """Make keys and passwords, and start."""
        _make_certificates(self.folder)
        secure = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        own = {"port": self.broker.port, "controller": _free_port(), "folder": self.folder}
        kept = [
            line for line in PROPERTIES.splitlines() if not line.startswith(("listener", "advertised", "inter.broker"))
        ]
        text = "\n".join(kept) + LISTENERS
        properties = self.folder / "server.properties"
        properties.write_text(text.format(**own, secure=secure, **MODULES))
        scrams = [
            part
            for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{name}=[name=steepest,password=scram-word]")
        ]
        self.broker._java(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id(), "-c", str(properties), *scrams
        )
        try:
            self.broker.start()
        except BaseException:
            self.broker.stop()
            raise

    def settings(self, security: Any, **more: Any) -> KafkaSettings:
        """Settings for one of the listeners."""
        at = f"127.0.0.1:{self.ports[security]}"
        return KafkaSettings(bootstrap=at, prefix=more.pop("prefix", "x-"), security=security, **more)


def _make_certificates(folder: Path) -> None:
    """An authority, a broker's certificate for this address, and a client's."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=tests"
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("broker", "client"):
        openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-out", f"{name}.crt", "-extfile", "names"),
        )
    pem = (folder / "broker.key").read_text() + (folder / "broker.crt").read_text()
    (folder / "broker.pem").write_text(pem)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """One broker for all of these tests."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    found = Secure(tmp_path_factory.mktemp("secure"))
    found.start()
    yield found
    found.broker.stop()


def right(secure: Secure, name: str) -> KafkaSettings:
    """The right settings for each listener."""
    ca = {"ca_file": str(secure.folder / "ca.crt")}
    own = {"cert_file": str(secure.folder / "client.crt"), "key_file": str(secure.folder / "client.key")}
    match name:
        case "TLS with a certificate of our own":
            return secure.settings("SSL", **ca, **own, prefix="a-")
        case "SASL PLAIN over TLS":
            return secure.settings("SASL_SSL", **ca, **PLAIN, prefix="b-")
        case "SCRAM-SHA-512 over TLS":
            scram = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-512", "password": "scram-word"}
            return secure.settings("SASL_SSL", **ca, **scram, prefix="c-")
        case "SASL PLAIN":
            return secure.settings("SASL_PLAINTEXT", **PLAIN, prefix="d-")
        case _:
            scram = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "password": "scram-word"}
            return secure.settings("SASL_PLAINTEXT", **scram, prefix="e-")


WAYS = (
    "TLS with a certificate of our own",
    "SASL PLAIN over TLS",
    "SCRAM-SHA-512 over TLS",
    "SASL PLAIN",
    "SCRAM-SHA-256",
)


@pytest.mark.parametrize("way", WAYS)
async def test_every_client_gets_in(secure: Secure, way: str) -> None:
    """Topics are made, records appended and read, and a share is dealt, with settings that came by the environment."""
    settings = read_settings(environ=as_environment(Settings(kafka=right(secure, way)))).kafka
    assert settings is not None
    layout = Layout()
    await apply_topics(settings, layout)
    log = KafkaLog(settings, layout.partitions())
    share = KafkaAssignment(settings, layout.of_topic("loss"), "categorizer")
    try:
        (offset,) = await log.append([NewRecord(to=AT, key="job", value=b"{}", at_ms=1)])
        reader = log.reader({AT: offset})
        (record,) = await reader.poll(timeout_s=30)
        await reader.close()
        dealt = await share.take()
    finally:
        await share.close()
        await log.close()

    assert (record.offset, record.value) == (offset, b"{}")
    assert sorted(dealt) == layout.of_topic("loss")


WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "a wrong password": ("SASL PLAIN", {"password": "wrong"}),
    "a wrong password over TLS": ("SCRAM-SHA-512 over TLS", {"password": "wrong"}),
    "an unknown user": ("SCRAM-SHA-256", {"username": "nobody"}),
    "an untrusted authority": ("SASL PLAIN over TLS", {"ca_file": ""}),
    "no certificate of our own": ("TLS with a certificate of our own", {"cert_file": "", "key_file": ""}),
    "no TLS at all": ("SASL PLAIN over TLS", {"security": "SASL_PLAINTEXT"}),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_refused_client_gets_the_reason(secure: Secure, wrong: str) -> None:
    """It fails within a moment, as a log that cannot be reached, and never with the password in the message."""
    way, changes = WRONG[wrong]
    settings = msgspec.structs.replace(right(secure, way), **changes)
    log = KafkaLog(settings, Layout().partitions())
    with pytest.raises(LogUnavailableError) as caught:
        await log.append([NewRecord(to=AT, key="job", value=b"{}", at_ms=1)])
    with pytest.raises(LogUnavailableError):
        await log.end(AT)
    await log.close()

    assert settings.bootstrap in str(caught.value)
    assert "-word" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("field", ["ca_file", "cert_file"])
def test_a_certificate_that_is_not_there_is_named(secure: Secure, field: str) -> None:
    """The message names the settings to look at."""
    wrong = msgspec.structs.replace(right(secure, WAYS[0]), **{field: str(secure.folder / "nothing.crt")})
    with pytest.raises(InputError) as refused:
        wrong.client()

    assert isinstance(refused.value, SteepestError)
    assert f"kafka.{field}" in refused.value.hint
