"""Dead letters about refused messages, at a bounded rate.

It owns their form and their rate. A message that is delivered again gets a letter of the same name, so it is listed once.
"""

from __future__ import annotations

import hashlib

from steepest.clock import Clock
from steepest.events.dead_letter import DeadLetter
from steepest.log.base import NewRecord
from steepest.mqtt.payload import RefusedMessageError
from steepest.runtime.dead_letters import DEAD_LETTER_BYTES
from steepest.runtime.decode import new_record
from steepest.runtime.layout import DEAD_LETTERS

TOPIC = "mqtt"
"""Name in the place of the source topic; the letter's key is the topic at the broker."""

MAX_A_MINUTE = 100
"""Letters. Refusals beyond that are only counted and logged, so that a device that floods the bridge fills no disk."""

NAME_DIGITS = 13
"""52 bits, in hexadecimal digits."""


class MessageDeadLetters:
    """The letters of one bridge."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minute = clock.monotonic()
        self._written = 0

    def about(self, topic: str, payload: bytes, refused: RefusedMessageError) -> list[NewRecord]:
        """The letter about a message; none beyond the rate."""
        now = self._clock.monotonic()
        if now - self._minute >= 60:  # noqa: PLR2004 - a minute
            self._minute, self._written = now, 0
        self._written += 1
        if self._written > MAX_A_MINUTE:
            return []
        letter = DeadLetter(
            topic=TOPIC,
            partition=0,
            offset=_name(topic, payload),
            key=topic[:DEAD_LETTER_BYTES],
            reason=str(refused)[:2000],
            value=payload[:DEAD_LETTER_BYTES],
        )
        return [new_record(DEAD_LETTERS, TOPIC, letter, self._clock.now_ms())]


def _name(topic: str, payload: bytes) -> int:
    """A digest in the place of the offset that a message does not have."""
    return int(hashlib.sha256(topic.encode() + b"\0" + payload).hexdigest()[:NAME_DIGITS], 16)
