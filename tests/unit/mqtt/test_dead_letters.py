"""Dead letters about messages: named by their content, at a bounded rate."""

from __future__ import annotations

from steepest.events.dead_letter import DeadLetter
from steepest.log.base import NewRecord, Record
from steepest.mqtt.dead_letters import MAX_A_MINUTE, MessageDeadLetters
from steepest.mqtt.payload import RefusedMessageError
from steepest.runtime.decode import received


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        """The wall clock."""
        return int(self.seconds * 1_000)

    def monotonic(self) -> float:
        """Seconds."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds


def decoded(record: NewRecord) -> DeadLetter:
    """The letter in a record."""
    stands = Record(at=record.to, offset=0, key=record.key, value=record.value, at_ms=record.at_ms)
    letter = received(stands).event
    assert isinstance(letter, DeadLetter)
    return letter


def test_the_same_message_has_the_same_name() -> None:
    """A message that is delivered again is listed once; another one has another name; a long one is truncated."""
    letters = MessageDeadLetters(Clock())
    refused = RefusedMessageError("why")
    one, again, other = (letters.about("t", payload, refused)[0] for payload in (b"a", b"a", b"b" * 100_000))

    assert decoded(one) == decoded(again)
    assert decoded(one).offset != decoded(other).offset
    assert len(decoded(other).value) == 65_536
    assert (decoded(one).topic, decoded(one).key, decoded(one).reason) == ("mqtt", "t", "why")


def test_a_flood_does_not_fill_the_log() -> None:
    """The rate is bounded by the minute."""
    clock = Clock()
    letters = MessageDeadLetters(clock)

    def written(count: int) -> int:
        return sum(len(letters.about("t", b"%d" % number, RefusedMessageError("why"))) for number in range(count))

    assert written(MAX_A_MINUTE + 50) == MAX_A_MINUTE
    clock.seconds = 61.0
    assert written(5) == 5
