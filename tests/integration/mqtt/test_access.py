"""Users, passwords, certificates and metrics: what an operator relies on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.waiting import until
from tests.integration.mqtt.conftest import Mosquitto, free_port
from tests.integration.mqtt.edge import Device, Edge
from tests.unit.mqtt.messages import beat

REQUEST = (
    "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
)
ACCESS = """\
user bridge
topic read steepest/#
pattern write steepest/%u/heartbeats
pattern write steepest/%u/loss
"""


@pytest.fixture
def guarded(mosquitto_program: str, tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker with TLS, names and rules, as the documentation describes it."""
    passwd = shutil.which("mosquitto_passwd")
    openssl = shutil.which("openssl")
    if passwd is None or openssl is None:
        pytest.skip("no mosquitto_passwd or no openssl; get them with: apt-get install mosquitto openssl")
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    certificate, key, passwords = folder / "broker.crt", folder / "broker.key", folder / "passwords"
    subprocess.run(
        [openssl, "req", *REQUEST.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    passwords.write_text("bridge:secret-b\nedge-1:secret-1\n")
    subprocess.run([passwd, "-U", str(passwords)], check=True)
    (folder / "acl").write_text(ACCESS)
    broker = Mosquitto(
        mosquitto_program,
        folder,
        f"certfile {certificate}",
        f"keyfile {key}",
        "allow_anonymous false",
        f"password_file {passwords}",
        f"acl_file {folder / 'acl'}",
    )
    broker.start()
    yield broker
    broker.end()


async def test_a_device_publishes_only_under_its_own_name(guarded: Mosquitto, tmp_path: Path) -> None:
    """Over TLS and under its own name its messages arrive; under another name none does."""
    authority = str(tmp_path / "mosquitto" / "broker.crt")
    login = {
        "STEEPEST_MQTT_USERNAME": "bridge",
        "STEEPEST_MQTT_PASSWORD": "secret-b",
        "STEEPEST_MQTT_CA_FILE": authority,
    }
    edge = Edge(tmp_path / "state", guarded.address, login)
    await edge.open()
    await edge.start()
    device = Device(guarded.port, authority=authority, username="edge-1", password="secret-1")  # noqa: S106
    try:
        await device.publish("steepest/edge-2/heartbeats", b"forged")
        await device.send(beat(at_ms=1), 1)
        arrived = await edge.until(1, "heartbeats")
        letters = await edge.records("dead-letters")
    finally:
        device.close()
        edge.end()

    assert [one.node for one in arrived] == ["edge-1"]
    assert letters == []
    assert "secret-b" not in edge.output()


async def test_a_wrong_password_is_reported(guarded: Mosquitto, tmp_path: Path) -> None:
    """The bridge logs why it is refused, and tries again."""
    login = {
        "STEEPEST_MQTT_USERNAME": "bridge",
        "STEEPEST_MQTT_PASSWORD": "wrong",
        "STEEPEST_MQTT_CA_FILE": str(tmp_path / "mosquitto" / "broker.crt"),
    }
    edge = Edge(tmp_path / "state", guarded.address, login)
    await edge.open()
    edge.launch()
    try:
        await until(lambda: "the broker refuses the connection" in edge.output(), "the bridge to log the refusal")
    finally:
        edge.end()

    assert "Not authorized" in edge.output()


async def test_metrics_are_served(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """What was taken, refused and repeated can be asked for, beside the metrics and probes of every service."""
    port = free_port()
    edge = Edge(tmp_path / "state", mosquitto.address, {"STEEPEST_METRICS_PORT": str(port)})
    await edge.open()
    await edge.start()
    device = Device(mosquitto.port)

    def asked(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    try:
        await device.send(beat(at_ms=1), 1)
        await device.send(beat(at_ms=1), 1)
        await device.publish("steepest/edge-1/loss", b"nonsense")
        await edge.until(1, "dead-letters")
        metrics = asked("/metrics").splitlines()
    finally:
        device.close()
        edge.end()

    assert 'steepest_mqtt_taken_total{channel="heartbeats"} 1.0' in metrics
    assert 'steepest_mqtt_refused_total{reason="payload"} 1.0' in metrics
    assert "steepest_mqtt_repeated_total 1.0" in metrics
    assert "steepest_mqtt_connected 1.0" in metrics
    assert any(line.startswith("steepest_lag_records") for line in metrics)


@pytest.mark.parametrize(
    ("environ", "names"),
    [({}, "STEEPEST_MQTT"), ({"STEEPEST_MQTT": "broker"}, "STEEPEST_MQTT"), ({"STEEPEST_MQTT_TSL": "1"}, "TSL")],
)
def test_a_bridge_without_a_broker_does_not_start(environ: dict[str, str], names: str, tmp_path: Path) -> None:
    """A process of its own has no other work: it exits with 2 and names the setting."""
    edge = Edge(tmp_path / "state", "unused:1")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STEEPEST_MQTT")}
    done = subprocess.run(
        [sys.executable, "-m", "steepest_services.mqtt_bridge"],
        env={**inherited, "STEEPEST_STATE_DIR": str(edge.folder.root), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert names in done.stderr


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--mqtt", "broker"), "--mqtt"),
        (("--kafka", "h:1", "--mqtt", "b:1", "--scale", "mqtt-bridge=2"), "scale"),
    ],
)
def test_a_wrong_call_of_up_is_refused(options: tuple[str, ...], names: str, tmp_path: Path) -> None:
    """Before anything begins."""
    done = subprocess.run(
        [sys.executable, "-m", "steepest", "up", "--state", str(tmp_path / "state"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert names in done.stderr
