"""A record that could not be read: the event of the ``dead-letters`` topic."""

from __future__ import annotations

import msgspec

from steepest.events.common import Count, Text


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A record that its reader could not use. The reader counted it and continued.

    Attributes:
        reason: What is wrong with it, in a sentence.
        value: The raw bytes (base64 in JSON), so that it can be mended and sent again.
    """

    topic: str
    partition: Count
    offset: Count
    key: str = ""
    headers: dict[str, str] = {}
    reason: Text
    value: bytes
