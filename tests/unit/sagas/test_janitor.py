"""What is over is forgotten without a look at all that the cluster holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import (
    FoldedPool,
    checkpoint,
    migration,
    placement,
    submitted,
    success,
)

from steepest.cluster.port import Cluster, ReplicaFiles, ReplicaId, ReplicaPhase, ReplicaStatus, Stopped
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.sagas.janitor import FORGET_AFTER_MS, Ended, Janitor
from steepest.view.state import Phase

NODES = {f"w{number}": 1_000 for number in range(20)}


class Notes:
    """A cluster that notes what it is to forget."""

    def __init__(self) -> None:
        self.forgotten: asyncio.Queue[str] = asyncio.Queue()
        self.sent: asyncio.Queue[msgspec.Struct] = asyncio.Queue()
        self.asked: asyncio.Queue[int] = asyncio.Queue()
        self.looks = 0
        self.newest = 1
        self.phase = ReplicaPhase.EXITED
        self.trouble: ClusterError = UncertainError("no answer")
        self.runs: tuple[str, ...] = ()
        self.kept: asyncio.Queue[tuple[int, str]] = asyncio.Queue()

    async def send(self, *events: msgspec.Struct, **_: Any) -> None:
        """Keep the event for the test."""
        for event in events:
            self.sent.put_nowait(event)

    async def stop(self, replica: ReplicaId, incarnation: int, *, grace_s: float) -> Stopped:  # noqa: ARG002 - the port
        """What was lost ran as incarnation 2; the first call fails."""
        self.asked.put_nowait(incarnation)
        if self.asked.qsize() == 1:
            raise self.trouble
        return Stopped(exit_status=-9 if incarnation == 2 else 85, step=11, checkpoint=checkpoint(11))

    async def lookup(self, replica: ReplicaId, *, verify: bool) -> ReplicaStatus | None:  # noqa: ARG002 - the port
        """What was lost has ended, unless a test says otherwise."""
        phase = ReplicaPhase.RUNNING if replica.job in self.runs else self.phase
        return ReplicaStatus(replica=replica, incarnation=self.newest, node="w2", phase=phase)

    async def keep(self, replica: ReplicaId, incarnation: int, checkpoint: str) -> None:  # noqa: ARG002 - the port
        """Note it; the first call fails."""
        self.kept.put_nowait((incarnation, checkpoint))
        if self.kept.qsize() == 1 and incarnation == 1:
            raise UncertainError("no answer")

    async def forget(self, job: str) -> None:
        """Note it; the first is still running, for all that is known."""
        self.forgotten.put_nowait(job)
        if job == "a":
            raise RefusedError(f"{job} runs", code="still-running")

    def files(self, _: str) -> Sequence[ReplicaFiles]:
        """Count the look, for which every incarnation's record is read."""
        self.looks += 1
        return ()


async def first_report(pool: FoldedPool, janitor: Janitor, cluster: Notes) -> msgspec.Struct:
    """What a janitor reports first, while time passes: what failed is tried again at ticks."""
    tidying = asyncio.create_task(janitor.run(cluster.send))
    while cluster.sent.empty():
        await asyncio.sleep(0)
        pool.tick()
        janitor.observe(pool.view, pool.log[-1].event)
    tidying.cancel()
    return cluster.sent.get_nowait()


async def test_each_job_that_is_over_is_forgotten_once() -> None:
    """One call a job, however many nodes there are; that one is refused keeps none of the others."""
    pool, cluster = FoldedPool(**NODES), Notes()
    for job in ("a", "b", "c"):
        pool.run(job, "w1")
        pool.end(job)
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    for _ in range(2):
        pool.tick(FORGET_AFTER_MS)
        janitor.observe(pool.view, pool.log[-1].event)
    forgotten = [await cluster.forgotten.get() for _ in range(3)]
    tidying.cancel()

    assert forgotten == ["a", "b", "c"]
    assert cluster.forgotten.empty()
    assert cluster.looks == 0


async def test_a_job_that_is_rejected_after_it_ran_is_forgotten_too() -> None:
    """It failed, and no node is as large any more. A rejection of another job of its name means nothing to one that runs."""
    pool, cluster = FoldedPool(**NODES), Notes()
    janitor = Janitor(cast("Cluster", cluster))
    pool.run("a", "w1")
    pool.run("b", "w1")
    pool.feed(pool.stopped("a", 1), c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=0, reason="1"))
    for job, request in (("a", pool.job("a").request), ("b", "another")):
        rejected = c.JobRejected(job=job, request=request, reason="too large")
        accepted = pool.fold(rejected)
        janitor.observe(pool.view, rejected, accepted=accepted)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    pool.tick(FORGET_AFTER_MS)
    janitor.observe(pool.view, pool.log[-1].event)
    forgotten = await cluster.forgotten.get()
    tidying.cancel()

    assert forgotten == "a"
    assert cluster.forgotten.empty()
    assert pool.job("b").alive


