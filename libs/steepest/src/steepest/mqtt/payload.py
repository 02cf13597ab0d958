"""What a device says over MQTT: topics and payloads to events, and what is refused.

Pure. It owns the format and every check that needs nothing but the message. It must never know the broker, the log, or what
was said before.

A topic is ``PREFIX/DEVICE/CHANNEL`` with ``heartbeats`` or ``loss`` as the channel; a payload is a :class:`Said`, in JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from steepest.errors import UndecodableError
from steepest.events.common import Count, Millis, Name
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.received import MAX_DIGITS
from steepest.events.registry import encode

HEARTBEATS = "heartbeats"
LOSS = "loss"

LARGEST_PAYLOAD = 256 * 1024
"""Bytes. A heartbeat of a node with hundreds of replicas has a tenth of it."""

LARGEST_AMOUNT = 10**12
"""Of any resource. No machine has as much, and a pool's sum of a million such nodes is still a number of 63 bits."""

DIGEST_DIGITS = 12
"""48 bits: enough to tell a message from the other few hundred of its stream."""

Generation = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9_-]{1,40}$(?!\n)")]
Source = Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,500}$(?!\n)")]
Digits = Annotated[str, msgspec.Meta(pattern=rf"^[0-9]{{1,{MAX_DIGITS}}}$(?!\n)")]


class RefusedMessageError(UndecodableError):
    """A message that is not taken. ``code`` says in a word why, for counting."""

    code = "payload"


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payload.

    Attributes:
        device: Who says it; the same as in the topic.
        generation: Names one life of the device's sequence; a device that cannot know its last number begins a new one.
        seq: Rises by one with each message of a generation, from 1.
        event: An event of the channel, as on the log's topic of the same name.
        at_ms: When it was observed, milliseconds of the device's wall clock; 0: when the bridge gets it.
        source: Where the device has it from (a file), if that numbers it beyond the device's own restarts.
        number: Its number there, in decimal digits.
    """

    device: Name
    generation: Generation
    seq: Count
    event: msgspec.Raw
    at_ms: Millis = 0
    source: Source | None = None
    number: Digits | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A payload that is what it should be.

    Attributes:
        digest: Of the payload; tells a message that comes again from another one under the same number.
    """

    said: Said
    channel: str
    event: NodeHeartbeat | JobWatched | LossReported | LossDiverged | JobUnwatched
    digest: str

    @property
    def key(self) -> str:
        """What the event is keyed by on its topic."""
        return self.event.node if isinstance(self.event, NodeHeartbeat) else self.event.job

    @property
    def stream(self) -> str:
        """The device and its generation: what its numbers rise within."""
        return f"{self.said.device}/{self.said.generation}"

    @property
    def source(self) -> str:
        """Under what the log's readers see it numbered."""
        return f"{self.said.device}.{self.said.generation}" if self.said.source is None else self.said.source

    @property
    def number(self) -> str:
        """Its number there."""
        return str(self.said.seq) if self.said.number is None else self.said.number


_said = msgspec.json.Decoder(Said)
_events: Mapping[str, Any] = {
    HEARTBEATS: msgspec.json.Decoder(NodeHeartbeat),
    LOSS: msgspec.json.Decoder(JobWatched | LossReported | LossDiverged | JobUnwatched),
}


def topic_of(prefix: str, device: str, channel: str) -> str:
    """Where a device says something."""
    return f"{prefix}/{device}/{channel}"


def parse(prefix: str, pool: str, at: str, payload: bytes) -> Message:
    """What a message says.

    Args:
        prefix: The first part of our topics.
        pool: Whom we work for.
        at: The message's topic.
        payload: Its bytes.

    Raises:
        RefusedMessageError: It is not what it should be; the message names the field, the code is ``topic``, ``size``,
            ``payload``, ``device`` or ``pool``.
    """
    device, channel = _split(prefix, at)
    if len(payload) > LARGEST_PAYLOAD:
        raise RefusedMessageError(f"{len(payload)} bytes, more than {LARGEST_PAYLOAD}", code="size")
    try:
        said = _said.decode(payload)
        event = _events[channel].decode(said.event)
        encode(event)  # what cannot be written again, because a text in it is none, is no event either
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RefusedMessageError(f"no message for {channel}: {error}") from error
    if (said.source is None) is not (said.number is None):
        raise RefusedMessageError("`$.source` and `$.number` belong together")
    if said.device != device:
        raise RefusedMessageError(f"`$.device` is {said.device}, and the topic is {device}'s", code="device")
    if isinstance(event, NodeHeartbeat) and event.node != device:
        raise RefusedMessageError(f"`$.event.node` is {event.node}: {device} may speak for itself alone", code="device")
    if isinstance(event, NodeHeartbeat | JobWatched) and event.pool != pool:
        raise RefusedMessageError(f"`$.event.pool` is {event.pool}, and this bridge works for {pool}", code="pool")
    if isinstance(event, NodeHeartbeat):
        _refuse_impossible(event)
    return Message(said=said, channel=channel, event=event, digest=digest(payload))


def _refuse_impossible(beat: NodeHeartbeat) -> None:
    amounts = {"capacity": beat.capacity, "used": beat.used} | {
        f"replicas[{index}]": replica for index, replica in enumerate(beat.replicas)
    }
    for where, of in amounts.items():
        for name in ("cpu_m", "memory_mib", "gpus", "block_bytes_s", "network_bytes_s"):
            amount = getattr(of, name, None)
            if amount is not None and amount > LARGEST_AMOUNT:
                raise RefusedMessageError(f"`$.event.{where}.{name}` is {amount}, more than any machine has")


def digest(payload: bytes) -> str:
    """By which a payload is recognised."""
    return hashlib.sha256(payload).hexdigest()[:DIGEST_DIGITS]


def _split(prefix: str, at: str) -> tuple[str, str]:
    """Device and channel."""
    start = f"{prefix}/"
    match at.removeprefix(start).split("/") if at.startswith(start) else ():
        case [device, channel] if channel in _events:
            return device, channel
    raise RefusedMessageError(
        f"no topic of ours: write {prefix}/DEVICE/{HEARTBEATS} or {prefix}/DEVICE/{LOSS}", code="topic"
    )
