"""Effectors: they follow a pool's log, act on the world, and report facts.

``caught_up`` and ``observe`` are called in the log's order and must not wait; ``run`` does the waiting. An effector acts on
nothing that it has not read from the log, and its reports are accepted once, also where it is restarted in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.view.cluster_view import ClusterView


class Send(Protocol):
    """Appends events for an effector, waiting as long as the log does not take them."""

    async def __call__(
        self,
        *events: msgspec.Struct,
        topic: str = "cluster",
        key: str | None = None,
        times: Sequence[int] = (),
        source: str = "",
        numbers: Sequence[int] = (),
        trace: str = "",
    ) -> None:
        """Append ``events`` in one go.

        Args:
            events: What to append, in order, all of one key.
            topic: Where to.
            key: Their key; None is the pool.
            times: When each was observed, in milliseconds of the wall clock; empty: now.
            source: The writers' rule for sources: the name under which the events are numbered; empty: they are not.
            numbers: The number of each event; they rise within a source, and a reader drops what it has seen.
            trace: The ``traceparent`` that they belong to; empty: to none.
        """


class Observer(Protocol):
    """The part of an effector that follows the log."""

    def caught_up(self, view: ClusterView) -> None:
        """See :meth:`Effector.caught_up`."""

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """See :meth:`Effector.observe`."""


class Effector(Observer):
    """Base of all effectors; each overrides what it needs."""

    name: str

    def caught_up(self, view: ClusterView) -> None:
        """The view holds all that was in the log when the process started; called again after the log was re-read."""

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """A record was folded; ``accepted``: it counts. Only called after ``caught_up``."""

    def silence_s(self) -> float:
        """For how long, in seconds, what it has to do again and again was not done; 0 where there is no such thing."""
        return 0.0

    async def run(self, send: Send) -> None:
        """Act until cancelled."""
