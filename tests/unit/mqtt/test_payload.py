"""Which messages are accepted, and which are refused, with the field."""

from __future__ import annotations

import pytest
from tests.unit.mqtt.messages import beat, envelope, loss

from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import LossReported
from steepest.mqtt.payload import MAX_PAYLOAD_BYTES, RefusedMessageError, parse

HEARTBEATS = "steepest/edge-1/heartbeats"
LOSS = "steepest/edge-1/loss"


def test_a_heartbeat_and_a_loss() -> None:
    """Both channels carry the events of the topics of their names, under the device's number."""
    heartbeat = parse("steepest", "default", HEARTBEATS, envelope(beat(), 7))
    reported = parse("steepest", "default", LOSS, envelope(loss(0.5, step=3), 8, at_ms=12))

    assert isinstance(heartbeat.event, NodeHeartbeat)
    assert (heartbeat.key, heartbeat.stream, heartbeat.source, heartbeat.number) == (
        "edge-1",
        "edge-1/g1",
        "edge-1.g1",
        "7",
    )
    assert reported.event == LossReported(job="job", incarnation=1, step=3, value=0.5)
    assert (reported.key, reported.envelope.at_ms) == ("job", 12)
    assert heartbeat.digest != reported.digest


def test_a_source_of_its_own_numbers_a_report() -> None:
    """What is read from a file has the file's number, also after the device has begun a new generation."""
    message = parse("steepest", "default", LOSS, envelope(loss(), 1, source="job.1.reports", number="1" * 18))

    assert (message.source, message.number) == ("job.1.reports", "1" * 18)


@pytest.mark.parametrize(
    ("topic", "payload", "code", "names"),
    [
        ("steepest/edge-1", envelope(beat()), "topic", "steepest/DEVICE/heartbeats"),
        ("steepest/edge-1/loss/more", envelope(loss()), "topic", "steepest/DEVICE/loss"),
        ("steepest/edge-1/cluster", envelope(beat()), "topic", "DEVICE"),
        ("other/edge-1/loss", envelope(loss()), "topic", "DEVICE"),
        ("", b"", "topic", "DEVICE"),
        (LOSS, b"", "payload", "loss"),
        (LOSS, b"\xff\xfe", "payload", "loss"),
        (LOSS, b"x" * (MAX_PAYLOAD_BYTES + 1), "size", str(MAX_PAYLOAD_BYTES)),
        (LOSS, b"[" * 100_000, "payload", "loss"),
        (LOSS, envelope(loss(), -1), "payload", "$.seq"),
        (LOSS, envelope(loss(), 2**63), "payload", "$.seq"),
        (LOSS, envelope(loss(), generation=""), "payload", "$.generation"),
        (LOSS, envelope(loss(), generation="a/b"), "payload", "$.generation"),
        (LOSS, envelope({"type": "Unheard"}), "payload", "Unheard"),
        (LOSS, envelope({"type": "LogOpened", "epoch": "x"}), "payload", "LogOpened"),
        (LOSS, envelope(beat()), "payload", "NodeHeartbeat"),
        (HEARTBEATS, envelope(loss()), "payload", "LossReported"),
        (LOSS, envelope(loss(float("nan"))), "payload", "loss"),
        (LOSS, envelope(loss()).replace(b"1.0", b"1e999"), "payload", "loss"),
        (LOSS, envelope(loss(metric="x" * 3_000)), "payload", "$.metric"),
        (LOSS, envelope(loss(), source="file"), "payload", "$.number"),
        (LOSS, envelope(loss(), source="file", number="-1"), "payload", "$.number"),
        (LOSS, envelope(loss(), source="file", number="1" * 19), "payload", "$.number"),
        (LOSS, envelope(loss(), device="edge-2"), "device", "edge-2"),
        (HEARTBEATS, envelope(beat("edge-2")), "device", "edge-2"),
        (HEARTBEATS, envelope(beat(pool="other")), "pool", "other"),
    ],
)
def test_what_is_wrong_is_named(topic: str, payload: bytes, code: str, names: str) -> None:
    """Every refusal has a code to count by, and names the field or the value."""
    with pytest.raises(RefusedMessageError) as refused:
        parse("steepest", "default", topic, payload)

    assert refused.value.code == code
    assert names in str(refused.value)
