"""The multi-layer perceptron on digits again, trained by a parameter server and any number of workers.

Rank 0 is the server: it has the parameters and the optimiser, and alone saves and reports. It sends the parameters with each
task, and updates them with the sums of gradients that come back.

* Synchronous (Li et al. 2014, "Scaling distributed machine learning with the parameter server", bulk-synchronous): the
  workers divide the batches of a step, and the next step begins when all have answered. So the losses are those of one
  process, however many workers there are; a worker that hangs stops all, and one that is lost ends the training.
* Asynchronous (Downpour SGD of Dean et al. 2012, "Large scale distributed deep networks"): each worker computes the batches
  of a step of its own, and the server updates the parameters as soon as an answer comes, although it was computed with
  older parameters. A worker may leave, hang or come late, and the others go on; what a lost one computed is left out.
  With one worker, the losses are those of one process.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.gangs import star, training
from steepest_lab.jobs.gangs.star import PeerLost
from steepest_lab.jobs.gangs.tasks import GradientTask, TaskServer, tasks
from steepest_lab.jobs.gangs.training import SharedStep
from steepest_lab.jobs.mlp import Perceptron

Sums = Callable[[int], NDArray[np.float64]]
"""The sums of a step, for the update."""

_NAME = "parameter_server"


class Synchronous:
    """All workers work on one step."""

    def __init__(self, server: TaskServer, shared: SharedStep, world_size: int, patience_s: float) -> None:
        self._server = server
        self._shared = shared
        self._workers = range(1, world_size)
        self._patience_s = patience_s

    def sums(self, step: int) -> NDArray[np.float64]:
        """Divide the batches of a step among all workers, and add what they send in the order of their ranks.

        Raises:
            PeerLost: A worker is gone, or never came.
        """
        server = self._server
        if not server.wait(lambda: server.lost or len(server.workers) == len(self._workers), self._patience_s):
            raise PeerLost(f"ranks {sorted(set(self._workers) - set(server.workers))} have not called")
        self._refuse_lost()
        parameters = self._shared.parameters
        for place, rank in enumerate(self._workers):
            server.give(rank, GradientTask(step, place, len(self._workers)), parameters)
        if not server.wait(lambda: server.lost or server.idle == [*self._workers], star.SILENCE_S):
            raise PeerLost(f"ranks {sorted(set(self._workers) - set(server.idle))} are silent")
        self._refuse_lost()
        total = np.zeros(self._shared.size + 1)
        for _, _, sums in sorted(server.results(), key=operator.itemgetter(0)):
            total += sums
        return total

    def _refuse_lost(self) -> None:
        for rank, why in sorted(self._server.lost.items()):
            raise PeerLost(f"rank {rank}: {why}")


class Asynchronous:
    """Each worker works on a step of its own."""

    def __init__(self, server: TaskServer, shared: SharedStep, done: int, patience_s: float) -> None:
        self._server = server
        self._shared = shared
        self._given = done
        self._patience_s = patience_s
        self._found: deque[NDArray[np.float64]] = deque()

    def sums(self, step: int) -> NDArray[np.float64]:
        """The sums of the next worker that answers.

        Raises:
            PeerLost: No worker has been there for a while.
        """
        server = self._server
        while not self._found:
            if not server.wait(lambda: self._progress() or not server.workers, star.SILENCE_S):
                raise PeerLost(f"ranks {server.workers} are silent")
            for rank in sorted(server.lost):
                harness.say(f"{_NAME}: goes on without rank {rank} after step {step - 1}: {server.lost.pop(rank)}\n")
            if not self._found and not server.wait(lambda: server.workers, self._patience_s):
                raise PeerLost("no worker has called")
        return self._found.popleft()

    def _progress(self) -> bool:
        """Give each idle worker a step, unless an answer waits: the worker must get its update too."""
        self._found.extend(sums for _, _, sums in self._server.results())
        if not self._found:
            for rank in self._server.idle:
                self._given += 1
                self._server.give(rank, GradientTask(self._given, 0, 1), self._shared.parameters)
        return bool(self._found)


def serve(run: steepest_sdk.Run, shared: SharedStep, given: harness.Options, asked: harness.GangOptions) -> None:
    """Train to the end with the workers that are there.

    Raises:
        PeerLost: The model is that after the last step that was reported.
    """

    def while_waiting() -> None:
        if run.step:
            run.safe_point()  # between two updates: the state is that after the last step
        else:
            run.keep_stop_signal()

    server = TaskServer(star.listen(run.peers), run.world_size, shared.size + 1, while_waiting)
    try:
        sums: Sums = (
            Asynchronous(server, shared, run.step, asked.patience_s).sums
            if asked.asynchronous
            else Synchronous(server, shared, run.world_size, asked.patience_s).sums
        )
        _train(run, shared, given, sums)
        server.finish()
    finally:
        server.close()


def work(run: steepest_sdk.Run, shared: SharedStep, given: harness.Options, patience_s: float) -> None:
    """Compute what the server asks for, until there is no more.

    Raises:
        PeerLost: The server is gone.
    """
    parameters = np.zeros(shared.size, np.float32)
    for task, answer in tasks(run.rank, run.peers, parameters, patience_s):
        shared.parameters = parameters
        answer(shared.contribution(task.step, range(task.first, given.batches, task.stride)))
        run.report(task.step)


def _train(run: steepest_sdk.Run, shared: SharedStep, given: harness.Options, sums: Sums) -> None:
    for step in run.steps(given.steps):
        training.report(run, _NAME, given, step, shared.update(sums(step)))


def main() -> None:
    """Serves or works, by its rank; trains alone if it has no peers."""
    given, asked = harness.gang_options(f"gangs.{_NAME}", steps=750, batches=12)
    model = Perceptron(given.seed)
    run = steepest_sdk.start(save=harness.save(model), load=harness.load(model))
    shared = SharedStep(model, given)
    try:
        if run.world_size == 1:
            _train(run, shared, given, lambda step: shared.contribution(step, range(given.batches)))
        elif run.is_chief:
            serve(run, shared, given, asked)
        elif run.step < given.steps:  # else the server, which has nothing left to give, may have ended already
            work(run, shared, given, asked.patience_s)
    except PeerLost as error:
        training.leave(run, _NAME, error)


if __name__ == "__main__":
    main()
