"""A runtime that is killed, and whose log fails, makes the same log as an undisturbed one.

The input is a random story: nodes, jobs, ticks, categories, and an outside that carries out every plan. It is fed in
lockstep (the next part only once everything that follows from the one before is in the log), so that two runs differ in
nothing but their disturbances.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.harness.examples import scaled
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.scenarios import folded_pool as pool_events
from tests.harness.system.fake_cluster import When
from tests.harness.system.faulty_log import FaultyLog, LogHook, MortalSnapshots
from tests.harness.system.life import Life
from tests.harness.system.rig import AT, POOL, events_of, read_all
from tests.harness.virtual_time import START_MS, VirtualClock, run_virtually
from tests.harness.waiting import until

from steepest.errors import LogUnavailableError
from steepest.events import cluster as c
from steepest.events.loss import JobWatched, LossEvent, LossReported
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import ID, PREVIOUS, SEQUENCE, SOURCE, DecisionId
from steepest.log.base import NewRecord, Record
from steepest.policies.monitor.silence import Silence
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.runtime import pool_loop, stream_loop
from steepest.runtime.decode import new_record, received
from steepest.runtime.layout import Layout
from steepest.runtime.recovery.loop_snapshots import PoolSnapshot, read_pool_snapshot, read_stream_snapshot
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service
from steepest.sagas.next_action import next_action
from steepest.view.cluster_view import ClusterView, fold_all

LAYOUT = Layout(pools=(POOL,), loss_partitions=2)
DECIDERS = Service(name="deciders", cluster_deciders=(Placer, NodeScorer, Rebalancer, Silence))
CATEGORIZER = Service(name="categorizer", stream_deciders=(Categorizer,))

Trouble = Callable[[int, str, When], str]
"""What happens at the n-th call of the log: ``kill``, ``fail`` or nothing."""


@pytest.fixture(autouse=True)
def _snapshots_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after every few records, so that one is kept between any two cuts."""
    monkeypatch.setattr(pool_loop, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(stream_loop, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(pool_loop, "BATCH", 7)
    monkeypatch.setattr(stream_loop, "BATCH", 4)
    monkeypatch.setattr(stream_loop, "CHUNK", 2)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of warnings, all of them wanted."""
    with capture_logs():
        yield


def at_peace(_number: int, _call: str, _when: When) -> str:
    """No call fails."""
    return ""


def killed_at(*cuts: int) -> Trouble:
    """The process is killed at these calls, counted over all of its lives."""
    return lambda number, _call, _when: "kill" if number in cuts else ""


def failing(seed: int) -> Trouble:
    """A twentieth of all calls fail, some of the appends among them after they took effect."""
    rng = random.Random(seed)
    return lambda _number, _call, _when: "fail" if rng.random() < 1 / 20 else ""


class Stage:
    """One service on a log in memory, started again whenever it was killed."""

    def __init__(self, service: Service, trouble: Trouble, keeps: Sequence[bool]) -> None:
        """``keeps`` says for each life in turn whether it finds the earlier lives' snapshots."""
        self.log = MemoryLog(LAYOUT.partitions())
        self._service = service
        self._trouble = trouble
        self._keeps = itertools.cycle(keeps)
        self.snapshots = MemorySnapshots()
        self._calls = itertools.count(1)
        self._runs: list[tuple[Runtime, asyncio.Task[None], asyncio.Event]] = []
        self._killed = False

    async def begin(self) -> None:
        """Give the log an identity that is the same in every run, and start."""
        opened = c.LogOpened(epoch="e")
        await self.log.append(
            [new_record(at, "", opened, START_MS) for topic in LAYOUT.partitions() for at in LAYOUT.of_topic(topic)]
        )
        self._start()

    def _start(self) -> None:
        self._killed = False
        life = Life()
        if not next(self._keeps):
            self.snapshots = MemorySnapshots()
        runtime = Runtime(
            [self._service],
            log=FaultyLog(self.log.reopen(), life, self._hook(life)),
            layout=LAYOUT,
            snapshots=MortalSnapshots(self.snapshots, life),
            clock=VirtualClock(),
        )
        stop = asyncio.Event()
        self._runs.append((runtime, asyncio.ensure_future(runtime.run(stop)), stop))

    def _hook(self, life: Life) -> LogHook:
        async def hook(call: str, when: When, _records: Sequence[NewRecord]) -> None:
            match self._trouble(next(self._calls), call, when):
                case "kill":
                    self._killed = True
                    life.pause()
                case "fail":
                    raise LogUnavailableError("a test's log fails")

        return hook

    @property
    def runtime(self) -> Runtime:
        """The newest one."""
        return self._runs[-1][0]

    async def append(self, *records: NewRecord) -> None:
        """Append records, and wait until all that follows from them is in the log."""
        await self.log.append(records)
        while True:
            ends = {
                "pool:default": await self.log.end(AT),
                "categorizer:loss": sum([await self.log.end(at) for at in LAYOUT.of_topic("loss")]),
            }
            await until(partial(self._is_done, ends), "the runtime to read all that there is", within_s=3_600)
            if self._killed:
                self._start()
            elif ends["pool:default"] == await self.log.end(AT):
                return

    def _is_done(self, ends: Mapping[str, int]) -> bool:
        """Whether the process was killed, or has read up to these ends."""
        health = self.runtime.health
        has_read = all(loop.position >= ends.get(name, 0) for name, loop in health.loops.items())
        return self._killed or (health.is_ready() and has_read)

    async def end(self) -> None:
        """Stop the newest run gracefully and without faults, and drop the killed ones."""
        self._trouble = at_peace
        await self.append()
        *killed, (_, task, stop) = self._runs
        stop.set()
        await task
        for _, dead, _ in killed:
            dead.cancel()
        await asyncio.gather(*(dead for _, dead, _ in killed), return_exceptions=True)


# --- the pool's loop ------------------------------------------------------------------------------------------------

NODES = ("w1", "w2", "w3")
KEEPS = st.lists(st.booleans(), min_size=1, max_size=4)
PARTS = ("tick", "submit", "act", "act", "converge", "stop", "cancel", "fail")
TALES = st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 3)), min_size=4, max_size=30)


