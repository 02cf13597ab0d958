"""Several pools in one process: which of them it works on, and how one is handed over to another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.harness.memory_log import MemoryLog, MemorySnapshots
from tests.harness.system.rig import events_of
from tests.harness.waiting import until

from steepest.clock import SystemClock
from steepest.events.cluster import ClusterEvent, JobAdmitted, JobSpec, JobSubmitted
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector, Send
from steepest.runtime.layout import Layout
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import HeldPool, Service
from steepest.view.cluster_view import ClusterView

LAYOUT = Layout(pools=("blue", "green", "red"))
BLUE, GREEN, RED = LAYOUT.of_topic("cluster")


class Dealer:
    """Assigns pools as the test says."""

    def __init__(self, *dealt: TopicPartition) -> None:
        self.revoked = asyncio.Event()
        self.held: Sequence[TopicPartition] = dealt
        self.given_back = asyncio.Event()
        self._dealt = asyncio.Event()
        self._dealt.set()

    async def take(self) -> Sequence[TopicPartition]:
        """The pools that were dealt last."""
        await self._dealt.wait()
        return self.held

    async def is_held(self, at: TopicPartition) -> bool:
        """Whether it was dealt last."""
        return at in self.held

    def give_back(self) -> None:
        """It may be dealt again."""
        self.given_back.set()

    async def close(self) -> None:
        """Nothing is left to do."""

    async def revoke(self) -> None:
        """Ask for the share, and wait until the process has stopped working on it."""
        self._dealt.clear()
        self.given_back.clear()
        self.revoked.set()
        await self.given_back.wait()

    def deal(self, *dealt: TopicPartition) -> None:
        """Deal other pools."""
        self.held, self.revoked = dealt, asyncio.Event()
        self._dealt.set()


class Actor(Effector):
    """Says for which pools the process acts."""

    name = "actor"

    def __init__(self, held: HeldPool, acting: list[str]) -> None:
        self.held = held
        self.jobs: list[str] = []
        self._acting = acting

    def observe(self, view: ClusterView, received: Received[ClusterEvent], *, accepted: bool) -> None:
        """Note the pool's jobs."""
        del accepted
        if isinstance(received.event, JobAdmitted):
            self.jobs = [job.name for job in view.jobs]

    async def run(self, send: Send) -> None:
        """Act until cancelled, and take a moment to stop."""
        del send
        self._acting.append(self.held.pool)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self._acting.remove(self.held.pool)


class Process:
    """A placer and an actor over the log."""

    def __init__(self, log: MemoryLog, share: Dealer | None = None, **options: object) -> None:
        self.acting: list[str] = []
        self.actors: list[Actor] = []
        self.stop = asyncio.Event()
        service = Service(name="actor", cluster_deciders=(CLUSTER_DECIDERS["placer"],), effectors=self._actors)
        self.runtime = Runtime(
            [service],
            log=log,
            layout=LAYOUT,
            snapshots=MemorySnapshots(),
            clock=SystemClock(),
            pool_share=share,
            **options,  # type: ignore[arg-type]
        )
        self.task = asyncio.create_task(self.runtime.run(self.stop))

    def _actors(self, held: HeldPool) -> Sequence[Effector]:
        self.actors.append(Actor(held, self.acting))
        return (self.actors[-1],)

    async def ready(self, *pools: str) -> None:
        """Wait until it works on exactly these."""
        await until(lambda: sorted(self.acting) == sorted(pools) and self.runtime.health.is_ready())

    def lags(self) -> list[str]:
        """The loops whose lag it shows."""
        samples = [one for metric in self.runtime.metrics.lag.collect() for one in metric.samples]
        return sorted(one.labels["loop"] for one in samples)


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """A log of three pools."""
    log = MemoryLog(LAYOUT.partitions())
    yield log
    await log.close()


async def submit(log: MemoryLog, pool: str, job: str) -> None:
    """Ask a pool for a job."""
    event = JobSubmitted(job=job, request=job, spec=JobSpec(command=("train",)))
    await log.append([new_record(LAYOUT.of_pool(pool), pool, event, 1)])


