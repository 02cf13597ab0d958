"""A recording continued in simulation: it continues as recorded from any position, and states its uncertainty."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.rig import events_of

from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.log.files.file_log import FileLog
from steepest_lab.sim.policies import LIVE
from steepest_lab.sim.whatif.futures import future
from steepest_lab.sim.whatif.history import CpuUse, JobObservations, RecordedPool, ReplicaWork, read_history
from steepest_lab.sim.whatif.play import AS_RECORDED, play_on

GOLDEN = Path(__file__).parents[2] / "golden" / "moves"
MANY = (1, 40, 333, 500, 700, 900, 1000, 1100)
"""Positions all over the recording; at the first, there is no parameter yet and no node."""


async def history(position: int | None, folder: Path = GOLDEN) -> RecordedPool:
    """The recording up to a position."""
    log = FileLog.open(folder, read_only=True)
    try:
        return await read_history(log, position)
    finally:
        await log.close()


async def recorded(folder: Path = GOLDEN) -> list[Received[Any]]:
    """The pool's log."""
    log = FileLog.open(folder, read_only=True)
    try:
        return await events_of(log)
    finally:
        await log.close()


def ends_s(log: Iterable[Received[Any]]) -> dict[str, float]:
    """When each job ended, since the log's first record."""
    log = list(log)
    return {one.event.job: (one.at_ms - log[0].at_ms) / 1000 for one in log if isinstance(one.event, c.JobEnded)}


@pytest.mark.parametrize("position", MANY)
async def test_a_pool_goes_on_soundly_from_wherever_it_is_taken_up(position: int) -> None:
    """In the middle of plans, steps and decisions: the invariants hold over the log before and the one played on."""
    played: list[Received[Any]] = []
    result = play_on(await history(position), AS_RECORDED, 0, watch=played.append)
    whole = (await recorded())[:position] + played

    assert {job.outcome for job in result.jobs} == {"finished"}
    assert [one.offset for one in whole] == list(range(len(whole)))
    assert [f"{one.checker}: {one.message}" for one in check(whole) if one.status is not Status.HOLDS] == []


@pytest.mark.parametrize("position", [600, 900])
async def test_it_goes_on_nearly_as_it_did(position: int) -> None:
    """Under the policy of the recording, jobs end within 10 % of their recorded completion times, on average."""
    result = play_on(await history(position), AS_RECORDED, 0)
    then_s = ends_s(await recorded())
    errors = [abs((job.end_s or 0.0) - then_s[job.name]) / (then_s[job.name] - job.submit_s) for job in result.jobs]

    assert statistics.fmean(errors) <= 0.10


async def test_another_policy_gets_another_result() -> None:
    """Without moves from there on, no move is planned."""
    played: list[Received[Any]] = []
    play_on(await history(600), "spread", 0, watch=played.append)

    assert not any(isinstance(one.event, c.MigrationPlanned) for one in played)
    assert isinstance(played[-1].event, c.JobEnded)


async def test_another_policy_judges_the_jobs_that_run_already() -> None:
    """As live ones are: by its parameters from their next report on, and not from their next incarnation."""
    played: list[Received[Any]] = []
    play_on(await history(600), "specon-adaptive", 0, watch=played.append)
    started = {one.event.job for one in played if isinstance(one.event, c.JobPlaced)}
    grown = [one.event for one in played if isinstance(one.event, c.GrowthMeasured) and one.event.job not in started]

    assert [event for event in grown if event.threshold is not None]


async def test_nodes_and_parameters_that_come_later_come() -> None:
    """From the first record on, under another policy: the same nodes, and the recorded parameters but for the policy's."""
    played: list[Received[Any]] = []
    play_on(await history(1), "flowcon", 0, watch=played.append)
    then = await recorded()

    def joined(log: list[Received[Any]]) -> dict[str, Resources]:
        return {one.event.node: one.event.capacity for one in log if isinstance(one.event, c.NodeJoined)}

    assert joined(played) == joined(then) != {}
    (recorded_parameters,) = [one.event.parameters for one in then if isinstance(one.event, c.PoolConfigured)]
    *_, parameters = [one.event.parameters for one in played if isinstance(one.event, c.PoolConfigured)]
    assert parameters == LIVE["flowcon"].parameters(recorded_parameters)


async def test_the_nodes_may_join_before_or_after_the_start() -> None:
    """Starts before and right after the parameters and the nodes agree within half a second."""
    before, behind = [play_on(await history(position), AS_RECORDED, 0).jobs for position in (1, 12)]

    assert [job.end_s for job in before] == pytest.approx([job.end_s for job in behind], abs=0.5)