class PoolStory:
    """Drives a pool by a random story: what users and the outside write, in answer to what the log holds."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._view = ClusterView()
        self._now_ms = START_MS
        self._jobs = 0

    async def play(self, tale: Sequence[tuple[str, int]]) -> None:
        """Write all of it to the log."""
        parameters = PoolParameters(specon=SpeConParameters(guard=False), node_lost_ms=4_000)
        await self._say(c.PoolConfigured(parameters=parameters), *(pool_events.joined(node, 300) for node in NODES))
        for part, number in tale:
            await getattr(self, f"_{part}")(number)

    async def _say(self, *events: c.ClusterEvent) -> None:
        self._now_ms += 1_000
        await self._stage.append(*(new_record(AT, POOL, event, self._now_ms) for event in events))
        self._view = fold_all(await events_of(self._stage.log))

    async def _tick(self, number: int) -> None:
        used = pool_events.used(NODES[number % 3], 10 * number)
        await self._say(c.Tick(counted_ms=self._view.counted_ms + 1_000), used)

    async def _submit(self, number: int) -> None:
        self._jobs += 1
        first = pool_events.submitted(f"j{self._jobs}", 100, retries=number)
        await self._say(first, pool_events.submitted(f"k{self._jobs}", 150))

    async def _converge(self, number: int) -> None:
        running = [job.name for job in self._view.jobs if job.alive][number : number + 2]
        for job in running:
            await self._say(
                pool_events.grown(job),
                pool_events.category(job, c.Category.CONVERGED),
                pool_events.requested(job),
                pool_events.requested(job),
            )

    async def _stop(self, number: int) -> None:
        for job in [job for job in self._view.jobs if job.alive][number:]:
            status = (0, 1, 85, None)[number]
            await self._say(
                c.ReplicaStopped(job=job.name, incarnation=job.incarnation, node=job.node or "w1", exit_status=status)
            )

    async def _cancel(self, number: int) -> None:
        for job in [job for job in self._view.jobs if job.phase != "ended"][number : number + 1]:
            await self._say(pool_events.cancelled(job.name))

    async def _fail(self, number: int) -> None:
        await self._act(number, fails=True)

    async def _act(self, number: int, *, fails: bool = False) -> None:
        """Carry out one step of each plan in flight, as the migrator and the cluster would."""
        for plan in list(self._view.in_flight.values())[: number + 1]:
            event = next_action(self._view, self._view.in_flight[plan.id], self._now_ms)
            if event is None:
                continue
            await self._say(event)
            if isinstance(event, c.StepBegun):
                job = self._view.jobs[event.job]
                outcome = _failure(event, number) if fails else pool_events.success(event, job)
                await self._say(outcome)


def _failure(begun: c.StepBegun, number: int) -> c.StepFailed:
    return c.StepFailed(
        plan=begun.plan,
        step=begun.step,
        attempt=begun.attempt,
        job=begun.job,
        code=("refused", "ended", "uncertain", "unknown-node")[number],
        definite=number != 2,
        message="a test says so",
    )


async def play_pool(
    tale: Sequence[tuple[str, int]], trouble: Trouble, keeps: Sequence[bool]
) -> tuple[list[Record], PoolSnapshot]:
    """The log that a tale makes, and the snapshot that the last life leaves."""
    stage = Stage(DECIDERS, trouble, keeps)
    await stage.begin()
    await PoolStory(stage).play(tale)
    await stage.end()
    snapshot = await read_pool_snapshot(stage.snapshots, stage.log, AT)
    assert snapshot is not None
    return await read_all(stage.log), snapshot


def check_pool(tale: Sequence[tuple[str, int]], trouble: Trouble, keeps: Sequence[bool]) -> None:
    """A troubled run leaves the log and the snapshot of an untroubled one, byte for byte."""
    expected, kept = run_virtually(play_pool(tale, at_peace, [True]))
    log, snapshot = run_virtually(play_pool(tale, trouble, keeps))

    assert log == expected
    assert msgspec.msgpack.encode(snapshot) == msgspec.msgpack.encode(kept)
    folded = fold_all(received(record) for record in log)
    assert msgspec.msgpack.encode(snapshot.view) == folded.snapshot()
    assert folded.state.gaps == 0
    ids = [record.headers[ID] for record in log if ID in record.headers]
    assert len(ids) == len(set(ids))


@given(tale=TALES, cuts=st.lists(st.integers(1, 400), max_size=6), keeps=KEEPS)
@settings(max_examples=scaled(100), deadline=None)
def test_a_pool_that_is_cut_anywhere_decides_the_same(
    *, tale: list[tuple[str, int]], cuts: list[int], keeps: list[bool]
) -> None:
    """Killed at any call of the log, and started from its snapshot or from nothing, the runtime makes the same log."""
    check_pool(tale, killed_at(*cuts), keeps)


@given(tale=TALES, seed=st.integers(0, 2**32))
@settings(max_examples=scaled(50), deadline=None)
def test_a_pool_whose_log_fails_decides_the_same(tale: list[tuple[str, int]], seed: int) -> None:
    """Calls that fail, before or after they took effect, lose no decision and duplicate none."""
    check_pool(tale, failing(seed), [True])


# --- a stream's loop ------------------------------------------------------------------------------------------------

JOBS = ("a", "b", "c", "d")
REPORTS = st.lists(st.tuples(st.sampled_from(JOBS), st.integers(0, 9)), min_size=5, max_size=60)


async def play_losses(
    reports: Sequence[tuple[str, int]], trouble: Trouble, keeps: Sequence[bool]
) -> tuple[dict[str, list[tuple[str, str, bytes]]], list[bytes]]:
    """The categorizer's decisions on the losses, and its states at the end.

    By stream: id, predecessor and value of each decision, in order.
    """
    stage = Stage(CATEGORIZER, trouble, keeps)
    await stage.begin()
    parameters = SpeConParameters(interval_ms=2_000)
    watched: list[LossEvent] = [
        JobWatched(job=job, pool=POOL, incarnation=1, metric="loss", parameters=parameters) for job in JOBS
    ]
    await stage.append(*(_loss_record(event, 0) for event in watched))
    for number, (job, value) in enumerate(reports, 1):
        report = LossReported(job=job, incarnation=1, step=number, value=1.0 + value / 1_000)
        await stage.append(*(_loss_record(report, 3 * number + more) for more in range(3)))
    await stage.end()
    made: dict[str, list[tuple[str, str, bytes]]] = {}
    for record in await read_all(stage.log):
        decision = DecisionId.parse(record.headers.get(ID, ""))
        if decision is not None:
            made.setdefault(decision.stream, []).append((str(decision), record.headers.get(PREVIOUS, ""), record.value))
    kept = [
        await read_stream_snapshot(stage.snapshots, stage.log, Categorizer.name, at) for at in LAYOUT.of_topic("loss")
    ]
    return made, [snapshot.decider.state for snapshot in kept if snapshot is not None]


def _loss_record(event: LossEvent, number: int) -> NewRecord:
    to = LAYOUT.of_key("loss", event.job)
    headers = {SOURCE: event.job, SEQUENCE: str(number)}
    return new_record(to, event.job, event, START_MS + 500 * number, headers)


@given(
    reports=REPORTS,
    cuts=st.lists(st.integers(1, 600), max_size=6),
    keeps=KEEPS,
    seed=st.none() | st.integers(0, 2**32),
    batch=st.sampled_from([1, 2, stream_loop.BATCH]),
)
@settings(max_examples=scaled(100), deadline=None)
def test_a_stream_that_is_cut_anywhere_decides_the_same(
    *, reports: list[tuple[str, int]], cuts: list[int], keeps: list[bool], seed: int | None, batch: int
) -> None:
    """Killed at any call, or with a log that fails, a stream decider makes each decision once, in the same chain.

    Small batches are decided about while the ones before them are still being appended.
    """
    expected = run_virtually(play_losses(reports, at_peace, [True]))
    trouble = killed_at(*cuts) if seed is None else failing(seed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream_loop, "BATCH", batch)
        patched.setattr(stream_loop, "CHUNK", batch)
        assert run_virtually(play_losses(reports, trouble, keeps)) == expected
