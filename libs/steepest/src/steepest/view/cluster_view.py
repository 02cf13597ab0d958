"""ClusterView: the fold of a pool's log. One record in, one change of state; every reader gets the same answer.

It owns the dispatch, and which records do not count because they were delivered before. What each event changes is in the
``fold_…`` modules, whether a plan is valid in :mod:`steepest.view.validity`, how it moves on in :mod:`steepest.view.plans`;
the accounting of nodes and the orders of jobs have their own files. Nothing here acts or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.received import ID, PREVIOUS, DecisionId, Received
from steepest.events.registry import FLAGS, READS
from steepest.view.folds import (
    fold_findings,
    fold_forecasts,
    fold_gone,
    fold_jobs,
    fold_limits,
    fold_plans,
    fold_pool,
    fold_transitions,
    fold_trials,
)
from steepest.view.places import promises
from steepest.view.places.node_rules import narrow
from steepest.view.projection import Projection
from steepest.view.state import Job, ViewState

_HANDLERS = {
    **fold_pool.HANDLERS,
    **fold_jobs.HANDLERS,
    **fold_findings.HANDLERS,
    **fold_trials.HANDLERS,
    **fold_forecasts.HANDLERS,
    **fold_plans.HANDLERS,
    **fold_transitions.HANDLERS,
    **fold_limits.HANDLERS,
    **fold_gone.HANDLERS,
}


class ClusterView(Projection):
    """The projection of one pool's partition of ``cluster``.

    Attributes:
        repeated: Whether the newest record was delivered before.
        decision: The id of the newest record, where a decider made it and it was not delivered before.
    """

    def __init__(self, state: ViewState | None = None) -> None:
        super().__init__(state)
        self.repeated = False
        self.decision: DecisionId | None = None

    def snapshot(self) -> bytes:
        """The whole view as bytes; :meth:`restore` makes an equal one."""
        return msgspec.msgpack.encode(self.state)

    @classmethod
    def restore(cls, snapshot: bytes) -> ClusterView:
        """The view that ``snapshot`` was taken of.

        Raises:
            msgspec.DecodeError: It is no snapshot of this state version.
        """
        return cls(msgspec.msgpack.decode(snapshot, type=ViewState))

    def fold(self, received: Received[c.ClusterEvent]) -> bool:
        """Take in the next record and say whether it counts.

        Raises:
            LogVersionError: The log asks for a newer reader; the view is as it was before the record.
        """
        event = received.event
        # First of all, so that a log that is too new leaves the view, and its position, as they are.
        if type(event) is c.PoolConfigured:
            refuse_unknown_version(event.reads, event.flags)
        self.state.position = received.offset + 1
        self.touched = self.refused = self.decision = None
        if self.newly_due:
            self.newly_due = []
        self.repeated = ID in received.headers and not self._is_new(received)
        if self.repeated:
            return False
        counts = _HANDLERS[type(event)](self, event, received) is not False
        if self.nodes.by_keeper():
            self._narrow(self.touched)
        if self.waiting:
            promises.keep(self)
        return counts

    def _narrow(self, job: Job | None) -> None:
        if job is not None and narrow(job, self.nodes):
            self.jobs.update(job)

    def skip(self, offset: int) -> None:
        """Pass over a record that cannot be read."""
        self.state.position = offset + 1
        self.touched = self.refused = self.decision = None
        self.newly_due = []
        self.repeated = False

    def _is_new(self, received: Received[c.ClusterEvent]) -> bool:
        """Whether a decider's record is beyond what its stream has brought so far; others always are."""
        headers, state = received.headers, self.state
        text = headers[ID]
        decision = DecisionId.parse(text)
        if decision is None:
            return True
        stream, position = decision.stream, decision.position
        if position <= state.streams.get(stream, (-1, -1)):
            return False
        previous = headers.get(PREVIOUS, "")
        if previous != state.last_ids.get(stream, "") and not self._is_in_the_log(previous):
            state.gaps += 1
        state.streams[stream] = position
        state.last_ids[stream] = text
        self.decision = decision
        return True

    def _is_in_the_log(self, previous: str) -> bool:
        """Whether a predecessor is in the log. Another logic may have decided more about the same records meanwhile."""
        named = DecisionId.parse(previous)
        return named is None or named.position <= self.state.streams.get(named.stream, (-1, -1))


def refuse_unknown_version(reads: int, flags: Iterable[int]) -> None:
    """Nothing, if this code knows what a pool asks of its readers.

    Raises:
        LogVersionError: It does not.
    """
    unknown = [flag for flag in flags if flag not in FLAGS]
    if reads > READS or unknown:
        wants = f"flags {unknown}" if unknown else f"event version {reads}"
        raise LogVersionError(
            f"the log asks for {wants}, and this reader knows version {READS} and flags {sorted(FLAGS)}",
            hint="upgrade this service before the pool uses what it does not know",
        )


def fold_all(records: Iterable[Received[c.ClusterEvent]]) -> ClusterView:
    """The view after all of ``records``."""
    view = ClusterView()
    for received in records:
        view.fold(received)
    return view
