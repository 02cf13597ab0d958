"""Limits of queues among the real services, in virtual time: urgent jobs, gangs, limits that change; and replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueLimits, QueueParameters, SpeConParameters
from steepest.events.received import Received
from steepest.replay.replay import Replay
from steepest.view.state import Phase, PlanStatus

NODES = {"n1": 1000, "n2": 1000}
SERVICES = ("log-collector", "categorizer", "worker-monitor", "placer", "migrator")
ABOVE = "above"
LATE = "late"


def configured(cpu_m: int) -> PoolParameters:
    """The queue ``paper`` may hold that much CPU, and ``course`` two replicas."""
    limits = (QueueLimits(queue="paper", cpu_m=cpu_m), QueueLimits(queue="course", replicas=2))
    return PoolParameters(
        queueing=QueueParameters(policy="priority", preempt=True, limits=limits),
        preemption=PreemptionLimits(min_run_ms=5_000),
        specon=SpeConParameters(interval_ms=5_000),
        moves=False,
    )


def of(cpu_m: int, steps: int, queue: str = "default", **fields: Any) -> c.JobSpec:
    """A job with steps of half a second."""
    command = (PROGRAM, "--step-s", "0.5", "--steps", str(steps), "--flat-after", str(steps))
    return c.JobSpec(command=command, requests=Resources(cpu_m=cpu_m), queue=queue, **fields)


CREW = c.Role(name="worker", replicas=4, min=1, requests=Resources(cpu_m=100))
FILLING = {
    "fixed": of(100, 200, first_node="n1", checkpoint_mode=CheckpointMode.NONE),
    "low": of(900, 100, first_node="n1"),
    "filler": of(400, 150, first_node="n2", checkpoint_mode=CheckpointMode.NONE),
    "first": of(600, 60, "paper", first_node="n2", priority=9),
}
LATER = {
    ABOVE: of(1200, 1, "paper"),
    "pinned": of(1000, 1, first_node="n1", priority=9),
    "urgent": of(400, 20, "paper", priority=8),
    LATE: of(100, 10, "paper", priority=8),
    "crew": of(100, 20, "course", priority=7, roles=(CREW,)),
}


async def play(rig: Rig) -> None:
    """Submit all jobs, let a limit change, plan something against it by hand, and wait for their ends."""
    process = rig.start(*SERVICES)
    await rig.configure(configured(1_000))

    async def submit(specs: dict[str, c.JobSpec]) -> None:
        for name, spec in specs.items():
            await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))

    await submit(FILLING)
    await until(lambda: sum(job.alive for job in process.view.jobs) == len(FILLING), within_s=60)
    await submit(LATER)
    await until(lambda: LATE in process.view.jobs and process.view.jobs["urgent"].plan is not None, within_s=60)
    by_hand = c.PlacementPlanned(
        plan="by-hand", job=LATE, incarnation=0, nodes=("n2",), because=c.Because(rule="a test")
    )
    await rig.append(by_hand)
    await until(lambda: process.view.jobs["urgent"].alive, within_s=120)
    await rig.configure(configured(300))
    await until(lambda: process.view.jobs["first"].phase is Phase.ENDED, within_s=300)
    await rig.configure(configured(1_000))
    await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=2_000)
    assert process.view.state.plans["by-hand"].status is PlanStatus.VOID
    await process.stop()


async def played(folder: Path) -> tuple[list[Received[Any]], Sequence[str], int]:
    """The log of all jobs to their ends, what is broken, and how many decisions replay differently."""
    async with contextlib.aclosing(Rig(folder, NODES)) as rig:
        await play(rig)
        report = await Replay(rig.log).run()
        return await rig.events(), await rig.broken(), report.differences


def test_limits_hold_beside_preemption_and_changes(tmp_path: Path) -> None:
    """A job above its limit is rejected; one that no suspension helps stops nobody; a gang gets what its limit leaves."""
    log, broken, differences = run_virtually(played(tmp_path))
    events = [received.event for received in log]
    ended = {event.job: event.outcome for event in events if isinstance(event, c.JobEnded)}
    rejected = {event.job: event.reason for event in events if isinstance(event, c.JobRejected)}
    placed = [event for event in events if isinstance(event, c.JobPlaced)]
    suspended = [(event.job, event.room_for) for event in events if isinstance(event, c.TransitionPlanned)]

    assert broken == []
    assert differences == 0
    assert rejected == {ABOVE: "it asks for at least 1200m CPU, and queue paper may hold 1000m CPU"}
    assert ended == dict.fromkeys({**FILLING, **LATER}.keys() - {ABOVE}, c.Outcome.FINISHED)
    assert suspended[0] == ("low", "urgent")
    assert next(event.sizes for event in placed if event.job == "crew") == (2,)
    assert [event.job for event in placed].index(LATE) > [event.job for event in placed].index("urgent")
