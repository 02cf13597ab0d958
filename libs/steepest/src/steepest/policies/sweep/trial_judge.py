"""Decides which trials of an array go on from their rungs (ASHA; Li et al., MLSys 2020, Algorithm 2, by promotion).

Of the n trials that have reached a rung, the best n // η go on. The others are saved and suspended there, and give their
places to others of their array. Each further trial that reaches the rung may let one more go on.

Beyond the paper:

* Its sweeps never run out of new trials. Here, a trial goes on only while none that is behind it waits for room: the more
  trials have reached a rung, the surer is their order there.
* Its sweeps do not end. Here, once no trial of an array may run, the best of those at the highest rung goes on, unless one
  that was better there has finished: then the rest is cancelled. So the winner trains to its end, or the next one if it
  fails.
* A trial that cannot be saved cannot wait. It trains on while it is among the best ⌈n / η⌉ at the highest rung that it has
  reached, and is cancelled otherwise.
* A trial that its user lets go on is never stopped at a rung that it has reached.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.events.requests import Hold, Rungs
from steepest.policies import rising
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import Immovable, immovable, may_yet_be_kept
from steepest.view.orders.holds import ArrayJobs
from steepest.view.state import Job, Phase

CANCELS = "sweep-"
"""How the requests begin by which trials are cancelled here."""

DECISIONS = (c.TrialJudged, c.JobCancelRequested)


class ArrayResults(msgspec.Struct):
    """The results of an array's trials, also of those that the pool forgets once they have ended.

    Attributes:
        rungs: Where they are compared; ``rises``: whether their metric is better when it is larger.
        values: Their values at each rung, by trial, in the order in which they came.
        finished: The trials that have finished, in their order.
    """

    rungs: Rungs
    rises: bool
    values: list[dict[str, float | None]] = msgspec.field(default_factory=list)
    finished: list[str] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, job: Job, view: ClusterView) -> ArrayResults:
        """Those of the job's array, as far as the view holds them, without those of an earlier sweep of its name."""
        trials = view.jobs.holds.array(job.spec.array).names
        since = min((view.jobs[name].submitted_offset for name in trials), default=job.submitted_offset)
        found = cls(job.spec.rungs or Rungs(first=1), rising.rises(job.spec.metric))
        for one in view.jobs:
            if one.spec.array == job.spec.array and (one.phase is not Phase.ENDED or one.ended_offset >= since):
                found.take_in(one)
        return found

    def take_in(self, job: Job) -> None:
        """A trial has reached a rung, or has ended. One that has failed, or that its user cancels, takes no one's place."""
        if job.outcome is c.Outcome.FINISHED and job.name not in self.finished:
            self.finished.append(job.name)
        is_out = job.outcome is c.Outcome.FAILED or (job.cancel is not None and not job.cancel.startswith(CANCELS))
        for rung, value in job.trial.values.items():
            while len(self.values) <= rung:
                self.values.append({})
            if is_out:
                self.values[rung].pop(job.name, None)
            else:
                self.values[rung].setdefault(job.name, value)

    def ranked(self, rung: int) -> list[str]:
        """The trials that have reached a rung, the best first; of equal ones, the one that came first."""
        values = self.values[rung]
        return sorted(values, key=lambda name: rising.best_first(values[name], is_rising=self.rises))

    def better(self, name: str) -> str | None:
        """One that has finished, and was better at the highest rung that both have reached; None: there is none."""
        for one in self.finished:
            common = [rung for rung, values in enumerate(self.values) if one in values and name in values]
            ranked = self.ranked(common[-1]) if common else [name, one]
            if ranked.index(one) < ranked.index(name):
                return one
        return None

    def words(self, place: int, rung: int) -> str:
        """A place among those that have reached a rung, from 0, in words."""
        at = self.rungs.first * self.rungs.factor**rung
        return f"rank {place + 1} of {len(self.values[rung])} at rung {rung} ({at:,})"


class TrialJudgeState(AwaitsDecisions):
    """The judge's memory of sweeps.

    Attributes:
        arrays: The results of each array of which a trial has reached a rung, or has ended.
        changed: The arrays that are judged again at the next tick: since they were judged last, something happened in them.
    """

    arrays: dict[str, ArrayResults] = msgspec.field(default_factory=dict)
    changed: dict[str, None] = msgspec.field(default_factory=dict)


OF_TRIALS = (
    c.RungReached,
    c.TrialJudged,
    c.JobChangeRequested,
    c.CheckpointModeDeclared,
    c.JobPlaced,
    c.JobSuspended,
    c.JobEnded,
    c.JobRejected,
)
"""Events of a job of an array after which there may be something to decide."""