async def test_a_job_whose_newer_start_was_lost_has_stopped_by_the_log_too() -> None:
    """The newer process is ended, however often that takes, and the end of the older one is reported."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.runs = ("a",)
    pool.run("a", "w1")
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    started = c.ReplicaStarted(job="a", incarnation=2, node="w2")
    pool.append(started)
    janitor.observe(pool.view, started)
    stopped = await first_report(pool, janitor, cluster)

    assert isinstance(stopped, c.ReplicaStopped)
    assert (stopped.incarnation, stopped.node, stopped.exit_status) == (1, "w1", 85)
    assert pool.fold(stopped)
    assert not pool.job("a").alive
    assert pool.job("a").checkpoint == checkpoint(11)
    assert [cluster.asked.get_nowait() for _ in range(3)] == [2, 2, 1]


async def test_a_newer_start_that_was_reported_while_no_janitor_ran_is_looked_up() -> None:
    """The end of the older process is reported; nothing is stopped that the log may know of meanwhile."""
    pool, cluster = FoldedPool(**NODES), Notes()
    pool.run("a", "w1")
    pool.append(c.ReplicaStarted(job="a", incarnation=2, node="w2"))
    cluster.newest = 2
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    stopped = await first_report(pool, janitor, cluster)

    assert isinstance(stopped, c.ReplicaStopped)
    assert (stopped.incarnation, stopped.node) == (1, "w1")
    assert pool.fold(stopped)
    assert [cluster.asked.get_nowait() for _ in range(cluster.asked.qsize())] == [1, 1]  # the first had no answer


async def test_a_job_that_runs_as_the_log_says_is_left_alone() -> None:
    """Of a job that is looked up at the start nothing is reported, where the cluster has no newer incarnation."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.runs = ("a",)
    pool.run("a", "w1")
    pool.run("b", "w1")
    pool.end("b")
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    pool.tick(FORGET_AFTER_MS)
    janitor.observe(pool.view, pool.log[-1].event)
    assert await cluster.forgotten.get() == "b"  # behind the look-up
    tidying.cancel()

    assert cluster.sent.empty()
    assert cluster.asked.empty()


async def test_what_had_ended_before_its_start_was_begun_again_is_reported() -> None:
    """An earlier START, which the log has lost, may have started it: its end was reported then, and did not count."""
    pool, cluster = FoldedPool(**NODES), Notes()
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    pool.feed(submitted("a"), placement("a", "w1"))
    for attempt in (1, 2):
        begun = c.StepBegun(plan="place-a-0", step=c.Step.START, attempt=attempt, job="a", incarnation=1, node="w1")
        assert pool.fold(begun)
        janitor.observe(pool.view, begun)
    placed = c.JobPlaced(plan="place-a-0", attempt=2, job="a", incarnation=1, node="w1", restore=None)
    assert pool.fold(placed)
    janitor.observe(pool.view, placed)
    stopped = await first_report(pool, janitor, cluster)

    assert isinstance(stopped, c.ReplicaStopped)
    assert (stopped.incarnation, stopped.node) == (1, "w1")
    assert pool.fold(stopped)
    assert not pool.job("a").alive


async def test_what_had_ended_before_the_start_of_a_move_was_begun_again_is_reported_behind_it() -> None:
    """The steps of the move may not say so: of a gang whose chief has ended, the others may verify it."""
    pool, cluster = FoldedPool(**NODES), Notes()
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    cluster.newest = 2
    pool.run("a", "w1")
    pool.fold(migration("a", "w1", "w2"))
    pool.carry_out("a", before=c.Step.START)
    pool.begin("a")
    again = pool.begin("a")
    for event in (again, again):
        janitor.observe(pool.view, event)
    placed = success(again, pool.job("a"))
    assert pool.fold(placed)
    janitor.observe(pool.view, placed)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    for _ in range(10):
        pool.tick()
        janitor.observe(pool.view, pool.log[-1].event)
        await asyncio.sleep(0)
    tidying.cancel()
    assert cluster.sent.empty()
    pool.carry_out("a")
    stopped = await first_report(pool, janitor, cluster)

    assert isinstance(stopped, c.ReplicaStopped)
    assert (stopped.incarnation, stopped.node) == (2, "w2")


async def test_a_job_that_the_log_has_lost_is_ended_by_the_use_of_its_node() -> None:
    """Its start was reported while no janitor ran. One that the log knows is left alone."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.phase = ReplicaPhase.RUNNING
    pool.run("a", "w1")
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    while not janitor._work.empty():
        janitor._work.get_nowait()
    progress = c.ReplicaProgress(job="lost", incarnation=1, replica=2)
    usage = c.NodeUsage(node="w1", used=Resources(cpu_m=20), jobs={"a": 10, "lost": 10}, progress=(progress,))
    janitor.observe(pool.view, usage)

    assert janitor._work.get_nowait() == Ended((ReplicaId("lost", 0), ReplicaId("lost", 2)))
    assert janitor._work.empty()


@pytest.mark.parametrize("trouble", [UncertainError("no answer"), RefusedError("no right to", code="forbidden")])
async def test_what_was_started_behind_the_end_of_its_job_is_ended(trouble: ClusterError) -> None:
    """Its report came while no janitor ran, so that one that starts looks; until the cluster has ended it."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.trouble = trouble
    cluster.phase = ReplicaPhase.RUNNING
    pool.run("a", "w1")
    pool.end("a")
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    while cluster.asked.qsize() < 2:
        await asyncio.sleep(0)
        pool.tick()
        janitor.observe(pool.view, pool.log[-1].event)
    tidying.cancel()

    assert [cluster.asked.get_nowait() for _ in range(cluster.asked.qsize())] == [1, 1]  # the first had no answer


