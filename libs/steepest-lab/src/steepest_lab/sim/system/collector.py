"""Reports of a simulated pool: the nodes' heartbeats and the jobs' losses, as the live services report them.

It owns when something is reported, not what follows: facts and categories are made by the same deciders as live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steepest.events import cluster as c
from steepest.events import loss
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.use import PROGRESS_EVERY_MS
from steepest.policies.specon.categorizer import Categorizer
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.training import Training, Witness


class SimulatedCollector(Witness):
    """Heartbeats immediately where something changes, else at a period while anything trains; losses as they are reported.

    Attributes:
        nodes: Set before the first training begins.
    """

    nodes: SimulatedNodes

    def __init__(
        self,
        pool: str,
        append: Callable[[c.ClusterEvent], None],
        judged_by: Callable[[], SpeConParameters],
        now_ms: Callable[[], int],
        heartbeat_s: float,
        *,
        categorizer: Categorizer,
        facts: Facts,
    ) -> None:
        """A collector of a pool.

        Args:
            pool: Its name.
            append: Appends an event.
            judged_by: The parameters that a job's reports are judged by from now on.
            now_ms: The time of records.
            heartbeat_s: The period.
            categorizer: Judges the reports.
            facts: Makes facts of the heartbeats.
        """
        self._categorizer = categorizer
        self._facts = facts
        self._pool = pool
        self._append = append
        self._judged_by = judged_by
        self._now_ms = now_ms
        self._heartbeat_s = heartbeat_s
        self._reported: dict[Training, tuple[object, ...]] = {}
        self._watched: dict[str, tuple[int, SpeConParameters]] = {}
        self._dirty: dict[str, None] = {}
        self._beating: dict[str, None] = {}

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def begins(self, training: Training) -> None:
        """See ``Witness``."""
        self._watch(training)
        self.changes(training)
        self._keep_beating(training.node)

    def adopt(self, training: Training) -> None:
        """It runs already, and all that it was has been reported."""
        self._reported[training] = _news(training)
        self._keep_beating(training.node)

    def changes(self, training: Training) -> None:
        """See ``Witness``."""
        news = _news(training)
        if self._reported.get(training) == news:
            return
        if training.running:
            self._reported[training] = news
        else:
            self._reported.pop(training, None)
        if training.node not in self._dirty:
            self._dirty[training.node] = None
            timeline = self.nodes.timeline
            timeline.call_at(timeline.now_s(), lambda: self._beat_changed(training.node))

    def _keep_beating(self, node: str) -> None:
        if node not in self._beating:
            self._beating[node] = None
            self._beat_later(node)

    def _beat_changed(self, node: str) -> None:
        del self._dirty[node]
        self.beat(node)

    def _beat_later(self, node: str) -> None:
        timeline = self.nodes.timeline
        timeline.call_at(timeline.now_s() + self._heartbeat_s, lambda: self._beat_again(node))

    def _beat_again(self, node: str) -> None:
        self.beat(node)
        if any(training.running for training in self.nodes.on(node)):
            self._beat_later(node)
        else:
            del self._beating[node]

    def joins(self, node: str) -> None:
        """A node that was lost is back; the pool may have forgotten it."""
        self._facts.state.nodes.pop(node, None)
        self.beat(node)

    def beat(self, node: str) -> None:
        """A node sends a heartbeat."""
        beat = self.nodes.beat(node, self._pool, self._now_ms(), progress_every_ms=PROGRESS_EVERY_MS)
        for decision in self._facts.step(_received(beat, "heartbeats", beat.at_ms)):
            self._append(decision.event)

    # --- losses ------------------------------------------------------------------------------------------------------

    def reports(self, training: Training, step: int, loss: float | None) -> None:
        """See ``Witness``."""
        if loss is not None:
            self._watch(training)
            self._report(training, step, loss)

    def _watch(self, training: Training) -> None:
        """Put on the log what a training is judged by, where it does not hold that yet."""
        parameters, known = self._judged_by(), self._watched.get(training.replica.job)
        if known is not None and known[0] == training.incarnation and known[1] is parameters:
            return
        self._watched[training.replica.job] = (training.incarnation, parameters)
        self._judge(
            loss.JobWatched(
                job=training.replica.job,
                pool=self._pool,
                incarnation=training.incarnation,
                metric="loss",
                parameters=parameters,
            )
        )

    def _report(self, training: Training, step: int, value: float) -> None:
        self._judge(
            loss.LossReported(job=training.replica.job, incarnation=training.incarnation, step=step, value=value)
        )

    def forget(self, job: str) -> None:
        """A job is over."""
        self._watched.pop(job, None)
        self._judge(loss.JobUnwatched(job=job))

    def _judge(self, event: loss.LossEvent) -> None:
        for decision in self._categorizer.step(_received(event, "loss", self._now_ms())):
            self._append(decision.event)


def _received(event: Any, topic: str, at_ms: int) -> Received[Any]:
    return Received(event=event, topic=topic, partition=0, offset=0, at_ms=at_ms)


def _news(training: Training) -> tuple[object, ...]:
    """The state whose change makes a node send a heartbeat immediately."""
    return (training.phase, training.mode, bool(training.volume))
