"""A real system with gangs: what tests ask of it, and what they read of a gang's replicas."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.harness.system.running_system import PATIENCE_S, RunningSystem
from tests.harness.waiting import until

from steepest.app.settings.reading import read_settings
from steepest.cli.pool.user_requests import asking, until_configured
from steepest.clock import SystemClock
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.runtime.decode import asked_record
from steepest.view.cluster_view import ClusterView

PYTHON = sys.executable
SEED = ("--seed", "4")
ALONE = (PYTHON, "-m", "steepest_lab.jobs.gangs.parameter_server", *SEED)
"""The training of a gang in one process."""

SERVER = (PYTHON, str(Path(__file__).with_name("paced_gang.py")), *SEED)
REPLICA = Resources(cpu_m=100)


def server_and_workers(steps: int, workers: int, *, least: int = 1, asynchronous: bool = False) -> c.JobSpec:
    """A parameter server and its workers."""
    return c.JobSpec(
        command=(*SERVER, "--steps", str(steps), *(["--asynchronous"] if asynchronous else [])),
        roles=(
            c.Role(name="ps", requests=REPLICA),
            c.Role(name="worker", replicas=workers, min=least, max=4, requests=REPLICA, may_leave=asynchronous),
        ),
        success=c.SuccessRule.CHIEF if asynchronous else c.SuccessRule.ALL,
    )


def append(system: RunningSystem, *events: c.ClusterEvent) -> None:
    """Put events on the pool's log, one right after the other, as a user or a decider would."""

    async def put() -> None:
        settings = read_settings({"state_dir": system.state})
        async with asking(settings) as (log, pool):
            await until_configured(settings, log, pool)
            now_ms = SystemClock().now_ms()
            await log.append([asked_record(pool.at, pool.name, event, now_ms) for event in events])

    asyncio.run(put())


def submit(system: RunningSystem, job: str, spec: c.JobSpec) -> None:
    """Submit a job."""
    append(system, c.JobSubmitted(job=job, request=f"submit-{job}", spec=spec))


def view_of(system: RunningSystem) -> ClusterView:
    """The pool as its log has it."""
    view = ClusterView()
    for received in system.events():
        view.fold(received)
    return view


def transition(
    system: RunningSystem,
    job: str,
    plan: str,
    kind: c.Transition,
    *,
    nodes: Sequence[str],
    sizes: tuple[int, ...] = (),
    leaving: tuple[int, ...] = (),
) -> c.TransitionPlanned:
    """A plan that brings a job from where it is to other nodes."""
    state = view_of(system).jobs[job]
    return c.TransitionPlanned(
        plan=plan,
        job=job,
        incarnation=state.incarnation,
        kind=kind,
        sources=tuple(state.running_on),
        nodes=tuple(nodes),
        sizes=sizes,
        leaving=leaving,
        because=c.Because(rule="a test asks for it"),
    )


def incarnation(system: RunningSystem, job: str, replica: int, number: int) -> IncarnationFolder:
    """The files of a replica."""
    return AdapterFolder(system.state / "cluster").incarnation(ReplicaId(job, replica), number)


def reports(system: RunningSystem, job: str, number: int, replica: int = 0) -> list[dict[str, Any]]:
    """What a replica's incarnation has reported."""
    path = incarnation(system, job, replica, number).reports
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def await_steps(system: RunningSystem, job: str, number: int, count: int, replica: int = 0) -> None:
    """Wait until a replica's incarnation has reported so many steps; a failure says what the gang did instead."""
    try:
        wait_for(lambda: len(reports(system, job, number, replica)) >= count)
    except AssertionError as error:
        error.add_note(f"replica {replica} of incarnation {number} has not reported {count} steps")
        error.add_note(history(system, job))
        raise


def history(system: RunningSystem, job: str) -> str:
    """What the log says of a job, and the end of what each of its processes has printed."""
    lines = [str(found.event) for found in system.events() if getattr(found.event, "job", None) == job]
    folder = AdapterFolder(system.state / "cluster")
    for replica in folder.replicas(job):
        for ran in folder.incarnations(replica):
            printed = ran.output.read_text()[-1000:] if ran.output.exists() else ""
            lines.append(f"{ran}: {ran.started()}, {printed}")
    return "\n".join(lines)


def wait_for(condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    asyncio.run(until(condition, within_s=within_s))


def pid_of(system: RunningSystem, job: str, replica: int, number: int) -> int:
    """The process of a replica."""
    started = incarnation(system, job, replica, number).started()
    assert started is not None
    return started.pid


def losses(system: RunningSystem, job: str, numbers: Sequence[int]) -> dict[int, float]:
    """The chief's loss of each step over some incarnations."""
    return {report["step"]: report["metrics"]["loss"] for number in numbers for report in reports(system, job, number)}
