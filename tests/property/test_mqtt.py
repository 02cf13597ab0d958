"""Any message over MQTT is accepted or refused, and counts once however often it is delivered."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mqtt.messages import beat, envelope, loss

from steepest.events.registry import TOPICS, encode
from steepest.mqtt.deduplication import WINDOW, Deduplication, SequenceCheck
from steepest.mqtt.payload import RefusedMessageError, parse

TOPIC = st.sampled_from(["steepest/edge-1/loss", "steepest/edge-1/heartbeats", "steepest/x/loss", "steepest/loss", "#"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
GOOD = st.sampled_from(
    [json.loads(envelope(beat())), json.loads(envelope(loss())), json.loads(envelope(loss(), source="f", number="1"))]
)


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A good payload of which a field, or a field of its event, is replaced; or a few of its bytes."""
    payload: dict[str, Any] = json.loads(json.dumps(draw(GOOD)))
    inside = payload["event"] if draw(st.booleans()) else payload
    inside[draw(st.sampled_from(sorted(inside)) | st.text())] = draw(ANY_JSON)
    text = bytearray(json.dumps(payload).encode())
    for _ in range(draw(st.integers(0, 3))):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(text)


@given(TOPIC | st.text(), st.binary() | ANY_JSON.map(lambda value: json.dumps(value).encode()) | spoiled())
def test_a_message_is_accepted_or_refused(topic: str, payload: bytes) -> None:
    """Nothing else is raised, and what is accepted can be written to its topic and read again."""
    try:
        message = parse("steepest", "default", topic, payload)
    except RefusedMessageError:
        return
    assert TOPICS[message.channel].decode(encode(message.event)) == message.event
    assert message.envelope.device == topic.split("/")[1]


@given(st.data())
def test_a_message_counts_once_however_often_it_is_delivered(data: st.DataObject) -> None:
    """Deliveries in order, each going back by no more than the window: every message is new exactly once."""
    seen, new, at, missing = Deduplication(), [], 0, 0
    length = data.draw(st.integers(1, 60))
    while at < length:
        at += 1
        for number in range(at - data.draw(st.integers(0, min(at - 1, WINDOW - 1))), at + 1):
            found = seen.check("d/g", number, f"digest {number}")
            if found is SequenceCheck.NEW:
                missing += seen.record("d/g", number, f"digest {number}")
                new.append(number)
            else:
                assert found is SequenceCheck.DUPLICATE
    assert new == list(range(1, length + 1))
    assert missing == 0


@given(st.lists(st.integers(1, 10_000), min_size=1, unique=True))
def test_skipped_numbers_are_counted(numbers: list[int]) -> None:
    """In any order: a number is new or out of order, and the skipped numbers are exactly those counted as missing."""
    seen = Deduplication()
    new, missing = [], 0
    for number in numbers:
        found = seen.check("d/g", number, str(number))
        if found is SequenceCheck.NEW:
            missing += seen.record("d/g", number, str(number))
            new.append(number)
        else:
            assert found is SequenceCheck.OUT_OF_ORDER
    assert new == sorted(new)
    assert missing == new[-1] - new[0] + 1 - len(new)
