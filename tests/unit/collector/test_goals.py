"""A job with a goal in a whole system."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.view.state import Phase


async def test_a_job_that_has_reached_its_goal_saves_and_finishes(tmp_path: Path) -> None:
    """In a whole system, from what it prints to its checkpoint."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500})) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "categorizer", "log-collector")
        await rig.configure(PoolParameters(specon=SpeConParameters(interval_ms=2_000)))
        spec = c.JobSpec(
            command=(PROGRAM, "--steps", "500", "--step-s", "1"), requests=Resources(100), goal=c.Goal(below=0.1)
        )
        await rig.append(c.JobSubmitted(job="a", request="r", spec=spec))
        await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].alive)
        training = rig.nodes.newest(ReplicaId("a"))
        assert training is not None
        for number in range(1, 30):
            with rig.nodes.witness.files(training).output.open("a") as output:
                output.write(f"step {number}/500 loss={1 / number}\n")
            await rig.clock.sleep(1)
        await until(lambda: process.view.jobs["a"].phase is Phase.ENDED, within_s=300)
        job = process.view.jobs["a"]

        assert job.outcome is c.Outcome.FINISHED
        assert job.stop_reason.startswith("goal reached: loss < 0.1")
        assert job.checkpoint is not None
        assert (training.step or 0) < 60
        assert await rig.broken() == []
