"""The multi-layer perceptron on digits again, trained by any number of processes together.

Each step has the same batches however many processes there are; they divide the batches, and sum their gradients. So the
losses of one process and of several are the same, and a training that was stopped goes on with another number of them. The
sums are in double precision, in which the addition of single-precision gradients is exact but for the last bits, so that
the order of the additions does not show.
"""

from __future__ import annotations

import time

import numpy as np

import steepest_sdk
from steepest.demo_jobs import harness
from steepest.demo_jobs.all_reduce import AllReduce, PeerLost, Vector, connected
from steepest.demo_jobs.datasets import Array
from steepest.demo_jobs.mlp import Perceptron

LOST_STATUS = 1
"""Not 0 and not 85: the job has failed, and is started again from its last checkpoint."""

_STOP_MAY_FOLLOW_S = 1.0  # peers are stopped one after the other: that one is gone may be the beginning of a stop
_PRINT_EVERY_STEPS = 30


class SharedStep:
    """The part of one process in the steps of a gang."""

    def __init__(self, model: Perceptron, given: harness.Options, rank: int, world_size: int) -> None:
        self._model = model
        self._given = given
        self._own = range(rank, given.batches, world_size)
        _, example = model.batch(np.random.default_rng(given.seed))
        self._shapes = {name: array.shape for name, array in example.items()}

    def contribution(self, step: int) -> Vector:
        """The sum of the gradients of its own batches, and at the end that of their losses."""
        total = np.zeros(sum(int(np.prod(shape)) for shape in self._shapes.values()) + 1)
        for batch in self._own:
            loss, gradients = self._model.batch(np.random.default_rng([self._given.seed, step, batch]))
            total += np.concatenate([*(gradients[name].ravel() for name in self._shapes), [loss]], dtype=np.float64)
        return total

    def update(self, total: Vector) -> float:
        """Update the model with the sum over all processes; return the mean loss of the step's batches."""
        mean = total / self._given.batches
        gradients: dict[str, Array] = {}
        first = 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            gradients[name] = mean[first : first + size].reshape(shape).astype(np.float32)
            first += size
        self._model.update(gradients)
        return float(mean[-1])


def train(run: steepest_sdk.Run, model: Perceptron, given: harness.Options, gang: AllReduce) -> None:
    """Train to the end.

    Raises:
        PeerLost: The model is that after the last step that was reported.
    """
    shared = SharedStep(model, given, run.rank, run.world_size)
    for step in run.steps(given.steps):
        loss = shared.update(gang.sum(step, shared.contribution(step)))
        if run.is_chief and (step % _PRINT_EVERY_STEPS == 0 or step == given.steps):
            harness.say(f"parallel: step {step} of {given.steps}, {run.world_size} processes, nats {loss:.6g}\n")
        run.report(step, loss=loss)


def main() -> None:
    """Trains together with the processes of its gang; alone if it has none."""
    given = harness.options("parallel", steps=750, batches=12)
    model = Perceptron(given.seed)
    run = steepest_sdk.start(save=harness.save(model), load=harness.load(model))
    try:
        with connected(run.rank, run.peers, while_waiting=run.keep_stop_signal) as gang:
            train(run, model, given, gang)
    except PeerLost as error:
        _leave(run, error)


def _leave(run: steepest_sdk.Run, error: PeerLost) -> None:
    """Leave, with 85 if the gang is being stopped, and otherwise with a failure that costs no step."""
    deadline = time.monotonic() + _STOP_MAY_FOLLOW_S
    while time.monotonic() < deadline:
        run.safe_point()
        time.sleep(0.02)
    if run.step:
        run.checkpoint()
    harness.say(f"parallel: rank {run.rank} of {run.world_size} has lost a peer after step {run.step}: {error}\n")
    raise SystemExit(LOST_STATUS)


if __name__ == "__main__":
    main()
