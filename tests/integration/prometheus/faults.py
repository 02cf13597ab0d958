"""Faults that alerts are about, caused in small systems of their own: real services on nodes in memory, in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count, cycle, pairwise
from typing import Any

from tests.harness import waiting
from tests.harness.system.fake_cluster import FakeCluster, When, refuse
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import AT, POOL, Rig, RigProcess

from steepest.clock import SystemClock
from steepest.collector.heartbeats import HeartbeatSender
from steepest.errors import LogUnavailableError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SteepestParameters
from steepest.events.received import ID, PREVIOUS, DecisionId
from steepest.log.base import NewRecord
from steepest.runtime.decode import new_record
from steepest.runtime.monitoring.probe import Address, probes
from steepest.runtime.service import Service
from steepest.view.state import Job

until = partial(waiting.until, within_s=180.0)
"""A dozen systems share one event loop here, on machines that do other things as well."""

MEASURED = (PROGRAM, "--steps", "150", "--step-s", "0.1", "--burn")
"""A training that is long enough for its pace to be measured: nodes state progress every five seconds."""

JOBS_AT_ONCE = 5

SLOW_S = 5.0
"""How long a slow log takes to give a batch."""


class Scene:
    """A pool of two nodes, and the processes that a fault is caused in."""

    def __init__(self, rig: Rig, stack: ExitStack, group: asyncio.TaskGroup) -> None:
        self.rig = rig
        self._stack = stack
        self._group = group
        self._kept: list[asyncio.Task[None]] = []

    def keep(self, goes_on: Coroutine[Any, Any, None]) -> None:
        """Let a fault go on until the end of the scene."""
        self._kept.append(self._group.create_task(goes_on))

    def end(self) -> None:
        """End what goes on."""
        for task in self._kept:
            task.cancel()

    def watched(self, *services: str | Service) -> tuple[RigProcess, str]:
        """Start a process that is scraped, and give its address."""
        process = self.rig.start(*services)
        at = self._stack.enter_context(probes(process.runtime, Address(0)))
        return process, f"127.0.0.1:{at.port}"

    async def system(self, **parameters: Any) -> tuple[RigProcess, str]:
        """A system in which jobs are placed and moved."""
        await self.rig.configure(PoolParameters(tick_ms=250, moves=False, **parameters))
        process, address = self.watched("worker-monitor", "placer", "migrator", self.rig.beats())
        return process, address

    async def run_job(self, process: RigProcess, job: str, *arguments: str) -> None:
        """Wait until a job trains on ``n1`` and can be moved."""
        await self.rig.submit(job, *(arguments or ("--steps", "1000000", "--step-s", "0.2")), node="n1", cpu_m=10)
        await until(lambda: (found := job_in(process, job)) and found.alive and found.declared_mode, f"{job} to run")

    async def move(self, process: RigProcess, job: str, source: str, target: str, plan: str) -> None:
        """Move a job by the policy that may move it again and again, and wait for the end of that."""
        await self.rig.append(
            c.MigrationPlanned(
                plan=plan,
                job=job,
                incarnation=process.view.jobs[job].incarnation,
                source=source,
                target=target,
                kind=c.MoveKind.STEEPEST,
                because=c.Because(rule="a test says so"),
            )
        )
        await until(lambda: process.view.plan(plan) and not process.view.in_flight, f"{plan} to end")


def job_in(process: RigProcess, job: str) -> Job | None:
    """The job as the process sees it."""
    return process.view.jobs.get(job)


def has_ended(process: RigProcess, job: str) -> bool:
    """Whether the job is over."""
    found = job_in(process, job)
    return found is not None and found.outcome is not None


async def healthy(scene: Scene) -> str:
    """A job runs, and another was moved once: nothing is wrong."""
    process, address = await scene.system(steepest=SteepestParameters(dwell_ms=0))
    await scene.run_job(process, "a")
    await scene.move(process, "a", "n1", "n2", "move-1")
    return address


async def down(scene: Scene) -> str:
    """The process has ended."""
    process = scene.rig.start("placer")
    with probes(process.runtime, Address(0)) as at:
        await process.stop()
    return f"127.0.0.1:{at.port}"


async def loop_stuck(scene: Scene) -> str:
    """A read of the log hangs."""

    async def hang_at_poll(call: str, when: When, _: Sequence[NewRecord]) -> None:
        if call == "poll" and when is When.AFTER:
            await asyncio.Event().wait()

    process, address = scene.watched("rebalancer")
    await until(process.runtime.health.is_ready, "the process to catch up")
    process.log.hook = hang_at_poll
    return address


async def lagging(scene: Scene) -> str:
    """The log gives its records slowly, and there are very many."""

    async def slow_poll(call: str, when: When, _: Sequence[NewRecord]) -> None:
        if call == "poll" and when is When.BEFORE:
            await asyncio.sleep(SLOW_S)

    process, address = scene.watched("rebalancer")
    await until(process.runtime.health.is_ready, "the process to catch up")
    process.log.hook = slow_poll
    await scene.rig.append(*(c.Tick(counted_ms=number) for number in range(1, 20_000)))
    return address


async def log_unavailable(scene: Scene) -> str:
    """The log fails at each read."""

    async def fail(call: str, when: When, _: Sequence[NewRecord]) -> None:
        if call == "poll" and when is When.BEFORE:
            raise LogUnavailableError("a test's log is away")

    process, address = scene.watched("rebalancer")
    await until(process.runtime.health.is_ready, "the process to catch up")
    process.log.hook = fail
    return address


async def records_lost(scene: Scene) -> str:
    """A decision names a predecessor that is not in the log."""
    process, address = scene.watched("rebalancer")
    await until(process.runtime.health.is_ready, "the process to catch up")
    stay = c.StayDecided(job="a", incarnation=1, node="n1", because=c.Because(rule="a test says so"))
    headers = {ID: str(DecisionId("node-scorer", "e", "cluster", 0, 7, 0)), PREVIOUS: "node-scorer/e/cluster/0/6/0"}
    record = new_record(AT, POOL, stay, scene.rig.clock.now_ms())
    await scene.rig.log.append([NewRecord(to=AT, key=POOL, value=record.value, at_ms=record.at_ms, headers=headers)])
    return address


async def dead_letters(scene: Scene) -> str:
    """Records come that are no events."""
    process, address = scene.watched("rebalancer")
    await until(process.runtime.health.is_ready, "the process to catch up")
    numbers = count()

    async def write() -> None:
        while True:
            value = f"no event {next(numbers)}".encode()
            await scene.rig.log.append([NewRecord(to=AT, key=POOL, value=value, at_ms=scene.rig.clock.now_ms())])
            await asyncio.sleep(1)

    scene.keep(write())
    return address


async def node_silent(scene: Scene) -> str:
    """Heartbeats end."""
    await scene.rig.configure(PoolParameters(tick_ms=250, node_lost_ms=1_000))
    process, address = scene.watched("worker-monitor")
    beats = scene.rig.start(scene.rig.beats())
    await until(lambda: len(process.view.nodes) == 2, "both nodes to join")
    beats.kill()
    return address


class HangingCluster(FakeCluster):
    """Nodes that stopped to answer when the adapter was made."""

    hangs_since_s = 0.0

    def silence_s(self) -> float:
        """See ``Cluster.silence_s``."""
        return SystemClock().monotonic() - self.hangs_since_s


async def adapter_silent(scene: Scene) -> str:
    """The adapter gets no answer."""
    cluster = HangingCluster(scene.rig.nodes, POOL, scene.rig.clock)
    cluster.hangs_since_s = scene.rig.clock.monotonic()
    _, address = scene.watched(Service(name="log-collector", effectors=lambda _: (HeartbeatSender(cluster),)))
    return address


async def moves_failing(scene: Scene) -> str:
    """No job can save."""
    process, address = await scene.system(steepest=SteepestParameters(dwell_ms=0))

    async def fail_over_and_over() -> None:
        for number in count():
            job = f"job-{number}"
            await scene.run_job(process, job)
            process.cluster.hook("checkpoint", When.BEFORE, refuse, refuse)
            await scene.move(process, job, "n1", "n2", f"move-{number}")
            await scene.rig.cancel(job)

    scene.keep(fail_over_and_over())
    return address


async def ping_pong(scene: Scene) -> str:
    """A job is moved to and fro."""
    process, address = await scene.system(steepest=SteepestParameters(dwell_ms=0))
    await scene.run_job(process, "a")

    async def move_on() -> None:
        for number, (source, target) in enumerate(pairwise(cycle(("n1", "n2")))):
            await scene.move(process, "a", source, target, f"move-{number}")

    scene.keep(move_on())
    return address


async def mispredicting(scene: Scene) -> str:
    """Jobs announce a hundred times as many steps as they make."""
    process, address = await scene.system()
    spec = c.JobSpec(command=MEASURED, requests=Resources(cpu_m=100), steps=15_000)

    async def announce_wrongly() -> None:
        for number in count():
            jobs = [f"job-{number}-{one}" for one in range(JOBS_AT_ONCE)]
            await scene.rig.append(*(c.JobSubmitted(job=job, request=job, spec=spec) for job in jobs))
            for job in jobs:
                await until(partial(has_ended, process, job), f"{job} to end")

    scene.keep(announce_wrongly())
    return address


async def jobs_without_effect(scene: Scene) -> str:
    """A job is found to hang again and again."""
    process, address = await scene.system()
    await scene.run_job(process, "a")

    async def hang_again() -> None:
        about = {"job": "a", "incarnation": 1, "kind": c.FindingKind.HUNG}
        while True:
            await scene.rig.append(c.FindingOpened(**about, why="no step"), c.FindingEnded(**about, why="a step"))  # type: ignore[arg-type]
            await asyncio.sleep(0.5)

    scene.keep(hang_again())
    return address


FAULTS: Mapping[str, Callable[[Scene], Awaitable[str]]] = {
    "SteepestDown": down,
    "SteepestLoopStuck": loop_stuck,
    "SteepestLagging": lagging,
    "SteepestLogUnavailable": log_unavailable,
    "SteepestRecordsLost": records_lost,
    "SteepestDeadLetters": dead_letters,
    "SteepestNodeSilent": node_silent,
    "SteepestAdapterSilent": adapter_silent,
    "SteepestMovesFailing": moves_failing,
    "SteepestPingPong": ping_pong,
    "SteepestMispredicting": mispredicting,
    "SteepestJobsWithoutEffect": jobs_without_effect,
}
"""Alert to the fault that makes it fire."""
