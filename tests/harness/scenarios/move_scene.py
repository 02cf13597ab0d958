"""A move acted out: a job that runs on one of two nodes, a migrator that is to move it, and what must hold in the end.

It owns the scenery that the migrator's tests share. It must never know what goes wrong in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.harness.system.fake_cluster import When
from tests.harness.system.faulty_log import LogHook
from tests.harness.system.rig import Rig, RigProcess
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import MoveLimits, PoolParameters
from steepest.log.base import NewRecord
from steepest.view.state import Job, Phase
from steepest_lab.simulated.training import Training

CALLS = {c.Step.CHECKPOINT: "checkpoint", c.Step.STOP: "stop", c.Step.START: "start", c.Step.VERIFY: "wait_for_step"}
LIMITS = MoveLimits(checkpoint_timeout_ms=5_000, hold_ms=20_000, stop_grace_ms=5_000, verify_timeout_ms=10_000)


class Scene:
    """A job ``a`` on ``n1`` and a migrator, beside everything else that a pool needs.

    Attributes:
        others: The process with all but the migrator.
        migrator: The newest migrator.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.others = rig.start("placer", "worker-monitor", rig.beats())
        self.migrator = self.start_migrator()

    def start_migrator(self) -> RigProcess:
        """Start another migrator."""
        self.migrator = self.rig.start("migrator")
        return self.migrator

    async def begin(self, *arguments: str, retries: int = 0) -> None:
        """Wait until the job trains on ``n1`` and may be moved; without arguments it trains for forty seconds."""
        await self.rig.configure(PoolParameters(limits=LIMITS, retry_hold_ms=100))
        await self.rig.submit("a", *(arguments or ("--steps", "40", "--step-s", "1")), node="n1", retries=retries)
        await until(lambda: "a" in self.others.view.jobs and self.job.alive and self.job.declared_mode is not None)
        await until(lambda: (self.training.step or 0) >= 2)

    async def move(self) -> None:
        """Plan the move to ``n2``."""
        await self.rig.migrate("a", "n1", "n2")

    @property
    def job(self) -> Job:
        """The job as the log has it."""
        return self.others.view.jobs["a"]

    @property
    def training(self) -> Training:
        """Its newest process."""
        training = self.rig.nodes.newest(ReplicaId("a"))
        assert training is not None
        return training

    async def end(self, *, within_s: float = 600) -> None:
        """Wait until the job is over."""
        await until(lambda: self.job.phase is Phase.ENDED, "the job to be over", within_s=within_s)

    async def conclusion(self) -> c.ClusterEvent:
        """How the move ended."""
        kinds = c.MigrationFinished | c.MigrationFailed | c.PlanAbandoned
        view = self.others.view
        await until(lambda: view.plan("move-1") is not None and not view.in_flight, "the move to end", within_s=600)
        ends = [one.event for one in await self.rig.events() if isinstance(one.event, kinds)]
        (end,) = [end for end in ends if end.plan == "move-1"][-1:]
        return end

    async def check(self) -> None:
        """What must hold after everything: no invariant broken, nothing held, nothing running that is over."""
        view = await self.rig.view()
        assert await self.rig.broken() == []
        assert view.state.gaps == 0
        over = [job for job in view.jobs if job.phase is Phase.ENDED]
        assert [job.name for job in over if self.rig.nodes.running(job.name)] == []
        if len(over) == len(view.jobs):
            assert {node.name: node.allocated for node in view.nodes if node.allocated != Resources()} == {}
            assert {node.name: node.replicas for node in view.nodes if node.count} == {}


def at_append(wanted: bytes, moment: When, action: Callable[[], object]) -> LogHook:
    """Call this once, at the first append of a record that holds these bytes."""
    done = [False]

    async def at(call: str, when: When, records: Sequence[NewRecord]) -> None:
        if (call, when) == ("append", moment) and not done[0] and any(wanted in record.value for record in records):
            done[0] = True
            action()

    return at
