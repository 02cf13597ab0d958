"""A play of jobs under troubled migrators, drawn from a seed, in virtual time.

Calls are refused, uncertain, slow or broken; migrators are killed, paused and overlap. Which jobs there are and what else is
planned or crashes, a play of its own says.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.harness.system.fake_cluster import When
from tests.harness.system.rig import Rig, RigProcess
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.errors import RefusedError, UncertainError
from steepest.events.cluster import JobEnded, Outcome
from steepest.events.parameters import MoveLimits, PoolParameters
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

LIMITS = MoveLimits(checkpoint_timeout_ms=3_000, hold_ms=10_000, stop_grace_ms=3_000, verify_timeout_ms=6_000)
MIGRATORS_MOST = 4
BEGIN_S = 54_321.0
"""The virtual clock's first second."""

Act = Callable[[], Awaitable[None]]


class TroubledPlay(ABC):
    """One schedule.

    Attributes:
        nodes: Their CPU in millicores.
        jobs: The names of the jobs.
        parameters: Of the pool.
        play_s: Seconds with trouble.
        patience_s: Seconds in which all jobs are over after that.
        pause_s: The longest pause between two acts.
    """

    nodes: ClassVar[Mapping[str, int]]
    jobs: ClassVar[Sequence[str]]
    parameters: ClassVar[PoolParameters]
    play_s: ClassVar[float]
    patience_s: ClassVar[float]
    pause_s: ClassVar[float]

    def __init__(self, rig: Rig, seed: int, trouble: float) -> None:
        """``trouble`` is the share of calls that something happens to."""
        self._rig = rig
        self._rng = random.Random(seed)
        self._trouble = trouble
        self._others = rig.start("placer", "worker-monitor", rig.beats())
        self._migrators: list[RigProcess] = []
        self._plans = 0
        self._start_migrator()

    @abstractmethod
    async def _submit(self) -> None:
        """Submit all jobs."""

    @abstractmethod
    def _acts(self) -> Sequence[Act]:
        """What may happen beside trouble, each as often as it is named."""

    async def run(self) -> None:
        """Play with faults, then without faults to the end."""
        await self._rig.configure(self.parameters)
        await self._submit()
        acts = (*self._acts(), self._disturb)
        while self._rig.clock.monotonic() < self.play_s + BEGIN_S:
            await asyncio.sleep(self._rng.uniform(0, self.pause_s))
            await self._rng.choice(acts)()
        self._trouble = 0.0
        for migrator in self._migrators:
            migrator.wake()
        self._start_migrator()
        await until(self._is_over, "every job to be over", within_s=self.patience_s)

    def _is_over(self) -> bool:
        jobs = self._others.view.jobs
        return len(jobs) == len(self.jobs) and all(job.phase is Phase.ENDED for job in jobs)

    def _next_plan(self, name: str) -> str:
        self._plans += 1
        return f"{name}-{self._plans}"

    def _crash(self, job: str, replica: int) -> None:
        """Let a process die, if it runs."""
        training = self._rig.nodes.newest(ReplicaId(job, replica))
        if training is not None and training.running:
            self._rng.choice((training.kill, training.lose, lambda: training.exit(1)))()

    def _start_migrator(self) -> None:
        self._migrators.append(self._rig.start("migrator", every=self._meet))

    async def _meet(self, _call: str, when: When) -> None:
        """What happens to a call, before or after it takes effect. Adapters are honest: what is refused did not happen."""
        if self._rng.random() > self._trouble:
            return
        match self._rng.randrange(5):
            case 0 if when is When.BEFORE:
                raise RefusedError("a test refuses it")
            case 1:
                raise UncertainError("a test says nothing of it")
            case 2:
                raise ZeroDivisionError("a test's bug")
            case _:
                await asyncio.sleep(self._rng.uniform(0, 5))

    async def _disturb(self) -> None:
        """Kill, pause or wake migrators; often two overlap."""
        migrator = self._rng.choice(self._migrators)
        match self._rng.randrange(4):
            case 0:
                migrator.kill()
                self._start_migrator()
            case 1:
                migrator.pause()
                self._start_migrator()
            case 2:
                migrator.wake()
            case 3 if len(self._migrators) < MIGRATORS_MOST:
                self._start_migrator()


@contextlib.asynccontextmanager
async def played(
    play: type[TroubledPlay], folder: Path, seed: int, trouble: float
) -> AsyncIterator[tuple[Rig, Mapping[str, Outcome]]]:
    """The rig after a schedule, and how each job ended; what must hold after any schedule is checked."""
    async with contextlib.aclosing(Rig(folder, dict(play.nodes))) as rig:
        await play(rig, seed, trouble).run()
        view: ClusterView = await rig.view()
        ended = {event.job: event.outcome for event in await rig.of_type(JobEnded)}

        assert await rig.broken() == []
        assert set(ended) == set(play.jobs)
        assert rig.nodes.running() == []
        assert [node for node in view.nodes if node.allocated.cpu_m or node.count] == []
        assert view.in_flight == {}
        assert view.state.gaps == 0
        yield rig, ended