async def test_a_recording_without_a_node_is_refused(tmp_path: Path) -> None:
    """Without a node the simulation would never end."""
    folder = tmp_path / "cut"
    shutil.copytree(GOLDEN, folder)
    cluster = folder / "cluster" / "0.jsonl"
    cluster.write_bytes(b"".join(cluster.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(InputError, match="no node is there"):
        play_on(await history(None, folder), AS_RECORDED, 0)


@pytest.mark.long
async def test_what_is_not_known_is_guessed_and_the_guess_varies(tmp_path: Path) -> None:
    """After the recording's end, job ends are guessed; each seed guesses differently, and the same seed the same."""
    folder = tmp_path / "cut"
    shutil.copytree(GOLDEN, folder)
    for file in folder.rglob("*.jsonl"):
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[: len(lines) // 2 + 1]))
    makespans = [play_on(await history(None, folder), AS_RECORDED, seed).summary().makespan for seed in (0, 1, 2, 3, 1)]
    said = play_on(await history(None, folder), AS_RECORDED, 0).assumptions

    assert any("guessed from fitted curves" in one for one in said)
    assert len(set(makespans[:4])) > 1
    assert makespans[1] == makespans[4]


async def test_a_gang_plays_on() -> None:
    """Its replicas train together, and the more urgent gang ends first, as it did."""
    gangs = GOLDEN.parent / "gangs"
    submitted = [one.offset for one in await recorded(gangs) if isinstance(one.event, c.JobSubmitted)]
    result = play_on(await history(submitted[0], gangs), AS_RECORDED, 0)
    ends = {job.name: job.end_s or 0.0 for job in result.jobs}

    assert {job.outcome for job in result.jobs} == {"finished"}
    assert 0 < ends["urgent"] < ends["gang"]


@pytest.mark.parametrize("recording", ["gangs", "preemptions", "steepest"])
async def test_what_was_suspended_in_the_past_resumes_and_ends(recording: str) -> None:
    """From the checkpoint that it had saved, gangs with all their replicas; so do gangs that ran at the position."""
    folder = GOLDEN.parent / recording
    suspended = [one.offset for one in await recorded(folder) if isinstance(one.event, c.JobSuspended)]
    assert suspended
    for offset in suspended:
        result = play_on(await history(offset + 1, folder), AS_RECORDED, 0)
        assert {job.outcome for job in result.jobs} == {"finished"}


@pytest.mark.parametrize(
    ("use", "demand_m"),
    [
        (CpuUse(most_m=300, most_on="n1", node_m=300), 300),
        (CpuUse(most_m=300, most_on="n1", node_m=600), 1000),
        (CpuUse(most_m=300, most_on="n1", node_m=300, was_limited=True), 1000),
        (CpuUse(most_m=300, most_on="n1", node_m=300, replicas=2), 150),
        (CpuUse(), 1000),
    ],
    ids=["node with room", "full node", "limited", "two replicas", "never seen"],
)
async def test_a_steps_cost_is_the_cpu_time_that_the_recording_names(use: CpuUse, demand_m: int) -> None:
    """Without what a process used before its first step, however much its node had for it, and with the stated total."""
    work = ReplicaWork()
    for step, cpu_ms in ((10, 500), (110, 1500), (120, 1500)):
        work.add(step, cpu_ms)
    pool = await history(1)
    pool.gives_m["n1"] = 600
    pool.seen["a"] = JobObservations(
        reports=[(1, 1, 10, 2.0), (2, 1, 120, 1.0)], work={(1, 0): work}, use=use, total=120, finished=True
    )
    model = future("a", pool, 0).model

    assert (model.demand_m, model.total, model.steps) == (demand_m, 120, 120)
    assert model.step_s * demand_m == pytest.approx(10)


async def test_a_job_that_does_not_end_in_the_recording_ends_at_the_total_that_it_states() -> None:
    """Its curve says nothing better, and every seed says the same."""
    pool = await history(1)
    pool.seen["a"] = JobObservations(reports=[(1, 1, 10, 2.0), (2, 1, 20, 1.0)], total=500)
    pool.start.at_ms = 10

    assert [future("a", pool, seed).model.steps for seed in (0, 1)] == [500, 500]
    assert future("a", pool, 0).known


@pytest.mark.parametrize("position", [0, -1, 10**9])
async def test_a_position_that_is_none_is_refused(position: int) -> None:
    """The message gives the valid range."""
    with pytest.raises(InputError, match="positions are 1 to"):
        await history(position)


async def test_the_end_of_a_finished_recording_has_nothing_to_play() -> None:
    """At its end all jobs have ended."""
    with pytest.raises(InputError, match="no job is left"):
        play_on(await history(None), AS_RECORDED, 0)
