"""Under any faults of migrators and their calls, every job ends once, and every reservation is released.

A schedule is drawn from a seed: several jobs on three nodes, moves between them, calls that are refused, uncertain, slow or
broken, migrators that are killed, paused and overlap, cancels, and processes that crash. It plays in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from steepest.cluster.port import ReplicaId
from steepest.errors import RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.parameters import MoveLimits, PoolParameters
from steepest.testing.system.fake_cluster import When
from steepest.testing.system.rig import Rig, RigProcess
from steepest.testing.virtual_time import run_virtually
from steepest.testing.waiting import until
from steepest.view.state import Phase

NODES = {"n1": 300, "n2": 300, "n3": 200}
JOBS = ("a", "b", "c", "d")
PLAY_S = 60
LIMITS = MoveLimits(checkpoint_timeout_ms=3_000, hold_ms=10_000, stop_grace_ms=3_000, verify_timeout_ms=6_000)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of warnings, all of them wanted."""
    with capture_logs():
        yield


class Play:
    """One schedule."""

    def __init__(self, rig: Rig, seed: int, trouble: float) -> None:
        self._rig = rig
        self._rng = random.Random(seed)
        self._trouble = trouble
        self._others = rig.start("placer", "worker-monitor", rig.beats())
        self._migrators: list[RigProcess] = []
        self._moves = 0
        self._start_migrator()

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

    async def run(self) -> None:
        """Play for a minute with faults, then without faults to the end."""
        await self._rig.configure(PoolParameters(limits=LIMITS, retry_hold_ms=100))
        for job in JOBS:
            mode = self._rng.choice(("on-request", "on-request", "on-stop"))
            steps = str(self._rng.randint(10, 60))
            await self._rig.submit(job, "--steps", steps, "--step-s", "1", "--mode", mode, retries=20)
        while self._rig.clock.monotonic() < PLAY_S + 54_321:
            await asyncio.sleep(self._rng.uniform(0, 2))
            await self._rng.choice((self._move, self._move, self._move, self._disturb, self._cross))()
        self._trouble = 0.0
        for migrator in self._migrators:
            migrator.wake()
        self._start_migrator()
        jobs = self._others.view.jobs
        await until(
            lambda: len(jobs) == len(JOBS) and all(job.phase is Phase.ENDED for job in self._others.view.jobs),
            "every job to be over",
            within_s=1_200,
        )

    async def _move(self) -> None:
        """Plan a move that may be valid when it is folded."""
        job = self._others.view.jobs.get(self._rng.choice(JOBS))
        if job is None or job.node is None:
            return
        self._moves += 1
        target = self._rng.choice(list(NODES))
        await self._rig.migrate(job.name, job.node, target, plan=f"move-{self._moves}", incarnation=job.incarnation)

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
            case 3 if len(self._migrators) < 4:
                self._start_migrator()

    async def _cross(self) -> None:
        """Cancel a job, or let its process crash."""
        job = self._rng.choice(JOBS)
        training = self._rig.nodes.newest(ReplicaId(job))
        if self._rng.random() < 0.2:
            await self._rig.cancel(job)
        elif training is not None and training.running:
            self._rng.choice((training.kill, training.lose, lambda: training.exit(1)))()


async def play(folder: Path, seed: int, trouble: float) -> None:
    """Play a schedule, and check the final state."""
    async with contextlib.aclosing(Rig(folder, NODES)) as rig:
        await Play(rig, seed, trouble).run()
        view = await rig.view()
        ended = {event.job: event.outcome for event in await rig.of_type(c.JobEnded)}

        assert await rig.broken() == []
        assert set(ended) == set(JOBS)
        assert rig.nodes.running() == []
        for job, outcome in ended.items():
            assert rig.nodes.finished(job) == (outcome is c.Outcome.FINISHED), job
        assert [node for node in view.nodes if node.allocated.cpu_m or node.count] == []
        assert view.in_flight == {}
        assert view.state.gaps == 0


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=12, deadline=None)
def test_every_job_ends_once_under_any_schedule(seed: int, trouble: float) -> None:
    """After any schedule all jobs are over, none ran twice at a time, no node held too much, and nothing is held."""
    with tempfile.TemporaryDirectory() as folder:
        run_virtually(play(Path(folder), seed, trouble))
