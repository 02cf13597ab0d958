"""The multi-layer perceptron on digits again, trained by any number of processes together.

Each step has the same batches however many processes there are; they divide the batches, and sum their gradients. So the
losses of one process and of several are the same, and a training that was stopped goes on with another number of them.
"""

from __future__ import annotations

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.all_reduce import AllReduce, connected
from steepest_lab.jobs.gangs import training
from steepest_lab.jobs.gangs.star import PeerLost
from steepest_lab.jobs.mlp import Perceptron


def train(run: steepest_sdk.Run, model: Perceptron, given: harness.Options, gang: AllReduce) -> None:
    """Train to the end.

    Raises:
        PeerLost: The model is that after the last step that was reported.
    """
    shared = training.SharedStep(model, given)
    own = range(run.rank, given.batches, run.world_size)
    for step in run.steps(given.steps):
        loss = shared.update(gang.sum(step, shared.contribution(step, own)))
        training.report(run, "parallel", given, step, loss)


def main() -> None:
    """Trains together with the processes of its gang; alone if it has none."""
    given = harness.options("parallel", steps=750, batches=12)
    model = Perceptron(given.seed)
    run = steepest_sdk.start(save=harness.save(model), load=harness.load(model))
    try:
        with connected(run.rank, run.peers, while_waiting=run.keep_stop_signal) as gang:
            train(run, model, given, gang)
    except PeerLost as error:
        training.leave(run, "parallel", error)


if __name__ == "__main__":
    main()
