"""The tests' shell of a pool's engine: what is decided stands in the log some records later, as on a real one.

It owns the interleaving: how many records come between a decision and its place in the log. It must never know what any
decider does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tests.harness.scenarios.folded_pool import FoldedPool

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.policies.decider import ClusterDecider
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.engine import PoolEngine
from steepest.view.cluster_view import ClusterView

AT = TopicPartition("cluster")


class DeciderDriver(FoldedPool):
    """A pool whose deciders are asked about every record, and whose decisions come back.

    Attributes:
        engine: The deciders over the pool's view.
        decided: All that was decided, in the order in which it was made.
    """

    def __init__(self, *deciders: ClusterDecider, delay: int | Callable[[], int] = 0, **nodes_cpu_m: int) -> None:
        """Open the log, with these nodes in it.

        Args:
            deciders: Asked in this order; each has a name of its own.
            delay: How many other records come before a decision. Of one decider, none overtakes another.
            nodes_cpu_m: Names and CPU of nodes.
        """
        self.deciders = list(deciders)
        self.engine = PoolEngine(self.deciders, AT, "pool")
        self.decided: list[c.ClusterEvent] = []
        self._delay = delay if callable(delay) else lambda: delay
        self._outboxes: dict[str, deque[tuple[int, MintedDecision]]] = {one.name: deque() for one in deciders}
        super().__init__(**nodes_cpu_m)

    def new_view(self) -> ClusterView:
        """The engine's."""
        return self.engine.view

    def restore(self, view: ClusterView, deciders: Sequence[ClusterDecider]) -> None:
        """Go on with a view and deciders that were made from snapshots of the present ones."""
        self.view, self.deciders = view, list(deciders)
        self.engine = PoolEngine(self.deciders, AT, "pool", view=view, last_ids=self.engine.last_ids)

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold the record, keep what is decided about it, and append what has waited for long enough."""
        for one in self.step(received):
            self.decided.append(one.event)
            self._outboxes[one.id.decider].append((len(self.log) + self._delay(), one))
        accepted = self.engine.accepted  # of this record; what is delivered next is folded as well
        self.deliver()
        return accepted

    def step(self, received: Received[c.ClusterEvent]) -> Sequence[MintedDecision]:
        """One step of the engine."""
        return self.engine.step(received)

    def ask(self, *events: c.ClusterEvent) -> list[c.ClusterEvent]:
        """Fold events, and give what was decided because of them."""
        before = len(self.decided)
        self.feed(*events)
        return self.decided[before:]

    def deliver(self, *, everything: bool = False) -> None:
        """Append the decisions that are due; or all, and what follows from them, until nothing is on its way."""
        for outbox in self._outboxes.values():
            while outbox and (everything or outbox[0][0] <= len(self.log)):
                _, one = outbox.popleft()
                self.fold(one.event, one.headers, one.at_ms)
        if everything and self.on_its_way:
            self.deliver(everything=True)

    @property
    def on_its_way(self) -> int:
        """How many decisions are not in the log yet."""
        return sum(len(outbox) for outbox in self._outboxes.values())
