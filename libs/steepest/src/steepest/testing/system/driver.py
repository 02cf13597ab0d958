"""Deciders over a log in memory: what they decide stands in the log some records later, as on a real one.

It owns the interleaving: how many records come between a decision and its place in the log. It must never know what any
decider does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from steepest.events import cluster as c
from steepest.events.received import ID, LOGIC, PREVIOUS, DecisionId, Received
from steepest.policies.decider import ClusterDecider, fold_and_decide
from steepest.testing.scenarios.folded_pool import EPOCH, FoldedPool

Made = tuple[int, c.ClusterEvent, Mapping[str, str], int]
"""A decision on its way: the length of the log from which on it may be appended, the event, its headers, its time."""


class DeciderDriver(FoldedPool):
    """A pool whose deciders are asked about every record, and whose decisions come back.

    Attributes:
        decided: All that was decided, in the order in which it was made.
    """

    def __init__(self, *deciders: ClusterDecider, delay: int | Callable[[], int] = 0, **nodes_cpu_m: int) -> None:
        """Open the log, with these nodes in it.

        Args:
            deciders: Asked in this order.
            delay: How many other records come before a decision. Of one decider, none overtakes another.
            nodes_cpu_m: Names and CPU of nodes.
        """
        self.deciders = list(deciders)
        self.decided: list[c.ClusterEvent] = []
        self._delay = delay if callable(delay) else lambda: delay
        self._outboxes: list[deque[Made]] = [deque() for _ in deciders]
        self._last_ids = [""] * len(deciders)
        super().__init__(**nodes_cpu_m)

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold the record, keep what is decided about it, and append what has waited for long enough."""
        counts, made = fold_and_decide(self.view, self.deciders, received)
        for number, events in enumerate(made):
            self._keep(number, received, events)
        self.deliver()
        return counts

    def ask(self, *events: c.ClusterEvent) -> list[c.ClusterEvent]:
        """Fold events, and give what was decided because of them."""
        before = len(self.decided)
        self.feed(*events)
        return self.decided[before:]

    def deliver(self, *, everything: bool = False) -> None:
        """Append the decisions that are due; or all, and what follows from them, until nothing is on its way."""
        for outbox in self._outboxes:
            while outbox and (everything or outbox[0][0] <= len(self.log)):
                _, event, headers, at_ms = outbox.popleft()
                self.fold(event, headers, at_ms)
        if everything and self.on_its_way:
            self.deliver(everything=True)

    @property
    def on_its_way(self) -> int:
        """How many decisions are not in the log yet."""
        return sum(len(outbox) for outbox in self._outboxes)

    def _keep(self, number: int, cause: Received[Any], events: Any) -> None:
        decider = self.deciders[number]
        for index, event in enumerate(events):
            made = str(DecisionId(decider.name, EPOCH, cause.topic, cause.partition, cause.offset, index))
            headers = {ID: made, LOGIC: str(decider.logic)}
            if previous := self._last_ids[number]:
                headers[PREVIOUS] = previous
            self._last_ids[number] = made
            self.decided.append(event)
            self._outboxes[number].append((len(self.log) + self._delay(), event, headers, cause.at_ms))
