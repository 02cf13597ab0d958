"""What holds for the runs of a pool's history on every log, valid or not."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant
from tests.harness.examples import scaled
from tests.harness.scenarios.pool_with_history import PoolWithHistory
from tests.property.test_view import HEADERS, NONSENSE, AnyLog

from steepest.events import cluster as c
from steepest.gateway.pool.timeline import PoolTimeline
from steepest.read_models.pool_history import PoolHistory
from steepest.view.cluster_view import ClusterView


def check_history(history: PoolHistory, view: ClusterView) -> None:
    """The open runs are what the view says runs; those of a job on a node follow one another."""
    of_each = defaultdict(list)
    for run in history.runs():
        of_each[run.job.name, run.node].append(run)
    for (name, node), runs in of_each.items():
        runs.sort(key=lambda run: run.begun)
        assert all(run.ended is not None and run.ended <= after.begun for run, after in pairwise(runs)), (name, node)
        assert all(run.ended_ms is None or run.begun_ms <= run.ended_ms for run in runs)
        assert all((run.ended is None) == (run.end == 0) for run in runs)
    going = {key for key, runs in of_each.items() if runs[-1].ended is None}
    assert going == {(job.name, node) for job in view.jobs for node in job.running_on if not view.nodes.is_lost(node)}
    waiting = {wait.job.name for wait in history.waits() if wait.ended is None}
    assert waiting == {job.name for job in view.jobs if job.is_queued}


def check_timeline(found: PoolTimeline) -> None:
    """Every place is one, shares and categories are in their ranges, and time goes forward."""
    runs = found.runs
    for job, node, share, category in zip(runs.job, runs.node, runs.share, runs.category, strict=True):
        assert 0 <= job < len(found.jobs)
        assert 0 <= node < len(found.nodes)
        assert all(0 <= value <= 1_000 for value in share[1::2])
        assert all(0 <= value <= 4 for value in category[1::2])
        for times in (share[::2], category[::2]):
            assert len(times) > 0
            assert list(times) == sorted(times)
            assert found.start <= times[0] <= times[-1] <= found.until
    assert all(0 <= job < len(found.jobs) for job in found.waits.job)
    assert all(left <= arrived for *_, left, arrived in found.moves)


class HistoryOfAnyLog(AnyLog):
    """The view's own machine, which carries plans out, with a history beside the view."""

    def __init__(self) -> None:
        super().__init__()
        self.history = PoolHistory()

    def feed(self, event: c.ClusterEvent, headers: dict[str, str] | None = None) -> None:
        """Let the history hear it as well."""
        super().feed(event, headers)
        self.history.note(self.pool.view, self.pool.log[-1], accepted=True)

    @invariant()
    def the_history_follows_the_view(self) -> None:
        """Who runs and who waits, and one run after the other."""
        check_history(self.history, self.pool.view)


TestHistoryOfAnyLog = HistoryOfAnyLog.TestCase
TestHistoryOfAnyLog.settings = settings(max_examples=scaled(20), stateful_step_count=50, deadline=None)


@given(st.lists(st.tuples(NONSENSE, HEADERS, st.integers(-5, 50)), max_size=60), st.integers(0, 60))
@settings(max_examples=scaled(60), deadline=None)
def test_runs_of_a_job_on_a_node_never_overlap(told: list[tuple[Any, dict[str, str], int]], at: int) -> None:
    """Whatever is told, at times that also go back."""
    pool = PoolWithHistory(w1=1_000, w2=500)
    for event, headers, ms in told:
        pool.now_ms += ms
        pool.fold(event, headers)
        check_history(pool.history, pool.view)
    check_timeline(pool.timeline())
    check_timeline(pool.timeline(at=min(at, len(pool.log)), width=100))
