"""A pool's engine: fold a record, ask the deciders, mint the ids of what they decide, show the record to the effectors.

It owns this order, which is the same everywhere: the live loop, replay, shadow, what-if, simulation and the tests' driver
are shells that feed it records and append what it gives. Pure: no I/O, no task, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.policies.decider import ClusterDecider, Readers, fold_and_decide
from steepest.runtime.decision_stream import DecisionStream, Found, MintedDecision
from steepest.runtime.effector import Observer
from steepest.view.cluster_view import ClusterView


class PoolEngine:
    """One pool at one position of its log.

    Attributes:
        view: The pool as the newest record left it; to be read, never to be changed.
        deciders: Those that decide about it, in the order in which they are asked.
        streams: What each of them made, in the same order.
        accepted: Whether the newest record counts.
        at: The pool's partition.
    """

    def __init__(
        self,
        deciders: Sequence[ClusterDecider],
        at: TopicPartition,
        pool: str,
        *,
        view: ClusterView | None = None,
        last_ids: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """A pool before its first record, or where a snapshot was taken.

        Args:
            deciders: As they are at the view's position.
            at: The pool's partition.
            pool: Its name, the key of its records.
            view: The view of a snapshot.
            last_ids: The newest ids by decider and output partition, of the same snapshot.
        """
        last_ids = last_ids or {}
        self.view = view or ClusterView()
        self.deciders = deciders
        self._readers = Readers(deciders)
        self.streams = [DecisionStream(one.name, one.logic, at, last_ids.get(one.name)) for one in deciders]
        self.accepted = False
        self.at = at
        self._pool = pool
        self._effectors: Sequence[Observer] = ()

    @property
    def last_ids(self) -> dict[str, dict[str, str]]:
        """The newest ids by decider and output partition: part of a snapshot."""
        return {stream.name: stream.last_ids for stream in self.streams}

    def fence(self, found: Found) -> None:
        """Give nothing that a scan has found in the log."""
        for stream in self.streams:
            stream.fence(found)

    def go_live(self, effectors: Sequence[Observer]) -> None:
        """Show every later record to these effectors. They act on what they see: go live where history ends."""
        self._effectors = effectors
        for effector in effectors:
            effector.caught_up(self.view)

    def step(self, received: Received[ClusterEvent]) -> Sequence[MintedDecision]:
        """Fold the next record, and return the decisions to append because of it, in order.

        Raises:
            LogVersionError: As :meth:`ClusterView.fold`; nothing has changed.
        """
        self.accepted, made = fold_and_decide(self.view, self._readers, received)
        minted = self._mint(received, made) if any(made) else []  # nothing follows from most records
        for effector in self._effectors:
            effector.observe(self.view, received, accepted=self.accepted)
        return minted

    def _mint(self, received: Received[ClusterEvent], made: Sequence[Sequence[ClusterEvent]]) -> list[MintedDecision]:
        minted: list[MintedDecision] = []
        for stream, events in zip(self.streams, made, strict=True):
            if events:
                outputs = [(self.at, self._pool, event) for event in events]
                minted += stream.mint(self.view.state.epoch, received, outputs)
        return minted

    def skip(self, offset: int) -> None:
        """Pass over a record that cannot be decoded."""
        self.view.skip(offset)
