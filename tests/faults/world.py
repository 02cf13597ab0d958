"""A world: one installation in virtual time, to which a schedule happens; then it is healed, and judged.

It owns the order: begin, let the actions happen, heal, wait until everything is over, stop. What an action does is in
:mod:`tests.faults.actions`, what must hold in :mod:`tests.faults.judge`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from unittest import mock

import msgspec
import structlog
from tests.faults.doors import Broker
from tests.faults.groups import Group
from tests.faults.loop import run_seeded
from tests.faults.processes import SHARING, TOPOLOGIES, Process, Site
from tests.faults.reports import Reported
from tests.faults.schedule import ENDLESS_STEPS, Action, Schedule
from tests.harness.memory_log import MemoryLog
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.virtual_time import VirtualClock

from steepest.errors import UndecodableError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import (
    MoveLimits,
    PoolParameters,
    PreemptionLimits,
    QueueLimits,
    QueueParameters,
    SpeConParameters,
)
from steepest.events.received import Received
from steepest.log.base import NewRecord, Record
from steepest.policies.named import under
from steepest.runtime import pool_loop, stream_loop
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

PATIENCE_S = 900.0
"""Virtual seconds in which everything is over once nothing disturbs it any more."""

POOL_RECORDS = 3
"""Records of a pool for each of another topic's partitions: their loops keep snapshots about as often."""

IDLE = "nothing under way"
"""Stands for a step in the table of what was struck, where no plan was in flight."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a schedule.

    Attributes:
        broken: What does not hold; empty where all does.
        struck: How often each kind of fault struck while each step of each kind of plan was under way.
        faults: How many faults have struck.
        records: Records in the pools' logs.
        took_s: Virtual seconds.
        digest: Of all records: the same schedule has the same.
        judged: What was judged of it, of that which is not judged of every world.
    """

    broken: tuple[str, ...]
    struck: Mapping[tuple[str, str], int]
    faults: int
    records: int
    took_s: float
    digest: str
    judged: tuple[str, ...] = ()


