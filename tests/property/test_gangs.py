"""Gangs under any faults: whole or not at all, each ends once, and every reservation is released.

Gangs that each need more than half of the pool, elastic ones and jobs of one replica, of different priorities; plans that
suspend, scale and move them, and let surplus replicas leave; replicas that crash, under troubled migrators.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.harness.system.fake_training import PROGRAM
from tests.harness.troubled_play import LIMITS, Act, TroubledPlay, played
from tests.harness.virtual_time import run_virtually

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueParameters
from steepest.view.state import Job


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


class Gangs(TroubledPlay):
    """Gangs that are suspended, scaled and moved, and lose replicas."""

    nodes = {"n1": 400, "n2": 400, "n3": 200}  # noqa: RUF012 - a constant of the class
    jobs = tuple(JOBS)
    parameters = PoolParameters(
        limits=LIMITS,
        retry_hold_ms=100,
        queueing=QueueParameters(policy="priority", preempt=True),
        preemption=PreemptionLimits(min_run_ms=5_000, max_suspensions=3),
    )
    play_s = 90
    patience_s = 3_000
    pause_s = 3

    async def _submit(self) -> None:
        for name, roles in JOBS.items():
            steps = str(self._rng.randint(10, 60))
            mode = self._rng.choice(("on-request", "on-request", "on-stop"))
            success = self._rng.choice(list(c.SuccessRule))
            if success is c.SuccessRule.CHIEF:
                roles = tuple(msgspec.structs.replace(role, may_leave=True) for role in roles)  # noqa: PLW2901
            spec = c.JobSpec(
                command=(PROGRAM, "--steps", steps, "--step-s", "1", "--mode", mode),
                requests=Resources(cpu_m=100),
                roles=roles,
                success=success,
                priority=self._rng.choice((0, 0, 10)),
                retries=50,
            )
            await self._rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))

    def _acts(self) -> Sequence[Act]:
        return (self._transition, self._transition, self._crash_one)

    async def _transition(self) -> None:
        """Plan something that may be valid when it is folded."""
        job = self._others.view.jobs.get(self._rng.choice(self.jobs))
        if job is None or not job.alive:
            return
        kind = self._rng.choice(list(c.Transition))
        nodes, sizes, leaving = self._afterwards(job, kind)
        await self._rig.append(
            c.TransitionPlanned(
                plan=self._next_plan(kind.value),
                job=job.name,
                incarnation=job.incarnation,
                kind=kind,
                sources=job.running_on,
                nodes=nodes,
                sizes=sizes,
                leaving=leaving,
                because=c.Because(rule="a test says so"),
            )
        )

    def _afterwards(self, job: Job, kind: c.Transition) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
        if kind is c.Transition.SUSPEND:
            return (), (), ()
        sizes = job.running_sizes
        if kind is c.Transition.SHED:
            running = [index for index, replica in enumerate(job.replicas) if replica.alive]
            leaving = tuple(index for index in running if index and self._rng.random() < 0.5)
            stay = [job.replicas[index] for index in running if index not in leaving]
            counts = tuple(sum(one.role == role for one in stay) for role in range(len(job.spec.all_roles)))
            return tuple(one.node for one in stay), counts, leaving
        if kind is c.Transition.SCALE and sizes:
            sizes = (*sizes[:-1], self._rng.randint(1, 5))
        return tuple(self._rng.choice(list(self.nodes)) for _ in range(sum(sizes) or 1)), sizes, ()

    async def _crash_one(self) -> None:
        """A replica dies."""
        name = self._rng.choice(self.jobs)
        replicas = sum(role.replicas for role in JOBS[name]) or 1
        self._crash(name, self._rng.randrange(replicas))


async def play(folder: Path, seed: int, trouble: float) -> None:
    """Play a schedule; no job is cancelled, so all have finished."""
    async with played(Gangs, folder, seed, trouble) as (_, ended):
        assert set(ended.values()) == {c.Outcome.FINISHED}


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=4, deadline=None)
def test_every_gang_ends_once_under_any_schedule(seed: int, trouble: float) -> None:
    """After any schedule all jobs have finished, none ran twice at a time, no node held too much, and nothing is held."""
    with tempfile.TemporaryDirectory() as folder:
        run_virtually(play(Path(folder), seed, trouble))
