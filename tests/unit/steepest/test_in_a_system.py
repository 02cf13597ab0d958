"""The policy among the real services, in virtual time: beside gangs and an urgent job, and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig, replayed
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueParameters
from steepest.policies.named import under
from steepest.view.state import Phase

NODES = {"n1": 1000, "n2": 1000}
SERVICES = ("log-collector", "categorizer", "worker-monitor", "placer", "limit-planner", "migrator", "resizer")
SINGLES = {"short": 60, "long": 400, "longer": 500}
GANG = "gang"
URGENT = "urgent"
UNKNOWN = "unknown"


def of_one(steps: int, *, announced: bool = True, **fields: Any) -> c.JobSpec:
    """A job that computes all the time and loses most of its loss in the first tenth of its steps."""
    command = (PROGRAM, "--burn", "--step-s", "0.5", "--steps", str(steps), "--flat-after", str(steps // 10))
    fields = {"requests": Resources(cpu_m=100), **fields}
    return c.JobSpec(command=command, steps=steps if announced else None, **fields)


async def play(rig: Rig) -> None:
    """Submit all jobs and wait for their ends."""
    parameters = msgspec.structs.replace(
        under("steepest", PoolParameters()),
        queueing=QueueParameters(policy="priority", preempt=True),
        preemption=PreemptionLimits(min_run_ms=5_000),
    )
    process = rig.start(*SERVICES)
    await rig.configure(parameters)
    specs = {name: of_one(steps, first_node="n1") for name, steps in SINGLES.items()}
    specs[UNKNOWN] = of_one(100, announced=False, first_node="n1")
    specs[GANG] = msgspec.structs.replace(of_one(100, first_node="n2"), replicas=2)
    for name, spec in specs.items():
        await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))
    await until(lambda: len(process.view.jobs) == len(specs), within_s=120)
    await until(lambda: any(job.limit is not None for job in process.view.jobs), "a limit", within_s=300)
    urgent = of_one(20, requests=Resources(cpu_m=850), priority=1_000)
    await rig.append(c.JobSubmitted(job=URGENT, request="submit-urgent", spec=urgent))
    await until(lambda: URGENT in process.view.jobs, within_s=120)
    await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=20_000)
    await process.stop()


def test_the_policy_beside_gangs_and_an_urgent_job(tmp_path: Path) -> None:
    """Jobs of one replica and known size are limited and moved. What is suspended for the urgent job is managed afterwards.

    A gang is limited, and stays where it is, as does a job of unknown size. All finish, and the log replays to the same
    decisions.
    """
    log, broken, differences = run_virtually(replayed(tmp_path, NODES, play, "steepest-planner"))
    events = [received.event for received in log]
    limited = {limit.job for event in events if isinstance(event, c.LimitsPlanned) for limit in event.limits}
    moved = {event.job for event in events if isinstance(event, c.MigrationPlanned)}
    suspended = [event.job for event in events if isinstance(event, c.JobSuspended)]
    ended = {event.job: event.outcome for event in events if isinstance(event, c.JobEnded)}

    assert broken == []
    assert differences == 0
    assert ended == dict.fromkeys((*SINGLES, UNKNOWN, GANG, URGENT), c.Outcome.FINISHED)
    assert moved
    assert moved <= {*SINGLES, URGENT}
    assert limited >= {*SINGLES, GANG}
    assert suspended
    for job in set(suspended) - {GANG}:
        resumed = max(at for at, event in enumerate(events) if isinstance(event, c.JobPlaced) and event.job == job)
        assert any(isinstance(event, c.LimitsPlanned) and event.because.standing for event in events[resumed:])
