"""Whatever arrives over MQTT is taken or refused; and of what comes again and again, everything counts once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.mqtt.messages import beat, loss, said

from steepest.events.registry import TOPICS, encode
from steepest.mqtt.payload import RefusedMessageError, parse
from steepest.mqtt.seen import WINDOW, Seen, Standing

TOPIC = st.sampled_from(["steepest/edge-1/loss", "steepest/edge-1/heartbeats", "steepest/x/loss", "steepest/loss", "#"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
GOOD = st.sampled_from(
    [json.loads(said(beat())), json.loads(said(loss())), json.loads(said(loss(), source="f", number="1"))]
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
def test_a_message_is_taken_or_refused(topic: str, payload: bytes) -> None:
    """Nothing else is raised, and what is taken can be written to its topic and read again."""
    try:
        message = parse("steepest", "default", topic, payload)
    except RefusedMessageError:
        return
    assert TOPICS[message.channel].decode(encode(message.event)) == message.event
    assert message.said.device == topic.split("/")[1]


@given(st.data())
def test_of_what_comes_again_everything_counts_once(data: st.DataObject) -> None:
    """Messages in order, each delivery going back by no more than the window: each is new once, whatever is repeated."""
    seen, new, at = Seen(), [], 0
    length = data.draw(st.integers(1, 60))
    while at < length:
        at += 1
        for number in range(at - data.draw(st.integers(0, min(at - 1, WINDOW - 1))), at + 1):
            standing = seen.judge("d/g", number, f"digest {number}")
            if standing is Standing.NEW:
                seen.note("d/g", number, f"digest {number}")
                new.append(number)
            else:
                assert standing is Standing.REPEATED
    assert new == list(range(1, length + 1))
    assert seen.missing == 0


@given(st.lists(st.integers(1, 10_000), min_size=1, unique=True))
def test_what_is_left_out_is_counted_and_never_silently_dropped(numbers: list[int]) -> None:
    """In any order: a number is new or goes back, and the numbers skipped are exactly those counted as missing."""
    seen = Seen()
    new = []
    for number in numbers:
        standing = seen.judge("d/g", number, str(number))
        if standing is Standing.NEW:
            seen.note("d/g", number, str(number))
            new.append(number)
        else:
            assert standing is Standing.BACK
    assert new == sorted(new)
    assert seen.missing == new[-1] - new[0] + 1 - len(new)
