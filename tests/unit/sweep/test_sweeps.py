"""A sweep in a whole system, in virtual time: from what its trials print to who goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig, replayed
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until
from tests.unit.steepest.test_in_a_system import SERVICES

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.requests import Rungs
from steepest.policies.named import under
from steepest.view.state import Phase

TRIALS, STEPS = 9, 360
NODES: dict[str, int | Resources] = {"CPU": 300, "GPUs": Resources(cpu_m=1_000, gpus=3)}
"""Room for three trials."""

REQUESTS = {"CPU": Resources(cpu_m=100), "GPUs": Resources(cpu_m=100, gpus=1)}


def trial(number: int, requests: Resources) -> c.JobSpec:
    """A training whose loss falls the sooner the smaller its number is, and whose steps take half a second."""
    command = (PROGRAM, "--burn", "--step-s", "0.5", "--steps", str(STEPS), "--flat-after", str(400 + 100 * number))
    return c.JobSpec(command=command, requests=requests, steps=STEPS, array="t", rungs=Rungs(first=40, factor=3))


async def play(requests: Resources, rig: Rig) -> None:
    """Submit the worst trials first, and wait for their ends."""
    process = rig.start(*SERVICES)
    await rig.configure(under("steepest", PoolParameters()))
    for number in reversed(range(TRIALS)):
        await rig.append(c.JobSubmitted(job=f"t-{number}", request=f"submit-{number}", spec=trial(number, requests)))
    await until(lambda: len(process.view.jobs) == TRIALS, within_s=120)
    await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=20_000)
    await process.stop()


@pytest.mark.parametrize("of", ["CPU", "GPUs"])
def test_the_best_of_nine_trainings_is_found(tmp_path: Path, of: str) -> None:
    """The others make a ninth or a third of their steps, no step is lost, and the log replays to the same decisions."""
    log, broken, differences = run_virtually(
        replayed(tmp_path, {"n1": NODES[of]}, partial(play, REQUESTS[of]), "trial-judge")
    )
    events = [received.event for received in log]
    ended = {event.job: event.outcome for event in events if isinstance(event, c.JobEnded)}
    reached: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, c.RungReached):
            reached.setdefault(event.rung, []).append(event.job)

    assert (broken, differences) == ([], 0)
    assert {job for job, outcome in ended.items() if outcome is c.Outcome.FINISHED} == {"t-0"}
    assert {outcome for job, outcome in ended.items() if job != "t-0"} == {c.Outcome.CANCELLED}
    assert len(reached[0]) == TRIALS
    assert len(reached[1]) < TRIALS
    assert reached[2] == ["t-0"]
    assert sum(event.steps_lost for event in events if isinstance(event, c.JobSuspended)) == 0
