"""Gangs on devices among the real services, in virtual time: suspended for shorter ones, resumed, and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig, replayed
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.policies.named import under
from steepest.view.state import Phase

NODES: Mapping[str, int | Resources] = {"n1": Resources(cpu_m=1_000, gpus=2), "n2": Resources(cpu_m=1_000, gpus=2)}
SERVICES = ("log-collector", "categorizer", "worker-monitor", "placer", "limit-planner", "migrator", "resizer")
GANGS = {"teacher": (4, 120), "long": (4, 2_000), "wide": (4, 300), "short": (2, 120)}
PLAIN = "plain"


def gang(replicas: int, steps: int) -> c.JobSpec:
    """Replicas of a GPU each, with half a second a step, that report their losses and the total of their steps."""
    command = (PROGRAM, "--step-s", "0.5", "--steps", str(steps), "--flat-after", str(steps // 10))
    return c.JobSpec(command=command, replicas=replicas, requests=Resources(cpu_m=100, gpus=1), model="net")


async def play(rig: Rig) -> None:
    """Submit the gangs one after another, and a job without devices, and wait for their ends."""
    parameters = under("steepest", PoolParameters())
    parameters = msgspec.structs.replace(parameters, preemption=PreemptionLimits(min_run_ms=10_000, max_suspensions=9))
    process = rig.start(*SERVICES)
    await rig.configure(parameters)

    def is_there(name: str) -> bool:
        return name in process.view.jobs

    for name, (replicas, steps) in GANGS.items():
        await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=gang(replicas, steps)))
        await until(partial(is_there, name), within_s=120)
        if name == "teacher":
            await until(lambda: process.view.jobs["teacher"].phase is Phase.ENDED, "the first end", within_s=600)
        if name == "long":
            await until(lambda: (process.view.jobs["long"].progress.step or 0) >= 40, "a known pace", within_s=600)
    plain = c.JobSpec(command=(PROGRAM, "--step-s", "0.5", "--steps", "60"), requests=Resources(cpu_m=100))
    await rig.append(c.JobSubmitted(job=PLAIN, request=f"submit-{PLAIN}", spec=plain))
    await until(lambda: len(process.view.jobs) == len(GANGS) + 1, within_s=120)
    await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=20_000)
    await process.stop()


def test_gangs_on_devices(tmp_path: Path) -> None:
    """The long gang gives way to shorter ones, resumes without losing a step, and all finish.

    The log has a promise to each, breaks no invariant, and replays to the same decisions.
    """
    log, broken, differences = run_virtually(replayed(tmp_path, NODES, play, "device-planner"))
    events = [received.event for received in log]
    suspended = [event for event in events if isinstance(event, c.JobSuspended)]
    ended = {event.job: event.outcome for event in events if isinstance(event, c.JobEnded)}

    assert broken == []
    assert differences == 0
    assert ended == dict.fromkeys((*GANGS, PLAIN), c.Outcome.FINISHED)
    assert "long" in {event.job for event in suspended}
    assert {event.job for event in events if isinstance(event, c.PromiseRevised)} >= {"long", "wide", "short"}
    assert not any(event.steps_lost for event in suspended)
