"""One trace leads from a loss report over what was decided because of it to the process that goes on elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.rig import POOL, Rig, events_of
from tests.harness.waiting import until

from steepest.app.optional_effectors import trace_effectors
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import ID, DecisionId, Received
from steepest.log.files.file_log import FileLog
from steepest.replay.record import record
from steepest.replay.replay import Replay
from steepest.runtime.decode import new_record
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool, Service
from steepest.trace_context import span_id, trace_id, trace_in
from steepest.tracing.effector import TraceExport
from steepest.tracing.spans import Span

INTERVAL_MS = 1_000
SPECON = SpeConParameters(interval_ms=INTERVAL_MS)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Two nodes, and no losses but those that a test reports."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 1_000, "n2": 1_000})) as rig:
        yield rig


def exporting(take: Callable[[Span], None]) -> Service:
    """What exports traces."""

    def effectors(held: HeldPool) -> tuple[Effector, ...]:
        return (TraceExport(take, held.pool),)

    return Service(name="traces", effectors=effectors)


async def report(rig: Rig, **values: float) -> None:
    """A loss of each of these jobs, an interval after the ones before."""
    await rig.clock.sleep(INTERVAL_MS / 1000)
    for job, value in values.items():
        loss = LossReported(job=job, incarnation=1, value=value)
        await rig.log.append([new_record(rig.layout.of_key("loss", job), job, loss, rig.clock.now_ms())])


async def moved_by_its_losses(rig: Rig) -> list[Received[Any]]:
    """The log of a pool in which job ``a`` converges beside two that grow, and is moved to the other node."""
    await rig.configure(PoolParameters(specon=SPECON))
    system = rig.start("placer", "worker-monitor", "categorizer", "node-scorer", "migrator", rig.beats())
    for job in "abc":
        await rig.submit(job, "--steps", "600", "--step-s", "0.5", node="n1")
    await until(lambda: all(job in system.view.jobs and system.view.jobs[job].declared_mode for job in "abc"))
    for job in "abc":
        watched = JobWatched(job=job, pool=POOL, incarnation=1, metric="loss", parameters=SPECON)
        at = rig.layout.of_key("loss", job)
        await rig.log.append([new_record(at, job, watched, rig.clock.now_ms())])
    for number in range(12):
        await report(rig, a=5.0 - min(number, 1), b=100.0 - 5 * number, c=100.0 - 5 * number)
    await until(lambda: system.view.jobs["a"].moves == 1, "the job to be moved")
    return await rig.events()


def first(log: list[Received[Any]], kind: type[Any], job: str = "a") -> Received[Any]:
    """The first event of a type about a job, once it has left its first node."""
    begun = next(one.offset for one in log if isinstance(one.event, c.MigrationPlanned))
    after = kind in {c.StepBegun, c.JobPlaced, c.JobResumed}
    return next(
        one for one in log if isinstance(one.event, kind) and one.event.job == job and (one.offset > begun or not after)
    )


async def test_a_move_is_in_the_trace_of_the_report_that_led_to_it(rig: Rig) -> None:
    """Decision, plan, each step and its outcome, and the environment of the process that it has started."""
    log = await moved_by_its_losses(rig)
    asked, planned, finished = (
        first(log, kind) for kind in (c.ReallocationRequested, c.MigrationPlanned, c.MigrationFinished)
    )
    losses = [one for at in rig.layout.of_topic("loss") for one in await events_of(rig.log, at)]
    reports = [one for one in losses if isinstance(one.event, LossReported) and one.event.job == "a"]
    cause = DecisionId.parse(asked.headers[ID])
    assert cause is not None
    trace = trace_id(trace_in(planned.headers))

    assert trace in {trace_id(one.trace(cause.epoch)) for one in reports}
    assert trace_id(trace_in(asked.headers)) == trace
    assert finished.headers["traceparent"] == planned.headers["traceparent"]
    of_steps = [
        one for one in log if getattr(one.event, "plan", "") == planned.event.plan and hasattr(one.event, "attempt")
    ]
    assert len(of_steps) == 8
    assert {trace_id(trace_in(one.headers)) for one in of_steps} == {trace}
    assert len({span_id(trace_in(one.headers)) for one in of_steps}) == 4
    started = rig.nodes.newest(ReplicaId("a"))
    assert started is not None
    assert started.spec.trace == trace_in(first(log, c.JobPlaced).headers)
    assert await rig.broken() == []


async def test_a_recording_keeps_traces(rig: Rig, tmp_path: Path) -> None:
    """They are headers like others, so a recording has them, and a replay finds nothing that differs."""
    log = await moved_by_its_losses(rig)
    copy = FileLog(tmp_path / "recording", rig.layout.partitions())
    async for _ in record(rig.log, copy):
        pass
    kept = await events_of(copy)
    report = await Replay(copy).run()
    await copy.close()

    assert [one.headers for one in kept] == [one.headers for one in log]
    assert report.decisions > 0
    assert report.differences == 0


async def test_spans_of_a_move_hang_together(rig: Rig) -> None:
    """The report is the first span; each other one has its parent in the trace; a plan lasts as long as its steps."""
    spans: list[Span] = []
    rig.start(exporting(spans.append))
    log = await moved_by_its_losses(rig)
    planned = first(log, c.MigrationPlanned)
    await until(lambda: any(span.name == "plan migrate" for span in spans))
    trace = [one for one in spans if trace_id(one.traceparent) == trace_id(trace_in(planned.headers))]
    own = {span_id(one.traceparent): one for one in trace}

    assert len(own) == len(trace)
    assert [one.name for one in trace if not one.parent] == ["loss record"]
    assert all(span_id(one.parent) in own for one in trace if one.parent)
    steps = [one.name for one in trace if one.name.startswith("step ")]
    assert steps == ["step checkpoint", "step stop", "step start", "step verify"]
    (plan,) = [one for one in trace if one.name == "plan migrate"]
    assert {one.parent for one in trace if one.name in steps} == {plan.traceparent}
    assert plan.begin_ms <= min(one.begin_ms for one in trace if one.name in steps)
    assert plan.end_ms >= max(one.end_ms for one in trace if one.name in steps)
    assert plan.attributes["steepest.targets"] == "n2"


def test_nothing_is_exported_unless_asked_for() -> None:
    """No endpoint, no effector, and no library."""

    async def held() -> bool:
        return True

    assert trace_effectors("")(HeldPool(POOL, held)) == ()
