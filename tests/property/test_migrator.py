"""Under any faults of migrators and their calls, every job ends once, and every reservation is released.

Several jobs on three nodes, moves between them, cancels, and processes that crash, under troubled migrators.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.harness.examples import scaled
from tests.harness.troubled_play import LIMITS, Act, TroubledPlay, played
from tests.harness.virtual_time import run_virtually

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of warnings, all of them wanted."""
    with capture_logs():
        yield


class Moves(TroubledPlay):
    """Jobs of one replica that are moved, crash, and now and then are cancelled."""

    nodes = {"n1": 300, "n2": 300, "n3": 200}  # noqa: RUF012 - a constant of the class
    jobs = ("a", "b", "c", "d")
    parameters = PoolParameters(limits=LIMITS, retry_hold_ms=100)
    play_s = 60
    patience_s = 1_200
    pause_s = 2

    async def _submit(self) -> None:
        for job in self.jobs:
            mode = self._rng.choice(("on-request", "on-request", "on-stop"))
            steps = str(self._rng.randint(10, 60))
            await self._rig.submit(job, "--steps", steps, "--step-s", "1", "--mode", mode, retries=20)

    def _acts(self) -> Sequence[Act]:
        return (self._move, self._move, self._move, self._cross)

    async def _move(self) -> None:
        """Plan a move that may be valid when it is folded."""
        job = self._others.view.jobs.get(self._rng.choice(self.jobs))
        if job is None or job.node is None:
            return
        target, plan = self._rng.choice(list(self.nodes)), self._next_plan("move")
        await self._rig.migrate(job.name, job.node, target, plan=plan, incarnation=job.incarnation)

    async def _cross(self) -> None:
        """Cancel a job, or let its process crash."""
        job = self._rng.choice(self.jobs)
        if self._rng.random() < 0.2:
            await self._rig.cancel(job)
        else:
            self._crash(job, 0)


async def play(folder: Path, seed: int, trouble: float) -> None:
    """Play a schedule; a job has finished on the nodes if it has on the log."""
    async with played(Moves, folder, seed, trouble) as (rig, ended):
        for job, outcome in ended.items():
            assert rig.nodes.finished(job) == (outcome is c.Outcome.FINISHED), job


@given(seed=st.integers(0, 2**32), trouble=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=scaled(12), deadline=None)
def test_every_job_ends_once_under_any_schedule(seed: int, trouble: float) -> None:
    """After any schedule all jobs are over, none ran twice at a time, no node held too much, and nothing is held."""
    with tempfile.TemporaryDirectory() as folder:
        run_virtually(play(Path(folder), seed, trouble))
