"""The format of messages over MQTT: from topics and payloads to events or refusals.

Pure. It owns the format and every check that needs only the message. It must never know the broker, the log, or earlier
messages.

A topic is ``PREFIX/DEVICE/CHANNEL`` with the channel ``heartbeats`` or ``loss``; a payload is an :class:`Envelope`, in JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from steepest.errors import UndecodableError, UntrustedError
from steepest.events.common import Count, Millis, Name
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.received import MAX_DIGITS
from steepest.events.registry import encode
from steepest.untrusted.json import decoder

HEARTBEATS = "heartbeats"
LOSS = "loss"

MAX_PAYLOAD_BYTES = 256 * 1024
"""A heartbeat of a node with hundreds of replicas has a tenth of it."""

MAX_RESOURCE_AMOUNT = 10**12
"""No machine has as much of any resource, and the sum over a million such nodes is still a number of 63 bits."""

DIGEST_DIGITS = 12
"""48 bits: enough to distinguish a message from the last few hundred of its stream."""

Generation = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9_-]{1,40}$(?!\n)")]
Source = Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,500}$(?!\n)")]
Digits = Annotated[str, msgspec.Meta(pattern=rf"^[0-9]{{1,{MAX_DIGITS}}}$(?!\n)")]


class RefusedMessageError(UndecodableError):
    """A message that is refused. ``code`` is the reason as a word, for counting."""

    code = "payload"


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payload.

    Attributes:
        device: The sender; the same as in the topic.
        generation: Names one sequence of numbers; a device that cannot know its last number begins a new generation.
        seq: Rises by one with each message of a generation, from 1.
        event: An event of the channel, as on the log's topic of the same name.
        at_ms: When it was observed, milliseconds of the device's wall clock; 0: when the bridge receives it.
        source: Where the device read the event (a file), if its number there survives the device's restarts.
        number: That number, in decimal digits.
    """

    device: Name
    generation: Generation
    seq: Count
    event: msgspec.Raw
    at_ms: Millis = 0
    source: Source | None = None
    number: Digits | None = None


class DeviceMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A valid message.

    Attributes:
        digest: Of the payload; distinguishes a duplicate from another message under the same number.
    """

    envelope: Envelope
    channel: str
    event: NodeHeartbeat | JobWatched | LossReported | LossDiverged | JobUnwatched
    digest: str

    @property
    def key(self) -> str:
        """The event's key on its topic."""
        return self.event.node if isinstance(self.event, NodeHeartbeat) else self.event.job

    @property
    def stream(self) -> str:
        """The device and its generation, within which its numbers rise."""
        return f"{self.envelope.device}/{self.envelope.generation}"

    @property
    def source(self) -> str:
        """The source under which readers of the log see it numbered."""
        return (
            f"{self.envelope.device}.{self.envelope.generation}"
            if self.envelope.source is None
            else self.envelope.source
        )

    @property
    def number(self) -> str:
        """Its number in the source."""
        return str(self.envelope.seq) if self.envelope.number is None else self.envelope.number


_LossEvent: Any = JobWatched | LossReported | LossDiverged | JobUnwatched
_envelope_of = decoder(Envelope)
_event_of: Mapping[str, Callable[[bytes], Any]] = {HEARTBEATS: decoder(NodeHeartbeat), LOSS: decoder(_LossEvent)}


def topic_of(prefix: str, device: str, channel: str) -> str:
    """The topic of a device's channel."""
    return f"{prefix}/{device}/{channel}"


def parse(prefix: str, pool: str, topic: str, payload: bytes) -> DeviceMessage:
    """Decode and check a message.

    Args:
        prefix: The first part of the installation's topics.
        pool: The bridge's pool.
        topic: The message's topic.
        payload: Its bytes.

    Raises:
        RefusedMessageError: It is invalid; the message names the field, the code is ``topic``, ``size``, ``payload``,
            ``device`` or ``pool``.
    """
    device, channel = _split(prefix, topic)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RefusedMessageError(f"{len(payload)} bytes, more than {MAX_PAYLOAD_BYTES}", code="size")
    try:
        envelope = _envelope_of(payload)
        event = _event_of[channel](bytes(envelope.event))
        encode(event)  # an event with a text that is no UTF-8 could not be appended
    except (UntrustedError, UnicodeError) as error:
        raise RefusedMessageError(f"no message for {channel}: {error}") from error
    if (envelope.source is None) is not (envelope.number is None):
        raise RefusedMessageError("`$.source` and `$.number` belong together")
    if envelope.device != device:
        raise RefusedMessageError(f"`$.device` is {envelope.device}, and the topic is {device}'s", code="device")
    if isinstance(event, NodeHeartbeat) and event.node != device:
        raise RefusedMessageError(f"`$.event.node` is {event.node}: {device} may report only itself", code="device")
    if isinstance(event, NodeHeartbeat | JobWatched) and event.pool != pool:
        raise RefusedMessageError(f"`$.event.pool` is {event.pool}, and this bridge works for {pool}", code="pool")
    if isinstance(event, NodeHeartbeat):
        _refuse_impossible(event)
    return DeviceMessage(envelope=envelope, channel=channel, event=event, digest=digest(payload))


def _refuse_impossible(beat: NodeHeartbeat) -> None:
    amounts = {"capacity": beat.capacity, "used": beat.used} | {
        f"replicas[{index}]": replica for index, replica in enumerate(beat.replicas)
    }
    for where, of in amounts.items():
        for name in ("cpu_m", "memory_mib", "gpus", "block_bytes_s", "network_bytes_s"):
            amount = getattr(of, name, None)
            if isinstance(amount, int) and amount > MAX_RESOURCE_AMOUNT:  # a replica's GPUs are ids
                raise RefusedMessageError(f"`$.event.{where}.{name}` is {amount}, more than any machine has")


def digest(payload: bytes) -> str:
    """Identifies a payload within its stream."""
    return hashlib.sha256(payload).hexdigest()[:DIGEST_DIGITS]


def _split(prefix: str, topic: str) -> tuple[str, str]:
    """Device and channel."""
    start = f"{prefix}/"
    match topic.removeprefix(start).split("/") if topic.startswith(start) else ():
        case [device, channel] if channel in _event_of:
            return device, channel
    raise RefusedMessageError(
        f"unknown topic: publish to {prefix}/DEVICE/{HEARTBEATS} or {prefix}/DEVICE/{LOSS}", code="topic"
    )
