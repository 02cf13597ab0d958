"""A record as deciders and views see it: the event, where it stands, and what its headers say of its writer.

It owns the ids by which a repeated delivery is recognised. It must never know any event type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from steepest.trace_context import trace_begun, trace_in

E = TypeVar("E")

ID = "id"
PREVIOUS = "prev"
LOGIC = "logic"
TRUNCATIONS = "truncations"
SOURCE = "source"
SEQUENCE = "seq"

MAX_DIGITS = 18
"""No offset is longer, and numbers of this length fit 63 bits."""

_SPELLED_ID = re.compile(3 * "([^/]*)/" + "/".join(3 * [f"([0-9]{{1,{MAX_DIGITS}}})"]))
"""Decider, epoch, topic; partition, offset, number."""


class Received(msgspec.Struct, Generic[E], frozen=True, kw_only=True, gc=False):
    """One decoded record. Like the record, it holds no cycles.

    Attributes:
        at_ms: When the thing was observed; for what a decider made, the time of its cause.
    """

    event: E
    topic: str
    partition: int
    offset: int
    at_ms: int
    key: str = ""
    headers: Mapping[str, str] = {}

    def trace(self, epoch: str) -> str:
        """The ``traceparent`` of the record, in the log of that epoch; a record that names no trace begins one."""
        return trace_in(self.headers) or trace_begun(f"{epoch}/{self.topic}/{self.partition}/{self.offset}")


class DecisionId(msgspec.Struct, frozen=True, order=True):
    """The id of what a decider made: its cause and its number among what that cause made.

    A decider reads one ordered partition, so delivering a record again makes the same ids in the same order.
    """

    decider: str
    epoch: str
    topic: str
    partition: int
    offset: int
    index: int

    def __str__(self) -> str:
        return spell_id(self.stream, self.offset, self.index)

    @property
    def stream(self) -> str:
        """The common part of the ids of one decider and input partition; they rise within it."""
        return f"{self.decider}/{self.epoch}/{self.topic}/{self.partition}"

    @property
    def position(self) -> tuple[int, int]:
        """Where in its stream it stands."""
        return (self.offset, self.index)

    @classmethod
    def parse(cls, text: str) -> DecisionId | None:
        """The id that ``text`` spells, or None."""
        spelled = _SPELLED_ID.fullmatch(text)
        if spelled is None:
            return None
        decider, epoch, topic, partition, offset, index = spelled.groups()
        return cls(decider, epoch, topic, int(partition), int(offset), int(index))


def spell_id(stream: str, offset: int, index: int) -> str:
    """A decision's id as text, from what the ids of its stream have in common and its place among them."""
    return f"{stream}/{offset}/{index}"


def is_number(text: str) -> bool:
    """Whether it spells a number of at most 63 bits: a header comes from outside, and may be anything."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
