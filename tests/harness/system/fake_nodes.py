"""Simulated nodes for tests, which forget no start and no end that there ever was.

It owns the history, so that a test can ask afterwards what must never have been. What is so is in
:mod:`steepest_lab.simulated.nodes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from tests.harness.system.fake_training import model_of
from tests.harness.system.simulated_cluster import FileWitness

from steepest.clock import Clock
from steepest.cluster.port import ReplicaId
from steepest.events.common import Resources
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.timeline import LoopTimeline
from steepest_lab.simulated.training import LEFT, Training


class Moment(msgspec.Struct, frozen=True):
    """A start, or with ``exit_status`` or ``gone`` an end."""

    replica: ReplicaId
    incarnation: int
    node: str
    what: str
    exit_status: int | None = None


class History(FileWitness):
    """Every start and end of trainings on some nodes.

    Attributes:
        moments: In order.
        overfull: Starts that took more than a node has.
        doubled: Starts of a replica while another incarnation of it ran, forgotten ones included.
        running: What runs, also what was forgotten.
    """

    def __init__(self, capacities: Mapping[str, Resources], folder: Path | None, clock: Clock) -> None:
        super().__init__(folder, clock)
        self.moments: list[Moment] = []
        self.overfull: list[Moment] = []
        self.doubled: list[Moment] = []
        self.running: dict[Training, None] = {}
        self._capacities = capacities

    def begins(self, training: Training) -> None:
        """See ``Witness``."""
        moment = Moment(training.replica, training.incarnation, training.node, "start")
        self.moments.append(moment)
        if any(other.replica == training.replica for other in self.running):
            self.doubled.append(moment)
        self.running[training] = None
        taken = Resources()
        for other in self.running:
            if other.node == training.node:
                taken += other.spec.requests
        if not taken.fits(self._capacities[training.node].of_a_node):
            self.overfull.append(moment)
        super().begins(training)

    def changes(self, training: Training) -> None:
        """See ``Witness``."""
        if not training.running and training in self.running:
            del self.running[training]
            what = "left" if training.exit_status == LEFT else "end"
            self.moments.append(
                Moment(training.replica, training.incarnation, training.node, what, training.exit_status)
            )
        super().changes(training)


class FakeNodes(SimulatedNodes):
    """Some nodes that run the tests' program. To be made within a loop.

    Attributes:
        capacities: What each node has.
        witness: Their history.
    """

    def __init__(
        self,
        capacities: Mapping[str, Resources],
        folder: Path | None,
        clock: Clock,
        *,
        witness: type[History] = History,
    ) -> None:
        """``folder``: where trainings write; None: nowhere. ``witness``: what keeps their history."""
        self.capacities = dict(capacities)
        self.witness = witness(self.capacities, folder, clock)
        timeline = LoopTimeline()
        nodes = [SimulatedNode(name, capacity, timeline) for name, capacity in capacities.items()]
        super().__init__(nodes, model_of, timeline, witness=self.witness)

    @property
    def history(self) -> list[Moment]:
        """Every start and end, in order."""
        return self.witness.moments

    def running(self, job: str | None = None) -> list[Training]:
        """All that runs, also what was forgotten."""
        return [training for training in self.witness.running if job in {None, training.replica.job}]

    def finished(self, job: str) -> int:
        """How many of a job's incarnations completed their training."""
        return sum(moment.replica.job == job and moment.exit_status == 0 for moment in self.history)

    def end_all(self) -> None:
        """End everything, for the test is over."""
        for training in self.running():
            training.kill()
