"""Gangs under any faults: whole or not at all, each ends once, and every reservation is released.

A schedule is drawn from a seed: gangs that each need more than half of the pool, elastic ones and jobs of one replica, of
different priorities; plans that suspend, scale and move them; calls that are refused, uncertain, slow or broken; migrators
that are killed, paused and overlap; replicas that crash. It plays in virtual time.
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
from steepest.events.common import Resources
from steepest.events.parameters import MoveLimits, PoolParameters, PreemptionLimits, QueueParameters
from steepest.testing.system.fake_cluster import When
from steepest.testing.system.fake_training import PROGRAM
from steepest.testing.system.rig import Rig, RigProcess
from steepest.testing.virtual_time import run_virtually
from steepest.testing.waiting import until
from steepest.view.state import Job, Phase

NODES = {"n1": 400, "n2": 400, "n3": 200}
PLAY_S = 90
LIMITS = MoveLimits(checkpoint_timeout_ms=3_000, hold_ms=10_000, stop_grace_ms=3_000, verify_timeout_ms=6_000)
PARAMETERS = PoolParameters(
    limits=LIMITS,
    retry_hold_ms=100,
    queueing=QueueParameters(policy="priority", preempt=True),
    preemption=PreemptionLimits(min_run_ms=5_000, max_suspensions=3),
)


def worker(replicas: int, fewest: int | None = None, most: int | None = None) -> tuple[c.Role, ...]:
    """Workers of 100m each."""
    return (c.Role(name="worker", replicas=replicas, min=fewest, max=most, requests=Resources(cpu_m=100)),)


JOBS: dict[str, tuple[c.Role, ...]] = {
    "large": worker(6),
    "larger": (c.Role(name="chief", requests=Resources(cpu_m=200)), *worker(5)),
    "elastic": worker(3, 1, 5),
    "single": (),
    "pair": worker(2),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of warnings, all of them wanted."""
    with capture_logs():
        yield


class Play:
    """One schedule."""

    def __init__(self, rig: Rig, seed: int, trouble: float) -> None:
        self._rig = rig
        self._lots = random.Random(seed)
        self._trouble = trouble
        self._others = rig.start("placer", "worker-monitor", rig.beats())
        self._migrators: list[RigProcess] = []
        self._plans = 0
        self._start_migrator()

    def _start_migrator(self) -> None:
        self._migrators.append(self._rig.start("migrator", every=self._meet))

    async def _meet(self, _call: str, when: When) -> None:
        """What happens to a call, before or after it takes effect. Adapters are honest: what is refused did not happen."""
        if self._lots.random() > self._trouble:
            return
        match self._lots.randrange(5):
            case 0 if when is When.BEFORE:
                raise RefusedError("a test refuses it")
            case 1:
                raise UncertainError("a test says nothing of it")
            case 2:
                raise ZeroDivisionError("a test's bug")
            case _:
                await asyncio.sleep(self._lots.uniform(0, 5))

    async def run(self) -> None:
        """Play with faults, then without faults to the end."""
        await self._rig.configure(PARAMETERS)
        for name, roles in JOBS.items():
            await self._submit(name, roles)
        while self._rig.clock.monotonic() < PLAY_S + 54_321:
            await asyncio.sleep(self._lots.uniform(0, 3))
            await self._lots.choice((self._transition, self._transition, self._disturb, self._crash))()
        self._trouble = 0.0
        for migrator in self._migrators:
            migrator.wake()
        self._start_migrator()
        await until(
            lambda: (
                len(self._others.view.jobs) == len(JOBS)
                and all(job.phase is Phase.ENDED for job in self._others.view.jobs)
            ),
            "every job to be over",
            within_s=3_000,
        )

    async def _submit(self, name: str, roles: tuple[c.Role, ...]) -> None:
        steps = str(self._lots.randint(10, 60))
        mode = self._lots.choice(("on-request", "on-request", "on-stop"))
        spec = c.JobSpec(
            command=(PROGRAM, "--steps", steps, "--step-s", "1", "--mode", mode),
            requests=Resources(cpu_m=100),
            roles=roles,
            success=self._lots.choice(list(c.SuccessRule)),
            priority=self._lots.choice((0, 0, 10)),
            retries=50,
        )
        await self._rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))

    async def _transition(self) -> None:
        """Plan something that may be valid when it is folded."""
        job = self._others.view.jobs.get(self._lots.choice(list(JOBS)))
        if job is None or not job.alive:
            return
        kind = self._lots.choice(list(c.Transition))
        nodes, sizes = self._afterwards(job, kind)
        self._plans += 1
        await self._rig.append(
            c.TransitionPlanned(
                plan=f"{kind.value}-{self._plans}",
                job=job.name,
                incarnation=job.incarnation,
                kind=kind,
                sources=job.running_on,
                nodes=nodes,
                sizes=sizes,
                because=c.Because(rule="a test says so"),
            )
        )

    def _afterwards(self, job: Job, kind: c.Transition) -> tuple[tuple[str, ...], tuple[int, ...]]:
        if kind is c.Transition.SUSPEND:
            return (), ()
        sizes = job.running_sizes
        if kind is c.Transition.SCALE and sizes:
            sizes = (*sizes[:-1], self._lots.randint(1, 5))
        return tuple(self._lots.choice(list(NODES)) for _ in range(sum(sizes) or 1)), sizes

    async def _disturb(self) -> None:
        """Kill, pause or wake migrators; often two overlap."""
        migrator = self._lots.choice(self._migrators)
        match self._lots.randrange(4):
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

    async def _crash(self) -> None:
        """A replica dies."""
        name = self._lots.choice(list(JOBS))
        replicas = sum(role.replicas for role in JOBS[name]) or 1
        training = self._rig.nodes.newest(ReplicaId(name, self._lots.randrange(replicas)))
        if training is not None and training.running:
            self._lots.choice((training.kill, training.lose, lambda: training.exit(1)))()


async def play(folder: Path, seed: int, trouble: float) -> None:
    """Play a schedule, and check the final state."""
    async with contextlib.aclosing(Rig(folder, NODES)) as rig:
        await Play(rig, seed, trouble).run()
        view = await rig.view()
        ended = {event.job: event.outcome for event in await rig.of_type(c.JobEnded)}

        assert await rig.broken() == []
        assert ended == dict.fromkeys(JOBS, c.Outcome.FINISHED)
        assert rig.nodes.running() == []
        assert [node for node in view.nodes if node.allocated.cpu_m or node.count] == []
        assert view.in_flight == {}
        assert view.state.gaps == 0


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=4, deadline=None)
def test_every_gang_ends_once_under_any_schedule(seed: int, trouble: float) -> None:
    """After any schedule all jobs have finished, none ran twice at a time, no node held too much, and nothing is held."""
    with tempfile.TemporaryDirectory() as folder:
        run_virtually(play(Path(folder), seed, trouble))