class World:
    """One installation.

    Attributes:
        processes: By name.
        is_trimmed: Whether the log lacks its first records.
        trimming: Operators who remove them now.
        complaints: What no process may do and one did.
        wishes: Numbers of plans that operators make.
        refuted: Records that say that a START definitely had no effect: whether what it began ran as the first one came.
    """

    def __init__(self, schedule: Schedule) -> None:
        """Make it within a running loop; nothing runs yet."""
        self.schedule = schedule
        self.clock = VirtualClock()
        self.layout = Layout(pools=tuple(schedule.world.get("pools", "default").split(",")), loss_partitions=2)
        self.broker = Broker(MemoryLog(self.layout.partitions()), schedule.seed)
        self.broker.appended = self._note_steps
        self.nodes = {pool: self._nodes_of(pool) for pool in self.layout.pools}
        self.silent: dict[str, object] = {}
        self.is_trimmed = False
        self.trimming = 0
        self.struck: Counter[tuple[str, str]] = Counter()
        self.faults = 0
        self.complaints: list[str] = []
        self.wishes = itertools.count(1)
        self.submitted: dict[str, dict[str, None]] = {pool: {} for pool in self.layout.pools}
        self.healed = False
        name = schedule.world.get("topology", "split")
        self._groups: dict[str, Group] | None = {} if name == SHARING else None
        site = Site(
            broker=self.broker,
            layout=self.layout,
            nodes=self.nodes,
            silent=self.silent,
            has_agents=schedule.world.get("agents") == "each",
            struck=self.note_strike,
            complain=self.complain,
            under_way=self.under_way,
            groups=self._groups,
        )
        topology = TOPOLOGIES[name]
        self.processes = {name: Process(name, services, site) for name, services in topology.items()}
        self._begin_s = self.clock.monotonic()
        self._at_points: dict[tuple[str, int], list[Action]] = {}
        self._points: Counter[str] = Counter()
        self._plans: dict[str, str] = {}
        self._begun: dict[tuple[str, str], int] = {}
        self.refuted: dict[bytes, bool] = {}
        self._doing: dict[asyncio.Task[Any], bool] = {}
        self._reached: dict[str, list[asyncio.Future[str]]] = {}

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock.monotonic() - self._begin_s

    def complain(self, what: str) -> None:
        """Note what no process may do."""
        self.complaints.append(f"{what} (at {self.now_s:.3f} s)")

    @property
    def needs_snapshots(self) -> bool:
        """Whether no process can do without its own."""
        return self.is_trimmed or self.trimming > 0

    async def lose_power(self, least: int, most: int) -> None:
        """All machines stop, and the newest records are lost; what was submitted in them was never submitted.

        None are lost of a trimmed log: what an operator removes is days old, and the snapshots before the loss are kept.
        """
        for process in self.processes.values():
            process.kill()
            process.lose_power()
        lost = await self.broker.lose_tail(*((0, 0) if self.needs_snapshots else (least, most)))
        for one in readable(record for record in lost if record.at.topic == "cluster"):
            if isinstance(one.event, c.JobSubmitted):
                self.submitted[self.layout.pools[one.partition]].pop(one.event.job, None)

    def views(self) -> Mapping[str, ClusterView]:
        """Each pool as the process that knows most of it sees it."""
        found: dict[str, ClusterView] = {}
        for process in self.processes.values():
            for pool, view in process.views.items():
                if pool not in found or view.position > found[pool].position:
                    found[pool] = view
        return found

    async def configured(self, pool: str) -> c.PoolConfigured:
        """A pool's parameters as its log says them: a process that has just been started may know none."""
        for event in await self._newest_first(pool):
            if isinstance(event, c.PoolConfigured):
                return event
        raise LookupError(pool)

    async def _newest_first(self, pool: str) -> Iterator[Any]:
        """The events of a pool's log, the newest first, those that were trimmed as well."""
        log = await self.broker.recording()
        return (one.event for one in readable(reversed(log._kept.partitions[self.layout.of_pool(pool)].records)))

    def note_strike(self, kind: str) -> None:
        """A fault strikes now: note what is under way."""
        self.faults += 1
        for step in self.under_way() or (IDLE,):
            self.struck[kind, step] += 1
        task = asyncio.current_task()
        if task in self._doing:
            self._doing[task] = True

    def under_way(self) -> Sequence[str]:
        """The steps at which plans stand, as the process that knows most sees it."""
        steps = {
            f"{plan.kind.value}.{plan.steps[0].value}" if plan.steps else f"{plan.kind.value}.end": None
            for view in self.views().values()
            for plan in view.in_flight.values()
        }
        return tuple(steps)

    def has_struck(self) -> bool:
        """Whether the action that asks has done something."""
        task = asyncio.current_task()
        return task is not None and self._doing[task]

    async def reached(self, point: str) -> str:
        """Wait until a plan comes there; return the job that it is about."""
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reached.setdefault(point, []).append(waiter)
        return await waiter

    async def recreate(self, topic: str) -> None:
        """An operator deletes a topic and creates it again, and empties the services' state folders, as they ask for."""
        for process in self.processes.values():
            process.kill()
            process.forget()
        for at in self.layout.of_topic(topic):
            self.broker.empty(at)
        await self._name(topic, f"{self.schedule.seed:08x}-{round(self.now_s * 1000)}")

    async def append(self, pool: str, *events: c.ClusterEvent) -> None:
        """Append events, as a user or an operator does."""
        await self.broker.answers()
        at = self.layout.of_pool(pool)
        await self.broker.append([new_record(at, pool, event, self.clock.now_ms()) for event in events])

    # --- from beginning to end ---------------------------------------------------------------------------------------

    async def play(self, do: Actions) -> None:
        """Begin, let everything happen, heal, and wait until all is over."""
        await self._open()
        for process in self.processes.values():
            process.start()
        loop, begin_s, last_s = asyncio.get_running_loop(), self.clock.monotonic(), 1.0
        for action in self.schedule.actions:
            if action.when.nth:
                self._at_points.setdefault((action.when.point, action.when.nth), []).append(action)
            else:
                from_s = action.when.from_s if action.when.point else action.when.at_s
                last_s = max(last_s, from_s)
                loop.call_at(begin_s + from_s, self._do, do, action)
        self._actions = do
        await asyncio.sleep(last_s + float(self.schedule.world.get("more", "3")))
        await self._heal()
        await self._until_over()

    async def stop(self) -> None:
        """Stop all processes as an operator does: who writes ends first, so that the others read all that it has written."""
        for process in sorted(self.processes.values(), key=lambda one: "worker-monitor" not in one.services):
            await process.stop()
            await asyncio.sleep(1.0)

    async def close(self) -> None:
        """Leave nothing behind."""
        for task in self._doing:
            task.cancel()
        await asyncio.gather(*self._doing, return_exceptions=True)
        for process in self.processes.values():
            await process.close()
        for group in (self._groups or {}).values():
            await group.close()
        for nodes in self.nodes.values():
            nodes.end_all()

    async def _open(self) -> None:
        for topic in self.layout.partitions():
            await self._name(topic, f"{self.schedule.seed:08x}")
        given = parameters(self.schedule.world)
        for pool in self.layout.pools:
            await self.append(pool, c.PoolConfigured(parameters=given))

    async def _name(self, topic: str, epoch: str) -> None:
        """Give every partition of a topic its identity."""
        opened = c.LogOpened(epoch=epoch)
        await self.broker.log.append(
            [new_record(at, "", opened, self.clock.now_ms()) for at in self.layout.of_topic(topic)]
        )

    async def _heal(self) -> None:
        """Nothing is disturbed from now on: everything runs, answers, and is reached."""
        self.healed = True
        self.broker.heal()
        self.silent.clear()
        for nodes in self.nodes.values():
            for node in nodes.nodes:
                nodes.repair(node)
        for process in self.processes.values():
            process.heal()
        await self._cancel_endless()

    async def _cancel_endless(self) -> None:
        """Users ask once more for the end of jobs that have none, if the request was lost, or came before the job."""
        for action in self.schedule.actions:
            if action.verb != "submit" or action.number("steps", 0) < ENDLESS_STEPS:
                continue
            pool, job = action.options.get("pool", self.layout.pools[0]), action.about
            # A submission may still be on its way to a broker that was stuck; time is virtual.
            while (newest := await self._newest_wish(pool, job)) is None and job in self.submitted[pool]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            if newest is c.JobSubmitted:
                await self.append(pool, c.JobCancelRequested(job=job, request=f"cancel-{job}-again"))

    async def _newest_wish(self, pool: str, job: str) -> type | None:
        """What a user asked for last about a job: its start, or its end; None where the log has neither."""
        for event in await self._newest_first(pool):
            if isinstance(event, c.JobCancelRequested | c.JobSubmitted) and event.job == job:
                return type(event)
        return None

    async def _until_over(self) -> None:
        until_s = self.clock.monotonic() + PATIENCE_S
        while why := self._not_over():
            if self.clock.monotonic() > until_s:
                self.complain(f"not over {PATIENCE_S:g} s after the last fault: {why}")
                return
            await asyncio.sleep(1.0)
        await asyncio.sleep(1.0)
        while not await self._is_read() and self.clock.monotonic() < until_s:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.5)

    async def _is_read(self) -> bool:
        """Whether every process has read its pools to their present ends; of replicas that share, one of them."""
        for pool in self.layout.pools:
            read = [process.views[pool].position for process in self.processes.values() if pool in process.views]
            furthest = min(read) if self._groups is None else max(read)
            if furthest < await self.broker.log.end(self.layout.of_pool(pool)):
                return False
        return True

    def _not_over(self) -> str:
        """What has not come to its end; empty when all has."""
        if waiting := [one.name for one in self.processes.values() if not one.runtime.health.is_ready()]:
            return f"{waiting[0]} is not ready"
        for pool, view in self.views().items():
            known = {job.name for job in view.jobs}
            if missing := [job for job in self.submitted[pool] if job not in known]:
                return f"{missing[0]} is not known"
            if left := [job for job in view.jobs if job.phase is not Phase.ENDED]:
                return f"{len(left)} jobs, {left[0].name} is {left[0].phase.value}"
            if view.in_flight:
                return f"{next(iter(view.in_flight))} is in flight"
        return ""

    # --- what happens when -------------------------------------------------------------------------------------------

    def _do(self, do: Actions, action: Action) -> None:
        if self.healed:
            return
        task = asyncio.ensure_future(do(self, action))
        self._doing[task] = False
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._doing[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.complain(f"an action failed: {error!r}")

    def _note_steps(self, records: Sequence[NewRecord]) -> None:
        """Count the beginnings of steps, and do what waits for one."""
        for record in records:
            if record.to.topic != "cluster" or self.healed:
                continue
            try:
                head = msgspec.json.decode(record.value, type=_Head)
            except msgspec.DecodeError:
                continue
            match head.type:
                case "PlacementPlanned":
                    self._plans[head.plan] = "place"
                case "MigrationPlanned":
                    self._plans[head.plan] = "migrate"
                case "TransitionPlanned":
                    self._plans[head.plan] = head.kind
                case "StepBegun":
                    self._begun[head.plan, head.step] = head.incarnation
                    self._reach(f"{self._kind_of(head.plan)}.{head.step}", head.job)
                case "StepFailed":
                    if head.step == c.Step.START and head.definite:
                        self.refuted.setdefault(record.value, self._runs(head))
                    self._reach(f"{self._kind_of(head.plan)}.{head.step}.over", head.job)
                case outcome if outcome in OUTCOMES:
                    self._reach(f"{self._kind_of(head.plan)}.{OUTCOMES[outcome]}.over", head.job)

    def _runs(self, start: _Head) -> bool:
        """Whether what a START began runs now, and was not brought about by another one that came late."""
        incarnation = self._begun.get((start.plan, start.step))
        return start.job not in self.broker.late_starts and any(
            training.incarnation == incarnation
            for nodes in self.nodes.values()
            for training in nodes.running(start.job)
        )

    def _kind_of(self, plan: str) -> str:
        kind = self._plans.get(plan)
        if kind is None:
            found = (view.in_flight.get(plan) for view in self.views().values())
            kind = self._plans[plan] = next((one.kind.value for one in found if one), "clear")
        return kind

    def _reach(self, point: str, job: str) -> None:
        self._points[point] += 1
        for waiter in self._reached.pop(point, ()):
            if not waiter.done():
                waiter.set_result(job)
        for action in self._at_points.pop((point, self._points[point]), ()):
            asyncio.get_running_loop().call_later(action.when.at_s, self._do, self._actions, action)

    def _nodes_of(self, pool: str) -> FakeNodes:
        mine = {
            name: Resources(cpu_m=int(options.get("cpu", "1000")))
            for name, options in self.schedule.nodes.items()
            if options.get("pool", self.layout.pools[0]) == pool
        }
        return FakeNodes(mine, None, self.clock, witness=Reported)


OUTCOMES = {
    "CheckpointSaved": "checkpoint", "JobStopped": "stop", "SurplusStopped": "stop", "JobPlaced": "start",
    "JobResumed": "verify",
}  # fmt: skip
"""Events that say that a step is done."""


class _Head(msgspec.Struct):
    type: str
    job: Any = ""
    plan: Any = ""
    step: Any = ""
    incarnation: Any = 0
    definite: Any = False
    kind: Any = ""


LIMITED = "paper"
"""The queue that has a limit where a world has one."""


def parameters(world: Mapping[str, str]) -> PoolParameters:
    """The parameters of a world's pools: times are short, so that much happens in a minute."""
    given = PoolParameters(
        tick_ms=int(world.get("tick-ms", "1500")),
        placement=world.get("placement", "spread"),
        node_lost_ms=int(world.get("node-lost-ms", "10000")),
        retry_hold_ms=100,
        specon=SpeConParameters(interval_ms=int(world.get("interval-ms", "2000")), alpha=0.05, guard=False),
        limits=MoveLimits(checkpoint_timeout_ms=3_000, hold_ms=10_000, stop_grace_ms=3_000, verify_timeout_ms=6_000),
        queueing=QueueParameters(
            policy=world.get("queue", "priority"),
            preempt=world.get("preempt", "yes") == "yes",
            limits=(QueueLimits(queue=LIMITED, cpu_m=int(world["limit"])),) if "limit" in world else (),
        ),
        preemption=PreemptionLimits(min_run_ms=3_000, max_suspensions=3),
    )
    return under(world["policy"], given) if "policy" in world else given


def readable(records: Iterable[Record]) -> Iterator[Received[Any]]:
    """Those records that can be decoded."""
    for record in records:
        with suppress(UndecodableError):
            yield received(record)


Actions = Callable[["World", Action], Awaitable[None]]
"""Does what a line of a schedule says."""


async def _played(schedule: Schedule) -> Outcome:
    from tests.faults.actions import do  # noqa: PLC0415 - actions are done to a world
    from tests.faults.judge import judge  # noqa: PLC0415 - likewise
    from tests.faults.spared import what_repeats_is_spared  # noqa: PLC0415 - it spares the judge something, too

    world = World(schedule)
    every = int(schedule.world.get("snapshots", "20000"))
    with (
        mock.patch.object(pool_loop, "SNAPSHOT_EVERY", POOL_RECORDS * every),
        mock.patch.object(stream_loop, "SNAPSHOT_EVERY", every),
        what_repeats_is_spared(),
    ):
        try:
            await world.play(do)
            return await judge(world)
        finally:
            await world.close()


class _Silent(structlog.BoundLoggerBase):
    """Takes every message: a world is full of warnings, all of them wanted."""

    def _take(self, event: str, /, **fields: object) -> None:
        """Do nothing with it."""

    debug = info = warning = error = critical = exception = _take


def played(schedule: Schedule) -> Outcome:
    """Play a schedule from beginning to end, and judge it."""
    structlog.configure(wrapper_class=_Silent)
    return run_seeded(_played(schedule), schedule.seed)
