"""Moves of jobs with checkpoints of known sizes between the lab's nodes, which a link joins: predicted and measured.

It owns how jobs are brought to move one after another. It must never judge what a move took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes import sized_training
from tests.integration.kubernetes.moving_system import lab_system

from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NODES

CPU = "0.1"
TO_FAR = ("node-a=1:4Gi", "node-b=0.11:4Gi")
TO_NEAR = ("node-a=0.11:4Gi", "node-b=1:4Gi")
"""Nodes as ``up --node`` has them: up to nine jobs start on the larger one, and the other has room for one of them."""


class LinkedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move.

    Attributes:
        mib: Of its checkpoint.
        predicted_ms: What its plan said that it would take; None: nothing.
        took_ms: From the plan to the first step at the new place.
        crossed_mib: What crossed the link meanwhile: to the far node, and from it.
    """

    job: str
    mib: int
    predicted_ms: int | None
    took_ms: int
    crossed_mib: tuple[float, float]

    @property
    def error(self) -> float | None:
        """By which share of it the prediction was wrong."""
        return None if self.predicted_ms is None else self.predicted_ms / self.took_ms - 1


@contextmanager
def linked_system(
    lab: KubernetesLab, kubeconfig: Path, state: Path, nodes: tuple[str, str] = TO_FAR
) -> Iterator[RunningSystem]:
    """A system whose jobs move to the smaller node once they have converged."""
    with lab_system(
        lab, kubeconfig, state, nodes, "--interval", "1s", "--policy", "specon", "--alpha", "0.9"
    ) as running:
        for each in NODES:  # a job that comes before both are there starts on the one that is
            running.await_event(partial(_has_joined, each.name))
        yield running


class MovingJobs:
    """Jobs of one system.

    Args:
        system: It, with the nodes of one direction.
        lab: The lab, whose nodes a link joins.
    """

    def __init__(self, system: RunningSystem, lab: KubernetesLab) -> None:
        self._system = system
        self._lab = lab
        self._source = Path(sized_training.__file__).read_text()
        self._jobs = 0
        self._position = 0

    def move(self, *sizes_mib: int) -> list[LinkedMove]:
        """Start jobs with checkpoints of these sizes, move all but one, one at a time, and let each end after its move.

        None moves before all have saved, which may cross the link too. The last one on a node moves nowhere; which one that
        is, the policy decides.
        """
        sizes = {self._submit(mib): mib for mib in sizes_mib}
        for job in sizes:
            self._system.await_event(partial(_has_saved, job))
        for job in sizes:
            (self._checkpoints(job) / "go").touch()
        moves = [self._next(sizes) for _ in sizes_mib[1:]]
        (last,) = sizes.keys() - {each.job for each in moves}
        self._end(last)
        return moves

    def _submit(self, mib: int) -> str:
        self._jobs += 1
        name = f"sized-{self._jobs}"
        command = ("python3", "-c", self._source, "/steepest/checkpoints", str(mib))
        self._system.submit(name, *command, options=("--cpu", CPU))
        return name

    def _next(self, sizes: dict[str, int]) -> LinkedMove:
        planned, self._position = self._system.await_event(_planned, self._position)
        before = self._lab.link.crossed_bytes()
        moved, self._position = self._system.await_event(_finished, self._position)
        after = self._lab.link.crossed_bytes()
        self._end(moved.job)
        to_far, from_far = ((now - then) / sized_training.MIB for now, then in zip(after, before, strict=True))
        return LinkedMove(
            job=moved.job,
            mib=sizes[moved.job],
            predicted_ms=planned.because.move_ms,
            took_ms=moved.took_ms,
            crossed_mib=(to_far, from_far),
        )

    def _end(self, job: str) -> None:
        (self._checkpoints(job) / "enough").touch()
        assert self._system.await_end(job).outcome is c.Outcome.FINISHED

    def _checkpoints(self, job: str) -> Path:
        return self._system.state / "cluster" / "jobs" / job / "checkpoints"


def _has_saved(job: str, found: Received[c.ClusterEvent]) -> bool | None:
    return (isinstance(found.event, c.CheckpointVerified) and found.event.job == job) or None


def _has_joined(node: str, found: Received[c.ClusterEvent]) -> bool | None:
    return (isinstance(found.event, c.NodeJoined) and found.event.node == node) or None


def _planned(found: Received[c.ClusterEvent]) -> tuple[c.MigrationPlanned, int] | None:
    return (found.event, found.offset + 1) if isinstance(found.event, c.MigrationPlanned) else None


def _finished(found: Received[c.ClusterEvent]) -> tuple[c.MigrationFinished, int] | None:
    return (found.event, found.offset + 1) if isinstance(found.event, c.MigrationFinished) else None
