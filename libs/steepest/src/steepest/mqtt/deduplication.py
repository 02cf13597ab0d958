"""Which message of a device is new, which is a duplicate, and which is out of order.

Pure. It owns the rule and its bounds. It must never know the content of a message.

MQTT delivers a message again, in order, where its acknowledgement was lost on either side of the broker. Within one stream
(a device and its generation)

* a number beyond the last is new; skipped numbers count as missing;
* a number among the last ``WINDOW`` with the same digest is a duplicate;
* any other number is out of order: the device lost its last number and continued its old generation, or the message is too
  old.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

WINDOW = 256
"""Messages of a stream that are recognised as duplicates. A device has far fewer of them in flight."""

MAX_GENERATIONS = 4
"""Streams of one device that are remembered: messages of an older process of the device are no longer in flight."""

MAX_STREAMS = 10_000
"""Streams that are remembered. The one that was silent for longest is forgotten, and its next number counts as new."""


class SequenceCheck(enum.Enum):
    """How a message's number relates to those before it."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out-of-order"


class DeviceStream(msgspec.Struct):
    """The remembered messages of a stream.

    Attributes:
        last: Its highest number.
        digests: The digests of its last messages, by number, in order of arrival.
    """

    last: int
    digests: dict[int, str]


class Deduplication:
    """The remembered messages of all streams.

    Attributes:
        streams: By name; the stream of the last message is at the end.
    """

    def __init__(self, streams: Mapping[str, DeviceStream] | None = None) -> None:
        self.streams: dict[str, DeviceStream] = dict(streams or {})
        self._of_device: dict[str, dict[str, None]] = {}
        for stream in self.streams:
            self._of_device.setdefault(_device(stream), {})[stream] = None

    def check(self, stream: str, number: int, digest: str) -> SequenceCheck:
        """Compare a message with those before it, without recording it."""
        known = self.streams.get(stream)
        if known is None or number > known.last:
            return SequenceCheck.NEW
        return SequenceCheck.DUPLICATE if known.digests.get(number) == digest else SequenceCheck.OUT_OF_ORDER

    def record(self, stream: str, number: int, digest: str) -> int:
        """Remember a new message and return how many numbers it skipped. Work: O(1)."""
        known = self.streams.pop(stream, None) or DeviceStream(number - 1, {})
        missing = number - known.last - 1
        known.last = number
        known.digests[number] = digest
        if len(known.digests) > WINDOW:
            del known.digests[next(iter(known.digests))]
        self.streams[stream] = known
        generations = self._of_device.setdefault(_device(stream), {})
        generations.pop(stream, None)
        generations[stream] = None
        if len(generations) > MAX_GENERATIONS:
            self._forget(next(iter(generations)))
        if len(self.streams) > MAX_STREAMS:
            self._forget(next(iter(self.streams)))
        return missing

    def _forget(self, stream: str) -> None:
        device = _device(stream)
        del self.streams[stream], self._of_device[device][stream]
        if not self._of_device[device]:
            del self._of_device[device]


def _device(stream: str) -> str:
    return stream.rsplit("/", 1)[0]