async def admitted(log: MemoryLog, pool: str) -> list[str]:
    """The jobs that the pool has admitted."""
    events = await events_of(log, LAYOUT.of_pool(pool))
    return [one.event.job for one in events if isinstance(one.event, JobAdmitted)]


async def ended(*processes: Process) -> None:
    """SIGTERM."""
    for process in processes:
        process.stop.set()
        await process.task


async def test_a_process_that_shares_with_no_other_works_on_all_pools(log: MemoryLog) -> None:
    """Each pool has a view, deciders and effectors of its own, and its own loop among those that must be ready."""
    process = Process(log)
    for pool in LAYOUT.pools:
        await submit(log, pool, f"job-of-{pool}")
    await process.ready(*LAYOUT.pools)
    await until(lambda: all(actor.jobs for actor in process.actors) or process.task.done())

    assert [await admitted(log, pool) for pool in LAYOUT.pools] == [[f"job-of-{pool}"] for pool in LAYOUT.pools]
    assert sorted(process.runtime.health.loops) == process.lags() == ["pool:blue", "pool:green", "pool:red"]
    await ended(process)
    assert process.acting == []


async def test_a_process_can_be_for_one_pool(log: MemoryLog) -> None:
    """Then it knows nothing of the others."""
    process = Process(log, pools=("green",))
    await process.ready("green")
    await ended(process)
    assert list(process.runtime.pools) == ["green"]


async def test_a_pool_is_handed_over_when_nothing_acts_for_it_any_more(log: MemoryLog) -> None:
    """The next process finds what the first one decided, and decides nothing twice; the first one shows no old lag."""
    one, other = Dealer(BLUE, GREEN), Dealer(RED)
    first, second = Process(log, one), Process(log, other)
    await first.ready("blue", "green")
    await second.ready("red")
    await submit(log, "green", "before")
    await until(lambda: "before" in first.runtime.pools["green"].view.jobs)

    await asyncio.gather(one.revoke(), other.revoke())
    assert first.acting == second.acting == []
    assert not first.runtime.health.is_ready()
    one.deal(BLUE)
    other.deal(GREEN, RED)
    await first.ready("blue")
    await second.ready("green", "red")
    await submit(log, "green", "after")
    await until(lambda: "after" in second.runtime.pools["green"].view.jobs)
    await ended(first, second)

    assert await admitted(log, "green") == ["before", "after"]
    assert first.lags() == second.lags() == []


async def test_a_replica_too_many_is_ready_and_takes_over(log: MemoryLog) -> None:
    """A standby is ready without a pool."""
    dealer = Dealer()
    standby = Process(log, dealer)
    await standby.ready()
    assert standby.runtime.health.is_ready()
    await dealer.revoke()
    dealer.deal(BLUE, GREEN, RED)
    await standby.ready("blue", "green", "red")
    await ended(standby)


async def test_an_effector_can_ask_whether_the_pool_is_still_its_own(log: MemoryLog) -> None:
    """The answer is of the moment, for the process may have been suspended since it took the pool."""
    dealer = Dealer(BLUE)
    process = Process(log, dealer)
    await process.ready("blue")
    (actor,) = process.actors
    assert await actor.held.is_held()
    dealer.held = ()
    assert not await actor.held.is_held()
    await ended(process)


async def test_a_bug_of_one_pool_ends_the_process(log: MemoryLog) -> None:
    """A supervisor starts it again; meanwhile its pools are another's."""

    class Broken(Effector):
        name = "broken"

        async def run(self, send: Send) -> None:
            raise ZeroDivisionError(f"a bug, with {send}")

    runtime = Runtime(
        [Service(name="broken", effectors=lambda held: (Broken(),) if held.pool == "red" else ())],
        log=log,
        layout=LAYOUT,
        snapshots=MemorySnapshots(),
        clock=SystemClock(),
        pool_share=Dealer(BLUE, RED),
    )
    with pytest.raises(ExceptionGroup):
        await runtime.run(asyncio.Event())
