"""A training job simulated from its application's measured tables: epochs, gradient noise, step times.

It owns Pollux's model of progress: a step of the initial batch size is the unit, a step of a larger batch counts as many
as its gradient noise says (Qiao and others, OSDI 2021, §3), and an epoch ends at a progress that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from steepest.errors import InputError
from steepest_lab.sim.allocation.job import RunningJob
from steepest_lab.sim.allocation.tables import Counts, Tables

SLACK = 1e-8


class Application:
    """One job's training.

    Attributes:
        epochs_done: Number of completed epochs.
        progress: In steps of the initial batch size.
        countdown_s: Seconds until it begins to make progress.

    Args:
        tables: The application's.
        job: With the batch size asked for.
        node_gpus: GPUs of a node, for predictions.

    Raises:
        InputError: The job has no batch size.
    """

    def __init__(self, tables: Tables, job: RunningJob, node_gpus: int) -> None:
        if not job.sim.batch_size:
            raise InputError(f"job {job.name}: needs a batch size", hint="Give the workload a column batch_size.")
        self.tables = tables
        self.job = job
        self.node_gpus = node_gpus
        self.asked_batch = job.sim.batch_size
        self.epochs_done = 0
        self.progress = 0.0
        self.countdown_s = 0.0
        self._placement: Counts = ()
        self._rate = 0.0
        self._steps: dict[int, float] = {}
        job.step_s_with = self.predicted_step_s
        # The artifact's own rule: more than one replica never gains anything where a step is mostly start-up.
        job.most = 1 if job.sim.model == "ncf" else max(1, self.asked_batch // tables.local_least)
        self._publish()

    def place(self, placement: Counts, countdown_s: float) -> None:
        """Give the job these GPUs; it makes no progress during the countdown."""
        self._placement = placement
        self.countdown_s = countdown_s
        self._rate = self._progress_per_s()

    def advance(self, now_s: int, seconds: int) -> int | None:
        """Train for whole seconds from ``now_s`` on.

        An epoch ends after a whole number of seconds, rounded half to even, and so does the job.

        Returns:
            The time at which it completed; None: it has not.
        """
        waits = min(self.countdown_s, seconds)
        self.countdown_s -= waits
        clock, rest = now_s + int(waits), seconds - int(waits)
        while rest > 0:
            end = self.tables.ends[self.epochs_done]
            gained = self.progress + self._rate * rest
            if gained < end:
                self.progress = gained
                return None
            taken: int = round((end - self.progress) / self._rate)
            self.progress = end
            self.epochs_done += 1
            clock, rest = clock + taken, rest - taken
            if self.epochs_done == len(self.tables.ends):
                return clock
            self._rate = self._progress_per_s()
            self._publish()
        return None

    def predicted_step_s(self, replicas: int) -> float:
        """Seconds a step on as few nodes as possible; the artifact's Optimus, unlike its jobs, always accumulates on one."""
        if replicas not in self._steps:
            whole, rest = divmod(replicas, self.node_gpus)
            placement = (self.node_gpus,) * whole + ((rest,) if rest else ())
            self._steps[replicas] = self._step_s(placement, *self._batches(replicas, least=int(replicas == 1)))
        return self._steps[replicas]

    def _batches(self, replicas: int, least: int = 0) -> tuple[int, int]:
        """Batch size of one pass on each GPU, and the number of accumulation passes before the last."""
        local = _ceiling(self.asked_batch / replicas)
        times = max(_ceiling(local / self.tables.local_most) - 1, least)
        if replicas == 1 and self.asked_batch > self.tables.batches[0]:
            times = max(times, 1)
        atomic = min(_ceiling(local / (times + 1)), self.tables.batches[-1] // (replicas * (times + 1)))
        return atomic, times

    def _step_s(self, placement: Counts, atomic: int, times: int) -> float:
        step, sync = self.tables.step(placement, atomic)
        return step + (step - sync) * times

    def _progress_per_s(self) -> float:
        if not self._placement:
            return 0.0
        replicas = sum(self._placement)
        atomic, times = self._batches(replicas)
        return self._gain(replicas * atomic * (times + 1)) / self._step_s(self._placement, atomic, times)

    def _gain(self, batch: int) -> float:
        """Steps of the initial batch size that a step of this one is worth."""
        sqr, var = self.tables.noise(self.epochs_done, batch)
        scale = batch / self.tables.batches[0]
        return (var + sqr) / (var / scale + sqr)

    def _publish(self) -> None:
        """Set what policies may know: iterations from the current epoch's end to the last one's, as the artifact counts."""
        job, last = self.job, len(self.tables.ends) - 1
        if self.epochs_done >= last:
            job.predicted_left = 1.0
        else:
            reached = self.tables.iteration(self.epochs_done, self.asked_batch)
            job.predicted_left = self.tables.iteration(last, self.asked_batch) - reached


def progress_of(job: RunningJob, application: Application) -> None:
    """Update the fields that policies see with the application's progress."""
    whole = application.tables.ends[-1]
    job.left = job.iterations * (1 - application.progress / whole)
    job.remaining_s = job.left * job.step_s


def counts(places: Sequence[tuple[int, int]]) -> Counts:
    """GPUs on each node."""
    return tuple(units for _, units in places)


def _ceiling(value: float) -> int:
    return math.ceil(value - SLACK)
