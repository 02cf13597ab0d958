"""What devices have said before: which message is new, which comes again, and which should not come at all.

Pure. It owns the rule and its bounds. It must never know what a message says.

MQTT delivers a message again where its acknowledgement was lost, on either side of the broker, and in order. So within one
stream (a device and its generation)

* a number beyond the last is new; numbers left out are counted as missing;
* a number of the last ``WINDOW``, with the digest of then, is a repetition;
* any other number goes back: the device lost its place and went on in its old generation, or the message is from long ago.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

WINDOW = 256
"""Messages of a stream that are recognised when they come again. A device keeps far fewer on the way at once."""

GENERATIONS_KEPT = 4
"""Streams of one device that are remembered: what an older process of it sent is not on its way any more."""

MOST_STREAMS = 10_000
"""Streams that are remembered; the one that was silent for longest is forgotten, and its next number counts as new."""


class Standing(enum.Enum):
    """How a message stands to those before it."""

    NEW = "new"
    REPEATED = "repeated"
    BACK = "back"


class Stream(msgspec.Struct):
    """What is remembered of a stream.

    Attributes:
        last: Its highest number.
        digests: Of the last messages, by number, in the order in which they came.
    """

    last: int
    digests: dict[int, str]


class Seen:
    """All streams.

    Attributes:
        streams: By name, the one that spoke last at the end.
        missing: Numbers that were left out so far.
    """

    def __init__(self, streams: Mapping[str, Stream] | None = None) -> None:
        self.streams: dict[str, Stream] = dict(streams or {})
        self.missing = 0
        self._of_device: dict[str, dict[str, None]] = {}
        for stream in self.streams:
            self._of_device.setdefault(_device(stream), {})[stream] = None

    def judge(self, stream: str, number: int, digest: str) -> Standing:
        """How a message stands, without taking note of it."""
        known = self.streams.get(stream)
        if known is None or number > known.last:
            return Standing.NEW
        return Standing.REPEATED if known.digests.get(number) == digest else Standing.BACK

    def note(self, stream: str, number: int, digest: str) -> int:
        """Remember a message that is new, and give how many are missing before it. Work: O(1)."""
        known = self.streams.pop(stream, None) or Stream(number - 1, {})
        missing = number - known.last - 1
        known.last = number
        known.digests[number] = digest
        if len(known.digests) > WINDOW:
            del known.digests[next(iter(known.digests))]
        self.streams[stream] = known
        generations = self._of_device.setdefault(_device(stream), {})
        generations.pop(stream, None)
        generations[stream] = None
        if len(generations) > GENERATIONS_KEPT:
            self._forget(next(iter(generations)))
        if len(self.streams) > MOST_STREAMS:
            self._forget(next(iter(self.streams)))
        self.missing += missing
        return missing

    def _forget(self, stream: str) -> None:
        device = _device(stream)
        del self.streams[stream], self._of_device[device][stream]
        if not self._of_device[device]:
            del self._of_device[device]


def _device(stream: str) -> str:
    return stream.rsplit("/", 1)[0]