class TrialJudge:
    """Answers what changes in an array of trials with ``TrialJudged``, and with the cancellation of those left behind."""

    name = "trial-judge"
    logic = 1
    reads: frozenset[type] = frozenset({*OF_TRIALS, c.Tick})
    state_type = TrialJudgeState

    def __init__(self, state: TrialJudgeState | None = None) -> None:
        self.state = state or TrialJudgeState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: all arrays are judged again at the next tick."""
        del event
        self.state.changed = dict.fromkeys(self.state.arrays)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Judge the trials of an array. Work: O(n log n) in those that have reached its rungs."""
        event, job, state = received.event, view.touched, self.state
        if isinstance(event, c.Tick):
            return [one for array in list(state.changed) for one in self._judge(view, array, received.offset)]
        if job is None or not job.spec.array or not isinstance(event, OF_TRIALS):
            return ()
        array = job.spec.array
        if job.spec.rungs is not None and isinstance(event, (c.RungReached, c.JobEnded, c.JobRejected)):
            if array not in state.arrays:
                state.arrays[array] = ArrayResults.of(job, view)
            state.arrays[array].take_in(job)
        return self._judge(view, array, received.offset)

    def _judge(self, view: ClusterView, array: str, offset: int) -> list[c.ClusterEvent]:
        trials, results = view.jobs.holds.array(array), self.state.arrays.get(array)
        self.state.changed.pop(array, None)
        if not trials.names:
            self.state.arrays.pop(array, None)
        if not trials.names or results is None:
            return []
        awaited = {one.event.job: None for one in self.state.unread if isinstance(one.event, DECISIONS)}
        decided = self._judge_all(view, trials, results, offset, awaited)
        if decided or any(name in awaited for name in trials.names):
            self.state.changed[array] = None
        return decided

    def _judge_all(
        self, view: ClusterView, trials: ArrayJobs, results: ArrayResults, offset: int, awaited: Container[str]
    ) -> list[c.ClusterEvent]:
        may_run = [
            job
            for name in (*trials.active, *trials.held)
            if (job := view.jobs[name]).spec.rungs is not None and not (job.hold is Hold.OTHERS and job.spec.after)
        ]
        furthest = min((job.trial.rung for job in may_run if job.is_queued), default=len(results.values))
        decided: dict[str, c.ClusterEvent] = {}
        for rung in reversed(range(len(results.values))):
            for place, name in enumerate(results.ranked(rung)):
                one = view.jobs.get(name)
                if one is None or one.phase is Phase.ENDED or one.cancel or one.trial.passed >= rung:
                    continue
                if name in awaited or name in decided:
                    continue
                if event := _judged(view, one, (place, rung), results, offset, has_room=rung <= furthest):
                    decided[name] = event
        stopped = [view.jobs[name] for name in trials.stopped]
        waiting = [job for job in stopped if job.hold is Hold.RUNG and not job.cancel]
        if decided or may_run or any(job.name in awaited for job in waiting):
            return list(decided.values())
        return list(_at_end(waiting, results, offset))


def _judged(
    view: ClusterView, job: Job, at: tuple[int, int], results: ArrayResults, offset: int, *, has_room: bool
) -> c.ClusterEvent | None:
    """The judgement of a trial at a rung from which it may not go on yet; None: it stays as it is.

    ``at``: its place there, and the rung. ``has_room``: no trial that is behind waits for room.
    """
    place, rung = at
    count, factor = len(results.values[rung]), results.rungs.factor
    is_finite = results.values[rung][job.name] is not None
    if place < count // factor and is_finite and has_room:
        return c.TrialJudged(job=job.name, rung=rung, goes_on=True, reason=results.words(place, rung))
    is_left = job.hold is Hold.NONE or (job.hold is Hold.RUNG and not job.is_queued)
    if job.trial.rung > rung or not is_left:
        return None
    if _can_be_kept(view, job):
        if job.hold is Hold.RUNG:
            return None  # it will be suspended
        return c.TrialJudged(job=job.name, rung=rung, goes_on=False, reason=results.words(place, rung))
    reason = f"{results.words(place, rung)}, and it cannot be saved to wait there"
    if place >= math.ceil(count / factor):
        return _cancelled(job, offset, reason)
    return c.TrialJudged(job=job.name, rung=rung, goes_on=True, reason=reason) if job.hold is Hold.RUNG else None


def _at_end(waiting: Sequence[Job], results: ArrayResults, offset: int) -> Iterator[c.ClusterEvent]:
    """No trial may run: the best of those that wait goes on, unless one that is better has finished."""
    places = {name: place for rung in range(len(results.values)) for place, name in enumerate(results.ranked(rung))}
    best_first = sorted(waiting, key=lambda job: (-job.trial.rung, places[job.name]))
    words = {job.name: results.words(places[job.name], job.trial.rung) for job in waiting}
    able = next((job for job in best_first if job.trial.values[job.trial.rung] is not None), None)
    winner = None if able is None else results.better(able.name)
    if able is not None and winner is None:
        reason = f"{words[able.name]}; no trial runs, and none that is better has finished"
        yield c.TrialJudged(job=able.name, rung=able.trial.rung, goes_on=True, reason=reason)
        return
    why = "no trial has a finite loss" if winner is None else f"{winner} has finished"
    for job in best_first:
        yield _cancelled(job, offset, f"{words[job.name]}; {why}")


def _cancelled(job: Job, offset: int, reason: str) -> c.JobCancelRequested:
    return c.JobCancelRequested(job=job.name, request=f"{CANCELS}{offset}-{job.name}", reason=reason)


def _can_be_kept(view: ClusterView, job: Job) -> bool:
    """Whether it loses nothing by a suspension, or may soon lose nothing."""
    node = view.nodes.get(job.node or "")
    return immovable(job) in {None, Immovable.NO_PROCESS} or may_yet_be_kept(job, node)