async def test_what_was_started_late_while_its_plan_was_in_flight_is_ended() -> None:
    """It was looked up before, and was not there: its report came before the end of its job."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.phase = ReplicaPhase.RUNNING
    janitor = Janitor(cast("Cluster", cluster))
    pool.feed(submitted("a"), placement("a", "w1"))
    pool.begin("a")
    pool.fail("a")
    pool.append(c.ReplicaStarted(job="a", incarnation=1, node="w1"))
    pool.feed(c.JobCancelRequested(job="a", request="r"))
    pool.feed(c.PlanAbandoned(plan="place-a-0", job="a", code="given-up", message="cancelled"))
    pool.feed(c.JobEnded(job="a", outcome=c.Outcome.CANCELLED))
    for received in pool.log:
        janitor.observe(pool.view, received.event)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    asked = await cluster.asked.get()
    tidying.cancel()

    assert pool.job("a").phase is Phase.ENDED
    assert asked == 1


async def test_what_is_started_on_a_node_that_came_back_is_ended() -> None:
    """Its job may go on elsewhere since the node was declared to be gone; while a plan is about the job, all is well."""
    pool, cluster = FoldedPool(**NODES), Notes()
    pool.feed(submitted("a"), placement("a", "w1"))
    pool.begin("a")
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    started = c.ReplicaStarted(job="a", incarnation=1, node="w1")
    janitor.observe(pool.view, started)
    assert janitor._work.empty()

    pool.feed(c.NodeLost(node="w1", silent_ms=1), c.NodeGone(node="w1"))
    pool.append(started)
    janitor.observe(pool.view, started)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    asked = await cluster.asked.get()
    tidying.cancel()

    assert asked == 1
    assert pool.job("a").plan is None
    assert not pool.job("a").alive


@pytest.mark.parametrize(
    ("phase", "newest", "asked"),
    [
        (ReplicaPhase.RUNNING, 1, [1, 1]),  # the first has no answer
        (ReplicaPhase.STARTING, 1, [1, 1]),
        (ReplicaPhase.EXITED, 1, []),
        (ReplicaPhase.RUNNING, 2, []),
    ],
)
async def test_what_keeps_a_job_from_being_started_is_ended(phase: ReplicaPhase, newest: int, asked: list[int]) -> None:
    """It has stopped by the log, and its report may have come while no janitor ran; a newer one may be right."""
    pool, cluster = FoldedPool(**NODES), Notes()
    cluster.phase, cluster.newest = phase, newest
    pool.run("a", "w1")
    retry = c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=0, reason="")
    pool.feed(pool.stopped("a", 1), retry, placement("a", "w2", incarnation=1))
    pool.begin("a")
    pool.fail("a", "still-running")
    pool.run("b", "w1")
    pool.end("b")
    janitor = Janitor(cast("Cluster", cluster))
    for received in pool.log:
        janitor.observe(pool.view, received.event)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    while cluster.forgotten.empty():
        await asyncio.sleep(0)
        pool.tick(FORGET_AFTER_MS // 4)
        janitor.observe(pool.view, pool.log[-1].event)
    tidying.cancel()

    assert [cluster.asked.get_nowait() for _ in range(cluster.asked.qsize())] == asked


async def test_the_checkpoint_from_before_a_loss_went_wrong_is_kept_until_that_is_over() -> None:
    """Each incarnation is asked to, also by a janitor that starts later; a call that fails is made again."""
    pool, cluster = FoldedPool(**NODES), Notes()
    pool.run("a", "w1")
    good = checkpoint(50)
    pool.fold(c.CheckpointVerified(job="a", incarnation=1, checkpoint=good, node="w1"))
    janitor = Janitor(cast("Cluster", cluster))
    janitor.caught_up(pool.view)
    tidying = asyncio.create_task(janitor.run(cluster.send))
    found = c.FindingOpened(job="a", incarnation=1, kind=c.FindingKind.DIVERGED, since=100, why="not finite")
    over = c.FindingEnded(job="a", incarnation=1, kind=c.FindingKind.DIVERGED, why="back")
    for event in (found, c.Tick(counted_ms=1_000)):
        janitor.observe(pool.view, event, accepted=pool.fold(event))
        await asyncio.sleep(0.01)
    again = Janitor(cast("Cluster", cluster))
    again.caught_up(pool.view)
    asked = asyncio.create_task(again.run(cluster.send))
    await asyncio.sleep(0.01)
    janitor.observe(pool.view, over, accepted=pool.fold(over))
    kept = [await cluster.kept.get() for _ in range(4)]
    tidying.cancel()
    asked.cancel()

    assert kept == [(1, good.name)] * 3 + [(1, "")]
