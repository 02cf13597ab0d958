"""A pool to play with whose runs, waits and moves are remembered as the gateway remembers them."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import FoldedPool

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.gateway.pool.pictures import PastMoment, queue_rows
from steepest.gateway.pool.timeline import PoolTimeline, Window, timeline
from steepest.read_models.pool_history import PoolHistory
from steepest.view.cluster_view import ClusterView


class PoolWithHistory(FoldedPool):
    """The pool and its history, which hear each record."""

    def __init__(self, **nodes_cpu_m: int) -> None:
        self.history = PoolHistory()
        super().__init__(**nodes_cpu_m)

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """See :class:`FoldedPool`."""
        accepted = super().take_in(received)
        self.history.note(self.view, received, accepted=accepted)
        return accepted

    def later(self, seconds: float) -> int:
        """Let time pass before the next record; give that time."""
        self.now_ms += round(1_000 * seconds)
        return self.now_ms

    def timeline(
        self, *, begin_ms: int | None = None, end_ms: int | None = None, width: int = 1_200, at: int | None = None
    ) -> PoolTimeline:
        """The answer to a page that asks for it."""
        moment = PastMoment(
            self.view if at is None else self.view_at(at), self.now_ms if at is None else self._time(at)
        )
        window = Window(begin_ms=begin_ms, end_ms=end_ms, width=width, at=at)
        return timeline(moment, queue_rows(moment.view), self.history, {}, window)

    def view_at(self, offset: int) -> ClusterView:
        """The view before the record of an offset."""
        view = ClusterView()
        for received in self.log[:offset]:
            view.fold(received)
        return view

    def _time(self, offset: int) -> int:
        return max((received.at_ms for received in self.log[:offset]), default=0)


def runs_of(found: PoolTimeline) -> list[tuple[str, str, int, int | None, int]]:
    """Each run as its job, node, begin, end and how it ended."""
    runs = found.runs
    return [
        (found.jobs[job].job, found.nodes[node].node, t0, t1, end)
        for job, node, t0, t1, end in zip(runs.job, runs.node, runs.t0, runs.t1, runs.end, strict=True)
    ]
